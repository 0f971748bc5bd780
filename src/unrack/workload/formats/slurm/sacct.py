"""Jobs of the past as ``sacct`` prints them: with ``--parsable2``, any ``--delimiter``, ``--json``, or aligned.

References
----------
The manual page sacct(1) of Slurm. The rules for odd lines are in :mod:`unrack.workload.formats.rules`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import polars as pl

from unrack.errors import InputError
from unrack.slurm_text.states import HOLDING, WAITING
from unrack.workload.formats.intake import OVERRUN, RUNNING, Tally, workload
from unrack.workload.formats.limits import UNLIMITED, limit_us, limits_us, with_limits
from unrack.workload.formats.quantities import choice
from unrack.workload.formats.slurm.asked import Choices
from unrack.workload.formats.slurm.identity import NAMES, at_rows, identified
from unrack.workload.formats.slurm.jobs import STATE, described, timed
from unrack.workload.formats.slurm.listing import COMMAND, Listing, listing
from unrack.workload.formats.slurm.parsing import Columns
from unrack.workload.formats.slurm.past_json import past_json
from unrack.workload.formats.slurm.queue import begun
from unrack.workload.formats.slurm.steps import used_mb
from unrack.workload.formats.source import Source, load
from unrack.workload.job import Workload

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
    path
        The file.
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

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, or has a value that cannot be.
    InputError
        An option has a value it cannot have.
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
    found = past_json(source) if is_json else listing(source, delimiter)
    _complete(found, arrival)
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
        ours, more, header = begun(
            jobs, found, choices, tally, running, longest_us=longest_us, by_partition=by_partition
        )
        return workload(source, "sacct", frame.height + more, ours, tally, "keep", header)
    partition = Columns(jobs, at_rows(found, jobs)).text("partition")
    limited = with_limits(jobs, jobs["endless"], partition, by_partition, longest_us, tally)
    ended = _ended(limited, tally, unfinished)
    kept = identified(ended, found, tally)
    used = None
    if memory in ("used", "max"):
        used = used_mb(Columns(steps, at_rows(found, steps)), Columns(kept, at_rows(found, kept)), name)
        if used is None:
            raise source.fault(None, "column MaxRSS", "no such column", f"it, as memory = {memory!r}; {COMMAND}")
    ours = described(kept, found, used, choices, tally)
    start_us = int(ours.select(pl.col("submit_us").min()).item() or 0) // 1_000_000 * 1_000_000
    ours = ours.with_columns(pl.col("submit_us", "deadline_us") - start_us)
    header = {"Columns": f"a task a node; {size} cores, {memory} memory", "UnixStartTime": str(start_us // 1_000_000)}
    read = frame.height + kept.height - ended.height
    return workload(source, "sacct", read, ours, tally, overrun, header)


def _complete(found: Listing, arrival: str) -> None:
    """Refuse a list without what is needed."""
    cores = ("alloccpus", "ncpus", "reqcpus", "alloctres", "reqtres")
    for needed in (("jobid", "jobidraw"), (arrival,), ("elapsedraw", "elapsed", "end"), cores):
        if not set(needed) & set(found.frame.columns):
            raise found.at.source.fault(None, f"column {' or '.join(needed)}", "no such column", COMMAND)


def _none_is_over(state: pl.Series) -> bool:
    """True of a list of jobs that run, and perhaps of some that wait: a snapshot."""
    return bool(state.is_in(list(HOLDING)).any() and state.is_in(list(HOLDING | WAITING)).fill_null(False).all())


def _ended(ours: pl.DataFrame, tally: Tally, unfinished: str) -> pl.DataFrame:
    """Without the jobs that never ran; those that wait or run still are dropped, or run for their limit."""
    state, ran, started = pl.col(STATE), pl.col("work_us") > 0, pl.col("start_us").is_not_null()
    waits = state.is_in(WAITING) & ~ran.fill_null(False)
    runs = state.is_in(HOLDING)
    if unfinished == "drop":
        ours = tally.drop(ours, "still waiting", waits)
        ours = tally.drop(ours, "still running", runs)
    else:
        open_ended = (waits | runs).fill_null(False) & pl.col("request_us").is_not_null()
        tally.change_where(ours, "run until the limit", open_ended)
        ours = ours.with_columns(work_us=pl.when(open_ended).then(pl.col("request_us")).otherwise(pl.col("work_us")))
    never = ~ran.fill_null(False) & (~started | (state == "CANCELLED"))
    return tally.drop(ours, "never started", never)
