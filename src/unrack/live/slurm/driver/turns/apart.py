"""Tasks that are kept apart: each of a job that asks for N nodes stands for a node of Slurm."""

from __future__ import annotations

from unrack.cluster.spec import Cluster
from unrack.live.slurm.driver.state.seen import is_in, members
from unrack.live.slurm.driver.terms import Problem, Terms
from unrack.live.slurm.portable import Names
from unrack.live.slurm.reading import Reading
from unrack.workload.job import Job

APART = "spread"
"""The resource that keeps tasks of a group apart; a job's own group makes that one task a node."""


def could_share(job: Job, cluster: Cluster) -> bool:
    """True if a job has several tasks, and two of them could be on one node."""
    demand = job.demand
    two = (cluster.cores >= 2 * demand.cores) & (cluster.memory_mb >= 2 * demand.memory_mb)
    return demand.tasks > 1 and bool(two.any())


def wants_apart(reading: Reading, terms: Terms, names: Names) -> bool:
    """True if a job that waits has tasks that must be kept apart, as each stands for a node of Slurm."""
    for member in members(reading):
        job = member.job
        if job.waits and job.is_held and is_in(job, terms.partitions):
            asked = terms.job(job, member.key, names, 0)
            if not isinstance(asked, Problem) and could_share(asked, names.cluster):
                return True
    return False
