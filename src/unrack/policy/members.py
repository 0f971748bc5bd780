"""What the members of a policy say: its traits where it declares none, and whether its rounds can be told."""

from __future__ import annotations

from typing import Any

from unrack.policy.contract import Estimates, Traits
from unrack.policy.orders import reads_of
from unrack.policy.rounds import Rounds
from unrack.vocabulary import Need

PLACED = {"lends": Need.LOANS, "tiers": Need.TIERS, "devices": Need.DEVICES, "claims": Need.COUNTED}
"""Members of a policy → what it places if they are true."""


def traits_of(found: object) -> Traits:
    """The traits of a policy, or what its members say."""
    own = getattr(found, "traits", None)
    return own if isinstance(own, Traits) else said_by_members(found)


def said_by_members(found: object) -> Traits:
    """What the members of a policy say; one that names no order is taken to look at priorities."""
    order = getattr(found, "order", None)
    reads = frozenset({Need.PRIORITIES}) if order is None else reads_of(order, getattr(found, "backfill_order", None))
    return Traits(
        needs=frozenset(getattr(found, "needs", ())),
        places=frozenset(need for member, need in PLACED.items() if getattr(found, member, False)),
        reads=reads | ({Need.RACKS} if getattr(found, "near", False) is True else frozenset()),
        estimates=Estimates(getattr(found, "estimates", Estimates.REQUESTED)),
        whole_nodes=getattr(found, "nodes", "shared") == "whole",
        stepwise=bool(getattr(found, "stepwise", False)),
        learns=bool(getattr(found, "learns", False)),
    )


def told_rounds(policy: object, memory: Any) -> tuple[Rounds[Any], Any] | None:
    """The policy, or the one inside it, that can tell its rounds, and its memory; ``None``: there is none."""
    if isinstance(policy, Rounds):
        return policy, memory
    inner = getattr(policy, "inner", None)
    if getattr(policy, "headroom", 0):  # it takes back starts that the policy inside has counted
        return None
    return None if inner is None else told_rounds(inner, getattr(memory, "inner", memory))
