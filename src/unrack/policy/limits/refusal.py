"""Where limits of run time are not shortened."""

from __future__ import annotations

from typing import Any

from unrack.errors import InputError, PolicyError
from unrack.policy.around.around import innermost
from unrack.policy.contract import Estimates, Policy
from unrack.policy.discipline.conservative import Conservative
from unrack.policy.discipline.list_scheduler import ListScheduler
from unrack.policy.discipline.slurm_like import SlurmLike
from unrack.policy.limits.extending import Extending
from unrack.policy.limits.shortening import Shortening
from unrack.policy.members import traits_of
from unrack.policy.sizing.sizing import Sizing
from unrack.resources.places import is_resource
from unrack.workload.job import JobTable
from unrack.workload.site.components import components_of
from unrack.workload.sizing.least import COLUMN


def backfills(policy: Policy[Any]) -> bool:
    """Whether jobs may pass others under a policy."""
    return getattr(innermost(policy), "backfill", "easy") != "none"


def check_stopping(policy: Policy[Any], jobs: JobTable) -> None:
    """Refuse what does not go with jobs that are stopped at their limits.

    A PolicyError or InputError names the first.
    """
    where, inner = "jobs that are stopped at their limits (site.over_time, extension)", policy
    if isinstance(inner, Shortening):
        inner = inner.inner
    for why, wrong in (
        ("chooses or changes sizes", isinstance(inner, Sizing)),
        ("changes the memory of running jobs", traits_of(policy).monitor_us > 0),
        ("knows how long jobs run, whatever they ask", traits_of(policy).estimates == Estimates.EXACT),
    ):
        if wrong:
            raise PolicyError(where, f"{policy.name}, which {why}", "another policy, or neither")
    extends = isinstance(inner, Extending)
    for got, wrong in (
        ("jobs of known use of memory", jobs.usage is not None),
        ("extension, and jobs with pooled devices", extends and any(not is_resource(kind) for kind, _ in jobs.devices)),
    ):
        if wrong:
            raise InputError(where, got, "either, not both")


def shortening(policy: Policy[Any], jobs: JobTable) -> Policy[Any]:
    """The policy with shorter limits for some of these jobs; without where no job passes others.

    A PolicyError or InputError if it is none of those that limits are shortened under, or the jobs have what does not
    go with it.
    """
    for got, wrong in (
        ("heterogeneous jobs", bool(components_of(jobs))),
        ("jobs of known use of memory", jobs.usage is not None),
    ):
        if wrong:
            raise InputError(f"workload, {COLUMN}", got, "either, not both")
    inner = innermost(policy)
    if isinstance(policy, Sizing) or not isinstance(inner, ListScheduler | Conservative | SlurmLike):
        want = "a list, EASY, conservative or Slurm-like one, without molding or resizing"
        raise PolicyError(f"policy {policy.name}", f"a workload with {COLUMN}", want)
    if traits_of(policy).estimates == Estimates.EXACT:
        raise PolicyError(
            f"policy {policy.name}", f"{COLUMN}, and exact estimates", "requested ones, or no such column"
        )
    return Shortening(policy) if backfills(policy) else policy
