"""For policies of one's own on tiers of memory: what a cluster of pools can give a server, and a frame for them.

A data centre with tiers, and what servers ask of it, come as the arrays that allocators take.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import ClassVar, SupportsIndex

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError, PolicyError
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import LENDER, Lease
from unrack.ledger.state import RUNNING
from unrack.policy.placement.contract import Room
from unrack.policy.pools.own import Placed
from unrack.policy.tiers.cluster_kernel import SLO, Clusters, choose_cluster
from unrack.sealed import sealed
from unrack.solver.servers import Asked, Supply, asked, least_prices
from unrack.view import View
from unrack.workload.job import CORES, MEMORY, JobTable
from unrack.workload.tier_asks import NO_CEILING, TierAsks, scaled_ceiling


def supply_of(cluster: Cluster) -> Supply:
    """Pools and clusters of a data centre; pool i is node i. A ClusterError if the data centre has no tiers."""
    tiers = cluster.tiers
    if tiers is None:
        want = "tiers of memory ([[tiers]] and a tier for every memory pool; see docs/tiers.md)"
        raise ClusterError(f"cluster {cluster.name}", "none", want)
    return Supply(
        cores=cluster.cores.copy(), mb=cluster.memory_mb.copy(), weight=tiers.cost, price=tiers.price, tier=tiers.tier,
        first=tiers.first, member=tiers.member, all_cores=cluster.cores, all_mb=cluster.memory_mb,
        domain=np.stack([cluster.level(level) for level in cluster.levels]),
    )  # fmt: skip


def check_products(supply: Supply, mb: int, where: str) -> None:
    """Refuse costs, prices and amounts of memory of which products do not fit into 64 bits."""
    weight, price = int(supply.weight.max(initial=0)), int(supply.price.max(initial=0))
    installed = np.add.reduceat(supply.all_mb[supply.member], supply.first[:-1]) if supply.clusters else supply.all_mb
    most = max(mb, int(installed.max(initial=0)))
    if weight * most >= NO_CEILING:
        raise ClusterError(f"{where}, cost of a tier", f"{weight} for each of {most} MB", "less than 2**53 together")
    if price * max(int(supply.all_mb.sum()), weight) >= 2**62:
        raise ClusterError(f"{where}, price of a tier", f"{price}, too large to be added up", "a smaller one")


def in_numbers(cluster: Cluster, jobs: JobTable, meets: bool = True) -> Asked:
    """What a task of each job asks in the numbers of a data centre with tiers; it forbids tiers that are there.

    ``meets``: False: whatever its SLOs say.
    """
    tiers, slo = cluster.tiers, jobs.slo
    assert tiers is not None
    forbidden = np.zeros((len(jobs), len(tiers.names)), np.bool_)
    floor, ceiling = np.zeros(len(jobs), np.int64), np.full(len(jobs), NO_CEILING, np.int64)
    if slo is not None:
        floor, ceiling = (slo.floor_mb, slo.ceiling_mb) if meets else (floor, ceiling)
        for row, tier in enumerate(slo.tier_names):
            if tier in tiers.names:
                forbidden[:, tiers.names.index(tier)] = slo.forbidden[:, row]
    ceiling = scaled_ceiling(ceiling, tiers.cost_scale)
    return asked(jobs.cores, jobs.memory_mb, floor, ceiling, tiers=len(tiers.names), forbidden=forbidden)


def check_names(slo: TierAsks, cluster: Cluster) -> None:
    """Refuse servers that name what a data centre with tiers does not have.

    An InputError if a server forbids a tier, or is spread over a level, that is not there.
    """
    tiers = cluster.tiers
    assert tiers is not None
    for row, tier in enumerate(slo.tier_names):
        if slo.forbidden[:, row].any() and tier not in tiers.names:
            raise InputError("workload, forbidden", f"the unknown tier {tier!r}", _one_of(tiers.names))
    for spread in slo.spread_names:
        if spread not in cluster.levels:
            raise InputError("workload, spread", repr(spread), _one_of(cluster.levels))


def _one_of(names: tuple[str, ...]) -> str:
    return f"one of {', '.join(names[:20])}{' …' if len(names) > 20 else ''}"


ANY = -1
"""In place of a cluster: any."""


@dataclass(frozen=True, eq=False)
class Offer:
    """What a cluster of pools can give a server now, within its SLOs and at the lowest price.

    Attributes
    ----------
    cluster
        Its number.
    mb : int64[pools]
        From each pool of the cluster, the compute pool first.
    price_per_h
        Of that memory.
    lease
        To start the server so.
    """

    cluster: int
    mb: Ints
    price_per_h: float
    lease: Lease


def offer(view: View, job: SupportsIndex, cluster: int) -> Offer | None:
    """The cheapest memory within a server's SLOs that a cluster of pools has free.

    Parameters
    ----------
    view
        On a cluster with tiers.
    job
        A job of one task, or its number.
    cluster
        From 0 to ``view.cluster.tiers.clusters - 1``.

    Returns
    -------
    Offer or None
        None: it has too few cores, no such memory, or shares a failure domain with a replica that runs.
    """
    tiers, job, free = view.cluster.tiers, index(job), view.columns.free
    assert tiers is not None
    found = found_for(view, clusters_of(view.cluster, SLO), job, Room(free[0], free, free[1]), cluster)
    if found is None:
        return None
    pools, mb = found
    price = int(mb @ tiers.price[pools]) / tiers.price_scale / 1024
    return Offer(cluster, mb, price, lease_of(job, int(view.asks[CORES, job]), pools, mb))


def clusters_of(cluster: Cluster, rule: int, most: int | None = None) -> Clusters:
    """The clusters of pools of a data centre with tiers, as kernels take them."""
    tiers = cluster.tiers
    assert tiers is not None
    return Clusters(
        rule, ANY if most is None else most, tiers.first, tiers.member, cluster.cores, cluster.memory_mb, tiers.cost,
        tiers.price, tiers.tier, tiers.cost_scale, np.ones(len(cluster), np.bool_),
    )  # fmt: skip


def found_for(view: View, clusters: Clusters, job: int, room: Room, only: int) -> tuple[Ints, Ints] | None:
    """The pools of the cluster for a server, and MB of each; ``None``: there is none. ``only``: in no other; or ANY."""
    near, slo = near_replicas(view, job), view.slo_of(job)
    floor, ceiling = (0, NO_CEILING) if slo is None else (slo.floor_mb, slo.ceiling_mb)
    cores, mb = view.asks[[CORES, MEMORY], job].tolist()
    parts = np.zeros(int(np.diff(clusters.first).max()), np.int64)
    found = choose_cluster(
        clusters._replace(online=view.columns.online), sealed(room.free), (room.cores >= cores) & ~near,
        barred(view, job, near), cores, mb, floor, scaled_ceiling(ceiling, clusters.scale), only, parts,
    )  # fmt: skip
    if found < 0:
        return None
    pools = clusters.member[clusters.first[found] : clusters.first[found + 1]]
    return pools, parts[: len(pools)]


def lease_of(job: int, cores: int, pools: Ints, mb: Ints) -> Lease:
    """The lease of a server: its cores and local memory on the compute pool, loans from the other pools.

    Parameters
    ----------
    pools, mb : int64[pools]
        The pools of its cluster, the compute pool first, and how much it has of each.
    """
    far = np.flatnonzero(mb[1:]) + 1
    loans = np.empty((len(far), 3), np.int64)
    loans[:, 0], loans[:, 1], loans[:, 2] = pools[0], pools[far], mb[far]
    return Lease(job, np.array([[pools[0], 1, 1, cores, mb[0]]], np.int64), loans)


def barred(view: View, job: int, near: Bools) -> Bools:
    """bool[nodes]: which a server must have no memory of: those of tiers that it forbids, and those near replicas."""
    tiers, slo = view.cluster.tiers, view.slo_of(job)
    assert tiers is not None
    if slo is None or not slo.forbidden:
        return near
    return np.asarray(near | np.array([name in slo.forbidden for name in tiers.names])[tiers.tier])


def near_replicas(view: View, job: int) -> Bools:
    """bool[nodes]: which share a failure domain with a running replica of a server, of the level of its group."""
    found = np.zeros(len(view.cluster), np.bool_)
    slo = view.slo
    if slo is None or slo.spread[job] < 0:
        return found
    domain = view.cluster.level(slo.spread_names[slo.spread[job]])
    for mate in np.flatnonzero((slo.group == slo.group[job]) & (view.status == RUNNING)).tolist():
        lease = view.lease(mate)
        used = domain[np.concatenate([lease.rows[:, 0], lease.borrowed[:, LENDER]])]
        found |= np.isin(domain, used[used >= 0])
    return found


class OnTiers(Placed):
    """Goes through the queue in an order and starts every server that ``place`` finds a place for, on tiers of memory.

    Parameters are those of :class:`unrack.policy.pools.own.Placed`; ``place`` is best made of :func:`offer`.
    """

    lends: ClassVar[bool] = True
    tiers: ClassVar[bool] = True

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which servers have a place within their SLOs in the empty data centre; it has tiers."""
        return possible_servers(cluster, jobs, True)


