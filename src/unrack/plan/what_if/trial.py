"""Simulations of a scene: when a job starts and why not at once, and when all others do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from unrack.core import Core
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.state import HELD, QUEUED, REJECTED
from unrack.plan.what_if.scene import Scene
from unrack.reasons import Code, Reason
from unrack.sim.explained.waits import Waits
from unrack.sim.guard import PolicyAtWork
from unrack.sim.simulate import prepared
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import CORES, MEMORY

_NONE: Ints = np.zeros(0, np.int64)


class Room(NamedTuple):
    """The nodes with cores, by what a task of a job would find on each."""

    nodes: int  # how many there are
    with_room: int  # on how many there is room for a task
    closed: int  # on how many it may not run: by its partition, by what it says itself, or as nothing is started there
    lacks: dict[str, int]  # what is short → on how many of the others; a node may lack several
    allowed: Bools  # bool[nodes]: where it may run
    free: Ints  # int64[2, nodes]: cores and MB that are free

    def free_tasks(self, need: Ints) -> int:
        """How many tasks of so many cores and MB find room now."""
        each = [self.free[row] // need[row] for row in (0, 1) if need[row]]
        return int(np.where(self.allowed, np.minimum.reduce(each), 0).sum()) if each else 0


def room_of(view: View, job: int, whole: bool) -> Room:
    """The room for one more task of a waiting job now; ``whole``: it needs idle nodes."""
    columns, cluster = view.columns, view.cluster
    computing = cluster.cores > 0
    cores, mb = (int(view.asks[row, job]) for row in (CORES, MEMORY))
    allowed: Bools = computing & (columns.open_to[columns.set_of[job]][0] > 0) & columns.online
    allowed[list(cluster.drained)] = False
    free = columns.free
    short: dict[str, Bools] = {"cores": free[0] < cores, "memory": free[1] < mb}
    if whole:
        short["cores"] |= free[0] < columns.total[0]
    claimed = columns.claimed
    if claimed is not None:
        asked = claimed.asked(job)
        for part in claimed.places.parts:
            if part.name == "site":
                continue
            own, there = asked[part.quantities], claimed.free[part.places]
            for name, alone in _each(part.name, part.installed.quantities, own):
                short[name] = ~part.installed.open_nodes(alone, there, _NONE, _NONE, 1)
    lacking = {name: int((nodes & allowed).sum()) for name, nodes in short.items()}
    fits = allowed & ~np.logical_or.reduce(list(short.values()))
    closed = int((computing & ~allowed).sum())
    lacks = {name: count for name, count in lacking.items() if count}
    return Room(int(computing.sum()), int(fits.sum()), closed, lacks, allowed, free.copy())


def _each(resource: str, quantities: tuple[str, ...], asked: Ints) -> list[tuple[str, Ints]]:
    """What is asked of a resource: counters one by one, others as a whole."""
    if resource != "counted":
        return [(resource, asked)] if asked.any() else []
    alone = np.diag(asked)
    return [(f"counted.{name}", alone[i]) for i, name in enumerate(quantities) if asked[i]]


class Look(NamedTuple):
    """Why some jobs do not start at once."""

    reason: Reason | None  # why the first that waits does so, at the first round that says why; ``None``: none waits
    room: Room | None  # what the nodes have for a task of it then
    ahead: int  # how many jobs wait before it then


class Starts(NamedTuple):
    """When each job of a scene starts, µs."""

    ids: tuple[str, ...]
    start_us: Ints  # int64[jobs]: ``NEVER_US``: never
    reasons: Mapping[str, Reason]  # why never

    def of(self, jobs: Sequence[str]) -> list[int]:
        """When some jobs start, by their ids."""
        found = dict(zip(self.ids, self.start_us.tolist(), strict=True))
        return [found[job] for job in jobs]


class _SeenError(Exception):
    """Ends a run when it is known why jobs wait."""


@dataclass
class _Watch:
    """Looks at jobs after every round."""

    core: Core
    jobs: list[int]
    whole: bool
    waits: Waits
    reason: Reason | None = None
    room: Room | None = None
    ahead: int = 0

    def __call__(self, now: int) -> None:
        view = self.core.view
        if max(self.jobs) >= view.jobs:
            return
        waiting = [job for job in self.jobs if view.status[job] in (QUEUED, HELD)]
        if waiting and (self.reason is None or self.reason.code == Code.NOT_YET):
            job, held = waiting[0], view.status[waiting[0]] == HELD
            self.reason = self.waits.in_words(job, self.waits.held(job, now) if held else self.core.why(job, now))
            self.room = None if held else room_of(view, job, self.whole)
            self.ahead = int((view.queue < job).sum())
        refused = [job for job in self.jobs if view.status[job] == REJECTED]
        if refused and self.room is None:
            self.room = room_of(view, refused[0], self.whole)
        if not waiting or (self.reason is not None and self.reason.code != Code.NOT_YET):
            raise _SeenError


def as_asked(scene: Scene) -> Scene:
    """The scene in which every job runs for as long as it asks."""
    return replace(scene, jobs=replace(scene.jobs, work_us=scene.jobs.request_us.copy()))


def look(scene: Scene, jobs: Sequence[int]) -> Look:
    """Simulate until it is known why some jobs wait, or all have started; errors are those of simulations."""
    with PolicyAtWork(scene.policy):
        kernel = prepared(scene.cluster, scene.jobs, scene.policy, scene.seed, scene.world)
        watch = _Watch(kernel.core, list(jobs), kernel.core.traits.whole_nodes, Waits(kernel))
        with suppress(_SeenError):
            kernel.run(after_round=watch)
    refused = [kernel.core.reasons[job] for job in jobs if job in kernel.core.reasons]
    return Look(refused[0] if refused else watch.reason, watch.room, watch.ahead)


def starts_of(scene: Scene) -> Starts:
    """Simulate all of a scene; errors are those of :func:`unrack.simulate`."""
    with PolicyAtWork(scene.policy):
        log = prepared(scene.cluster, scene.jobs, scene.policy, scene.seed, scene.world).run()
    found = np.full(len(scene.jobs), NEVER_US, np.int64)
    np.minimum.at(found, log.attempt_job, log.attempt_start_us)
    ids = tuple(map(str, scene.jobs.ids.to_list()))
    return Starts(ids, found, {ids[job]: reason for job, reason in log.reasons.items()})
