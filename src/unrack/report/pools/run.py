"""What a run on pools left behind, as the report's pool section reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.report.charts.gantt import node_cores
from unrack.report.directory import RunFiles

_JOBS = ("job", "submit_s", "app", "priority", "missed", "placed_by", "state", "cores", "cores_per_task", "run_s")
_SHARES = ("job", "attempt", "start_s", "end_s", "kind", "node", "devices", "composition", "size", "parts")
_PLACEMENTS = ("job", "start_s", "end_s", "first_node", "nodes", "cores_per_node", "outcome")


@dataclass(frozen=True)
class PoolOf:
    """One pool.

    Attributes
    ----------
    name, kind
        Its name; what its devices are.
    first, count
        Its devices are ``first … first + count - 1``.
    reach
        bool[nodes]: which nodes may attach them; ``None``: the run does not say.
    """

    name: str
    kind: str
    first: int
    count: int
    reach: NDArray[np.bool_] | None


def pools_of(run: RunFiles) -> tuple[PoolOf, ...]:
    """The pools of a run's cluster, in order of their devices; none where it has none or left no shares."""
    devices = run.record["cluster"].get("devices")
    if not isinstance(devices, dict) or not (run.folder / "shares.parquet").is_file():
        return ()
    nodes = int(run.record["cluster"].get("nodes") or 0)
    found = [
        PoolOf(
            str(pool.get("name") or pool.get("kind")), str(pool.get("kind")), int(pool.get("first", 0)),
            int(pool.get("count", 0)), _reach(pool.get("reach", pool.get("nodes_reached")), nodes),
        )
        for pool in devices.get("pools") or ()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda pool: pool.first))


def _reach(said: object, nodes: int) -> NDArray[np.bool_] | None:
    """A run says which nodes reach a pool, or only how many: that is enough where all do."""
    reach = np.zeros(nodes, np.bool_)
    if isinstance(said, list) and all(isinstance(node, int) and 0 <= node < nodes for node in said):
        reach[said] = True
        return reach
    return ~reach if said == nodes else None


def kinds_of(pools: Sequence[PoolOf]) -> tuple[str, ...]:
    """Kinds of devices, in order of first appearance."""
    return tuple(dict.fromkeys(pool.kind for pool in pools))


@dataclass(frozen=True)
class PoolRun:
    """One run on pools.

    Attributes
    ----------
    run
        Its files.
    pools
        Of its cluster; one or more.
    jobs, shares, placements
        Its tables, as far as they are read here; ``jobs`` has the jobs of the window only, and the column
        ``class_`` (its application, ``"all"`` without one).
    demands
        ``"nvme.bandwidth_mb_s"`` …: the columns of ``jobs`` that say what each job asks of devices.
    window
        (start, end) in s: which jobs count, and when; infinite where the run does not say.
    least
        Kind → the fewest cores that a task of any job with a demand for it asks for.
    """

    run: RunFiles
    pools: tuple[PoolOf, ...]
    jobs: pl.DataFrame
    shares: pl.DataFrame
    placements: pl.DataFrame
    demands: tuple[str, ...]
    window: tuple[float, float]
    least: dict[str, int]


def read_pool_run(run: RunFiles) -> PoolRun:
    """Read the tables of a run whose :func:`pools_of` are not empty."""
    kinds: dict[str, Any] = run.record["cluster"]["devices"]
    asked = [
        f"{kind}.{name}"
        for kind, names in zip(kinds.get("kinds") or (), kinds.get("quantities") or (), strict=False)
        for name in names
    ]
    jobs = run.frame("jobs", (*_JOBS, *asked))
    absent = {
        "app": pl.String, "priority": pl.Int64, "missed": pl.Boolean, "placed_by": pl.String,
    }  # fmt: skip
    jobs = jobs.with_columns(
        pl.lit(None, dtype).alias(name) for name, dtype in absent.items() if name not in jobs.columns
    )
    least: dict[str, int] = {}
    for kind in kinds.get("kinds") or ():
        own = [name for name in asked if name.startswith(f"{kind}.") and name in jobs.columns]
        if own and "cores_per_task" in jobs.columns:
            asking = jobs.filter(pl.any_horizontal(pl.col(name) > 0 for name in own))["cores_per_task"]
            least |= {kind: int(asking.min())} if len(asking) else {}  # type: ignore[arg-type]  # of integers
    low, high = run.metrics.get("window_start_s"), run.metrics.get("window_end_s")
    low = -math.inf if low is None else low
    high = math.inf if high is None else high
    jobs = jobs.filter(pl.col("submit_s").is_between(low, high)).with_columns(
        pl.col("app").cast(pl.String).fill_null("all").replace("", "all").alias("class_"),
        (pl.col("priority").fill_null(0) > 0).alias("high"),
    )
    placements = run.frame("placements", _PLACEMENTS).drop_nulls(["start_s", "end_s"])
    demands = tuple(name for name in asked if name in jobs.columns)
    return PoolRun(run, pools_of(run), jobs, run.frame("shares", _SHARES), placements, demands, (low, high), least)


def kinds_of_all(runs: Mapping[str, Sequence[PoolRun]]) -> tuple[str, ...]:
    """Kinds of devices that any run of any policy has, in order of first appearance."""
    return tuple(dict.fromkeys(kind for own in runs.values() for run in own for kind in kinds_of(run.pools)))


def cores_of(run: PoolRun) -> NDArray[np.int64]:
    """int64[nodes]: cores of each node."""
    return node_cores(run.run, max(int(run.run.record["cluster"].get("nodes") or 0), 1))


def capacity_of(run: PoolRun, demand: str) -> NDArray[np.int64] | None:
    """int64[devices]: how much of ``KIND.QUANTITY`` each device has, 0 on other kinds; ``None``: it is not said."""
    devices = run.run.record["cluster"]["devices"]
    kind, _, name = demand.partition(".")
    names = dict(zip(devices["kinds"], devices["quantities"], strict=True)).get(kind, [])
    capacity = np.zeros(max(pool.first + pool.count for pool in run.pools), np.int64)
    for pool in devices["pools"]:
        if pool["kind"] == kind:
            if name not in names or not isinstance(pool.get("capacity"), list):
                return None
            capacity[pool["first"] : pool["first"] + pool["count"]] = pool["capacity"][names.index(name)]
    return capacity
