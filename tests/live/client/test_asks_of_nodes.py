"""Jobs that say what they want of each node, with each GPU or on each core, in the words of Slurm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from unrack.live.driver.contract import Problem
from unrack.live.slurm.answers.jobs import jobs_of
from unrack.live.slurm.answers.nodes import nodes_of
from unrack.live.slurm.commands.batch import words_of
from unrack.live.slurm.jobs import JobReading, job_of
from unrack.live.slurm.machines import cluster_of, machines_of
from unrack.live.slurm.orders import JobKey, Place
from unrack.live.slurm.reading import Reading, SlurmNode
from unrack.slurm_text.scheduler import scheduler_of

NODES = tuple(
    SlurmNode(f"n{i}", 8, 32_000, {"gpu": 2, "nvme": 4}, frozenset({"IDLE"}), frozenset({"main"})) for i in (1, 2, 3)
)
CASES: list[tuple[dict[str, Any], tuple[int, int, int, int]]] = [
    # as ``squeue --json`` of 22.05 has it of: -> nodes, and cores, MB, GPUs of each
    ({"cpus_per_tres": "gres:gpu:2", "tres_per_job": "gres:gpu:1", "memory_per_node": 100}, (1, 2, 100, 1)),
    ({"cpus": 2, "tasks": 2, "node_count": 2, "max_nodes": 2, "cpus_per_tres": "gres:gpu:3",
      "tres_per_node": "gres:gpu:2", "memory_per_node": 100}, (2, 6, 100, 2)),
    ({"memory_per_tres": "gres:gpu:1024", "tres_per_job": "gres:gpu:2"}, (1, 1, 2048, 2)),
    ({"cpus_per_tres": "gres:gpu:2", "memory_per_tres": "gres:gpu:500", "tres_per_job": "gres:gpu:4"}, (2, 4, 1000, 2)),
    ({"tres_per_job": "gres:gpu:4", "memory_per_node": 100}, (2, 1, 100, 2)),
    ({"tres_per_job": "gres:gpu:3", "memory_per_node": 100}, (2, 1, 100, 2)),
    ({"tres_per_job": "gres:gpu:a100:2", "cpus_per_tres": "gres:gpu:a100:5", "memory_per_node": 100}, (2, 5, 100, 1)),
    ({"cpus": 2, "tasks": 2, "minimum_cpus_per_node": 4, "memory_per_node": 100}, (1, 4, 100, 0)),
    ({"cpus": 2, "tasks": 2, "node_count": 2, "max_nodes": 2, "minimum_cpus_per_node": 4, "memory_per_node": 100},
     (2, 4, 100, 0)),
    # node_count of one that waits is a guess
    ({"cpus": 4, "cpus_per_task": 4, "node_count": 2, "minimum_cpus_per_node": 4, "memory_per_node": 100,
      "tres_req_str": "cpu=4,mem=100M,node=1,billing=4"}, (1, 4, 100, 0)),
    ({"cpus": 16, "tasks": 16, "node_count": 2, "memory_per_node": 100, "shared": "none",
      "tres_req_str": "cpu=16,mem=100M,node=1,billing=16"}, (2, 8, 100, 0)),
    ({"tasks": 40, "node_count": 5, "memory_per_node": 100, "tres_req_str": "cpu=1,mem=100M,node=1"}, (1, 1, 100, 0)),
    ({"cpus": 2, "tasks": 40, "node_count": 5, "max_nodes": 2, "memory_per_node": 100,
      "tres_req_str": "cpu=2,mem=100M,node=2"}, (2, 1, 100, 0)),
    ({"cpus": 2, "tasks": 2, "tres_per_socket": "gres:gpu:1", "sockets_per_node": 2, "memory_per_node": 100},
     (1, 2, 100, 2)),
    ({"cpus": 7, "tasks": 7, "core_spec": 2, "memory_per_node": 100}, (2, 8, 100, 0)),
    ({"cpus": 3, "tasks": 3, "thread_spec": 2, "memory_per_node": 100}, (1, 8, 100, 0)),
    ({"cpus": 8, "tasks": 8, "memory_per_cpu": 5000}, (2, 4, 20_000, 0)),
    ({"cpus": 4, "tasks": 2, "cpus_per_task": 2, "memory_per_cpu": 9000}, (2, 2, 18_000, 0)),
]  # fmt: skip
WITH_THREADS: list[tuple[dict[str, Any], tuple[int, int]]] = [
    # -> nodes, and CPUs of each, as Slurm 22.05 gives them of cores with two threads
    ({}, (1, 2)), ({"cpus": 4, "tasks": 4}, (1, 4)), ({"cpus": 3, "cpus_per_task": 3}, (1, 4)),
    ({"cpus": 6, "tasks": 2, "cpus_per_task": 3}, (1, 6)), ({"cpus": 4, "tasks": 4, "threads_per_core": 1}, (1, 8)),
    ({"cpus": 5, "tasks": 5, "threads_per_core": 1}, (2, 6)), ({"cpus": 4, "tasks": 4, "tasks_per_core": 1}, (1, 8)),
    ({"cpus": 4, "tasks": 4, "tasks_per_core": 2}, (1, 4)), ({"cpus": 9, "tasks": 9}, (2, 6)),
    ({"cpus": 6, "tasks": 6, "node_count": 2, "max_nodes": 2}, (2, 4)), ({"shared": "none"}, (1, 8)),
    ({"cpus": 8, "tasks": 8, "threads_per_core": 2}, (1, 8)),
]  # fmt: skip


@pytest.mark.parametrize(("said", "asked"), CASES)
def test_what_a_job_wants_with_each_gpu_or_node_is_what_it_asks_of_each_node(
    said: dict[str, Any], asked: tuple[int, int, int, int]
) -> None:
    record = {"job_id": 1, "job_state": "PENDING", "cpus": 1, "tasks": 1, "node_count": 1, "partition": "main", **said}
    (job,), bad = jobs_of({"jobs": [record]}, NODES)
    assert not bad
    found = job_of(job, cluster_of(Reading(0.0, NODES, (job,)))[0])
    assert not isinstance(found, Problem), found.why
    demand = found.demand
    gpus = demand.devices.get("gpus", {}).get("count", 0)
    assert (demand.tasks, demand.cores, demand.memory_mb, gpus) == asked


@pytest.mark.parametrize(
    ("has", "asked", "wanted"),
    [
        (("8", "8", "0"), 3, {"count": 1, "milli": 750}), (("a100:6", "0", "0"), 2, {"count": 1, "milli": 666}),
        (("8", "4", "0"), 1, "of which not all"), (("7", "7", "7"), 1, "of which not all"),
        (("72", "72", "72"), 1, "of which not all"), (("8", "8", "8"), 5, "of one GPU, and each has 4"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["shard", "mps"])
def test_shares_are_a_part_of_one_gpu_of_a_node_that_has_some(
    kind: str, has: tuple[str, ...], asked: int, wanted: dict[str, int] | str
) -> None:
    records = [
        {"name": f"n{i}", "cpus": 8, "real_memory": 900, "partitions": ["main"], "gres": f"gpu:a100:2,{kind}:{count}"}
        for i, count in enumerate(has)
    ]
    nodes, _ = nodes_of({"nodes": records})
    record = {"job_id": 1, "job_state": "PENDING", "partition": "main", "tres_per_node": f"gres:{kind}:{asked}"}
    (job,), bad = jobs_of({"jobs": [record]}, nodes)
    assert not bad
    reading = Reading(0.0, tuple(nodes), (job,))
    made = machines_of(reading, early_s=0.0)
    found = job_of(job, cluster_of(reading, early_s=0.0)[0], JobReading(shares=made.shares))
    if isinstance(wanted, str):
        assert isinstance(found, Problem)
        assert wanted in found.why
    else:
        assert not isinstance(found, Problem), found.why
        of_one = {"counted": {"gres_mps": asked}} if kind == "mps" else {}  # on one GPU of a node at a time
        assert found.demand.devices == {"gpus": wanted, **of_one}
        assert found.said["constraint"] == f"gres:{kind}"


@pytest.mark.parametrize(("cpus", "tasks", "most", "crowded"), [(1, 2, 4, False), (2, 20, 4, True), (2, 2, 2, False)])
def test_a_job_of_two_to_four_nodes_has_no_more_tasks_than_cores_though_slurm_counts_one(
    cpus: int, tasks: int, most: int, crowded: bool
) -> None:
    said = {"cpus": cpus, "tasks": tasks, "node_count": 2, "max_nodes": most, "tres_req_str": f"cpu={cpus},node=2"}
    (job,), _ = jobs_of({"jobs": [{"job_id": 1, "job_state": "PENDING", **said}]}, NODES)
    assert job.crowded == crowded


@pytest.mark.parametrize(("said", "asked"), WITH_THREADS)
def test_of_cores_with_several_threads_a_job_asks_for_whole_ones(said: dict[str, Any], asked: tuple[int, int]) -> None:
    nodes = tuple(replace(node, together=2) for node in NODES)
    record = {"job_id": 1, "job_state": "PENDING", "cpus": 1, "tasks": 1, "node_count": 1, "memory_per_cpu": 10, **said}
    (job,), _ = jobs_of({"jobs": [record]}, nodes)
    reading = Reading(0.0, nodes, (job,))
    found = job_of(job, cluster_of(reading)[0], JobReading(together=machines_of(reading).together))
    assert not isinstance(found, Problem), found.why
    demand = found.demand
    assert (demand.tasks, demand.cores, demand.memory_mb) == (*asked, 10 * asked[1])


def test_nodes_are_in_slurms_order_and_say_how_many_cpus_go_together() -> None:
    layout = {"sockets": 2, "cores": 4, "threads": 2}
    records = [
        {"name": "n10", "cpus": 16, **layout}, {"name": "n2", "cpus": 8, **layout}, {"name": "m1", "cpus": 16},
        {"name": "n2b", "cpus": 16, **layout},
    ]  # fmt: skip
    found, bad = nodes_of({"nodes": records})
    assert not bad
    assert [(node.name, node.together) for node in found] == [("m1", 1), ("n2", 1), ("n2b", 2), ("n10", 2)]
    assert [scheduler_of(f"SelectTypeParameters = {text}").whole_cores for text in ("CR_CPU_MEMORY", "CR_CORE")] == [
        False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("crowded", [True, False])
def test_of_a_job_with_more_tasks_than_cores_slurm_is_not_told_how_many_nodes_it_has(crowded: bool) -> None:
    place = Place(JobKey(7), ("n1", "n2"), numbered=not crowded)
    told = [] if crowded else ["NumNodes=2-2"]
    assert words_of(place) == ["update", "JobId=7", "ReqNodeList=n[1-2]", *told]


@pytest.mark.parametrize(("gpus", "runs"), [(1, True), (2, False)])
def test_a_job_with_shares_and_nodes_to_itself_starts_only_where_these_have_one_gpu(gpus: int, runs: bool) -> None:
    said = {"name": "n1", "cpus": 8, "real_memory": 900, "partitions": ["main"], "gres": f"gpu:{gpus},shard:{4 * gpus}"}
    nodes, _ = nodes_of({"nodes": [said]})
    record = {
        "job_id": 1,
        "job_state": "PENDING",
        "partition": "main",
        "tres_per_node": "gres:shard:3",
        "shared": "none",
    }
    (job,), _ = jobs_of({"jobs": [record]}, nodes)
    reading = Reading(0.0, tuple(nodes), (job,))
    made = machines_of(reading, early_s=0.0)
    found = job_of(job, cluster_of(reading, early_s=0.0)[0], JobReading(shares=made.shares))
    assert isinstance(found, Problem) != runs
