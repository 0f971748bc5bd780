"""Failures of nodes: those that studies say, those that are drawn, and windows in which nodes are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.domains import NODE
from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.core.answers import first_of
from unrack.events import CLOSE, FAIL, REPAIR, Drained, Failed, Opened, Repaired, Withdrawn
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US, SECOND_US

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel
    from unrack.sim.log import RunLog


class Failure(NamedTuple):
    """A failure that happened."""

    # domain, level: what failed, and which level of failure domains it is of (``"domain"`` for a named set)
    domain: str
    level: str
    # at_us, repaired_us: when it failed, and when it was repaired; a node that another failure keeps down comes back
    # later
    at_us: int
    repaired_us: int
    nodes: int  # in the domain
    # nodes_down, cores_down, mb_down: what went down through it: the nodes that no other failure kept down already,
    # their cores and their memory (MB; -1: not counted on some of them)
    nodes_down: int
    cores_down: int
    mb_down: int


def failure_of(
    cluster: Cluster, domain: str, at_us: int, repaired_us: int, nodes: int, falling: tuple[int, ...]
) -> Failure:
    """The record of a failure of a domain of so many nodes, of which ``falling`` went down through it."""
    ids = list(falling)
    mb = cluster.memory_mb[ids]
    counted = not (mb == UNCOUNTED_MB).any()
    return Failure(
        domain, cluster.level_of(domain), at_us, repaired_us, nodes, len(ids),
        int(cluster.cores[ids].sum()), int(mb.sum()) if counted else -1,
    )  # fmt: skip


def held_elsewhere(log: RunLog, attempt: int) -> bool:
    """Whether an attempt that a failure stopped ran on none of its nodes: it used memory or a device there."""
    failure = log.failures[int(log.attempt_failure[attempt])]
    last = log.attempt_spans[attempt + 1] - 1
    rows = log.rows[log.span_rows[last] : log.span_rows[last + 1]].astype(np.int64)
    nodes = np.array(log.cluster.domain(failure.domain), np.int64)
    return bool((first_of(nodes, rows) == NEVER_US).all())


def failures_frame(log: RunLog) -> pl.DataFrame:
    """One row a failure that happened before the run ended, in order of time; see ``docs/result-tables.md``."""
    count = len(log.failures)
    struck = np.flatnonzero(log.attempt_failure >= 0)
    of = log.attempt_failure[struck]
    _, cores, _ = log.amounts
    lost_us = np.zeros(count)
    np.add.at(lost_us, of, log.over_time(cores)[struck])
    away = np.array([held_elsewhere(log, attempt) for attempt in struck.tolist()], np.bool_)
    ids = log.jobs.ids
    order = np.argsort(of, kind="stable")
    hit = np.bincount(of, minlength=count)
    jobs = [
        ids.gather(log.attempt_job[struck[order[last - own : last]]])
        for own, last in zip(hit.tolist(), np.cumsum(hit).tolist(), strict=True)
    ]
    columns = np.array([failure[2:] for failure in log.failures], np.int64).reshape(-1, 6)
    at, repaired, nodes, nodes_down, cores_down, mb_down = columns.T
    return pl.DataFrame(
        {
            "time_s": at / SECOND_US,
            "repaired_s": repaired / SECOND_US,
            "level": pl.Series([failure.level for failure in log.failures], dtype=pl.String),
            "domain": pl.Series([failure.domain for failure in log.failures], dtype=pl.String),
            "nodes": nodes,
            "nodes_down": nodes_down,
            "cores_down": cores_down,
            "memory_mb_down": pl.Series(mb_down).replace(-1, None),
            "jobs_hit": hit,
            "jobs_hit_elsewhere": np.bincount(of[away], minlength=count),
            "core_s_lost": lost_us / SECOND_US,
            "jobs": pl.Series(jobs, dtype=pl.List(ids.dtype)),
        }
    )


class Fault(NamedTuple):
    """Nodes that go down together.

    Attributes
    ----------
    domain
        A failure domain of the cluster: a rack, a domain of another level, a named set, or ``node<id>``.
    at_us
        When, on the trace's clock.
    repair_us
        How long they are down.
    """

    domain: str
    at_us: int
    repair_us: int


def random_faults(
    cluster: Cluster, mtbf_us: int, mttr_us: int, until_us: int, seed: int, level: str = NODE
) -> tuple[Fault, ...]:
    """Independent failures of the domains of a level, with exponential times between failures and to repair.

    Parameters
    ----------
    mtbf_us, mttr_us
        Mean time between failures of one domain while it is up, and mean time to repair it.
    until_us
        No failure starts later.
    seed
        Of the generator. Every level has random numbers of its own: failures drawn for another level change nothing.
    level
        One of ``cluster.levels``: what fails as a whole.

    Raises
    ------
    ClusterError
        The cluster has no such level.

    Examples
    --------
    >>> cluster = Cluster.homogeneous(nodes=8, cores=1, nodes_per_rack=4)
    >>> hour_us = 3_600_000_000
    >>> faults = random_faults(cluster, 100 * hour_us, hour_us, 300 * hour_us, seed=3, level="rack")
    >>> [fault.domain for fault in faults]
    ['rack1', 'rack0']
    """
    entropy = seed if level == NODE else np.random.SeedSequence([seed, *level.encode()])
    random = np.random.Generator(np.random.PCG64(entropy))
    faults = []
    for domain in cluster.domain_names(level):
        at = int(random.exponential(mtbf_us))
        while at < until_us:
            repair = max(1, int(random.exponential(mttr_us)))
            faults.append(Fault(domain, at, repair))
            at += repair + max(1, int(random.exponential(mtbf_us)))
    return tuple(sorted(faults, key=lambda fault: (fault.at_us, fault.domain)))


class Outages:
    """The faults of a run; each is known by its number.

    Attributes
    ----------
    capacity
        When nodes went down or came back (µs), and the cores online since.
    """

    def __init__(self, kernel: Kernel, faults: Sequence[Fault]) -> None:
        self.kernel, self.faults = kernel, faults
        cluster = kernel.core.state.cluster
        self.capacity: list[tuple[int, int]] = []
        self._down = [0] * len(cluster)  # how many faults keep each node down
        self._domains = {name: cluster.domain(name) for name in {fault.domain for fault in faults}}
        for number, fault in enumerate(faults):
            kernel.push(fault.at_us, FAIL, number, 0)
            kernel.push(fault.at_us + fault.repair_us, REPAIR, number, 0)

    def begin(self, number: int, now: int) -> bool:
        """The nodes of a domain go down, unless they are down already for another reason."""
        fault, kernel, cluster = self.faults[number], self.kernel, self.kernel.core.state.cluster
        nodes = self._domains[fault.domain]
        falling = tuple(node for node in nodes if self._down[node] == 0)
        for node in nodes:
            self._down[node] += 1
        stopped = kernel.core.handle(Failed(falling, fault.domain), now)
        before = len(kernel.recorder.job)
        kernel.carry_out(stopped, now)
        if kernel.switched is not None:
            kernel.switched.switching.down(falling, now)
        repaired = now + fault.repair_us
        failure = failure_of(cluster, fault.domain, now, repaired, len(nodes), falling)
        kernel.recorder.failure(failure, len(kernel.recorder.job) - before)
        return self._note_capacity(now)

    def end(self, number: int, now: int) -> bool:
        """Nodes come back, unless another fault still keeps them down."""
        nodes, core = self._domains[self.faults[number].domain], self.kernel.core
        for node in nodes:
            self._down[node] -= 1
        rising = tuple(node for node in nodes if self._down[node] == 0)
        core.handle(Repaired(rising), now)
        if self.kernel.switched is not None:
            self.kernel.switched.switching.up(rising, now)
        if drained := tuple(node for node in core.state.cluster.drained if node in rising):
            core.handle(Drained(drained), now)
        return self._note_capacity(now)

    def _note_capacity(self, now: int) -> bool:
        """Record the cores online from now on; those of nodes that drain are."""
        cores = self.kernel.core.state.cluster.cores
        self.capacity.append((now, int(cores[np.array(self._down) == 0].sum())))
        return True


OPENS = 1
"""In place of a version: a window begins."""


class Windows:
    """The windows of a run's cluster; each is known by its number."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.windows = kernel.core.state.cluster.places.windows
        self.over: list[int] = []  # the owners of which the last window is over
        for number, window in enumerate(self.windows):
            kernel.push(max(window.start_us, 0), CLOSE, number, OPENS)
            kernel.push(max(window.end_us, 0), CLOSE, number, 0)

    def change(self, number: int, version: int, now: int) -> bool:
        """A window begins or is over; False: that matters to no job."""
        if version == OPENS and not self._waiting_for(self.windows[number].owner):
            return False
        self.kernel.core.handle(Opened(), now)
        if version != OPENS:
            self._close(number, now)
        return True

    def _waiting_for(self, owner: int) -> list[int]:
        """The jobs in the queue that run in windows of this owner."""
        state = self.kernel.core.state
        queue = state.queue[state.queue_start : state.queue_end]
        rows, of = state.components.spread(queue)  # each component may have windows of its own
        set_of = state.components.set_of if state.components.of else state.set_of
        return [int(job) for job in queue[np.unique(of[np.abs(state.set_owner[set_of[rows]]) == owner])]]

    def _close(self, number: int, now: int) -> None:
        """A job that waits for another window of its kind waits in vain if none comes."""
        owner = self.windows[number].owner
        if owner and not any(window.owner == owner and window.end_us > now for window in self.windows):
            self.over.append(owner)

    def drop_late(self, now: int) -> None:
        """Before a round: drop jobs that wait for windows that never come again, however long ago the last was."""
        kernel = self.kernel
        for job in [job for owner in self.over for job in self._waiting_for(owner)]:
            kernel.core.handle(
                Withdrawn(job, Reason(Code.WITHDRAWN, "no window in which it may run comes any more")), now
            )
            if kernel.graph is not None:
                kernel.graph.ended(job, now, well=False)
