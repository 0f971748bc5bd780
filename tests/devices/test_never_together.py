"""A job that no empty cluster could hold is turned away, also if only all that it asks together is too much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from device_worlds import PLACERS, D, cluster, pool, workload

from unrack import Cluster, simulate

JOBS = (
    D(0, 10, 8, 4, nvme=(500,)),
    D(0, 10, 8, 5, nvme=(500,)),
    D(0, 10, 8, 1, gpu=(10,), fpga=(5,)),
    D(1, 10, 8, 1, nvme=(500,), due=5),
)
"""A drive serves one node, on which two tasks have room: two drives serve four tasks. GPUs and FPGAs are apart."""


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm", "fcfs(memory=naive)", *PLACERS])
def test_a_job_that_never_finds_all_that_it_asks_at_once_holds_up_no_other(policy: str) -> None:
    pools = (
        pool("nvme", 2, 2000, 600, share=3),
        pool("gpu", 2, 100, 10, reach=["0-2"]),
        pool("fpga", 2, 10, reach=["3-5"]),
    )
    done = simulate(cluster([16] * 6, *pools), workload(*JOBS), policy).jobs
    assert done["state"].to_list() == ["finished", "rejected", "rejected", "finished"]
    said = "too-big: places for tasks, each with what it asks of "
    assert done["reason"][1] == f"{said}nvme.bandwidth_mb_s (asked 5, free 0)"
    assert done["reason"][2] == f"{said}gpu.bandwidth_mb_s, fpga.luts (asked 1, free 0)"


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm"])
def test_nor_does_one_that_finds_each_amount_that_it_asks_elsewhere(policy: str) -> None:
    fast, big = pool("nvme", 2, 5000, 100, name="fast"), pool("nvme", 2, 500, 9000, name="big")
    jobs = workload(D(0, 10, nvme=(4000, 5000)), D(1, 10, nvme=(400, 90)))
    done = simulate(cluster([8] * 4, fast, big), jobs, policy).jobs
    assert done["state"].to_list() == ["rejected", "finished"]
    counters = [
        {"name": "a", "amount": 2, "per": "node", "nodes": ["0-1"]},
        {"name": "b", "amount": 2, "per": "node", "nodes": ["2-3"]},
    ]
    columns = {("counted", "a"): np.array([1, 1]), ("counted", "b"): np.array([1, 0])}
    plain = workload(D(0, 10), D(1, 10))
    both = replace(plain, jobs=replace(plain.jobs, devices=columns))
    centre = Cluster.from_dict({"nodes": [{"count": 4, "cores": 8}], "counted": counters})
    assert simulate(centre, both, policy).jobs["state"].to_list() == ["rejected", "finished"]
