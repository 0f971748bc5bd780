"""Simulations of a scene: when a job starts and why not at once, and when all others do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from unrack.core import Core
from unrack.kernels.arrays import Ints
from unrack.ledger.state import HELD, QUEUED, REJECTED, RUNNING, Status
from unrack.plan.what_if.room import Room, room_of
from unrack.plan.what_if.scene import Scene
from unrack.reasons import Code, Reason
from unrack.sim.explained.waits import Waits
from unrack.sim.guard import PolicyAtWork
from unrack.sim.simulate import prepared
from unrack.units import NEVER_US


class Look(NamedTuple):
    """What became of the jobs that are looked at; ``None``: nothing of that kind."""

    start_us: int | None  # when the last of them starts; ``None``: never
    first_us: int | None  # when the first of them starts
    reason: Reason | None  # why the first that waits does so, at the first round that says why
    room: Room | None  # what the nodes have for a task of it then
    ahead: int  # how many jobs wait before it then


class Starts(NamedTuple):
    """When each job of a scene starts, µs."""

    ids: tuple[str, ...]
    start_us: Ints  # int64[jobs]: ``NEVER_US``: never
    reasons: Mapping[str, Reason]  # why never


class _SeenError(Exception):
    """Ends a run when all that is looked at has started."""


@dataclass
class _Watch:
    """Looks at jobs after every round."""

    core: Core
    jobs: list[int]
    whole: bool
    waits: Waits
    until_us: int = NEVER_US
    starts: dict[int, int] = field(default_factory=dict)
    reason: Reason | None = None
    room: Room | None = None
    ahead: int = 0

    def __call__(self, now: int) -> None:
        view = self.core.view
        for job in self.jobs:
            if job >= view.jobs or job in self.starts:
                continue
            status = view.status[job]
            if status == REJECTED:
                raise _SeenError
            if status in (RUNNING, Status.FINISHED):
                self.starts[job] = now
            elif status in (QUEUED, HELD) and (self.reason is None or self.reason.code == Code.NOT_YET):
                held = status == HELD
                self.reason = self.waits.in_words(job, self.waits.held(job, now) if held else self.core.why(job, now))
                self.room = None if held else room_of(view, job, self.whole)
                self.ahead = int((view.queue < job).sum())
        if len(self.starts) == len(self.jobs) or now >= self.until_us:
            raise _SeenError


def as_asked(scene: Scene) -> Scene:
    """The scene in which every job runs for as long as it asks."""
    return replace(scene, jobs=replace(scene.jobs, work_us=scene.jobs.request_us.copy()))


def look(scene: Scene, jobs: Sequence[int], until_us: int = NEVER_US) -> Look:
    """Simulate until some jobs have started, or until a time, µs; errors are those of :func:`unrack.simulate`."""
    with PolicyAtWork(scene.policy):
        kernel = prepared(scene.cluster, scene.jobs, scene.policy, scene.seed, scene.world)
        watch = _Watch(kernel.core, list(jobs), kernel.core.traits.whole_nodes, Waits(kernel), until_us)
        with suppress(_SeenError):
            kernel.run(after_round=watch)
    never = [job for job in jobs if job not in watch.starts]
    if never:
        watch.reason = kernel.core.reasons.get(never[0], watch.reason)
    starts = watch.starts.values()
    return Look(None if never else max(starts), min(starts, default=None), watch.reason, watch.room, watch.ahead)


def starts_of(scene: Scene) -> Starts:
    """Simulate all of a scene; errors are those of :func:`unrack.simulate`."""
    with PolicyAtWork(scene.policy):
        log = prepared(scene.cluster, scene.jobs, scene.policy, scene.seed, scene.world).run()
    found = np.full(len(scene.jobs), NEVER_US, np.int64)
    np.minimum.at(found, log.attempt_job, log.attempt_start_us)
    ids = tuple(map(str, scene.jobs.ids.to_list()))
    return Starts(ids, found, {ids[job]: reason for job, reason in log.reasons.items()})
