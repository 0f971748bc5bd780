"""The slowdowns that what a cluster has brings about by itself, and those of plug-ins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.plugins.table import Table
from unrack.resources.table import resource_of
from unrack.slowdown.contract import Slowdown
from unrack.workload.job import JobTable

Maker = Callable[[Cluster, JobTable], Slowdown | None]


def _of_others(name: str, found: Any) -> Maker:
    if not callable(found):
        raise InputError(f"the slowdown {name}", f"{found!r:.100}", "a function: (cluster, jobs) -> Slowdown | None")
    made: Maker = found
    return made


SLOWDOWNS: Table[Maker] = Table("slowdowns", {}, _of_others)
"""Name → what makes the slowdown of a cluster and its jobs, or none where it can change nothing."""


def by_resource(cluster: Cluster, jobs: JobTable) -> list[Slowdown]:
    """The slowdowns by what the cluster has, then those of the plug-ins in use."""
    made: list[Slowdown | None] = [resource_of(name).slowdown(cluster, jobs) for name in cluster.places.installed]
    made += [make(cluster, jobs) for make in SLOWDOWNS.taking_part().values()]
    return [found for found in made if found is not None]
