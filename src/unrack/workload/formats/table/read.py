"""Workloads in CSV or Parquet: any columns, mapped to ours by name.

The rules for missing and odd values are those of :mod:`unrack.workload.formats.rules`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from unrack.cluster.pools.pool import WHOLE
from unrack.errors import InputError
from unrack.resources.places import is_resource
from unrack.workload.formats.asks.columns import COLUMNS as KEPT
from unrack.workload.formats.intake import DEVICE, OVERRUN, Tally, workload
from unrack.workload.formats.quantities import DEVICE_KEY, boolean, choice, memory_unit_mb, time_unit_us
from unrack.workload.formats.source import Locator, Source, load
from unrack.workload.formats.table.aliases import AliasedColumn, find_aliases, words_of
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


OF_A_RUN = {"run": "work_s", "cores": "cores_per_task", "memory": "memory_mb_per_task"}
"""Our name → the column of the jobs of a finished run, which say besides what was held in all, and for how long."""


def as_workload(table: TableColumns, kind: str, other: Mapping[str, AliasedColumn], overrun: str) -> Workload:
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
    if set(OF_A_RUN.values()) <= set(frame.columns):
        found |= {ours: name for ours, name in OF_A_RUN.items() if ours not in columns}
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


_WORDS: dict[str, str] = {
    "submit": r"submit|submission|arriv|queued|enqueue|creat|qtime|request_?date|timestamp|^ts$|^time$|^date$",
    "start": r"^start|_start|started|begin|began|dispatch|launch",
    "end": r"^end|_end|ended|finish|complet|stop|terminat",
    "run": r"elapsed|duration|run_?time|exec|wall_?clock|time_?used|lasted|service|length",
    "request": r"limit|requested_?(time|wall)|wall_?time|estimat|time_?req",
    "tasks": r"nnodes|num_?nodes|node_?count|n_?nodes|alloc_?nodes|^nodes$|instances|replicas|n_?tasks|task_?count",
    "cores": r"cpu|core|proc|slots|threads",
    "memory": r"mem|rss|ram",
    "gpus.count": r"gpu|accel",
    "user": r"^user|_user|owner|^uid|login",
    "id": r"job_?(id|no|num)|^id$|task_?id|^job$",
    "app": r"^app|application|executable|command|job_?name",
    "deadline": r"deadline|due",
}
"""Our name → words that give a column away, the surest kinds first."""
_NOT: dict[str, str] = {
    "cores": r"time|util|usage|percent|gpu|process_?id|hours|seconds",
    "memory": r"util|percent|time|name|parameter|bandwidth",
    "gpus.count": r"util|time|mem|type|model|hours",
    "run": r"limit|id$",
    "request": r"mem|cpu|core",
    "start": r"code|state",
    "end": r"vendor|code|state",
    "submit": r"host|user|line|node|dir|by$",
    "tasks": r"list|id$|name",
}
_TIME_UNITS = {
    "us": 1e-6, "ms": 1e-3, "millis": 1e-3, "milliseconds": 1e-3, "min": 60, "mins": 60, "minutes": 60, "h": 3600,
    "hours": 3600, "hrs": 3600, "days": 86_400,
}  # fmt: skip
_MEMORY_UNITS = {
    "b": 2**-20, "bytes": 2**-20, "kb": 2**-10, "kib": 2**-10, "k": 2**-10, "gb": 2**10, "gib": 2**10, "g": 2**10,
    "tb": 2**20, "tib": 2**20,
}  # fmt: skip
_NUMBERS = ("run", "request", "tasks", "cores", "memory", "gpus.count")
_CLOCKS = ("submit", "start", "end", "deadline")
_SPAN = r"^(\d+-)?\d+:\d\d(:\d\d)?(\.\d+)?$"
_STAMP = r"^\d{4}-\d\d-\d\d"


@dataclass(frozen=True)
class Suggestion:
    """How a table could be read."""

    header: tuple[str, ...]  # its columns
    # columns, scale: the options of :func:`unrack.workload.formats.table.read.read_table` that would read it
    columns: Mapping[str, str]
    scale: Mapping[str, float]
    missing: tuple[str, ...]  # what it lacks, a sentence each
    jobs: int | None  # how many jobs these options read; ``None``: they do not read it yet

    def line(self, path: str) -> str:
        """A line for ``workloads = […]`` of a study."""
        options = [f"columns = {_inline(self.columns)}"] + [f"scale = {_inline(self.scale)}"] * bool(self.scale)
        return f"workloads = [{{ trace = {json.dumps(path)}, options = {{ {', '.join(options)} }} }}]"


def suggestion(source: Source) -> Suggestion | None:
    """What the columns of a table could be; ``None``: it is no table with a header."""
    if source.data.lstrip()[:1] in (b"{", b"["):
        return None
    try:
        frame, at = parquet_frame(source) if source.data.startswith(b"PAR1") else csv_frame(source, None, None)
    except InputError:
        return None
    if frame.width < 2 or frame.columns[0] == "column_1":
        return None
    columns = _known_names(frame, at)
    for ours, words in _WORDS.items():
        if ours in columns or (ours == "run" and "end" in columns):
            continue
        for name in frame.columns:
            plain = words_of(name)
            if name in columns.values() or not re.search(words, plain) or re.search(_NOT.get(ours, "$^"), plain):
                continue
            if _fits(ours, frame[name]):
                columns[ours] = name
                break
    scale = {ours: factor for ours, name in columns.items() if (factor := _factor(ours, name, frame[name])) != 1}
    missing = tuple(_missing(frame, columns))
    said = {ours: name for ours, name in columns.items() if ours != name}
    try:
        jobs = len(read_table(source, columns=columns, scale=scale)) if not missing else None
    except InputError as error:
        jobs, missing = None, (f"{error}.",)
    return Suggestion(tuple(frame.columns), said, scale, missing, jobs)


def _known_names(frame: pl.DataFrame, at: Locator) -> dict[str, str]:
    """Columns that have our names, or usual ones."""
    named = mapped(frame, {}, at, {})
    with suppress(InputError):  # two columns for one of ours: the words decide
        named |= {ours: found.column for ours, found in find_aliases(frame.columns, named, at).items()}
    return {ours: name for ours, name in named.items() if "." in ours or _fits(ours, frame[name])}


def _fits(ours: str, values: pl.Series) -> bool:
    """Whether what is in a column is of the right kind."""
    if ours not in (*_NUMBERS, *_CLOCKS):
        return True
    if values.dtype != pl.String:
        return values.dtype.is_numeric() or (ours in _CLOCKS and values.dtype.is_temporal())
    text = values.str.strip_chars()
    shown = text.set((text == "").fill_null(False), None).drop_nulls().head(1000)
    if not len(shown):
        return False
    good = shown.cast(pl.Float64, strict=False).is_not_null()
    if ours in _CLOCKS:
        good = good | shown.str.contains(_STAMP)
    return bool(good.mean() >= 0.9)  # type: ignore[operator]


def _factor(ours: str, name: str, values: pl.Series) -> float:
    """What the numbers of a column are to be multiplied by to be s or MB: by its name, or as times since 1970."""
    if ours in _CLOCKS:
        return _fraction(values)
    units = _TIME_UNITS if ours in ("run", "request") else _MEMORY_UNITS if ours == "memory" else {}
    last = re.split(r"[^a-z]+", name.lower().rstrip(" )]"))[-1]
    return units.get(last, 1)


def _fraction(values: pl.Series) -> float:
    """Seconds in one unit of a column of times; less than 1 where these are ms or µs since 1970."""
    if values.dtype.is_temporal():
        return 1
    most = values.cast(pl.Float64, strict=False).max()
    if not isinstance(most, float):
        return 1
    return 1e-6 if most > 1e14 else 1e-3 if most > 1e11 else 1


def _missing(frame: pl.DataFrame, columns: Mapping[str, str]) -> list[str]:
    found = []
    if "submit" not in columns:
        found.append("when jobs were submitted (submit): seconds, or times such as 2026-01-02 03:04:05")
    if "run" not in columns and "end" not in columns:
        spans = [
            name
            for name, kind in frame.schema.items()
            if kind == pl.String and frame[name].str.contains(_SPAN).fill_null(False).any()
        ]
        also = f"; {' and '.join(map(repr, spans[:3]))} must be seconds, not 01:02:03" if spans else ""
        found.append(f"how long they ran (run), or when they ended (end): numbers{also}")
    return found


def _inline(table: Mapping[str, object]) -> str:
    pairs = (
        f"{json.dumps(key) if '.' in key else key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in table.items()
    )
    return f"{{ {', '.join(pairs)} }}"
