"""Lines about jobs as columns that a workload is made of: the part that ``sacct`` and ``squeue`` share."""

from __future__ import annotations

import polars as pl

from unrack.slurm_text.states import job_state
from unrack.workload.formats.intake import EXTRA, Tally
from unrack.workload.formats.slurm.asked import Choices, asked
from unrack.workload.formats.slurm.identity import at_rows
from unrack.workload.formats.slurm.listing import Listing
from unrack.workload.formats.slurm.names import ASKS, READ, RENAMED
from unrack.workload.formats.slurm.parsing import Columns
from unrack.workload.formats.slurm.times import times
from unrack.workload.formats.table.columns import typed
from unrack.workload.formats.unheeded import UNHEEDED, unheeded

STATE = f"{EXTRA}state"
RAN = "run:so far"
"""Column of how long jobs that run have run, µs; null of all others."""
TIMES = ("submit_us", "work_us", "request_us", "deadline_us")
NAMED = ("user", "account", "partition", "qos", "group", "constraints", "dependency", "reservation")
"""Columns with names by which jobs are told apart."""
_MADE = {*TIMES, RAN, "start_us", "endless", "row", "id", "step", "member", "lastschedeval"}


def timed(jobs: pl.DataFrame, found: Listing, arrival: str) -> pl.DataFrame:
    """The rows with the columns of :func:`unrack.workload.formats.slurm.times.times`, and their state.

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
