"""What the steps of a job used of memory: the most that one of them had on a node."""

from __future__ import annotations

import polars as pl

from unrack.workload.formats.quantities import MOST_MB
from unrack.workload.formats.slurm.parsing import Columns


def used_mb(steps: Columns, jobs: Columns, name: str) -> pl.Series | None:
    """Int64: MB on a node of each job, of its step that used most; ``None`` where the list has no MaxRSS.

    MaxRSS is of the largest task of a step; where the list says how many tasks the step had on a node, it counts so
    often.

    Parameters
    ----------
    steps, jobs
        The lines of steps and of jobs; jobs may have a MaxRSS of their own.
    name
        The column with the name of the job; of a step, what stands before the dot is.

    Raises
    ------
    TraceError
        A field is not what it should be.
    """
    if "maxrss" not in jobs:
        return None
    both = pl.concat([
        pl.DataFrame({"job": one.text(name).str.split(".").list.first(), "mb": _on_a_node(one)})
        for one in (steps, jobs)
    ])  # fmt: skip
    most = both.drop_nulls().group_by("job").agg(pl.col("mb").max())
    return jobs.text(name).replace_strict(most["job"], most["mb"], default=None, return_dtype=pl.Int64)


def _on_a_node(columns: Columns) -> pl.Series:
    said = {entry: one.mb or None for entry, one in columns.memories("maxrss", "K").items() if one is not None}
    largest = columns.looked_up("maxrss", said, pl.Int64)
    tasks, nodes = columns.whole("ntasks").fill_null(1), columns.whole("nnodes").fill_null(1)
    on_a_node = (tasks + nodes - 1) // nodes
    return largest.clip(upper_bound=MOST_MB) * on_a_node.clip(upper_bound=2**20)
