"""What a run on pools left behind, as the report's pool section reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from unrack.cluster.pools.pool import Devices
from unrack.report.directory import RunFiles

_JOBS = ("job", "submit_s", "app", "priority", "missed", "placed_by", "state", "cores", "run_s")
_SHARES = ("job", "attempt", "start_s", "end_s", "kind", "node", "devices", "composition", "size", "parts")
_PLACEMENTS = ("job", "start_s", "end_s", "first_node", "nodes", "cores_per_node", "outcome")


def has_pools(run: RunFiles) -> bool:
    """Whether the run's cluster has pools, and it kept who held their devices."""
    return isinstance(run.record["cluster"].get("devices"), dict) and run.has("shares")


@dataclass(frozen=True)
class PoolRun:
    """One run on pools."""

    run: RunFiles  # its files
    # jobs, shares, placements: its tables, as far as they are read here; ``jobs`` has the jobs of the window only,
    # and the column ``class_`` (its application, ``"all"`` without one)
    jobs: pl.DataFrame
    shares: pl.DataFrame
    placements: pl.DataFrame
    # ``"nvme.bandwidth_mb_s"`` …: the columns of ``jobs`` that say what each job asks of devices
    demands: tuple[str, ...]
    window: tuple[float, float]  # (start, end) in s: which jobs count, and when; infinite where the run does not say

    @property
    def devices(self) -> Devices:
        """Those of its cluster."""
        return self.run.hardware.devices


def read_pool_run(run: RunFiles) -> PoolRun:
    """Read the tables of a run that :func:`has_pools`."""
    devices = run.hardware.devices
    asked = [f"{kind}.{q}" for kind, own in zip(devices.kinds, devices.quantities, strict=True) for q in own]
    jobs = run.frame("jobs", (*_JOBS, *asked))
    demands = tuple(name for name in asked if name in jobs.columns)
    absent = {"app": pl.String, "priority": pl.Int64, "missed": pl.Boolean, "placed_by": pl.String}
    jobs = jobs.with_columns(
        pl.lit(None, dtype).alias(name) for name, dtype in absent.items() if name not in jobs.columns
    )
    jobs = jobs.filter(pl.col("submit_s").is_between(*run.window)).with_columns(
        pl.col("app").cast(pl.String).fill_null("all").replace("", "all").alias("class_"),
        (pl.col("priority").fill_null(0) > 0).alias("high"),
    )
    placements = run.frame("placements", _PLACEMENTS).drop_nulls(["start_s", "end_s"])
    return PoolRun(run, jobs, run.frame("shares", _SHARES), placements, demands, run.window)


def kinds_of_all(runs: Mapping[str, Sequence[PoolRun]]) -> tuple[str, ...]:
    """Kinds of devices that any run of any policy has, in order of first appearance."""
    return tuple(dict.fromkeys(kind for own in runs.values() for run in own for kind in run.devices.kinds))
