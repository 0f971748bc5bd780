"""The search of a Slurm-like scheduler that keeps whole nodes, against a plain twin of that of Slurm."""

from __future__ import annotations

import random

import numpy as np
import polars as pl
import pytest
from plain_slurm import Asked, Runs, look

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.ledger.lease import nodes_of
from unrack.policy.placement.node_kernel import Fit, place_one
from unrack.policy.table import parse_policy
from unrack.sim.kernel import Kernel
from unrack.workload.job import JobTable, job_table
from unrack.workload.site.settled import settled
from unrack.workload.under_way import UnderWay

NODES, CORES = 10, 8
PARTS = {"left": range(6), "right": range(4, 10), "own": range(8, 10)}
POLICY = "slurm(order=priority, interval=1 s, main=interval, depth=500, queue=500, reserve=slurm, place=tightest-run)"


def place(free: dict[int, int], job: Asked) -> frozenset[int] | None:
    """By the rule for places, which has a twin of its own."""
    left, total = np.zeros((2, NODES), np.int64), np.zeros((2, NODES), np.int64)
    for node, cores in free.items():
        left[:, node], total[:, node] = (cores, 10**6), (CORES, 10**6)
    if sum(cores >= job.cores for cores in free.values()) < job.nodes:
        return None
    rows = place_one(left, total, job.nodes, job.cores, 1, False, int(Fit.RUN))
    nodes = frozenset(int(row[0]) + k for row in rows for k in range(int(row[1])))
    return nodes or None


def drawn(seed: int) -> tuple[int, list[Asked], list[Runs], list[str]]:
    """The second of a look; a queue, what runs, and the partitions of both, those that wait first."""
    draw = random.Random(seed)
    now, free, running, parts = draw.randrange(60), dict.fromkeys(range(NODES), CORES), list[Runs](), list[str]()

    def asked(number: int) -> tuple[Asked, str]:
        part = draw.choice(["left", "left", "right", "right", "own"])
        wide = draw.choice([1, 1, 1, 2, 3]) if part != "own" else draw.choice([1, 2])
        cores = CORES if wide > 1 or part == "own" else draw.choice([1, 2, 4, 8])
        limit = 60 * draw.choice([1, 1, 2, 5]) + draw.choice([0, 0, 7])
        return Asked(number, wide, cores, limit, frozenset(PARTS[part]), part == "own"), part

    ran = []
    for number in range(draw.randrange(14)):
        job, part = asked(100 + number)
        where = place({node: free[node] for node in job.may}, job)
        if where is not None:
            for node in where:
                free[node] -= job.cores
            running.append(Runs(now + draw.randrange(1, job.limit_s), job.id, where, job.cores))
            ran.append(part)
    queue = []
    for number in range(25):
        job, part = asked(200 + number)
        queue.append(job)
        parts.append(part)
    return now, queue, running, parts + ran


def world(now: int, queue: list[Asked], running: list[Runs], parts: list[str]) -> tuple[Cluster, JobTable]:
    """The same as a cluster and jobs, those that wait first."""
    waits, runs = len(queue), len(running)
    limit = np.array([one.limit_s for one in queue] + [one.end_s - now for one in running]) * 10**6
    on = [None] * waits + [",".join(map(str, sorted(one.on))) for one in running]
    jobs = job_table(
        submit_us=np.full(waits + runs, now * 10**6), work_us=limit, request_us=limit,
        tasks=np.array([one.nodes for one in queue] + [len(one.on) for one in running]),
        cores=np.array([one.cores for one in (*queue, *running)]),
        memory_mb=np.ones(waits + runs, np.int64), priority=np.arange(waits + runs, 0, -1),
        extra=pl.DataFrame({"partition": parts}),
        under_way=UnderWay(pl.Series(on, dtype=pl.String), np.zeros(waits + runs, np.int64)),
    )  # fmt: skip
    cluster = Cluster.from_dict({
        "nodes": [{"names": f"n[0-{NODES - 1}]", "count": NODES, "cores": CORES, "memory": 10**6}],
        "site": {"partitions": [
            {"name": name, "nodes": [f"n[{nodes[0]}-{nodes[-1]}]"], "whole_nodes": name == "own"}
            for name, nodes in PARTS.items()
        ]},
    })  # fmt: skip
    return settled(cluster, jobs)


@pytest.mark.parametrize("seed", range(60))
def test_a_look_starts_what_slurm_would_start_where_it_would_and_plans_the_rest_so(seed: int) -> None:
    now, queue, running, parts = drawn(seed)
    due = {job: set(on) for job, (at, on) in look(now, queue, running, CORES, NODES, place).items() if at == now}
    cluster, jobs = world(now, queue, running, parts)
    core, found, planned = Core(cluster, jobs, parse_policy(POLICY)), dict[int, set[int]](), dict[int, int]()
    job_of = {row: queue[number - 1].id for row, number in enumerate(jobs.ids.to_list()) if number <= len(queue)}

    def after(at_us: int) -> None:
        if at_us == now * 10**6 and not planned:
            for row in core.view.running_jobs.tolist():
                if row in job_of:
                    found[job_of[row]] = set(nodes_of(core.state.lease(row).rows).tolist())
            planned.update(core.policy.starts_us(core.view, at_us))

    Kernel(core).run(after_round=after)
    assert found == due
    begun = [Runs(now + job.limit_s, job.id, frozenset(due[job.id]), job.cores) for job in queue if job.id in due]
    left = [job for job in queue if job.id not in due]
    then = look(now, left, [*running, *begun], CORES, NODES, place)
    assert {job_of[row]: at // 10**6 for row, at in planned.items()} == {job: at for job, (at, _) in then.items()}
