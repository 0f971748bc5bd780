"""What jobs that change their size do not go with, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError
from unrack.ledger.changing.sizes import Sizes
from unrack.policy.around.around import innermost
from unrack.policy.contract import Policy
from unrack.policy.discipline.conservative import Conservative
from unrack.policy.discipline.slurm_like import SlurmLike
from unrack.policy.members import traits_of
from unrack.policy.rounds import Rounds
from unrack.policy.sizing.sizing import Sizing
from unrack.resources.places import is_resource
from unrack.resources.power.installed import Power
from unrack.resources.site.installed import COUNTS, QUANTITIES
from unrack.workload.job import JobTable
from unrack.workload.site.components import components_of


def sized(policy: Policy[Any], rules: Mapping[str, Any], where: str) -> Sizing:
    """A policy with sizes chosen or changed by some rules.

    A PolicyError if that does not go with what the policy is.
    """
    traits, keys = traits_of(policy), " and ".join(rules)
    for why, wrong in (
        ("places servers of one task in tiers of memory", traits.tiers),
        ("learns run times from jobs that had other sizes", traits.learns),
        ("changes the memory of running jobs", traits.monitor_us > 0),
        ("classes jobs by their size when they come", isinstance(innermost(policy), Rounds)),
        ("turns away who has no place", getattr(innermost(policy), "wait", True) is False),
        ("promises starts that jobs which shrink would delay",
         "resizing" in rules and isinstance(innermost(policy), Conservative | SlurmLike)),
        ("lends memory, which jobs that grow would need as well", "resizing" in rules and traits.lends),
    ):  # fmt: skip
        if wrong:
            raise PolicyError(f"{where}, {keys}", f"a policy that {why}", "another policy, or none of these keys")
    return Sizing(policy, **rules)


def check_sizes(policy: Sizing, cluster: Cluster, told: JobTable, jobs: JobTable, sizes: Mapping[int, Sizes]) -> None:
    """Refuse jobs of several sizes with what counts by their own size alone.

    ``cluster``: on which they are to run; ``told``, ``jobs``: the jobs as the trace has them, and as they are on the
    cluster. An InputError names the first job.
    """
    several = np.array([job for job, one in sizes.items() if len(one.tasks) > 1], np.int64)
    if jobs.usage is not None and len(several):
        raise InputError("workload", "jobs of several sizes whose use of memory is known by task", "either, not both")
    power = cluster.places.installed.get("power")
    if policy.resizing and isinstance(power, Power) and power.file.switch_off is not None:
        got = "resizing, and nodes that are switched off: who grows would have to wait until they are on"
        raise InputError("power.switch_off", got, "either, not both")
    parts = {row for rows in components_of(jobs).values() for row in rows}
    counts = jobs.devices.get(("site", QUANTITIES[COUNTS]))
    devices = np.zeros(len(jobs), np.bool_)
    for (kind, _), amounts in jobs.devices.items():
        devices |= (amounts > 0) & (not is_resource(kind))
    for job in several.tolist():
        where = f"job {jobs.ids[job]}, sizes"
        if job in parts:
            raise InputError(where, "several sizes of a component of a heterogeneous job", "one size of each component")
        if jobs.tasks[job] != told.tasks[job]:
            raise InputError(where, "several sizes in a partition of whole nodes", "tasks that are counted as they are")
        if counts is not None and counts[job]:
            got = "several sizes under limits or kept licences, which count a job by its own size"
            raise InputError(where, got, "one size, or no limits of its partition, account and quality of service")
        if policy.resizing and sizes[job].changes and devices[job]:
            got = "pooled devices, which a running job cannot exchange"
            raise InputError(where, got, "flexibility moldable for it, or a policy without resizing")
