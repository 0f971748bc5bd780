"""A cluster and jobs made ready for each other: what jobs say in words becomes numbers that the cluster knows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.kernels.arrays import Ints
from unrack.resources.contract import Nodes
from unrack.resources.places import Places
from unrack.resources.site.binding import Binding, Said
from unrack.resources.site.installed import QUANTITIES, Site
from unrack.workload.job import JobTable

COLUMNS = {
    "account": ("account",),
    "qos": ("qos",),
    "partition": ("partition", "queue"),
    "features": ("constraint", "constraints"),
    "nodes": ("req_nodes",),
    "without": ("exc_nodes",),
    "array": ("array",),
}
"""What a site looks at → the columns of jobs that may say it; the first that says anything counts."""
NOTHING = ("", "-1", "(null)", "None", "N/A")


def settled(cluster: Cluster, jobs: JobTable) -> tuple[Cluster, JobTable]:
    """The cluster as the jobs of a run see it, and the jobs as it sees them.

    On a cluster with a ``site``, jobs ask for where they may run and for what they count for; on any cluster, members
    of arrays count for the limits of these. Elsewhere nothing changes.

    Raises
    ------
    InputError
        No job names a partition that the cluster has, though some name others.
    """
    site = cluster.places.installed.get("site")
    if ("site", QUANTITIES[0]) in jobs.devices or not (isinstance(site, Site) or _numbers(jobs, "array_limit").any()):
        return cluster, jobs
    if not isinstance(site, Site):
        site = Site({}, Nodes(cluster.cores, cluster.memory_mb, cluster.rack, cluster.rack_names), "site")
    said = said_by(jobs)
    _check_partitions(site, said)
    binding = Binding(site, said)
    installed = {**cluster.places.installed, "site": binding.bound()}
    columns = binding.where, binding.counts, binding.whose
    asks = {("site", name): column for name, column in zip(QUANTITIES, columns, strict=True)}
    places = Places(installed, cluster.places.nodes)
    return replace(cluster, places=places), replace(jobs, devices={**jobs.devices, **asks})


def said_by(jobs: JobTable) -> Said:
    """What jobs say that a site looks at."""
    user = np.array([*jobs.user_names, ""], object)[jobs.user].tolist()
    text = {name: _text(jobs, columns) for name, columns in COLUMNS.items()}
    totals = {f"{kind}.{name}": amounts * jobs.tasks for (kind, name), amounts in jobs.devices.items()}
    return Said(
        user, **text, array_limit=_numbers(jobs, "array_limit"), nice=_numbers(jobs, "nice"), tasks=jobs.tasks,
        cores=jobs.cores, mb=jobs.memory_mb, request_us=jobs.request_us, totals=totals,
    )  # fmt: skip


def _text(jobs: JobTable, columns: tuple[str, ...]) -> list[str]:
    for name in columns:
        if name in jobs.extra.columns:
            said = jobs.extra[name].cast(pl.String).fill_null("").str.strip_chars()
            said = said.set(said.is_in(NOTHING), "")
            if bool((said != "").any()):
                return said.to_list()
    return [""] * len(jobs)


def _numbers(jobs: JobTable, name: str) -> Ints:
    if name not in jobs.extra.columns:
        return np.zeros(len(jobs), np.int64)
    found = jobs.extra[name].cast(pl.Int64, strict=False).fill_null(0)
    return np.ascontiguousarray(found.to_numpy())


def _check_partitions(site: Site, said: Said) -> None:
    named = sorted({name.strip() for text in set(said.partition) for name in text.split(",") if name.strip()})
    if site.partitions and named and not any(name in site.partitions for name in named):
        got = f"jobs of {', '.join(map(repr, named[:8]))}{' …' if len(named) > 8 else ''}"
        raise InputError("site.partitions", got, f"some of {', '.join(site.partitions)}")
