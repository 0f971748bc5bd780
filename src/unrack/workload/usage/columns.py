"""Which columns of a table hold whose memory, when, and in which unit: by their names, or as a user says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from unrack.errors import InputError
from unrack.workload.formats.quantities import MEMORY_UNITS_MB, TIME_UNITS_US
from unrack.workload.formats.source import Locator

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


@dataclass(frozen=True)
class Columns:
    """The columns of a table of usage.

    Attributes
    ----------
    names
        Our name → the table's column; ``job``, ``memory``, and ``time`` or ``progress`` are there.
    time_s, run_s
        One unit of time in seconds, of the columns ``time`` and ``run``.
    unit
        One unit of memory in MB, or where ``shares`` in shares of a limit.
    shares
        Whether amounts are shares of a limit.
    """

    names: Mapping[str, str]
    time_s: float
    run_s: float
    unit: float
    shares: bool


def find_columns(
    frame: pl.DataFrame,
    at: Locator,
    said: Mapping[str, str | int],
    time_unit: str | None,
    memory_unit: str | None,
) -> Columns:
    """The columns of a frame.

    Parameters
    ----------
    frame, at
        The table, and its file for errors.
    said
        Our name → the table's column or its number from 1, where the header does not give it away.
    time_unit, memory_unit
        Units where a column's own name states none: of :data:`NAMES`'s times, and ``"share"`` or ``"percent"`` of
        a limit beside B, KB, MB, GB, TB.

    Raises
    ------
    TraceError
        There is no such column.
    InputError
        An option has a value it cannot have.
    """
    words = {_words(name): name for name in reversed(frame.columns)}
    names: dict[str, str] = {}
    units: dict[str, str] = {}
    for ours, column in said.items():
        if ours not in NAMES:
            raise InputError("usage, columns", repr(ours), f"one of {', '.join(NAMES)}")
        name = frame.columns[column - 1] if isinstance(column, int) and 1 <= column <= frame.width else column
        if name not in frame.columns:
            listed = ", ".join(frame.columns[:30])
            raise at.source.fault(None, f"column for {ours}", f"no column {column!r}", f"one of {listed}")
        names[ours] = str(name)
    for ours in NAMES:
        if ours not in names and (found := _find(ours, words)) and found[0] not in names.values():
            names[ours], units[ours] = found
    if "job" not in names and "node" in names and "node" not in said:
        names["job"] = names.pop("node")  # a table of single tasks
    if "progress" in names and "time" in names and not {"progress", "time"} <= set(said):
        del names["time" if "time" not in said else "progress"]
    for ours in ("job", "memory"):
        if ours not in names:
            raise at.source.fault(None, f"column {ours}", f"columns {', '.join(frame.columns[:12])}", _WANT)
    if "time" not in names and "progress" not in names:
        raise at.source.fault(None, "column time_s or progress", f"columns {', '.join(frame.columns[:12])}", _WANT)
    factor, shares = _memory(units.get("memory") or memory_unit or "")
    clock, run = (_time(units.get(ours) or time_unit or "s") for ours in ("time", "run"))
    return Columns(names, clock, run, factor, shares)


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
    if unit not in TIME_UNITS_US:
        raise InputError("usage, time_unit", repr(unit), f"one of {', '.join(TIME_UNITS_US)}")
    return TIME_UNITS_US[unit] / 1e6


def _words(name: str) -> str:
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9%]+", "_", split.lower()).strip("_")
