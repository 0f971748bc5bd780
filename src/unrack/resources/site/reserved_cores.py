"""Cores by number on nodes, kept by reservations: places of single nodes, which jobs claim for their tasks there.

Of each node that a reservation keeps some cores of, all others claim a place of all its cores, of which a window takes
those; its own jobs claim a place of those alone. See ``kept.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints
from unrack.reasons import Code, Reason
from unrack.resources.contract import Nodes
from unrack.resources.site.features import Counts, Way
from unrack.resources.site.kept import INSIDE, OUTSIDE, Keep
from unrack.resources.site.keys import ReservationFile

ByNode = dict[int, Ints]
"""The first of places of nodes that are claimed together → int64[nodes]: the place of each, -1: it has none."""


def cores_of(one: ReservationFile, nodes: Nodes, where: str) -> dict[int, int]:
    """How many cores a reservation keeps of each of its nodes; empty: all, and memory.

    Raises
    ------
    ClusterError
        There are no such nodes, or one is named twice.
    """
    found: dict[int, int] = {}
    if one.cores is None or one.nodes is None:
        return found
    each = one.cores if len(one.cores) > 1 else one.cores * len(one.nodes)
    for members, cores in zip(one.nodes, each, strict=True):
        for node in nodes.named([members], f"{where}.nodes"):
            if found.setdefault(node, cores) != cores:
                raise ClusterError(f"{where}.cores", f"{found[node]} and {cores} of node {node}", "one number of each")
    return {node: cores for node, cores in sorted(found.items()) if nodes.cores[node] > 0}


def by_node(keeps: Sequence[Keep], nodes: int) -> ByNode:
    """The places of nodes of those that claim in the same; places have the numbers of their ``keeps``."""
    groups: dict[tuple[object, ...], Ints] = {}
    for place, keep in enumerate(keeps):
        if isinstance(keep.of, int):
            at = groups.setdefault((keep.owners, keep.inside), np.full(nodes, -1, np.int64))
            at[keep.of] = place
    return {int(at[at >= 0].min()): at for at in groups.values()}


def by_cores(ways: Sequence[Way], counts: Counts, places: ByNode) -> list[int] | None:
    """In which places of nodes a job claims its cores, by the first of each; ``None``: more depends on its nodes."""
    chooses = any(amount < 0 or inside for _, amount, inside in counts) or any(way.counts for way in ways)
    return None if chooses or len(ways) > 1 else [place for place, _, _ in counts if place in places]


def claimed_of(at: Ints, cores: int, nodes: Ints, tasks: Ints) -> list[tuple[int, int]]:
    """Places and amounts that tasks claim, which have so many cores each."""
    place, some = at[nodes], at[nodes] >= 0
    held = np.bincount(place[some], tasks[some] * cores).astype(np.int64)
    return [(one, int(held[one])) for one in np.flatnonzero(held).tolist()]


def open_of(at: Ints, cores: int, nodes: Ints, tasks: Ints, free: Ints) -> Bools:
    """bool[nodes]: where one more task has room beside those on nodes already."""
    there = np.zeros(len(at), np.int64)
    np.add.at(there, nodes, tasks)
    return np.asarray((at < 0) | (free[at] >= cores * (there + 1)))


def room_of(at: Ints, cores: int, nodes: Bools, free: Ints) -> int | None:
    """How many tasks have room on nodes; ``None``: not all of the nodes have a place."""
    return None if (at[nodes] < 0).any() else int((np.maximum(free[at[nodes]], 0) // cores).sum())


def lacks_cores(
    ways: Sequence[Way], counts: Counts, places: ByNode, keeps: Sequence[Keep], free: Ints, tasks: int
) -> Reason | None:
    """Too few cores beside what is kept of all nodes that a job may use; ``None``: enough."""
    for place, cores, _ in counts:
        if (at := places.get(place)) is None:
            continue
        nodes = np.logical_or.reduce([way.nodes for way in ways] or [np.zeros(len(at), np.bool_)])
        room = room_of(at, cores, nodes, free)
        if room is not None and room < tasks:
            keep = keeps[place]
            where = f"{INSIDE if keep.inside else OUTSIDE} {' and '.join(keep.owners)}"
            return Reason(Code.NO_ROOM, f"places for tasks of {cores} cores{where}", tasks, room)
    return None
