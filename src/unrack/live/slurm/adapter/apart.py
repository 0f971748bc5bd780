"""Jobs whose tasks are kept apart: each of a job that asks for N nodes stands for a node of Slurm."""

from __future__ import annotations

from dataclasses import replace

from unrack.cluster.spec import Cluster
from unrack.live.driver.contract import Problem
from unrack.live.driver.portable import Names
from unrack.live.slurm.adapter.terms import Terms
from unrack.live.slurm.orders import JobKey
from unrack.live.slurm.reading import SlurmJob
from unrack.workload.job import Job


def could_share(job: Job, cluster: Cluster) -> bool:
    """True if a job has several tasks, and two of them could be on one node, or it has several components.

    Slurm starts no heterogeneous job of which two components are placed on one node: its backfill scheduler plans a
    component on whole nodes.
    """
    demand = job.demand
    if job.components:
        return True
    two = (cluster.cores >= 2 * demand.cores) & (cluster.memory_mb >= 2 * demand.memory_mb)
    return demand.tasks > 1 and bool(two.any())


def asks_of(job: SlurmJob, key: JobKey, terms: Terms, names: Names, now_us: int) -> Job | Problem:
    """What a job asks of the core, with all of its components; or why it cannot be scheduled by us."""
    if not job.components:
        return terms.job(job, key, names, now_us)
    every: list[Job] = []
    for part in job.components:
        if not terms.partitions.issuperset(part.partition.split(",")):
            return Problem(f"component {part.component} of it is in partitions that are not scheduled here")
        asked = terms.job(part, key, names, now_us)
        if isinstance(asked, Problem):
            return Problem(f"component {part.component}: {asked.why}"[:300], asked.misread)
        every.append(replace(asked, id=f"{key}+{part.component}") if every else asked)
    return replace(every[0], components=tuple(every[1:]))
