"""A plan that rests is woken by whatever changes, and at no time of a rest would a plan made anew start a job.

A core is told random events: jobs come and end, many later than they were booked to; nodes fail, drain and come back;
jobs are cancelled, go before those that wait, are booked to end at other times, give memory back. Whenever there may
be a round, and at times of every rest, a plan is made anew of the same view, for all jobs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from small_worlds import J, S
from test_counted_rest import RULES, Restless
from tries import seeds

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import RefusedError
from unrack.events import ROUND, Drained, Expected, Failed, Finished, Repaired, Submitted, Withdrawn
from unrack.ledger.memory_use import smaller
from unrack.policy.contract import Decision, Requeue, Resize, Start
from unrack.policy.lending.slurm import CountedPlan, LentSlurm
from unrack.policy.orders import is_fixed
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US
from unrack.workload.job import JobTable, job_table

CANCELLED = Reason(Code.NOT_YET, "cancelled")


def crowded(random: np.random.Generator) -> tuple[dict[str, Any], list[J], str]:
    """A cluster of few nodes, many small jobs behind large ones, and the parameters of a policy."""

    def one_of(*values: Any) -> Any:
        return values[int(random.integers(len(values)))]

    kinds = [(int(random.integers(1, 4)), one_of(1, 2, 4), one_of(8, 12, 16)) for _ in range(one_of(1, 2, 2))]
    content = {
        "nodes": [{"count": count, "cores": cores, "memory": mb} for count, cores, mb in kinds],
        "lending": one_of("all", "all", "all", 2),
    }
    nodes, jobs, submit, unit = sum(count for count, _, _ in kinds), list[J](), 0, one_of(1, 1, 3)
    for _ in range(int(random.integers(12, 50))):
        submit += one_of(0, 0, 0, 1, 2)
        run, large = one_of(1, 2, 3, 5, 8, 13) * unit, random.random() < 0.25
        asked = max(1, int(run * one_of(0.2, 0.4, 0.7, 1.0, 1.0, 2.0, 4.0)))
        tasks, mb = one_of(nodes, nodes, max(1, nodes - 1)) if large else one_of(1, 1, 1, 2), one_of(1, 2, 4, 7, 11, 15)
        jobs.append(J(submit, run, tasks, asked, 1, mb, one_of(0, 0, 1, 2)))
    order, main = one_of("fcfs", "fcfs", "priority", "sjf", "wfp3"), one_of("events", "interval")
    how = f"scheduler=slurm, interval={one_of(1, 2, 3)} s, depth={one_of(6, 100)}, main={main}, order={order}"
    return content, jobs, how


def table(jobs: list[J], tick: int) -> JobTable:
    """Jobs of which the times are in ticks, µs."""
    submit, run, tasks, request, cores, mb, priority = np.array(jobs, np.int64).T
    return job_table(
        submit_us=submit * tick, work_us=run * tick, request_us=request * tick, tasks=tasks, cores=cores,
        memory_mb=mb, priority=priority,
    )  # fmt: skip


def disturb(core: Core, random: np.random.Generator, now: int, tick: int) -> list[Decision]:
    """Something happens; what the core decided about it. A RefusedError: it cannot happen now."""
    view, state, what = core.view, core.state, int(random.integers(7))
    node = int(random.integers(len(state.online)))
    if what < 3:
        return core.handle((Failed((node,)), Drained((node,)), Repaired((node,)))[what], now)
    running = view.running[1, : view.running_count]
    jobs = view.queue if what == 3 else running
    if not len(jobs):
        raise RefusedError("no such job")
    job = int(jobs[random.integers(len(jobs))])
    if what < 5:
        return core.handle(Withdrawn(job, CANCELLED), now)
    if what == 5:
        return core.handle(Expected(job, now + int(random.integers(-2, 12)) * tick), now)
    lease = view.lease(job)
    decisions: list[Decision] = [Resize(smaller(lease, {int(lease.nodes[0]): 0}), below=True)]
    core.commit(decisions, now)
    return decisions


def leases(starts: list[Any]) -> list[Any]:
    """Jobs with what they hold."""
    found = [start.lease for start in starts if isinstance(start, Start)]
    return [(one.job, one.rows.tolist(), sorted(np.asarray(one.borrowed).tolist())) for one in found]


def compared(rule: str, seed: int, tick: int) -> Counter[str]:
    """How often it rested, and looked into rests."""
    random = np.random.default_rng(seed)
    content, jobs, how = crowded(random)
    policy = parse_policy(f"{rule}({how})")
    assert type(policy) is LentSlurm
    policy = replace(policy, interval_us=policy.interval_us // S * tick)
    anew = Restless(**{one.name: getattr(policy, one.name) for one in fields(policy)})
    core, counts = Core(Cluster.from_dict(content), table(jobs, tick), policy), Counter[str]()
    ends, wake, submitted = dict[int, int](), 0, 0

    def plan(now: int) -> list[Any]:
        core.view.now = now
        core.state.withhold()
        return leases(anew._plan(core.view, anew.begin(core.view), now, brief=False)) if core.view.waiting else []

    for t in range(70):
        now, something = t * tick, False
        for job in [job for job, end in ends.items() if end <= t]:
            core.handle(Finished(job), now)
            something = ends.pop(job) >= 0
        while submitted < len(jobs) and jobs[submitted].submit <= t:
            core.handle(Submitted(submitted), now)
            submitted, something = submitted + 1, True
        if random.random() < 0.15:
            try:
                disturb(core, random, now, tick)
                something = True
            except RefusedError:
                pass
            ends = {job: end for job, end in ends.items() if job in core.view.running[1, : core.view.running_count]}
        expected = [] if now % policy.interval_us else plan(now)
        decisions = list[Decision]()
        if something or wake <= now:
            core.view.now = now
            decisions = core.handle(ROUND, now)
            wanted = core.next_round(now)
            wake = NEVER_US if wanted is None else wanted
        elif not now % policy.interval_us:
            counts["rested"] += 1
        if not now % policy.interval_us:
            assert leases(decisions) == expected, (seed, t)
        assert not any(isinstance(one, Requeue) for one in decisions)
        ends.update({one.lease.job: t + jobs[one.lease.job].run for one in decisions if isinstance(one, Start)})
        memory = core.memory
        assert isinstance(memory, CountedPlan)
        rest = memory.rest
        if rest is not None and rest.goes_on(core.view) and is_fixed(policy.order) and now < rest.until_us - 1:
            last = min(rest.until_us - 1, now + 100 * tick)
            for at in {last, int(random.integers(now + 1, last + 1))}:
                counts["looked"] += 1
                assert plan(at) == [], (seed, t, at)
    return counts


@pytest.mark.long
@pytest.mark.draws(42)
def test_a_plan_that_rests_decides_as_one_made_anew_whatever_happens() -> None:
    counts = Counter[str]()
    for seed in seeds(42):
        # "at once" is a µs later, which meets other times where that is a tick
        counts += compared(RULES[seed // 2 % len(RULES)], seed, S if seed % 2 else 1)
    for seed in (0, 9, 40):  # here memory that one job gives back lets another start
        counts += compared(RULES[seed % len(RULES)], seed, S)
    assert counts["rested"] > 7 * len(seeds(42))
    assert counts["looked"] > 24 * len(seeds(42))
