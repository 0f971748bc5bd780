"""Memory of the node that a task runs on, and of no other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import FIRST, LOCAL_MB, NODES, TASKS
from unrack.policy.contract import Ability
from unrack.policy.placement.contract import Room, Spot
from unrack.policy.placement.node_kernel import Fit, place_one, room_for
from unrack.reasons import Code, Reason
from unrack.sealed import sealed
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import CORES, MEMORY, JobTable
from unrack.workload.job import TASKS as ALL_TASKS

RUNS = "tightest-run"
FITS = {"first-fit": int(Fit.FIRST), "best-fit": int(Fit.BEST), "worst-fit": int(Fit.WORST), RUNS: int(Fit.RUN)}
"""Which nodes are filled first, of jobs that ask for nothing but nodes; under any other rule the first."""


@dataclass(frozen=True)
class LocalMemory:
    """Every task has its memory where it runs."""

    place: str = "first-fit"  # which nodes are filled first: a name in ``FITS``; any other is first fit

    places: ClassVar[frozenset[Need]] = frozenset()
    does: ClassVar[frozenset[Ability]] = frozenset()
    near: ClassVar[bool] = False

    def begin(self, view: View) -> None:
        """Nothing."""

    def open_nodes(self, view: View, notes: None, lent: Ints | None = None) -> Bools:
        """All of them."""
        return np.ones(len(view.cluster), np.bool_)

    def offers(self, view: View, notes: None, job: int, room: Room) -> Iterator[Ints]:
        """What is free there."""
        yield room.free[1]

    def take(self, view: View, notes: None, job: int, node: int, room: Room, now: int) -> Spot:
        """All of it at the node."""
        return Spot(node, 1, int(view.asks[MEMORY, job]))

    def spread(self, view: View, notes: None, job: int, room: Room, now: int) -> list[Spot] | None:
        """Nodes in the order of the rule."""
        tasks, cores, mb = view.asks[[ALL_TASKS, CORES, MEMORY], job].tolist()
        return fill(room, tasks, cores, mb, self.place)

    def kind(self, view: View, job: int) -> object:
        """Nothing else counts."""
        return None

    def lacks(self, view: View, notes: None, job: int, room: Room) -> Reason:
        """Places with enough memory."""
        tasks, cores, mb = view.asks[[ALL_TASKS, CORES, MEMORY], job].tolist()
        free, total = shown(room)
        return Reason(Code.NO_ROOM, f"places for tasks of {mb} MB", tasks, int(room_for(free, total, cores, mb, False)))

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which fit on the empty nodes."""
        asks, inverse = np.unique(jobs.asks[[ALL_TASKS, CORES, MEMORY]], axis=1, return_inverse=True)
        total = sealed(np.stack([cluster.cores, cluster.memory_mb]))
        fits = [room_for(total, total, cores, mb, False) >= tasks for tasks, cores, mb in asks.T.tolist()]
        return np.array(fits, np.bool_)[inverse.ravel()]


def shown(room: Room) -> tuple[Ints, Ints]:
    """Free and installed amounts as the kernels take them: nodes that take no task have nothing."""
    closed = room.cores < 0
    free = np.stack([np.where(closed, 0, room.cores), np.where(closed, 0, room.free[1])])
    return sealed(free), sealed(np.where(closed, 0, np.maximum(free, 1)))


def fill(room: Room, tasks: int, cores: int, mb: int, place: str) -> list[Spot] | None:
    """Nodes with all memory that tasks ask for, in the order of a rule; ``None``: they do not hold all tasks."""
    free, total = shown(room)
    rows = place_one(free, total, tasks, cores, mb, False, FITS.get(place, int(Fit.FIRST)))
    if not len(rows):
        return None
    return [
        Spot(node, row[TASKS], row[LOCAL_MB])
        for row in rows.tolist()
        for node in range(row[FIRST], row[FIRST] + row[NODES])
    ]


def room_on(view: View, whole: bool, open_nodes: Bools) -> Room:
    """What a job finds; ``whole``: only on nodes of which no job holds a core."""
    state = view.columns
    usable = open_nodes & (state.total[0] > 0) & state.online
    if whole:
        usable &= state.free[0] == state.total[0]
    free = state.free.copy()
    return Room(np.where(usable, free[0], -1), free, view.lent.copy())
