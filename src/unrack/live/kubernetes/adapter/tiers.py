"""Which pods may be stopped for which others, by their priorities: as qualities of service of a site."""

from __future__ import annotations

from typing import Any, NamedTuple

from unrack.live.driver.state.epoch import Spec, policy_of
from unrack.live.kubernetes.client.objects import Pod
from unrack.policy.around import AroundAnother
from unrack.policy.preemption.preempting import Preempting

MOST = 64
"""How many tiers there may be: pods of more preempt no others, and are not preempted."""
NEVER = "Never"


class Tier(NamedTuple):
    """Pods of one priority, and whether they may preempt those of a lower one."""

    priority: int
    may: bool

    @property
    def name(self) -> str:
        """What its quality of service is called."""
        return f"priority{self.priority}{'' if self.may else '-never'}"


def tier_of(pods: tuple[Pod, ...]) -> Tier:
    """The tier of a pod, or of a gang: the lowest of its pods, and it preempts only if all of these may."""
    least = min(pod.spec.priority or 0 for pod in pods)
    return Tier(least, all(pod.spec.preemption_policy != NEVER for pod in pods))


def keys_of(tiers: frozenset[Tier]) -> dict[str, Any]:
    """The keys of a site in which pods of these tiers are stopped for pods of higher ones."""
    qos = [
        {"name": one.name, "preempts": [other.name for other in sorted(tiers) if one.may and other[0] < one[0]]}
        for one in sorted(tiers)
    ]
    return {"qos": qos, "preempt": {"by": "qos", "mode": "requeue", "victims": "lowest"}} if tiers else {}


def preempts(spec: Spec) -> bool:
    """True if the policy stops jobs for others: its parameter ``preempt``."""
    policy: Any = policy_of(spec)
    while isinstance(policy, AroundAnother):
        if isinstance(policy, Preempting):
            return policy.on
        policy = policy.inner
    return False
