"""Countings over runs on pools: deadlines by class, sizes and sharing of compositions, jobs by node, work by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.pools.pool import Devices
from unrack.kernels.arrays import Floats
from unrack.report.setting import RunFiles
from unrack.steps import each_of, levels, spans

EVERY = "all jobs"
MOST_LEVEL = 12
"""Sizes and numbers of sharers from here on are one group."""

MOST_NODE_GROUPS = 20


class Deadlines(NamedTuple):
    """Jobs by what became of their deadline; the last two of the five are those of high priority."""

    missed: int = 0
    met: int = 0
    none: int = 0
    missed_high: int = 0
    met_high: int = 0

    @property
    def jobs(self) -> int:
        """All of them."""
        return sum(self)


def deadlines(runs: Iterable[PoolRun]) -> dict[str, Deadlines]:
    """Class → counts over all the runs; :data:`EVERY` first, then the classes with the most jobs, then by name.

    Jobs without a deadline count as ``none`` whatever their priority.
    """
    found: dict[str, Counter[str]] = {EVERY: Counter()}
    for run in runs:
        word = pl.when("missed").then(pl.lit("missed")).otherwise(pl.lit("met"))
        word += pl.when("high").then(pl.lit("_high")).otherwise(pl.lit(""))
        word = pl.when(pl.col("missed").is_null()).then(pl.lit("none")).otherwise(word)
        counts = run.jobs.group_by("class_", word.alias("word")).agg(pl.len())
        for own, name, jobs in counts.iter_rows():
            for place in (EVERY, own):
                found.setdefault(place, Counter())[name] += jobs
    ranked = sorted(found, key=lambda name: (name != EVERY, -found[name].total(), name))
    return {name: Deadlines(**found[name]) for name in ranked}


def composition_times(runs: Iterable[PoolRun], kind: str) -> tuple[Floats, Floats]:
    """For how long compositions of each size, and shared by each number of jobs, were in use in the window.

    float64[MOST_LEVEL + 1], twice: seconds of composition time by devices in the composition, and by jobs on it, summed
    over all compositions and runs; the last place is for :data:`MOST_LEVEL` and more, the first stays 0.
    """
    sizes, sharers = np.zeros(MOST_LEVEL + 1), np.zeros(MOST_LEVEL + 1)
    for run in runs:
        own = run.shares.filter(pl.col("kind") == kind)
        if own.is_empty():
            continue
        start, end = (np.clip(column, *run.window) for column in spans(own))
        life = own["composition"].cast(pl.Int64).to_numpy()
        which, when, level = levels(life, start, end)
        length = np.diff(when, append=when[-1:])
        used = level > 0  # after the last end of a composition the level is 0, so no length spans two of them
        devices = own.group_by("composition").agg(pl.col("devices").list.len().first()).sort("composition")
        size = devices["devices"].to_numpy()[np.searchsorted(devices["composition"].to_numpy(), which)]
        for total, value in ((sizes, size), (sharers, level)):
            total += np.bincount(np.minimum(value, MOST_LEVEL)[used], length[used], MOST_LEVEL + 1)
    return sizes, sharers


def node_groups(nodes: int) -> list[tuple[int, int]]:
    """(first, last) of at most :data:`MOST_NODE_GROUPS` groups of as many neighbouring nodes each."""
    each = -(-nodes // MOST_NODE_GROUPS)
    return [(first, min(first + each, nodes) - 1) for first in range(0, nodes, max(each, 1))]


def jobs_by_node(runs: Sequence[PoolRun], groups: Sequence[tuple[int, int]]) -> dict[str, list[float]]:
    """Class → jobs that ran to their end on the nodes of each group, averaged over the runs; classes by name.

    A job that holds several nodes counts on each of them; one with a changed lease, on those that it held last.
    """
    firsts = np.array([first for first, _ in groups])
    found: dict[str, Floats] = {}
    for run in runs:
        done = run.placements.filter(pl.col("outcome") == "finished")
        done = done.filter(pl.col("end_s") == pl.col("end_s").max().over("job"))
        done = done.with_columns(pl.col("job").cast(pl.String)).join(
            run.jobs.select(pl.col("job").cast(pl.String), "class_"), on="job", how="inner"
        )
        for (name,), own in done.group_by("class_"):
            first, count = (own[column].cast(pl.Int64).to_numpy() for column in ("first_node", "nodes"))
            group = np.searchsorted(firsts, each_of(first, count)[1], "right") - 1
            total = found.setdefault(str(name), np.zeros(len(groups)))
            total += np.bincount(group, minlength=len(groups)) / len(runs)
    return {name: found[name].tolist() for name in sorted(found)}


def work_by_rule(runs: Iterable[PoolRun], amount: str) -> dict[str, float]:
    """Placement rule → what the finished jobs that it placed asked of one thing, times how long they ran.

    ``amount``: a column of the jobs, ``"cores"``, ``"nvme.bandwidth_mb_s"`` … Jobs of no known rule are left out.
    """
    found: dict[str, float] = {}
    for run in runs:
        if amount not in run.jobs.columns:
            continue
        done = run.jobs.filter((pl.col("state") == "finished") & (pl.col("placed_by").fill_null("") != ""))
        work = done.group_by("placed_by").agg((pl.col(amount).fill_null(0) * pl.col("run_s")).sum().alias("work"))
        for rule, total in work.iter_rows():
            found[str(rule)] = found.get(str(rule), 0.0) + (total or 0.0)
    return {rule: found[rule] for rule in sorted(found)}


_JOBS = ("job", "submit_s", "app", "priority", "missed", "placed_by", "state", "cores", "run_s")
_SHARES = ("job", "attempt", "start_s", "end_s", "kind", "node", "devices", "composition", "size", "parts")
_PLACEMENTS = ("job", "start_s", "end_s", "first_node", "nodes", "cores_per_node", "outcome")


def has_pools(run: RunFiles) -> bool:
    """Whether the run's cluster has pools, and it kept which job held their devices."""
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
    jobs = run.jobs((*_JOBS, *asked))
    demands = tuple(name for name in asked if name in jobs.columns)
    absent = {"app": pl.String, "priority": pl.Int64, "missed": pl.Boolean, "placed_by": pl.String}
    jobs = jobs.with_columns(
        pl.lit(None, dtype).alias(name) for name, dtype in absent.items() if name not in jobs.columns
    )
    jobs = jobs.with_columns(
        pl.col("app").cast(pl.String).fill_null("all").replace("", "all").alias("class_"),
        (pl.col("priority").fill_null(0) > 0).alias("high"),
    )
    placements = run.frame("placements", _PLACEMENTS).drop_nulls(["start_s", "end_s"])
    return PoolRun(run, jobs, run.frame("shares", _SHARES), placements, demands, run.window)


def kinds_of_all(runs: Mapping[str, Sequence[PoolRun]]) -> tuple[str, ...]:
    """Kinds of devices that any run of any policy has, in order of first appearance."""
    return tuple(dict.fromkeys(kind for own in runs.values() for run in own for kind in run.devices.kinds))
