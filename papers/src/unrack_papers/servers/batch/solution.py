"""The answer to a batch of servers: where each is, how far from the best that can be, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unrack.jit import Bools, Ints
from unrack.solver import NOWHERE, Asked, Supply
from unrack_papers.servers.problem import Allocation


@dataclass(frozen=True, eq=False)
class Solution:
    """Servers placed, and how far from the best that can be.

    What counts, in this order: servers placed, clusters in use, price.

    Attributes
    ----------
    status
        ``"optimal"`` where all three equal their bounds, else ``"feasible"``.
    allocation
        Where each server is.
    unplaced : int64[any]
        Servers that were left out, ascending.
    clusters_used
        Clusters that hold a server or were busy before.
    price
        Of the memory of all placed servers.
    bound_unplaced
        At least so many servers must be left out.
    bound_clusters
        With as many servers placed, at least so many clusters are in use.
    bound_price
        With as many servers in as many clusters, at least this price.
    gap
        Share of the price above its bound; 0 where there is no price.
    cut
        Whether a time limit ended the search: on another run, or a busier machine, the answer may be another.
    wall_s
        Time it took, s. Without a time limit, the only part of an answer that differs from run to run.
    """

    status: str
    allocation: Allocation
    unplaced: Ints
    clusters_used: int
    price: int
    bound_unplaced: int
    bound_clusters: int
    bound_price: int
    cut: bool = False
    wall_s: float = field(default=0.0, compare=False)

    @property
    def gap(self) -> float:
        """Share of the price above its bound."""
        return (self.price - self.bound_price) / self.price if self.price > 0 else 0.0

    @property
    def answer(self) -> Allocation:
        """The allocation, by the name that every solver's answer has."""
        return self.allocation

    @property
    def objective(self) -> tuple[int, int, int]:
        """Servers left out, clusters in use, price: the less the better, the first counts most."""
        return len(self.unplaced), self.clusters_used, self.price

    @property
    def bound(self) -> tuple[int, int, int]:
        """A lower bound on :attr:`objective`."""
        return self.bound_unplaced, self.bound_clusters, self.bound_price


def price_of(supply: Supply, allocation: Allocation) -> int:
    """What the memory of all placed servers costs."""
    return int(prices(supply, allocation).sum())


def prices(supply: Supply, allocation: Allocation) -> Ints:
    """int64[servers]: what the memory of each costs; 0 where it is not placed."""
    return allocation.sums(supply, supply.price)


def objective(supply: Supply, allocation: Allocation, busy: Bools | None = None) -> tuple[int, int, int]:
    """Servers left out, clusters in use (``busy`` ones are), price: as :attr:`Solution.objective`."""
    used = np.zeros(supply.clusters, np.bool_) if busy is None else busy.copy()
    used[allocation.cluster[allocation.cluster >= 0]] = True
    return int((allocation.cluster < 0).sum()), int(used.sum()), price_of(supply, allocation)


def nowhere(supply: Supply, asked: Asked) -> Allocation:
    """No server placed."""
    return Allocation(np.full(len(asked), NOWHERE, np.int64), np.zeros((len(asked), supply.width), np.int64))


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
