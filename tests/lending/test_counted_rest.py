"""A plan over lent memory that rests, and stops where no job may start, decides as one that plans for all at any time.

The other one is made anew in every round, for every job that is looked at. Requests are often too short, so that jobs
are past their booked ends: while one is, a Slurm-like scheduler has a round at every interval.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from lending_worlds import attempts_of
from small_worlds import J, table
from tries import seeds

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.kernels.arrays import Ints
from unrack.policy.contract import Resting, Start
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.lending.slurm import CountedPlan, LentSlurm
from unrack.policy.preemption.preempting import Preempting
from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.view import View
from unrack.workload.job import job_table

RULES = ["disaggregated", "local", "local-spread", "naive", "strawman", "contention-aware"]


class Restless(LentSlurm):
    """Plans anew for all jobs in every round, and has one at every interval."""

    def plan(self, view: View, memory: Plan, jobs: Ints, now: int, brief: bool) -> list[Start]:
        """For all jobs, whether they may start or not."""
        assert isinstance(memory, CountedPlan)
        if not memory.counts_do(view):
            return super().plan(view, memory, jobs, now, brief)
        return memory.count(view, jobs, now, False, self.mixed.alone(view, self.notes(view, memory)))


def world(seed: int) -> tuple[dict[str, Any], list[J], str]:
    """A cluster, some dozen jobs that want most of it, and the parameters of a policy."""
    random = np.random.default_rng(seed)
    kinds = [(int(random.integers(2, 7)), int(random.choice([2, 4])), int(random.choice([8, 12, 16])))
             for _ in range(int(random.integers(1, 3)))]  # fmt: skip
    content = {
        "nodes": [{"count": count, "cores": cores, "memory": mb} for count, cores, mb in kinds],
        "lending": random.choice(["all", "all", "all", 3]).item(),
    }
    content["lending"] = int(content["lending"]) if content["lending"] == "3" else "all"
    nodes, jobs, submit = sum(count for count, _, _ in kinds), list[J](), 0
    unit = int(random.choice([1, 2, 5]))  # with coarse times many are equal
    for _ in range(int(random.integers(10, 40))):
        submit += int(random.choice([0, 1, 2, 3, 6])) * unit
        run = int(random.integers(1, 30)) * unit
        asked = max(1, int(run * random.choice([0.2, 0.5, 1.0, 1.0, 1.5, 3.0])))
        tasks = int(random.integers(1, nodes + 1)) if random.random() < 0.4 else int(random.integers(1, 3))
        jobs.append(J(submit, run, tasks, asked, int(random.choice([1, 2])), int(random.choice([1, 2, 5, 9]))))
    interval, depth = int(random.choice([1, 2, 3])), int(random.choice([4, 100]))
    main = random.choice(["events", "interval"])
    return content, jobs, f"scheduler=slurm, interval={interval} s, depth={depth}, queue={depth + 2}, main={main}"


def run(content: dict[str, Any], jobs: list[J], policy: LentSlurm) -> tuple[RunLog, int]:
    """The log, and how many rounds there were."""
    core, rounds = Core(Cluster.from_dict(content), table(jobs), policy), list[int]()
    return Kernel(core).run(after_round=rounds.append), len(rounds)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.draws(60)
def test_a_plan_that_rests_decides_as_one_that_is_made_anew(rule: str) -> None:
    saved = 0
    for seed in seeds(60):
        content, jobs, how = world(seed)
        policy = parse_policy(f"{rule}({how})")
        assert type(policy) is LentSlurm
        values = {one.name: getattr(policy, one.name) for one in fields(policy)}
        ours, rounds = run(content, jobs, policy)
        theirs, all_rounds = run(content, jobs, Restless(**values))
        assert attempts_of(ours) == attempts_of(theirs), seed
        assert ours.end_us == theirs.end_us
        saved += all_rounds - rounds
    assert saved > len(seeds(60)) * 5 // 3


def test_a_policy_made_of_one_that_rests_is_asked_at_every_interval() -> None:
    content, jobs, how = world(3)
    policy = parse_policy(f"disaggregated({how})")
    assert isinstance(policy, LentSlurm)

    class Own(LentSlurm):
        """What it does may depend on the time."""

    values = {one.name: getattr(policy, one.name) for one in fields(policy)}
    restless = replace(Restless(**values), label="own")
    assert run(content, jobs, Own(**values))[1] == run(content, jobs, restless)[1] > run(content, jobs, policy)[1]
    assert isinstance(policy, Resting)
    assert not isinstance(Preempting(policy), Resting)  # nor is one around it spared any


@pytest.mark.draws(30)
def test_what_is_asked_while_a_plan_rests_is_answered_as_of_then() -> None:
    asked = 0
    for seed in seeds(30):
        content, jobs, how = world(seed)
        policy = parse_policy(f"disaggregated({how})")
        core = Core(Cluster.from_dict(content), table(jobs), policy)

        def ask(now: int, core: Core = core, policy: Any = policy) -> None:
            nonlocal asked
            following = core.next_round(now)
            then = now if following is None else following - 1
            if then <= now + policy.interval_us:
                return
            for job in core.view.queue.tolist():
                assert core.why(job, then) == policy.why(core.view, policy.begin(core.view), job, then), job
                asked += 1

        Kernel(core).run(after_round=ask)
    assert asked > len(seeds(30)) // 3


def by_the_tick(nodes: int, rule: str, every: int, jobs: list[J]) -> list[list[int]]:
    """When jobs start, in ticks of a µs, under a plan that rests and under one that does not; on nodes of 1 MB."""
    cluster = Cluster.from_dict({"nodes": [{"count": nodes, "cores": 1, "memory": 1}], "lending": "all"})
    policy = parse_policy(f"{rule}(scheduler=slurm, main=interval)")
    assert type(policy) is LentSlurm
    policy = replace(policy, interval_us=every)
    values = {one.name: getattr(policy, one.name) for one in fields(policy)}
    submit, run, tasks, request, cores, mb, _ = np.array(jobs, np.int64).T
    asked = job_table(submit_us=submit, work_us=run, request_us=request, tasks=tasks, cores=cores, memory_mb=mb)
    logs = [Kernel(Core(cluster, asked, one)).run() for one in (policy, Restless(**values))]
    return [log.attempt_start_us[np.argsort(log.attempt_job)].tolist() for log in logs]


def test_a_rest_ends_where_a_job_comes_that_fits_beside_the_others() -> None:
    """A job past its end, one until 1 000, and one that waits for the nodes of both; then one for the free node."""
    jobs = [J(0, 2000, 1, 1, 1, 1), J(0, 1000, 1, 1000, 1, 1), J(4, 9, 3, 9, 1, 1), J(7, 9, 1, 9, 1, 1)]
    ours, theirs = by_the_tick(3, "naive", 2, jobs)
    assert ours == theirs == [0, 0, 2000, 8]


def test_a_plan_does_not_rest_where_what_moves_meets_what_stands() -> None:
    """Four nodes: one in use until 7, one by a job past its end. The third job waits for all of them, from 7 on.

    At 2 the fourth is expected from 3 to 7, so that the last has no place. At 3 it would be from 4 to 8, which is too
    late for the third; so it comes behind that, and the last starts.
    """
    jobs = [J(0, 99, 1, 7, 1, 1), J(0, 99, 1, 1, 1, 1), J(2, 9, 4, 1, 1, 1), J(2, 9, 3, 4, 1, 1), J(2, 1, 1, 2, 1, 1)]
    ours, theirs = by_the_tick(4, "naive", 1, jobs)
    assert ours == theirs
    assert ours[4] == 3


def test_a_rest_ends_where_what_moves_leaves_the_window_of_a_job() -> None:
    """Six nodes: three of a job past its end, two in use until 22, one free. Four jobs, and one for the free node.

    At 2 the first is expected from 3 to 27, the second from 27 on, the third from 37 on; the fourth has no place from
    22 to 29 beside the second, so that it comes with the third and leaves nothing for the last. At 4 the second is
    expected from 29 on: the fourth has its place at 22, and the last starts.
    """
    running = [J(0, 99, 3, 1, 1, 1), J(0, 22, 2, 22, 1, 1)]
    waiting = [J(2, 24, 3, 24, 1, 1), J(2, 10, 5, 10, 1, 1), J(2, 10, 4, 10, 1, 1), J(2, 7, 2, 7, 1, 1)]
    ours, theirs = by_the_tick(6, "naive", 1, [*running, *waiting, J(2, 40, 1, 40, 1, 1)])
    assert ours == theirs
    assert ours[-1] == 4
