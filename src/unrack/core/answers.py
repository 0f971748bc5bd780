"""What a policy answers: starts that can be made together, and those that cannot; when it wants to be asked next."""

from __future__ import annotations

from typing import Any

import numpy as np

from unrack.errors import RefusedError
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


def wanted_us(wanted: Any, name: str, now: int) -> int:
    """When the policy of that name wants to be asked next, µs.

    A RefusedError if that is not after ``now``, or no time.
    """
    if not isinstance(wanted, int | np.integer) or isinstance(wanted, bool):
        got = f"{wanted!r:.100} ({type(wanted).__name__})"
        raise RefusedError(f"policy {name} asks for a round at {got}, which is no time in whole µs")
    if wanted <= now:
        raise RefusedError(f"policy {name} asks for a round at {wanted} µs, and it is {now} µs")
    return int(wanted)
