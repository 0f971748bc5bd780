"""Metrics of pooled devices, one set for every kind that the cluster has; and what they are of, as step functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from unrack.cluster.pools.pool import Devices
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.metric.holdings import Window, ratio
from unrack.steps import Changes, areas_of, each_of, levels, spans, spells, summed

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
        Times rise; each row holds until the next, the last one forever. No rows without shares that last.

    Examples
    --------
    >>> shares = pl.DataFrame({"start_s": [0.0, 2.0, 5.0], "end_s": [5.0, 4.0, 6.0], "kind": ["nvme"] * 3,
    ...                        "devices": [[0, 1], [0, 1], [1]], "composition": [7, 7, 8]})
    >>> pool_steps(shares, "nvme", 4).rows()
    [(0.0, 2, 1, 1), (2.0, 2, 1, 2), (4.0, 2, 1, 1), (5.0, 1, 1, 1), (6.0, 0, 0, 0)]
    """
    own = shares.filter(pl.col("kind") == kind)
    each = own["composition"].cast(pl.Int64).to_numpy(), np.arange(len(own), dtype=np.int64)
    uses = per_device(own), *((thing, *spans(own)) for thing in each)
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
    shares: pl.DataFrame, placements: pl.DataFrame, pools: Sequence[tuple[int, int, Bools]], cores: Ints, least: int
) -> pl.DataFrame:
    """How many devices are stranded: free, but no node that may attach them has enough free cores.

    Returns time_s and stranded (devices); as in :func:`pool_steps`, with a first row at the first start of anything.

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


def asked_steps(shares: pl.DataFrame, jobs: pl.DataFrame, devices: Devices, kind: str, quantity: str) -> pl.DataFrame:
    """What :func:`held_steps` says of what the jobs that have devices of a kind ask of a quantity.

    ``shares``: those of the kind; ``jobs``: with the column of the quantity, or without where no job asks for it.
    """
    column, number = f"{kind}.{quantity}", devices.kinds.index(kind)
    capacity = np.where(devices.kind == number, devices.capacity[devices.quantities[number].index(quantity)], 0)
    if column not in jobs.columns:
        return held_steps(shares, np.zeros(len(shares), np.int64), capacity)
    asked = shares.join(jobs.select("job", column), on="job", how="left", maintain_order="left")
    return held_steps(shares, asked[column].fill_null(0).to_numpy(), capacity)


def pool_metrics(window: Window) -> dict[str, float | None]:
    """Metrics of every kind of device; the names are those of ``KIND_METRICS`` with the kind put in."""
    values: dict[str, float | None] = {}
    if "shares" not in window.tables:
        return values
    jobs, shares, devices = window.tables["jobs"], window.tables["shares"], window.cluster.devices

    def areas(steps: pl.DataFrame, *columns: str) -> list[float]:
        return list(areas_of(steps, columns, window.start_s, window.end_s).values())

    for kind, quantities in zip(devices.kinds, devices.quantities, strict=True):
        count, own = len(devices.of_kind(kind)), shares.filter(pl.col("kind") == kind)
        some, groups = pl.col("devices_used") > 0, pl.max_horizontal("compositions", pl.lit(1))
        steps = pool_steps(shares, kind, count).with_columns(
            some=some.cast(pl.Int64), size=pl.col("devices_used") / groups, each=pl.col("sharers") / groups
        )
        used, in_use, size, each = areas(steps, "devices_used", "some", "size", "each")
        length = max(window.length_s, 0.0)
        values[f"used_{kind}"] = ratio(used, count * length)
        values[f"composition_size_{kind}"] = ratio(size, in_use)
        values[f"sharing_{kind}"] = ratio(each, length)
        lost = stranded_of(own, kind, jobs, window.tables["placements"], devices, window.cluster.cores)
        values[f"stranded_{kind}"] = None if lost is None else ratio(areas(lost, "stranded")[0], count * length)
        for name in quantities:
            held, there = areas(asked_steps(own, jobs, devices, kind, name), "held", "installed")
            values[f"asked_{kind}_{name}"] = ratio(held, devices.installed(kind, name) * length)
            values[f"fragmentation_{kind}_{name}"] = 1 - held / there if there > 0 else None
    return values
