"""Memory that jobs used, from a file: a sample a row, in CSV or Parquet, plain or gzip.

What is odd is decided here once, and counted (:data:`RULES`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from unrack.errors import InputError, check_choice
from unrack.workload.formats.quantities import MEMORY_UNITS_MB, TIME_UNITS_US, numbers, refuse, said, typed
from unrack.workload.formats.source import Locator, Source, load, text_bytes
from unrack.workload.formats.table.aliases import words_of
from unrack.workload.formats.table.published import ALIBABA
from unrack.workload.formats.table.text import csv_frame, parquet_frame
from unrack.workload.usage.curves import WHOLE, UsageSeries, starts

NAMES: dict[str, tuple[str, ...]] = {
    "job": ("job", "job_id", "jobid", "pod", "pod_id", "container", "container_id", "instance", "id"),
    "node": ("node", "node_id", "task", "task_id", "rank", "host", "machine"),
    "progress": ("progress",),
    "time": ("time", "timestamp", "time_stamp", "t"),
    "memory": ("memory", "mem", "memory_used", "used_memory", "rss"),
    "run": ("run",),
}
"""Our name → what a header may call the column, in lower case with ``_`` between words; the first found counts."""

SHARE = "share"
"""The unit of amounts that are shares of a limit."""

_TIME = {"": "s", **{unit: unit for unit in TIME_UNITS_US}}
_MEMORY = {
    "": Fraction(1),
    **{name.lower(): factor for name, factor in MEMORY_UNITS_MB.items()},
    **{name.lower().replace("b", "ib"): factor for name, factor in MEMORY_UNITS_MB.items() if name != "B"},
    "bytes": MEMORY_UNITS_MB["B"],
}
_SHARES = {SHARE: Fraction(1), "percent": Fraction(1, 100), "%": Fraction(1, 100), "util_percent": Fraction(1, 100)}
_WANT = (
    "columns job (or pod, task, id), time_s or progress, and mb (or memory_gb, memory_share …), or "
    "columns = { job = …, time = …, memory = … }"
)
RULES: dict[str, str] = {
    "job missing": "A row that does not name the job of the memory is dropped.",
    "time missing": "A row without a time or a progress is dropped.",
    "memory missing": "A row without an amount (empty, NA, NaN) is dropped; the sample before it holds on.",
    "memory negative": "A row with an amount below 0 is dropped.",
    "out of order": "Rows that are earlier than the one before them of the same job and node are sorted into place.",
    "time repeated": "Of several samples of one node at one time the largest counts.",
    "gap": "Where samples are missing (over 2.5 usual intervals), the larger of both sides of the gap holds in it.",
    "late start": "The first sample of a node counts from the beginning of its job.",
    "share above 1": "A share above 1 is kept: a job may use more than its request, and shapes are scaled anyway.",
}
"""Every rule by which rows are dropped or changed, in a sentence each."""

_GAP = 2.5
_LARGEST_SHARE = 10.0
_LARGEST_MB = 2.0**40


def read_usage(
    path: str | os.PathLike[str] | Source,
    *,
    columns: Mapping[str, str | int] | None = None,
    time_unit: str | None = None,
    memory_unit: str | None = None,
    has_header: bool | None = None,
) -> UsageSeries:
    r"""Read series of used memory.

    Parameters
    ----------
    path
        A CSV (plain or gzip) or Parquet file with a sample a row: of which job (``job``, or ``pod``, ``container``,
        ``task`` …, and ``node`` where a job has several), when (``time_s``, or ``progress`` from 0 to 1), and how much
        (``mb``, ``memory_gb``, ``memory_share`` …). A column ``run_s`` may say how long the job ran.
    columns
        Our name (``job``, ``node``, ``time``, ``progress``, ``memory``, ``run``) → the file's column, or its number
        from 1.
    time_unit, memory_unit
        Where a column's name states none; seconds and MB by default. ``"share"`` and ``"percent"`` are of a limit.
    has_header
        Whether the first line of a CSV names the columns; by default it does unless a field in it is a number.

    Raises
    ------
    TraceError
        The file cannot be read, has no series in it, or a value that cannot be.
    InputError
        An option has a value it cannot have.

    Examples
    --------
    >>> found = read_usage(Source("pods.csv", b"pod,time_s,mb\na,0,10\na,60,30\nb,0,5\n"))
    >>> found.ids.to_list(), found.at.tolist(), found.amount.tolist(), found.run_s.tolist()
    (['a', 'b'], [0.0, 0.5, 0.0], [10.0, 30.0, 5.0], [120.0, 60.0])
    """
    source = load(path)
    if source.data.startswith(b"PAR1"):
        frame, at = parquet_frame(source)
    else:
        _refuse_plans(source)
        frame, at = csv_frame(source, has_header, None)
    found = _find_columns(frame, at, columns or {}, time_unit, memory_unit)
    dropped: dict[str, int] = {}
    changed: dict[str, int] = {}
    rows = _kept_rows(_typed_rows(frame, at, found), dropped)
    if not rows.height:
        reasons = ", ".join(f"{count} rows with {rule}" for rule, count in dropped.items()) or "no row"
        raise source.fault(None, "", reasons, "samples of used memory")
    if found.shares:
        _count(changed, "share above 1", int((rows["amount"] > 1).sum()))
    rows = _in_order(rows, changed)
    return _series(source, rows, found, frame.height, dropped, changed)


def _refuse_plans(source: Source) -> None:
    """A table of batch tasks of Alibaba's trace of 2018 has plans in it, and no use."""
    first = next((line for line in text_bytes(source)[:10_000].split(b"\n") if line.strip()), b"").decode("latin-1")
    if ALIBABA.fullmatch(first.strip()):
        raise source.fault(
            1, "", "a batch task with planned memory (a request), and no use", "samples of used memory; as a workload "
            "this file can be read: format = \"alibaba2018\""
        )  # fmt: skip


