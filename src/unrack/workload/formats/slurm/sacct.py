"""Jobs of the past as ``sacct`` prints them: with ``--parsable2``, any ``--delimiter``, ``--json``, or aligned.

References
----------
The manual page sacct(1) of Slurm. The rules for odd lines are in :mod:`unrack.workload.formats.rules`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import polars as pl

from unrack.errors import InputError
from unrack.slurm_text.job_ids import HOLDING, WAITING
from unrack.slurm_text.tres import memory as amount_of_memory
from unrack.slurm_text.values import listed, number, said, table
from unrack.workload.formats.intake import EXTRA, OVERRUN, RUNNING, Tally, workload
from unrack.workload.formats.limits import UNLIMITED, limit_us, limits_us, with_limits
from unrack.workload.formats.quantities import MOST_MB, choice
from unrack.workload.formats.slurm.jobs import NAMES, STATE, Choices, begin_s, described, identified, timed
from unrack.workload.formats.slurm.listing import COMMAND, Listing, ListingColumns, listing
from unrack.workload.formats.slurm.queue import as_frame, begun, job_name, jobs_in
from unrack.workload.formats.source import Locator, Source, load
from unrack.workload.job import Workload

_PER_CPU = 1 << 63
"""In ``required.memory`` of old versions: the amount is of each core."""
_TIMES = {"submission": "submit", "eligible": "eligible", "start": "start", "end": "end"}
_WORDS = {
    "account": "account", "partition": "partition", "qos": "qos", "constraints": "constraints", "nodes": "nodelist",
    "licenses": "licenses", "priority": "priority", "name": "jobname", "user": "user", "group": "group",
    "submit_line": "submitline",
}  # fmt: skip
_STEP = r"^[0-9]+([_+][0-9]+|_\[[^\]]*\])?\."


def read_sacct(
    path: str | os.PathLike[str] | Source,
    *,
    delimiter: str | None = None,
    size: str = "allocated",
    memory: str = "requested",
    gpus: str = "gpus.count",
    gres: Mapping[str, str] | None = None,
    licences: bool = True,
    arrival: str = "submit",
    unfinished: str = "drop",
    unlimited: float | str = UNLIMITED,
    limits: Mapping[str, float | str] | str | None = None,
    overrun: str = "truncate",
    running: str = "kept",
) -> Workload:
    """Read what ``sacct`` printed; the first job is submitted at 0.

    A job has a task on each of its nodes, with an equal part of its cores, memory and GPUs.

    Parameters
    ----------
    delimiter
        One character between the fields; by default found from the header, as are aligned columns.
    size
        ``"allocated"``: the cores, nodes, memory and devices that a job was given, or else what it asked for;
        ``"requested"``: the other way round.
    memory
        ``"requested"``, ``"used"`` (MaxRSS, of the step that used most), ``"max"`` of both, or ``"ignore"``.
    gpus
        What GPUs are asked as: ``"gpus.count"``, ``"gpu.devices"`` and the like, or ``"ignore"``.
    gres
        Name of another generic resource → what it is asked as, such as ``{"nvme": "nvme.devices"}``.
    licences
        Whether licences are asked for, as ``counted.NAME``.
    arrival
        ``"submit"``, or ``"eligible"``: when nothing but resources kept a job waiting any more.
    unfinished
        Jobs that wait or run still: ``"drop"``; ``"limit"``: they run for their time limit, from their submission on;
        ``"now"``: they alone count, as in :func:`unrack.workload.formats.slurm.queue.read_queue`, and the run begins
        with those that run. A list in which no job is over is read so by default.
    unlimited
        How long a job without a limit (UNLIMITED, Partition_Limit) is taken to ask for, s or text such as ``"7 d"``;
        one that ran longer is not cut there.
    limits
        Partition → its limit, which then counts in place of ``unlimited``; or the path of a ``slurm.conf`` that says
        so (MaxTime), or of what ``scontrol show partition`` printed.
    overrun
        As in :func:`unrack.workload.formats.swf.read_swf`.
    running
        Of ``unfinished = now``: as in :func:`unrack.workload.formats.slurm.queue.read_queue`.
    """
    choice("overrun", overrun, OVERRUN)
    choice("arrival", arrival, ("submit", "eligible"))
    choice("unfinished", unfinished, ("drop", "limit", "now"))
    choice("running", running, RUNNING)
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
        raise InputError("option delimiter", repr(delimiter), "one character")
    choices = Choices(size, memory, gpus, gres or {}, licences)
    longest_us, by_partition = limit_us("unlimited", unlimited), limits_us(limits or {})
    source = load(path)
    is_json = source.data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    found = _past_json(source) if is_json else listing(source, delimiter)
    cores = ("alloccpus", "ncpus", "reqcpus", "alloctres", "reqtres")
    found.need((("jobid", "jobidraw"), (arrival,), ("elapsedraw", "elapsed", "end"), cores), COMMAND)
    tally = Tally()
    tally.change("bytes that are no text", found.replaced)
    tally.change("header repeated", found.repeated)
    name = next(name for name in NAMES if name in found.frame.columns)
    frame = found.frame.with_row_index("row").with_columns(step=pl.col(name).str.contains(_STEP).fill_null(False))
    steps = frame.filter("step")
    jobs = tally.drop(frame, "step", pl.col("step"))
    earlier = pl.col("row") != pl.col("row").max().over(name)
    jobs = tally.drop(jobs, "run before a requeue", earlier & pl.col(name).is_not_null())
    jobs = timed(jobs, found, arrival)
    if unfinished == "now" or (unfinished == "drop" and _none_is_over(jobs[STATE])):
        if memory in ("used", "max"):
            raise InputError("option memory", repr(memory), "requested or ignore, as jobs run and wait still")
        ours, more, header = begun(jobs, found, choices, tally, running, by_partition, longest_us)
        return workload(source, "sacct", frame.height + more, ours, tally, "keep", header)
    ended = _ended(jobs, tally, unfinished)
    partition = found.columns(ended).text("partition")
    limited = with_limits(ended, ended["endless"], partition, by_partition, longest_us, tally)
    open_ended = (_WAITS | _RUNS) & pl.col("request_us").is_not_null()
    tally.change_where(limited, "run until the limit", open_ended)
    limited = limited.with_columns(work_us=pl.when(open_ended).then("request_us").otherwise("work_us"))
    limited = tally.drop(limited, "never started", _WAITS)
    kept = identified(limited, found, tally)
    used = None
    if memory in ("used", "max"):
        used = _used_mb(found.columns(steps), found.columns(kept), name)
        if used is None:
            raise source.fault(None, "column MaxRSS", "no such column", f"it, as memory = {memory!r}; {COMMAND}")
    ours = described(kept, found, used, choices, tally)
    start_us = int(ours.select(pl.col("submit_us").min()).item() or 0) // 1_000_000 * 1_000_000
    ours = begin_s(ours.with_columns(pl.col("submit_us", "deadline_us") - start_us), start_us)
    if f"{EXTRA}dependency" in ours.columns:  # which then says why it was not eligible before
        began = pl.when(pl.col(f"{EXTRA}dependency").is_null()).then(f"{EXTRA}begin_s")
        ours = ours.with_columns(began.alias(f"{EXTRA}begin_s"))
    if f"{EXTRA}array" in ours.columns:  # a member is not eligible before its array's limit of running ones lets it
        array, time = pl.col(f"{EXTRA}array"), pl.col(f"{EXTRA}begin_s")
        first = pl.when(time.is_null().any().over(array)).then(None).otherwise(time.min().over(array))
        ours = ours.with_columns(pl.when(array.is_null()).then(time).otherwise(first).alias(f"{EXTRA}begin_s"))
    header = {"Columns": f"a task a node; {size} cores, {memory} memory", "UnixStartTime": str(start_us // 1_000_000)}
    read = frame.height + kept.height - limited.height
    return workload(source, "sacct", read, ours, tally, overrun, header)


def _none_is_over(state: pl.Series) -> bool:
    """True of a list of jobs that run, and perhaps of some that wait: a snapshot."""
    return bool(state.is_in(list(HOLDING)).any() and state.is_in(list(HOLDING | WAITING)).fill_null(False).all())


_RAN = (pl.col("work_us") > 0).fill_null(False)
_WAITS, _RUNS = pl.col(STATE).is_in(WAITING) & ~_RAN, pl.col(STATE).is_in(HOLDING)


def _ended(jobs: pl.DataFrame, tally: Tally, unfinished: str) -> pl.DataFrame:
    """Without the jobs that never ran, and under ``unfinished = drop`` without those that wait or run still."""
    if unfinished == "drop":
        jobs = tally.drop(tally.drop(jobs, "still waiting", _WAITS), "still running", _RUNS)
    state, unstarted = pl.col(STATE), pl.col("start_us").is_null()
    never = (state == "CANCELLED") | (unstarted & (state != "COMPLETED").fill_null(True))
    return tally.drop(jobs, "never started", never & ~_RAN & ~(_WAITS | _RUNS).fill_null(False))


def _used_mb(steps: ListingColumns, jobs: ListingColumns, name: str) -> pl.Series | None:
    """Int64: MB on a node of each job, of its step that used most; ``None`` where the list has no MaxRSS.

    MaxRSS is of the largest task of a step; where the list says how many tasks the step had on a node, it counts so
    often. Jobs may have one of their own. The column ``name`` has the job, of a step before the dot.
    """
    if "maxrss" not in jobs:
        return None
    both = pl.concat([
        pl.DataFrame({"job": one.text(name).str.split(".").list.first(), "mb": _on_a_node(one)})
        for one in (steps, jobs)
    ])  # fmt: skip
    most = both.drop_nulls().group_by("job").agg(pl.col("mb").max())
    return jobs.text(name).replace_strict(most["job"], most["mb"], default=None, return_dtype=pl.Int64)


def _on_a_node(columns: ListingColumns) -> pl.Series:
    said = {
        entry: one.mb or None
        for entry, one in columns.made("maxrss", partial(amount_of_memory, unit="K")).items()
        if one is not None
    }
    largest = columns.looked_up("maxrss", said, pl.Int64)
    tasks, nodes = columns.whole("ntasks").fill_null(1), columns.whole("nnodes").fill_null(1)
    on_a_node = (tasks + nodes - 1) // nodes
    return largest.clip(upper_bound=MOST_MB) * on_a_node.clip(upper_bound=2**20)


def _past_json(source: Source) -> Listing:
    """The jobs and their steps, a row each."""
    rows: list[dict[str, str]] = []
    for place, job in enumerate(jobs_in(source, COMMAND)):
        try:
            rows += _rows(job)
        except (ValueError, TypeError) as error:
            raise source.fault(None, f"jobs.{place}", str(error)[:100], "a job of sacct --json") from None
    return Listing(as_frame(rows), Locator(source, lambda row: None))


def _rows(job: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    time, array, required = (table(job.get(key)) for key in ("time", "array", "required"))
    state, tres, het = (table(job.get(key)) for key in ("state", "tres", "het"))
    association = table(job.get("association"))
    row = {ours: text for key, ours in _WORDS.items() if (text := said(job.get(key)))}
    row.setdefault("user", said(association.get("user")))
    row |= {ours: text for key, ours in _TIMES.items() if (text := said(time.get(key))) not in ("", "0")}
    ran = said(time.get("start")) not in ("", "0")
    limit = said(time.get("limit"))
    alloc, asked = _tres(tres.get("allocated")), _tres(tres.get("requested"))
    of_array, of_het = (array.get("job_id"), array.get("task_id"), array.get("task")), ("job_id", "job_offset")
    name = job_name(*map(said, (job.get("job_id"), *of_array, *map(het.get, of_het))))
    running = table(table(table(array.get("limits")).get("max")).get("running"))
    reserved = table(job.get("reservation")).get("name")
    row |= {
        "jobid": name,
        "jobidraw": said(job.get("job_id")),
        "arraytaskthrottle": said(running.get("tasks")),
        "elapsedraw": said(time.get("elapsed")) if ran else "",
        "timelimit": limit or "Partition_Limit",
        "state": said(state.get("current")),
        "reqcpus": said(required.get("CPUs", required.get("cpus"))),
        "reqmem": _memory(required),
        "alloctres": alloc,
        "reqtres": asked,
        "reservation": reserved if isinstance(reserved, str) else "",  # of 21.08 it is some number
        "exitcode": said(table(job.get("exit_code")).get("return_code")),
    }
    yield row
    for place, step in enumerate(listed(job.get("steps"))):
        yield _step(f"{name.partition('.')[0]}.{place}", table(step))


def _step(name: str, step: Mapping[str, Any]) -> dict[str, str]:
    most = listed(table(table(step.get("tres")).get("requested")).get("max"))
    used = max((number(table(one).get("count")) for one in most if table(one).get("type") == "mem"), default=0)
    return {
        "jobid": name,
        "maxrss": f"{-(-used // 1024)}K" if used else "",
        "ntasks": said(table(step.get("tasks")).get("count")),
        "nnodes": said(table(step.get("nodes")).get("count")),
    }


def _memory(required: Mapping[str, Any]) -> str:
    """MB of each node or core, as ReqMem has it."""
    for key, per in (("memory_per_node", "n"), ("memory_per_cpu", "c")):
        if mb := number(required.get(key)):
            return f"{mb}M{per}"
    old = required.get("memory")
    mb = old if isinstance(old, int) else 0
    per = "c" if mb >= _PER_CPU else "n"
    return f"{mb}M{per}" if (mb := number(mb % _PER_CPU)) else ""


def _tres(value: Any) -> str:
    """A list of resources as a text: ``cpu=8,gres/gpu:a100=2,mem=65536M``."""
    parts = []
    for one in map(table, listed(value)):
        kind, name, count = said(one.get("type")), said(one.get("name")), number(one.get("count"))
        if kind and count:
            parts.append(f"{kind}/{name}={count}" if name else f"{kind}={count}{'M' if kind == 'mem' else ''}")
    return ",".join(parts)
