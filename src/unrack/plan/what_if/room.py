"""What the nodes lack for one more task of a job: the nodes that have room, and the others by what is short."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Bools, Ints
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
