"""Workloads in CSV or Parquet: any columns, mapped to ours by name.

The rules for missing and odd values are those of :mod:`unrack.workload.formats.rules`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from fractions import Fraction

import polars as pl

from unrack.cluster.pools.pool import WHOLE
from unrack.errors import InputError
from unrack.resources.places import is_resource
from unrack.workload.formats.asks.columns import COLUMNS as KEPT
from unrack.workload.formats.intake import DEVICE, OVERRUN, Tally, workload
from unrack.workload.formats.quantities import DEVICE_KEY, boolean, choice, memory_unit_mb, time_unit_us
from unrack.workload.formats.source import Locator, Source, load
from unrack.workload.formats.table.aliases import Found, find_aliases
from unrack.workload.formats.table.columns import COLUMNS, TEXTS, TableColumns, carried
from unrack.workload.formats.table.text import csv_frame, parquet_frame
from unrack.workload.job import Workload


def read_table(
    path: str | os.PathLike[str] | Source,
    *,
    columns: Mapping[str, str | int] | None = None,
    defaults: Mapping[str, float | str] | None = None,
    scale: Mapping[str, float] | None = None,
    time_unit: str | float = "s",
    memory_unit: str = "MB",
    memory_per: str = "task",
    deadline_is: str = "absolute",
    aliases: bool = True,
    overrun: str = "truncate",
    has_header: bool | None = None,
    separator: str | None = None,
) -> Workload:
    """Read jobs from a CSV (plain or gzip) or Parquet file.

    Parameters
    ----------
    columns
        Our name → the file's column, or its number from 1: ``id``, ``submit``, ``start``, ``end``, ``run``,
        ``request``, ``deadline``, ``tasks``, ``cores`` (per task), ``memory``, ``priority``, ``user``, ``app``,
        ``local``, ``ceiling``, ``group``, ``spread``, ``forbidden`` (asks of tiers of memory), ``on`` and ``ran`` (the
        nodes of a job that runs when the run begins, and for how long it has), a name of
        :data:`unrack.workload.formats.asks.columns.COLUMNS` (``partition``, ``dependency`` …), or ``KIND.QUANTITY`` for
        a device demand per task. Columns of the same name need no mapping, and those with a usual name
        (:data:`unrack.workload.formats.table.aliases.ALIASES`) neither; but ``group`` and ``spread``, and ``on`` and
        ``ran``, count only together, as logs call other things so. ``submit`` is needed, and ``run``, or ``end`` with
        or without ``start``.
    defaults
        Our name → the value where the column or its entry is missing; of ``spread``, only where there is a group.
    scale
        Our name → a factor on the numbers of that column, such as ``{"cores": 0.01}`` for hundredths of a core.
    time_unit
        Unit of all times: us, ms, s, min, h, d, or a number of seconds. ISO timestamps are read as such.
    memory_unit, memory_per
        B, KB, MB, GB or TB; per ``"task"``, ``"core"`` or ``"job"``.
    deadline_is
        ``"absolute"``: on the clock of ``submit``; ``"relative"``: counted from the submission.
    aliases
        Whether columns are also found by usual names, of which two for one of ours are refused; how each was read is
        in the intake's header, under ``Columns``.
    overrun
        As in :func:`unrack.workload.formats.swf.read_swf`.
    has_header
        Whether the first line of a CSV names the columns; by default it does unless a field in it is a number. Without
        a header the columns are called column_1, column_2 …
    separator
        Between the fields of a CSV; by default found from the first line.
    """
    choice("overrun", overrun, OVERRUN)
    choice("memory_per", memory_per, ("task", "core", "job"))
    choice("deadline_is", deadline_is, ("absolute", "relative"))
    boolean("aliases", aliases)
    source = load(path)
    if source.data.startswith(b"PAR1"):
        kind, (frame, at) = "parquet", parquet_frame(source)
    else:
        kind, (frame, at) = "csv", csv_frame(source, has_header, separator)
    filled = _checked("defaults", defaults or {})
    named = mapped(frame, columns or {}, at, filled)
    other = find_aliases(frame.columns, named, at) if aliases else {}
    named |= {ours: found.column for ours, found in other.items()}
    _complete(frame, named, at)
    table = TableColumns(
        frame,
        at,
        named,
        filled,
        _factors(scale or {}),
        time_unit_us(time_unit),
        memory_unit_mb(memory_unit),
        memory_per,
        {ours: found.factor for ours, found in other.items() if found.factor is not None},
        deadline_is == "relative",
    )
    return as_workload(table, kind, other, overrun)


def as_workload(table: TableColumns, kind: str, other: Mapping[str, Found], overrun: str) -> Workload:
    """The workload of a table, by the shared rules; columns that are nothing of ours are carried along.

    ``kind``: the name of the reader. ``other``: our name → the column that another name gave away.
    """
    frame, taken = table.frame, set(table.columns.values())
    ours = pl.DataFrame([*table.jobs(), *carried([frame[name] for name in frame.columns if name not in taken])])
    header = {"Columns": ", ".join(f"{ours} = {found}" for ours, found in other.items())} if other else {}
    return workload(table.at.source, kind, frame.height, ours, Tally(), overrun, header)


def mapped(
    frame: pl.DataFrame, columns: Mapping[str, str | int], at: Locator, defaults: Mapping[str, float | str]
) -> dict[str, str]:
    """Our name → the file's column: those that were said, and those of the same name."""
    found = {name.removeprefix(DEVICE): name for name in frame.columns if _known(name.removeprefix(DEVICE))}
    found = {ours: name for ours, name in found.items() if ours in COLUMNS or _told(name)}
    if not isinstance(columns, Mapping):
        raise InputError("option columns", repr(columns), "a table of our names and the file's columns")
    for ours, theirs in columns.items():
        if not _known(ours):
            raise InputError("option columns", repr(ours), f"one of {', '.join(COLUMNS)}, or KIND.QUANTITY")
        name = theirs
        if isinstance(theirs, int) and 1 <= theirs <= frame.width:
            name = frame.columns[theirs - 1]
        if not isinstance(name, str) or name not in frame.columns:
            raise at.source.fault(None, f"column for {ours}", f"no column {theirs!r}", _one_of(frame))
        found[ours] = name
    said = {found[ours] for ours in columns}
    for ours in [ours for ours in found if ours in KEPT and ours not in columns and found[ours] in said]:
        del found[ours]  # it is said to be something else
    for ours, beside in (("group", "spread"), ("spread", "group"), ("on", "ran"), ("ran", "on")):
        if ours in found and ours not in columns and beside not in {**found, **defaults}:
            del found[ours]
    return found


