"""When a job was submitted, started and ended, and how long it asked to run."""

from __future__ import annotations

import polars as pl

from unrack.slurm_text.times import ENDLESS
from unrack.workload.formats.intake import EXTRA
from unrack.workload.formats.slurm.parsing import Columns

LIMITS = ("timelimitraw", "timelimit")
"""Columns with the time limit."""


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
        submit = _coalesce(columns.moment_us("eligible"), submit)
    run = _coalesce(columns.seconds_us("elapsedraw"), columns.span_us("elapsed"), end - start)
    words = [columns.text(name).str.to_lowercase().is_in([*ENDLESS, "partition_limit"]) for name in LIMITS]
    wait_s = (start - submit) / 1e6
    return pl.DataFrame([
        submit.alias("submit_us"),
        start.alias("start_us"),
        run.alias("work_us"),
        _coalesce(*map(columns.span_us, LIMITS)).alias("request_us"),
        (words[0].fill_null(False) | words[1].fill_null(False)).alias("endless"),
        columns.moment_us("deadline").alias("deadline_us"),
        wait_s.set((wait_s < 0).fill_null(False), None).alias(f"{EXTRA}log_wait_s"),
    ])  # fmt: skip


def _coalesce(*series: pl.Series) -> pl.Series:
    return pl.select(pl.coalesce(*series)).to_series()
