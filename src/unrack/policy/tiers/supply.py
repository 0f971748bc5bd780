"""A data centre with tiers, and what servers ask of it, as the arrays that allocators take."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError
from unrack.kernels.arrays import Bools, Ints
from unrack.solver.servers.least_price import least_prices
from unrack.solver.servers.problem import NOWHERE, Asked, Supply, asked
from unrack.workload.tier_asks import NO_CEILING, TierAsks, scaled_ceiling


def supply_of(cluster: Cluster) -> Supply:
    """Pools and clusters of a data centre; pool i is node i. A ClusterError if the data centre has no tiers."""
    tiers = cluster.tiers
    if tiers is None:
        want = "tiers of memory ([[tiers]] and a tier for every memory pool; see docs/tiers.md)"
        raise ClusterError(f"cluster {cluster.name}", "none", want)
    return Supply(
        cores=cluster.cores.copy(),
        mb=cluster.memory_mb.copy(),
        weight=tiers.cost,
        price=tiers.price,
        tier=tiers.tier,
        first=tiers.first,
        member=tiers.member,
        domain=np.stack([cluster.level(level) for level in cluster.levels]),
        all_cores=cluster.cores,
        all_mb=cluster.memory_mb,
    )


def check_products(supply: Supply, mb: int, where: str) -> None:
    """Refuse costs, prices and amounts of memory of which products do not fit into 64 bits."""
    weight, price = int(supply.weight.max(initial=0)), int(supply.price.max(initial=0))
    installed = np.add.reduceat(supply.all_mb[supply.member], supply.first[:-1]) if supply.clusters else supply.all_mb
    most = max(mb, int(installed.max(initial=0)))
    if weight * most >= NO_CEILING:
        raise ClusterError(f"{where}, cost of a tier", f"{weight} for each of {most} MB", "less than 2**53 together")
    if price * max(int(supply.all_mb.sum()), weight) >= 2**62:
        raise ClusterError(f"{where}, price of a tier", f"{price}, too large to be added up", "a smaller one")


def asked_of_jobs(cores: Ints, mb: Ints, slo: TierAsks | None, cluster: Cluster) -> Asked:
    """What the jobs of a workload, servers of one task each, ask in the numbers of a data centre.

    ``cores``, ``mb``: int64[jobs], cores, and MB; ``slo``: what they ask of tiers; ``None``: nothing. Errors as of
    :func:`check_names`; or costs, prices and memory are too large together.
    """
    check_products(supply_of(cluster), int(mb.max(initial=0)), "workload")
    if slo is not None:
        check_names(slo, cluster)
    return in_numbers(cores, mb, slo, cluster)


def in_numbers(
    cores: Ints, mb: Ints, slo: TierAsks | None, cluster: Cluster, most_clusters: int | None = None
) -> Asked:
    """The same of jobs that have been checked."""
    tiers = cluster.tiers
    assert tiers is not None
    most = NOWHERE if most_clusters is None else most_clusters
    if slo is None:
        none = np.full(len(cores), NO_CEILING, np.int64)
        return asked(cores, mb, 0 * none, none, tiers=len(tiers.names), most_clusters=most)
    forbidden = np.zeros((len(cores), len(tiers.names)), np.bool_)
    for index, tier in enumerate(slo.tier_names):
        if slo.forbidden[:, index].any():
            forbidden[:, tiers.names.index(tier)] = slo.forbidden[:, index]
    level_of = np.array([*(cluster.levels.index(spread) for spread in slo.spread_names), NOWHERE], np.int64)
    level = level_of[slo.spread]
    return asked(
        cores,
        mb,
        slo.floor_mb,
        scaled_ceiling(slo.ceiling_mb, tiers.cost_scale),
        tiers=len(tiers.names),
        forbidden=forbidden,
        group=np.where(level >= 0, slo.group, NOWHERE),
        level=level,
        most_clusters=most,
    )


def check_names(slo: TierAsks, cluster: Cluster) -> None:
    """Refuse servers that name what a data centre with tiers does not have.

    An InputError if a server forbids a tier, or is spread over a level, that is not there.
    """
    tiers = cluster.tiers
    assert tiers is not None
    for index, tier in enumerate(slo.tier_names):
        if slo.forbidden[:, index].any() and tier not in tiers.names:
            raise InputError("workload, forbidden", f"the unknown tier {tier!r}", _one_of(tiers.names))
    for spread in slo.spread_names:
        if spread not in cluster.levels:
            raise InputError("workload, spread", repr(spread), _one_of(cluster.levels))


def could_hold(supply: Supply, asks: Asked, meets: bool) -> Bools:
    """bool[servers]: which have a place in the empty data centre; ``meets``: within the SLOs."""
    if not meets:
        asks = replace(asks, floor=np.zeros_like(asks.floor), ceiling=np.full_like(asks.ceiling, NO_CEILING))
    return least_prices(supply, asks) >= 0


def _one_of(names: tuple[str, ...]) -> str:
    return f"one of {', '.join(names[:20])}{' …' if len(names) > 20 else ''}"
