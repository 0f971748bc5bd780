"""Columns that say where and when jobs may run, after which others, for which user: one name each in every format."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from unrack.workload.formats.quantities import typed

TEXT, WHOLE, TIME = "text", "whole number", "s"
NOTHING = frozenset(
    {"", "-", "na", "n/a", "nan", "none", "null", "(null)", "nil", "false", "no", "unknown", "[]", "{}", "-1", "-2"}
)
"""Words that ask for nothing, in small letters."""


class Column(NamedTuple):
    """A column of :attr:`unrack.workload.job.JobTable.extra`."""

    rule: str = ""  # the rule that counts the jobs that have it; ``""``: it is honoured everywhere
    kind: str = TEXT  # of its entries; text that is all whole numbers is kept as these
    names: str = ""  # what else the header of a table may call it
    sparse: bool = True  # most jobs have none


COLUMNS: dict[str, Column] = {
    "partition": Column("queue asked for", sparse=False),
    "queue": Column("queue asked for", sparse=False),
    "account": Column(sparse=False),
    "qos": Column("quality of service asked for", sparse=False),
    "constraint": Column("place asked for", names="constraints feature features node_constraint"),
    "req_nodes": Column("place asked for", names="req_node_list reqnodelist required_nodes"),
    "exc_nodes": Column("place asked for", names="exc_node_list excnodelist excluded_nodes exclude_nodes"),
    "reservation": Column("reservation ignored", names="resvname resv_name"),
    "dependency": Column(
        names="after depends_on dependson depends depend dependencies predecessor predecessors parent parents "
        "parent_job parentjob parent_id parentid wait_for waitfor"
    ),
    "begin_s": Column(kind=TIME, names="not_before notbefore earliest_start"),
    "array": Column(names="array_id array_job_id"),
    "array_limit": Column(kind=WHOLE, names="array_task_throttle"),
    "het": Column("components missing", names="het_job_id"),
    "job_name": Column(names="jobname", sparse=False),
    "nice": Column("rank ignored", WHOLE),
    "preceding": Column(names="preceding_job precedingjob"),
    "time_min_s": Column(kind=TIME, names="mintime"),
    "think_s": Column(kind=TIME, names="think_time thinktime"),
    "sizes": Column(names="task_sizes"),
    "min_tasks": Column(kind=WHOLE),
    "max_tasks": Column(kind=WHOLE),
    "speedup": Column(names="speed_up"),
    "flexibility": Column(),
    "change_s": Column(kind=TIME, names="resize_s"),
    "evolves": Column(),
}
"""Name → what it is. Times are on the clock of the workload; ``think_s`` counts from the end of ``preceding``."""


def tidied(name: str, values: pl.Series) -> pl.Series:
    """A column of :data:`COLUMNS` as it is kept; null = nothing is asked."""
    column = COLUMNS[name]
    if column.kind == TIME:
        return values.cast(pl.Float64, strict=False)
    if column.kind == WHOLE:
        number = values.cast(pl.Int64, strict=False)
        return number.set((number == 0).fill_null(False), None)
    text = values.cast(pl.String).str.strip_chars()
    text = text.set(text.str.to_lowercase().is_in(list(NOTHING)).fill_null(False), None)
    return text if name == "dependency" else typed(text)
