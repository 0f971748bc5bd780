"""What a run whose workload says what jobs use left behind, as the report's section on memory in use reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from unrack.plots.series import Floats
from unrack.report.directory import RunFiles

AMOUNTS = ("used_mb", "held_mb", "asked_mb")
"""Columns of the table ``memory``, but for the time."""

_JOBS = (
    "job", "user", "state", "tasks", "memory_mb", "peak_mb_per_task", "memory_grown_mb", "memory_shrunk_mb",
    "memory_stops", "node_s_lost", "node_s_blocked", "restarts",
)  # fmt: skip


@dataclass(frozen=True)
class UseRun:
    """One run and the memory that its jobs used."""

    times: Floats  # float64[rows]: when use was looked at, s; the last is when the run ended
    # A column of ``AMOUNTS`` → float64[rows]: MB from each time until the next. Nothing is in use at the end, and
    # nobody uses more than is held: jobs that stand still for lack of memory need more than they use.
    amounts: dict[str, Floats]
    stops: pl.DataFrame  # columns time_s and job of the attempts that were stopped for lack of memory, in order
    jobs: pl.DataFrame  # those columns of its table of jobs that tell of memory
    total_mb: int | None  # installed memory; ``None``: not counted


def knows_use(run: RunFiles) -> bool:
    """Whether the run's workload says what jobs use."""
    return "memory_used" in run.metrics


def span_of(run: RunFiles) -> tuple[float, float] | None:
    """From when until when the run lasted, s; ``None``: nothing happened."""
    times = run.frame("usage", ("time_s",))["time_s"]
    return (float(times[0]), float(times[-1])) if len(times) else None


def read_use_run(run: RunFiles) -> UseRun:
    """Read the tables of a run."""
    steps = run.frame("memory", ("time_s", *AMOUNTS))
    times, span = steps["time_s"].cast(pl.Float64).to_numpy(), span_of(run)
    amounts = {name: np.append(steps[name].cast(pl.Float64).to_numpy(), 0.0) for name in AMOUNTS}
    end = max([*times[-1:].tolist(), *([] if span is None else [span[1]])], default=0.0)
    placements = run.frame("placements", ("job", "attempt", "end_s", "outcome"))
    stops = (
        placements.filter(pl.col("outcome") == "out-of-memory")
        .group_by("job", "attempt", maintain_order=True)
        .agg(pl.col("end_s").max().alias("time_s"))
        .sort("time_s", "job")
        .select("time_s", "job")
    )
    return UseRun(np.append(times, end), amounts, stops, run.frame("jobs", _JOBS), run.total_mb)
