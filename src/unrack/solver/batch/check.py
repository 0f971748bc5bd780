"""What is wrong with an allocation that somebody else made: of what servers ask, and of what pools have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unrack.solver.servers.problem import Allocation, Asked, Supply

Ints = NDArray[np.int64]


def first_fault(
    supply: Supply, asked: Asked, now: Allocation, ids: Sequence[object] | None = None
) -> tuple[str, str, str] | None:
    """The first thing wrong with an allocation: where, what is, and what should be; ``None``: all is well.

    How many clusters are in use is not looked at. ``ids``: what servers are called; default: by number.
    """
    called = range(len(asked)) if ids is None else ids
    holders: dict[tuple[int, int], int] = {}
    for i in np.flatnonzero(now.cluster >= 0).tolist():
        pools = supply.pools(int(now.cluster[i]))
        parts = now.mb[i, : len(pools)]
        wrong = _of_server(supply, asked, i, int(now.cluster[i]), parts)
        if wrong:
            return f"server {called[i]!r}", *wrong
        group, level = int(asked.group[i]), int(asked.level[i])
        if group < 0 or level < 0:
            continue
        for domain in np.unique(supply.domain[level, pools[(parts > 0) | (pools == pools[0])]]).tolist():
            other = holders.setdefault((group, domain), i)
            if other != i and domain >= 0:
                got = f"in failure domain {domain}, as server {called[other]!r} of its group"
                return f"server {called[i]!r}", got, "another domain"
    cores, mb = now.held(supply, asked.cores)
    for what, held, has in (("cores", cores, supply.cores), ("MB", mb, supply.mb)):
        if (held > has).any():
            pool = int(np.argmax(held > has))
            return f"pool {pool}", f"{held[pool]} {what} in use", f"at most the {has[pool]} it has"
    return None


def _of_server(supply: Supply, asked: Asked, i: int, cluster: int, parts: Ints) -> tuple[str, str] | None:
    """What is wrong with a server by itself: what is, and what should be."""
    pools = supply.pools(cluster)
    if asked.pinned[i] not in (-1, cluster):
        return f"in cluster {cluster}", f"in cluster {asked.pinned[i]}, to which it is pinned"
    if parts.min() < 0 or parts.sum() != asked.mb[i]:
        return f"{parts.tolist()} MB", f"{asked.mb[i]} MB"
    if parts[0] < asked.floor[i]:
        return f"{parts[0]} MB of local memory", f"at least the {asked.floor[i]} of its SLO"
    weighted = int(parts @ supply.weight[pools])
    if weighted > asked.ceiling[i]:
        return f"weighted remote memory of {weighted}", f"at most the {asked.ceiling[i]} of its SLO"
    tier = supply.tier[pools[parts > 0]]
    for used in tier[tier < asked.forbidden.shape[1]].tolist():
        if asked.forbidden[i, used]:
            return f"memory of tier {used}", "none of tiers that it forbids"
    return None
