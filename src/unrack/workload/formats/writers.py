"""Workloads written to files: Standard Workload Format, CSV, Parquet; what is written can be read back."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unrack.errors import InputError, TraceError, check_kinds
from unrack.kernels.arrays import Ints
from unrack.workload.formats.intake import DEVICE
from unrack.workload.formats.swf import FIELDS
from unrack.workload.job import JobTable, Workload
from unrack.workload.tier_asks import NO_CEILING, coded, named

_ENDINGS = (".swf", ".csv", ".parquet")
_HEADER_KEYS = ("Computer", "Installation", "MaxNodes", "MaxProcs", "UnixStartTime", "TimeZone", "TimeZoneString")

SWF_COLUMNS = {"log_wait_s", "queue", "partition", "preceding", "think_s", "status", "group"}


def write_trace(path: str | os.PathLike[str], workload: Workload) -> None:
    """Write a workload in the format that the file's ending names: .swf, .csv (either also .gz) or .parquet.

    Raises
    ------
    InputError
        The ending is another.
    TraceError
        The file cannot be written.
    """
    check_kinds("write_trace", path=(path, str | os.PathLike), workload=(workload, Workload))
    name = Path(path).name.lower()
    ending = next((ending for ending in _ENDINGS if name.removesuffix(".gz").endswith(ending)), None)
    if ending is None or (ending == ".parquet" and name.endswith(".gz")):
        raise InputError(os.fspath(path), "that ending", f"{', '.join(_ENDINGS)}, or .swf.gz, .csv.gz")
    (write_swf if ending == ".swf" else write_table)(path, workload)


def write_swf(path: str | os.PathLike[str], workload: Workload) -> None:
    """Write a workload in Standard Workload Format; packed if the path ends in ``.gz``.

    A job asks for tasks × cores processors; memory is KB per processor. Its wait is that of the log (``log_wait_s``),
    if it had any. Users, groups, applications, queues and partitions with names are numbered from 1 and named in the
    header; what :func:`left_out` tells has no field in the format.
    """
    jobs = workload.jobs
    waits = np.rint(_carried(jobs, "log_wait_s", pl.Float64).fill_null(-1).to_numpy() * 1e6).astype(np.int64)
    procs = pl.Series(jobs.tasks * jobs.cores)
    numbered = {
        "user": _numbered(jobs.user, jobs.user_names, "User"),
        "executable": _numbered(jobs.app, jobs.app_names, "App"),
    } | {
        name: _numbered(*coded(jobs.extra.get_column(name, default=None), len(jobs)), name.capitalize())
        for name in ("queue", "partition", "group")
    }
    numbers = jobs.ids if jobs.ids.dtype == pl.Int64 else pl.Series(np.arange(1, len(jobs) + 1))
    before = jobs.extra.get_column("preceding", default=jobs.ids.clear(len(jobs))).cast(jobs.ids.dtype, strict=False)
    missing = pl.Series([-1]).new_from_index(0, len(jobs))
    said = {
        "job number": numbers,
        "submit time": _seconds(jobs.submit_us),
        "wait time": _seconds(np.where(waits < 0, -1_000_000, waits)),
        "run time": _seconds(jobs.work_us),
        "allocated processors": procs,
        "requested processors": procs,
        "requested time": _seconds(jobs.request_us),
        "requested memory": pl.Series(np.where(jobs.memory_mb > 0, -(-jobs.memory_mb * 1024 // jobs.cores), -1)),
        **{name: values for name, (values, _) in numbered.items()},
        "preceding job": before.replace_strict(
            dict(zip(jobs.ids, numbers, strict=True)), default=None, return_dtype=pl.Int64
        ),
        "think time": _seconds((_carried(jobs, "think_s", pl.Float64) * 1e6).round().fill_null(-1e6).cast(pl.Int64)),
        "status": _carried(jobs, "status", pl.Int64),
    }
    frame = pl.DataFrame([said.get(name, missing).alias(name) for name in FIELDS])
    header = {"Workload": workload.name, "MaxJobs": str(len(jobs))}
    header |= {key: workload.intake.header[key] for key in _HEADER_KEYS if key in workload.intake.header}
    notes = [f"; {key}: {' '.join(words.split())}" for key, words in header.items()]
    body = frame.write_csv(include_header=False, separator=" ", null_value="-1", quote_style="never")
    notes += [note for _, names in numbered.values() for note in names]
    _write_bytes(path, "\n".join([*notes, body]).encode())


def left_out(path: str | os.PathLike[str], workload: Workload) -> list[str]:
    """What jobs say that the format of a path has no field for; of a table nothing."""
    jobs, name = workload.jobs, Path(path).name.lower().removesuffix(".gz")
    if not name.endswith(".swf"):
        return []
    there = {".".join(key): bool((amounts > 0).any()) for key, amounts in jobs.devices.items()} | {
        "tasks of several cores": bool(((jobs.tasks > 1) & (jobs.cores > 1)).any()),
        "priority": bool(jobs.priority.any()), "deadline": bool((jobs.deadline_us >= 0).any()),
        "tiers of memory": jobs.slo is not None, "where jobs run": jobs.under_way is not None,
        "ids that are no numbers": jobs.ids.dtype != pl.Int64, "status": jobs.extra.schema.get("status") == pl.String,
    }  # fmt: skip
    return [*(what for what, said in there.items() if said), *sorted(set(jobs.extra.columns) - SWF_COLUMNS)]


def write_table(path: str | os.PathLike[str], workload: Workload) -> None:
    """Write a workload as CSV (packed if the path ends in ``.gz``) or, if it ends in ``.parquet``, as Parquet.

    The columns have the names that :func:`unrack.workload.formats.table.read.read_table` maps by itself: times in s,
    memory in MB per task, ``devices.KIND.QUANTITY``; then what is asked of tiers of memory, in MB and names, where jobs
    run when the run begins, and the further columns of the trace.
    """
    write_frame(path, as_frame(workload.jobs, numbers=_is_parquet(path)))


def as_frame(jobs: JobTable, *, numbers: bool) -> pl.DataFrame:
    """Jobs as :func:`write_table` writes them; ``numbers``: times are such, in place of texts."""

    def time(values: Ints) -> pl.Series:
        return pl.Series(values) / 1e6 if numbers else _seconds(values)

    columns = {
        "id": jobs.ids,
        "submit": time(jobs.submit_us),
        "run": time(jobs.work_us),
        "request": time(jobs.request_us),
        "tasks": pl.Series(jobs.tasks),
        "cores": pl.Series(jobs.cores),
        "memory": pl.Series(jobs.memory_mb),
        "priority": pl.Series(jobs.priority),
        "deadline": time(jobs.deadline_us).set(pl.Series(jobs.deadline_us < 0), None),
        "user": named(jobs.user, jobs.user_names),
        "app": named(jobs.app, jobs.app_names),
    }
    columns |= {f"{DEVICE}{kind}.{what}": pl.Series(amounts) for (kind, what), amounts in sorted(jobs.devices.items())}
    if jobs.slo is not None:
        ceiling = pl.Series(jobs.slo.ceiling_mb)
        columns |= {"local": pl.Series(jobs.slo.floor_mb), "ceiling": ceiling.set(ceiling >= NO_CEILING, None)}
        columns |= jobs.slo.texts()
    if jobs.under_way is not None:
        ran = time(jobs.under_way.ran_us)
        columns |= {"on": jobs.under_way.on, "ran": ran.set(pl.Series(~jobs.under_way.runs), None)}
    columns |= {name: jobs.extra[name] for name in jobs.extra.columns if name not in columns}
    return pl.DataFrame([values.alias(name) for name, values in columns.items()])


def write_frame(path: str | os.PathLike[str], frame: pl.DataFrame) -> None:
    """Write a table as Parquet if the path ends in ``.parquet``, else as CSV, packed if it ends in ``.gz``."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer) if _is_parquet(path) else frame.write_csv(buffer)
    _write_bytes(path, buffer.getvalue())


