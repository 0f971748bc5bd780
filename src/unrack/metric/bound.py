"""What no policy could beat: the fewest missed deadlines, and the least mean response, of a workload on a cluster.

The cluster is relaxed to a fat node: all cores, and all devices of a kind, in one place that every job reaches, without
latency or overhead; jobs may be interrupted and spread at will, and each runs as fast, or as cheaply, as its deadline
and the models allow. Of each resource (below) a job on time must spend its least between submission and deadline; how
many jobs that allows is bounded by :func:`unrack.solver.late.fewest_late`.

Each *resource* is counted so that no schedule ever holds more of it than the cluster has:

``cores``, ``memory``
    Cores, or memory, of all tasks, for the fastest run; no memory where jobs may hold less of it than they ask for, as
    it is known what they use.
``cores in pieces of 6``
    Cores of all tasks, where those that cannot be used beside a task count as its own (:mod:`unrack.solver.late`).
``cores in reach of nvme``
    The same of the jobs that ask for the kind, on the nodes that can reach it; only where some nodes cannot.
``nvme.capacity_mb``
    The amount asked, for the fastest run; nothing if a model governs the quantity.
``nvme by capacity_mb``
    Devices. A modelled job counts as d/k of them while it is one of k on a composition of d: all that share sum to d.
    Its least device x time follows from the speeds of the modes (d, k) and from how long it may take. An unmodelled
    job shares with unmodelled jobs only and counts as amount / capacity of a device, by one quantity: the fractions of
    any one quantity sum to no more than the devices, the larger of two quantities would not. A part of a device that
    is split for the job counts as a part.
``nvme by sharers``
    The same, an unmodelled job counting as 1/share of the fewest devices that hold it; where pools limit sharing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unrack.cluster.pools.pool import UNLIMITED, Pace, Pool, no_pace
from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.solver.late import fewest_late, in_pieces, least_response, telling_pieces
from unrack.solver.mode import cheapest
from unrack.units import NEVER_US, SECOND_US
from unrack.workload.job import JobTable

SLIP_US = 1
"""How much sooner than its speed says a job may end by rounding, when its speed changes."""


@dataclass(frozen=True)
class Bound:
    """What no policy could beat.

    Attributes
    ----------
    jobs
        How many jobs were counted.
    late
        At least so many of them miss their deadline.
    certain
        How many of those would miss it even alone.
    late_by_resource
        Resource → how many of the others must miss it because of that resource alone; ``late`` takes the largest.
    response_s
        The least mean response time if all the jobs that fit the cluster run; ``None`` without such jobs.
    """

    jobs: int
    late: int
    certain: int
    late_by_resource: Mapping[str, int]
    response_s: float | None

    @property
    def share(self) -> float | None:
        """Part of the jobs counted that must miss their deadline, 0 to 1; ``None`` without jobs."""
        return self.late / self.jobs if self.jobs else None


def bound(
    cluster: Cluster,
    jobs: JobTable,
    fastest_us: Ints,
    pace: Pace | None = None,
    *,
    window_us: tuple[int, int] | None = None,
    at_once: bool = True,
) -> Bound:
    """The fewest missed deadlines and the least mean response that any policy could reach.

    Parameters
    ----------
    fastest_us : int64[jobs]
        Run time at the best speed that the hardware and the models allow.
    pace
        The models' speeds, as the run has them; ``None``: every job runs its base time.
    window_us
        Count only the jobs submitted in this window (both ends included). The others may be put off, so the bound on
        the jobs of the window alone holds.
    at_once
        Jobs come when they are submitted; else some wait for others or for a time, and respond from then on.
    """
    work = jobs.left_us
    pace = no_pace(cluster.devices, len(jobs)) if pace is None else pace
    if window_us is not None:
        rows = np.flatnonzero((jobs.submit_us >= window_us[0]) & (jobs.submit_us <= window_us[1]))
        jobs, work, fastest_us = jobs.take(rows), work[rows], fastest_us[rows]
        pace = pace._replace(model=np.ascontiguousarray(pace.model[:, rows]))
    fastest = np.where((pace.model >= 0).any(axis=0), np.maximum(fastest_us - SLIP_US, 0), fastest_us)
    limit = np.where(jobs.deadline_us < 0, np.inf, jobs.deadline_us - jobs.submit_us + float(SLIP_US))
    strict = resources(cluster, jobs, work, fastest, pace, limit)
    found = fewest_late(jobs.submit_us, jobs.deadline_us, fastest, strict.energy, strict.capacity)
    late = {name: int(count) for name, count in zip(strict.names, found.by_resource, strict=True)}
    patient = resources(cluster, jobs, work, fastest, pace)
    fits = np.isfinite(patient.energy).all(axis=0) & ~jobs.standing.runs  # of which no response is known
    response = float(fastest[fits].sum(dtype=np.float64))
    for energy, capacity in zip(patient.energy, patient.capacity, strict=True) if at_once else ():
        response = max(response, least_response(jobs.submit_us[fits], energy[fits] / capacity))
    mean = response / int(fits.sum()) / SECOND_US if fits.any() else None
    return Bound(len(jobs), found.total, found.certain, late, mean)


PIECES = 8
"""In the pieces of how many of the sizes asked for most cores are counted."""


@dataclass(frozen=True)
class Resources:
    """What jobs must at least spend of what there is."""

    names: tuple[str, ...]  # of the resources, as in the module's text
    # float64[resources, jobs]: least amount x µs that a job spends if it is on time; infinite if the cluster can
    # never hold it
    energy: Floats
    capacity: Floats  # float64[resources]: amount there is


def resources(
    cluster: Cluster, jobs: JobTable, work_us: Ints, fastest_us: Ints, pace: Pace, limit_us: Floats | None = None
) -> Resources:
    """The resources of the module's text, with what each job must spend of them.

    ``work_us``, ``fastest_us``: int64[jobs], what jobs have to do, µs at speed 1, and the least time they run;
    ``limit_us``: float64[jobs], the longest that each may run; default: as long as it likes.
    """
    run = fastest_us.astype(np.float64)
    tasks = jobs.tasks.astype(np.float64)
    rows: dict[str, tuple[Floats, float]] = dict(_cores("cores", cluster.cores, jobs.cores, tasks * run))
    if cluster.total_mb and jobs.usage is None:
        rows["memory"] = tasks * jobs.memory_mb * run, float(cluster.total_mb)
    work = work_us.astype(np.float64)
    limit = np.full(len(jobs), np.inf) if limit_us is None else limit_us
    devices = cluster.devices
    for i, kind in enumerate(devices.kinds):
        names = devices.quantities[i]
        asks = np.array([jobs.devices.get((kind, name), np.zeros(len(jobs), np.int64)) for name in names])
        needs, model = (asks > 0).any(axis=0), pace.model[i]
        if not needs.any():
            continue
        modelled = needs & (model >= 0)
        pools = [pool for pool in devices.pools if pool.kind == kind]
        reached = devices.reach[[pool.kind == kind for pool in devices.pools]].any(axis=0)
        if not reached.all():
            rows |= _cores(f"cores in reach of {kind}", cluster.cores[reached], jobs.cores, tasks * run * needs)
        for q, name in enumerate(names):
            hard = np.array(needs)
            hard[modelled] = ~pace.governed[model[modelled], q]
            held = np.where(hard, tasks * asks[q] * run, 0.0)
            rows[f"{kind}.{name}"] = held, float(devices.installed(kind, name))
        asked = [_Asked(pool, devices.capacity[: len(names), pool.first], asks) for pool in pools]
        models = [(m, np.flatnonzero(modelled & (model == m))) for m in np.unique(model[modelled]).tolist()]
        modes = [(mine, *_modes(asked, mine, pace, m)) for m, mine in models]
        count = float(sum(pool.count for pool in pools))
        for name, share in _shares(asked, names, tasks).items():
            with np.errstate(invalid="ignore"):  # a job of no length that no pool can hold
                energy = np.where(needs, share, 0.0) * run
            for mine, speed, held, which in modes:
                energy[mine] = cheapest(work[mine], limit[mine], speed, held, which)
            rows[f"{kind} by {name}"] = energy, count
    energies, capacities = zip(*rows.values(), strict=True)
    return Resources(tuple(rows), np.array(energies), np.array(capacities))


def _cores(name: str, installed: Ints, cores: Ints, run: Floats) -> dict[str, tuple[Floats, float]]:
    """Cores of some nodes, as they are and in pieces; ``run``: tasks x µs of the jobs that are held to these nodes."""
    whole = int(installed.max(initial=0))
    found = {name: (np.where((cores > whole) & (run > 0), np.inf, cores * run), float(installed.sum()))}
    asked = np.minimum(cores, whole)
    for piece in telling_pieces(asked, asked * run, whole, PIECES):
        held = in_pieces(asked, whole, piece) * run
        found[f"{name} in pieces of {piece}"] = held, float(in_pieces(installed, whole, piece).sum())
    return found


@dataclass(frozen=True, eq=False)
class _Asked:
    """A pool, int64[quantities] ``capacity`` of each device, and int64[quantities, jobs] ``asks`` of it, per task."""

    pool: Pool
    capacity: Ints
    asks: Ints

    def fewest(self, hard: Bools) -> Floats:
        """float64[jobs]: fewest devices that hold a task's hard quantities; infinite if none do."""
        need = np.ones(self.asks.shape[1])
        for q in np.flatnonzero(hard).tolist():
            capacity = int(self.capacity[q])
            enough = -(-self.asks[q] // capacity) if capacity else np.where(self.asks[q] > 0, NEVER_US, 1)
            need = np.maximum(need, enough)
        return np.where(need <= self.pool.compose, need, np.inf)

    def parts(self) -> Floats:
        """float64[jobs]: the most parts of a split device of which each holds a task; 0: none does."""
        most = np.full(self.asks.shape[1], float(self.pool.split))
        for q in range(len(self.capacity)):
            most = np.minimum(most, int(self.capacity[q]) // np.maximum(self.asks[q], 1))
        return most

    def by_amount(self, q: int, tasks: Floats) -> Floats:
        """float64[jobs]: devices that an unmodelled job counts as, by quantity q."""
        if self.pool.split > 1:
            return _inverse(self.parts())
        share = tasks * self.asks[q] / max(int(self.capacity[q]), 1)
        return np.where(np.isfinite(self.fewest(np.ones(len(self.capacity), np.bool_))), share, np.inf)

    def by_sharers(self) -> Floats:
        """float64[jobs]: devices that an unmodelled job counts as, by how many jobs may share."""
        if self.pool.split > 1:
            return _inverse(self.parts())
        return self.fewest(np.ones(len(self.capacity), np.bool_)) / self.pool.share


def _shares(asked: list[_Asked], names: tuple[str, ...], tasks: Floats) -> dict[str, Floats]:
    """Ways to count unmodelled jobs: name → float64[jobs], the fewest devices that each counts as in any pool."""
    shares = {name: np.min([one.by_amount(q, tasks) for one in asked], axis=0) for q, name in enumerate(names)}
    if all(one.pool.share < UNLIMITED for one in asked):
        shares["sharers"] = np.min([one.by_sharers() for one in asked], axis=0)
    return shares


def _inverse(parts: Floats) -> Floats:
    return np.where(parts > 0, 1 / np.maximum(parts, 1), np.inf)


def _modes(asked: list[_Asked], rows: Ints, pace: Pace, model: int) -> tuple[Floats, Floats, Ints]:
    """Modes of modelled jobs: float64[modes] speeds, float64[modes, classes] devices a job counts as, and its class."""
    speeds = pace.speeds[model]
    last = len(speeds) - 1
    while last > 1 and np.array_equal(speeds[last], speeds[last - 1]):
        last -= 1  # more devices are no faster, as beyond the table
    speeds = speeds[1 : last + 1, 1:]
    d, k = np.arange(1.0, last + 1)[:, None, None], np.arange(1.0, speeds.shape[1] + 1)[None, :, None]
    limits = [
        (one.fewest(~pace.governed[model, : len(one.capacity)])[rows], one.parts()[rows]) for one in asked
    ]  # of each pool: fewest devices, most parts
    kinds, which = np.unique(np.array(limits).reshape(-1, len(rows)), axis=1, return_inverse=True)
    held = np.full((*speeds.shape, kinds.shape[1]), np.inf)
    for one, need, parts in zip(asked, kinds[::2], kinds[1::2], strict=True):
        count = np.where(need <= d, d, np.where(d == last, need, np.inf))
        if one.pool.split > 1:
            count = np.where(k <= parts, d, np.inf)
        held = np.minimum(held, np.where((d <= one.pool.compose) & (k <= one.pool.share), count / k, np.inf))
    held[speeds <= 0] = np.inf
    if pace.frozen[model]:  # one that began alone stays as fast, however many join
        held = np.repeat(held.min(axis=1, keepdims=True), speeds.shape[1], axis=1)
    admitted = speeds > 0
    return speeds[admitted], held[admitted], which.reshape(-1).astype(np.int64)
