"""Lines about jobs as columns that a workload is made of: the part that ``sacct`` and ``squeue`` share."""

from __future__ import annotations

import polars as pl

from unrack.slurm_text.job_ids import job_id
from unrack.slurm_text.states import job_state
from unrack.slurm_text.times import ENDLESS
from unrack.workload.formats.ignored import UNHEEDED, unheeded
from unrack.workload.formats.intake import EXTRA, Tally
from unrack.workload.formats.slurm.asked import Choices, asked
from unrack.workload.formats.slurm.listing import ASKS, READ, RENAMED, Listing
from unrack.workload.formats.slurm.parsing import Columns, first_said
from unrack.workload.formats.source import Locator
from unrack.workload.formats.table.columns import typed

NAMES = ("jobid", "jobidraw")
"""Columns with the name of the job, the better one first."""
LIMITS = ("timelimitraw", "timelimit")
"""Columns with the time limit."""
STATE = f"{EXTRA}state"
RAN = "run:so far"
"""Column of how long jobs that run have run, µs; null of all others."""
TIMES = ("submit_us", "work_us", "request_us", "deadline_us")
NAMED = ("user", "account", "partition", "qos", "group", "constraints", "dependency", "reservation")
"""Columns with names by which jobs are told apart."""
_MADE = {*TIMES, RAN, "start_us", "endless", "row", "id", "step", "member", "lastschedeval"}


def timed(jobs: pl.DataFrame, found: Listing, arrival: str) -> pl.DataFrame:
    """The rows with the columns of :func:`unrack.workload.formats.slurm.jobs.times`, and their state.

    Parameters
    ----------
    jobs
        Rows of the listing, with their ``row``.
    arrival
        Which time counts as the submission.

    Raises
    ------
    TraceError
        A field is no time, or no state.
    """
    columns = Columns(jobs, at_rows(found, jobs))
    state = columns.column("state", job_state, pl.String).alias(STATE)
    return pl.concat([jobs, times(columns, arrival), pl.DataFrame([state])], how="horizontal")


def described(
    jobs: pl.DataFrame, found: Listing, used_mb: pl.Series | None, choices: Choices, tally: Tally
) -> pl.DataFrame:
    """The columns of a workload.

    Parameters
    ----------
    jobs
        As of :func:`timed`, with their ``id``.
    used_mb
        MB used on each node.

    Raises
    ------
    TraceError
        A field is not what it should be.
    """
    columns = Columns(jobs, at_rows(found, jobs))
    times = ("id", RAN, "endless", *TIMES)
    ready = [name for name in jobs.columns if name in times or name.startswith((EXTRA, UNHEEDED))]
    parts = [jobs.select(ready), asked(columns, used_mb, choices, tally), pl.DataFrame([_users(columns).alias("user")])]
    if (rest := pl.DataFrame(_carried(columns, jobs))).width:
        parts.append(rest)
    if (in_vain := pl.DataFrame(unheeded(columns.text(name) for name in jobs.columns if name in ASKS))).width:
        parts.append(in_vain)
    if found.cut:
        ends = [columns.text(name).str.ends_with("+").fill_null(False) for name in NAMED if name in columns]
        tally.change("name cut off", int(pl.select(pl.any_horizontal(ends).sum()).item()) if ends else 0)
    return pl.concat(parts, how="horizontal")


def _users(columns: Columns) -> pl.Series:
    """Names of users; ``ann(1000)``, as scontrol has it, is ann."""
    return columns.text("user").str.replace(r"\([0-9]+\)$", "")


def _carried(columns: Columns, jobs: pl.DataFrame) -> list[pl.Series]:
    taken = READ | _MADE
    return [
        typed(columns.text(name)).alias(EXTRA + RENAMED.get(name, name))
        for name in jobs.columns
        if name not in taken and not name.startswith((EXTRA, UNHEEDED))
    ]


