"""A job that finds each thing that it asks for on some nodes, and all of it on too few, holds up no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import unrack
from unrack.cluster.spec import Cluster

HALF: dict[str, tuple[dict[str, Any], str, int]] = {
    "gpus": ({"gpus": {"machine": {"gpus": 2}, "nodes": "0-3"}}, "gpus.count", 1),
    "parts of GPUs": ({"gpus": {"machine": {"gpus": 1}, "nodes": "0-3"}}, "gpus.milli", 400),
    "a counter": ({"counted": [{"name": "seat", "amount": 2, "per": "node"}]}, "counted.seat", 1),
    "links": ({"links": {"mb_s": 100}}, "links.mb_s", 50),
    "built-in GPUs": ({"pools": [{"kind": "gpu", "per": "node", "count": 2}]}, "gpu.devices", 1),
    "drives of nodes": (
        {"pools": [{"kind": "nvme", "per": "node", "count": 1, "quantities": {"mb_s": 100}}]},
        "devices.nvme.mb_s",
        40,
    ),
}
"""What a node has for two tasks and not for three: keys of a cluster, the column, what each task asks."""


def fates(folder: Path, rows: str, site: dict[str, Any], more: dict[str, Any], policy: str) -> list[str]:
    (folder / "jobs.csv").write_text(rows)
    cluster = Cluster.from_dict({"nodes": [{"count": 4, "cores": 8}], "site": site, **more})
    return unrack.simulate(cluster, unrack.read_trace(folder / "jobs.csv"), policy).jobs["state"].to_list()


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm"])
@pytest.mark.parametrize("what", HALF)
def test_a_limit_of_nodes_counts_with_all_that_tasks_ask(what: str, policy: str, tmp_path: Path) -> None:
    more, column, amount = HALF[what]
    rows = f"id,submit,run,tasks,{column}\n1,0,9,3,{amount}\n2,1,9,2,{amount}\n3,2,9,1,\n"
    for most, first in ((1, "rejected"), (2, "finished")):
        site = {"limits": [{"per": "all", "amounts": {"nodes": most}}]}
        assert fates(tmp_path, rows, site, more, policy) == [first, "finished", "finished"]


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@pytest.mark.parametrize("rule", ["earliest-end", "working-set"])
def test_a_job_of_several_sizes_has_room_for_the_smallest_or_none(rule: str, policy: str, tmp_path: Path) -> None:
    """Of four nodes with two GPUs each one has the feature."""
    head = "id,submit,run,tasks,min_tasks,max_tasks,speedup,gpus.count,constraint\n"
    site = {"features": {"f": ["0"]}}
    for least, first in ((2, "rejected"), (1, "finished")):
        rows = f"{head}1,0,9,4,{least},4,linear,2,f\n2,1,9,1,,,,,\n"
        found = fates(tmp_path, rows, site, HALF["gpus"][0], f"{policy}(molding={rule})")
        assert found == [first, "finished"]
