"""Which running jobs grow into what is idle, and which shrink so that the first of those that wait can start.

Waiting jobs go before growth (PWA of Buisson, Sonmez, Mohamed, Lammers and Epema 2007): no job grows while another
waits. ``fpsma`` (favour previously started malleable applications): the first to have started grows first, as far as
that makes it end earlier; the last to have started shrinks first, as far as needed. ``egs`` (equi-grow and shrink): the
job with fewest tasks grows by one size at a time, the one with most shrinks by one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from math import ceil
from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.columns import ASKED_TASKS, CPU
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS, Lease, by_node, in_runs
from unrack.resources.places import AMOUNT, PLACE
from unrack.view import Draft, View
from unrack.view.windows import outside_windows


class Shape(NamedTuple):
    """What jobs have in common of which as many tasks fit."""

    cores: int
    mb: int
    nodes: int  # the number of the set of nodes on which they may run


def fits_on(free: Ints, total: Ints, shape: Shape, whole: bool) -> Ints:
    """int64[nodes]: how many tasks fit on each; ``whole``: a node serves one job at a time."""
    usable = (total[0] > 0) & ((free[0] >= total[0]) if whole else True)
    fit = np.minimum(
        free[0] // shape.cores if shape.cores else np.int64(2**31), free[1] // shape.mb if shape.mb else np.int64(2**31)
    )
    return np.where(usable, np.maximum(fit, 0), 0)


class Openings:
    """At one moment; nothing is counted that starts later.

    ``view``: of the ledger; ``now``: the moment, µs; a job that is overdue is taken to end 1 µs later; ``whole``:
    whether a node serves one job at a time.
    """

    def __init__(self, view: View, now: int, whole: bool) -> None:
        self._view, self._now, self._whole = view, now, whole
        self._known: dict[Shape, tuple[Ints, Ints]] = {}

    def shape(self, job: int) -> Shape:
        """Of a job."""
        columns = self._view.columns
        _, cores, mb, _ = columns.asks[:, job].tolist()
        return Shape(cores, mb, int(columns.set_of[job]))

    def installed(self, shape: Shape) -> int:
        """How many tasks fit on what is in service if no job runs."""
        total = np.where(self._view.online, self._view.columns.open_to[shape.nodes], 0)
        return int(fits_on(total, total, shape, self._whole).sum())

    def starts_us(self, shape: Shape, tasks: Ints) -> Ints:
        """int64[k]: when so many tasks (int64[k]) fit at first; -1: not even when all that run have ended."""
        if shape not in self._known:
            self._known[shape] = self._levels(shape)
        times, room = self._known[shape]
        at = np.searchsorted(room, tasks)
        return np.where(at < len(room), times[np.minimum(at, len(room) - 1)], -1)

    def _levels(self, shape: Shape) -> tuple[Ints, Ints]:
        """The moments, and how many tasks fit from each on: rising."""
        total, draft = self._view.columns.open_to[shape.nodes], Draft(self._view, self._now)
        times, room, end = list[int](), list[int](), self._now
        while True:
            free = np.where((total[0] > 0) & draft.view.online, draft.view.free, 0)
            fit = int(fits_on(free, total, shape, self._whole).sum())
            if not room or fit > room[-1]:
                times.append(end)
                room.append(fit)
            if (following := draft.next_end_us()) is None:
                return np.array(times, np.int64), np.array(room, np.int64)
            end = following
            draft.move_on(end)


class Scene(NamedTuple):
    """What sizes of running jobs are decided by, at a time."""

    now: int
    nodes: Ints  # int64[3, nodes]: free cores and MB, and 1 if the node is in service
    claims: Ints  # int64[places]: what is free
    # each job that waits or runs, the tasks that it asks for and wants (0: as many), its booked end, µs (0: it waits)
    jobs: frozenset[tuple[int, int, int, int]]

    @staticmethod
    def of(view: View, now: int) -> Scene:
        """As it is."""
        jobs, claimed = np.concatenate([view.running_jobs, view.queue]), view.columns.claimed
        ends = [*view.running_end_us.tolist(), *[0] * len(view.queue)]
        wanted = [view.wanted.get(job, 0) for job in jobs.tolist()]
        present = zip(jobs.tolist(), view.asks[ASKED_TASKS, jobs].tolist(), wanted, ends, strict=True)
        claims = np.zeros(0, np.int64) if claimed is None else claimed.free.copy()
        return Scene(now, np.vstack([view.free, view.online]), claims, frozenset(present))


def stirred(view: View, before: Scene | None, now: int) -> Bools:
    """bool[jobs]: on whose nodes, or in what they claim, anything has changed since.

    Elsewhere no size changes, however often it is asked: what happens on other nodes brings rounds, too.
    """
    columns = view.columns
    if before is None:
        return np.ones(columns.asks.shape[1], np.bool_)
    after, open_to, of = Scene.of(view, now), columns.open_to[:, 0] > 0, columns.set_of
    changed = (before.nodes != after.nodes).any(axis=0)
    for window in view.cluster.places.windows:
        if before.now < window.start_us <= now or before.now < window.end_us <= now:
            changed |= window.nodes
    for job, *_ in sorted(before.jobs ^ after.jobs):
        changed |= open_to[of[job]]
    found: Bools = np.asarray((open_to & changed).any(axis=1)[of])
    if columns.claimed is not None and not np.array_equal(before.claims, after.claims):
        for job, *_ in sorted(after.jobs):
            found[job] |= columns.claimed.asks(job)
    return found


FPSMA, EGS = RULES = ("fpsma", "egs")


class Trial:
    """What would be free if some running jobs had other sizes; the ledger itself does not change.

    ``view``: of the ledger; ``now``: the time, µs; ``whole``: whether a node serves one job at a time.
    """

    def __init__(self, view: View, now: int, whole: bool) -> None:
        self.view, self.now, self.whole = view, now, whole
        self.free = view.free.copy()
        claimed = view.columns.claimed
        self.claims = None if claimed is None else claimed.free.copy()
        self.leases: dict[int, Lease] = {}  # those that changed
        self._shapes = Openings(view, now, whole)

    def copy(self) -> Trial:
        """The same, to try more."""
        found = copy(self)
        found.free, found.leases = self.free.copy(), dict(self.leases)
        found.claims = None if self.claims is None else self.claims.copy()
        return found

    def tasks(self, job: int) -> int:
        """How many tasks a running job has here."""
        return self.lease(job).tasks

    def lease(self, job: int) -> Lease:
        """What a running job holds here."""
        return self.leases[job] if job in self.leases else self.view.lease(job)

    def room(self, job: int, until: int | None = None) -> int:
        """How many more tasks of a job fit on the nodes that it may use until a time, µs."""
        return int(self._fit(job, until).sum())

    def shrink(self, job: int, tasks: int) -> bool:
        """As :meth:`resize`; also False if its nodes are kept for others before it would end."""
        until = end_with(self.view, job, tasks, self.now)
        return bool(outside_windows(self.view, job, until)[self.lease(job).nodes].all()) and self.resize(job, tasks)

    def left_for(self, job: int, tasks: int) -> bool:
        """Whether what so many tasks of a waiting job claim beside nodes is free; not if the nodes decide that."""
        claimed = self.view.columns.claimed
        if claimed is None or self.claims is None or not claimed.asks(job):
            return True
        full = -(-self.view.total[CPU] // max(1, self._shapes.shape(job).cores))  # of what is ample all find enough
        found = claimed.places.anywhere(claimed.asked(job), tasks, full=full)
        return found is not None and bool((found[:, AMOUNT] <= self.claims[found[:, PLACE]]).all())

    def resize(self, job: int, tasks: int) -> bool:
        """Let a running job have so many tasks; False: there is no room, and nothing has changed."""
        before, shape = self.lease(job), self._shapes.shape(job)
        own, more = by_node(before.rows), tasks - before.tasks
        rows = self._grown(job, own, shape, more) if more > 0 else _shrunk(own, shape, -more, self.whole)
        if rows is None:
            return False
        lease = before._replace(rows=in_runs(rows))
        if self.claims is not None:
            claims = self._claims(job, before, rows)
            if claims is None:
                return False
            self.claims[before.claims[:, PLACE]] += before.claims[:, AMOUNT]
            self.claims[claims[:, PLACE]] -= claims[:, AMOUNT]
            lease = lease._replace(claims=claims)
        self.free[:, own[:, FIRST]] += own[:, (CORES, LOCAL_MB)].T
        self.free[:, rows[:, FIRST]] -= rows[:, (CORES, LOCAL_MB)].T
        self.leases[job] = lease
        return True

    def _fit(self, job: int, until: int | None = None) -> Ints:
        shape = self._shapes.shape(job)
        may: Bools = outside_windows(self.view, job, until) & self.view.online
        return np.where(may, fits_on(self.free, self.view.columns.open_to[shape.nodes], shape, self.whole), 0)

    def _grown(self, job: int, rows: Ints, shape: Shape, more: int) -> Ints | None:
        """With tasks on the first nodes that have room for them."""
        fit, total = self._fit(job), self.view.total
        before = np.cumsum(fit) - fit
        taken = np.clip(more - before, 0, fit)
        if int(taken.sum()) < more:
            return None
        nodes = np.flatnonzero(taken)
        added = np.zeros((len(nodes), 5), np.int64)
        added[:, FIRST], added[:, NODES], added[:, TASKS] = nodes, 1, taken[nodes]
        added[:, CORES] = total[0, nodes] if self.whole else taken[nodes] * shape.cores
        added[:, LOCAL_MB] = taken[nodes] * shape.mb
        return by_node(np.concatenate([rows, added]))

    def _claims(self, job: int, before: Lease, rows: Ints) -> Ints | None:
        """What a job claims with these rows, if that is free; ``None``: it is not."""
        claimed = self.view.columns.claimed
        if claimed is None or self.claims is None or not claimed.asks(job):
            return before.claims
        free = self.claims.copy()
        free[before.claims[:, PLACE]] += before.claims[:, AMOUNT]
        asked, nodes, tasks = claimed.asked(job), rows[:, FIRST], rows[:, TASKS]
        found = claimed.places.claims(asked, nodes, tasks, free)
        fits = bool((found[:, AMOUNT] <= free[found[:, PLACE]]).all())
        return found if fits and claimed.places.agree(asked, nodes, tasks, found) else None


def _shrunk(rows: Ints, shape: Shape, fewer: int, whole: bool) -> Ints:
    """Without tasks on the last nodes."""
    rows = rows.copy()
    behind = np.cumsum(rows[::-1, TASKS])[::-1] - rows[:, TASKS]
    gone = np.clip(fewer - behind, 0, rows[:, TASKS])
    rows[:, TASKS] -= gone
    rows[:, LOCAL_MB] -= gone * shape.mb
    if not whole:
        rows[:, CORES] -= gone * shape.cores
    return rows[rows[:, TASKS] > 0]


def grown(trial: Trial, jobs: Sequence[int], rule: str, started: Mapping[int, int]) -> None:
    """Let jobs that may change grow into what is idle."""
    view = trial.view
    if rule == FPSMA:
        for job in sorted(jobs, key=lambda one: (started.get(one, 0), one)):
            _grow(trial, job, [n for n in view.sizes[job].tasks if n > trial.tasks(job)])
        return
    left = list(jobs)
    while left:
        job = min(left, key=lambda one: (trial.tasks(one), one))
        larger = [n for n in view.sizes[job].tasks if n > trial.tasks(job)]
        if not _grow(trial, job, larger[:1]):
            left.remove(job)


def _grow(trial: Trial, job: int, larger: Sequence[int]) -> bool:
    """Give a job that of the larger sizes for which there is room and with which it ends first; whether it ends sooner.

    Sizes are left out if there is no room for what they claim.
    """
    held = trial.tasks(job)
    room, end = trial.room(job) + held, end_with(trial.view, job, held, trial.now)
    ends = sorted((end_with(trial.view, job, n, trial.now), n) for n in larger if n <= room)
    return any(sooner < end and trial.resize(job, n) for sooner, n in ends)


def end_with(view: View, job: int, tasks: int, now: int) -> int:
    """When a running job would be booked to end if it had so many tasks from now (µs) on."""
    end = int(view.running_end_us[np.flatnonzero(view.running_jobs == job)[0]])
    sizes, held = view.sizes[job], int(view.asks[ASKED_TASKS, job])
    if tasks == held:
        return end
    return now + ceil(max(0, end - now) * (sizes.speed_at(held) / sizes.speed_at(tasks))) + view.change_us(job)


def shrunk(
    trial: Trial, jobs: Sequence[int], rule: str, started: Mapping[int, int], head: int, tasks: int, until: int
) -> bool:
    """Let jobs shrink until so many tasks of a waiting one fit, which is to run until a time, µs.

    False: they do not, whichever shrink. Only jobs on nodes that it may use are asked.
    """
    view = trial.view
    open_to = view.columns.open_to[view.columns.set_of[head], 0] > 0
    left = [job for job in jobs if open_to[trial.lease(job).nodes].any()]
    while trial.room(head, until) < tasks:
        smaller = {job: [n for n in view.sizes[job].tasks if n < trial.tasks(job)] for job in left}
        left = [job for job in left if smaller[job]]
        if not left:
            return False
        if rule == FPSMA:
            job = max(left, key=lambda one: (started.get(one, 0), one))
        else:
            job = max(left, key=lambda one: (trial.tasks(one), one))
        if not trial.shrink(job, smaller[job][-1]):
            left.remove(job)
    return True
