"""A ledger of which other amounts are free, and all else is shared with the one that it is made from."""

from __future__ import annotations

from unrack.ledger.copies.draft import Shown, twin_of
from unrack.ledger.state import ClusterState


def assumed(state: ClusterState) -> ClusterState:
    """A state with its own columns of what is free, which may be set; nothing may be started on it: O(nodes)."""
    twin = twin_of(state)
    twin.free = state.free.copy()
    if state.claimed is not None:
        twin.claimed = twin_of(state.claimed)
        twin.claimed.free = state.claimed.free.copy()
    if state.memory is not None:
        twin.memory = state.memory._replace(lent=state.memory.lent.copy())
    twin.seen = Shown(twin)
    return twin
