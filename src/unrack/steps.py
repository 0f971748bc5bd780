"""Step functions: how much of each of many things is held, from rows that hold some of one from when until when.

What is held of a place, which devices are in use and what a run spent are all counted here, whatever is held. Times
may be whole (µs) or not (s); a step function is its times, which rise, and its value from each of them until the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.kernels.arrays import Floats, Ints

Times = NDArray[Any]
"""Whole µs, or s."""

Changes = tuple[Times, Ints]
"""Times, in any order and with repetitions, and by how much a count changes at each of them."""


def each_of(first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """int64[numbers], twice: every number of runs of consecutive ones, run by run, and before it the run that it is of.

    Examples
    --------
    >>> [column.tolist() for column in each_of(np.array([7, 2]), np.array([2, 1]))]
    [[0, 0, 1], [7, 8, 2]]
    """
    run = np.repeat(np.arange(len(count)), count)
    numbers: Ints = np.arange(len(run), dtype=np.int64) + (first - np.cumsum(count) + count)[run]
    return run, numbers


def spans(frame: pl.DataFrame) -> tuple[Floats, Floats]:
    """float64[rows], twice: the starts and the ends; an end that is not known never comes."""
    return (
        frame["start_s"].cast(pl.Float64).to_numpy(),
        frame["end_s"].cast(pl.Float64).fill_null(float("inf")).to_numpy(),
    )


def levels(which: Ints, start: Times, end: Times, amount: Ints | None = None) -> tuple[Ints, Times, Ints]:
    """How much of each of several things is in use, given all its uses; O(n log n).

    Parameters
    ----------
    which : int64[uses]
        Which thing is used.
    start, end : float64[uses] or int64[uses]
        From when until when; may be infinite.
    amount : int64[uses]
        How much of it; ``None``: 1 each. int64[amounts, uses]: several amounts, each counted by itself.

    Returns
    -------
    which : int64[changes]
        In order.
    when : of the same type, [changes]
        A start or an end of a use of that thing; rising for each thing, the last of each being its last end.
    level : int64[changes]
        What is in use from then on; 0 after the last end. int64[amounts, changes] of several amounts.
    """
    step = np.ones(len(which), np.int64) if amount is None else amount
    both = np.concatenate([which, which]), np.concatenate([start, end]), np.concatenate([step, -step], axis=-1)
    return changed(*both)


def changed(which: Ints, when: Times, change: Ints) -> tuple[Ints, Times, Ints]:
    """The levels of several things from their changes, in any order: as :func:`levels`, from a level of 0 each."""
    if len(which) == 0:
        return which, when, change
    low, span = when.min(), when.max() - when.min() + 1
    if when.dtype == np.int64 and span * (int(which.max()) + 1) < 2**62:
        order = np.argsort(which * span + (when - low))
    else:
        order = np.lexsort((when, which))
    which, when = which[order], when[order]
    first = np.flatnonzero(np.append(True, (which[1:] != which[:-1]) | (when[1:] != when[:-1])))
    step = np.add.reduceat(np.take(change, order, axis=-1), first, axis=-1)
    which, total = which[first], step.cumsum(axis=-1)
    begin = np.flatnonzero(np.append(True, which[1:] != which[:-1]))
    before = np.repeat((total - step)[..., begin], np.diff(np.append(begin, len(which))), axis=-1)
    return which, when[first], total - before


def spells(which: Ints, start: Times, end: Times) -> tuple[Ints, Times, Ints]:
    """When each of several things begins (1) and ceases (-1) to be in use: as :func:`levels`, without what never ends.

    What one use leaves in the very instant another begins stays in use throughout.
    """
    thing, when, level = levels(which, start, end)
    change = np.diff((level > 0).astype(np.int64), prepend=0)
    kept = (change != 0) & np.isfinite(when)
    return thing[kept], when[kept], change[kept]


def summed(*counts: Changes) -> tuple[Floats, Ints]:
    """Counts from their changes, on one axis of times.

    float64[times], at which any count changes, rising, without those at which every count's changes cancel out; and
    int64[counts, times], the sums of the changes up to and with each time.
    """
    times = np.unique(np.concatenate([when for when, _ in counts]))
    steps = np.zeros((len(counts), len(times)), np.int64)
    for row, (when, change) in zip(steps, counts, strict=True):
        np.add.at(row, np.searchsorted(times, when), change)
    kept = steps.any(axis=0)
    return times[kept], steps[:, kept].cumsum(axis=1)


def summed_at(count: int, *changes: tuple[Ints, Ints | int]) -> Ints:
    """int64[count]: what there is from each of so many moments on, given at which of them it changes by how much."""
    change = np.zeros(count + 1, np.int64)
    for at, amount in changes:
        np.add.at(change, at, amount)
    return np.cumsum(change)[:-1]


def held_between(rows: pl.DataFrame, start_s: float, end_s: float) -> tuple[Floats, Ints]:
    """What rows with an ``amount`` hold together, as times and the level from each on; from one time to another."""
    end_s = max(start_s, end_s)
    start, end = (np.clip(times, start_s, end_s) for times in spans(rows))
    lasts, amount, edge = end > start, rows["amount"].to_numpy(), (np.array([start_s, end_s]), np.zeros(2, np.int64))
    when, change = ([start[lasts], end[lasts], edge[0]], [amount[lasts], -amount[lasts], edge[1]])
    times, of = np.unique(np.concatenate(when), return_inverse=True)
    level = np.zeros(len(times), np.int64)
    np.add.at(level, of.ravel(), np.concatenate(change))
    return times, np.cumsum(level)


def areas_of(steps: pl.DataFrame, columns: Iterable[str], start_s: float, end_s: float) -> dict[str, float]:
    """The integral over a time of columns of a step function, in the column's unit times s.

    ``steps``: ``time_s``, rising, and columns of numbers; before its first row all are 0, and its last row holds for
    ever.

    Examples
    --------
    >>> areas_of(pl.DataFrame({"time_s": [0.0, 2.0], "mb": [10, 1]}), ["mb"], 1.0, 5.0)
    {'mb': 13.0}
    """
    if steps.height == 0 or end_s <= start_s:
        return dict.fromkeys(columns, 0.0)
    lengths = np.diff(np.clip(np.append(steps["time_s"].to_numpy(), np.inf), start_s, end_s))
    return {name: float(np.dot(lengths, steps[name].to_numpy().astype(np.float64))) for name in columns}


def largest(steps: pl.DataFrame, column: str, start_s: float, end_s: float) -> float:
    """The largest value that a column of a step function has between two times, both included; 0 before its first row.

    Examples
    --------
    >>> largest(pl.DataFrame({"time_s": [0.0, 2.0, 9.0], "mb": [10, 1, 50]}), "mb", 3.0, 5.0)
    1.0
    """
    before = steps.filter(pl.col("time_s") <= start_s).tail(1)
    inside = steps.filter(pl.col("time_s").is_between(start_s, end_s))
    found = pl.concat([before, inside])[column].max()
    return float(found) if isinstance(found, int | float) else 0.0


def means(times: Floats, values: Floats | Ints, edges: Floats) -> Floats:
    """float64[pieces]: the mean of a step function over pieces of time; ``values`` has one less than ``times``.

    Examples
    --------
    >>> means(np.array([0.0, 1.0, 4.0]), np.array([4, 1]), np.array([0.0, 2.0, 4.0])).tolist()
    [2.5, 1.0]
    """
    area = np.concatenate([[0.0], np.cumsum(np.diff(times) * values)])
    found: Floats = np.diff(np.interp(edges, times, area)) / np.maximum(np.diff(edges), 1e-300)
    return found