def times(columns: Columns, arrival: str) -> pl.DataFrame:
    """``submit_us``, ``start_us``, ``work_us`` (so long it ran), ``request_us`` (null: no limit), ``deadline_us``.

    And ``endless``: whether it is said that there is no limit but, perhaps, that of the partition.

    Parameters
    ----------
    arrival
        Which time counts as the submission: ``"submit"``, or ``"eligible"``, and where it is not known ``submit``.

    Raises
    ------
    TraceError
        A field is no time.
    """
    submit, start, end = (columns.moment_us(name) for name in ("submit", "start", "end"))
    if arrival == "eligible":
        submit = first_said(columns.moment_us("eligible"), submit)
    run = first_said(columns.seconds_us("elapsedraw"), columns.span_us("elapsed"), end - start)
    words = [columns.text(name).str.to_lowercase().is_in([*ENDLESS, "partition_limit"]) for name in LIMITS]
    wait_s = (start - submit) / 1e6
    return pl.DataFrame([
        submit.alias("submit_us"),
        start.alias("start_us"),
        run.alias("work_us"),
        first_said(*map(columns.span_us, LIMITS)).alias("request_us"),
        (words[0].fill_null(False) | words[1].fill_null(False)).alias("endless"),
        columns.moment_us("deadline").alias("deadline_us"),
        wait_s.set((wait_s < 0).fill_null(False), None).alias(f"{EXTRA}log_wait_s"),
    ])  # fmt: skip


def at_rows(found: Listing, rows: pl.DataFrame) -> Locator:
    """Where rows with a column ``row`` are in the file."""
    places = rows["row"]
    return Locator(found.at.source, lambda row: found.at.line_of(places[row]))


def identified(jobs: pl.DataFrame, found: Listing, tally: Tally) -> pl.DataFrame:
    """The jobs with an ``id``, and ``extra:array`` where some are of an array; a row for each member of an array.

    The id is a number where the names of all jobs are, or ``JobIDRaw`` gives one for each; else it is the name.

    Parameters
    ----------
    jobs
        Rows of the listing, with their ``row``.

    Raises
    ------
    TraceError
        A name is none, or was cut off.
    """
    name = next(name for name in NAMES if name in jobs.columns)
    names = jobs[name]
    said = Columns(jobs, at_rows(found, jobs)).made(name, job_id)
    parts = [text for text, one in said.items() if one.part is not None]
    limited = [text for text, one in said.items() if one.at_most is not None]
    for rule, listed_names in (("component of a heterogeneous job", parts), ("limit of an array ignored", limited)):
        if listed_names:
            jobs = jobs.with_columns(unheeded([names.set(~names.is_in(listed_names).fill_null(False), None)], rule))
    numbers = names.replace_strict({text: one.job for text, one in said.items()}, default=None, return_dtype=pl.Int64)
    if not any(one.members or one.part is not None for one in said.values()):
        return jobs.with_columns(numbers.alias("id"))
    members = {text: list(one.members) for text, one in said.items() if one.members}
    listed = {text: many for text, many in members.items() if "[" in text}
    jobs = (
        jobs.with_columns(
            names.replace_strict(members, default=None, return_dtype=pl.List(pl.Int64)).alias("member"),
            pl.when(names.is_in(list(members)).fill_null(False)).then(numbers).alias(EXTRA + "array"),
        ).explode("member", empty_as_null=True)
        if members
        else jobs.with_columns(member=pl.lit(None, pl.Int64))
    )
    if members:
        tally.change("member of an array", int(jobs[name].is_in(list(listed)).sum()) if listed else 0)
    raw = Columns(jobs, at_rows(found, jobs)).whole("jobidraw") if not listed and name == "jobid" else None
    if raw is not None and not raw.null_count() and raw.n_unique() == len(raw):
        return jobs.with_columns(raw.alias("id"), pl.col(name).alias(EXTRA + "job_id"))
    number = pl.col(EXTRA + "array") if members else pl.lit(None, pl.Int64)
    text = pl.when(pl.col("member").is_null()).then(pl.col(name)).otherwise(pl.format("{}_{}", number, "member"))
    return jobs.with_columns(text.alias("id"))
