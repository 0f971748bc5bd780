"""Running jobs of Slurm as equal tasks on nodes by name, as tables of jobs have them."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import NamedTuple

from unrack.cluster.spec import Cluster
from unrack.live.slurm.jobs import COUNTED, STRICT, JobReading, devices_of, held_of, made
from unrack.live.slurm.machines import gres
from unrack.live.slurm.reading import SlurmJob
from unrack.workload.job import Demand, Job


class RunningTasks(NamedTuple):
    """A running job as equal tasks, for tables."""

    job: Job  # what it asks: what it holds
    tasks: Mapping[str, int]  # name of a node → how many of its tasks are there
    less_mb: int  # MB that it holds beyond what is said of it, as its nodes are unequal


def standing_of(
    job: SlurmJob, names: tuple[str, ...], node_of: Mapping[str, int], cluster: Cluster, how: JobReading = STRICT
) -> RunningTasks | None:
    """A running job as equal tasks on its nodes; ``None``: it holds no node of ours.

    On nodes of which it has as many cores each it has a task a node. Otherwise each task has the cores that divide all
    these, and the memory that each of them certainly has.
    """
    held = held_of(job, node_of, cluster)
    held = {node: one for node, one in held.items() if one.cores > 0}
    if not held:
        return None
    cores = gcd(*(one.cores for one in held.values()))
    tasks = {node: one.cores // cores for node, one in held.items()}
    mb = min(one.memory_mb // tasks[node] for node, one in held.items()) if how.memory else 0
    less = sum(one.memory_mb - tasks[node] * mb for node, one in held.items()) if how.memory else 0
    devices = devices_of(job, len(held), cluster, how)
    of_nodes = set(map(gres, (*job.gres, *job.gres_total)))
    if set(tasks.values()) != {1}:
        devices = {COUNTED: {name: count for name, count in devices.get(COUNTED, {}).items() if name not in of_nodes}}
    demand = Demand(sum(tasks.values()), cores, mb, devices)
    asked = made(job, demand, how, job.id, 0)
    return RunningTasks(asked, {names[node]: count for node, count in sorted(tasks.items())}, less)