def _typed_rows(frame: pl.DataFrame, at: Locator, columns: UsageColumns) -> pl.DataFrame:
    """Columns job, node, at (s or progress), amount (MB or shares), run (s); what is no number is refused."""
    names = columns.names
    made = [_name(frame[names["job"]]).alias("job")]
    made.append(_name(frame[names["node"]]).alias("node") if "node" in names else _nothing(frame, "node"))
    when = names.get("progress") or names["time"]
    clock = _numbers(frame[when], when, at)
    if "progress" in names:
        refuse((clock < 0) | (clock > 1), clock, when, at, "progress from 0 to 1")
    else:
        clock = clock * columns.time_s
    made.append(clock.alias("at"))
    amount = _numbers(frame[names["memory"]], names["memory"], at) * columns.unit
    most, want = (_LARGEST_SHARE, "a share up to 10; per cent go in a column memory_percent") if columns.shares else (
        _LARGEST_MB, "an amount below 1 EB")  # fmt: skip
    refuse(amount > most, amount, names["memory"], at, want)
    made.append(amount.alias("amount"))
    run = _numbers(frame[names["run"]], names["run"], at) * columns.run_s if "run" in names else _nothing(frame, "run")
    refuse(run <= 0, run, "run", at, "a time above 0")
    made.append(run.cast(pl.Float64).alias("run"))
    return pl.DataFrame(made)


def _name(values: pl.Series) -> pl.Series:
    if values.dtype == pl.String:
        return typed(said(values))
    return values.cast(pl.Int64) if values.dtype.is_integer() else values.cast(pl.String)


def _nothing(frame: pl.DataFrame, name: str) -> pl.Series:
    return pl.Series(name, [None], dtype=pl.Int64).new_from_index(0, frame.height)


def _numbers(values: pl.Series, field: str, at: Locator) -> pl.Series:
    if values.dtype == pl.String:
        values = said(values)
    elif values.dtype.is_temporal():
        values = values.dt.epoch("us") / 1e6 if values.dtype != pl.Duration else values.dt.total_microseconds() / 1e6
    return numbers(values, field, at, nan_is_missing=True).cast(pl.Float64)


