"""What a run that lends memory left behind, as the report's memory section reads it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.spec import UNCOUNTED_MB
from unrack.report.charts.node_map import Bands, Ints, bands_of
from unrack.report.directory import RunFiles


class MemoryRun(NamedTuple):
    """One run and its memory."""

    # columns time_s, memory_mb_held, memory_mb_lent of its table; nothing lent where the policy does not lend
    usage: pl.DataFrame
    loans: pl.DataFrame  # columns start_s, end_s, node, lender, mb of its table; empty where nothing was lent
    installed: Ints  # int64[nodes]: MB of each node; 0 where it is not counted
    bands: Bands  # of its classes of nodes
    total_mb: int | None  # installed memory; ``None``: not counted


def lends(run: RunFiles) -> bool:
    """Whether the run's policy lends memory of nodes; memory on tiers has a section of its own."""
    return "remote_share" in run.metrics and not has_tiers(run)


def has_tiers(run: RunFiles) -> bool:
    """Whether the run's cluster has tiers of memory."""
    return isinstance(run.record["cluster"].get("tiers"), dict)


def contention_note(run: RunFiles) -> str:
    """What the run says of the jobs that ran as another application; ``""``: nothing."""
    said = run.record.get("contention")
    note = said.get("note") if isinstance(said, dict) else said
    return note if isinstance(note, str) else ""


def read_memory_run(run: RunFiles) -> MemoryRun:
    """Read the tables of a run."""
    usage = run.frame("usage", ("time_s", "memory_mb_held", "memory_mb_lent"))
    if "memory_mb_lent" not in usage.columns:
        usage = usage.with_columns(pl.lit(0, pl.Int64).alias("memory_mb_lent"))
    cluster = run.hardware
    installed = np.where(cluster.memory_mb == UNCOUNTED_MB, 0, cluster.memory_mb)
    return MemoryRun(usage, run.loans(), installed, bands_of(cluster.node_class, cluster.class_names), run.total_mb)
