"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, ``;`` comments, -1 = missing.

References
----------
Chapin et al., "Benchmarks and standards for the evaluation of parallel job schedulers", JSSPP 1999; version 2.2 of the
format. The rules for odd lines are in :mod:`unrack.workload.formats.rules`.
"""

from __future__ import annotations

import io
import os
import re
from fractions import Fraction
from functools import cache

import polars as pl

from unrack.workload.formats.intake import EXTRA, OVERRUN, Tally, unheeded, workload
from unrack.workload.formats.quantities import (
    MOST,
    amounts,
    boolean,
    choice,
    count,
    memory_unit_mb,
    numbers,
    refuse,
    times_us,
    whole,
)
from unrack.workload.formats.source import Locator, Source, load, text_bytes
from unrack.workload.job import Workload

FIELDS = (
    "job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time", "used memory",
    "requested processors", "requested time", "requested memory", "status", "user", "group", "executable", "queue",
    "partition", "preceding job", "think time",
)  # fmt: skip
_TIMES = ("submit time", "wait time", "run time", "requested time")
_FRACTIONS = ("average CPU time", "used memory", "requested memory", "think time")
SECOND = Fraction(1_000_000)
_KEY = re.compile(r";\s{0,4}([A-Za-z][A-Za-z0-9_]*):(?:\s+(.*))?")
_NAMED = re.compile(r"^(\d{1,9})\s*[-:=]?\s+(\w\S*)", re.MULTILINE)
_NODE_SPEC = r" (\d{1,9}):ppn=(\d{1,9})(?:[:+# ]|$)"


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
    queue, partition, status and the wait in the log (``log_wait_s``, seconds) are carried along, and so are the job
    before it (``preceding``) and the time between that job's end and its submission (``think_s``).

    Parameters
    ----------
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
    number = cache(lambda: job_lines(text))  # of each job line; found once something is at fault
    at = Locator(source, lambda row: number()[row])
    raw = _field_columns(lines, at).with_row_index("row")
    tally = Tally()
    if node_spec:
        raw = with_node_spec(raw, lines, at)
    frame = _drop_unfinished(raw, tally)
    tally.change_where(frame, "extra fields", pl.col("more").is_not_null())
    frame = _sized(frame, tally, procs_per_task)
    rows = frame["row"]
    kept_at = Locator(source, lambda row: number()[rows[row]])
    frame = _memory(frame, kept_at, memory, memory_per, unit)
    known = {"user": "user", "executable": "app"} | {
        name: EXTRA + name for name in ("group", "queue", "partition", "status")
    }
    heads = header(text)
    frame = frame.select(
        pl.col("job number").alias("id"),
        pl.col("submit time").alias("submit_us"),
        pl.col("run time").alias("work_us"),
        pl.col("requested time").alias("request_us"),
        "tasks",
        "cores",
        "memory_mb",
        *(_named(frame[name], heads).alias(new) for name, new in known.items()),
        pl.when(pl.col("wait time") >= 0).then(pl.col("wait time") / 1e6).alias(f"{EXTRA}log_wait_s"),
        *([] if memory != "ignore" else unheeded([frame["memory"]], "memory ignored")),
        *_preceding(frame, raw, tally),
        priority=pl.lit(0, pl.Int64),
    )
    made = workload(source, "swf", raw.height, frame, tally, overrun, heads)
    tally.missing.pop("deadline", None)  # the format has none
    return made


def _named(field: pl.Series, heads: dict[str, str]) -> pl.Series:
    """The numbers of a field, or the names that the header gives them, as ``; Partition: 1 batch``: one each."""
    numbers = field.set(field < 0, None)
    key = {"executable": "App"}.get(field.name, field.name.capitalize())
    said = dict(_NAMED.findall(heads.get(key, "")))
    others = {*numbers.drop_nulls().unique().cast(pl.String)} - said.keys()  # that are called by their number
    if not said or len({*said.values(), *others}) < len(said) + len(others):
        return numbers
    names = {int(number): name for number, name in said.items()}
    return numbers.replace_strict(names, default=numbers.cast(pl.String), return_dtype=pl.String)


def _preceding(frame: pl.DataFrame, raw: pl.DataFrame, tally: Tally) -> list[pl.Series]:
    """Preceding jobs and think times, of jobs that the log itself submitted so after the ends of those jobs.

    Some logs have the same numbers in all lines, or what their batch system called a predecessor.
    """
    job, think = frame["preceding job"], frame["think time"].cast(pl.Float64)
    job, think = job.set(job <= 0, None), think.set((think < 0) | (job <= 0), None)
    if not (job > 0).any():
        return []
    ends = raw.filter((pl.col("wait time") >= 0) & (pl.col("run time") >= 0)).unique("job number", keep="last")
    ended = ends["submit time"] + ends["wait time"] + ends["run time"]
    since = frame["submit time"] - job.replace_strict(ends["job number"], ended, default=None, return_dtype=pl.Int64)
    off = pl.select(pl.when(think.is_null()).then(-since).otherwise((since - think * 1e6).abs())).to_series()
    untied = (off > 2e6).fill_null(False)
    tally.change("preceding job not followed", int(untied.sum()))
    return [job.set(untied, None).alias(f"{EXTRA}preceding"), think.set(untied, None).alias(f"{EXTRA}think_s")]


def _drop_unfinished(frame: pl.DataFrame, tally: Tally) -> pl.DataFrame:
    run, status = pl.col("run time"), pl.col("status")
    unsized = (pl.col("requested processors") <= 0) & (pl.col("allocated processors") <= 0)
    frame = tally.drop(frame, "partial execution", status.is_in([2, 3, 4]))
    frame = tally.drop(frame, "submit missing", pl.col("submit time") < 0)
    frame = tally.drop(frame, "cancelled before start", (run <= 0) & ((status == 5) | ((run == 0) & unsized)))
    return tally.drop(tally.drop(frame, "run missing", run < 0), "size missing", unsized)


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
    fields = [f"{which} memory" for which in ("requested", "used") if memory in (which, "max", "ignore")]
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


def header(text: bytes) -> dict[str, str]:
    """The header comments ``; Key: value`` of an SWF text; values of a repeated key and further lines are joined."""
    found: dict[str, str] = {}
    key = ""
    for raw in io.BytesIO(text):
        line = raw.strip()
        if not line.startswith(b";"):
            if line:
                break
            continue
        try:
            words = line.decode("utf-8")
        except UnicodeDecodeError:
            words = line.decode("latin-1")
        if match := _KEY.fullmatch(words):
            key, value = match[1], (match[2] or "").strip()
        else:
            value = words[1:].strip()
        if key and value:
            found[key] = f"{found[key]}\n{value}" if key in found else value
    return found


def normal_lines(text: bytes) -> bytes:
    """The job lines with single blanks between the fields and none around them; comments are left in."""
    blank = text.translate(bytes.maketrans(b"\t\v\f", b"   "))
    blank = blank.replace(b"     ", b" ")  # long runs first: fewer passes
    while b"  " in blank:
        blank = blank.replace(b"  ", b" ")
    blank = (b"\n" + blank + b"\n").replace(b"\n ", b"\n").replace(b" \n", b"\n")
    while b"\n\n" in blank:
        blank = blank.replace(b"\n\n", b"\n")
    return blank.decode("utf-8", "replace").encode() if not blank.isascii() else blank


def job_lines(text: bytes) -> list[int]:
    """The lines, from 1, of the job lines."""
    return [
        number
        for number, line in enumerate(text.split(b"\n"), 1)
        if (stripped := line.strip()) and not stripped.startswith(b";")
    ]


def _field_columns(lines: bytes, at: Locator) -> pl.DataFrame:
    """One row a job line: the 18 :data:`FIELDS`, times in µs; ``more`` is null where a line ends there."""
    head = " ".join(f"field{k}" for k in range(1, 20)).encode()
    text = pl.read_csv(
        head + lines, separator=" ", quote_char=None, comment_prefix=";", truncate_ragged_lines=True, infer_schema=False
    )
    text.columns = [*FIELDS, "more"]
    last = text[FIELDS[-1]]
    if last.null_count():
        short = last.is_null().arg_true().to_list()
        held = sum(value is not None for value in text.row(short[0])[:18])
        raise at.faults(short, "", f"{held} field{'s' * (held != 1)}", "18 numbers (see docs/file-formats.md)")
    columns = []
    for name in FIELDS:
        values = numbers(text[name], name, at)
        if name in _TIMES:
            values = times_us(values, name, at, SECOND)
        elif name not in _FRACTIONS:
            values = whole(values, name, at, most=2**53 if name == "job number" else MOST)
        columns.append(values.alias(name))
    return pl.DataFrame([*columns, text["more"]])


def with_node_spec(raw: pl.DataFrame, lines: bytes, at: Locator) -> pl.DataFrame:
    """The columns and ``spec tasks``, ``spec cores`` of the node specifications; null where a line has none."""
    found = (
        pl.Series("line", [line for line in lines.decode().split("\n") if line and not line.startswith(";")], pl.String)
        .str.extract_groups(_NODE_SPEC)
        .struct.unnest()
    )
    nodes, cores = (found.to_series(k).cast(pl.Int64, strict=False) for k in (0, 1))
    for name, values in (("nodes", nodes), ("ppn", cores)):
        refuse((values < 1) | (values > MOST), values, f"node specification, {name}", at, f"a number from 1 to {MOST}")
    return raw.with_columns(nodes.alias("spec tasks"), cores.alias("spec cores"))