def _kept_rows(rows: pl.DataFrame, dropped: dict[str, int]) -> pl.DataFrame:
    for rule, bad in (
        ("job missing", pl.col("job").is_null()),
        ("time missing", pl.col("at").is_null()),
        ("memory missing", pl.col("amount").is_null()),
        ("memory negative", pl.col("amount") < 0),
    ):
        left = rows.filter(~bad)
        _count(dropped, rule, rows.height - left.height)
        rows = left
    return rows


def _in_order(rows: pl.DataFrame, changed: dict[str, int]) -> pl.DataFrame:
    """Sorted by the first appearance of jobs and of their nodes, then by time, each time once: the largest counts."""
    row = pl.col("row")
    rows = rows.with_row_index("row").with_columns(j=row.min().over("job"), n=row.min().over("job", "node"))
    back = rows.select((pl.col("at").diff() < 0).over("j", "n").sum()).item()
    _count(changed, "out of order", int(back or 0))
    job, node, at = (np.diff(rows[name].to_numpy().astype(np.float64)) for name in ("j", "n", "at"))
    if not ((job > 0) | ((job == 0) & (node > 0)) | ((node == 0) & (at > 0))).all():
        once = rows.group_by("j", "n", "at").agg(pl.col("job").first(), pl.col("amount", "run").max())
        _count(changed, "time repeated", rows.height - once.height)
        rows = once.sort("j", "n", "at")
    return rows


def _series(
    source: Source,
    rows: pl.DataFrame,
    columns: UsageColumns,
    read: int,
    dropped: dict[str, int],
    changed: dict[str, int],
) -> UsageSeries:
    jobs = rows.group_by("j", maintain_order=True).agg(
        pl.col("job").first(), pl.col("n").n_unique(), pl.col("at").min().alias("begin"),
        pl.col("at").max().alias("end"), pl.col("run").max(), pl.len().alias("rows"),
    )  # fmt: skip
    point = starts(rows.group_by("n", maintain_order=True).len()["len"].to_numpy().astype(np.int64))
    at, amount = (rows[name].to_numpy().copy() for name in ("at", "amount"))
    run = jobs["run"].cast(pl.Float64).fill_null(float("nan")).to_numpy().copy()
    interval = float("nan")
    if "progress" not in columns.names:
        usual, interval = _intervals(rows)
        _bridge(rows["n"].to_numpy(), at, amount, usual, changed)
        begin, count = jobs["begin"].to_numpy(), jobs["rows"].to_numpy()
        spacing = np.maximum.reduceat(usual, starts(jobs["n"].to_numpy().astype(np.int64))[:-1])
        lasted = jobs["end"].to_numpy() - begin + spacing
        at = (at - np.repeat(begin, count)) / np.repeat(lasted, count)
        run = np.where(np.isnan(run), lasted, run)
    at, amount, point = _below_one(at, amount, point)
    late = at[point[:-1]] > 1e-9
    _count(changed, "late start", int(late.sum()))
    at[point[:-1]] = 0.0
    return UsageSeries(
        source.path, jobs["job"], starts(jobs["n"].to_numpy().astype(np.int64)), point, at, amount, run,
        columns.shares, "node" in columns.names, read, interval, dropped, changed,
    )  # fmt: skip


def _intervals(rows: pl.DataFrame) -> tuple[np.ndarray, float]:
    """float64[series]: the usual time between samples of each series, s; and of all of them."""
    gaps = rows.select("n", gap=pl.col("at").diff().over("n"))
    overall = gaps["gap"].median()
    usual = gaps.group_by("n", maintain_order=True).agg(pl.col("gap").median())["gap"]
    everywhere = float(overall) if isinstance(overall, (int, float)) else float("nan")
    filled = usual.fill_null(1.0 if np.isnan(everywhere) else everywhere)
    return filled.to_numpy().astype(np.float64), everywhere


def _bridge(series: np.ndarray, at: np.ndarray, amount: np.ndarray, usual: np.ndarray, changed: dict[str, int]) -> None:
    """Let the sample before a gap be as large as the one behind it."""
    code = np.cumsum(np.diff(series, prepend=series[:1]) != 0)
    same = np.diff(code) == 0
    wide = np.flatnonzero(same & (np.diff(at) > _GAP * usual[code[:-1]]))
    _count(changed, "gap", len(wide))
    amount[wide] = np.maximum(amount[wide], amount[wide + 1])


