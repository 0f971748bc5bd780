"""What is counted of servers on tiers of memory: SLOs that are missed, prices, and use of the clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.solver import Asked, Supply
from unrack_papers.reproduction import Numbers
from unrack_papers.servers.problem import Allocation

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RESOURCES = ("cores", "memory", "local", "rack", "distant")
"""Of which use is measured: of the cores; of all memory; and of that of each tier."""
MISSES = ("local", "remote", "either", "both")
"""Which SLO is missed."""
OUTCOMES = ("overpriced", "same price", "cheaper")
"""How a server's price stands to that under the constraint allocator."""
SETS = ("all", "met", "missed")
"""All servers; those whose SLOs first fit met; those whose it missed."""


class Slos(NamedTuple):
    """Which servers miss which SLO.

    Attributes
    ----------
    local, remote : bool[servers]
        Too little memory is local; too much is too remote. A server that is not placed misses neither.
    """

    local: Bools
    remote: Bools

    @property
    def met(self) -> Bools:
        """bool[servers]: neither is missed."""
        return ~(self.local | self.remote)

    def numbers(self) -> Numbers:
        """``missed.local`` …: the share of all servers, for each of :data:`MISSES`."""
        found = (self.local, self.remote, self.local | self.remote, self.local & self.remote)
        return {f"missed.{name}": float(one.mean()) for name, one in zip(MISSES, found, strict=True)}


def pools_of(supply: Supply, allocation: Allocation) -> Ints:
    """int64[servers, width]: the pools of each server's cluster; the first cluster's for those without one."""
    first = supply.first[np.maximum(allocation.cluster, 0)]
    found: Ints = supply.member[first[:, None] + np.arange(supply.width)]
    return found


def of_slos(supply: Supply, asks: Asked, allocation: Allocation) -> Slos:
    """Which servers miss an SLO (equations 1 and 2 of the paper)."""
    there = allocation.cluster >= 0
    weighted = (allocation.mb * supply.weight[pools_of(supply, allocation)]).sum(axis=1)
    return Slos(there & (allocation.mb[:, 0] < asks.floor), there & (weighted > asks.ceiling))


def prices_of(supply: Supply, allocation: Allocation) -> Ints:
    """int64[servers]: MB x price of a GB, summed over the pools; 0 where a server is not placed."""
    found: Ints = (allocation.mb * supply.price[pools_of(supply, allocation)]).sum(axis=1)
    return found


def of_prices(supply: Supply, allocation: Allocation, base: Allocation, met: Bools) -> Numbers:
    """Prices beside those of a base.

    Parameters
    ----------
    supply
        The data centre.
    allocation, base
        Of the same servers.
    met : bool[servers]
        Whose SLOs first fit met.

    Returns
    -------
    dict
        ``price``: of all servers, MB x price of a GB; ``all.overpriced`` …: for each of :data:`SETS` and
        :data:`OUTCOMES` the share of all servers.
    """
    own, other = prices_of(supply, allocation), prices_of(supply, base)
    sets = dict(zip(SETS, (np.ones(len(met), np.bool_), met, ~met), strict=True))
    outcomes = dict(zip(OUTCOMES, (own > other, own == other, own < other), strict=True))
    values: Numbers = {"price": float(own.sum())}
    for which, inside in sets.items():
        values |= {f"{which}.{name}": float((inside & outcome).mean()) for name, outcome in outcomes.items()}
    return values


def of_uses(supply: Supply, asks: Asked, allocation: Allocation, base: Allocation) -> Numbers:
    """Use of cores and memory.

    Parameters
    ----------
    supply
        The data centre: each cluster has a pool of each tier, in order.
    asks
        The servers.
    allocation, base
        Of these servers. Use is taken over the clusters that the allocation uses, and over as many as the base does.

    Returns
    -------
    dict
        ``clusters``; ``distant_pools``: those of the clusters in use; ``cores`` …: for each of :data:`RESOURCES` the
        share in use over the clusters in use; ``same.cores`` …: over as many clusters as the base uses;
        ``of.cores.0`` …: of each cluster, fullest first. A shared pool's use is that of each of its clusters.
    """
    used = np.flatnonzero(np.bincount(allocation.cluster[allocation.cluster >= 0], minlength=supply.clusters))
    as_many = np.arange(len(np.unique(base.cluster[base.cluster >= 0])))
    members = supply.member.reshape(supply.clusters, supply.width)
    pools = pools_of(supply, allocation)
    there = allocation.cluster >= 0
    cores = np.bincount(pools[there, 0], asks.cores[there], len(supply.mb))
    memory = np.bincount(pools[there].ravel(), allocation.mb[there].ravel(), len(supply.mb))
    values: Numbers = {"clusters": float(len(used)), "distant_pools": float(len(np.unique(members[used, -1])))}
    for before, clusters in (("", used), ("same.", as_many)):
        own = [np.unique(members[clusters, tier]) for tier in range(supply.width)]
        shares = [_share(cores, supply.cores, own[0]), _share(memory, supply.mb, np.concatenate(own))]
        shares += [_share(memory, supply.mb, one) for one in own]
        values |= {f"{before}{name}": share for name, share in zip(RESOURCES, shares, strict=True)}
    each = [cores[members[:, 0]] / supply.cores[members[:, 0]]]
    each += [memory[members].sum(axis=1) / supply.mb[members].sum(axis=1)]
    each += [memory[members[:, tier]] / supply.mb[members[:, tier]] for tier in range(supply.width)]
    for name, shares_of in zip(RESOURCES, each, strict=True):
        ordered = np.sort(shares_of[used])[::-1].tolist()
        values |= {f"of.{name}.{rank}": share for rank, share in enumerate(ordered)}
    return values


def _share(used: NDArray[np.float64] | Ints, there: Ints, pools: Ints) -> float:
    return float(used[pools].sum() / there[pools].sum())
