"""What runs cost, as ratios that hold on any machine: each of two times is the least of several, measured by turns."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from small_worlds import S

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.events import ROUND, Submitted
from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.workload.job import job_table

ROOT = Path(__file__).parents[2]
FEW, MANY, ROUNDS = 200, 20_000, 40
LENT = Cluster.from_dict({"nodes": [{"count": 16, "cores": 4, "memory": 16}], "lending": "all"})
AGAINST_PYTHON = """
import time, unrack
from engine import generated
from reference import conservative

workload, cluster = generated(600, 100, 1.2, 5), unrack.Cluster.homogeneous(nodes=100, cores=1)
jobs = workload.jobs
plain = [*zip(*(one.tolist() for one in (jobs.submit_us, jobs.work_us, jobs.request_us, jobs.tasks)), strict=True)]
unrack.simulate(cluster, workload, "conservative")
times = []
for _ in range(3):
    for run in (lambda: unrack.simulate(cluster, workload, "conservative"), lambda: conservative(plain, 100)):
        began = time.process_time()
        run()
        times.append(time.process_time() - began)
print(min(times[1::2]) / min(times[::2]))
"""


def crowded(policy: str, waiting: int) -> Core:
    """A core with full nodes and so many waiting jobs, and as many to come as there are rounds."""
    draw, count = np.random.default_rng(0), waiting + ROUNDS
    jobs = job_table(
        submit_us=np.zeros(count, np.int64), work_us=np.full(count, 7200 * S), request_us=np.full(count, 7200 * S),
        tasks=draw.integers(1, 5, count), cores=np.full(count, 4), memory_mb=draw.integers(1, 24, count),
    )  # fmt: skip
    core = Core(LENT, jobs, parse_policy(policy))
    for job in range(waiting):
        core.handle(Submitted(job), 0)
    core.handle(ROUND, 0)
    return core


@pytest.mark.parametrize(
    "policy", ["disaggregated(main=interval)", "slurm(memory=disaggregated)", "slurm", "easy(depth=100)", "list"]
)
def test_a_round_takes_as_long_however_many_wait_behind_those_that_it_looks_at(policy: str) -> None:
    cores, taken = {waiting: crowded(policy, waiting) for waiting in (FEW, MANY)}, {FEW: 10**9, MANY: 10**9}
    for number in range(ROUNDS):
        for waiting, core in cores.items():
            now = (number + 1) * 30 * S
            core.handle(Submitted(waiting + number), now)
            began = time.process_time_ns()
            core.handle(ROUND, now)
            taken[waiting] = min(taken[waiting], time.process_time_ns() - began)
    assert taken[MANY] < 5 * taken[FEW]


@pytest.mark.long
def test_kernels_of_a_users_run_are_optimised_beside_those_of_tests() -> None:
    """Plain Python takes some ten times as long; beside kernels that are not optimised two and a half times."""
    one = job_table(submit_us=np.zeros(1, np.int64), work_us=np.full(1, S), tasks=np.ones(1, np.int64))
    Kernel(Core(Cluster.homogeneous(nodes=1, cores=1), one, parse_policy("conservative"))).run()  # keeps them
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_OPT"}
    command = [sys.executable, "-c", AGAINST_PYTHON]
    done = subprocess.run(
        command, cwd=ROOT / "benchmarks", env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) > 5
