"""Devices built into nodes, pools of each rack, and jobs that ask for whole devices by number."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

import unrack
from unrack.cluster.pools.pool import packed_lists
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, TraceError
from unrack.study.grid import load_study
from unrack.workload.account import describe
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

POLICIES = (
    "first-fit", "best-fit", "random-fit", "max-composition", "min-fragmentation", "resource-aware", "lookahead",
    "fcfs", "easy", "easy(place=disaggregation-aware)",
)  # fmt: skip
NVME = {"kind": "nvme", "count": 2, "quantities": {"bandwidth_mb_s": 2000, "capacity_mb": 1000}}


def made(nodes: list[dict[str, Any]], **keys: Any) -> Cluster:
    return Cluster.from_dict({"nodes": nodes, **keys})


def refused(**keys: Any) -> str:
    with pytest.raises(ClusterError) as error:
        Cluster.from_dict({"nodes": [{"count": 4, "cores": 8}], **keys})
    return str(error.value)


def workload(columns: dict[str, list[int]], **devices: list[int]) -> Workload:
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    kinds = {
        (name.split("_")[0], name.split("_", 1)[1]): np.array(values, np.int64) for name, values in devices.items()
    }
    jobs = job_table(**arrays, devices=kinds)
    return Workload("w", jobs, Intake("w", "w", len(jobs), len(jobs)))


def test_each_node_of_a_class_has_gpus_of_its_own() -> None:
    cluster = made([{"count": 2, "cores": 8, "gpus": 3}, {"count": 1, "cores": 8}, {"count": 1, "cores": 4, "gpus": 1}])
    devices = cluster.devices
    assert [(pool.name, pool.count, pool.share, pool.attach_us) for pool in devices.pools] == [
        ("gpu-node0", 3, 1, 0), ("gpu-node1", 3, 1, 0), ("gpu-node3", 1, 1, 0)
    ]  # fmt: skip
    assert devices.home.tolist() == [0, 0, 0, 1, 1, 1, 3]
    assert [np.flatnonzero(row).tolist() for row in devices.reach] == [[0], [1], [3]]
    assert devices.installed("gpu", "devices") == 7


def test_pools_of_each_rack_are_reached_by_its_nodes_alone() -> None:
    cluster = made([{"count": 5, "cores": 8}], nodes_per_rack=2, pools=[{**NVME, "per": "rack", "name": "fast"}])
    assert [pool.name for pool in cluster.devices.pools] == ["fast-rack0", "fast-rack1", "fast-rack2"]
    assert [np.flatnonzero(row).tolist() for row in cluster.devices.reach] == [[0, 1], [2, 3], [4]]
    assert set(cluster.devices.home.tolist()) == {-1}


def test_a_reach_and_homes_choose_among_racks_and_nodes() -> None:
    pools = [
        {**NVME, "per": "rack", "reach": ["rack1", "0"], "home": ["0", "2-3"]},
        {"kind": "fpga", "per": "node", "count": 1, "reach": ["rack1"]},
    ]
    devices = made([{"count": 6, "cores": 8}], nodes_per_rack=2, pools=pools).devices
    assert [pool.name for pool in devices.pools] == ["nvme-rack0", "nvme-rack1", "fpga-node2", "fpga-node3"]
    assert [np.flatnonzero(row).tolist() for row in devices.reach] == [[0], [2, 3], [2], [3]]
    assert devices.home.tolist() == [0, 0, 2, 3, 2, 3]
    assert devices.quantities[devices.kinds.index("fpga")] == ("devices",)


def test_memory_pools_have_no_devices_of_their_own() -> None:
    shelf = {"memory_pools": [{"count": 1, "memory": 100, "rack": "rack0"}]}
    pools = [{**NVME, "per": "rack"}, {"kind": "gpu", "count": 1, "per": "node"}]
    devices = made([{"count": 2, "cores": 1, "memory": 10}], nodes_per_rack=1, pools=pools, **shelf).devices
    assert [np.flatnonzero(row).tolist() for row in devices.reach] == [[0], [1], [0], [1]]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"pools": [{**NVME, "per": "rack"}]}, ["pools[0].per", "no racks", "nodes_per_rack"]),
        ({"pools": [{**NVME, "per": "shelf"}]}, ["pools.0.per", "'shelf'", "rack"]),
        ({"pools": [{**NVME, "per": "node", "home": ["0"]}]}, ["pools.0", "no home"]),
        ({"pools": [{"kind": "gpu", "count": 1, "quantities": {"devices": 2}}]}, ["pools.0", "devices = 1"]),
        (
            {"nodes_per_rack": 2, "pools": [{**NVME, "per": "rack", "home": ["0"]}]},
            ["pools[0].home", "no node of rack1"],
        ),
        (
            {"nodes": [{"count": 1, "cores": 1, "gpus": 2}], "pools": [{**NVME, "kind": "gpu"}]},
            ["nodes.0.gpus", "bandwidth_mb_s", "devices"],
        ),
        ({"nodes": [{"count": 1, "cores": 1, "gpus": 0}]}, ["nodes.0.gpus", "1"]),
        ({"nodes": [{"count": 1, "cores": 1, "gpus": True}]}, ["nodes.0.gpus", "number"]),
        (
            {"nodes": [{"count": 1, "cores": 1, "gpus": 1}], "pools": [{"kind": "gpu", "count": 1, "per": "node"}]},
            ["nodes.0.gpus.name", "gpu-node0"],
        ),
        (
            {"nodes_per_rack": 2, "nodes": [{"count": 2, "cores": 1, "memory": 1}],
             "memory_pools": [{"name": "shelf", "count": 1, "memory": 1}],
             "pools": [{**NVME, "per": "rack", "reach": ["shelf"]}]},
            ["pools[0].reach", "nodes with cores"],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_key(keys: dict[str, Any], words: list[str]) -> None:
    message = refused(**keys)
    assert all(word in message for word in words), message


@draws(40)
@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=5))
def test_packed_lists_hold_each_row_in_order(rows: list[list[bool]]) -> None:
    packed = packed_lists(np.array(rows, np.bool_))
    for i, row in enumerate(rows):
        assert packed[packed[i] : packed[i + 1]].tolist() == [place for place, there in enumerate(row) if there]


@st.composite
def gpu_jobs(draw: st.DrawFn) -> Workload:
    """Jobs of one or more tasks, each of which may ask for GPUs, drives, both or neither."""
    count = draw(st.integers(1, 12))
    numbers = lambda low, high: draw(st.lists(st.integers(low, high), min_size=count, max_size=count))  # noqa: E731
    columns = {"submit_us": sorted(numbers(0, 30)), "work_us": numbers(1, 20), "tasks": numbers(1, 3)}
    return workload(
        {**columns, "cores": numbers(1, 4)}, gpu_devices=numbers(0, 3), nvme_bandwidth_mb_s=numbers(0, 2500)
    )


@draws(60)
@given(gpu_jobs(), st.sampled_from(POLICIES))
def test_every_task_has_as_many_devices_of_its_node_as_it_asks_for_alone(jobs: Workload, policy: str) -> None:
    """Checked in the tables, apart from the audit that every run ends with."""
    drives = {**NVME, "per": "rack", "share": 2}
    cluster = made([{"count": 3, "cores": 8, "gpus": 3}, {"count": 1, "cores": 4}], nodes_per_rack=2, pools=[drives])
    result = unrack.simulate(cluster, jobs, policy)
    asked = dict(zip(jobs.jobs.ids.to_list(), jobs.jobs.devices["gpu", "devices"].tolist(), strict=True))
    held: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for row in result.table("shares").filter(pl.col("kind") == "gpu").iter_rows(named=True):
        assert len(row["devices"]) == row["amounts"][0] == asked[row["job"]]
        for device in row["devices"]:
            assert cluster.devices.home[device] == row["node"]
            held[device].append((row["start_s"], row["end_s"]))
    for spans in held.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    shares = result.table("shares").filter(pl.col("kind") == "gpu").group_by("job").len()
    tasks = dict(zip(jobs.jobs.ids.to_list(), jobs.jobs.tasks.tolist(), strict=True))
    assert all(count == tasks[job] for job, count in shares.rows())
    finished = set(result.jobs.filter(pl.col("state") == "finished")["job"].to_list())
    assert {job for job in finished if asked[job]} == set(shares["job"].to_list())


def test_a_model_does_not_add_to_devices_that_were_counted() -> None:
    model = {"model": "net", "kind": "gpu", "times_s": [[100], [60], [40]], "apps": ["net"], "governs": []}
    jobs = job_table(
        submit_us=np.zeros(2, np.int64), work_us=np.full(2, 100_000_000), tasks=np.ones(2, np.int64),
        app=pl.Series(["net", "net"]), devices={("gpu", "devices"): np.array([1, 2])},
    )  # fmt: skip
    cluster = made([{"count": 2, "cores": 2, "gpus": 3}])
    for policy in ("max-composition", "disaggregation-aware", "lookahead"):
        result = unrack.simulate(
            cluster, Workload("w", jobs, Intake("w", "w", 2, 2)), policy, world=unrack.World(models=[model])
        )
        assert result.table("shares").sort("job")["devices"].list.len().to_list() == [1, 2]
        assert result.jobs["run_s"].to_list() == [100.0, 60.0]


def test_more_than_a_node_has_is_rejected_at_once() -> None:
    jobs = workload({"submit_us": [0], "work_us": [1], "tasks": [1]}, gpu_devices=[5])
    result = unrack.simulate(made([{"count": 9, "cores": 2, "gpus": 4}]), jobs, "first-fit")
    assert result.jobs["state"].to_list() == ["rejected"]
    assert "gpu.devices" in str(result.log.reasons[0])


def test_the_gpus_of_a_node_fail_with_it() -> None:
    jobs = workload({"submit_us": [0], "work_us": [50_000_000], "tasks": [1]}, gpu_devices=[2])
    fault = unrack.Fault("node0", 10_000_000, 1_000_000)
    result = unrack.simulate(
        made([{"count": 2, "cores": 2, "gpus": 2}]), jobs, "first-fit", world=unrack.World(faults=[fault])
    )
    assert result.table("shares")["node"].to_list() == [0, 1]
    assert result.table("shares")["devices"].to_list() == [[0, 1], [2, 3]]


TABLE = """id,submit_s,run_s,request_s,tasks,cores,memory_mb,nvme.bandwidth_mb_s,nvme.capacity_mb,gpus,app,deadline_s
a,0,3000,3600,4,8,16000,,,2,,
b,60,1600,1600,1,6,8000,1800,44032,,smufin,5460
c,61,10,20,2,1,100,,,1,,
"""
STUDY = """
policies = ["first-fit"]
models = ["smufin"]

