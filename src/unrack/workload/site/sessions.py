"""Jobs that are bound to each other in a table: by sessions, and as components of one job.

*Sessions.* With the filter ``sessions`` jobs come when the one before them has ended (a closed loop). In a log, jobs
come when they came, however long those before them had to wait: with a better scheduler users would have come earlier,
with a worse one later. With this filter a job that follows another comes so long after the end of that job as it did in
the log. Its ``submit_s`` is then that of the first of its session; ``eligible_s`` of the results says when it came:
policies see it as submitted then.

*Heterogeneous jobs* are rows of a table that are components of one job, which start and end together. Their column
``het`` says the same, and they are submitted at the same time: of one number at two times, as numbers are used again,
are two jobs. Where a table has one component of a job alone, that is a job by itself.

References
----------
Zakay and Feitelson: On identifying user session boundaries in parallel workload logs. JSSPP 2012: a job belongs to a
session if its user submits it within 20 min after the end of his last job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl

from unrack.errors import InputError, RefusedError
from unrack.kernels.arrays import Ints
from unrack.resources.checked import Strict, Time
from unrack.units import SECOND_US
from unrack.workload.job import ESTIMATE, Job, JobTable, Workload
from unrack.workload.resample import recorded
from unrack.workload.under_way import order_of

SESSION_US = 20 * 60 * SECOND_US
NONE = -1


class SessionsTable(Strict):
    """The value of ``sessions``."""

    # ``"log"``: what the log says (fields 17 and 18 of the Standard Workload Format); ``"users"``: a user's next job,
    # if it came within ``think`` after the end of the last
    by: Literal["log", "users"] = "log"
    think: Time = SESSION_US


def sessions(workload: Workload, value: Any, seed: int = 0) -> Workload:
    """Let jobs follow each other.

    An InputError if the value is wrong, or the log does not say which job follows which, or when jobs started.
    """
    table = SessionsTable.read({"by": value} if isinstance(value, str) else value, "filter sessions, ")
    jobs = workload.jobs
    if not len(jobs):
        return workload
    first, think_us = _said(jobs) if table.by == "log" else _by_user(jobs, table.think)
    follows = first != NONE
    submit = jobs.submit_us.copy()
    for job in np.flatnonzero(follows).tolist():  # jobs are in order of submission: those before have moved
        submit[job] = submit[first[job]]
    names = jobs.ids.cast(pl.String).gather(np.where(follows, first, 0)).set(~pl.Series(follows), None)
    think = pl.Series("think_s", think_us / SECOND_US).set(~pl.Series(follows), None)
    columns = [names.alias("follows"), think]
    extra = jobs.extra.with_columns(columns) if jobs.extra.width else pl.DataFrame(columns)
    moved = replace(jobs, submit_us=submit, extra=extra)
    words = f"{int(follows.sum())} jobs come after the end of another, by {table.by}"
    return recorded(workload, moved.take(order_of(moved)), words, changed={"arrivals by sessions": int(follows.sum())})


def _said(jobs: JobTable) -> tuple[Ints, Ints]:
    """Which job each follows, and how much later (µs), as the log says."""
    if not {"preceding", "think_s"} <= set(jobs.extra.columns) or jobs.extra["preceding"].null_count() == len(jobs):
        got = "a log that does not say which job precedes another, and the time to think"
        raise InputError("filter sessions", got, "one that does, or sessions = 'users'")
    number = {name: i for i, name in enumerate(jobs.ids.cast(pl.String).to_list())}
    first, think_us = np.full(len(jobs), NONE, np.int64), np.zeros(len(jobs), np.int64)
    thinks = jobs.extra["think_s"].cast(pl.Float64).to_list()
    for job, name in enumerate(jobs.extra["preceding"].cast(pl.String).to_list()):
        before, think = number.get(name or "", NONE), thinks[job]
        if 0 <= before < job and think is not None and think >= 0:
            first[job], think_us[job] = before, round(think * SECOND_US)
    return first, think_us


def _by_user(jobs: JobTable, most_us: int) -> tuple[Ints, Ints]:
    """The last job of each one's user, if that had ended, and at most so long ago (µs)."""
    known = [name for name in ("start_s", "log_wait_s") if name in jobs.extra.columns]
    if not known or bool((jobs.user < 0).all()):
        got = "a log without users" if known else "a log that does not say when jobs started"
        raise InputError("filter sessions", got, "users, and start_s or log_wait_s of jobs")
    said = jobs.extra[known[0]].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy() * SECOND_US
    end_us = (said if known[0] == "start_s" else said + jobs.submit_us) + jobs.work_us
    first, think_us = np.full(len(jobs), NONE, np.int64), np.zeros(len(jobs), np.int64)
    last: dict[int, int] = {}
    for job, user in enumerate(jobs.user.tolist()):
        if user >= 0:
            if user in last and 0 <= (since := jobs.submit_us[job] - end_us[last[user]]) <= most_us:
                first[job], think_us[job] = last[user], int(since)
            last[user] = job
    return first, think_us


