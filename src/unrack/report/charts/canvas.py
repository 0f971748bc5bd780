"""What the page draws by itself, packed: nodes over time, and devices over time.

All rectangles are on the page, which thins them only as it draws, by what the zoom can show. Beyond
``MOST_ROWS_A_PAGE`` (a page of some 10 to 15 MB) the runs share that budget: of every job the largest rectangle comes
first, so that the job is found, then the largest others; and the page says how many jobs it does not have.

Of shares of devices whole compositions are kept or left out beyond ``MOST_SHARES_A_PAGE``, so that the number of
sharers that is shown is always right: those with the most device-seconds as long as the run's budget of shares lasts;
and the page says so.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.kernels.arrays import Floats, Ints
from unrack.plots.series import clock_start, ended, lanes, thinned
from unrack.report.setting import RunFiles

MOST_ROWS_A_PAGE, MOST_SHARES_A_PAGE = 1_000_000, 500_000
MOST_RUNS = 24
MOST_UNSTARTED = 100_000
_PLACEMENTS = ("job", "attempt", "start_s", "end_s", "first_node", "nodes", "cores_per_node", "outcome")
_SHARES = ("job", "start_s", "end_s", "node", "devices", "composition", "parts")


def packed(header: Mapping[str, Any], columns: Sequence[NDArray[Any]]) -> str:
    """Text for the page: uint32 length of the header; the header as JSON; the columns, one after the other.

    A column is stored by planes, little-endian: the lowest bytes of all its values, then their second bytes and so on.
    High bytes are alike, so this takes half the room of whole values.
    """
    text = json.dumps(header, separators=(",", ":")).encode()
    planes = [np.frombuffer(own.tobytes(), np.uint8).reshape(own.size, own.itemsize).T.tobytes() for own in columns]
    whole = b"".join([np.array([len(text)], "<u4").tobytes(), text, *planes])
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode()


def stepped(values: Ints) -> NDArray[np.uint32]:
    """Differences between neighbours (the first from 0), the sign in the lowest bit: 0, −1, 1 and −2 are 0, 1, 2 and 3.

    Examples
    --------
    >>> stepped(np.array([5, 4, 6])).tolist()
    [10, 1, 4]
    """
    whole: Ints = values.astype(np.int64)
    steps = whole - np.concatenate([np.zeros(1, np.int64), whole])[: len(whole)]
    signed: NDArray[np.uint32] = ((steps << 1) ^ (steps >> 63)).astype("<u4")
    return signed


def number_ids(ids: Sequence[str]) -> Ints | None:
    """The ids as whole numbers below 2**30, if all of them are such numbers and written plainly."""
    if not all(
        name.isascii() and name.isdigit() and len(name) < 10 and (name[0] != "0" or name == "0") for name in ids
    ):
        return None
    return np.array(list(map(int, ids)), np.int64)


def ticked(start: Floats, length: Floats) -> tuple[float, NDArray[np.uint32], NDArray[np.uint32]]:
    """Times as whole ticks: the tick (s), the gaps between starts (the first from 0), the lengths.

    ``start``, ``length``: float64[rows], in s, in order of start; starts count from the origin of the axis.
    """
    tick = _tick(start, length)
    # starts and ends are rounded alike, so that what began when another ended does not overlap it
    ticks, ends = (np.rint(np.rint(time * 1e6) / (tick * 1e6)).astype(np.int64) for time in (start, start + length))
    return tick, np.diff(ticks, prepend=0).astype("<u4"), np.maximum(ends - ticks, 0).astype("<u4")


def _tick(start: Floats, length: Floats) -> float:
    """The coarsest of 1, 0.1 … 1e-6 s that keeps every time exact and every count within 32 bits."""
    if len(start) == 0:
        return 1.0
    longest = max(float(start[-1]), float(length.max()), 1.0)
    micro = np.rint(np.concatenate([start, length]) * 1e6).astype(np.int64)
    tick = 1.0
    for power in range(7):
        tick = 10.0**-power
        if not (micro % 10 ** (6 - power)).any() or longest / (tick / 10) >= 2**32:
            break
    return tick


def coded(frame: pl.DataFrame, column: str) -> tuple[list[str], NDArray[np.uint32]]:
    """The different values of a column as texts, in order of appearance, and each row's place among them.

    A null is ``""``; so is every row where the column is missing.
    """
    if column not in frame.columns:
        return [""], np.zeros(len(frame), "<u4")
    values = frame[column].cast(pl.String).fill_null("")
    names = values.unique(maintain_order=True).to_list()
    codes = (
        values.replace_strict(names, list(range(len(names))), return_dtype=pl.UInt32)
        if names
        else values.cast(pl.UInt32)
    )
    return names, codes.to_numpy().astype("<u4")


def coded_jobs(rows: pl.DataFrame, jobs: pl.DataFrame) -> tuple[list[str], NDArray[np.uint32], pl.DataFrame]:
    """The ids of the jobs of some rows, each row's place among them, and what is known of them, in this order."""
    ids, place = coded(rows, "job")
    known = jobs.with_columns(pl.col("job").cast(pl.String)).unique("job", keep="first", maintain_order=True)
    of = pl.DataFrame({"job": pl.Series(ids, dtype=pl.String)})
    return ids, place, of.join(known, on="job", how="left", maintain_order="left")


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
    of gzip of a header and the columns (see :func:`pack_placements`).
    """
    every, start, last_s = ended(run.frame("placements", _PLACEMENTS))
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
        "start": (begin := start - clock_start(start)),
        "end": begin + max(last_s - start, 1.0),
        "data": pack_placements(kept, jobs, start, np.maximum(run.hardware.cores, 1), unstarted(jobs, every)),
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


def pack_placements(
    rows: pl.DataFrame, jobs: pl.DataFrame, origin: float, cores: Ints, never: dict[str, list[str]] | None = None
) -> str:
    """Rectangles, in order of start, and what is known of their jobs, packed.

    The header: ``rows``, ``jobs``, ``tick`` in s, ``ids`` (0: they are numbers, and a column), ``users``, ``apps``,
    ``outcomes``, ``never`` (state → ids of jobs that never started). One value a rectangle, in order of start: uint32
    start (ticks since the one before, the first since ``origin``), length (ticks), first node, nodes, job (its place
    among the ids, stepped); one value a job: float32 wait (s, NaN = unknown), uint32 user and app (places among
    ``users`` and ``apps``), uint32 id (stepped, if they are numbers); then uint8 a rectangle: lower edge and height
    within a node (255 = the node), outcome (its place among ``outcomes``), attempt (255: that or more). What *stepped*
    is says :func:`stepped`.

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