def _is_parquet(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path).lower().endswith(".parquet")


def _seconds(micro: Ints | pl.Series) -> pl.Series:
    """Text of times in s, exact to the µs and without needless zeros."""
    whole, rest = pl.col("t") // 1_000_000, pl.col("t") % 1_000_000
    digits = rest.cast(pl.String).str.zfill(6).str.strip_chars_end("0")
    text = pl.when(rest == 0).then(whole.cast(pl.String)).otherwise(whole.cast(pl.String) + "." + digits)
    return pl.DataFrame({"t": micro}).select(text).to_series()


def _carried(jobs: JobTable, name: str, kind: type[pl.DataType]) -> pl.Series:
    if name in jobs.extra.columns:
        return jobs.extra[name].cast(kind, strict=False)  # a table may have it as text
    return pl.Series(name, [None] * len(jobs), dtype=kind)


def _numbered(
    codes: np.typing.NDArray[np.integer[Any]], names: tuple[str, ...], what: str
) -> tuple[pl.Series, list[str]]:
    """SWF numbers for users, applications and the like, and header lines that name them if they were not numbers."""
    notes: list[str] = []
    numbers = [int(name) if name.isascii() and name.isdigit() and len(name) < 10 else -1 for name in names]
    if len(set(numbers)) < len(names) or -1 in numbers:
        numbers = list(range(1, len(names) + 1))
        notes = [f"; {what}: {number} {' '.join(name.split())}" for number, name in zip(numbers, names, strict=True)]
    return pl.Series(np.array([*numbers, -1], np.int64)[codes]), notes


def _write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    given = os.fspath(path)
    packed = gzip.compress(data, mtime=0) if given.endswith(".gz") else data
    try:
        write_whole(Path(given).expanduser(), packed)
    except OSError as error:
        raise TraceError(given, None, "", error.strerror or str(error), "a file that can be written") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, or leave what was there: never a part, but of what is no file or in a folder that is read-only.

    Raises
    ------
    OSError
        It names the file, also where the disk is full.
    """
    apart = (path.is_file() or not path.exists()) and os.access((target := path.resolve()).parent, os.W_OK)
    fresh = target.with_name(f"{target.name}.part") if apart else path
    try:
        fresh.write_bytes(content.encode() if isinstance(content, str) else content)
        if apart:
            fresh.replace(target)
    except OSError as error:
        if apart:
            fresh.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk names no file
