"""The Gantt chart's data: rectangles of nodes × time, packed and compressed.

All of them are on the page, which thins them only as it draws, by what the zoom can show. Beyond ``MOST_ROWS_A_PAGE``
rectangles (a page of some 10 to 15 MB) the runs share that budget: of every job the largest rectangle comes first, so
that the job is found, then the largest others; and the page says how many jobs it does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from unrack.kernels.arrays import Ints
from unrack.plots.lanes import ended, lanes, thinned
from unrack.report.charts.packed import coded, coded_jobs, number_ids, packed, stepped, ticked
from unrack.report.directory import RunFiles

MOST_ROWS_A_PAGE = 1_000_000
MOST_UNSTARTED = 100_000
MOST_RUNS = 24

_COLUMNS = ("job", "attempt", "start_s", "end_s", "first_node", "nodes", "cores_per_node", "outcome")


def budgets(sizes: Sequence[int], most: int) -> list[int]:
    """How many rectangles each run may have, given how many it has: all, or an equal part of what small runs leave.

    Examples
    --------
    >>> budgets([10, 500, 300], 600)
    [10, 295, 295]
    """
    found, left, open_ = list(sizes), most, len(sizes)
    for place in sorted(range(len(sizes)), key=lambda place: sizes[place]):
        found[place] = min(sizes[place], left // open_)
        left, open_ = left - found[place], open_ - 1
    return found


def gantt_data(run: RunFiles, title: str, budget: int) -> dict[str, Any]:
    """What the page draws of one run: at most ``budget`` rectangles.

    ``title``, ``id`` (of the run), ``nodes``, ``rows`` and ``kept`` (rectangles), ``jobs`` and ``kept_jobs`` (that
    started), ``all_jobs``, ``share`` of the node-seconds kept (0 to 1), ``start`` and ``end`` (s), and ``data``: base64
    of gzip of a header and the columns (see :func:`pack`).
    """
    every, start, last_s = ended(run.frame("placements", _COLUMNS))
    if "attempt" not in every.columns:
        every = every.with_columns(pl.lit(1).alias("attempt"))
    area = ((pl.col("end_s") - pl.col("start_s")) * pl.col("nodes")).alias("area")
    every = every.with_columns(area, pl.int_range(pl.len()).alias("row"))
    kept = thinned(every, budget).sort("start_s", "row")
    total = float(every["area"].sum())
    jobs = run.frame("jobs", ("job", "user", "app", "wait_s", "state"))
    return {
        "title": title,
        "id": run.id,
        "nodes": len(run.hardware),
        "rows": len(every),
        "kept": len(kept),
        "jobs": every["job"].n_unique(),
        "kept_jobs": kept["job"].n_unique(),
        "all_jobs": len(jobs),
        "share": float(kept["area"].sum()) / total if total else 1.0,
        "start": start,
        "end": max(last_s, start + 1.0),
        "data": pack(kept, jobs, start, np.maximum(run.hardware.cores, 1), unstarted(jobs, every)),
    }


def unstarted(jobs: pl.DataFrame, placed: pl.DataFrame) -> dict[str, list[str]]:
    """State → jobs that never held a node, the first ``MOST_UNSTARTED`` of them."""
    if "state" not in jobs.columns:
        return {}
    never = jobs.join(placed.select("job").unique(), on="job", how="anti").head(MOST_UNSTARTED)
    found: dict[str, list[str]] = {}
    for job, state in never.select(pl.col("job").cast(pl.String), "state").iter_rows():
        found.setdefault(str(state), []).append(job)
    return found


def pack(
    rows: pl.DataFrame, jobs: pl.DataFrame, origin: float, cores: Ints, never: dict[str, list[str]] | None = None
) -> str:
    """Rectangles, in order of start, and what is known of their jobs, packed.

    The header: ``rows``, ``jobs``, ``tick`` in s, ``ids`` (0: they are numbers, and a column), ``users``, ``apps``,
    ``outcomes``, ``never`` (state → ids of jobs that never started). One value a rectangle, in order of start: uint32
    start (ticks since the one before, the first since ``origin``), length (ticks), first node, nodes, job (its place
    among the ids, stepped); one value a job: float32 wait (s, NaN = unknown), uint32 user and app (places among
    ``users`` and ``apps``), uint32 id (stepped, if they are numbers); then uint8 a rectangle: lower edge and height
    within a node (255 = the node), outcome (its place among ``outcomes``), attempt (255: that or more). What *stepped*
    is says :func:`unrack.report.charts.packed.stepped`.

    Several rectangles of one attempt may follow each other in time: each is drawn when it was. ``origin``: start of the
    time axis, s; ``cores``: int64[nodes].
    """
    ids, place, known = coded_jobs(rows, jobs)
    users, user_codes = coded(known, "user")
    apps, app_codes = coded(known, "app")
    outcomes, outcome_codes = coded(rows, "outcome")
    start = rows["start_s"].cast(pl.Float64).to_numpy() - origin
    length = (rows["end_s"] - rows["start_s"]).cast(pl.Float64).to_numpy()
    tick, gaps, lengths = ticked(start, length)
    first, nodes = (rows[name].cast(pl.Int64).to_numpy() for name in ("first_node", "nodes"))
    asked = rows["cores_per_node"].cast(pl.Int64).to_numpy()
    lower, height = lanes(rows["start_s"].to_numpy(), rows["end_s"].to_numpy(), first, nodes, asked, cores)
    attempt = rows["attempt"].cast(pl.Int64).to_numpy() if "attempt" in rows.columns else np.ones(len(rows), np.int64)
    wait = known["wait_s"] if "wait_s" in known.columns else pl.Series([None] * len(known), dtype=pl.Float64)
    numbers = number_ids(ids)
    header = {
        "rows": len(rows), "jobs": len(ids), "tick": tick, "ids": ids if numbers is None else 0,
        "users": users, "apps": apps, "outcomes": outcomes, "never": never or {},
    }  # fmt: skip
    columns = [
        gaps, lengths, first.astype("<u4"), nodes.astype("<u4"), stepped(place.astype(np.int64)),
        wait.cast(pl.Float64).fill_null(float("nan")).to_numpy().astype("<f4"), user_codes, app_codes,
        *([] if numbers is None else [stepped(numbers)]),
        lower, height, outcome_codes.astype(np.uint8), np.clip(attempt, 1, 255).astype(np.uint8),
    ]  # fmt: skip
    return packed(header, columns)
