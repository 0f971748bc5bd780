"""The Gantt chart's data: rectangles of nodes × time, thinned, packed and compressed.

The rule of thinning: of each run the rows of ``placements`` with the most node-seconds are kept, up to
``MOST_ROWS_A_RUN`` a run and ``MOST_ROWS_A_PAGE`` in all; the page says what share of the node-time that is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.report.directory import RunFiles
from unrack.report.packed import coded, packed, ticked

MOST_ROWS_A_PAGE = 100_000
MOST_ROWS_A_RUN = 30_000
MOST_RUNS = 24
_MOST_LANES = 4_000_000

Ints = NDArray[np.int64]
_COLUMNS = ("job", "start_s", "end_s", "first_node", "nodes", "cores_per_node", "outcome")
_OUTCOMES = ("finished", "node-failed", "preempted")


def gantt_data(run: RunFiles, title: str, budget: int) -> dict[str, Any]:
    """What the page draws of one run.

    Parameters
    ----------
    run
        The run.
    title
        What the page's list of runs calls it.
    budget
        At most so many rectangles.

    Returns
    -------
    dict
        ``title``, ``nodes``, ``rows`` and ``kept`` (rectangles), ``share`` of the node-seconds kept (0 to 1), ``start``
        and ``end`` (s), and ``data``: base64 of gzip of a header and the columns (see :func:`pack`).
    """
    every = run.frame("placements", _COLUMNS).drop_nulls(["start_s", "end_s"])
    area = (pl.col("end_s") - pl.col("start_s")) * pl.col("nodes")
    kept = every.with_columns(area.alias("area"), pl.int_range(pl.len()).alias("row"))
    if len(kept) > budget:
        kept = kept.sort("area", "row", descending=[True, False]).head(budget)
    kept = kept.sort("start_s", "row")
    total = float(every.select(area.sum()).item() or 0.0)
    last = (every["first_node"] + every["nodes"]).cast(pl.Int64).to_numpy().max(initial=1)
    nodes = max(int(run.record["cluster"].get("nodes") or 0), int(last))
    times = every.select(pl.col("start_s", "end_s").cast(pl.Float64)).to_numpy()
    start, end = (float(times.min()), float(times.max())) if len(every) else (0.0, 1.0)
    return {
        "title": title,
        "nodes": nodes,
        "rows": len(every),
        "kept": len(kept),
        "share": float(kept["area"].sum()) / total if total else 1.0,
        "start": start,
        "end": max(end, start + 1.0),
        "data": pack(kept, run.frame("jobs", ("job", "user", "app", "wait_s")), start, node_cores(run, nodes)),
    }


def node_cores(run: RunFiles, nodes: int) -> Ints:
    """int64[nodes]: cores of each node."""
    cluster = run.record["cluster"]
    columns = cluster.get("columns") or {}
    if "count" in columns and "cores" in columns and sum(columns["count"]) == nodes:
        return np.maximum(np.repeat(np.array(columns["cores"], np.int64), columns["count"]), 1)
    classes = cluster.get("classes") or []
    if all(isinstance(kind, dict) and "nodes" in kind and "cores" in kind for kind in classes):
        cores = np.repeat([int(kind["cores"]) for kind in classes], [int(kind["nodes"]) for kind in classes])
        if len(cores) == nodes:
            return np.maximum(cores.astype(np.int64), 1)
    return np.full(nodes, max(int(cluster.get("cores") or nodes) // nodes, 1), np.int64)


def pack(rows: pl.DataFrame, jobs: pl.DataFrame, origin: float, cores: Ints) -> str:
    """Rectangles and what is known of their jobs, packed.

    The header: ``rows``, ``jobs``, ``tick`` in s, ``ids``, ``users``, ``apps``. One value a rectangle, in order of
    start: uint32 start (ticks since the one before, the first since ``origin``), length (ticks), first node, nodes, job
    (its place among ``ids``); one value a job: float32 wait (s, NaN = unknown), uint32 user and app (places among
    ``users`` and ``apps``); then uint8 a rectangle: lower edge and height within a node (255 = the node), outcome.

    Parameters
    ----------
    rows
        The rectangles, in order of start.
    jobs
        The jobs of the run.
    origin
        Start of the time axis, s.
    cores : int64[nodes]
        Cores of each node.
    """
    rows, jobs = (frame.with_columns(pl.col("job").cast(pl.String)) for frame in (rows, jobs))
    ids = rows["job"].unique(maintain_order=True)
    known = pl.DataFrame({"job": ids}).join(
        jobs.unique("job", keep="first", maintain_order=True), on="job", how="left", maintain_order="left"
    )
    users, user_codes = coded(known, "user")
    apps, app_codes = coded(known, "app")
    start = rows["start_s"].cast(pl.Float64).to_numpy() - origin
    length = (rows["end_s"] - rows["start_s"]).cast(pl.Float64).to_numpy()
    tick, gaps, lengths = ticked(start, length)
    place = dict(zip(ids.to_list(), range(len(ids)), strict=True))
    first, nodes = (rows[name].cast(pl.Int64).to_numpy() for name in ("first_node", "nodes"))
    lower, height = lanes(
        rows["start_s"].to_numpy(), rows["end_s"].to_numpy(), first, nodes, rows["cores_per_node"].to_numpy(), cores
    )
    outcomes = rows["outcome"].replace_strict(list(_OUTCOMES), [0, 1, 2], default=1, return_dtype=pl.UInt8).to_numpy()
    wait = known["wait_s"] if "wait_s" in known.columns else pl.Series([None] * len(known), dtype=pl.Float64)
    header = {
        "rows": len(rows), "jobs": len(ids), "tick": tick, "ids": ids.to_list(),
        "users": users, "apps": apps,
    }  # fmt: skip
    columns = [
        gaps, lengths, first.astype("<u4"), nodes.astype("<u4"),
        np.array([place[job] for job in rows["job"].to_list()], "<u4"),
        wait.cast(pl.Float64).fill_null(float("nan")).to_numpy().astype("<f4"), user_codes, app_codes,
        lower, height, outcomes.astype(np.uint8),
    ]  # fmt: skip
    return packed(header, columns)


def lanes(
    start: NDArray[np.float64], end: NDArray[np.float64], first: Ints, nodes: Ints, asked: Ints, cores: Ints
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Where within its nodes each rectangle is drawn, so that those that share a node lie side by side.

    Greedy, in order of start: the lowest run of cores that is free on all the rectangle's nodes; where none is, the
    one that is free soonest (thinning and fragmentation make that rare). It is a picture, not a binding to cores.

    Parameters
    ----------
    start, end : float64[rows]
        In order of start.
    first, nodes, asked : int64[rows]
        First node, number of nodes, cores on each.
    cores : int64[nodes]
        Cores of each node.

    Returns
    -------
    lower, height : uint8[rows]
        In 1/255 of a node.
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
    for row in range(len(start)):
        block = free_s[first[row] : first[row] + nodes[row]]
        width = min(max(int(asked[row]), 1), int(room[row]))
        ready = np.lib.stride_tricks.sliding_window_view(block[:, : room[row]].max(axis=0), width).max(axis=1)
        free = np.flatnonzero(ready <= start[row])
        lane = int(free[0]) if len(free) else int(ready.argmin())
        block[:, lane : lane + width] = end[row]
        lower[row] = min(lane * 255 // room[row], 255 - height[row])
    return lower, height
