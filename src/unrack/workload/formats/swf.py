"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, ``;`` comments, -1 = missing.

References
----------
Chapin et al., "Benchmarks and standards for the evaluation of parallel job schedulers", JSSPP 1999; version 2.2 of the
format. The rules for odd lines are in :mod:`unrack.workload.formats.rules`.
"""

from __future__ import annotations

import os
from fractions import Fraction

import polars as pl

from unrack.workload.formats.intake import EXTRA, OVERRUN, Tally, workload
from unrack.workload.formats.quantities import amounts, boolean, choice, count, memory_unit_mb, refuse
from unrack.workload.formats.source import Locator, Source, load, text_bytes
from unrack.workload.formats.swf_lines import field_columns, header, job_lines, normal_lines, with_node_spec
from unrack.workload.formats.unheeded import unheeded
from unrack.workload.job import Workload


def read_swf(
    path: str | os.PathLike[str] | Source,
    *,
    overrun: str = "truncate",
    memory: str = "ignore",
    memory_unit: str = "KB",
    memory_per: str = "processor",
    procs_per_task: int = 1,
    node_spec: bool = False,
) -> Workload:
    """Read a log in Standard Workload Format, plain or gzip.

    A job of p processors becomes p tasks of one core. Its user and executable become ``user`` and ``app``; group,
    queue, partition, status and the wait in the log (``log_wait_s``, seconds) are carried along.

    Parameters
    ----------
    path
        The file.
    overrun
        A run longer than requested is cut there (``"truncate"``), raises the request (``"extend"``) or is kept
        (``"keep"``).
    memory
        Which memory field to take: ``"ignore"``, ``"requested"``, ``"used"``, or ``"max"`` of both.
    memory_unit, memory_per
        What the field means: by the standard KB per processor, but logs differ. B, KB, MB, GB or TB; per
        ``"processor"``, ``"task"`` or ``"job"``.
    procs_per_task
        Processors in a task: the job becomes ceil(p / this) tasks of this many cores.
    node_spec
        Take N tasks of P cores from a node specification ``N:ppn=P`` among the fields beyond the 18th.

    Raises
    ------
    TraceError
        The file cannot be read, or a line is not 18 numbers in range.
    InputError
        An option has a value it cannot have.
    """
    choice("overrun", overrun, OVERRUN)
    choice("memory", memory, ("ignore", "requested", "used", "max"))
    choice("memory_per", memory_per, ("processor", "task", "job"))
    unit = memory_unit_mb(memory_unit)
    procs_per_task = count("procs_per_task", procs_per_task)
    boolean("node_spec", node_spec)
    source = load(path)
    text = text_bytes(source)
    lines = normal_lines(text)
    numbers: list[int] = []  # of the job lines; found once something is at fault

    def line_of(row: int) -> int:
        numbers.extend(() if numbers else job_lines(text))
        return numbers[row]

    at = Locator(source, line_of)
    raw = field_columns(lines, at).with_row_index("row")
    tally = Tally()
    tally.change("extra fields", raw["more"].len() - raw["more"].null_count())
    if node_spec:
        raw = with_node_spec(raw, lines, at)
    frame = _drop_unfinished(raw, tally)
    frame = _sized(frame, tally, procs_per_task)
    rows = frame["row"]
    kept_at = Locator(source, lambda row: line_of(rows[row]))
    frame = _memory(frame, kept_at, memory, memory_per, unit)
    told = [frame[name] for name in ("preceding job", "think time", "queue", "partition")]
    asked = unheeded([*(values.set((values <= 0).fill_null(True), None) for values in told[:2]), *told[2:]])
    known = {"user": "user", "executable": "app"} | {
        name: EXTRA + name for name in ("group", "queue", "partition", "status")
    }
    frame = frame.select(
        pl.col("job number").alias("id"),
        pl.col("submit time").alias("submit_us"),
        pl.col("run time").alias("work_us"),
        pl.col("requested time").alias("request_us"),
        "tasks",
        "cores",
        "memory_mb",
        *(pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(new) for name, new in known.items()),
        pl.when(pl.col("wait time") >= 0).then(pl.col("wait time") / 1e6).alias(f"{EXTRA}log_wait_s"),
        *([] if memory != "ignore" else unheeded([frame["memory"]], "memory ignored")),
        *asked,
        priority=pl.lit(0, pl.Int64),
    )
    made = workload(source, "swf", raw.height, frame, tally, overrun, header(text))
    tally.missing.pop("deadline", None)  # the format has none
    return made


def _drop_unfinished(frame: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    run, status = pl.col("run time"), pl.col("status")
    unsized = (pl.col("requested processors") <= 0) & (pl.col("allocated processors") <= 0)
    frame = tally.drop(frame, "partial execution", status.is_in([2, 3, 4]))
    frame = tally.drop(frame, "submit missing", pl.col("submit time") < 0)
    return tally.drop(frame, "cancelled before start", ((run <= 0) & (status == 5)) | ((run == 0) & unsized))


def _sized(frame: pl.DataFrame, tally: Tally, procs_per_task: int) -> pl.DataFrame:
    asked, allocated = pl.col("requested processors"), pl.col("allocated processors")
    specified = pl.col("spec tasks").is_not_null() if "spec tasks" in frame.columns else pl.lit(False)
    tally.change_where(frame, "size from node spec", specified)
    tally.change_where(frame, "size from allocation", ~specified & (asked <= 0) & (allocated > 0))
    frame = frame.with_columns(procs=pl.when(asked > 0).then(asked).when(allocated > 0).then(allocated))
    tally.change_where(frame, "size rounded up", ~specified & (pl.col("procs") % procs_per_task > 0))
    frame = frame.with_columns(
        tasks=(pl.col("procs") + procs_per_task - 1) // procs_per_task, cores=pl.lit(procs_per_task, pl.Int64)
    )
    if "spec tasks" not in frame.columns:
        return frame
    return frame.with_columns(tasks=pl.coalesce("spec tasks", "tasks"), cores=pl.coalesce("spec cores", "cores"))


def _memory(frame: pl.DataFrame, at: Locator, memory: str, memory_per: str, unit: Fraction) -> pl.DataFrame:
    fields = {"requested": ["requested memory"], "used": ["used memory"]}.get(
        memory, ["requested memory", "used memory"]
    )
    given = frame.select(
        pl.max_horizontal(pl.when(pl.col(name) > 0).then(pl.col(name)) for name in fields).alias("memory")
    ).to_series()
    if memory == "ignore":
        return frame.with_columns(given, memory_mb=pl.lit(0, pl.Int64))
    # Per task, in the log's own unit. Rounding up is left to amounts(), once.
    if memory_per == "processor":
        refuse(given.cast(pl.Float64) * frame["cores"] >= 2.0**62, given, "memory", at, "an amount below 4 EB")
        given = given * frame["cores"]
    elif memory_per == "job":
        given = given / frame["tasks"]
    return frame.with_columns(amounts(given, "memory", at, unit).alias("memory_mb"))
