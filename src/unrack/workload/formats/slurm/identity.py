"""Which job a line is about: numbers, members of arrays, components of heterogeneous jobs."""

from __future__ import annotations

import polars as pl

from unrack.slurm_text.job_ids import job_id
from unrack.workload.formats.intake import EXTRA, Tally
from unrack.workload.formats.slurm.listing import Listing
from unrack.workload.formats.slurm.parsing import Columns
from unrack.workload.formats.source import Locator
from unrack.workload.formats.unheeded import unheeded

NAMES = ("jobid", "jobidraw")
"""Columns with the name of the job, the better one first."""


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
