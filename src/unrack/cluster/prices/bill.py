"""What a cluster costs, line by line."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from unrack.cluster.prices.prices import FREE, Price, Prices
from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.errors import ClusterError

GPU = "gpu"


class Item(NamedTuple):
    """A line of a bill."""

    what: str  # in words
    amount: float  # how many, or how many GB
    price: Price  # of each
    total: float  # of all over the years, in the currency


class Bill(NamedTuple):
    """What a cluster costs."""

    items: tuple[Item, ...]  # everything that has a price
    unpriced: tuple[str, ...]  # what there is that has none, in words: it counts as nothing
    prices: Prices  # by which

    @property
    def total(self) -> float:
        """Over the years: to buy, to keep and to power, in the currency."""
        return math.fsum(item.total for item in self.items)

    @property
    def capex(self) -> float:
        """To buy it all, in the currency."""
        return math.fsum(item.amount * item.price.capex for item in self.items)

    @property
    def per_hour(self) -> float:
        """To keep and to power it, in the currency an hour."""
        return (self.total - self.capex) / self.prices.hours

    @property
    def watts(self) -> float:
        """What the machines draw, without the site's overhead."""
        return math.fsum(item.amount * item.price.watts for item in self.items)

    def record(self) -> dict[str, Any]:
        """As a table of plain values."""
        lines = [
            {"what": item.what, "amount": item.amount, **item.price.model_dump(), "total": item.total}
            for item in self.items
        ]
        return {
            "currency": self.prices.currency, "years": self.prices.years, "total": self.total, "capex": self.capex,
            "per_hour": self.per_hour, "watts": self.watts, "items": lines, "unpriced": list(self.unpriced),
            "source": self.prices.source, "preset": self.prices.preset,
        }  # fmt: skip


def bill_of(cluster: Cluster, prices: Prices) -> Bill:
    """What a cluster costs by prices; prices of what it does not have are left out.

    Examples
    --------
    >>> bill = bill_of(Cluster.homogeneous(2, 32, "128 GB"), Prices(node=10_154, memory_gb=10))
    >>> [(item.what, item.amount) for item in bill.items], bill.total
    ([('nodes', 2), ('GB of memory', 256.0)], 22868.0)
    """
    counts: Lines = [*_nodes(cluster, prices), ("cores", cluster.total_cores, prices.core), *_memory(cluster, prices)]
    counts += [(kind, count, prices.devices.get(kind)) for kind, count in devices_of(cluster).items()]
    counts += [(name, count, prices.counted.get(name)) for name, count in counted_of(cluster).items()]
    counts += [("racks", len(cluster.rack_names), prices.rack), ("site", 1, prices.site)]
    items = [
        Item(what, count, price, count * prices.total(price))
        for what, count, price in counts
        if count and price is not None and price != FREE
    ]
    return Bill(tuple(items), tuple(what for what, count, price in counts if count and price is None), prices)


def check_prices(prices: Prices, clusters: Iterable[Cluster], where: str) -> None:
    """Refuse a price by name of what no cluster has; presets have prices of more than one cluster needs.

    A ClusterError if there is one.
    """
    if prices.preset:
        return
    found: dict[str, dict[str, None]] = {"classes": {}, "tiers": {}, "devices": {}, "counted": {}}
    for cluster in clusters:
        found["classes"].update(dict.fromkeys(cluster.class_names))
        found["tiers"].update(dict.fromkeys(() if cluster.tiers is None else cluster.tiers.names))
        found["devices"].update(dict.fromkeys(devices_of(cluster)))
        found["counted"].update(dict.fromkeys(counted_of(cluster)))
    for key, there in found.items():
        for name in getattr(prices, key):
            if name not in there:
                want = f"one of {', '.join(there)}" if there else f"no such price, as there are no {key}"
                raise ClusterError(f"{where}, {key}.{name}", "a price of what is not there", want)


Lines = list[tuple[str, float, Price | None]]


def _nodes(cluster: Cluster, prices: Prices) -> Lines:
    counts = np.bincount(cluster.node_class, minlength=len(cluster.class_names))
    pools = np.bincount(cluster.node_class[cluster.cores == 0], minlength=len(cluster.class_names))
    own: Lines = []
    nodes = memory = 0
    for name, count, without in zip(cluster.class_names, counts.tolist(), pools.tolist(), strict=True):
        if name in prices.classes:
            own.append((f"nodes of {name}", count, prices.classes[name]))
        else:
            nodes, memory = nodes + count - without, memory + without
    return [("nodes", nodes, prices.node), *own, ("memory pools", memory, prices.memory_pool)]


def _memory(cluster: Cluster, prices: Prices) -> Lines:
    counted = cluster.memory_mb != UNCOUNTED_MB
    gb = np.where(counted, cluster.memory_mb, 0) / 1024
    left = np.ones(len(cluster), np.bool_)
    found: Lines = [] if counted.all() else [("memory of nodes where it is not counted", 1, None)]
    if cluster.tiers is not None:
        for index, name in enumerate(cluster.tiers.names):
            if name in prices.tiers:
                of_tier = cluster.tiers.tier == index
                left &= ~of_tier
                found.append((f"GB of {name}", float(gb[of_tier].sum()), prices.tiers[name]))
    pool_gb = prices.memory_gb if prices.memory_pool_gb is None else prices.memory_pool_gb
    computing = cluster.cores > 0
    found.append(("GB of memory", float(gb[computing & left].sum()), prices.memory_gb))
    return [*found, ("GB in memory pools", float(gb[~computing & left].sum()), pool_gb)]


def devices_of(cluster: Cluster) -> dict[str, int]:
    """Kind → how many devices there are, GPUs of machines among them."""
    counts = dict.fromkeys(cluster.devices.kinds, 0)
    for pool in cluster.devices.pools:
        counts[pool.kind] += pool.count
    for part in cluster.places.parts:
        if part.name == "gpus":
            counts[GPU] = counts.get(GPU, 0) + part.amounts["milli"] // 1000
    return counts


def counted_of(cluster: Cluster) -> dict[str, int]:
    """Counted resource → how much there is of it."""
    return next((dict(part.amounts) for part in cluster.places.parts if part.name == "counted"), {})
