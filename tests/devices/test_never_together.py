"""A job that no empty cluster could hold is turned away, also if only all that it asks together is too much."""

from __future__ import annotations

import pytest
from device_worlds import PLACERS, D, cluster, pool, workload

from unrack import simulate

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