[[clusters]]
name = "mix"
nodes = [{ count = 64, cores = 32, memory = "64 GB", gpus = 4 }]
nodes_per_rack = 16

[[clusters.pools]]
kind = "nvme"
per = "rack"
count = 8
quantities = { bandwidth_mb_s = "2 GB/s", capacity_mb = "600 GB" }
compose = 3
share = 6

[[workloads]]
trace = "jobs.csv"
"""


def test_a_table_asks_for_everything_at_once(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(TABLE)
    read = unrack.read_trace(path)
    jobs = read.jobs
    assert jobs.devices["gpu", "devices"].tolist() == [2, 0, 1]
    assert jobs.devices["nvme", "capacity_mb"].tolist() == [0, 44032, 0]
    assert (jobs.deadline_us.tolist(), jobs.request_us.tolist()) == (
        [-1, 5_460_000_000, -1], [3_600_000_000, 1_600_000_000, 20_000_000]
    )  # fmt: skip
    asks = describe(read)["asks"]
    assert {name: found["jobs"] for name, found in asks["devices"].items()} == {
        "gpu.devices": 2, "nvme.bandwidth_mb_s": 1, "nvme.capacity_mb": 1
    }  # fmt: skip
    assert asks["devices"]["gpu.devices"]["each"]["max"] == 2
    assert (asks["deadlines"]["jobs"], asks["deadlines"]["over_run"]["min"]) == (1, 3.375)
    assert asks["priorities"] is None


def test_the_cluster_and_the_table_of_a_study_load_as_written(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    (tmp_path / "study.toml").write_text(STUDY)
    run = load_study(str(tmp_path / "study.toml")).runs[0]
    devices = run.cluster.devices
    assert (len(devices), len(devices.pools), devices.kinds) == (4 * 8 + 64 * 4, 68, ("nvme", "gpu"))
    assert Cluster.preset("gpu-racks").devices.identity() == devices.identity()
    lending = Cluster.from_dict({**tomllib.loads(STUDY)["clusters"][0], "lending": "rack"})
    assert lending.lending_group.tolist() == lending.rack.tolist() == [node // 16 for node in range(64)]
    result = unrack.simulate(run.cluster, run.workload, "first-fit", world=run.world)
    assert result.jobs["state"].to_list() == ["finished"] * 3
    assert result.table("shares").filter(pl.col("job") == "a")["amounts"].to_list() == [[2]] * 4


@pytest.mark.parametrize("wrong", ["0.5", "two"])
def test_part_of_a_gpu_is_refused(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"submit,run,gpus\n0,10,{wrong}\n")
    with pytest.raises(TraceError, match=r"gpus.*number"):
        unrack.read_trace(path)


def test_scaled_gpus_are_rounded_up(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit,run,gpu_percent\n0,10,50\n0,10,250\n")
    read = unrack.read_trace(path, columns={"gpu.devices": "gpu_percent"}, scale={"gpu.devices": 0.01})
    assert read.jobs.devices["gpu", "devices"].tolist() == [1, 3]
