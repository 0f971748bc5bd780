"""A history played again under its site's own rules: how far the starts agree, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.resources.contract import Nodes
from unrack.resources.site.installed import Site
from unrack.resources.site.told.partitions import masks_of, partitions_of
from unrack.resources.use import Kept
from unrack.sim.log import RunLog
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.steps import held_between, means
from unrack.study.history.cause import Reserved, Starts
from unrack.units import SECOND_US
from unrack.workload.job import ESTIMATE, JobTable, Workload
from unrack.workload.site.graph import After, graph_of
from unrack.workload.site.settled import said_by

MOST_JOBS = 5_000
"""Of more, the first are compared: pairs are many."""


def swapped(real: Ints, told: Ints) -> tuple[Ints, Ints]:
    """The pairs in another order, by their places: which was first, which second.

    ``real``: int64[jobs], when they really started; does not fall; ``told``: int64[jobs], when they started in a
    simulation; -1: they did not.

    Examples
    --------
    >>> [places.tolist() for places in swapped(np.array([0, 5, 9]), np.array([3, 8, 0]))]
    [[0, 1], [2, 2]]
    """
    first, second = [], []
    for place in range(len(real)):
        behind = np.flatnonzero((real[place + 1 :] > real[place]) & (told[place + 1 :] < told[place])) + place + 1
        behind = behind[told[behind] >= 0]
        first.append(np.full(len(behind), place, np.int64))
        second.append(behind)
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *first]), np.concatenate([none, *second])


def in_other_turns(real: Ints) -> int:
    """How many pairs did not really start at the same time; ``real`` does not fall."""
    return sum(int((real[place + 1 :] != real[place]).sum()) for place in range(len(real)))


WAIT = "log_wait_s"
"""The column of jobs with the waits that really were, s."""
MOST_CAUSES, TOP, PIECES = 1_000, 10, 24
EVERYWHERE = "(all nodes)"


class WaitTimes(NamedTuple):
    """Waits of some jobs from their submission on, s: real ones, and simulated ones."""

    jobs: int
    agree: float  # the share of jobs with starts no further apart than is tolerated
    real_mean_s: float
    simulated_mean_s: float
    real_median_s: float
    simulated_median_s: float
    real_p95_s: float
    simulated_p95_s: float


class Different(NamedTuple):
    """A job that started at another time."""

    job: str
    user: str
    partition: str
    submit_s: float
    real_wait_s: float
    simulated_wait_s: float
    cause: str
    words: str  # what was found


class Check(NamedTuple):
    """What :func:`check_history` found."""

    policy: str
    jobs: int
    left_out: int  # rows of the log that could not be read as jobs
    unknown: int  # jobs whose real start is not known, or before they came
    waits: WaitTimes  # of those that started in both
    partitions: dict[str, WaitTimes]
    users: dict[str, WaitTimes]  # those with the most different waits in all
    correlation: float | None  # of the waits
    rank_correlation: float | None
    pairs: int  # of the first 5,000 jobs: how many did not start at the same time
    swapped: int  # how many of these started the other way round
    used_real: float  # the share of the cores that was in use until the last job really ended
    used_simulated: float
    over_time: list[tuple[float, float, float]]  # from when on (s), and these shares in this piece of the time
    looked_at: int  # of how many jobs the causes are known: those with the starts furthest apart
    causes: dict[str, tuple[int, float]]  # cause → jobs, and hours by which their starts are apart
    different: list[Different]  # those furthest apart
    not_started: dict[str, int]  # why jobs did not start in the simulation → how many
    notes: tuple[str, ...]


def check_history(
    cluster: Cluster,
    workload: Workload,
    policy: str = "slurm",
    tolerance_us: int = 60 * SECOND_US,
    progress: Callable[[int, int], None] | None = None,
) -> Check:
    """Simulate the jobs of a trace and compare their starts with those that really were.

    An InputError if the trace does not know when its jobs started.

    Parameters
    ----------
    cluster
        With a ``site`` to be checked for its rules; without one a trace is held against its nodes alone.
    workload
        Jobs of a trace that knows their waits, in the column ``log_wait_s``: SWF, sacct and logs of PBS do.
    policy
        As of :func:`unrack.simulate`.
    tolerance_us
        How far apart starts may be and still agree.
    progress
        As of :func:`unrack.simulate`.
    """
    jobs = workload.jobs
    if WAIT not in jobs.extra.columns or jobs.extra[WAIT].null_count() == len(jobs):
        wanted = f"a trace that says how long jobs waited: SWF, sacct, PBS, or {WAIT}"
        raise InputError(workload.name, "no job whose wait is known", wanted)
    result = simulate(cluster, workload, policy, progress=progress)
    frame, starts, names = _starts(result)
    both = ~np.isnan(starts.real) & ~np.isnan(starts.told)
    tolerance_s = tolerance_us / SECOND_US
    apart = np.where(both, np.abs(starts.real - starts.told), -1.0)
    users = frame["user"].fill_null("(not known)").to_list()

    def waits(which: Any) -> WaitTimes:
        own = which & both
        if not own.any():
            return WaitTimes(0, 1.0, *[0.0] * 6)
        values = [(some - starts.submit)[own] for some in (starts.real, starts.told)]
        told = [float(of(one)) for of in (np.mean, np.median, _p95) for one in values]
        return WaitTimes(int(own.sum()), float((apart[own] <= tolerance_s).mean()), *told)

    of_user, of_partition = np.array(users), np.array(names)[starts.partition]
    hours = pl.DataFrame({"user": users, "apart": np.maximum(apart, 0.0)}).group_by("user").sum()
    top = hours.sort("apart", "user", descending=[True, False])["user"].head(TOP).to_list()
    worst = [job for job in np.argsort(-apart, kind="stable")[:MOST_CAUSES].tolist() if apart[job] > tolerance_s]
    causes, different = dict[str, tuple[int, float]](), list[Different]()
    for job in worst:
        cause, words = starts.cause(job, tolerance_s)
        count, total = causes.get(cause, (0, 0.0))
        causes[cause] = count + 1, total + float(apart[job]) / 3600
        real, told = (float(one[job] - starts.submit[job]) for one in (starts.real, starts.told))
        different.append(Different(starts.ids[job], users[job], str(of_partition[job]), float(starts.submit[job]),
                                   real, told, str(cause), words))  # fmt: skip
    lost = frame.filter(pl.Series(~np.isnan(starts.real) & np.isnan(starts.told)))["reason"]
    reasons = lost.str.replace_all(r" \([^()]*\)$", "").value_counts(sort=True, name="jobs")
    linear, by_rank = _correlations((starts.real - starts.submit)[both], (starts.told - starts.submit)[both])
    pairs, other_way = _order(starts.real[both], starts.told[both])
    used_real, used_simulated, over_time = _use(cluster, starts)
    return Check(
        policy=result.policy, jobs=len(jobs), left_out=workload.intake.read - workload.intake.kept,
        unknown=int(np.isnan(starts.real).sum()), waits=waits(both),
        partitions={name: waits(of_partition == name) for name in names if (both & (of_partition == name)).any()},
        users={name: waits(of_user == name) for name in top if (both & (of_user == name)).any()},
        correlation=linear, rank_correlation=by_rank, pairs=pairs, swapped=other_way,
        used_real=used_real, used_simulated=used_simulated, over_time=over_time,
        looked_at=len(worst), causes=dict(sorted(causes.items(), key=lambda one: -one[1][1])), different=different,
        not_started=dict(reasons.iter_rows()), notes=result.notes,
    )  # fmt: skip


def _p95(values: Floats) -> float:
    return float(np.quantile(values, 0.95))


def _correlations(real: Floats, told: Floats) -> tuple[float | None, float | None]:
    frame = pl.DataFrame({"real": real, "told": told})
    found = [frame.select(pl.corr("real", "told", method=how)).item() for how in ("pearson", "spearman")]
    linear, by_rank = (None if value is None or np.isnan(value) else float(value) for value in found)
    return linear, by_rank


def _order(real: Floats, told: Floats) -> tuple[int, int]:
    order = np.argsort(real, kind="stable")[:MOST_JOBS]
    first, second = ((some[order] * SECOND_US).round().astype(np.int64) for some in (real, told))
    return in_other_turns(first), len(swapped(first, second)[0])


def _use(cluster: Cluster, starts: Starts) -> tuple[float, float, list[tuple[float, float, float]]]:
    """The shares of the cores in use until the last job really ended, in all and piece by piece."""
    edges = np.linspace(
        starts.submit.min(), max(np.nanmax(starts.real + starts.run), starts.submit.min() + 1), PIECES + 1
    )
    shares = []
    for begin in (starts.real, starts.told):
        known = ~np.isnan(begin)
        held = {"start_s": begin[known], "end_s": (begin + starts.run)[known], "amount": starts.asks[0, known]}
        times, level = held_between(pl.DataFrame(held), float(edges[0]), float(edges[-1]))
        shares.append(means(times, level[:-1], edges) / max(cluster.total_cores, 1))
    pieces = list(zip(edges[:-1].tolist(), shares[0].tolist(), shares[1].tolist(), strict=True))
    return float(shares[0].mean()), float(shares[1].mean()), pieces


def _starts(result: Result) -> tuple[pl.DataFrame, Starts, Sequence[str]]:
    """The jobs, their starts in both histories, and the names of partitions."""
    log, frame = result.log, result.jobs
    cluster, jobs = log.cluster, log.jobs
    site = cluster.places.installed.get("site")
    written = {} if site is None else site.written()
    nodes = Nodes(cluster.cores, cluster.memory_mb, cluster.rack, cluster.rack_names)
    tables = {"jobs": frame, "placements": result.placements}
    named = partitions_of(Kept("", 0, written, {}, pl.DataFrame(), nodes, tables.__getitem__), frame)
    masks = masks_of(written, nodes) if written.get("partitions") else {}
    names = [*masks, EVERYWHERE]
    inside = np.stack([*masks.values(), cluster.cores > 0])
    numbers = {name: place for place, name in enumerate(masks)}
    submit = jobs.submit_us / SECOND_US
    real = submit + jobs.extra[WAIT].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    asks = np.stack([jobs.tasks * jobs.cores, jobs.tasks * jobs.memory_mb])
    room = np.stack([cluster.cores, cluster.memory_mb])
    if cluster.total_mb is None:
        asks, room = asks[:1], room[:1]
    starts = Starts(
        [str(one) for one in frame["job"].to_list()], submit, real, frame["start_s"].fill_null(float("nan")).to_numpy(),
        jobs.work_us / SECOND_US, np.stack([_own_word(jobs, real), log.came_us / SECOND_US]), asks,
        np.array([numbers.get(name, len(masks)) for name in named], np.int64),
        np.any(inside[:, None] & inside[None], axis=2), np.all(inside[:, None] | ~inside[None], axis=2),
        room @ inside.T, _claims(log),
        {} if site is None else {place.name: place.amount for place in site.places},
        jobs.asks[ESTIMATE] / SECOND_US, said_by(jobs, cluster).reservation, _reserved(cluster, room, inside),
    )  # fmt: skip
    return frame, starts, names


def _reserved(cluster: Cluster, room: Ints, inside: Bools) -> list[Reserved]:
    """When reservations keep whole nodes; ``inside``: bool[partitions, nodes]."""
    site = cluster.places.installed.get("site")
    if not isinstance(site, Site):
        return []
    names = {abs(number): name for name, number in site.owners.items() if not site.cores_of[name]}
    return [
        Reserved(names[one.owner], one.start_us / SECOND_US, one.end_us / SECOND_US, (room * one.nodes) @ inside.T)
        for one in cluster.places.windows
        if one.owner in names
    ]


def _claims(log: RunLog) -> pl.DataFrame:
    """What jobs, by number, held of limits."""
    places = log.cluster.places
    named = {place: places.at(place) for place in np.unique(log.claims[:, 0]).tolist()}
    held = pl.DataFrame(
        {
            "job": log.span_job[log.claim_span],
            "place": pl.Series([named[place][1].name for place in log.claims[:, 0].tolist()], dtype=pl.String),
            "of": pl.Series([named[place][0] for place in log.claims[:, 0].tolist()], dtype=pl.String),
            "amount": log.claims[:, 1],
            "start_s": log.span_start_us[log.claim_span] / SECOND_US,
            "end_s": log.span_end_us[log.claim_span] / SECOND_US,
        }
    )
    return held.filter(pl.col("of") == "site")


def _own_word(jobs: JobTable, real: Floats) -> Floats:
    """When what each job waits for by its own word had really come, s; as far as it is known."""
    found, graph = jobs.submit_us / SECOND_US, graph_of(jobs)
    if graph is None:
        return found
    found = np.maximum(found, graph.begin_us / SECOND_US)
    ended = real + jobs.work_us / SECOND_US
    for job, waits in graph.waits.items():
        for ways in waits:
            times = [(real if kind == After.START else ended)[other] + more / SECOND_US for other, kind, more in ways]
            found[job] = np.fmax(found[job], np.min(times))
    return found
