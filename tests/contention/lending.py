"""Leases on a small cluster, and their speeds worked out the long way: the plain twin of the compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from plain_prediction import Traffic, plain_speed, plain_traffic

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease, Loan
from unrack.ledger.state import RUNNING, UNKNOWN, ClusterState
from unrack.slowdown.memory.settings import MemoryContention
from unrack.slowdown.memory.speeds import MemorySpeeds
from unrack.view import View
from unrack.workload.job import JobTable, job_table
from unrack.workload.store import JobStore


def jobs_of(apps: list[object], tasks: list[int], cores: int = 1) -> JobTable:
    """Jobs that ask for cores only, so that a lease may hold any memory."""
    count = len(apps)
    texts = pl.Series([None if app is None else str(app) for app in apps], dtype=pl.String)
    return job_table(
        submit_us=np.zeros(count, np.int64),
        work_us=np.arange(1, count + 1) * 10_000_000,
        tasks=np.array(tasks, np.int64),
        cores=np.full(count, cores, np.int64),
        app=texts,
    )


class Bench:
    """A state, its view and the speeds: leases go in and out, and what the kernel would know of speeds is kept."""

    def __init__(self, cluster: Cluster, jobs: JobTable, settings: MemoryContention) -> None:
        self.cluster, self.jobs, self.settings = cluster, jobs, settings
        self.state = ClusterState(cluster, jobs.asks, lends=True)
        self.view = View(self.state, JobStore(jobs))
        self.memory = MemorySpeeds(settings, cluster, jobs)
        self.known: dict[int, float] = {}
        self.leases: dict[int, Lease] = {}
        self.told: list[int] = []

    def hold(self, lease: Lease) -> None:
        """Give a job what the lease says; nobody is told yet."""
        if self.state.conditions[lease.job] != RUNNING:
            self.state.submit(lease.job)
            self.state.start(lease, 1, 0)
        else:
            self.state.exchange([lease], False)
        self.leases[lease.job] = lease

    def drop(self, job: int) -> Lease:
        """Take back what a job holds; nobody is told yet."""
        self.state.release(job, 0, UNKNOWN)
        return self.leases.pop(job)

    def tell(self, lease: Lease, *, starts: bool = False) -> None:
        """What the simulated world does after a lease came, went or changed."""
        if starts:
            self.known[lease.job] = 1.0
        if lease.job not in self.leases:
            self.known.pop(lease.job, None)
        jobs = self.memory.touched(self.view, lease)
        self.told = jobs.tolist()
        for job, speed in zip(jobs.tolist(), self.memory.speeds(self.view, jobs).tolist(), strict=True):
            if job in self.known:
                self.known[job] = speed

    def start(self, lease: Lease) -> None:
        """Start a job."""
        self.hold(lease)
        self.tell(lease, starts=True)

    def stop(self, job: int) -> None:
        """End a job."""
        self.tell(self.drop(job))

    def wanted(self) -> dict[int, float]:
        """The speeds that the running jobs should have."""
        return speeds_of(self.leases, self.settings, self.cluster, self.jobs)


Uses = list[tuple[int, int, int]]


def uses_of(lease: Lease) -> Uses:
    """(node whose memory, node that uses it, MB) of a lease."""
    local = [
        (node, node, mb)
        for first, count, _, _, mb in lease.rows.tolist()
        for node in range(first, first + count)
        if mb > 0
    ]
    return local + [(lender, borrower, mb) for borrower, lender, mb in lease.borrowed.tolist()]


def distance(cluster: Cluster, a: int, b: int) -> str:
    """The name of the distance between two nodes."""
    if cluster.rack[a] == cluster.rack[b]:
        return "rack"
    if min(cluster.cores[a], cluster.cores[b]) == 0:
        return "pool"
    return "group" if cluster.rack_group[a] == cluster.rack_group[b] else "far"


def speeds_of(
    leases: Mapping[int, Lease], settings: MemoryContention, cluster: Cluster, jobs: JobTable
) -> dict[int, float]:
    """The plain twin: every job's speed from all leases, nothing remembered."""
    model = settings.model
    uses = {job: uses_of(lease) for job, lease in leases.items()}
    app = {job: int(jobs.app_names[jobs.app[job]]) if jobs.app[job] >= 0 else -1 for job in leases}
    nodes = {job: len(lease.nodes) for job, lease in leases.items()}
    found = {}
    for job in leases:
        if app[job] not in model.profiles:
            found[job] = 1.0
            continue
        on: dict[int, float] = {node: 0.0 for node, _, _ in uses[job]}
        reads = []
        for node, user, _ in uses[job]:
            for other in leases:
                for node2, user2, _ in uses[other] if other != job and app[other] in model.profiles else ():
                    if node2 == node and (user != node or user2 != node):
                        drawn, read = draws(
                            uses[other], settings, plain_traffic(model, app[other], nodes[other]), user2 != node
                        )
                        if drawn > 0:
                            on[node] = max(on[node], drawn)
                            reads.append(read)
        interferers = [(bandwidth, 1, min(reads)) for bandwidth in on.values() if bandwidth > 0]
        total = sum(mb for _, _, mb in uses[job])
        shares = dict.fromkeys(("rack", "group", "far", "pool"), 0.0)
        for node, user, mb in uses[job]:
            if node != user:
                shares[distance(cluster, node, user)] += mb / total
        local = plain_speed(model, app[job], nodes[job], 0.0, interferers)
        remote = plain_speed(model, app[job], nodes[job], 1.0, interferers)
        found[job] = (1 - sum(shares.values())) * local + sum(
            share / (1 + getattr(settings.distance, name) * (1 / remote - 1)) for name, share in shares.items()
        )
    return found


def draws(uses: Uses, settings: MemoryContention, traffic: Traffic, away: bool) -> tuple[float, float]:
    """What a job draws from memory that is local, or that it borrows, and its reads."""
    share = 1.0
    if settings.traffic == "share":
        share = sum(mb for node, user, mb in uses if (node != user) == away) / sum(mb for _, _, mb in uses)
    return (traffic.remote_mb_s if away else traffic.local_mb_s) * share, traffic.reads


def random_lease(bench: Bench, job: int, random: np.random.Generator) -> Lease | None:
    """A lease of free cores, some of their memory and some of others'; ``None``: there are too few free nodes."""
    tasks = int(bench.jobs.tasks[job])
    free = bench.state.free.copy()
    if job in bench.leases:
        for node, _, mb in uses_of(bench.leases[job]):
            free[1, node] += mb
        free[0, bench.leases[job].nodes] += 1
    able = np.flatnonzero(free[0] > 0)
    if len(able) < tasks:
        return None
    nodes = random.choice(able, tasks, replace=False).tolist()
    local = [int(random.choice([0, free[1, node] // 3, free[1, node]])) for node in nodes]
    free[1, nodes] -= local
    loans = []
    for node in nodes:
        for lender in random.choice(len(free[0]), int(random.integers(0, 3))).tolist():
            mb = int(free[1, lender] // random.integers(1, 4))
            if lender != node and mb > 0:
                loans.append(Loan(node, lender, mb))
                free[1, lender] -= mb
    return Lease.on(job, nodes, [1] * tasks, [1] * tasks, local, loans)
