"""Run a task in the simulator and keep its numbers: the metrics, and the counts that some figures show."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, get_args

import polars as pl

from unrack.cluster.presets import PRESETS
from unrack.cluster.spec import Cluster
from unrack.papers.call.floored import floored_means
from unrack.papers.execution import Task
from unrack.papers.reproduction import Contended, Numbers
from unrack.papers.zacarias.counts import jobs_with_memory
from unrack.sim.simulate import Result, simulate
from unrack.slowdown.contention.profile_file import read_profiles, synthetic_profiles
from unrack.slowdown.memory_settings import MemoryContention
from unrack.study.world import World
from unrack.units import SECOND_US
from unrack.workload.filters import jitter
from unrack.workload.generator import generate
from unrack.workload.ideal import window_us
from unrack.workload.job import Workload
from unrack.workload.readers import read_trace

OPENS_AT = 0.7
"""CPU load of the fat node at which measuring starts."""
JITTER_US = 30 * SECOND_US
"""How far the arrivals of a trace are moved at most, either way: the interval of the scheduler's rounds."""
WARM_JOBS = 40
"""Jobs of the run that comes before one whose time is taken, so that nothing is compiled within it."""


def simulated(task: Task) -> list[Numbers]:
    """The numbers of each row of a task; empty where the ideal CPU load never reaches ``OPENS_AT``."""
    workload = workload_of(task)
    window = None
    if task.ideal is not None:
        window = window_us(cluster_of(task.ideal), workload.jobs, OPENS_AT)
        if window is None or window[0] >= window[1]:
            return [{} for _ in task.rows]
    contended = contentions(task)
    if task.counts == "clock":
        few = generate({**task.workload, "jobs": WARM_JOBS, "large_share": 0}, task.seed)
        for row in task.rows:
            simulate(cluster_of(row.cluster), few, row.policy, contention=contended[row.contention])
    numbers = []
    for row in task.rows:
        here = row.world == World.STUDY
        began = time.perf_counter()
        result = simulate(
            cluster_of(row.cluster),
            workload,
            row.policy,
            models=list(task.models) if here else (),
            seed=task.seed,
            window_us=window,
            contention=contended[row.contention] if here else None,
        )
        took = time.perf_counter() - began
        values: Numbers = dict(result.metrics) | floored_means(result, window)
        if task.counts == "nodes":
            values |= jobs_on_nodes(result)
        elif task.counts == "rules":
            values |= jobs_by_rule(result)
        elif task.counts == "memory":
            values |= jobs_with_memory(result)
        elif task.counts == "clock":
            values |= {**jobs_with_memory(result), "wall_s": took}
        numbers.append(values)
    return numbers


def workload_of(task: Task) -> Workload:
    """The jobs of a task: drawn, or those of a trace; with seed 0 as they are, else with arrivals moved by the seed."""
    if "trace" in task.workload:
        return jitter(read_trace(task.workload["trace"]), JITTER_US if task.seed else 0, task.seed)
    return generate(dict(task.workload), task.seed)


def contentions(task: Task) -> dict[Contended, MemoryContention | None]:
    """The contention of each kind of world; none where the task has no profiles."""
    if task.profiles is None:
        return dict.fromkeys(get_args(Contended))
    profiles = read_profiles(task.profiles) if task.profiles else synthetic_profiles()
    return {
        "whole": MemoryContention(profiles),
        "share": MemoryContention(profiles, traffic="share"),
        "off": None,
    }


def cluster_of(name: str | Mapping[str, Any]) -> Cluster:
    """A preset by name, or a cluster from its keys."""
    if isinstance(name, str):
        return Cluster.from_dict({"name": name, **PRESETS[name].content}, "preset")
    return Cluster.from_dict(dict(name), "reproduction")


def jobs_on_nodes(result: Result) -> Numbers:
    """How many jobs of each class ran on each node, and how the classes spread.

    Returns
    -------
    dict
        ``node0.smufin`` …: jobs; ``busiest.smufin`` …: the share of the class that ran on the node which ran most of
        it; ``nodes.smufin`` …: on how many nodes at least 5 % of it ran; ``busiest``: the share of all jobs that ran on
        the node which ran most.
    """
    ran = result.jobs.select("job", "app").join(
        result.placements.select("job", pl.col("first_node").alias("node")).unique(), on="job"
    )
    counts = ran.group_by("app", "node").len().sort("app", "node")
    classes = [app for app in result.jobs["app"].unique().sort().to_list() if app is not None]
    values: Numbers = {f"node{node}.{app}": 0.0 for app in classes for node in range(len(result.log.cluster.cores))}
    for app, node, count in counts.iter_rows():
        values[f"node{node}.{app}"] = float(count)
    everywhere = counts.group_by("node").agg(pl.col("len").sum())["len"]
    values["busiest"] = float(everywhere.max() or 0) / float(everywhere.sum()) if len(everywhere) else None  # type: ignore[arg-type]
    for app in classes:
        own = counts.filter(pl.col("app") == app)["len"]
        total = float(own.sum())
        values[f"busiest.{app}"] = float(own.max() or 0) / total if total else None  # type: ignore[arg-type]
        values[f"nodes.{app}"] = float((own >= 0.05 * total).sum()) if total else None
    return values


def jobs_by_rule(result: Result) -> Numbers:
    """How many jobs each placement rule gave devices (``placed.max-composition`` …), and its share of them."""
    holds_devices = pl.any_horizontal([pl.col(name) > 0 for name in result.jobs.columns if name.startswith("nvme.")])
    placed = result.jobs.filter(holds_devices & pl.col("placed_by").is_not_null()).group_by("placed_by").len()
    total = float(placed["len"].sum())
    values: Numbers = {}
    for rule, count in placed.sort("placed_by").iter_rows():
        values[f"placed.{rule}"] = float(count)
        values[f"share.{rule}"] = count / total
    for rule in ("max-composition", "min-fragmentation"):
        values.setdefault(f"placed.{rule}", 0.0)
        values.setdefault(f"share.{rule}", 0.0 if total else None)
    return values
