"""Small clusters and workloads, random ones too, and an audit of finished runs that trusts nothing but their logs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl
from hypothesis import strategies as st

from unrack.cluster.spec import Cluster
from unrack.cluster.tiers import make_tiers
from unrack.ledger.lease import Lease
from unrack.ledger.state import Status
from unrack.policy.contract import Start
from unrack.sim.faults import Fault
from unrack.sim.log import RunLog
from unrack.workload.formats.rules import Intake
from unrack.workload.job import JobTable, Workload, job_table

S = 1_000_000
"""Microseconds in a second."""


class J(NamedTuple):
    """A job in whole seconds; ``request`` defaults to the run time."""

    submit: int
    run: int
    tasks: int = 1
    request: int | None = None
    cores: int = 1
    mb: int = 0
    priority: int = 0


def table(jobs: Sequence[J], ids: Sequence[int | str] | None = None) -> JobTable:
    """The jobs as a table, with ids 1, 2, 3 … in the order given; jobs of as many tasks are of one user."""

    def column(values: Iterable[int]) -> np.ndarray:
        return np.array(list(values), np.int64)

    return job_table(
        submit_us=column(j.submit * S for j in jobs),
        work_us=column(j.run * S for j in jobs),
        request_us=column((j.run if j.request is None else j.request) * S for j in jobs),
        tasks=column(j.tasks for j in jobs),
        cores=column(j.cores for j in jobs),
        memory_mb=column(j.mb for j in jobs),
        priority=column(j.priority for j in jobs),
        user=pl.Series([f"user {j.tasks}" for j in jobs], dtype=pl.String),
        ids=None if ids is None else pl.Series(ids),
    )


def workload_of(jobs: JobTable) -> Workload:
    """A table as a workload."""
    return Workload("small", jobs, Intake("small", "test", len(jobs), len(jobs)))


def work(*jobs: J) -> Workload:
    """Jobs as a workload."""
    return workload_of(table(jobs))


def starts(log: RunLog) -> list[int | None]:
    """Per job, when its last finished attempt started, s; ``None``: never."""
    found: list[int | None] = [None] * len(log.jobs)
    for job, start, outcome in zip(log.attempt_job, log.attempt_start_us, log.attempt_outcome, strict=True):
        if outcome == 0:
            assert start % S == 0
            found[job] = int(start) // S
    return found


def nodes_held(log: RunLog, attempt: int) -> dict[int, tuple[int, int, int]]:
    """Node → tasks, cores and MB that an attempt held there."""
    held: dict[int, tuple[int, int, int]] = {}
    for first, count, tasks, cores, mb in log.rows[log.attempt_rows[attempt] : log.attempt_rows[attempt + 1]].tolist():
        for node in range(first, first + count):
            assert node not in held, "a lease names a node twice"
            held[node] = (tasks, cores, mb)
    return held


MEMORY = ("baseline", "strawman", "naive", "local", "disaggregated", "contention-aware")


def is_lending(policy: str) -> bool:
    """Whether jobs may borrow memory under a policy."""
    return policy.startswith(MEMORY[1:])


def is_tiered(policy: str) -> bool:
    """Whether a policy places servers, jobs of one task, on clusters with tiers of memory."""
    return policy.startswith("slo")


def suited(policy: str, cluster: Cluster) -> Cluster:
    """The cluster; with one tier, each node a cluster of its own, for a policy that needs tiers."""
    if not is_tiered(policy):
        return cluster
    each = [[node] for node in range(len(cluster))]
    one = make_tiers(["local"], [0], [1], np.zeros(len(cluster), np.int64), each, cluster.cores, "test")
    return replace(cluster, tiers=one)


def suited_jobs(policy: str, jobs: Sequence[J]) -> list[J]:
    """The jobs; of one task each for a policy that places servers."""
    return [job._replace(tasks=1) if is_tiered(policy) else job for job in jobs]


def is_whole(policy: str) -> bool:
    """Whether a policy gives jobs whole nodes."""
    return "whole" in policy or policy.startswith(MEMORY)


def lease_on(job: int, node: int, tasks: int = 1, cores: int = 1, mb: int = 0) -> Lease:
    """A lease on one node."""
    return Lease.on(job, [node], [tasks], [cores], [mb])


def start_on(job: int, node: int, tasks: int = 1, cores: int = 1, mb: int = 0) -> Start:
    """The decision to start a job on one node."""
    return Start(lease_on(job, node, tasks, cores, mb))


# --- random worlds ----------------------------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn, most_classes: int = 3, memory: bool | None = None) -> Cluster:
    """1 to 3 classes of 1 to 3 nodes with 1 to 6 cores; memory counted on all, some or none of them."""
    groups = []
    for _ in range(draw(st.integers(1, most_classes))):
        group = {"count": draw(st.integers(1, 3)), "cores": draw(st.integers(1, 6))}
        if memory or (memory is None and draw(st.booleans())):
            group["memory"] = draw(st.integers(1, 12))
        groups.append(group)
    return Cluster.from_dict({"nodes": groups, "nodes_per_rack": 2})


@st.composite
def job_lists(draw: st.DrawFn, honest: bool, single: bool = False, most: int = 14, over: bool = True) -> list[J]:
    """Up to ``most`` jobs with many equal times; ``single``: tasks of one core, no memory; ``over``: may overrun."""
    jobs = []
    submit = 0
    for _ in range(draw(st.integers(1, most))):
        submit += draw(st.sampled_from([0, 0, 0, 1, 1, 2, 5]))
        run = draw(st.integers(0, 9))
        request = run if honest else draw(st.integers(0 if over else run, 15))
        tasks = draw(st.integers(1, 6))
        cores, mb = (1, 0) if single else (draw(st.integers(1, 3)), draw(st.sampled_from([0, 0, 1, 3, 5])))
        jobs.append(J(submit, run, tasks, request, cores, mb, draw(st.integers(0, 2))))
    return jobs


# --- the audit --------------------------------------------------------------------------------------------------------


def room_when_empty(cluster: Cluster, cores: int, mb: int) -> int:
    """How many such tasks the empty cluster holds, counted node by node."""
    room = 0
    for node_cores, node_mb in zip(cluster.cores.tolist(), cluster.memory_mb.tolist(), strict=True):
        tasks = 0
        while (tasks + 1) * cores <= node_cores and (tasks + 1) * mb <= node_mb:
            tasks += 1
        room += tasks
    return room


def audit(
    log: RunLog, whole: bool = False, faults: Sequence[Fault] = (), exact: bool = True, lends: bool = False
) -> None:
    """Assert every promise of the engine about a run, from its log of attempts alone.

    ``exact``: no model slows jobs down, so that each runs for exactly its work. ``lends``: any node's memory serves.
    """
    cluster, jobs = log.cluster, log.jobs
    finished = [0] * len(jobs)
    spells: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    own: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for i in range(len(log.attempt_job)):
        job, start, end = int(log.attempt_job[i]), int(log.attempt_start_us[i]), int(log.attempt_end_us[i])
        outcome = int(log.attempt_outcome[i])
        tasks, cores, mb = (int(jobs.asks[row, job]) for row in range(3))
        assert start >= jobs.submit_us[job], "started before it was submitted"
        assert end >= start
        if outcome == 0:
            finished[job] += 1
            if exact:
                assert end - start == jobs.work_us[job], "did not run for its work"
        own[job].append((start, end))
        held = nodes_held(log, i)
        borrowed: Counter[int] = Counter()
        for node, lender, lent in log.loans[log.attempt_loans[i] : log.attempt_loans[i + 1]].tolist():
            borrowed[node] += lent
            spells[lender].append((start, end, 0, lent))
        assert sum(here[0] for here in held.values()) == tasks, "a gang did not start whole"
        for node, (here, held_cores, held_mb) in held.items():
            assert held_cores == (int(cluster.cores[node]) if whole else here * cores)
            assert held_mb + borrowed[node] == here * mb
            assert here * cores <= cluster.cores[node]
            spells[node].append((start, end, held_cores, held_mb))
    for node, held_there in spells.items():
        _audit_node(held_there, int(cluster.cores[node]), int(cluster.memory_mb[node]))
    for job, attempts in own.items():
        attempts.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(attempts)), "ran twice"
        assert finished[job] == 1, "an attempted job did not finish exactly once"
    for fault in faults:
        for node in cluster.domain(fault.domain):
            for start, end, _, _ in spells.get(node, []):
                assert not (start < fault.at_us + fault.repair_us and fault.at_us < end), "ran on a node that was down"
    for job in range(len(jobs)):
        tasks, cores, mb = (int(jobs.asks[row, job]) for row in range(3))
        possible = room_when_empty(cluster, cores, 0 if lends else mb) >= tasks
        possible = possible and tasks * mb <= cluster.memory_mb.sum()
        assert log.state[job] == (Status.FINISHED if possible else Status.REJECTED)
        assert finished[job] == int(possible)


def _audit_node(spells: list[tuple[int, int, int, int]], cores: int, mb: int) -> None:
    lasting = [spell for spell in spells if spell[1] > spell[0]]
    for moment in {spell[0] for spell in lasting}:
        there = [spell for spell in lasting if spell[0] <= moment < spell[1]]
        assert sum(spell[2] for spell in there) <= cores, "more cores held than a node has"
        assert sum(spell[3] for spell in there) <= mb, "more memory held than a node has"
    for moment, end, held_cores, held_mb in spells:
        if moment == end:
            there = [spell for spell in lasting if spell[0] < moment < spell[1]]
            assert held_cores + sum(spell[2] for spell in there) <= cores
            assert held_mb + sum(spell[3] for spell in there) <= mb
