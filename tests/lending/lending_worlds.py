"""Random small clusters whose nodes lend memory, states of them, and jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from plain_lending import EVERYBODY, THRESHOLDS, Ask, place
from plain_schedules import Amounts, Placing, Task, World, run
from small_worlds import J, S

from unrack.cluster.spec import Cluster
from unrack.sim.log import RunLog

MEMORIES = [2, 4, 8, 12, 16]


class State(NamedTuple):
    """A cluster with jobs on it: cores and MB free and installed by node, and lending groups."""

    free: Amounts
    total: Amounts
    group: list[int]


class Held(NamedTuple):
    """What a job held, and from when to when (µs): rows by node, loans by borrower and lender."""

    start: int
    end: int
    rows: list[list[int]]
    loans: list[list[int]]


@st.composite
def contents(draw: st.DrawFn, most: int = 8, alike: bool = False) -> dict[str, Any]:
    """The keys of a cluster file: up to ``most`` nodes with cores, perhaps pools; ``alike``: as many cores in all."""
    groups: list[dict[str, Any]] = []
    left = draw(st.integers(2, most))
    cores = draw(st.sampled_from([1, 2, 4]))
    while left:
        count = draw(st.integers(1, left))
        groups.append({"count": count, "cores": cores, "memory": draw(st.sampled_from(MEMORIES))})
        left -= count
        cores = cores if alike else draw(st.sampled_from([1, 2, 4]))
    content: dict[str, Any] = {"nodes": groups, "lending": draw(st.sampled_from(["all", "all", 1, 2, 3]))}
    if draw(st.booleans()):
        content["memory_pools"] = [
            {"name": f"pool{i}", "count": draw(st.integers(1, 2)), "memory": draw(st.sampled_from(MEMORIES))}
            for i in range(draw(st.integers(1, 2)))
        ]
    return content


@st.composite
def states(draw: st.DrawFn) -> State:
    """A cluster on which some nodes are busy, some lend, some are down; pools of groups and of all."""
    cluster = Cluster.from_dict(draw(contents()))
    group = cluster.lending_group.tolist()
    for node in range(len(cluster)):
        if cluster.cores[node] == 0:
            group[node] = draw(st.sampled_from([EVERYBODY, EVERYBODY, *group]))
    total = [cluster.cores.tolist(), cluster.memory_mb.tolist()]
    free = [list(row) for row in total]
    for node in range(len(cluster)):
        what = draw(st.sampled_from(["idle", "idle", "busy", "lends", "down"]))
        if what in ("busy", "down"):
            free[0][node] = 0
        if what == "down":
            free[1][node] = 0
        elif what != "idle":
            free[1][node] = draw(st.integers(0, total[1][node]))
    return State(free, total, group)


def crowd(seed: int) -> tuple[State, Ask]:
    """A larger state, half of it idle, and a job that often has to borrow."""
    random = np.random.default_rng(seed)
    nodes, pools = int(random.integers(3, 12)), int(random.integers(0, 4))
    size = int(random.choice([1, 2, 3, nodes, nodes]))
    group = [node // size for node in range(nodes)]
    group += [EVERYBODY if random.random() < 0.7 else int(random.choice(group)) for _ in range(pools)]
    cores = [int(random.choice([1, 2, 4])) for _ in range(nodes)] + [0] * pools
    memory = [int(random.choice(MEMORIES)) for _ in range(nodes + pools)]
    free = [list(cores), list(memory)]
    for node in range(nodes + pools):
        what = random.choice(["idle", "idle", "idle", "busy", "lends", "down"])
        if what in ("busy", "down"):
            free[0][node] = 0
        if what != "idle":
            free[1][node] = 0 if what == "down" else int(random.integers(0, memory[node] + 1))
    ask = Ask(int(random.integers(1, nodes + 1)), int(random.integers(0, 3)), int(random.integers(1, 13)))
    return State(free, [cores, memory], group), ask


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    """What a job asks for; often more memory than a node has, sometimes none."""
    return Ask(draw(st.integers(1, 9)), draw(st.integers(0, 4)), draw(st.integers(0, 14)))


@st.composite
def jobs_of(draw: st.DrawFn, honest: bool, most: int = 12) -> list[J]:
    """Up to ``most`` jobs with many equal times; ``honest``: they run for as long as they ask, or shorter."""
    jobs = []
    submit = 0
    for _ in range(draw(st.integers(1, most))):
        submit += draw(st.sampled_from([0, 0, 1, 1, 2, 5]))
        run = draw(st.integers(0, 9))
        request = run + draw(st.sampled_from([0, 0, 1, 4])) if honest else draw(st.integers(0, 12))
        tasks, cores = draw(st.integers(1, 6)), draw(st.sampled_from([1, 1, 2, 4]))
        jobs.append(J(submit, run, tasks, request, cores, draw(st.sampled_from([0, 1, 2, 3, 5, 9, 14]))))
    return jobs


def tasks_of(jobs: list[J]) -> list[Task]:
    """The same jobs for the plain twin."""
    return [Task(Ask(job.tasks, job.cores, job.mb), job.submit * S, job.run * S, _request(job) * S) for job in jobs]


def _request(job: J) -> int:
    return job.run if job.request is None else job.request


def installed(cluster: Cluster) -> Amounts:
    """Cores and MB by node."""
    return [cluster.cores.tolist(), cluster.memory_mb.tolist()]


def placing(rule: str, cluster: Cluster, threshold: float | None = None) -> Placing:
    """The plain placement by a rule on a cluster."""
    total, group = installed(cluster), cluster.lending_group.tolist()
    return lambda free, ask: place(rule, free, total, group, ask, threshold)


def plain_run(
    cluster: Cluster,
    jobs: list[J],
    rule: str,
    scheduler: str,
    threshold: float | None = None,
    after: Callable[[World, int], None] | None = None,
) -> dict[int, Held]:
    """What the plain twin makes of jobs: as :func:`attempts_of`."""
    total = installed(cluster)
    at_least = THRESHOLDS[rule] if threshold is None else threshold
    attempts = run(total, tasks_of(jobs), placing(rule, cluster, threshold), scheduler, at_least, after)
    return {
        job: Held(attempt.start, attempt.end, attempt.place.rows(total), attempt.place.loan_rows())
        for job, attempt in enumerate(attempts)
        if attempt is not None
    }


def held_by_node(rows: Any) -> list[list[int]]:
    """Rows of a lease, one for every node, by node."""
    return sorted([node, 1, *rest] for first, count, *rest in rows.tolist() for node in range(first, first + count))


def attempts_of(log: RunLog) -> dict[int, Held]:
    """What each finished job held, and when."""
    found = {}
    for i, job in enumerate(log.attempt_job.tolist()):
        rows = log.rows[log.attempt_rows[i] : log.attempt_rows[i + 1]]
        loans = log.loans[log.attempt_loans[i] : log.attempt_loans[i + 1]]
        start, end = int(log.attempt_start_us[i]), int(log.attempt_end_us[i])
        assert job not in found
        found[job] = Held(start, end, held_by_node(rows), sorted(loans.tolist()))
    return found


def words(rule: str, scheduler: str, threshold: float | None = None, **others: object) -> str:
    """A policy as the user writes it."""
    given = {"scheduler": scheduler, **({} if threshold is None else {"threshold": threshold}), **others}
    return f"{rule}({', '.join(f'{key}={value}' for key, value in given.items())})"
