"""What suspension does not go with."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError
from unrack.policy.around.around import AroundAnother, innermost, traits_of
from unrack.policy.contract import Policy
from unrack.policy.preemption.look import SUSPEND
from unrack.policy.preemption.preempting import Preempting, site_of
from unrack.policy.provisioning.dynamic import Dynamic
from unrack.policy.rounds import Rounds
from unrack.policy.sizing.sizing import Sizing
from unrack.workload.job import JobTable


def suspends(policy: Policy[Any], cluster: Cluster) -> bool:
    """Whether jobs may be suspended: a policy preempts, and some of the jobs of a bound site are to be by that mode."""
    while isinstance(policy, AroundAnother) and not isinstance(policy, Preempting | Dynamic):
        policy = policy.inner
    site = site_of(cluster)
    if not isinstance(policy, Preempting) or site is None or site.ranks is None:
        return False
    preempted = np.asarray(site.ranks.may.any(axis=0)).tolist()
    return any(some and mode == SUSPEND for some, mode in zip(preempted, site.ranks.mode, strict=True))


def check_suspending(policy: Policy[Any], jobs: JobTable, modelled: bool) -> None:
    """Refuse what suspended jobs do not go with.

    ``modelled``: whether models say how fast jobs run on devices. A PolicyError or InputError names the first.
    """
    inner, traits = innermost(policy), traits_of(policy)
    for why, wrong in (
        ("is asked in rounds of its own", isinstance(inner, Rounds)),
        ("changes the memory of running jobs", traits.monitor_us > 0),
        ("places servers in tiers of memory", traits.tiers),
        ("changes the sizes of running jobs", isinstance(policy, Sizing) and policy.resizing is not None),
    ):
        if wrong:
            want = "a list, EASY, conservative or Slurm-like one, preempt=no, or another mode"
            raise PolicyError("site.preempt, mode suspend", f"a policy that {why}", want)
    for got, wrong in (
        ("jobs whose use of memory is known", jobs.usage is not None),
        ("models of devices, whose speeds know no jobs that stand", modelled),
    ):
        if wrong:
            raise InputError("site.preempt, mode suspend", got, "none of these, or another mode")
