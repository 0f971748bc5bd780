"""The ideal that data centres are held against: one fat node that pools everything there is.

On it nothing is fragmented or out of reach. Jobs start in order of arrival, none passes another, and each runs for its
base time as soon as all it asks for is free. The load that results does not depend on any policy.

References
----------
A. Call, thesis (UPC 2022): section 4.4.2 and equation 4.6 (as printed it is the inverse of the load factor).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, check_kinds
from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints
from unrack.workload.job import JobTable

_UNLIMITED = 2**62


@dataclass(frozen=True, eq=False)
class FatNode:
    """A fat node and what became of the jobs on it."""

    capacity: Mapping[str, int]  # all there is: ``cores``, ``memory_mb`` where it is counted, and ``KIND.QUANTITY``
    # start_us, end_us: int64[jobs]: when each job ran; -1 = it asks for more than there is, and was left out
    start_us: Ints
    end_us: Ints


@dataclass(frozen=True, eq=False)
class LoadFactor:
    """A load over time."""

    time_us: Ints  # int64[steps]: when it changes, ascending
    load: Floats  # float64[steps]: from then until the next change; 1 = all there is
    mean: float  # over the time from the first to the last submission; 0 if that is no time


def pooled(cluster: Cluster) -> dict[str, int]:
    """All there is of each resource of a cluster: ``cores``, ``memory_mb`` where it is counted, ``KIND.QUANTITY``."""
    capacity = {"cores": cluster.total_cores}
    if (memory := cluster.total_mb) is not None:
        capacity["memory_mb"] = memory
    devices = cluster.devices
    for code, kind in enumerate(devices.kinds):
        for row, quantity in enumerate(devices.quantities[code]):
            capacity[f"{kind}.{quantity}"] = int(devices.capacity[row, devices.kind == code].sum())
    return capacity


def fat_node(cluster: Cluster, jobs: JobTable) -> FatNode:
    """Run jobs on the ideal fat node of a cluster: first come first served, each for its base time.

    Jobs that ask for more than all there is, or for a kind of device that there is none of, are left out.
    O((jobs + running) log running).

    Parameters
    ----------
    cluster
        Its cores, memory and device quantities are pooled.
    jobs
        In order of arrival, as tables are.

    Raises
    ------
    InputError
        An argument is of another kind: the workload in place of its jobs, for example.
    """
    check_kinds("fat_node", cluster=(cluster, Cluster), jobs=(jobs, JobTable))
    capacity = pooled(cluster)
    asked = _asked(jobs)
    for resource, amounts in asked.items():
        if "." in resource and resource not in capacity and bool(amounts.any()):
            capacity[resource] = 0
    start_us, end_us = run_fat_node(capacity, jobs.submit_us, jobs.left_us, jobs.tasks, asked)
    return FatNode(capacity, start_us, end_us)


def _asked(jobs: JobTable) -> dict[str, Ints]:
    asked = {"cores": jobs.cores, "memory_mb": jobs.memory_mb}
    return asked | {f"{kind}.{quantity}": amounts for (kind, quantity), amounts in jobs.devices.items()}


def run_fat_node(
    capacity: Mapping[str, int], submit_us: Ints, work_us: Ints, tasks: Ints, asked: Mapping[str, Ints]
) -> tuple[Ints, Ints]:
    """Starts and ends (int64[jobs], µs, -1 = too big) on a fat node of jobs in order of submission.

    ``capacity``: resource → all there is; what is not named is not limited. ``asked``: resource → int64[jobs], for each
    task.
    """
    limits = [min(capacity[resource], _UNLIMITED) for resource in asked if resource in capacity]
    demand = np.zeros((len(submit_us), len(limits)), np.int64)
    for column, resource in enumerate(resource for resource in asked if resource in capacity):
        fits = asked[resource] <= limits[column] // tasks  # else the product may pass 64 bits
        demand[:, column] = np.where(fits, asked[resource] * tasks, limits[column] + 1)
    return _first_come(
        np.ascontiguousarray(submit_us), np.ascontiguousarray(work_us), demand, np.array(limits, np.int64)
    )


def load_factor(
    cluster: Cluster,
    jobs: JobTable,
    ideal: FatNode | None = None,
    *,
    of: str = "cores",
    counting: Literal["active", "running"] = "active",
) -> LoadFactor:
    """The load that jobs put on the ideal fat node of a cluster, over time (equation 4.6, the right way up).

    Parameters
    ----------
    cluster, jobs
        As in :func:`fat_node`.
    ideal
        What :func:`fat_node` gave of them, if it is at hand.
    of
        The resource: ``cores``, ``memory_mb``, or ``KIND.QUANTITY``; one that the cluster counts.
    counting
        ``"active"``: jobs that arrived and have not completed; the load may pass 1. ``"running"``: without those that
        wait; the load is at most 1.

    Raises
    ------
    InputError
        The cluster has, or counts, none of that resource.
    """
    ideal = fat_node(cluster, jobs) if ideal is None else ideal
    if ideal.capacity.get(of, 0) == 0:
        raise InputError("load factor of", repr(of), f"one of {', '.join(ideal.capacity)}")
    there = ideal.end_us >= 0
    asked = _asked(jobs)[of] if of in _asked(jobs) else np.zeros(len(jobs), np.int64)
    amounts = (asked * jobs.tasks)[there]
    begin = (jobs.submit_us if counting == "active" else ideal.start_us)[there]
    ends = ideal.end_us[there]
    times, places = np.unique(np.concatenate([begin, ends]), return_inverse=True)
    change = np.zeros(len(times), np.int64)
    np.add.at(change, places, np.concatenate([amounts, -amounts]))
    capacity = ideal.capacity[of]
    mean = mean_held(begin, ends, amounts, jobs.submit_us) / capacity
    return LoadFactor(times, np.cumsum(change) / capacity, mean)


def mean_held(begin_us: Ints, end_us: Ints, amounts: Ints, submit_us: Ints) -> float:
    """The mean of the amounts held in [begin, end), over the time from the first to the last submission."""
    if not len(submit_us) or submit_us[-1] == submit_us[0]:
        return 0.0
    first, last = submit_us[0], submit_us[-1]
    held_us = np.maximum(np.minimum(end_us, last) - np.maximum(begin_us, first), 0)
    return float((held_us * amounts.astype(np.float64)).sum() / (last - first))


def window_us(cluster: Cluster, jobs: JobTable, threshold: float = 0.7) -> tuple[int, int] | None:
    """The window in which the papers measure: from when the system is loaded to the last submission, in µs.

    Parameters
    ----------
    cluster, jobs
        As in :func:`fat_node`.
    threshold
        The CPU load factor (of active jobs) on the ideal that starts the window.

    Returns
    -------
    tuple of int, or None
        ``None``: the load is never reached, or only at the last submission.
    """
    factor = load_factor(cluster, jobs)
    reached = np.flatnonzero(factor.load >= threshold)
    if not len(reached):
        return None
    begin, last = int(factor.time_us[reached[0]]), int(jobs.submit_us[-1])
    return (begin, last) if begin < last else None


@compiled
def _first_come(submit: Ints, work: Ints, demand: Ints, capacity: Ints) -> tuple[Ints, Ints]:
    """First come, first served (int64[jobs]), each as soon as all that it asks for (int64[jobs, resources]) is free.

    Starts and ends, int64[jobs]; -1 = more than the capacity (int64[resources]), left out.
    """
    jobs, resources = demand.shape
    start = np.full(jobs, -1, np.int64)
    end = np.full(jobs, -1, np.int64)
    running = [(0, 0)]  # ends and jobs, a heap; a first entry tells the compiler its type
    running.pop()
    free = capacity.copy()
    now = 0
    for job in range(jobs):
        fits = True
        for r in range(resources):
            fits = fits and demand[job, r] <= capacity[r]
        if not fits:
            continue
        now = max(now, submit[job])
        while True:
            while len(running) > 0 and running[0][0] <= now:
                _, done = heappop(running)
                for r in range(resources):
                    free[r] += demand[done, r]
            fits = True
            for r in range(resources):
                fits = fits and demand[job, r] <= free[r]
            if fits:
                break
            now = running[0][0]
        for r in range(resources):
            free[r] -= demand[job, r]
        start[job] = now
        end[job] = now + work[job]
        heappush(running, (end[job], job))
    return start, end
