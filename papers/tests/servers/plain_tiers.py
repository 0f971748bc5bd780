"""The one-at-a-time allocators in plain Python: clusters are sorted before every server, splits are enumerated."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np

from unrack.solver.servers import Asked, Supply
from unrack_papers.servers.problem import Allocation

MILLION = 10**6


@cache
def splits(mb: int, width: int) -> np.ndarray:
    """int64[splits, width]: every way to take so many MB from so many pools."""
    places = list(combinations(range(mb + width - 1), width - 1))
    bars = np.array(places, np.int64).reshape(len(places), width - 1)
    ends = np.full((len(bars), 1), mb + width - 1)
    return np.diff(np.hstack([np.full((len(bars), 1), -1), bars, ends]), axis=1) - 1


def lowest_price(mb: int, floor: int, ceiling: int, free: list[int], weight: list[int], price: list[int]) -> int | None:
    """The price of the cheapest of all splits that meet the SLOs; ``None``: there is none."""
    every = splits(mb, len(free))
    good = (every <= free).all(axis=1) & (every[:, 0] >= floor) & (every @ np.array(weight, np.int64) <= ceiling)
    return int((every[good] @ np.array(price, np.int64)).min()) if good.any() else None


class PlainAllocator:
    """Keeps the books of every pool, and the clusters as a list that is sorted again after every change."""

    def __init__(self, supply: Supply, asked: Asked, rule: str, now: Allocation | None = None) -> None:
        self.supply, self.asked, self.rule = supply, asked, rule
        self.members = [supply.pools(cluster).tolist() for cluster in range(supply.clusters)]
        self.cores, self.mb = supply.cores.tolist(), supply.mb.tolist()
        self.home = [-1] * len(asked)
        self.parts: list[list[int]] = [[] for _ in range(len(asked))]
        if now is not None:
            for server, cluster in enumerate(now.cluster.tolist()):
                if cluster >= 0:
                    self._take(server, cluster, now.mb[server].tolist())
        self.order = list(range(supply.clusters))
        self.sort()

    def utilisation(self, cluster: int) -> int:
        """Whole percent of cores, halved, and whole percent of memory, halved: both rounded down."""
        pools, supply = self.members[cluster], self.supply
        installed = sum(int(supply.all_mb[pool]) for pool in pools)
        cores = int(supply.all_cores[pools[0]])
        of_cores = (cores - self.cores[pools[0]]) * 100 // cores if cores else 0
        of_memory = (installed - sum(self.mb[pool] for pool in pools)) * 100 // installed if installed else 0
        return of_cores // 2 + of_memory // 2

    def emptiness(self, cluster: int) -> int:
        """The free share of the cores and of each pool, in millionths, added up."""
        pools, supply = self.members[cluster], self.supply
        total = self.cores[pools[0]] * MILLION // max(int(supply.all_cores[pools[0]]), 1)
        return total + sum(self.mb[pool] * MILLION // max(int(supply.all_mb[pool]), 1) for pool in pools)

    def sort(self) -> None:
        if self.rule == "slo":
            self.order.sort(key=lambda cluster: -self.utilisation(cluster))
        elif self.rule == "best-fit":
            self.order.sort(key=lambda cluster: (self.emptiness(cluster), cluster))

    def taken(self, server: int) -> set[int]:
        """The failure domains in which servers of the same group hold something."""
        level, found = int(self.asked.level[server]), set()
        for other, cluster in enumerate(self.home):
            if level < 0 or cluster < 0 or other == server or self.asked.group[other] != self.asked.group[server]:
                continue
            for place, pool in enumerate(self.members[cluster]):
                if place == 0 or self.parts[other][place]:
                    found.add(int(self.supply.domain[level, pool]))
        return found - {-1}

    def offer(self, server: int, cluster: int) -> list[int] | None:
        """MB of each pool that a server may have; ``None``: not this cluster."""
        asked, supply, pools = self.asked, self.supply, self.members[cluster]
        on = {home for home in self.home if home >= 0}
        if 0 <= asked.most_clusters <= len(on) and cluster not in on:
            return None
        if asked.pinned[server] not in (-1, cluster) or self.cores[pools[0]] < asked.cores[server]:
            return None
        near = self.taken(server)
        close = [asked.level[server] >= 0 and int(supply.domain[asked.level[server], pool]) in near for pool in pools]
        if close[0]:
            return None
        return [
            0 if near_it or asked.forbidden[server, supply.tier[pool]] else self.mb[pool]
            for pool, near_it in zip(pools, close, strict=True)
        ]

    def price_in(self, server: int, cluster: int) -> int | None:
        """The lowest price of a server in a cluster within its SLOs; first fit: of filling pool after pool."""
        asked, pools = self.asked, self.members[cluster]
        free = self.offer(server, cluster)
        if free is None:
            return None
        weight, price = ([int(column[pool]) for pool in pools] for column in (self.supply.weight, self.supply.price))
        if self.rule == "first-fit":
            parts = self.filled(server, free)
            return sum(a * b for a, b in zip(parts, price, strict=True)) if sum(parts) == asked.mb[server] else None
        return lowest_price(
            int(asked.mb[server]), int(asked.floor[server]), int(asked.ceiling[server]), free, weight, price
        )

    def filled(self, server: int, free: list[int]) -> list[int]:
        """Memory taken from pool after pool."""
        left, parts = int(self.asked.mb[server]), []
        for mb in free:
            parts.append(min(left, mb))
            left -= parts[-1]
        return parts

    def choice(self, server: int) -> tuple[int, int]:
        """The first cluster in order that can take a server, and its price there; (-1, 0): none."""
        for cluster in self.order:
            price = self.price_in(server, cluster)
            if price is not None:
                return cluster, price
        return -1, 0

    def put(self, server: int, cluster: int, parts: list[int]) -> None:
        """Note that a server is in a cluster, with these parts."""
        self._take(server, cluster, parts)
        self.sort()

    def _take(self, server: int, cluster: int, parts: list[int]) -> None:
        self.home[server], self.parts[server] = cluster, parts
        self._add(server, -1)

    def remove(self, server: int) -> None:
        self._add(server, 1)
        self.home[server], self.parts[server] = -1, []
        self.sort()

    def _add(self, server: int, sign: int) -> None:
        pools = self.members[self.home[server]]
        self.cores[pools[0]] += sign * int(self.asked.cores[server])
        for pool, part in zip(pools, self.parts[server], strict=False):
            self.mb[pool] += sign * part

    def cost(self, server: int) -> int:
        """The price of what a server holds."""
        pools = self.members[self.home[server]]
        return sum(int(self.supply.price[p]) * mb for p, mb in zip(pools, self.parts[server], strict=False))
