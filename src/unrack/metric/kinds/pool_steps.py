"""Pools over time: devices and compositions in use, the jobs that share them, devices stranded; as step functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Changes = tuple[Floats, Ints]
"""Times, in any order and with repetitions, and by how much a count changes at each of them."""

SCHEMA = {"time_s": pl.Float64, "devices_used": pl.Int64, "compositions": pl.Int64, "sharers": pl.Int64}


def pool_steps(shares: pl.DataFrame, kind: str, devices: int) -> pl.DataFrame:
    """How many devices of one kind are in use, in how many compositions, by how many jobs: at every change of any.

    A device (or composition) that one job leaves in the very instant another joins it stays in use throughout: the
    frame never shows a state that lasted no time. O(s log s) for the s devices of all shares.

    Parameters
    ----------
    shares
        The shares of a run: start_s, end_s (null: never ends), kind, devices (list of ids), composition; in any order.
    kind
        Count shares of this kind only.
    devices
        How many devices of the kind are installed; no more can be in use.

    Returns
    -------
    pl.DataFrame
        time_s; devices_used, compositions (in use) and sharers (shares held: a job on two compositions counts twice).
        Times rise; each row holds until the next, the last one for ever. No rows without shares that last.

    Examples
    --------
    >>> shares = pl.DataFrame({"start_s": [0.0, 2.0, 5.0], "end_s": [5.0, 4.0, 6.0], "kind": ["nvme"] * 3,
    ...                        "devices": [[0, 1], [0, 1], [1]], "composition": [7, 7, 8]})
    >>> pool_steps(shares, "nvme", 4).rows()
    [(0.0, 2, 1, 1), (2.0, 2, 1, 2), (4.0, 2, 1, 1), (5.0, 1, 1, 1), (6.0, 0, 0, 0)]
    """
    own = shares.filter(pl.col("kind") == kind)
    start, end = spans(own)
    composition = own["composition"].cast(pl.Int64).to_numpy()
    times, counts = summed(
        spells(*per_device(own)),
        spells(composition, start, end),
        spells(np.arange(len(own), dtype=np.int64), start, end),
    )
    assert counts[0].max(initial=0) <= devices, f"more than {devices} {kind} devices in use"
    return pl.DataFrame(dict(zip(SCHEMA, (times, *counts), strict=True)), schema=SCHEMA)


def stranded_steps(
    shares: pl.DataFrame,
    placements: pl.DataFrame,
    pools: Sequence[tuple[int, int, NDArray[np.bool_]]],
    cores: Ints,
    least: int,
) -> pl.DataFrame:
    """How many devices are stranded: free, but no node that may attach them has enough free cores.

    Parameters
    ----------
    shares, placements
        Those of a run; nodes count as online throughout.
    pools
        Of each pool to be counted: its first device, its number of devices, and which nodes may attach them
        (bool[nodes]).
    cores : int64[nodes]
        Cores of each node.
    least
        Cores that are enough: the fewest that a job with such a device asks of a node.

    Returns
    -------
    pl.DataFrame
        time_s and stranded (devices); as in :func:`pool_steps`, with a first row at the first start of anything.

    Examples
    --------
    >>> shares = pl.DataFrame({"start_s": [2.0], "end_s": [8.0], "devices": [[0]]})
    >>> placements = pl.DataFrame({"start_s": [2.0, 3.0], "end_s": [8.0, 5.0], "first_node": [0, 0], "nodes": [1, 1],
    ...                            "cores_per_node": [6, 3]})
    >>> stranded_steps(shares, placements, [(0, 4, np.array([True]))], np.array([10]), 2).rows()
    [(2.0, 0), (3.0, 3), (5.0, 0)]
    """
    start, end = spans(placements)
    first, count, asked = (
        placements[name].cast(pl.Int64).to_numpy() for name in ("first_node", "nodes", "cores_per_node")
    )
    node = np.repeat(first - np.concatenate([[0], count.cumsum()[:-1]]), count) + np.arange(count.sum())
    node, when, held = levels(node, *(np.repeat(column, count) for column in (start, end, asked)))
    is_open, was_open = cores[node] - held >= least, cores >= least
    before = np.where(np.diff(node, prepend=-1) != 0, was_open[node], np.roll(is_open, 1))
    opened = is_open.astype(np.int64) - before
    device, begins, change = device_spells(*per_device(shares))
    began = np.concatenate([start, spans(shares)[0]])
    if len(pools) == 0 or len(began) == 0:
        return pl.DataFrame(schema={"time_s": pl.Float64, "stranded": pl.Int64})
    origin = began.min(keepdims=True)
    parts: list[Changes] = []
    of_node = np.searchsorted(node, np.arange(len(cores) + 1))  # both are in order: each pool reads its own alone
    for low, size, reach in pools:
        reached = np.flatnonzero(reach)
        near = _ranges(of_node[reached], of_node[reached + 1])
        near = near[np.isfinite(when[near])]
        own = slice(*np.searchsorted(device, [low, low + size]).tolist())
        ready = int(was_open[reached].sum())
        times, (nodes, used) = summed((when[near], opened[near]), (begins[own], change[own]))
        stranded = np.where(ready + nodes == 0, size - used, 0)
        at_first = 0 if ready else size
        parts += [(origin, np.array([at_first])), (times, np.diff(stranded, prepend=at_first))]
    times, (total,) = summed(_joined(parts))
    if len(times) == 0 or times[0] > origin[0]:
        times, total = np.concatenate([origin, times]), np.concatenate([np.zeros(1, np.int64), total])
    return pl.DataFrame({"time_s": times, "stranded": total})


def held_steps(shares: pl.DataFrame, amounts: Ints, capacity: Ints) -> pl.DataFrame:
    """How much of a quantity jobs hold, and how much the devices in use have: what is left between is fragmentation.

    Parameters
    ----------
    shares
        Those of one kind.
    amounts : int64[shares]
        What each share holds.
    capacity : int64[devices]
        What each device has.

    Returns
    -------
    pl.DataFrame
        time_s, held, installed (on devices in use); as in :func:`pool_steps`.

    Examples
    --------
    >>> shares = pl.DataFrame({"start_s": [0.0, 2.0], "end_s": [5.0, 4.0], "devices": [[0, 1], [0, 1]]})
    >>> held_steps(shares, np.array([300, 200]), np.array([600, 600])).rows()
    [(0.0, 300, 1200), (2.0, 500, 1200), (4.0, 300, 1200), (5.0, 0, 0)]
    """
    device, when, change = device_spells(*per_device(shares))
    start, end = spans(shares)
    finite = np.isfinite(end)
    held = np.concatenate([start, end[finite]]), np.concatenate([amounts, -amounts[finite]])
    times, (held_now, installed) = summed(held, (when, change * capacity[device]))
    return pl.DataFrame({"time_s": times, "held": held_now, "installed": installed})


def _ranges(first: Ints, end: Ints) -> Ints:
    """int64[k]: all whole numbers from each ``first`` up to its ``end``, one range after the other."""
    size = end - first
    within = np.arange(size.sum(), dtype=np.int64) - np.repeat(np.cumsum(size) - size, size)
    places: Ints = np.repeat(first, size) + within
    return places


def _joined(parts: Sequence[Changes]) -> Changes:
    return np.concatenate([when for when, _ in parts]), np.concatenate([change for _, change in parts])


def spans(frame: pl.DataFrame) -> tuple[Floats, Floats]:
    """float64[rows], twice: the starts and the ends; an end that is not known never comes."""
    return (
        frame["start_s"].cast(pl.Float64).to_numpy(),
        frame["end_s"].cast(pl.Float64).fill_null(float("inf")).to_numpy(),
    )


def per_device(shares: pl.DataFrame) -> tuple[Ints, Floats, Floats]:
    """A row for every device of every share: its id, from when until when."""
    sizes = shares["devices"].list.len().cast(pl.Int64).to_numpy()
    ids = shares["devices"].list.explode(keep_nulls=False, empty_as_null=False).cast(pl.Int64).to_numpy()
    start, end = spans(shares)
    return ids, np.repeat(start, sizes), np.repeat(end, sizes)


def levels(who: Ints, start: Floats, end: Floats, amount: Ints | None = None) -> tuple[Ints, Floats, Ints]:
    """How much of each of several things is in use, given all its uses.

    Parameters
    ----------
    who : int64[uses]
        Which thing is used.
    start, end : float64[uses]
        From when until when; may be infinite.
    amount : int64[uses]
        How much of it; ``None``: 1 each.

    Returns
    -------
    who : int64[changes]
        In order.
    when : float64[changes]
        A start or an end of a use of that thing; rising for each thing, the last of each being its last end.
    level : int64[changes]
        What is in use from then on; 0 after the last end.
    """
    if len(who) == 0:
        return who, start, np.zeros(0, np.int64)
    step = np.ones(len(who), np.int64) if amount is None else amount
    thing, when, change = np.concatenate([who, who]), np.concatenate([start, end]), np.concatenate([step, -step])
    order = np.lexsort((when, thing))
    thing, when, change = thing[order], when[order], change[order]
    first = np.flatnonzero(np.concatenate([[True], (thing[1:] != thing[:-1]) | (when[1:] != when[:-1])]))
    # The uses of one thing sum to 0 at its last end, so what is summed over all things before this one is 0 too.
    return thing[first], when[first], np.add.reduceat(change, first).cumsum()


def device_spells(who: Ints, start: Floats, end: Floats) -> tuple[Ints, Floats, Ints]:
    """As :func:`spells`, with the thing of each change first."""
    thing, when, level = levels(who, start, end)
    change = np.diff((level > 0).astype(np.int64), prepend=0)
    kept = (change != 0) & np.isfinite(when)
    return thing[kept], when[kept], change[kept]


def spells(who: Ints, start: Floats, end: Floats) -> Changes:
    """When each of several things begins (1) and ceases (-1) to be in use; parameters as in :func:`levels`."""
    _, when, change = device_spells(who, start, end)
    return when, change


def summed(*counts: Changes) -> tuple[Floats, Ints]:
    """Counts from their changes, on one axis of times.

    Returns
    -------
    times : float64[times]
        Those at which any count changes, rising; a time at which every count's changes cancel out is left out.
    counts : int64[counts, times]
        The sums of the changes up to and with each time.
    """
    times = np.unique(np.concatenate([when for when, _ in counts]))
    steps = np.zeros((len(counts), len(times)), np.int64)
    for row, (when, change) in zip(steps, counts, strict=True):
        np.add.at(row, np.searchsorted(times, when), change)
    kept = steps.any(axis=0)
    return times[kept], steps[:, kept].cumsum(axis=1)
