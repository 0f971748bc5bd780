"""What no allocation of a batch can beat: servers left out, clusters in use, price.

Linear programmes (:class:`Model`). First a small one, *loose*: servers with the same forbidden
tiers and pinned cluster are summed up into one that may have its floor in one spot and its remote memory in another.
Then, unless it is too large or takes too long, one in which equal servers are a class. Of failure domains only this is
looked at: servers of a group are in different ones.

Pieces. Of every cluster's cores, local memory and memory, servers also take what they make useless to others
(:mod:`unrack.solver.late`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from unrack.jit import Bools, Ints
from unrack.solver import NOWHERE, in_pieces, telling_pieces
from unrack_papers.clock import Clock
from unrack_papers.servers.batch.case import CEILING, CORES, COUNTED_S, FLOOR, MB, Case, until_up
from unrack_papers.servers.batch.integer_programme import Programme, Terms


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
    """A batch as a linear programme in the making: servers divided at will among clusters, clusters open in part.

    Equal servers are one class; equal clusters without shared pools are one spot, and so are equal groups of clusters
    that share pools, cluster by cluster: by symmetry nothing is lost. With x_gs servers of class g in spot s, m_gsp
    their MB from its pool p, and y_s of its n_s clusters open:

        sum_p m_gsp = memory_g x_gs,  m_gs0 >= floor_g x_gs,  sum_p w_p m_gsp <= ceiling_g x_gs,
        sum_g m_gsp <= mb_p y_s,  sum_g cores_g x_gs <= cores_s y_s,  sum_s x_gs <= n_g

    Its variables are ``servers`` (x), ``opened`` (y) and ``memory`` (m, with prices).
    """

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


MOST_VARIABLES = 40_000
"""Of a programme by classes that is tried, and of a loose one."""
VARIABLES_A_SECOND = 4000
"""Of a programme by classes that is tried, for each second of work."""
PIECES = 16
"""Sizes in which each resource is counted."""


class Bounds:
    """Bounds of one batch, each computed when it is asked for.

    Parameters
    ----------
    case
        The batch.
    effort_s
        Work for all of them, in counted seconds: it tells which programmes are tried. A programme is given up after a
        quarter of it.
    clock
        When there should be an answer; no programme begins or goes on after that.

    Attributes
    ----------
    able : int64[any]
        Servers that fit some cluster alone.
    loose
        Whether there are only loose programmes.
    """

    def __init__(self, case: Case, effort_s: float = COUNTED_S, clock: Clock | None = None) -> None:
        self.case, self.effort_s, self._clock = case, effort_s, clock or Clock()
        self._known: dict[tuple[int, ...], int] = {}
        self.able = np.flatnonzero(~case.hopeless)
        self.busy = int(case.busy.sum())
        self.spots = spots_of(case)
        rows = np.concatenate([self._rights(), case.need[:, self.able].T], axis=1)
        self.per_class = sum(len(spot.pools) + 1 for spot in self.spots)
        most = min(MOST_VARIABLES, VARIABLES_A_SECOND * effort_s)
        self.loose = len(np.unique(rows, axis=0)) * self.per_class > most

    def of(self, goals: tuple[int, int, int]) -> tuple[int, int, int]:
        """Each given the goals before it: servers left out, clusters in use (:attr:`Solution.objective`)."""
        out, used, _ = goals
        placed = len(self.case.hopeless) - out
        return self.unplaced(out), self.clusters(placed, used), self.price(placed, used)

    def unplaced(self, found: int = -1) -> int:
        """At least so many servers must be left out; ``found``: it is known how to leave out as few as that."""
        if () not in self._known:
            self._known[()] = self._unplaced(found)
        return self._known[()]

    def clusters(self, placed: int, found: int = -1) -> int:
        """With so many servers placed, at least so many clusters are in use; ``found``: so few are known to do."""
        if (placed,) not in self._known:
            self._known[placed,] = self._clusters(placed, found)
        return self._known[placed,]

    def price(self, placed: int, clusters: int) -> int:
        """With so many servers in so many clusters, at least this price."""
        if (placed, clusters) not in self._known:
            self._known[placed, clusters] = self._price(placed, clusters)
        return self._known[placed, clusters]

    def _least(self, programme: Programme, cost: Terms) -> int | None:
        """What a programme proves; ``None``: nothing, in a quarter of the work or in the time that is left."""
        return until_up(
            self._clock,
            lambda wall_s: programme.least(cost, wall_s, self.effort_s / 4),
            lambda least: least is not None,
        )

    def _unplaced(self, found: int) -> int:
        case, least = self.case, len(self.case.hopeless) - len(self.able)
        allowed = self.busy + case.most_new
        for row, has in zip((CORES, MB, FLOOR), _capacities(case), strict=True):
            most = int(np.sort(has)[::-1][:allowed].sum())
            fit = np.searchsorted(np.cumsum(np.sort(case.need[row, self.able])), most, side="right")
            least = max(least, len(case.hopeless) - int(fit))
        crowded = sum(max(members - domains, 0) for members, domains in self._groups())
        least = max(least, len(case.hopeless) - len(self.able) + crowded)
        if self.loose or not len(self.able) or least == found:
            return least
        model = self._model(0, case.supply.clusters, loose=False)
        fewest = self._least(model.programme, [(x, -1) for x in model.servers])
        return least if fewest is None else max(least, len(case.hopeless) + fewest)

    def _clusters(self, placed: int, found: int) -> int:
        if not placed:
            return self.busy
        apart = max((members - len(self.able) + placed for members, _ in self._groups()), default=0)
        least = max(self.busy, counted_in_pieces(self.case, placed), apart)
        for loose in (True,) if self.loose else (True, False):
            if least == found:
                break
            model = self._model(placed, self.case.supply.clusters, loose=loose)
            least = max(least, self._least(model.programme, [(y, 1) for y in model.opened]) or 0)
        return least

    def _price(self, placed: int, clusters: int) -> int:
        if not placed:
            return 0
        least = 0
        for loose in (True,) if self.loose else (True, False):
            model = self._model(placed, clusters, loose=loose)
            least = max(least, self._least(model.programme, model.memory) or 0)
        step = max(gcd(*self.case.supply.price.tolist()), 1)
        return -(-least // step) * step

    def _groups(self) -> list[tuple[int, int]]:
        """Of groups with each server in another cluster: how many they are, and how many can be placed."""
        supply, asked, found = self.case.supply, self.case.asked, []
        compute = supply.member[supply.first[:-1]]
        for group in np.unique(asked.group[self.able]).tolist():
            members = self.able[asked.group[self.able] == group]
            level = int(asked.level[members[0]])
            if group >= 0 and level >= 0 and (supply.domain[level, compute] >= 0).all():
                found.append((len(members), len(np.unique(supply.domain[level, compute]))))
        return found

    def _rights(self) -> Ints:
        """int64[able, tiers + 1]: forbidden tiers, and the pinned cluster."""
        case = self.case
        return np.concatenate([case.crowd.forbidden[self.able], case.asked.pinned[self.able, None]], axis=1)

    def _classes(self, placed: int, loose: bool) -> list[Class]:
        """The classes. Loose, with unknown servers left out: one, the least that each resource may be."""
        case, tiers = self.case, self.case.crowd.forbidden.shape[1]
        need = case.need[:, self.able]
        if loose and placed < len(self.able):
            least = np.sort(need, axis=1)
            least[CEILING] = least[CEILING, ::-1]
            sums = least[:, :placed].sum(axis=1).tolist()
            never: Bools = np.asarray(case.crowd.forbidden[self.able].all(axis=0))
            return [Class(sums, 1, never, np.ones(len(self.spots), np.bool_))]
        rights = self._rights()
        if loose and len(np.unique(rights, axis=0)) * self.per_class > MOST_VARIABLES:
            rights[:] = np.append(case.crowd.forbidden[self.able].all(axis=0), NOWHERE)  # what none of them may
        rows = rights if loose else np.concatenate([rights, need.T], axis=1)
        equal, of, count = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        order = np.argsort(of.reshape(-1), kind="stable")
        kind = np.array([spot.kind for spot in self.spots])
        cluster = np.array([spot.cluster for spot in self.spots])
        found = []
        for row, some in zip(equal, np.split(order, np.cumsum(count)[:-1]), strict=True):
            anywhere: Bools = np.asarray(case.crowd.fits[self.able[some]].any(axis=0))
            fits = anywhere[kind]
            if row[tiers] >= 0:
                fits &= cluster == row[tiers]
            total = need[:, some].sum(axis=1) if loose else need[:, some[0]]
            found.append(Class(total.tolist(), 1 if loose else len(some), row[:tiers].astype(np.bool_), fits))
        return found

    def _model(self, placed: int, clusters: int, *, loose: bool) -> Model:
        """The programme with at least so many servers in at most so many clusters."""
        model = Model(self.case, self.spots, loose)
        all_placed = placed == len(self.able)
        model.programme.row([(y, 1) for y in model.opened], min(clusters, self.busy + self.case.most_new))
        for each in self._classes(placed, loose):
            model.add(each, every=all_placed or loose)
        if not loose and not all_placed:
            model.programme.row([(x, -1) for x in model.servers], -placed)
        model.close()
        return model


def counted_in_pieces(case: Case, placed: int) -> int:
    """Clusters that so many servers hold because of one resource, counted in pieces."""
    able, least = ~case.hopeless, 0
    for row, has in zip((CORES, MB, FLOOR), _capacities(case), strict=True):
        size, whole = case.need[row, able], int(has.max(initial=0))
        for piece in [1, *telling_pieces(size, size.astype(np.float64), max(whole, 1), PIECES)]:
            if 2 * piece <= whole:
                taken = np.sort(in_pieces(size, whole, piece))[:placed]
                least = max(least, -(-int(taken.sum()) // (2 * (whole // piece))))
    return least


def _capacities(case: Case) -> tuple[Ints, Ints, Ints]:
    """int64[clusters] each: cores, MB in all pools, MB in the compute pool, as if no pool were shared."""
    supply = case.supply
    pools = [supply.pools(c) for c in range(supply.clusters)]
    compute = np.array([some[0] for some in pools], np.int64)
    return supply.cores[compute], np.array([supply.mb[some].sum() for some in pools], np.int64), supply.mb[compute]
