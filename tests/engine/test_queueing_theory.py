"""Mean waits and responses against queueing theory, and Little's law.

Each estimate is the mean over R independent replications with fixed seeds; theory must lie within the interval
mean ± t(R - 1, 99.9 %) · s / √R. The first jobs of a replication are left out: it starts empty.
"""

from __future__ import annotations

from math import factorial, sqrt

import numpy as np
import pytest
from small_worlds import S, workload_of

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.slowdown import Slowdown
from unrack.view import View
from unrack.workload.job import job_table

pytestmark = pytest.mark.long

REPLICATIONS, T_999 = 12, 4.437  # Student's t with 11 degrees of freedom, two-sided 99.9 %
SKIP = 500


class Sharing:
    """Processor sharing: k jobs on one node each run at speed 1 / k."""

    def touched(self, view: View, lease: Lease) -> np.ndarray:
        return view.running[1, : view.running_count]

    def speeds(self, view: View, jobs: np.ndarray) -> np.ndarray:
        return np.full(len(jobs), 1 / max(1, view.running_count))

    def feels(self, before: Lease, after: Lease) -> bool:
        return True


def replicate(
    nodes: int, rate: float, column: str, jobs: int, seed: int, *, cores: int = 1, fixed: bool = False,
    slowdown: Slowdown | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Mean and half the width of its 99.9 % interval, s; arrivals Poisson at ``rate`` jobs/s, mean service 1 s."""
    means = []
    for replication in range(REPLICATIONS):
        random = np.random.default_rng([seed, replication])
        submit = np.cumsum(random.exponential(S / rate, jobs)).astype(np.int64)
        service = np.full(jobs, S) if fixed else random.exponential(S, jobs).astype(np.int64)
        table = job_table(submit_us=submit, work_us=service, tasks=np.ones(jobs, np.int64))
        result = simulate(
            Cluster.homogeneous(nodes, cores), workload_of(table), "fcfs", world=World(slowdowns=slowdown)
        )
        means.append(result.jobs[column][SKIP:].mean())
    return float(np.mean(means)), T_999 * float(np.std(means, ddof=1)) / sqrt(REPLICATIONS)


def erlang_c(servers: int, load: float) -> float:
    """The probability that an arrival waits, M/M/c with offered load λ/μ."""
    full = load**servers / factorial(servers) * servers / (servers - load)
    return full / (sum(load**k / factorial(k) for k in range(servers)) + full)


def assert_agree(theory: float, mean: float, half: float) -> None:
    assert half < 0.15 * theory, "the interval is too wide to say anything"
    assert abs(mean - theory) < half, f"theory {theory:.4f}, simulated {mean:.4f} ± {half:.4f}"


def test_the_mean_wait_of_one_server_is_that_of_m_m_1() -> None:
    rate = 0.6
    assert_agree(rate / (1 - rate), *replicate(1, rate, "wait_s", 6000, seed=1))


def test_the_mean_wait_of_four_servers_is_that_of_m_m_c() -> None:
    rate = 2.8
    assert_agree(erlang_c(4, rate) / (4 - rate), *replicate(4, rate, "wait_s", 15000, seed=2))


def test_the_mean_wait_with_equal_services_is_half_of_that_of_m_m_1() -> None:
    rate = 0.6
    assert_agree(rate / (2 * (1 - rate)), *replicate(1, rate, "wait_s", 6000, seed=3, fixed=True))


@pytest.mark.parametrize("fixed", [False, True])
def test_the_mean_response_under_processor_sharing_depends_on_the_load_only(fixed: bool) -> None:
    rate = 0.5
    half = replicate(1, rate, "response_s", 2500, seed=4, cores=10_000, fixed=fixed, slowdown=Sharing())
    assert_agree(1 / (1 - rate), *half)


def area_us(result: Result, column: str) -> int:
    """The exact integral of a column of the usage frame, in jobs x µs."""
    times = np.rint(result.usage["time_s"].to_numpy() * S).astype(np.int64)
    return int((np.diff(times) * result.usage[column].to_numpy()[:-1]).sum())


def test_littles_law_holds_exactly_for_waiting_and_for_running_jobs() -> None:
    random = np.random.default_rng(5)
    jobs = 2000
    table = job_table(
        submit_us=np.cumsum(random.exponential(S, jobs)).astype(np.int64),
        work_us=random.exponential(4 * S, jobs).astype(np.int64),
        tasks=random.integers(1, 4, jobs),
    )
    for policy in ("fcfs", "easy", "conservative", "slurm"):
        result = simulate(Cluster.homogeneous(10, 1), workload_of(table), policy)
        start, end = (np.rint(result.jobs[name].to_numpy() * S).astype(np.int64) for name in ("start_s", "end_s"))
        assert area_us(result, "queued_jobs") == int((start - table.submit_us).sum())
        assert area_us(result, "running_jobs") == int((end - start).sum())
        assert area_us(result, "cores_held") == int(((end - start) * table.tasks).sum())