def _below_one(at: np.ndarray, amount: np.ndarray, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What was measured at the end of a job counts in the stretch before it."""
    last = point[1:] - 1
    ends = at[last] >= 1 - 1 / WHOLE
    alone = ends & (np.diff(point) == 1)
    at[last[alone]] = 0.0
    gone = last[ends & ~alone]
    amount[gone - 1] = np.maximum(amount[gone - 1], amount[gone])
    keep = np.ones(len(at), np.bool_)
    keep[gone] = False
    return at[keep], amount[keep], starts(np.diff(point) - (ends & ~alone))


def _count(counts: dict[str, int], rule: str, rows: int) -> None:
    assert rule in RULES, rule
    if rows:
        counts[rule] = rows


@dataclass(frozen=True)
class UsageColumns:
    """The columns of a table of usage."""

    # our name → the table's column; ``job``, ``memory``, and ``time`` or ``progress`` are there
    names: Mapping[str, str]
    # time_s, run_s: one unit of time in seconds, of the columns ``time`` and ``run``
    time_s: float
    run_s: float
    unit: float  # one unit of memory in MB, or where ``shares`` in shares of a limit
    shares: bool  # whether amounts are shares of a limit


def _find_columns(
    frame: pl.DataFrame, at: Locator, given: Mapping[str, str | int], time_unit: str | None, memory_unit: str | None
) -> UsageColumns:
    """The columns of a frame; ``given``: our name → the table's column or its number from 1; units."""
    words = {words_of(name, "%"): name for name in reversed(frame.columns)}
    names: dict[str, str] = {}
    units: dict[str, str] = {}
    for ours, column in given.items():
        check_choice("usage, columns", ours, NAMES)
        name = frame.columns[column - 1] if isinstance(column, int) and 1 <= column <= frame.width else column
        if name not in frame.columns:
            listed = ", ".join(frame.columns[:30])
            raise at.source.fault(None, f"column for {ours}", f"no column {column!r}", f"one of {listed}")
        names[ours] = str(name)
    for ours in NAMES:
        if ours not in names and (found := _find(ours, words)) and found[0] not in names.values():
            names[ours], units[ours] = found
    if "job" not in names and "node" in names and "node" not in given:
        names["job"] = names.pop("node")  # a table of single tasks
    if "progress" in names and "time" in names and not {"progress", "time"} <= set(given):
        del names["time" if "time" not in given else "progress"]
    for ours in ("job", "memory"):
        if ours not in names:
            raise at.source.fault(None, f"column {ours}", f"columns {', '.join(frame.columns[:12])}", _WANT)
    if "time" not in names and "progress" not in names:
        raise at.source.fault(None, "column time_s or progress", f"columns {', '.join(frame.columns[:12])}", _WANT)
    factor, shares = _memory(units.get("memory") or memory_unit or "")
    clock, run = (_time(units.get(ours) or time_unit or "s") for ours in ("time", "run"))
    return UsageColumns(names, clock, run, factor, shares)


def _find(ours: str, words: Mapping[str, str]) -> tuple[str, str] | None:
    """A column and the unit that its name states."""
    if ours == "memory":
        for unit in _MEMORY:
            if unit and unit in words:
                return words[unit], unit  # a column called mb
    endings: Iterable[str] = [*_MEMORY, *_SHARES] if ours == "memory" else _TIME if ours in ("time", "run") else [""]
    for name in NAMES[ours]:
        for ending in endings:
            written = f"{name}_{ending}" if ending else name
            if written in words:
                return words[written], ending
    return None


def _memory(unit: str) -> tuple[float, bool]:
    name = unit.lower()
    if name in _SHARES:
        return float(_SHARES[name]), True
    if name in _MEMORY:
        return float(_MEMORY[name]), False
    raise InputError("usage, memory_unit", repr(unit), "one of B, KB, MB, GB, TB, share, percent")


def _time(unit: str) -> float:
    check_choice("usage, time_unit", unit, TIME_UNITS_US)
    return TIME_UNITS_US[unit] / 1e6
