"""Who was served: the part of the work asked for that ran to its end."""

from __future__ import annotations

import polars as pl


def served(jobs: pl.DataFrame) -> float | None:
    """Core-time of the jobs that ran to their end over the core-time that all asked for, 0 to 1; ``None`` without jobs.

    The core-time of a job is tasks × cores of a task × work, what it asked for and not what it held: a larger lease, a
    slower run or an attempt that was lost changes nothing. Jobs that were rejected, still wait or never ended count in
    the denominator alone. Where no job asks for any core-time (no cores, or no work), jobs are counted instead.

    Examples
    --------
    >>> jobs = {"tasks": [2, 1], "cores_per_task": [4, 8], "work_s": [30.0, 10.0], "state": ["finished", "rejected"]}
    >>> served(pl.DataFrame(jobs))
    0.75
    """
    if jobs.height == 0:
        return None
    done = (jobs["state"] == "finished").cast(pl.Float64)
    asked = (jobs["tasks"] * jobs["cores_per_task"]).cast(pl.Float64) * jobs["work_s"].cast(pl.Float64)
    total = float(asked.sum())
    if total > 0:
        return float((asked * done).sum()) / total
    return float(done.sum()) / jobs.height