def _complete(frame: pl.DataFrame, found: Mapping[str, str], at: Locator) -> None:
    """Refuse a table without submissions or run times."""
    if "submit" not in found:
        raise at.source.fault(None, "column submit", "no such column", f"columns={{'submit': …}} with {_one_of(frame)}")
    if "run" not in found and "end" not in found:
        raise at.source.fault(None, "column run", "no such column", f"columns={{'run': …}} with {_one_of(frame)}")


def _told(name: str) -> bool:
    """Whether a name says by itself what it is an amount of: a device by its prefix, whole ones, or a resource."""
    return name.startswith(DEVICE) or name.endswith(f".{WHOLE}") or is_resource(name.partition(".")[0])


def _known(name: object) -> bool:
    return isinstance(name, str) and (name in COLUMNS or DEVICE_KEY.fullmatch(name) is not None)


def _one_of(frame: pl.DataFrame) -> str:
    names = ", ".join(frame.columns[:30])
    return f"one of {names}{', …' if frame.width > 30 else ''}"


def _checked(option: str, values: Mapping[str, float | str]) -> dict[str, float | str]:
    if not isinstance(values, Mapping):
        raise InputError(f"option {option}", repr(values), "a table of our names and values")
    for name in values:
        if not _known(name):
            raise InputError(f"option {option}", repr(name), f"one of {', '.join(COLUMNS)}, or KIND.QUANTITY")
    return dict(values)


def _factors(scale: Mapping[str, float]) -> dict[str, Fraction]:
    checked = _checked("scale", scale)
    for name, factor in checked.items():
        if name in TEXTS or isinstance(factor, (str, bool)) or not 1e-12 <= factor <= 1e12:
            raise InputError(f"option scale.{name}", repr(factor), "a factor from 1e-12 to 1e12 on a number")
    return {name: Fraction(str(factor)) for name, factor in checked.items()}
