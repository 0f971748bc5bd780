"""What the pods of a gang ask as one job: equal ones are tasks of a component. And which pod has which node of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from unrack.ledger.lease import FIRST, NODES, TASKS, Lease, together
from unrack.live.driver.contract import Problem
from unrack.live.driver.portable import Names
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.gangs.gathering import Gang, KeptPods
from unrack.live.records import job_record
from unrack.workload.job import Job


def asked_together(
    gang: Gang, key: str, asked: Callable[[Pod, str], Job | Problem]
) -> tuple[Job | Problem, tuple[str, ...]]:
    """What a gang asks, or why it is not to be started now; and its pods in the order of its tasks.

    Parameters
    ----------
    asked
        What one of its pods asks.
    """
    if gang.why:
        return Problem(gang.why), ()
    jobs = list[Job]()
    for pod in gang.pods:
        one = asked(pod, key)
        if isinstance(one, Problem):
            return replace(one, why=f"pod {pod.metadata.name} of its gang: {one.why}"[:300]), ()
        jobs.append(one)
    parts = _alike(jobs)
    order = tuple(gang.keys[i] for part in parts for i in part)
    return _joined(key, jobs, parts), order


def standing_together(key: str, stands: Sequence[tuple[Job, Lease]]) -> tuple[Job, Lease] | None:
    """What some pods of a gang that have nodes hold together; ``None``: there is none."""
    if not stands:
        return None
    jobs = [job for job, _ in stands]
    parts = _alike(jobs)
    leases = []
    for number, part in enumerate(parts):
        rows = [stands[i][1].rows[0].tolist() for i in part]
        columns = [[row[0] for row in rows], [1] * len(rows), [row[3] for row in rows], [row[4] for row in rows]]
        leases.append(together(number, [Lease.on(number, *columns)])._replace(parts=()))
    job = _joined(key, jobs, parts)
    return job, leases[0] if len(leases) == 1 else together(0, leases)


def with_nodes(kept: KeptPods, lease: Lease, names: Names) -> KeptPods:
    """The pods of a gang with the nodes of its tasks."""
    nodes = [
        names.nodes[node]
        for part in lease.parts or (lease,)
        for row in part.rows.tolist()
        for node in range(row[FIRST], row[FIRST] + row[NODES])
        for _ in range(row[TASKS])
    ]
    return KeptPods(tuple((key, node) for (key, _), node in zip(kept.members, nodes, strict=True)))


def _alike(jobs: Sequence[Job]) -> list[list[int]]:
    """The numbers of those that ask the same, in order of the first of them."""
    found: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        record = job_record(replace(job, id="", app="", request_us=1, priority=0))
        found.setdefault(repr(record), []).append(number)
    return list(found.values())


def _joined(key: str, jobs: Sequence[Job], parts: Sequence[Sequence[int]]) -> Job:
    """One job; it runs as long as the longest of them, and its priority is the lowest of theirs."""
    request_us, priority = max(job.request_us for job in jobs), min(job.priority for job in jobs)
    every = [
        replace(
            jobs[part[0]], id=f"{key}+{number}" if number else key, request_us=request_us, priority=priority,
            app=jobs[0].app, demand=replace(jobs[part[0]].demand, tasks=len(part)),
        )
        for number, part in enumerate(parts)
    ]  # fmt: skip
    return replace(every[0], components=tuple(every[1:]))
