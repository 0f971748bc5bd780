"""When a job was submitted, started and ended, and how long it asked to run."""

from __future__ import annotations

import polars as pl

from unrack.workload.formats.intake import EXTRA
from unrack.workload.formats.slurm.parsing import Columns


def times(columns: Columns, arrival: str) -> pl.DataFrame:
    """``submit_us``, ``start_us``, ``work_us`` (so long it ran), ``request_us`` (null: no limit), ``deadline_us``.

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
        submit = _coalesce(columns.moment_us("eligible"), submit)
    run = _coalesce(columns.seconds_us("elapsedraw"), columns.span_us("elapsed"), end - start)
    wait_s = (start - submit) / 1e6
    return pl.DataFrame([
        submit.alias("submit_us"),
        start.alias("start_us"),
        run.alias("work_us"),
        _coalesce(columns.span_us("timelimitraw"), columns.span_us("timelimit")).alias("request_us"),
        columns.moment_us("deadline").alias("deadline_us"),
        wait_s.set((wait_s < 0).fill_null(False), None).alias(f"{EXTRA}log_wait_s"),
    ])  # fmt: skip


def _coalesce(*series: pl.Series) -> pl.Series:
    return pl.select(pl.coalesce(*series)).to_series()
