"""When the jobs of a scene start, and which of them start at another time than in another scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.plan.what_if.scene import SOON_US, Scene
from unrack.reasons import Reason
from unrack.sim.simulate import prepared
from unrack.sim.world import PolicyAtWork
from unrack.units import NEVER_US, SECOND_US


class Starts(NamedTuple):
    """When each job of a scene starts, µs."""

    ids: tuple[str, ...]
    start_us: Ints  # int64[jobs]: ``NEVER_US``: never
    reasons: Mapping[str, Reason]  # why never

    def of(self, jobs: Sequence[str]) -> list[int]:
        """When some jobs start, by their ids."""
        found = dict(zip(self.ids, self.start_us.tolist(), strict=True))
        return [found[job] for job in jobs]


def as_asked(scene: Scene) -> Scene:
    """The scene in which every job runs for as long as it asks."""
    return replace(scene, jobs=replace(scene.jobs, work_us=scene.jobs.request_us.copy()))


def starts_of(scene: Scene) -> Starts:
    """Simulate all of a scene; errors are those of :func:`unrack.simulate`."""
    with PolicyAtWork(scene.policy):
        log = prepared(scene.cluster, scene.jobs, scene.policy, scene.seed, scene.world).run()
    found = np.full(len(scene.jobs), NEVER_US, np.int64)
    np.minimum.at(found, log.attempt_job, log.attempt_start_us)
    ids = tuple(map(str, scene.jobs.ids.to_list()))
    return Starts(ids, found, {ids[job]: reason for job, reason in log.reasons.items()})


class Moved(NamedTuple):
    """A job that starts at another time, s from now; ``None``: never."""

    job: str
    before_s: float | None
    after_s: float | None


class Others(NamedTuple):
    """What becomes of all other jobs."""

    later: int
    later_h: float  # by how many hours in all
    earlier: int
    earlier_h: float
    never: dict[str, str]  # job that never starts any more → why
    moved: tuple[Moved, ...]  # by how much, the most first


def others_of(before: Starts, after: Starts, now_us: int, without_: set[str]) -> Others:
    """The jobs of both, by when they start."""
    was = dict(zip(before.ids, before.start_us.tolist(), strict=True))
    moved, later_us, earlier_us, never = list[tuple[int, Moved]](), list[int](), list[int](), dict[str, str]()
    for job, then in zip(after.ids, after.start_us.tolist(), strict=True):
        if job in without_ or job not in was or abs(was[job] - then) < SOON_US:
            continue
        gap = then - was[job]
        moved.append((-abs(gap), Moved(job, since_s(was[job], now_us), since_s(then, now_us))))
        if then >= NEVER_US:
            never[job] = str(after.reasons.get(job, "it never starts"))
        elif was[job] < NEVER_US:
            (later_us if gap > 0 else earlier_us).append(abs(gap))
    moved.sort(key=lambda one: (one[0], one[1].job))
    return Others(
        len(later_us), sum(later_us) / 3.6e9, len(earlier_us), sum(earlier_us) / 3.6e9, never,
        tuple(one for _, one in moved),
    )  # fmt: skip


def since_s(time_us: int | None, now_us: int) -> float | None:
    """A time in s from now; ``None``: never."""
    return None if time_us is None or time_us >= NEVER_US else (time_us - now_us) / SECOND_US
