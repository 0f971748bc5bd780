"""The rules for pooled devices, and their parameters.

O(devices + nodes) for a job.

Look-ahead: serve first the jobs that can still be on time, and place each job where it costs the data centre least.

unrack's own policy. It differs from the papers' disaggregation-aware policy in three things. Jobs without deadlines
come in order of submission, after all that have one and can meet it.

*Which job is next.* Of every job it knows the latest time at which it can start and still meet its deadline, at the
best speed that the models allow on free devices. Jobs that can still be on time come first, the most urgent leading;
jobs that are late already, and cannot be helped, come last. Under earliest deadline first, jobs that are late keep
their place at the head, take the devices, and make the next ones late.

*Where it goes.* All compositions in use and all new ones of every useful size compete by one cost, in core-time::

    cost = v x C x T  +  sum over those slowed down of v x cores x delay  +  w x D

T is the predicted run time. C is what the job takes of its node: its cores, or the cores of the large jobs that no
longer fit beside it, if that is more (large: the largest size that at least a tenth of the jobs so far ask). D is
device x time: the devices of a new composition for T, or of one in use for as long as the job makes it live longer. w
is what a device is worth: ``weight`` x the cores that reach its pool / the devices of the pool. v is what a core is
worth: more than 1 on nodes that reach more devices than others (see :func:`dear`). Ties go to the fullest node, then to
the lowest number. Two kinds of places are not taken: one on which another job would newly miss a deadline, and one more
share of a composition, or part of a device, that makes all jobs that share it slower together than they are without it.

*Which jobs are protected.* A composition is closed by a job that would miss its deadline only if it would not miss it
anyway.

O(devices x sharers + nodes x pools x sizes) a job tried; 0.02 ms on the papers' data centre.

References
----------
Call et al. 2022 ("Workload-aware placement"), Algorithms 1 and 2, equations 1 to 4; Call 2022 (thesis), Algorithms 3
and 4, equation 5.1. What differs: a composition in use with bandwidth that a model governs may be oversubscribed in
MB/s (the model says what that costs); quantities that are used up count as 1 in equation 2; a job that is not to be
late is one with a predicted end of at most its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

import numpy as np

from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.devices.columns import DeviceColumns
from unrack.ledger.state import REJECTED
from unrack.policy.pools.lookahead_kernel import Ahead, cheapest
from unrack.policy.pools.place_kernel import RANDOM_FIT
from unrack.policy.pools.pool_placement import RULES, TEXT, PoolNotes, PoolPlacement
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE


@dataclass(frozen=True)
class Pooled(PoolPlacement):
    """Where a job with its pooled devices goes, for ``pools`` of a list scheduler.

    Parameters
    ----------
    rule
        A name in ``RULES``, or ``"disaggregation-aware"``: max-composition or min-fragmentation, by load.
    low, high
        Of the disaggregation-aware rule: max-composition where the loads of bandwidth and capacity are both at most
        ``low``, or bandwidth is at least ``high`` and capacity at most ``high`` (eq. 4).
    bandwidth, capacity
        Which quantities these are.
    seed
        Of the random fit.
    reading
        A name in ``READINGS``. ``"authors"``, for jobs of the class that a model is about beside others, differs from
        the text in this:

        * A job past its deadline has none: it may join others, which are protected as ever, and it gets as few devices
          as its demand needs.
        * The loads of eq. 4 are of running jobs, as they are when each job is tried; that of capacity has to be below
          ``high``.
        * A job that would join others is expected to run at the speed that they have without it, and under
          min-fragmentation for its base time.
        * Equation 2 divides whole numbers, where what is free of an oversubscribed composition is less than nothing;
          the cores count as 1.
        * Where a pool has fewer free devices than a composition should have, it composes none.
        * Time goes in whole seconds: it looks again at whole seconds, also at the next one after a start, and when a
          job is past its deadline. Run times are the model's (``whole_seconds``).
    """

    rule: str = "first-fit"
    low: float = 0.5
    high: float = 0.7
    bandwidth: str = "bandwidth_mb_s"
    capacity: str = "capacity_mb"
    seed: int = 0
    reading: str = TEXT

    @property
    def by_models(self) -> bool:
        """Whether it looks at models: the simple fits take every amount that is asked as a hard limit."""
        return RULES.get(self.rule, RANDOM_FIT + 1) > RANDOM_FIT

    def begin(self, view: View) -> PoolNotes:
        """Notes on a cluster as it is now."""
        return PoolNotes(**self.scratch(view))


MANY = 0.1
"""Sizes that at least this part of the jobs ask, or exceed, count as large."""


@dataclass(slots=True)
class Urgency(PoolNotes):
    """Until when jobs can start and be on time, and what cores and devices are worth."""

    top: list[float] = field(default_factory=list)  # float64[models]: the best speed under each model
    # job → the last moment at which it can start and be on time; of the jobs that have waited so far
    latest_us: dict[int, int] = field(default_factory=dict)
    # float64[pools]: cores that a device of each pool is worth
    worths: Floats = field(default_factory=lambda: np.zeros(0))
    dear: Floats = field(default_factory=lambda: np.ones(0))  # float64[nodes]: what a core of each node is worth
    seen: dict[int, int] = field(default_factory=dict)  # cores per task → how many jobs so far asked for so many
    counted: int = 0  # how many jobs these are, with those that were rejected
    big: int = 1  # cores of a large job

    def count(self, view: View) -> None:
        """Count the sizes of the jobs that have come since."""
        if self.counted < view.jobs:
            new = slice(self.counted, view.jobs)
            for cores in view.asks[CORES, new][view.status[new] != REJECTED].tolist():
                self.seen[cores] = self.seen.get(cores, 0) + 1
            self.counted, self.big = view.jobs, large(self.seen)

    def latest(self, view: View, job: int) -> int:
        """The last moment at which a job can start and be on time: known, or noted now."""
        found = self.latest_us.get(job)
        if found is None:
            found = self.latest_us[job] = self._latest(view, job)
        return found

    def _latest(self, view: View, job: int) -> int:
        deadline = int(view.deadline_us[job])
        if deadline < 0:
            return NEVER_US
        devices = view.columns.devices
        models = [] if devices is None else devices.columns.model[:, job].tolist()
        best = min((self.top[model] for model in models if model >= 0), default=1.0)
        return deadline - ceil(int(view.asks[ESTIMATE, job]) / (best if best > 0 else 1.0))


@dataclass(frozen=True)
class Lookahead(Pooled):
    """Each job goes where it costs least; in the order ``urgency``, the most urgent first and late jobs last."""

    rule: str = "lookahead"
    # what devices are worth beside cores: 1 = those of a pool are worth as much as all the cores that reach them
    weight: float = 0.5

    def begin(self, view: View) -> Urgency:
        """Notes on a cluster as it is now; sizes that were asked so far are counted when one is placed."""
        devices = view.columns.devices
        installed = view.cluster.devices
        cores = [int(view.total[0, reach].sum()) for reach in installed.reach]
        worths = np.array([self.weight * n / pool.count for n, pool in zip(cores, installed.pools, strict=True)])
        return Urgency(
            **self.scratch(view),
            top=[] if devices is None else devices.columns.speeds.max(axis=(1, 2)).tolist(),
            worths=worths,
            dear=dear(view, worths),
        )

    def node(
        self, view: View, memory: PoolNotes, job: int, rule: int, now: int, columns: DeviceColumns, free: Ints
    ) -> int:
        """The cheapest node for one task, with ``memory.answer`` filled; below 0: why there is none."""
        assert isinstance(memory, Urgency)
        state = view.columns
        late, alone, ahead = memory.latest(view, job) < now, view.running_count == 0, self.ahead(memory)
        memory.late = True
        return cheapest(
            columns.kernel, state.asks, free, view.deadline_us, job, late, alone, ahead, now, memory.answer
        )  # fmt: skip

    def ahead(self, memory: PoolNotes) -> Ahead:
        """What cores and devices are worth."""
        assert isinstance(memory, Urgency)
        return Ahead(memory.big, memory.worths, memory.dear)

    def late_from_us(self, view: View, memory: PoolNotes, job: int) -> int:
        """When it can be met no more."""
        assert isinstance(memory, Urgency)
        return min(memory.latest(view, job) + 1, NEVER_US)


def dear(view: View, worths: Floats) -> Floats:
    """float64[nodes]: what a core of each node is worth, beside a core of the node that reaches fewest devices.

    A node counts for the devices in its reach, each divided among all nodes that reach it: where drives are fixed to
    some servers, jobs without drives had better run elsewhere.
    """
    devices = view.cluster.devices
    share: Floats = np.zeros(view.total.shape[1])
    for pool, reach, worth in zip(devices.pools, devices.reach, worths, strict=True):
        share += reach * (worth * pool.count / max(int(reach.sum()), 1))
    worth_more: Floats = 1.0 + (share - share.min(initial=np.inf)) / np.maximum(view.total[0], 1)
    return worth_more


def large(seen: dict[int, int]) -> int:
    """The largest size that at least ``MANY`` of the jobs ask for, or exceed.

    Examples
    --------
    >>> large({1: 50, 6: 40, 15: 10}), large({6: 99, 15: 1})
    (15, 6)
    """
    wanted, above = MANY * sum(seen.values()), 0
    for cores in sorted(seen, reverse=True):
        above += seen[cores]
        if above >= wanted:
            return cores
    return 1
