"""What the members of a policy say: its traits where it declares none, and whether its rounds can be told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from unrack.plugins.code import is_own
from unrack.policy.contract import Ability, Estimates, Policy, Traits
from unrack.policy.orders import learns_of, reads_of
from unrack.policy.rounds import Rounds
from unrack.vocabulary import Need

PLACED = {"lends": Need.LOANS, "tiers": Need.TIERS, "devices": Need.DEVICES, "claims": Need.COUNTED}
"""Members of a policy → what it places if they are true."""


def traits_of(found: object) -> Traits:
    """The traits of a policy, with the optional methods that a class of a user's adds; or what its members say."""
    own = getattr(found, "traits", None)
    if not isinstance(own, Traits):
        return said_by_members(found)
    added = {ability for kind in type(found).__mro__ if is_own(kind) for ability in Ability if ability in vars(kind)}
    return replace(own, does=own.does | added) if added else own


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
        learns=bool(getattr(found, "learns", False)) or learns_of(order, getattr(found, "backfill_order", None)),
        does=abilities_of(found),
    )


def abilities_of(found: object) -> frozenset[Ability]:
    """The optional methods that an object has: looked for once, where a policy declares nothing."""
    return frozenset(ability for ability in Ability if callable(getattr(found, ability, None)))


def seeded(policy: Policy[Any], seed: int) -> Policy[Any]:
    """A copy of a policy that draws from a seed; the policy itself if it draws nothing."""
    if Ability.SEEDED not in traits_of(policy).does:
        return policy
    copy: Policy[Any] = policy.seeded(seed)  # type: ignore[attr-defined]  # it declares that it has the method
    return copy


@runtime_checkable
class Around(Protocol):
    """A policy around another, such as one that changes memory as jobs use more and less of it."""

    def inside(self, memory: Any) -> tuple[object, Any] | None:
        """The other policy and its memory; ``None``: what it decides is not what is done."""
        ...


def told_rounds(policy: object, memory: Any) -> tuple[Rounds[Any], Any] | None:
    """The policy, or the one inside it, that can tell its rounds, and its memory; ``None``: there is none."""
    if isinstance(policy, Rounds):
        return policy, memory
    found = policy.inside(memory) if isinstance(policy, Around) else None
    return None if found is None else told_rounds(*found)
