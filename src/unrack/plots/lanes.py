"""Rectangles of nodes × time: which are kept where there are too many, and where those lie that share a node."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints

_MOST_LANES = 4_000_000


def ended(rows: pl.DataFrame) -> tuple[pl.DataFrame, float, float]:
    """The rows that started, those without an end ending with the last; the first start, and the last end."""
    started = rows.drop_nulls("start_s")
    first, *known = (started[name] for name in ("start_s", "start_s", "end_s"))
    start, last = float(first.min() or 0.0), max(float(times.max() or 0.0) for times in known)  # type: ignore[arg-type]
    return started.with_columns(pl.col("end_s").fill_null(last)), start, last


def thinned(rows: pl.DataFrame, budget: int) -> pl.DataFrame:
    """At most so many rows: the one with the largest ``area`` of every job before all others, large ones first."""
    if len(rows) <= budget:
        return rows
    ranked = rows.sort("area", "row", descending=[True, False])
    ranked = ranked.with_columns((pl.int_range(pl.len()).over("job") > 0).alias("further"))
    return ranked.sort("further", maintain_order=True).head(budget).drop("further")


def lanes(
    start: Floats, end: Floats, first: Ints, nodes: Ints, asked: Ints, cores: Ints
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Where within its nodes each rectangle is drawn, so that those that share a node lie side by side.

    Greedy, in order of start: the lowest run of cores that is free on all the rectangle's nodes; where none is, the
    one that is free soonest (thinning and fragmentation make that rare). It is a picture, not a binding to cores.

    ``start``, ``end``: float64[rows], in order of start; ``first``, ``nodes``, ``asked``: int64[rows], first node,
    number of nodes, cores on each; ``cores``: int64[nodes]. Returns lower edge and height, uint8[rows], in 1/255 of a
    node.
    """
    lower, height = np.zeros(len(start), np.uint8), np.full(len(start), 255, np.uint8)
    if len(start) == 0:
        return lower, height
    room = cores[np.minimum(first, len(cores) - 1)]
    part = asked < room
    height = np.where(part, np.clip(asked * 255 // room, 1, 255), 255).astype(np.uint8)
    widest = int(cores.max())
    if not part.any() or widest * len(cores) > _MOST_LANES:
        return lower, height
    free_s = np.full((len(cores), widest), -np.inf)
    lane = _lanes(start.astype(np.float64), end.astype(np.float64), first, nodes, np.clip(asked, 1, room), room, free_s)
    return np.minimum(lane * 255 // room, 255 - height).astype(np.uint8), height


@compiled
def _lanes(start: Floats, end: Floats, first: Ints, nodes: Ints, width: Ints, room: Ints, free_s: Floats) -> Ints:
    """int64[rows]: the lowest core of each rectangle; overwrites ``free_s``, float64[nodes, cores], with busy ends."""
    lane = np.zeros(len(start), np.int64)
    ready = np.empty(free_s.shape[1])
    for row in range(len(start)):
        ready[:] = -np.inf
        for node in range(first[row], min(first[row] + nodes[row], free_s.shape[0])):
            for core in range(room[row]):
                ready[core] = max(ready[core], free_s[node, core])
        best, soonest = 0, np.inf
        for core in range(room[row] - width[row] + 1):
            free = ready[core]
            for further in range(core + 1, core + width[row]):
                free = max(free, ready[further])
            if free < soonest:
                best, soonest = core, free
            if free <= start[row]:
                best = core
                break
        lane[row] = best
        for node in range(first[row], min(first[row] + nodes[row], free_s.shape[0])):
            free_s[node, best : best + width[row]] = end[row]
    return lane
