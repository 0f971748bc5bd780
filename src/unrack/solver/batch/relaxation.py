"""A batch as a linear programme: servers divided at will among clusters, clusters open in part.

Equal servers are one class; equal clusters without shared pools are one spot, and so are equal groups of clusters
that share pools, cluster by cluster: by symmetry nothing is lost. With x_gs servers of class g in spot s, m_gsp their
MB from its pool p, and y_s of its n_s clusters open:

    sum_p m_gsp = memory_g x_gs,  m_gs0 >= floor_g x_gs,  sum_p w_p m_gsp <= ceiling_g x_gs,
    sum_g m_gsp <= mb_p y_s,  sum_g cores_g x_gs <= cores_s y_s,  sum_s x_gs <= n_g
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrack.solver.batch.case import MB, Case
from unrack.solver.batch.integer_programme import Programme, Terms

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Spot:
    """Equal clusters as one: the first of them, its pools, and how many there are."""

    cluster: int
    pools: Ints
    count: int
    busy: bool
    kind: int


@dataclass(frozen=True, eq=False)
class Class:
    """Equal servers as one: what each needs (as :attr:`Case.need`), how many, tiers not allowed and spots that fit.

    Or, loose, what all need together, and a count of 1.
    """

    need: list[int]
    count: int
    forbidden: Bools
    fits: Bools


class Model:
    """The programme in the making, and its variables: ``servers`` (x), ``opened`` (y), ``memory`` (m, with prices)."""

    def __init__(self, case: Case, spots: list[Spot], loose: bool) -> None:
        self.supply, self.spots, self.loose = case.supply, spots, loose
        self.programme = Programme()
        self.opened = [self.programme.variable(spot.count, spot.count if spot.busy else 0) for spot in spots]
        self.servers: list[int] = []
        self.memory: Terms = []
        self.cores: list[Terms] = [[] for _ in spots]
        self.taken: list[list[Terms]] = [[[] for _ in spot.pools] for spot in spots]

    def add(self, each: Class, every: bool) -> None:
        """Add a class; ``every``: all its servers are placed. A loose x is in cores instead of servers."""
        n_cores, mb, floor, ceiling = each.need
        lp, everywhere = self.programme, ([], [], [], [])  # type: tuple[Programme, tuple[Terms, Terms, Terms, Terms]]
        for s in np.flatnonzero(each.fits).tolist():
            x = lp.variable(n_cores if self.loose else each.count)
            size, local, weighted = self._memory(each, s)
            if not self.loose:
                lp.row([*size, (x, -mb)], 0, exact=True)
                lp.row([*local, (x, floor)], 0)
                lp.row([*weighted, (x, -ceiling)], 0)
            for row, terms in zip(everywhere, (size, local, weighted, [(x, 1)]), strict=True):
                row.extend(terms)
            self.cores[s].append((x, 1 if self.loose else n_cores))
            self.servers.append(x)
        if self.loose:
            lp.row(everywhere[0], mb, exact=True)
            lp.row(everywhere[1], -floor)
            lp.row(everywhere[2], ceiling)
        lp.row(everywhere[3], n_cores if self.loose else each.count, exact=every)

    def _memory(self, each: Class, s: int) -> tuple[Terms, Terms, Terms]:
        """Variables for a class's memory in a spot: all of it, the local (negative), and the weighted."""
        spot, size, local, weighted = self.spots[s], [], [], []  # type: tuple[Spot, Terms, Terms, Terms]
        for j, pool in enumerate(spot.pools.tolist()):
            if each.forbidden[self.supply.tier[pool]]:
                continue
            m = self.programme.variable(min(int(self.supply.mb[pool]) * spot.count, each.need[MB] * each.count))
            size.append((m, 1))
            if j == 0:
                local.append((m, -1))
            weighted.append((m, int(self.supply.weight[pool])))
            self.taken[s][j].append((m, 1))
            self.memory.append((m, int(self.supply.price[pool])))
        return size, local, weighted

    def close(self) -> None:
        """No spot takes more than its open clusters have, and no pool that is shared gives more than it has."""
        supply, lp = self.supply, self.programme
        shared: dict[tuple[str, int], list[tuple[int, Terms]]] = {}
        for s, spot in enumerate(self.spots):
            compute = int(spot.pools[0])
            lp.row([*self.cores[s], (self.opened[s], -int(supply.cores[compute]))], 0)
            shared.setdefault(("cores", compute), []).append((s, self.cores[s]))
            for j, pool in enumerate(spot.pools.tolist()):
                lp.row([*self.taken[s][j], (self.opened[s], -int(supply.mb[pool]))], 0)
                shared.setdefault(("mb", pool), []).append((s, self.taken[s][j]))
        for (what, pool), users in shared.items():
            if len(users) > 1:
                has = int(supply.cores[pool] if what == "cores" else supply.mb[pool])
                lp.row([term for _, terms in users for term in terms], has * self.spots[users[0][0]].count)


def spots_of(case: Case) -> list[Spot]:
    """Clusters by kind; those that share pools by the kind of all that share them. A pinned one stands for itself."""
    supply = case.supply
    pinned = set(case.asked.pinned[case.asked.pinned >= 0].tolist())
    columns = np.stack([supply.cores, supply.mb, supply.weight, supply.price, supply.tier])
    together: dict[int, list[int]] = {}
    for cluster, part in enumerate(case.part.tolist()):
        together.setdefault(part, []).append(cluster)
    equal: dict[tuple[object, ...], list[list[int]]] = {}
    for clusters in together.values():
        local: dict[int, int] = {}
        shape = [
            (tuple(local.setdefault(pool, len(local)) for pool in supply.pools(c).tolist()), bool(case.busy[c]))
            for c in clusters
        ]
        marks = tuple(c if c in pinned else -1 for c in clusters)
        equal.setdefault((*shape, marks, columns[:, list(local)].tobytes()), []).append(clusters)
    return [
        Spot(c, supply.pools(c), len(alike), bool(case.busy[c]), int(case.crowd.kind[c]))
        for alike in equal.values()
        for c in alike[0]
    ]
