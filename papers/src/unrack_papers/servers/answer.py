"""Where the servers of a request are, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrack import Cluster
from unrack.jit import Ints
from unrack.solver import Asked, Supply
from unrack_papers.servers.batch.running.moves import Step
from unrack_papers.servers.problem import Allocation
from unrack_papers.servers.request import Request
from unrack_papers.torus import CoreSet


@dataclass(frozen=True, eq=False)
class PlacedServers:
    """Where the servers of a request are, and what that is worth.

    Attributes
    ----------
    policy
        The rule that placed them.
    cluster, request, asked, supply
        What was given.
    allocation
        Where each server is.
    reasons
        Server → why it has no place, or why it is where it is.
    bound
        No allocation of the placed servers that meets their SLOs costs less; in the unit of :attr:`price`.
    status
        ``"optimal"``: nothing places more servers, uses fewer clusters, or costs less in as many; ``"feasible"``: that
        is not proven; ``"one by one"``: not sought.
    bound_clusters
        As many servers need at least so many clusters; ``None``: not known.
    moves
        A repacking: servers that come (``before`` is -1), move, or have their memory split anew, in an order in which
        each step fits.
    copied_mb
        A repacking: memory that is copied.
    core_sets
        Server → which cores of its compute pool it has; ``None``: not asked for.
    cut
        Whether a time limit ended the search before its work was done: another run may have another answer.
    """

    policy: str
    cluster: Cluster
    request: Request
    asked: Asked
    supply: Supply
    allocation: Allocation
    reasons: Mapping[int, str]
    bound: int
    status: str = "one by one"
    bound_clusters: int | None = None
    moves: tuple[Step, ...] | None = None
    copied_mb: int = 0
    core_sets: Mapping[int, CoreSet] | None = None
    cut: bool = False

    def __repr__(self) -> str:
        servers, clusters = len(self.request), self.supply.clusters
        return (
            f"<PlacedServers {self.policy!r}: {servers:,} server{'s' * (servers != 1)} on {self.cluster.name!r}, "
            f"{len(self.unplaced):,} without a place, "
            f"{self.clusters_used:,} of {clusters:,} cluster{'s' * (clusters != 1)} used, {self.status}>"
        )

    @property
    def prices(self) -> Ints:
        """int64[servers]: price of each server's memory, MB times price of the tier, in units of the price scale."""
        return self.allocation.sums(self.supply, self.supply.price)

    @property
    def weights(self) -> Ints:
        """int64[servers]: weighted remote memory of each server, in units of the cost scale."""
        return self.allocation.sums(self.supply, self.supply.weight)

    @property
    def price(self) -> int:
        """Of all placed servers, in units of the price scale."""
        return int(self.prices.sum())

    @property
    def clusters_used(self) -> int:
        """Clusters that hold a server."""
        return len(np.unique(self.allocation.cluster[self.allocation.cluster >= 0]))

    @property
    def violations(self) -> dict[str, int]:
        """Placed servers with less local memory than their floor, and with more weighted memory than their ceiling."""
        there = self.allocation.cluster >= 0
        local = there & (self.allocation.mb[:, 0] < self.asked.floor)
        return {"local": int(local.sum()), "remote": int((there & (self.weights > self.asked.ceiling)).sum())}

    @property
    def unplaced(self) -> Ints:
        """int64[any]: servers without a place."""
        return np.flatnonzero(self.allocation.cluster < 0)

    def tier_mb(self) -> Ints:
        """int64[servers, tiers]: MB of each server in each tier."""
        tiers = self.cluster.tiers
        assert tiers is not None
        found = np.zeros((len(self.request), len(tiers.names)), np.int64)
        for servers, pools, mb in self.allocation.parts(self.supply):
            np.add.at(found, (servers, self.supply.tier[pools]), mb)
        return found

    def as_json(self) -> dict[str, Any]:
        """What ``unrack place --json`` prints; see ``docs/papers/servers.md``."""
        tiers = self.cluster.tiers
        assert tiers is not None
        names: tuple[str | int, ...] = tiers.cluster_names or tuple(range(tiers.clusters))
        ids = self.request.ids
        tier_mb = self.tier_mb().tolist()
        at, mb = self.allocation.cluster.tolist(), self.allocation.mb.tolist()
        lengths = np.diff(self.supply.first).tolist()
        prices = self.prices
        price = int(prices.sum())
        answer: dict[str, Any] = {
            "policy": self.policy,
            "price": tiers.priced(price),
            "price_per_hour": price / tiers.price_scale / 1024,
            "clusters_used": self.clusters_used,
            "clusters": tiers.clusters,
            "violations": self.violations,
            "unplaced": [ids[i] for i in self.unplaced],
            "bound": tiers.priced(self.bound),
            "bound_clusters": self.bound_clusters,
            "gap": (price - self.bound) / price if price > 0 else 0.0,
            "status": self.status,
            **({"cut": True} if self.cut else {}),
        }
        if self.moves is not None:
            answer["moves"] = [
                {
                    "id": ids[step.server],
                    "from": names[step.before] if step.before >= 0 else None,
                    "to": names[step.cluster],
                    "pools": np.asarray(step.mb)[: lengths[step.cluster]].tolist(),
                }
                for step in self.moves
            ]
            answer["copied_mb"] = self.copied_mb
        if self.core_sets is not None:
            sets = self.core_sets.values()
            answer["core_distance"] = sum(cores.distance for cores in sets)
            answer["core_distance_least"] = sum(cores.least for cores in sets)
            answer["cores_apart"] = sum(cores.apart for cores in sets)
        answer["servers"] = [
            {
                "id": ids[i],
                "cluster": names[at[i]] if at[i] >= 0 else None,
                "tiers": dict(zip(tiers.names, tier_mb[i], strict=True)),
                "pools": mb[i][: lengths[at[i]]] if at[i] >= 0 else [],
                "price": tiers.priced(its_price) if at[i] >= 0 else None,
                "reason": self.reasons.get(i),
            }
            for i, its_price in enumerate(prices.tolist())
        ]
        for i, cores in (self.core_sets or {}).items():
            answer["servers"][i]["cores"] = cores.as_json()
        return answer
