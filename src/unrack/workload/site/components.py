"""Heterogeneous jobs: rows of a table that are components of one job, which start and end together.

Their column ``het`` says the same, and they are submitted at the same time: of one number at two times, as numbers are
used again, are two jobs. Where a table has one component of a job alone, that is a job by itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from unrack.errors import InputError, RefusedError
from unrack.kernels.arrays import Ints
from unrack.workload.job import ESTIMATE, Job, JobTable

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
