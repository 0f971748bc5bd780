"""Pools over time: devices and compositions in use, the jobs that share them, devices stranded; as step functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from unrack.cluster.pools.pool import Devices
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.steps import Changes, each_of, levels, spans, spells, summed

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
    each = own["composition"].cast(pl.Int64).to_numpy(), np.arange(len(own), dtype=np.int64)
    uses = per_device(own), *((who, *spans(own)) for who in each)
    times, counts = summed(*(spells(*use)[1:] for use in uses))
    assert counts[0].max(initial=0) <= devices, f"more than {devices} {kind} devices in use"
    return pl.DataFrame(dict(zip(SCHEMA, (times, *counts), strict=True)), schema=SCHEMA)


def stranded_of(
    shares: pl.DataFrame, kind: str, jobs: pl.DataFrame, placements: pl.DataFrame, devices: Devices, cores: Ints
) -> pl.DataFrame | None:
    """What :func:`stranded_steps` says of one kind in a run; ``None``: no job asks for any of it.

    Cores that are enough are the fewest of a job that asks for the kind; ``cores``: int64[nodes].
    """
    asks = [column for column in jobs.columns if column.startswith(f"{kind}.")]
    asking = jobs.filter(pl.any_horizontal(pl.col(column) > 0 for column in asks)) if asks else jobs.clear()
    if asking.height == 0:
        return None
    least = int(asking["cores_per_task"].min())  # type: ignore[arg-type]  # a column of integers
    pools = [(p.first, p.count, devices.reach[i]) for i, p in enumerate(devices.pools) if p.kind == kind]
    return stranded_steps(shares.filter(pl.col("kind") == kind), placements, pools, cores, least)


def stranded_steps(
    shares: pl.DataFrame,
    placements: pl.DataFrame,
    pools: Sequence[tuple[int, int, Bools]],
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
        Of each node.
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
    began = np.concatenate([spans(placements)[0], spans(shares)[0]])
    if len(pools) == 0 or len(began) == 0:
        return pl.DataFrame(schema={"time_s": pl.Float64, "stranded": pl.Int64})
    first, count, asked = (
        placements[name].cast(pl.Int64).to_numpy() for name in ("first_node", "nodes", "cores_per_node")
    )
    row, node = each_of(first, count)
    start, end = (times[row] for times in spans(placements))
    node, when, held = levels(node, start, end, asked[row])
    is_open, was_open = cores[node] - held >= least, cores >= least
    before = np.where(np.diff(node, prepend=-1) != 0, was_open[node], np.roll(is_open, 1))
    opened = is_open.astype(np.int64) - before
    device, begins, change = spells(*per_device(shares))
    origin = began.min(keepdims=True)
    parts: list[Changes] = []
    of_node = np.searchsorted(node, np.arange(len(cores) + 1))  # both are in order: each pool reads its own alone
    for low, size, reach in pools:
        reached = np.flatnonzero(reach)
        near = each_of(of_node[reached], of_node[reached + 1] - of_node[reached])[1]
        near = near[np.isfinite(when[near])]
        own = slice(*np.searchsorted(device, [low, low + size]).tolist())
        ready = int(was_open[reached].sum())
        times, (nodes, used) = summed((when[near], opened[near]), (begins[own], change[own]))
        stranded = np.where(ready + nodes == 0, size - used, 0)
        at_first = 0 if ready else size
        parts += [(origin, np.array([at_first])), (times, np.diff(stranded, prepend=at_first))]
    times, (total,) = summed((np.concatenate([when for when, _ in parts]), np.concatenate([step for _, step in parts])))
    if len(times) == 0 or times[0] > origin[0]:
        times, total = np.concatenate([origin, times]), np.concatenate([np.zeros(1, np.int64), total])
    return pl.DataFrame({"time_s": times, "stranded": total})


def held_steps(shares: pl.DataFrame, amounts: Ints, capacity: Ints) -> pl.DataFrame:
    """How much of a quantity jobs hold, and how much the devices in use have: what is left between is fragmentation.

    ``amounts``: int64[shares], what each share holds; ``capacity``: int64[devices]. Returns time_s, held, installed (on
    devices in use), as :func:`pool_steps`.

    Examples
    --------
    >>> shares = pl.DataFrame({"start_s": [0.0, 2.0], "end_s": [5.0, 4.0], "devices": [[0, 1], [0, 1]]})
    >>> held_steps(shares, np.array([300, 200]), np.array([600, 600])).rows()
    [(0.0, 300, 1200), (2.0, 500, 1200), (4.0, 300, 1200), (5.0, 0, 0)]
    """
    device, when, change = spells(*per_device(shares))
    start, end = spans(shares)
    finite = np.isfinite(end)
    held = np.concatenate([start, end[finite]]), np.concatenate([amounts, -amounts[finite]])
    times, (held_now, installed) = summed(held, (when, change * capacity[device]))
    return pl.DataFrame({"time_s": times, "held": held_now, "installed": installed})


def per_device(shares: pl.DataFrame) -> tuple[Ints, Floats, Floats]:
    """A row for every device of every share: its id, from when until when."""
    sizes = shares["devices"].list.len().cast(pl.Int64).to_numpy()
    ids = shares["devices"].list.explode(keep_nulls=False, empty_as_null=False).cast(pl.Int64).to_numpy()
    start, end = spans(shares)
    return ids, np.repeat(start, sizes), np.repeat(end, sizes)
