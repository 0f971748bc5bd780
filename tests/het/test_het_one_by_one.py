"""Heterogeneous jobs that nobody knew before: a core that is brought them one by one decides as one with a table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from het_worlds import PARTED, S, table, with_components
from mixed_worlds import MIXES, with_rules
from test_mixes import world_of
from tries import some

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import RefusedError
from unrack.events import ROUND, Adopted, Finished, Held, Submitted, Withdrawn
from unrack.live.records import decision_record, event_of_record, event_record
from unrack.policy.contract import Reject, Requeue, Start
from unrack.policy.file import complete
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.slowdown.model import make_models, pace_of
from unrack.workload.job import Demand, Job, JobTable
from unrack.workload.site.sessions import as_long_as_the_longest, components_of, first_of
from unrack.workload.site.settled import settled


def job_of(jobs: JobTable, row: int, said: bool) -> Job:
    """A row as a job that says its words itself."""
    words = {name: str(jobs.extra[name][row] or "") for name in ("partition", "qos")} if said else {}
    return replace(jobs.job(row), said=words)


def played(cluster: Cluster, jobs: JobTable, policy: str, said: bool, models: Any = ()) -> tuple[list[Any], list[Any]]:
    """All that two cores decide: one that has the jobs as a table, and one that is brought them."""
    jobs = as_long_as_the_longest(jobs)
    own, bound = settled(cluster, jobs)
    pace = partial(pace_of, make_models(models), cluster.devices)
    make = partial(complete, parse_policy(policy), "policy")
    whole, brought = Core(own, bound, make(), pace), Core(cluster, None, make(), pace)
    of, first = components_of(jobs), first_of(jobs)
    decided: tuple[list[Any], list[Any]] = [], []
    ends: list[tuple[int, int]] = []
    arrivals = [(int(at), 1, row) for row, at in enumerate(jobs.submit_us)]

    def note(now: int, *found: list[Any]) -> None:
        for mine, decisions in zip(decided, found, strict=True):
            mine.append((now, [decision_record(one) for one in decisions]))
        started = (one.lease.job for one in found[0] if isinstance(one, Start))
        ends.extend((now + int(jobs.work_us[job]), job) for job in started)

    while arrivals or ends:
        now = min([at for at, _, _ in arrivals[:1]] + [at for at, _ in ends])
        for at, job in sorted(ends):
            if at == now:
                ends.remove((at, job))
                for core in (whole, brought):
                    core.handle(Finished(job), now)
        while arrivals and arrivals[0][0] == now:
            row = arrivals.pop(0)[2]
            if first[row] != row:
                whole.handle(Held(row), now)
                continue
            every = [job_of(jobs, one, said) for one in of.get(row, (row,))]
            event = Submitted(replace(every[0], components=tuple(every[1:])))
            assert event_record(event_of_record(event_record(event))) == event_record(event)
            note(now, whole.handle(Submitted(row), now), brought.handle(event, now))
        note(now, whole.handle(ROUND, now), brought.handle(ROUND, now))
    assert (brought.state.free == brought.state.total).all()
    return decided


ALL = ("fcfs", "sjf", "easy", "conservative", "slurm", "list(backfill=any)", "smallest")


@pytest.mark.parametrize("policy", ALL)
@pytest.mark.draws(12)
def test_on_partitions_it_decides_the_same(policy: str) -> None:
    together = 0
    for seed in range(some(12)):
        draw = np.random.default_rng(seed)
        rows = []
        for number in range(1, 15):
            at, parts = int(draw.integers(30)), int(draw.choice([1, 1, 2, 3]))
            rows += [
                {"id": f"{number}+{part}", "submit": at, "work": int(draw.integers(1, 20)), "het": str(number),
                 "tasks": int(draw.integers(1, 4)), "cores": int(draw.integers(1, 6)),
                 "partition": str(draw.choice(["cpu", "gpu", ""])), "gpus": int(draw.integers(2))}
                for part in range(parts)
            ]  # fmt: skip
        rows.sort(key=lambda row: (row["submit"], int(row["het"])))
        mine, other = played(Cluster.from_dict(PARTED), table(rows), policy, said=True)
        assert mine == other
        together += sum("parts" in str(found) for _, found in other)
    assert together >= some(12) * 5 // 6


@pytest.mark.long
@pytest.mark.parametrize("mix", ["counted", "spread", "gpus", "links", "everything", "counted-lent"])
@pytest.mark.parametrize("discipline", ["easy", "conservative", "fcfs"])
def test_beside_every_resource_it_decides_the_same(mix: str, discipline: str) -> None:
    together = 0
    for seed in range(3):
        world = world_of(mix, seed)
        jobs = with_components(replace(world.jobs, under_way=None), seed)
        policy = with_rules(discipline, **MIXES[mix][1])
        mine, other = played(world.cluster, jobs, policy, said=False, models=world.models)
        assert mine == other
        together += sum("parts" in str(found) for _, found in other)
    assert together
    assert any(found for _, found in mine)


def a_job(*sizes: int, **more: Any) -> Job:
    every = [Job(0, f"7+{i}", 0, 9 * S, None, 0, "u", "", Demand(1, cores), **more) for i, cores in enumerate(sizes)]
    return replace(every[0], components=tuple(every[1:]))


def test_what_is_refused_changes_nothing_and_what_is_withdrawn_or_fails_gives_all_back() -> None:
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 4}]})
    core = Core(cluster, None, complete(parse_policy("easy"), "policy"))
    two = a_job(2, 2)
    with pytest.raises(RefusedError, match="2 users"):
        core.handle(Submitted(replace(two, components=(replace(two, user="other"),))), 0)
    with pytest.raises(RefusedError, match="2 reservations"):
        core.handle(Submitted(replace(two, components=(replace(two, said={"reservation": "r"}),))), 0)
    assert core.state.jobs == 0
    assert [type(one) for one in core.handle(Submitted(a_job(4, 4, 4)), 0)] == [Reject]
    core.handle(Submitted(a_job(4, 4)), 0)
    (start,) = core.handle(ROUND, 0)
    assert isinstance(start, Start)
    assert [part.job for part in start.lease.parts] == [3, 4]
    core.handle(Submitted(a_job(1)), 0)
    core.commit([Requeue(3, Reason(Code.PREEMPTED))], 0)
    assert (core.state.free == core.state.total).all()
    core.handle(Withdrawn(3, Reason(Code.WITHDRAWN)), 0)
    assert [one.lease.job for one in core.handle(ROUND, 0)] == [5]


def test_components_that_run_already_are_taken_over_with_their_parts() -> None:
    cluster = Cluster.from_dict({"nodes": [{"count": 3, "cores": 4}]})
    first = Core(cluster, None, complete(parse_policy("conservative"), "policy"))
    first.handle(Submitted(a_job(1)), 0)
    first.handle(Submitted(a_job(4, 3)), 0)
    start = first.handle(ROUND, 0)[1]
    assert isinstance(start, Start)
    second = Core(cluster, None, complete(parse_policy("conservative"), "policy"))
    event = Adopted(a_job(4, 3), start.lease, 9 * S)
    second.handle(event_of_record(event_record(event)), 0)
    second.begin_anew()
    assert [part.job for part in second.state.lease(0).parts] == [0, 1]
    assert second.state.free[0].sum() == 5
    second.handle(Submitted(a_job(4, 2)), 0)
    assert second.handle(ROUND, 0) == []
    second.handle(Finished(0), 5 * S)
    assert [part.job for part in second.handle(ROUND, 5 * S)[0].lease.parts] == [2, 3]