def occupancy_data(run: RunFiles, title: str, budget: int) -> dict[str, Any]:
    """What the page draws of one run: at most ``budget`` shares.

    ``title``; ``pools``: (name, first device, devices) of each; ``devices``, ``rows`` and ``kept`` (shares), ``share``
    of the device-seconds kept (0 to 1), ``start`` and ``end`` (s), and ``data`` (see :func:`pack_shares`).
    """
    pools = run.hardware.devices.pools
    every, start, last = ended(run.frame("shares", _SHARES))
    area = (pl.col("end_s") - pl.col("start_s")) * pl.col("devices").list.len()
    lives = every.group_by("composition").agg(area.sum().alias("area"), pl.len().alias("shares"))
    lives = lives.sort("area", "composition", descending=[True, False])
    chosen = lives.filter(pl.col("shares").cum_sum() <= budget)
    kept = every.join(chosen, on="composition", how="semi").sort("start_s", "job")
    total = float(lives["area"].sum())
    return {
        "title": title,
        "pools": [[pool.name, pool.first, pool.count] for pool in pools],
        "devices": len(run.hardware.devices),
        "rows": len(every),
        "kept": len(kept),
        "share": float(chosen["area"].sum()) / total if total else 1.0,
        "start": (begin := start - clock_start(start)),
        "end": begin + max(last - start, 1.0),
        "data": pack_shares(kept, run.frame("jobs", ("job", "app")), start),
    }


def pack_shares(shares: pl.DataFrame, jobs: pl.DataFrame, origin: float) -> str:
    """Shares, in order of start, compositions and what is known of the jobs, packed.

    The header: ``rows`` (shares), ``lives`` (compositions), ``links`` (devices of all compositions), ``jobs``, ``tick``
    in s, ``ids`` and ``apps`` of jobs, ``names`` of compositions. One value a share, in order of start: uint32 start
    (ticks since the one before, the first since ``origin``), length (ticks), composition and job (their places in the
    header), node; one value a composition: uint32 number of devices; one a link: uint32 device; one a job: uint32
    application; then uint8 a share: parts (0 = not split). ``origin``: start of the time axis, s.
    """
    ids, job, known = coded_jobs(shares, jobs)
    apps, app = coded(known, "app")
    lives = shares.unique("composition", keep="first", maintain_order=True)
    names, life = coded(shares, "composition")
    start = shares["start_s"].cast(pl.Float64).to_numpy() - origin
    tick, gaps, lengths = ticked(start, (shares["end_s"] - shares["start_s"]).cast(pl.Float64).to_numpy())
    links = lives["devices"].list.explode(keep_nulls=False, empty_as_null=False)
    header = {
        "rows": len(shares), "lives": len(lives), "links": len(links), "jobs": len(ids), "tick": tick, "ids": ids,
        "apps": apps, "names": names,
    }  # fmt: skip
    columns = [
        gaps, lengths, life, job, shares["node"].to_numpy().astype("<u4"),
        lives["devices"].list.len().to_numpy().astype("<u4"), links.to_numpy().astype("<u4"), app,
        np.minimum(shares["parts"].to_numpy(), 255).astype(np.uint8),
    ]  # fmt: skip
    return packed(header, columns)
