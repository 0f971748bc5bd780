"""What no policy could beat: the fewest missed deadlines, and the least mean response, of a workload on a cluster.

The cluster is relaxed to a fat node: all cores, and all devices of a kind, in one place that every job reaches, without
latency or overhead; jobs may be interrupted and spread at will, and each runs as fast, or as cheaply, as its deadline
and the models allow. Of each resource (see :mod:`unrack.metric.least_spending`) a job on time must spend its least
between submission and deadline; how many jobs that allows is bounded by :func:`unrack.solver.late.fewest_late`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unrack.cluster.pools.pool import Pace, no_pace
from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Ints
from unrack.metric.least_spending import resources
from unrack.solver.late import fewest_late, least_response
from unrack.units import SECOND_US
from unrack.workload.job import JobTable

SLIP_US = 1
"""How much sooner than its speed says a job may end by rounding, when its speed changes."""


@dataclass(frozen=True)
class Bound:
    """What no policy could beat.

    Attributes
    ----------
    jobs
        How many jobs were counted.
    late
        At least so many of them miss their deadline.
    certain
        How many of those would miss it even alone.
    late_by_resource
        Resource → how many of the others must miss it because of that resource alone; ``late`` takes the largest.
    response_s
        The least mean response time if all the jobs that fit the cluster run; ``None`` without such jobs.
    """

    jobs: int
    late: int
    certain: int
    late_by_resource: Mapping[str, int]
    response_s: float | None

    @property
    def share(self) -> float | None:
        """Part of the jobs counted that must miss their deadline, 0 to 1; ``None`` without jobs."""
        return self.late / self.jobs if self.jobs else None


def bound(
    cluster: Cluster,
    jobs: JobTable,
    fastest_us: Ints,
    pace: Pace | None = None,
    *,
    work_us: Ints | None = None,
    window_us: tuple[int, int] | None = None,
) -> Bound:
    """The fewest missed deadlines and the least mean response that any policy could reach.

    Parameters
    ----------
    fastest_us : int64[jobs]
        Run time at the best speed that the hardware and the models allow.
    pace
        The models' speeds, as the run has them; ``None``: every job runs its base time.
    work_us : int64[jobs]
        What jobs have to do, µs at speed 1; default: what they have left when the run begins.
    window_us
        Count only the jobs submitted in this window (both ends included). The others may be put off, so the bound on
        the jobs of the window alone holds.
    """
    work = jobs.left_us if work_us is None else work_us
    pace = no_pace(cluster.devices, len(jobs)) if pace is None else pace
    if window_us is not None:
        rows = np.flatnonzero((jobs.submit_us >= window_us[0]) & (jobs.submit_us <= window_us[1]))
        jobs, work, fastest_us = jobs.take(rows), work[rows], fastest_us[rows]
        pace = pace._replace(model=np.ascontiguousarray(pace.model[:, rows]))
    fastest = np.where((pace.model >= 0).any(axis=0), np.maximum(fastest_us - SLIP_US, 0), fastest_us)
    limit = np.where(jobs.deadline_us < 0, np.inf, jobs.deadline_us - jobs.submit_us + float(SLIP_US))
    strict = resources(cluster, jobs, work, fastest, pace, limit)
    found = fewest_late(jobs.submit_us, jobs.deadline_us, fastest, strict.energy, strict.capacity)
    late = {name: int(count) for name, count in zip(strict.names, found.by_resource, strict=True)}
    patient = resources(cluster, jobs, work, fastest, pace)
    fits = np.isfinite(patient.energy).all(axis=0)
    response = float(fastest[fits].sum(dtype=np.float64))
    for energy, capacity in zip(patient.energy, patient.capacity, strict=True):
        response = max(response, least_response(jobs.submit_us[fits], energy[fits] / capacity))
    mean = response / int(fits.sum()) / SECOND_US if fits.any() else None
    return Bound(len(jobs), found.total, found.certain, late, mean)
