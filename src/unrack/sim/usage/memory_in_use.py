"""The memory that running jobs use in the simulated world: looked at now and then, and missed as soon as it lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import FIRST_ROW, ROW_COUNT
from unrack.ledger.lease import LOCAL_MB, NODES, TASKS
from unrack.ledger.memory_use import AT, FOR, MB, NEXT_OF
from unrack.ledger.state import ClusterState
from unrack.policy.contract import Used
from unrack.units import SECOND_US
from unrack.workload.usage.curves import WHOLE, UsageCurves, starts

if TYPE_CHECKING:
    from unrack.sim.world import Work


LOOK_US = 300 * SECOND_US
"""How often use is looked at where the policy does not say."""


class Sample(NamedTuple):
    """Memory of the running jobs at a moment: µs, MB."""

    at_us: int
    used_mb: int
    held_mb: int
    asked_mb: int


class MemoryInUse:
    """What running jobs use, by their progress; ``samples``: what was used, whenever it was looked at.

    ``whole``: work of each job, µs; ``asked_mb``: int64[jobs], what each asked for, per task; ``look_us``: how often
    use is looked at.
    """

    def __init__(
        self, curves: UsageCurves, state: ClusterState, works: Work, whole: Sequence[float], asked_mb: Ints,
        look_us: int,
    ) -> None:  # fmt: skip
        self.look_us = look_us or LOOK_US
        self.samples: list[Sample] = []
        self.reached: dict[int, int] = {}
        self._curves = Curves(curves.first, curves.point, curves.at, curves.mb)
        self._count = curves.curves
        self._state, self._works, self._whole, self._asked = state, works, whole, asked_mb
        self._version: dict[int, int] = {}
        self._lacks_at: dict[int, int] = {}
        self._zeros = np.zeros(len(state.cluster), np.int64)

    def known(self, job: int) -> bool:
        """Whether a job uses something else than what it asks."""
        return bool(self._count[job])

    def progress(self, job: int, now: int) -> int:
        """How far a running job is, in parts of ``WHOLE``; it never goes back."""
        whole = self._whole[job]
        done = int((whole - self._works.left(job, now)) * WHOLE / whole) if whole > 0 else 0
        return max(self.reached.get(job, 0), min(done, WHOLE - 1))

    def plan(self, job: int, now: int) -> tuple[int, int] | None:
        """When a job next needs more than it holds (µs) and a number for that plan; ``None``: never at its speed."""
        version = self._version[job] = self._version.get(job, 0) + 1
        memory = self._state.memory
        assert memory is not None
        progress = self.progress(job, now)
        at = next_lack(
            self._curves, job, progress, self._state.pool, self._state.lease_at, memory.use, memory.first_of,
            self._zeros,
        )  # fmt: skip
        if at >= WHOLE:
            return None
        self._lacks_at[job] = at
        whole = self._whole[job]
        before = max(0.0, at / WHOLE * whole - (whole - self._works.left(job, now)))
        return self._works.after(job, before, now), version

    def lacking(self, job: int, version: int) -> Used | None:
        """A job that now lacks memory, and what it uses; ``None``: the plan is out of date."""
        if self._version.get(job) != version:
            return None
        self.reached[job] = self._lacks_at[job]
        return self.needed(job)

    def needed(self, job: int) -> Used:
        """What a job uses that lacks memory, as it was told last."""
        return self._used([job], [self._lacks_at[job]], lacking=True)

    def look(self, jobs: Iterable[int], still: Collection[int], now: int) -> Used | None:
        """What running jobs use now; ``None``: none of them has a curve.

        Jobs that stand ``still`` for lack of memory use what they did before they needed more.
        """
        known = sorted(job for job in jobs if self._count[job])
        done = [self._lacks_at[job] - 1 if job in still else self.progress(job, now) for job in known]
        return self._used(known, [max(0, one) for one in done], lacking=False) if known else None

    def forget(self, job: int) -> None:
        """A job does not run any more."""
        self._version[job] = self._version.get(job, 0) + 1
        self.reached.pop(job, None)

    def _used(self, jobs: list[int], progress: list[int], lacking: bool) -> Used:
        which = np.array(jobs, np.int64)
        first = starts(self._count[which])
        return Used(which, first, uses_at(self._curves, which, np.array(progress, np.int64), first), lacking)

    def sample(self, jobs: Iterable[int], used: Used | None, now: int) -> None:
        """Note what is used, held and asked by running jobs; ``used``: by those of known use."""
        state = self._state
        which = np.array(sorted(jobs), np.int64)
        tasks = self._tasks(which)
        asked = int(tasks @ self._asked[which]) if len(which) else 0
        total = 0 if used is None else self._total(used)
        plain = which[self._count[which] == 0]
        total += int(self._tasks(plain) @ self._asked[plain]) if len(plain) else 0
        online = state.online
        held = int((state.total[1, online] - state.free[1, online]).sum())
        self.samples.append(Sample(now, min(total, held), held, asked))  # what is not held is not used

    def table(self) -> Ints:
        """int64[samples, 4]: the samples as rows."""
        return np.array(self.samples, np.int64).reshape(-1, 4)

    def _tasks(self, jobs: Ints) -> Ints:
        tasks: Ints = self._state.asks[0, jobs]
        return tasks

    def _total(self, used: Used) -> int:
        """MB of all tasks of the jobs: where one curve stands for all tasks, times these."""
        per = np.add.reduceat(used.mb, used.first[:-1])
        return int(np.where(np.diff(used.first) == 1, self._tasks(used.jobs) * per, per).sum())


def whole_ticks(now: int, every: int) -> int:
    """The next multiple of ``every`` after ``now``, µs."""
    return ceil((now + 1) / every) * every


class Curves(NamedTuple):
    """The columns of :class:`unrack.workload.usage.curves.UsageCurves`."""

    first: Ints
    point: Ints
    at: Ints
    mb: Ints


@inlined
def step_at(c: Curves, curve: int, progress: int) -> int:
    """The point of a curve that begins the step of a progress."""
    low, high = c.point[curve], c.point[curve + 1]
    while high - low > 1:
        middle = (low + high) // 2
        if c.at[middle] <= progress:
            low = middle
        else:
            high = middle
    return int(low)


@inlined
def use_of(c: Curves, curve: int, progress: int) -> int:
    """What a curve says at a progress."""
    return int(c.mb[step_at(c, curve, progress)])


@compiled
def uses_at(c: Curves, jobs: Ints, progress: Ints, first: Ints) -> Ints:
    """What the tasks of jobs use, each at its progress: of job i ``first[i + 1] - first[i]`` entries, one a curve."""
    mb = np.empty(first[jobs.shape[0]], np.int64)
    for i in range(jobs.shape[0]):
        for k in range(first[i + 1] - first[i]):
            mb[first[i] + k] = use_of(c, c.first[jobs[i]] + k, progress[i])
    return mb


@compiled
def next_lack(
    c: Curves, job: int, progress: int, pool: Ints, lease_at: Ints, use: Ints, first_of: Ints, borrowed: Ints
) -> int:
    """The first progress, from this one on, at which some node of a job needs more than it holds; WHOLE: never.

    O(its nodes x points of a curve x tasks on a node + its loans). ``borrowed`` : int64[nodes], zeros, and left so.
    """
    begin, count = c.first[job], c.first[job + 1] - c.first[job]
    found, task = WHOLE, 0
    entry = first_of[job]
    while entry >= 0:
        if use[FOR, entry] != use[AT, entry]:
            borrowed[use[FOR, entry]] += use[MB, entry]
        entry = use[NEXT_OF, entry]
    for r in range(lease_at[FIRST_ROW, job], lease_at[FIRST_ROW, job] + lease_at[ROW_COUNT, job]):
        for node in range(pool[r, 0], pool[r, 0] + pool[r, NODES]):
            held = pool[r, LOCAL_MB] + borrowed[node]
            borrowed[node] = 0
            if count == 1:
                found = min(found, crosses(c, begin, progress, held // pool[r, TASKS], found))
            elif pool[r, TASKS] == 1:
                found = min(found, crosses(c, begin + task, progress, held, found))
            else:
                found = min(found, together_cross(c, begin + task, pool[r, TASKS], progress, held, found))
            task += pool[r, TASKS]
    return found


@inlined
def crosses(c: Curves, curve: int, progress: int, held: int, before: int) -> int:
    """The first progress below ``before`` at which a curve is above what is held; WHOLE: none."""
    low = step_at(c, curve, progress)
    for p in range(low, c.point[curve + 1]):
        if c.at[p] >= before:
            break
        if c.mb[p] > held:
            return int(max(progress, c.at[p]))
    return WHOLE


@inlined
def together_cross(c: Curves, curve: int, tasks: int, progress: int, held: int, before: int) -> int:
    """The same for several tasks of one node, with a curve each."""
    best = before
    total = 0
    for k in range(curve, curve + tasks):
        total += use_of(c, k, progress)
    if total > held:
        return progress
    for k in range(curve, curve + tasks):
        for p in range(c.point[k], c.point[k + 1]):
            if progress < c.at[p] < best:
                total = 0
                for other in range(curve, curve + tasks):
                    total += use_of(c, other, c.at[p])
                if total > held:
                    best = c.at[p]
    return int(best) if best < before else WHOLE
