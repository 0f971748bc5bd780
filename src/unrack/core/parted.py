"""Starts that can be made together, and those that cannot."""

from __future__ import annotations

from unrack.ledger.leases import on_nodes_alone
from unrack.policy.contract import Decision, Start

MANY = 32
"""From how many starts on nodes alone on it is worth while to do them together."""


def parted(decisions: list[Decision]) -> tuple[list[Decision], list[Start]]:
    """Of a plan that only starts jobs those that hold more than nodes, and the others if they are many."""
    starts = [decision for decision in decisions if type(decision) is Start]
    if len(starts) < max(MANY, len(decisions)):
        return decisions, []
    alone = [on_nodes_alone(start.lease) for start in starts]
    if sum(alone) < MANY:
        return decisions, []
    others: list[Decision] = [start for start, plain in zip(starts, alone, strict=True) if not plain]
    return others, [start for start, plain in zip(starts, alone, strict=True) if plain]
