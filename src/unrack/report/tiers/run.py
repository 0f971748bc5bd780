"""What a run on tiers of memory left behind, as the report's section on them reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.report.directory import RunFiles
from unrack.report.memory.map import Bands
from unrack.report.memory.run import MOST_BANDS

Ints = NDArray[np.int64]
_LOANS = {"start_s": pl.Float64, "end_s": pl.Float64, "node": pl.Int32, "lender": pl.Int32, "mb": pl.Int64}
_PLACEMENTS = ("start_s", "end_s", "first_node", "nodes", "memory_mb_per_node")


@dataclass(frozen=True)
class TierRun:
    """One run on tiers of memory.

    Attributes
    ----------
    run
        Its files.
    names
        Of the tiers.
    installed_mb
        Of each.
    steps
        Its table of tiers.
    tier : int64[nodes]
        Of each pool.
    pool_mb : int64[nodes]
        Installed in each.
    clusters
        Compute pool → what its cluster is called (of several, the first), in order of the clusters.
    """

    run: RunFiles
    names: tuple[str, ...]
    installed_mb: tuple[int, ...]
    steps: pl.DataFrame
    tier: Ints
    pool_mb: Ints
    clusters: dict[int, str]

    @property
    def bands(self) -> Bands:
        """(tier, first pool) of every run of pools of one tier; empty with more than ``MOST_BANDS``."""
        first = np.flatnonzero(np.diff(self.tier, prepend=-1)).tolist()
        return tuple((self.names[self.tier[node]], node) for node in first) if 1 < len(first) <= MOST_BANDS else ()


def read_tier_run(run: RunFiles) -> TierRun:
    """Read the table and the record of a run on a cluster with tiers."""
    kept: dict[str, Any] = run.record["cluster"]["tiers"]
    runs = np.array(kept["of_nodes"], np.int64).reshape(-1, 2)
    columns = run.record["cluster"]["columns"]
    clusters = dict[int, str]()
    for index, nodes in enumerate(kept["clusters"]):
        clusters.setdefault(int(nodes[0]), str((kept.get("cluster_names") or {index: index})[index]))
    return TierRun(
        run,
        tuple(map(str, kept["names"])),
        tuple(map(int, kept["installed_mb"])),
        run.frame("tiers"),
        np.repeat(runs[:, 1], runs[:, 0]),
        np.repeat(np.array(columns["memory_mb"], np.int64), columns["count"]),
        clusters,
    )


def memory_use(run: RunFiles) -> pl.DataFrame:
    """Who used how much of which pool, and when: one row a span and pool.

    Returns
    -------
    pl.DataFrame
        start_s, end_s, node (where the server ran), lender (the pool), mb.
    """
    there = (run.folder / "loans.parquet").is_file()
    loans = run.frame("loans", tuple(_LOANS)) if there else pl.DataFrame(schema=_LOANS)
    own = (
        run.frame("placements", _PLACEMENTS)
        .with_columns(
            pl.col("memory_mb_per_node").alias("mb"),
            pl.int_ranges("first_node", pl.col("first_node") + pl.col("nodes")).alias("node"),
        )
        .explode("node")
        .with_columns(pl.col("node").cast(pl.Int32).alias("lender"), pl.col("node").cast(pl.Int32))
    )
    return pl.concat([own.select(list(_LOANS)), loans.select(list(_LOANS))]).filter(pl.col("mb") > 0)
