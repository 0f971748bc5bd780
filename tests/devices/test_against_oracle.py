"""No policy misses fewer deadlines than the best of all schedules, nor than the bound says is possible."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from device_worlds import PLACERS
from exhaustive import Instance, fewest_late
from tiny_worlds import STEEP, cluster_of, fastest_of, jobs_of, random_instance
from tries import some

from unrack import simulate
from unrack.metric.bound import bound
from unrack.sim.world import World
from unrack.slowdown.model import make_models, pace_of
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload

MODELS = make_models(
    [
        "smufin",
        {
            "model": "steep",
            "base_s": 100.0,
            "times_s": [[100 / STEEP[d, k] if (d, k) in STEEP else None for k in (1, 2, 3)] for d in (1, 2)],
        },
    ]
)
POLICIES = [*PLACERS, "max-composition(order=fcfs)"]


def workload_of(jobs: JobTable) -> Workload:
    return Workload("tiny", jobs, Intake("tiny", "test", len(jobs), len(jobs)))


def late(instance: Instance, policy: str, models: bool = True) -> int:
    """How many jobs miss their deadline or never run under a policy."""
    jobs = jobs_of(instance)
    log = simulate(cluster_of(instance), workload_of(jobs), policy, world=World(models=MODELS if models else ())).log
    ends = np.full(len(jobs), np.iinfo(np.int64).max)
    ends[log.attempt_job] = log.attempt_end_us
    return int(((jobs.deadline_us >= 0) & (ends > jobs.deadline_us)).sum())


@pytest.fixture(scope="module")
def tiny() -> list[tuple[Instance, int]]:
    """Worlds of 3 to 5 jobs and the fewest late jobs of each."""
    instances = [random_instance(seed, 3 + seed % 3) for seed in range(some(210))]
    instances = [instance for instance in instances if any(ask.due is not None for ask in instance.jobs)]
    return [(instance, fewest_late(instance)) for instance in instances]


@pytest.mark.long
@pytest.mark.draws(210)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_beats_the_best_of_all_schedules(policy: str, tiny: list[tuple[Instance, int]]) -> None:
    reached = Counter(late(instance, policy) - least for instance, least in tiny)
    assert min(reached) >= 0
    assert reached[0] > len(tiny) // 3, "the oracle is so far off that it tests nothing"


@pytest.mark.draws(210)
def test_the_bound_is_never_above_the_best_of_all_schedules(tiny: list[tuple[Instance, int]]) -> None:
    exact = 0
    for instance, least in tiny:
        cluster, jobs = cluster_of(instance), jobs_of(instance)
        most = bound(cluster, jobs, fastest_of(instance), pace_of(MODELS, cluster.devices, jobs)).late
        assert most <= least
        exact += most == least
    assert exact > len(tiny) // 3


@pytest.mark.long
@pytest.mark.parametrize("policy", PLACERS)
def test_in_a_world_without_models_policies_are_held_to_the_bound_without_models(policy: str) -> None:
    for seed in range(40):
        instance = random_instance(seed, 4)
        if all(ask.due is None for ask in instance.jobs):
            continue
        cluster, jobs = cluster_of(instance), jobs_of(instance)
        assert bound(cluster, jobs, jobs.work_us).late <= late(instance, policy, models=False)
