"""A mapping for a table with columns of other names: what each could be, by its name and by what is in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import polars as pl

from unrack.errors import InputError
from unrack.workload.formats.source import Locator, Source
from unrack.workload.formats.table.aliases import find_aliases, words_of
from unrack.workload.formats.table.read import mapped, read_table
from unrack.workload.formats.table.text import csv_frame, parquet_frame

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
    columns = _known(frame, at)
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


def _known(frame: pl.DataFrame, at: Locator) -> dict[str, str]:
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
