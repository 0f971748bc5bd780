"""What the page shows of live runs: how long each step from submission to start took, and when ends were seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from unrack.live.slurm.history.columns import LATENCIES, LIVE
from unrack.report.charts.chart import MOST_POLICIES
from unrack.report.resource_section import ResourceSection
from unrack.report.setting import Setting
from unrack.resources.contract import Table

WORDS = (
    "A start is decided, then Slurm is told where (after the devices of the job are attached), then Slurm reports it. "
    "The job counts as holding its nodes from the decision to the moment in which all that it held was free again; "
    "waits and run times of live and simulated runs are counted so."
)
HEAD = ("policy", "step", "jobs", "median (s)", "90 % (s)", "longest (s)")


def live_section(settings: Sequence[Setting]) -> ResourceSection | None:
    """The section; ``None``: no run is a live one."""
    found = []
    for setting in settings:
        rows: list[tuple[str, ...]] = []
        for policy, runs in list(setting.runs.items())[:MOST_POLICIES]:
            if policy.startswith(LIVE):
                rows += _rows(policy, runs[0].frame("jobs"))
        if rows:
            found.append((setting.title, (Table("From submission to start", WORDS, HEAD, tuple(rows)),)))
    return ResourceSection("live", "Live", tuple(found)) if found else None


def _rows(policy: str, jobs: pl.DataFrame) -> list[tuple[str, ...]]:
    rows = []
    for column, words in LATENCIES.items():
        values = jobs[column].drop_nulls() if column in jobs.columns else pl.Series([], dtype=pl.Float64)
        if len(values):
            told = np.quantile(values.to_numpy(), (0.5, 0.9, 1.0)).tolist()
            rows.append((policy, words, f"{len(values):,}", *(f"{one:.2f}" for one in told)))
    return rows