HET = "het"
NOTHING = ("", "0", "-1", "(null)", "None", "N/A")
"""What the column says of jobs that are no component."""
Components = dict[int, tuple[int, ...]]
"""The first component of each heterogeneous job → all of them, itself included, by their places in the table."""


def components_of(jobs: JobTable) -> Components:
    """The heterogeneous jobs of a table, those that run already when the run begins left out.

    An InputError if components of one job are of several users, run in several reservations, or say how they use their
    memory.
    """
    if HET not in jobs.extra.columns:
        return {}
    said = jobs.extra[HET].cast(pl.String).str.strip_chars()
    rows = pl.DataFrame([said.alias(HET), pl.Series("at", jobs.submit_us)]).with_row_index("row")
    if jobs.under_way is not None:
        rows = rows.filter(~pl.Series(jobs.under_way.runs))
    rows = rows.filter(pl.col(HET).is_not_null() & ~pl.col(HET).is_in(NOTHING))
    grouped = rows.group_by([HET, "at"], maintain_order=True).agg("row").filter(pl.col("row").list.len() > 1)
    found = {some[0]: tuple(some) for some in grouped["row"].to_list()}
    for some in found.values():
        _check(jobs, list(some))
    return found


def _check(jobs: JobTable, rows: list[int]) -> None:
    where = f"job {jobs.ids[rows[0]]}, {HET}"
    if len(set(jobs.user[rows].tolist())) > 1:
        users = [jobs.user_names[user] if user >= 0 else "no user" for user in jobs.user[rows].tolist()]
        raise InputError(where, f"components of {' and '.join(dict.fromkeys(users))}", "components of one user")
    if "reservation" in jobs.extra.columns and len(set(jobs.extra["reservation"][rows].to_list())) > 1:
        raise InputError(where, "components in several reservations", "components in one reservation, or in none")
    if jobs.usage is not None:
        raise InputError(where, "components, and what tasks use of their memory", "one or the other")


def first_of(jobs: JobTable) -> Ints:
    """int64[jobs]: the first component of the job that each is of; of others themselves."""
    found = np.arange(len(jobs))
    for first, rows in components_of(jobs).items():
        found[list(rows)] = first
    return found


def alike(job: Job) -> tuple[Job, ...]:
    """A new job, and its other components, all of which ask to run as long as the longest.

    A RefusedError if they are of several users, or in several reservations.
    """
    if not job.components:
        return (job,)
    for what, of in (("users", {one.user for one in job.every}), ("reservations", set(map(_reservation, job.every)))):
        if len(of) > 1:
            raise RefusedError(f"submit job {job.id}: its components are of {len(of)} {what}")
    longest_us = max(one.request_us for one in job.every)
    return tuple(replace(one, request_us=longest_us) for one in job.every)


def _reservation(job: Job) -> str:
    return job.said.get("reservation", "")


def as_long_as_the_longest(jobs: JobTable) -> JobTable:
    """The jobs, of which components run, and ask to run, for as long as the longest of their job."""
    found = components_of(jobs)
    if not found:
        return jobs
    work_us, asks = jobs.work_us.copy(), jobs.asks.copy()
    for some in map(list, found.values()):
        work_us[some], asks[ESTIMATE, some] = work_us[some].max(), asks[ESTIMATE, some].max()
    return replace(jobs, work_us=work_us, asks=asks)
