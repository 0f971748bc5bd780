"""The slowdowns that what a cluster has brings about by itself: one line each."""

from __future__ import annotations

from collections.abc import Callable

from unrack.cluster.spec import Cluster
from unrack.slowdown.contract import Slowdown
from unrack.slowdown.gpus import GpuSpeeds
from unrack.slowdown.links import LinkSpeeds
from unrack.workload.job import JobTable

BY_RESOURCE: tuple[Callable[[Cluster, JobTable], Slowdown | None], ...] = (GpuSpeeds.of, LinkSpeeds.of)
"""Each makes the slowdown of a cluster and its jobs, or none where it can change nothing."""


def by_resource(cluster: Cluster, jobs: JobTable) -> list[Slowdown]:
    """The slowdowns by what the cluster has."""
    return [found for make in BY_RESOURCE if (found := make(cluster, jobs)) is not None]
