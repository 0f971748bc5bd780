"""For how long jobs run on beyond their limits before they are stopped: ``over_time`` of a site and its partitions."""

from __future__ import annotations

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Ints
from unrack.resources.site.installed import Site
from unrack.units import NEVER_US
from unrack.workload.job import JobTable
from unrack.workload.site.settled import said_by


def graces_us(cluster: Cluster, jobs: JobTable, always: bool) -> Ints | None:
    """int64[jobs]: for how long each may overrun its limit, µs; ``NEVER_US``: it is not stopped.

    ``None``: no job is stopped. A job of several partitions has the longest of theirs. ``cluster``, ``jobs``: as they
    are before they are settled; ``always``: whether jobs are stopped at their limits where nothing is said.
    """
    site, none = cluster.places.installed.get("site"), 0 if always else NEVER_US
    if not isinstance(site, Site) or not says_over_time(site):
        return np.zeros(len(jobs), np.int64) if always else None
    usual = none if site.file.over_time is None else site.file.over_time
    own = {one.name: usual if one.over_time is None else one.over_time for one in site.file.partitions}
    default = next((one.name for one in site.file.partitions if one.default), "")
    found = {}
    for text in set(said := said_by(jobs, cluster).partition):
        names = [name.strip() for name in (text or default).split(",")]
        found[text] = max((own[name] for name in names if name in own), default=usual)
    return np.array([found[text] for text in said], np.int64)


def says_over_time(site: Site) -> bool:
    """Whether a site says when jobs are stopped that overrun their limits."""
    return site.file.over_time is not None or any(one.over_time is not None for one in site.file.partitions)
