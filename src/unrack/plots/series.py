"""Long columns made short enough to draw: step functions, distributions, rectangles of nodes × time."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints
from unrack.units import clock_start as clock_start

_SPANS = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
_WAITS = ((0, "0"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (21600, "6 h"),
          (86400, "1 d"), (604800, "1 w"), (2592000, "30 d"))  # fmt: skip
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8F8F8F", "#A6761D")
"""Okabe and Ito's, without yellow and black, which are hard to see or taken by text."""

BINS = 150
"""Bins of a chart over time."""

POINTS = 300
"""Points of a distribution."""
_MOST_LANES = 4_000_000


def bin_edges(spans: list[tuple[float, float]], bins: int = BINS) -> Floats:
    """Equal bins from the earliest start to the latest end, in the unit of the spans; float64[bins + 1]."""
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    return np.linspace(start, end if end > start else start + 1.0, bins + 1)


def binned_integral(times: Floats, values: Floats, edges: Floats) -> Floats:
    """The integral of a step function over each bin: float64[bins], in the unit of the values times that of the edges.

    Parameters
    ----------
    times, values : float64[rows]
        The value from each time until the next; the last row only ends the one before. Times do not fall.
    edges : float64[bins + 1]
        Bins; the function is 0 outside its times.

    Examples
    --------
    >>> binned_integral(np.array([0.0, 1.0, 3.0]), np.array([4.0, 1.0, 0.0]), np.array([0.0, 2.0, 4.0])).tolist()
    [5.0, 1.0]
    """
    if len(times) == 0:
        return np.zeros(len(edges) - 1)
    total = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
    return np.diff(np.interp(edges, times, total))


def binned_mean(times: Floats, values: Floats, edges: Floats) -> Floats:
    """The time-weighted mean of a step function in each bin, over that part of the bin in which it is known.

    NaN where a bin lies outside the times. Parameters as in :func:`binned_integral`.
    """
    covered = binned_integral(times, np.ones_like(times), edges)
    known = covered > 1e-9 * (edges[-1] - edges[0]) / (len(edges) - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, binned_integral(times, values, edges) / covered, np.nan)


def distribution(values: Floats, points: int = POINTS) -> tuple[Floats, Floats]:
    """The empirical distribution function, thinned to evenly spaced quantiles.

    At most so many points, the smallest and the largest value (NaN is left out) always among them: float64[points],
    twice, x, and the share of values that are at most x; rising. Empty without values.

    Examples
    --------
    >>> [column.tolist() for column in distribution(np.array([3.0, 0.0, 0.0, 1.0]))]
    [[0.0, 1.0, 3.0], [0.5, 0.75, 1.0]]
    """
    ordered = np.sort(values[~np.isnan(values)])
    if len(ordered) == 0:
        return ordered, ordered
    x, counts = np.unique(ordered, return_counts=True)
    share = counts.cumsum() / len(ordered)
    if len(x) > points:
        # In rank rather than in value; a value that many share keeps its own jump.
        pick = np.unique(np.searchsorted(share, np.linspace(share[0], 1.0, points) - 1e-12))
        x, share = x[pick], share[pick]
    return x, share


def rising(values: Floats) -> tuple[Floats, Floats]:
    """As :func:`distribution`, with a first point at a share of 0, from which a line of steps rises."""
    x, share = distribution(values)
    return (np.concatenate([x[:1], x]), np.concatenate([[0.0], share])) if len(x) else (x, share)


def rounded(values: Floats, digits: int = 4) -> list[float | None]:
    """Numbers for JSON, to so many significant digits; NaN becomes ``None``.

    Examples
    --------
    >>> rounded(np.array([0.123456, 120.0, np.nan]))
    [0.1235, 120.0, None]
    """
    return [None if np.isnan(value) else float(f"{value:.{digits}g}") for value in values.tolist()]


def six_digits(value: float) -> float:
    """A number to six significant digits, so that a page does not carry noise."""
    return float(f"{value:.6g}")


def span_unit(span_s: float) -> tuple[str, int]:
    """The unit that a span of time is told in, and its seconds: the largest of which there are three or more.

    Examples
    --------
    >>> span_unit(7200), span_unit(20 * 86400)
    (('minutes', 60), ('days', 86400))
    """
    return next((unit, size) for unit, size in _SPANS if span_s >= 3 * size or size == 1)


def wait_axis() -> dict[str, Any]:
    """The axis of a logarithmic scale with a place for 0, for seconds from 0 to months."""
    words = ", ".join(f"'{value}': '{text}'" for value, text in _WAITS)
    values = [value for value, _ in _WAITS]
    return {"values": values, "labelExpr": f"({{{words}}})[datum.value]", "labelOverlap": "greedy"}


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