def possible_servers(cluster: Cluster, jobs: JobTable, meets: bool) -> Bools:
    """bool[jobs]: which servers have a place in an empty data centre with tiers; ``meets``: within their SLOs.

    Errors as of :func:`check_names`; or costs, prices and memory are too large together.
    """
    supply = supply_of(cluster)
    check_products(supply, int(jobs.memory_mb.max(initial=0)), "workload")
    if jobs.slo is not None:
        check_names(jobs.slo, cluster)
    return least_prices(supply, in_numbers(cluster, jobs, meets)) >= 0


def refuse_others(label: str, cluster: Cluster, jobs: JobTable) -> None:
    """Raise a ``PolicyError`` for a data centre without tiers, or jobs that are no servers.

    A refusal is a PolicyError. An InputError if a server names a tier, or a level of failure domains, that the data
    centre does not have.
    """
    if cluster.tiers is None:
        want = "a cluster with [[tiers]] of memory (docs/tiers.md)"
        raise PolicyError(f"policy {label}", f"cluster {cluster.name!r} without tiers", want)
    many = np.flatnonzero(jobs.tasks != 1)
    if len(many):
        got = f"job {jobs.ids[int(many[0])]} of {jobs.tasks[many[0]]} tasks"
        raise PolicyError(f"policy {label}", got, "servers: jobs of one task")
    if jobs.slo is not None:
        check_names(jobs.slo, cluster)
