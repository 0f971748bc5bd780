"""Tiers of memory: what a MB of each pool counts and costs, and which pools form a cluster with which compute pool.

A compute pool is a node with cores; its memory is the local tier. A memory pool is a node without cores. A *cluster* is
a compute pool with the memory pools that its servers may use; a pool may be in several clusters, which then share it.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, sections 4.1 and 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, FiniteFloat

from unrack.errors import ClusterError
from unrack.kernels.arrays import Ints
from unrack.resources.checked import Strict, node_ids
from unrack.sealed import Sealed

if TYPE_CHECKING:
    from unrack.cluster.file import ClusterFile
    from unrack.cluster.spec import Cluster

LOCAL = 0
"""The tier of compute pools: the first one."""
DECIMALS = 6
"""Most decimals of a cost or price."""


def _plain_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number")
    if 0 < value < 10**-DECIMALS:
        raise ValueError(f"0, or a number from 1e-{DECIMALS} up")
    if isfinite(value) and _decimals(value) > DECIMALS:
        raise ValueError(f"a number with at most {DECIMALS} decimals")
    return value


def _decimals(value: float) -> int:
    """How many decimals a number is written with."""
    return max(-int(Decimal(str(value)).normalize().as_tuple().exponent), 0)


Number = Annotated[FiniteFloat, BeforeValidator(_plain_number), Field(ge=0, le=10**9)]


class TierFile(Strict):
    """A ``[[tiers]]`` table of a cluster file; the first one is the local tier."""

    name: str = Field(min_length=1)  # what a memory pool's ``tier`` says
    cost: Number = 0  # what a MB counts towards a server's ceiling of remote memory; 0 of the local tier
    price: Number = 0  # of a GB for an hour, in any currency


@dataclass(frozen=True, eq=False)
class Tiers(Sealed):
    """The tiers of a data centre, and its clusters."""

    names: tuple[str, ...]  # of the tiers; the first is the local one
    # cost, price: int64[nodes]: Of a MB of each node's memory, in units of ``1 / cost_scale`` and ``1 /
    # price_scale``. The price is of MB as the tier's is of GB: divide by 1024 for the price of an hour.
    cost: Ints
    price: Ints
    # cost_scale, price_scale: powers of ten that make every cost and price whole
    cost_scale: int
    price_scale: int
    tier: Ints  # int64[nodes]: index into ``names``
    # int64[clusters + 1]: the pools of cluster c are the nodes ``member[first[c]:first[c + 1]]``: its compute pool,
    # then the others in ascending order of cost
    first: Ints
    member: Ints  # int64[members]
    cluster_names: tuple[str, ...] = ()  # what each cluster is called; empty: by its number

    @property
    def clusters(self) -> int:
        """How many clusters there are."""
        return len(self.first) - 1

    @cached_property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """(compute pool, memory pool) of one cluster: the pools of which a server may have memory."""
        lengths = np.diff(self.first)
        compute = np.repeat(self.member[self.first[:-1]], lengths)
        return frozenset(zip(compute.tolist(), self.member.tolist(), strict=True))

    def identity(self) -> bytes:
        """What tells these tiers from others."""
        columns = (self.cost, self.price, self.tier, self.first, self.member)
        text = repr((self.names, self.cost_scale, self.price_scale, self.cluster_names))
        return text.encode() + b"".join(column.astype("<i8").tobytes() for column in columns)

    def pools(self, cluster: int) -> Ints:
        """int64[members]: the nodes of a cluster, its compute pool first."""
        return self.member[self.first[cluster] : self.first[cluster + 1]]

    def priced(self, units: int) -> int | float:
        """A sum of prices in units of 1 / ``price_scale`` as a plain number."""
        return scaled(units, self.price_scale)


def whole(values: Sequence[float]) -> tuple[list[int], int]:
    """Numbers with up to six decimals as whole ones, and the power of ten that they were multiplied with.

    Examples
    --------
    >>> whole([0, 1.5, 2.25])
    ([0, 150, 225], 100)
    """
    exact = [Decimal(str(value)) for value in values]
    scale = 10 ** min(max(map(_decimals, values), default=0), DECIMALS)
    return [int((number * scale).to_integral_value()) for number in exact], scale


def scaled(value: int, scale: int) -> int | float:
    """A whole number of units of 1 / scale as a plain number."""
    return value // scale if value % scale == 0 else value / scale


def make_tiers(
    names: Sequence[str],
    costs: Sequence[float],
    prices: Sequence[float],
    tier: Ints,
    clusters: Sequence[Sequence[int]] | Ints,
    cores: Ints,
    where: str,
    cluster_names: tuple[str, ...] = (),
) -> Tiers:
    """Tiers from their costs and prices, the tier of each node, and the nodes of each cluster in any order.

    A ClusterError if a cluster does not have exactly one node with cores, or has a node twice; or the local tier has a
    cost.
    """
    cost, cost_scale = whole(costs)
    price, price_scale = whole(prices)
    cost_of, price_of = np.array(cost, np.int64)[tier], np.array(price, np.int64)[tier]
    lengths = np.array([len(cluster) for cluster in clusters], np.int64)
    first = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = (
        clusters.reshape(-1)
        if isinstance(clusters, np.ndarray)
        else np.array([node for cluster in clusters for node in cluster], np.int64)
    )
    of = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    order = np.lexsort((np.arange(len(flat)), cost_of[flat], cores[flat] == 0, of))
    member = flat[order].astype(np.int64)
    computing = np.bincount(of, weights=cores[member] > 0, minlength=len(lengths)).astype(np.int64)
    by_node = np.lexsort((member, of))
    twice = (of[by_node][1:] == of[by_node][:-1]) & (member[by_node][1:] == member[by_node][:-1])
    if (computing != 1).any():
        at = int(np.argmax(computing != 1))
        raise ClusterError(f"{where}.{at}", f"{computing[at]} pools with cores", "exactly one, and memory pools")
    if twice.any():
        at = int(of[by_node][1:][twice][0])
        raise ClusterError(f"{where}.{at}", f"pool {member[by_node][1:][twice][0]} twice", "different pools")
    local = member[first[:-1]]
    if cost_of[local].any():
        at = int(np.argmax(cost_of[local] > 0))
        raise ClusterError(
            f"{where}.{at}", "a compute pool with a cost of memory", "cost 0: the ceiling is of remote memory only"
        )
    return Tiers(tuple(names), cost_of, price_of, cost_scale, price_scale, tier, first, member, cluster_names)


def build_tiers(file: ClusterFile, cores: Ints, where: str) -> Tiers | None:
    """The tiers of a cluster file; ``None`` where it has none.

    A ClusterError if something about them does not fit together; it is named with its key.
    """
    if not file.tiers:
        given: list[tuple[str, object]] = [("pool_clusters", file.pool_clusters)]
        for index, pool in enumerate(file.memory_pools):
            given += [(f"memory_pools.{index}.{key}", getattr(pool, key)) for key in ("tier", "shared_by")]
        for key, value in given:
            if value is not None:
                raise ClusterError(f"{where}, {key}", "this key", "it only beside [[tiers]]")
        return None
    names = [tier.name for tier in file.tiers]
    for index, tier in enumerate(file.tiers):
        if tier.name in names[:index]:
            raise ClusterError(f"{where}, tiers.{index}.name", repr(tier.name), "a different name for each tier")
    if file.tiers[LOCAL].cost:
        want = "0: the first tier is the compute pools', and the ceiling is of remote memory only"
        raise ClusterError(f"{where}, tiers.0.cost", f"{file.tiers[LOCAL].cost:g}", want)
    tier_of: Ints = np.zeros(len(cores), np.int64)
    start = file.computing
    clusters: list[list[int]] = [[node] for node in range(start)]
    for index, pool in enumerate(file.memory_pools):
        at = f"{where}, memory_pools.{index}"
        if pool.tier is None or pool.tier not in names[1:]:
            got = "nothing" if pool.tier is None else repr(pool.tier)
            raise ClusterError(f"{at}.tier", got, f"one of {', '.join(names[1:])}" if names[1:] else "a remote tier")
        tier_of[start : start + pool.count] = names.index(pool.tier)
        if file.pool_clusters is None:
            shared = pool.shared_by or 1
            if pool.count != -(-file.computing // shared):
                want = f"{-(-file.computing // shared)}: {file.computing} compute pools, {shared} to each"
                raise ClusterError(f"{at}.count", str(pool.count), f"{want} (or pool_clusters)")
            for node in range(file.computing):
                clusters[node].append(start + node // shared)
        start += pool.count
    if file.pool_clusters is not None:
        clusters = [
            [
                node
                for member in members
                for node in node_ids(str(member).removeprefix("node"), len(cores), f"{where}, pool_clusters.{index}")
            ]
            for index, members in enumerate(file.pool_clusters)
        ]
    return make_tiers(
        names, [tier.cost for tier in file.tiers], [tier.price for tier in file.tiers], tier_of, clusters, cores,
        f"{where}, pool_clusters",
    )  # fmt: skip


def names_of_clusters(cluster: Cluster) -> tuple[str, ...]:
    """What each cluster of pools is called: its name, or its number."""
    tiers = cluster.tiers
    assert tiers is not None
    return tiers.cluster_names or tuple(str(index) for index in range(tiers.clusters))


def installed_mb(cluster: Cluster) -> dict[str, int]:
    """MB of each tier of a cluster with tiers, in their order."""
    tiers = cluster.tiers
    assert tiers is not None
    return {name: int(cluster.memory_mb[tiers.tier == tier].sum()) for tier, name in enumerate(tiers.names)}


def tiers_record(cluster: Cluster) -> dict[str, Any]:
    """The tiers of a cluster that has some, for ``run.json``.

    ``names``, ``cost``, ``price`` and ``installed_mb`` have an entry a tier (a tier without pools: 0); ``of_nodes``:
    (nodes, tier) of every run of nodes of one tier; ``clusters``: the nodes of each, the compute pool first, and
    ``cluster_names``, where they have names; the two scales make costs and prices whole.
    """
    tiers = cluster.tiers
    assert tiers is not None
    count = len(tiers.names)
    cost, price = np.zeros(count, np.int64), np.zeros(count, np.int64)
    cost[tiers.tier], price[tiers.tier] = tiers.cost, tiers.price
    first = np.flatnonzero(np.diff(tiers.tier, prepend=-1))
    lengths = np.diff(np.append(first, len(cluster)))
    return {
        "names": list(tiers.names),
        "cost": (cost / tiers.cost_scale).tolist(),
        "price": (price / tiers.price_scale).tolist(),
        "installed_mb": list(installed_mb(cluster).values()),
        "cost_scale": tiers.cost_scale,
        "price_scale": tiers.price_scale,
        "of_nodes": np.stack([lengths, tiers.tier[first]], axis=1).tolist(),
        "clusters": [tiers.pools(index).tolist() for index in range(tiers.clusters)],
        **({"cluster_names": list(tiers.cluster_names)} if tiers.cluster_names else {}),
    }


def tiers_again(kept: Mapping[str, Any] | None) -> Tiers | None:
    """The tiers that :func:`tiers_record` has written; ``None``: there were none."""
    if kept is None:
        return None
    runs = np.array(kept["of_nodes"], np.int64)
    tier = np.repeat(runs[:, 1], runs[:, 0])
    cost, price = (
        np.rint(np.array(kept[name]) * kept[f"{name}_scale"]).astype(np.int64)[tier] for name in ("cost", "price")
    )
    lengths = [len(nodes) for nodes in kept["clusters"]]
    return Tiers(
        tuple(kept["names"]),
        cost,
        price,
        kept["cost_scale"],
        kept["price_scale"],
        tier,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.array([node for nodes in kept["clusters"] for node in nodes], np.int64),
        tuple(kept.get("cluster_names", ())),
    )
