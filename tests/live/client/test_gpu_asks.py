"""Jobs that say what they want with each GPU: cores, memory, and as many nodes as have so many."""

from __future__ import annotations

from typing import Any

import pytest

from unrack.live.driver.contract import Problem
from unrack.live.slurm.answers.jobs import jobs_of
from unrack.live.slurm.jobs import job_of
from unrack.live.slurm.machines import cluster_of
from unrack.live.slurm.reading import Reading, SlurmNode

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
