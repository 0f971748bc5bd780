"""What would help: changes from the smallest to the largest, each tried by simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from unrack.core import Core
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.state import HELD, QUEUED, REJECTED
from unrack.plan.what_if.scene import Change, Columns, Scene, StudySource, stopped, with_jobs, without
from unrack.plan.what_if.starts import Starts, more_like, others_of, starts_of
from unrack.reasons import Code, Reason
from unrack.sim.explained.job import is_earlier
from unrack.sim.explained.waits import Waits
from unrack.sim.simulate import prepared
from unrack.sim.world import PolicyAtWork
from unrack.units import NEVER_US, SECOND_US
from unrack.view import View
from unrack.workload.job import CORES, MEMORY
from unrack.workload.standing import tasks_on

_NONE: Ints = np.zeros(0, np.int64)


class NodeRoom(NamedTuple):
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


def room_of(view: View, job: int, whole: bool) -> NodeRoom:
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
    return NodeRoom(int(computing.sum()), int(fits.sum()), closed, lacks, allowed, free.copy())


def _each(resource: str, quantities: tuple[str, ...], asked: Ints) -> list[tuple[str, Ints]]:
    """What is asked of a resource: counters one by one, others as a whole."""
    if resource != "counted":
        return [(resource, asked)] if asked.any() else []
    alone = np.diag(asked)
    return [(f"counted.{name}", alone[i]) for i, name in enumerate(quantities) if asked[i]]


class Look(NamedTuple):
    """Why some jobs do not start at once."""

    reason: Reason | None  # why the first that waits does so, at the first round that says why; ``None``: none waits
    room: NodeRoom | None  # what the nodes have for a task of it then
    ahead: int  # how many jobs wait before it then


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
    room: NodeRoom | None = None
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
            self.ahead = int(is_earlier(view.submit_us, view.queue, job).sum())
        refused = [job for job in self.jobs if view.status[job] == REJECTED]
        if refused and self.room is None:
            self.room = room_of(view, refused[0], self.whole)
        if not waiting or (self.reason is not None and self.reason.code != Code.NOT_YET):
            raise _SeenError


def look(scene: Scene, jobs: Sequence[int]) -> Look:
    """Simulate until it is known why some jobs wait, or all have started; errors are those of simulations."""
    with PolicyAtWork(scene.policy):
        kernel = prepared(scene.cluster, scene.jobs, scene.policy, scene.seed, scene.world)
        watch = _Watch(kernel.core, list(jobs), kernel.core.traits.whole_nodes, Waits(kernel))
        with suppress(_SeenError):
            kernel.run(after_round=watch)
    refused = [kernel.core.reasons[job] for job in jobs if job in kernel.core.reasons]
    return Look(refused[0] if refused else watch.reason, watch.room, watch.ahead)


LEAST_S = 60
"""No shorter time is suggested."""
JOB_TRIES = 60_000
"""Where there are many jobs fewer changes are tried: as many as jobs times tries allow, but three at least."""


class Suggestion(NamedTuple):
    """A change that helps."""

    words: str
    options: str  # of ``unrack what-if``
    start_s: float  # when the job then starts, s from now
    gained_s: float | None  # how much earlier; ``None``: it never started
    later: int  # how many others then start later, compared with the job asked for as it is
    later_h: float  # by how many hours in all
    earlier_h: float
    lost_core_h: float  # work of jobs that are stopped


class Advice(NamedTuple):
    """Suggestions, the earliest start first, and of as early ones those that cost others least."""

    found: tuple[Suggestion, ...] = ()
    tried: int = 0
    of: int = 0  # how many changes there were to try


class _Step(NamedTuple):
    words: str
    options: str
    make: Callable[[], Scene]
    lost_core_h: float = 0.0


def advise(
    source: StudySource,
    scene: Scene,
    asked: Sequence[Columns],
    seen: Look,
    after: Starts,
    keys: Sequence[Change],
    spare: bool,
    tries: int,
) -> Advice:
    """Try what would let jobs start earlier.

    Parameters
    ----------
    source, keys, spare
        Of the scene: where it is from, and the changes of keys that are in it.
    scene, asked
        The moment with the jobs that are asked about, and these.
    seen, after
        Why they wait, and when all jobs start.
    tries
        How many changes are tried at most.
    """
    ladders = [list(one) for one in _ladders(source, scene, asked, seen, keys, spare) if one]
    total = sum(map(len, ladders))
    most = min(tries, max(JOB_TRIES // max(len(scene.jobs), 1), 3))
    ids = [str(columns["id"]) for columns in asked]
    own_us = max(after.of(ids))
    tried, found = 0, list[tuple[int, Suggestion]]()
    best = [own_us] * len(ladders)
    for rung in range(max(map(len, ladders), default=0)):  # the smallest of all kinds first
        for kind, steps in enumerate(ladders):
            if rung >= len(steps) or tried >= most or best[kind] - scene.now_us <= SECOND_US:
                continue
            tried += 1
            starts = starts_of(steps[rung].make())
            start_us = max(starts.of(ids))
            if start_us < best[kind] - SECOND_US:
                best[kind] = start_us
                gained = None if own_us >= NEVER_US else (own_us - start_us) / SECOND_US
                start_s = (start_us - scene.now_us) / SECOND_US
                others = others_of(after, starts, scene.now_us, set(ids))
                step = steps[rung]
                found.append((kind, Suggestion(
                    step.words, step.options, start_s, gained, others.later, others.later_h, others.earlier_h,
                    step.lost_core_h,
                )))  # fmt: skip
    found.sort(key=lambda one: (round(one[1].start_s), one[1].lost_core_h, one[1].later_h, one[0]))
    return Advice(tuple(one for _, one in found), tried, total)


def _ladders(
    source: StudySource, scene: Scene, asked: Sequence[Columns], seen: Look, keys: Sequence[Change], spare: bool
) -> Iterator[list[_Step]]:
    """Kinds of changes, each from the smallest to the largest."""
    rows = [scene.number(str(columns["id"]), "--job") for columns in asked]
    submit_us = int(scene.jobs.submit_us[rows[0]])
    bare = without(scene, rows)

    def other(**change: Any) -> Callable[[], Scene]:
        def make() -> Scene:
            alone = len(asked) == 1
            wanted = [{**columns, **change} for columns in asked]
            return with_jobs(bare, wanted, submit_us if alone else None)

        return make

    first = asked[0]
    own = str(first.get("partition", ""))
    for name in scene.partitions():
        if name not in own.split(","):
            yield [_Step(f"in partition {name}", f"--partition {name}", other(partition=name))]
    request = float(first["request"])
    times = [round(request * part) for part in (0.75, 0.5, 0.25, 0.125) if request * part >= LEAST_S]
    yield [_Step(f"for {_time(one)} at most", f"--time '{one} s'", other(request=one)) for one in times]
    for column, option, words in (
        ("tasks", "--nodes", "{} tasks"), ("cores", "--cores", "{} cores a task"), ("memory", "--memory", "{} MB"),
    ):  # fmt: skip
        sizes = _halves(int(first.get(column, 1 if column != "memory" else 0)))
        yield [_Step(words.format(f"{one:,}"), f"{option} {one}", other(**{column: one})) for one in sizes]
    for column in (name for name in first if "." in name):
        sizes = _halves(int(first[column]))
        option = "--gpus {}" if column == "gpus.count" else f"--ask {column}={{}}"
        yield [_Step(f"{one:,} of {column}", option.format(one), other(**{column: one})) for one in sizes]
    yield _more_nodes(source, scene, first, seen, keys, spare)
    if seen.room is not None and seen.reason is not None and seen.reason.code != Code.TOO_BIG:
        yield _stops(scene, first, seen)


def _halves(amount: int) -> list[int]:
    found = []
    while amount > 1:
        amount = -(-amount // 2)
        found.append(amount)
    return found[:6]


def _time(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _more_nodes(
    source: StudySource, scene: Scene, ask: Columns, seen: Look, keys: Sequence[Change], spare: bool
) -> list[_Step]:
    """Nodes more, like the smallest that a task fits on."""
    cluster = scene.cluster
    fits = (cluster.cores >= int(ask.get("cores", 1))) & (cluster.memory_mb >= int(ask.get("memory", 0)))
    fits &= seen.room.allowed if seen.room is not None else cluster.cores > 0
    if not fits.any():
        return []
    node = int(np.flatnonzero(fits)[np.argmin(cluster.cores[fits])])
    name = cluster.names[node] if cluster.names else str(node)

    def more(text: str) -> Callable[[], Scene]:
        return lambda: replace(scene, cluster=source.scene([*keys, more_like(cluster, text)], spare).cluster)

    steps = []
    for count in (1, 2, 4, 8, 16):
        text = f"{count} like {name}"
        steps.append(_Step(f"{count} more node{'s' * (count > 1)} like {name}", f"--add '{text}'", more(text)))
    return steps


def _stops(scene: Scene, ask: Columns, seen: Look) -> list[_Step]:
    """Jobs that run to be stopped and queued again: the sets with the least work lost that make room."""
    steps = []
    for rows in stop_sets(scene, ask, seen):
        names = [str(scene.jobs.ids[row]) for row in rows]
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lost = sum(map(scene.lost_core_h, rows))
        options, make = " ".join(f"--requeue {name}" for name in names[:20]), partial(stopped, scene, [], rows)
        steps.append(_Step(f"job{'s' * (len(rows) > 1)} {shown} stopped and queued again", options, make, lost))
    return steps


def stop_sets(scene: Scene, ask: Columns, seen: Look, most: int = 3) -> list[list[int]]:
    """Sets of running jobs without which the nodes have room for a job, the least work lost first.

    Of each node the jobs are taken that lose least until a task fits; of the nodes, those that lose least. It is by
    cores, memory and GPUs: what else is short is found out by the simulation.
    """
    jobs, room = scene.jobs, seen.room
    if room is None or not scene.runs.any():
        return []
    need = np.array([int(ask.get("cores", 1)), int(ask.get("memory", 0)), int(ask.get("gpus.count", 0))])
    gpus = jobs.devices.get(("gpus", "count"), np.zeros(len(jobs), np.int64))
    on: dict[int, list[tuple[int, int]]] = {}
    for row in np.flatnonzero(scene.runs).tolist():
        for node, tasks in tasks_on(scene.cluster, jobs, row).items():
            if room.allowed[node]:
                on.setdefault(node, []).append((row, tasks))
    costs = list[tuple[float, int, frozenset[int]]]()
    for node, held in on.items():
        free = np.array([room.free[0, node], room.free[1, node], 0])
        chosen = list[tuple[int, int]]()
        for row, tasks in sorted(held, key=lambda one: (scene.lost_core_h(one[0]), one[0])):
            if (free >= need).all():
                break
            chosen.append((row, tasks))
            free = free + tasks * np.array([jobs.cores[row], jobs.memory_mb[row], gpus[row]])
        for row, tasks in sorted(chosen, key=lambda one: (-scene.lost_core_h(one[0]), one[0])):
            less = free - tasks * np.array([jobs.cores[row], jobs.memory_mb[row], gpus[row]])
            if (less >= need).all():
                chosen.remove((row, tasks))
                free = less
        if (free >= need).all() and chosen:
            costs.append((sum(scene.lost_core_h(row) for row, _ in chosen), node, frozenset(row for row, _ in chosen)))
    costs.sort(key=lambda one: one[:2])
    tasks = max(int(ask.get("tasks", 1)) - room.free_tasks(need), 1)
    sets = [sorted(frozenset().union(*(one[2] for one in costs[first : first + tasks]))) for first in range(most)]
    return [one for place, one in enumerate(sets) if one and len(costs) >= place + tasks and one not in sets[:place]]
