"""Fragmentation over the time of a run, by hand and against a plain twin, and what the report shows of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from plain_gpus import cluster_of, fleet_of, gpu_jobs, run

from unrack.resources.gpus.fragmentation import FragmentationSteps, fragmentation_steps, usual_demands
from unrack.resources.gpus.resource import GpuResource, lanes
from unrack.resources.use import Kept
from unrack.sim.result import Result


def steps_of(result: Result, fleet: Any, start_s: float, end_s: float) -> FragmentationSteps:
    found = fragmentation_steps(fleet, result.table("claims"), result.jobs, result.placements, start_s, end_s)
    assert found is not None
    return found


def at(steps: FragmentationSteps, time_s: float) -> float:
    return float(steps.gpus[np.searchsorted(steps.times_s, time_s, "right") - 1])


def test_one_machine_by_hand() -> None:
    """Four GPUs; a job on one of them for 10 s, then one on all: while the first runs, half the tasks can use none."""
    jobs = gpu_jobs({"count": 1, "work": 10}, {"count": 4, "work": 10})
    result = run(cluster_of({"machine": {"gpus": 4}}), jobs, "fcfs")
    steps = steps_of(result, fleet_of({"machine": {"gpus": 4}}), 0.0, 20.0)
    assert at(steps, 5) == pytest.approx(1.5)  # three free: all of use to the one, none to the other
    assert at(steps, 15) == 0
    assert result.metrics["fragmented_gpus"] == pytest.approx(1.5 * 10 / (4 * 20))
    assert result.metrics["used_gpus"] == pytest.approx((10 + 40) / (4 * 20))


def test_gpus_without_cores_are_of_no_use() -> None:
    """A job without GPUs holds all cores for 10 s."""
    jobs = gpu_jobs({"cores": 8, "work": 10}, *[{"count": 1, "work": 10, "submit": 1}] * 3)
    result = run(cluster_of({"machine": {"gpus": 4}}, cores=8), jobs, "fcfs")
    steps = steps_of(result, fleet_of({"machine": {"gpus": 4}}, cores=8), 0.0, 20.0)
    assert at(steps, 5) == pytest.approx(4)
    assert at(steps, 15) == pytest.approx(1 / 4)  # one is free, and of no use to who asks for none


def test_without_jobs_that_ask_for_gpus_there_is_nothing_to_say() -> None:
    result = run(cluster_of({"machine": {"gpus": 4}}), gpu_jobs({"work": 10}), "fcfs")
    assert result.metrics["fragmented_gpus"] is None


def test_slices_are_left_out_and_who_asks_for_them_uses_no_whole_gpu() -> None:
    table = [{"machine": {"gpus": 2}, "nodes": "0"}, {"machine": {"gpus": 1, "slices": 8}, "nodes": "1"}]
    jobs = gpu_jobs({"count": 1, "work": 10}, {"slices": 2, "work": 10})
    result = run(cluster_of(table, 2), jobs, "fcfs")
    assert at(steps_of(result, fleet_of(table, 2), 0.0, 10.0), 5) == pytest.approx(0.5)
    assert result.metrics["fragmented_gpus"] == pytest.approx(0.5 / 2)


def plain(result: Result, sizes: list[int], cores: int, time_s: float) -> float:
    """F at a moment, from the tables and the formula."""
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for job in result.jobs.fill_null(0).iter_rows(named=True):
        if job["state"] != "rejected":
            milli = job["gpus.milli"]
            gpus = max(job["gpus.count"], int(milli > 0))
            counts[job["cores_per_task"], job["memory_mb_per_task"], gpus, milli or 1000] += job["tasks"]
    order, kept = sorted(counts.items(), key=lambda one: (-one[1], one[0])), []
    while sum(count for _, count in kept) < 0.95 * counts.total():
        kept.append(order[len(kept)])
    runs = (pl.col("start_s") <= time_s) & (pl.col("end_s") > time_s)
    lost = 0.0
    for node, size in enumerate(sizes):
        left = [1000] * size
        for place, amount in result.table("claims").filter(runs).select("place", "amount").rows():
            if place.startswith(f"node{node}/"):
                left[int(place.split("gpu")[1])] -= amount
        here = (pl.col("first_node") <= node) & (pl.col("first_node") + pl.col("nodes") > node)
        free = cores - int(result.placements.filter(runs & here)["cores_per_node"].sum())
        for (asked, _, gpus, milli), count in kept:
            fit = [part for part in left if part >= milli]
            none = gpus == 0 or asked > free or len(fit) < gpus
            lost += count * (sum(left) - (0 if none else sum(fit)))
    return lost / 1000 / sum(count for _, count in kept)


@pytest.mark.long
@pytest.mark.parametrize("policy", ["easy(gpus=fgd)", "easy(gpus=worst-fit)", "easy(gpus=random)"])
def test_every_moment_is_the_formula(policy: str) -> None:
    random = np.random.default_rng(7)
    rows = []
    for _ in range(60):
        ask = [{"count": int(random.integers(1, 5))}, {"milli": int(random.integers(1, 10)) * 100}, {}]
        rows.append({"submit": int(random.integers(0, 200)), "work": int(random.integers(5, 60)),
                     "cores": int(random.integers(1, 9)), **ask[int(random.integers(3))]})  # fmt: skip
    rows.sort(key=lambda row: row["submit"])
    table = [{"machine": {"gpus": 4}, "nodes": "0-1"}, {"machine": {"gpus": 2}, "nodes": "2"}]
    result = run(cluster_of(table, 4, cores=12), gpu_jobs(*rows), policy)
    end = float(result.jobs["end_s"].max())  # type: ignore[arg-type]  # a float
    begin = float(result.jobs["submit_s"].min())  # type: ignore[arg-type]  # a float
    steps = steps_of(result, fleet_of(table, 4, cores=12), begin, end)
    moments = np.arange(np.ceil(begin), end) + 0.5
    expected = [plain(result, [4, 4, 2, 0], 12, moment) for moment in moments.tolist()]
    assert [at(steps, moment) for moment in moments.tolist()] == pytest.approx(expected)
    assert max(expected) > min(expected) >= 0
    assert result.metrics["fragmented_gpus"] == pytest.approx(np.mean(expected) / 10)


def test_means_over_pieces_keep_the_area() -> None:
    steps = FragmentationSteps(np.array([0.0, 1.0, 1.0, 4.0]), np.array([3.0, 9.0, 1.0]))
    assert steps.means(1).tolist() == pytest.approx([6 / 4])
    assert steps.means(2).tolist() == pytest.approx([2.0, 1.0])


def test_jobs_that_were_rejected_ask_for_nothing() -> None:
    result = run(cluster_of({"machine": {"gpus": 2}}), gpu_jobs({"count": 1}, {"count": 9}), "fcfs")
    assert usual_demands(result.jobs).gpus.tolist() == [1]


def test_the_report_draws_a_line_a_policy() -> None:
    jobs = gpu_jobs({"count": 1, "work": 10}, {"count": 4, "work": 10})
    cluster, fleet = cluster_of({"machine": {"gpus": 4}}), fleet_of({"machine": {"gpus": 4}})
    runs = []
    for policy in ("fcfs", "easy(gpus=fgd)"):
        result = run(cluster, jobs, policy)
        tables = {"jobs": result.jobs, "placements": result.placements}
        runs.append(
            Kept(policy, 0, fleet.written(), result.metrics, result.table("claims"), fleet.nodes, tables.__getitem__)
        )
    shown = GpuResource().section(runs)
    (drawn,) = [table for table in shown if table.title == "Fragmentation over time"]
    assert drawn.picture.count("<polyline") == 2
    assert "fcfs: 0.75 GPUs on average" in drawn.picture
    assert "95 %" in drawn.words
    assert shown[0].rows[0][-1] == "18.8 %"


def test_lanes_of_a_log_of_dates_count_from_its_start() -> None:
    claims = pl.DataFrame({"job": [1], "place": ["node0/gpu1"], "start_s": [1_717_160_000.0],
                           "end_s": [1_717_163_600.0], "amount": [1000]})  # fmt: skip
    picture = lanes(claims, {"machines": [{"machine": "minsky", "nodes": "0"}]})
    assert "job 1: 0 s to 1 h, 1000/1000" in picture
    sliced = claims.with_columns(place=pl.lit("node0/gpu1/slice6"), amount=1)
    assert "job 1: 0 s to 1 h, slice6" in lanes(sliced, {"machines": [{"machine": "minsky", "nodes": "0"}]})
