"""What a run that lends memory left behind, as the report's memory section reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from unrack.report.directory import RunFiles
from unrack.report.memory.map import Bands, Ints

MOST_BANDS = 12
_LOANS = {"start_s": pl.Float64, "end_s": pl.Float64, "node": pl.Int32, "lender": pl.Int32, "mb": pl.Int64}


@dataclass(frozen=True)
class MemoryRun:
    """One run and its memory.

    Attributes
    ----------
    run
        Its files.
    usage
        Columns time_s, memory_mb_held, memory_mb_lent of its table; nothing lent where the policy does not lend.
    loans
        Columns start_s, end_s, node, lender, mb of its table; empty where nothing was lent.
    installed : int64[nodes]
        MB of each node; 0 where it is not counted, or the run does not say.
    bands
        Of its classes of nodes; empty with one class, or beyond ``MOST_BANDS``.
    """

    run: RunFiles
    usage: pl.DataFrame
    loans: pl.DataFrame
    installed: Ints
    bands: Bands

    @property
    def total_mb(self) -> int | None:
        """Installed memory; ``None``: not counted."""
        amount = self.run.record["cluster"].get("memory_mb")
        return int(amount) if amount else None


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
    usage = usage.with_columns(
        pl.lit(0, pl.Int64).alias(name) for name in ("memory_mb_held", "memory_mb_lent") if name not in usage.columns
    )
    there = (run.folder / "loans.parquet").is_file()
    loans = run.frame("loans", tuple(_LOANS)) if there else pl.DataFrame(schema=_LOANS)
    nodes = max(int(run.record["cluster"].get("nodes") or 0), 1)
    columns = run.record["cluster"].get("columns") or {}
    installed, kind = np.zeros(nodes, np.int64), np.zeros(nodes, np.int64)
    if {"count", "memory_mb", "node_class"} <= set(columns) and sum(columns["count"]) == nodes:
        installed, kind = (
            np.repeat(np.array(columns[name], np.int64), columns["count"]) for name in ("memory_mb", "node_class")
        )
    names = [str(own.get("name")) for own in run.record["cluster"].get("classes") or () if isinstance(own, dict)]
    first = np.flatnonzero(np.diff(kind, prepend=-1)).tolist()
    bands = tuple((names[kind[node]] if kind[node] < len(names) else f"class{kind[node]}", node) for node in first)
    return MemoryRun(run, usage, loans, np.maximum(installed, 0), bands if 1 < len(bands) <= MOST_BANDS else ())
