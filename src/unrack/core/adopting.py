"""What jobs that others started hold of limits and kept licences, beside what is said of them."""

from __future__ import annotations

import numpy as np

from unrack.ledger.lease import NODES, TASKS, Lease, summed, together
from unrack.ledger.state import ClusterState
from unrack.resources.places import PLACE


def counting(state: ClusterState, lease: Lease) -> Lease:
    """A lease of a job, with what it counts for in limits and kept licences now in place of what is said of that."""
    claimed = state.claimed
    if claimed is None:
        return lease
    parts = [
        part for part in claimed.places.parts
        if part.installed.limits or any(part.places.start <= one < part.places.stop for one in claimed.places.kept)
    ]  # fmt: skip
    if not parts:
        return lease
    if lease.parts:
        return together(lease.job, [counting(state, part) for part in lease.parts])
    asked, limits, kept = np.zeros(len(claimed.asked), np.int64), np.zeros(len(claimed.free), np.bool_), lease.claims
    for part in parts:
        asked[part.quantities] = claimed.asked[part.quantities, lease.job]
        limits[part.places] = True
    if not asked.any() and not limits[kept[:, PLACE]].any():
        return lease
    own = claimed.places.claims(asked, lease.nodes, np.repeat(lease.rows[:, TASKS], lease.rows[:, NODES]), claimed.free)
    return lease._replace(claims=summed(np.concatenate([kept[~limits[kept[:, PLACE]]], own])))
