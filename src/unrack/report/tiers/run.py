"""What a run on tiers of memory left behind, as the report's section on them reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from unrack.cluster.tiers.tier import installed_mb, names_of_clusters
from unrack.kernels.arrays import Ints
from unrack.report.charts.node_map import Bands, bands_of
from unrack.report.directory import RunFiles


@dataclass(frozen=True)
class TierRun:
    """One run on tiers of memory."""

    run: RunFiles

    @cached_property
    def installed(self) -> dict[str, int]:
        """Tier → MB."""
        return installed_mb(self.run.hardware)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the tiers."""
        return tuple(self.installed)

    @cached_property
    def steps(self) -> pl.DataFrame:
        """Its table of tiers."""
        return self.run.frame("tiers")

    @property
    def tier(self) -> Ints:
        """int64[nodes]: of each pool."""
        tiers = self.run.hardware.tiers
        assert tiers is not None
        return tiers.tier

    @property
    def bands(self) -> Bands:
        """(tier, first pool) of every run of pools of one tier."""
        return bands_of(self.tier, self.names)

    @property
    def clusters(self) -> dict[int, str]:
        """Compute pool → what its cluster is called (of several, the first), in order of the clusters."""
        tiers, names = self.run.hardware.tiers, names_of_clusters(self.run.hardware)
        assert tiers is not None
        found: dict[int, str] = {}
        for pool, name in zip(tiers.member[tiers.first[:-1]].tolist(), names, strict=True):
            found.setdefault(pool, str(name))
        return found

    def window(self) -> tuple[float, float]:
        """The window of measurement, as far as anything happened in it, s."""
        start, end = float(self.steps["time_s"][0]), float(self.steps["time_s"][-1])
        low, high = self.run.window
        inside = max(start, low), min(end, high)
        return inside if inside[1] > inside[0] else (start, end)

    def memory_use(self) -> pl.DataFrame:
        """Who used how much of which pool, and when: one row a span and pool.

        Columns: start_s, end_s, node (where the server ran), lender (the pool), mb.
        """
        loans = self.run.loans()
        columns = ("start_s", "end_s", "first_node", "nodes", "memory_mb_per_node")
        nodes = pl.int_ranges("first_node", pl.col("first_node") + pl.col("nodes")).alias("node")
        own = self.run.frame("placements", columns).with_columns(pl.col("memory_mb_per_node").alias("mb"), nodes)
        own = own.explode("node").with_columns(pl.col("node").cast(pl.Int32))
        own = own.with_columns(pl.col("node").alias("lender")).select(loans.columns)
        return pl.concat([own, loans]).filter(pl.col("mb") > 0)
