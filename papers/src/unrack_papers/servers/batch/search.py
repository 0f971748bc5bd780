"""Fewer servers left out, fewer clusters, a lower price: steps that start from one allocation and end in a better one.

A step wishes with ``pack.anneal`` and has the wish checked by splitting the memory of each
part (clusters that share pools) exactly. A part that cannot be split has to keep more in reserve, and the wish is
made again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unrack.jit import Bools, Floats, Ints
from unrack.solver import NOWHERE
from unrack_papers.clock import Clock
from unrack_papers.servers.batch.case import CEILING, CORES, MB, Case, split_together
from unrack_papers.servers.batch.pack import Annealing, anneal, clashes, clashes_with
from unrack_papers.servers.batch.solution import nowhere
from unrack_papers.servers.problem import Allocation

VICTIMS = 4
"""Clusters that are tried to be emptied before another look for fewer clusters is given up."""


def fewer(case: Case, at: Ints, opened: Ints, capacity: Floats, core_mb: float) -> list[Ints]:
    """Choices of one cluster fewer, the most promising first: without a small one that holds little, or all anew.

    ``at``, ``opened``: int64[servers], int64[open], where servers are, and which clusters are in use; ``capacity``:
    float64[clusters], size of each, in mean servers' memory; ``core_mb``: what a core counts as, MB. Returns list of
    int64[open - 1]: busy clusters, and those that placed servers are pinned to, are in all of them.
    """
    need = case.need
    mean_mb = max(float(need[MB].mean()), 1.0)
    load = np.bincount(at[at >= 0], weights=need[MB, at >= 0], minlength=case.supply.clusters) / mean_mb
    must = case.busy.copy()
    must[case.asked.pinned[(case.asked.pinned >= 0) & (at >= 0)]] = True
    may = opened[~must[opened]]
    promising = may[np.argsort((load + capacity)[may], kind="stable")][:VICTIMS]
    found = [opened[opened != c] for c in promising]
    if len(may) and (case.crowd.kind.max() > 0 or case.part.max() + 1 < case.supply.clusters):
        found += [_roomiest(case, must, len(opened) - 1, measure, core_mb) for measure in range(3)]
    return found


def _roomiest(case: Case, must: Bools, count: int, measure: int, core_mb: float) -> Ints:
    """int64[count]: clusters with the most room, one after the other; those in use share their pools equally.

    Room is measured in memory and cores at their share of it, in local memory, or in cores.
    """
    supply = case.supply
    users = np.zeros(len(supply.mb), np.int64)
    chosen = must.copy()
    for c in np.flatnonzero(must).tolist():
        users[supply.pools(c)] += 1
    compute = supply.member[supply.first[:-1]]
    cores = core_mb * supply.cores[compute]
    mb = supply.mb[supply.member].copy()
    if measure:
        mb[:] = 0
        mb[supply.first[:-1]] = supply.mb[compute] if measure == 1 else 0
    while int(chosen.sum()) < count:
        room = np.add.reduceat(mb / (users[supply.member] + 1.0), supply.first[:-1]) + (measure != 1) * cores
        best = int(np.argmax(np.where(chosen, -1.0, room)))
        chosen[best] = True
        users[supply.pools(best)] += 1
    return np.flatnonzero(chosen)


STEPS_PER_SERVER = 400
"""Moves and swaps in one annealing; at least ``FEWEST_STEPS``."""
FEWEST_STEPS = 20_000
STEPS_PRICED = 4
"""What a move or swap counts as where prices count."""
STEPS_PER_SPLIT, STEPS_PER_SPLIT_SERVER = 6000, 600
"""What an exact split of a part's memory counts as, and more for each of its servers."""
PACK_HEAT, PACK_COLD = 3e-3, 3e-4
"""Temperatures when there is excess, in mean servers' memory."""
PRICE_HEAT, PRICE_COLD = 3e-3, 1e-6
"""Temperatures when there is a price, in mean servers' price."""
STEPS_PER_LOOK = 50
"""A look at an assignment counts as a step for so many servers."""
WISHES = 6
"""Annealings before a step gives up."""


@dataclass(eq=False)
class Search:
    """A search over placements; ``at`` is int64[servers], the cluster of each, -1: left out."""

    case: Case  # the batch
    draws: np.random.Generator  # where chance comes from
    clock: Clock  # when to stop at the latest, where the user set a limit
    steps: int  # moves and swaps that may still be tried
    # int64[servers] or int64[0]: where servers are now; default: no server is placed
    home: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    most_away: int = 0  # at most so many servers may be elsewhere than at home
    reserve: Ints = field(init=False)
    splits: dict[bytes, Ints | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        supply, need = self.case.supply, self.case.need
        self.reserve = np.zeros(supply.clusters, np.int64)
        self.core_mb = float(supply.mb.sum()) / max(float(supply.cores.sum()), 1.0)
        self.mean_mb = max(float(need[MB].mean()), 1.0) if need.shape[1] else 1.0
        self.dearest = max(int(supply.price.max(initial=1)), 1)
        pools = [supply.pools(c) for c in range(supply.clusters)]
        total = [float(supply.mb[some].sum()) + self.core_mb * float(supply.cores[some[0]]) for some in pools]
        self.capacity = np.array(total) / self.mean_mb
        self.kinds = int(self.case.crowd.kind.max(initial=-1)) + 1

    @property
    def over(self) -> bool:
        """Whether time or steps are used up."""
        return self.steps <= 0 or self.clock.over()

    def opened(self, at: Ints) -> Ints:
        """int64[open]: clusters in use."""
        used = self.case.busy.copy()
        used[at[at >= 0]] = True
        return np.flatnonzero(used)

    def settle(self, at: Ints) -> Allocation | None:
        """Split the memory of all servers, part by part; None: some part has no split, and keeps more in reserve.

        Or time is up; steps may run out on the way.
        """
        case, allocation = self.case, nowhere(self.case.supply, self.case.asked)
        allocation.cluster[:] = at
        placed = np.flatnonzero(at >= 0)
        order = placed[np.argsort(case.part[at[placed]], kind="stable")]
        cuts = np.flatnonzero(np.diff(case.part[at[order]])) + 1
        bad = False
        for which in np.split(order, cuts) if len(order) else []:
            if self.clock.over():
                return None
            key = np.stack([which, at[which]]).tobytes()
            if key not in self.splits:
                self.steps -= STEPS_PER_SPLIT + STEPS_PER_SPLIT_SERVER * len(which)
                self.splits[key] = split_together(case.supply, case.asked, which, at[which], self.clock)
            mb = self.splits[key]
            if mb is None:
                bad = True
                own = case.part == case.part[at[which[0]]]
                least = max(int(0.001 * case.need[CEILING, which].mean()), 1)
                self.reserve[own] = np.maximum(2 * self.reserve[own], least)
            else:
                allocation.mb[which] = mb
        return None if bad else allocation

    def pack(self, at: Ints, choice: Ints) -> Allocation | None:
        """Move servers between open clusters until each can hold its own; None: not found."""
        wish = at.copy()
        for _ in range(WISHES):
            for _ in range(WISHES):
                heat, cold = PACK_HEAT * self.mean_mb, PACK_COLD * self.mean_mb
                excess, _ = self._anneal(wish, choice, heat, cold, priced=False, target=0.0)
                if excess == 0 or self.over:
                    break
            if excess > 0:
                return None
            found = self.settle(wish)
            if found is not None or self.over:
                return found
        return None

    def admit(self, best: Allocation, fewest: int) -> Allocation:
        """Place servers that were left out, as long as more than ``fewest`` are."""
        case = self.case
        size = case.need[MB] / self.mean_mb + case.need[CORES] * self.core_mb / self.mean_mb
        while not self.over:
            out = np.flatnonzero((best.cluster < 0) & ~case.hopeless)
            if int((best.cluster < 0).sum()) <= fewest or not len(out):
                break
            better = None
            for i in out[np.argsort(size[out], kind="stable")][:VICTIMS].tolist():
                at, choice = best.cluster.copy(), self._allowed(best.cluster)
                if self._put(at, i, choice):
                    better = self.pack(at, choice)
                if better is not None or self.over:
                    break
            if better is None:
                break
            best = better
        return best

    def empty(self, best: Allocation, fewest: int) -> Allocation:
        """Empty clusters, one after the other, as long as more than ``fewest`` are in use."""
        while not self.over:
            opened = self.opened(best.cluster)
            if len(opened) <= fewest:
                break
            better = None
            for choice in fewer(self.case, best.cluster, opened, self.capacity, self.core_mb):
                at = best.cluster.copy()
                movers = np.flatnonzero((at >= 0) & ~np.isin(at, choice))
                at[movers] = NOWHERE
                biggest = movers[np.argsort(-self.case.need[MB, movers], kind="stable")]
                put = all(self._put(at, i, choice) for i in biggest.tolist())
                if put and not (len(self.home) and (at != self.home).sum() > self.most_away):
                    better = self.pack(at, choice)
                if better is not None or self.over:
                    break
            if better is None:
                break
            best = better
        return best

    def cheapen(self, best: Allocation, price: int, least: int) -> tuple[Allocation, int]:
        """Lower the price between the clusters in use, as long as it is above ``least``; returns it with its price."""
        prices = self.case.supply.price
        wish, stalled = best.cluster.copy(), 0
        while not self.over and price > least and stalled < WISHES:
            choice = self.opened(best.cluster)
            mean = price / max(int((best.cluster >= 0).sum()), 1)
            excess, _ = self._anneal(
                wish, choice, PRICE_HEAT * mean, PRICE_COLD * mean, priced=True, target=float(least)
            )
            stalled += 1
            found = self.settle(wish) if excess == 0 else None
            if found is None:
                wish = best.cluster.copy()
                continue
            paid = sum(
                int(found.mb[found.cluster == c].sum(axis=0)[: len(pools)] @ prices[pools])
                for c in choice.tolist()
                for pools in (self.case.supply.pools(c),)
            )
            if paid < price:
                best, price, stalled = found, paid, 0
        return best, price

    def exchange(self, best: Allocation) -> Allocation:
        """Let closed clusters of other kinds take over all that open ones hold, where that costs less."""
        case, kind = self.case, self.case.crowd.kind
        at = best.cluster.copy()
        for cluster in self.opened(at).tolist() if self.kinds > 1 else []:
            if case.busy[cluster] or (case.asked.pinned[at == cluster] >= 0).any() or self.over:
                continue
            closed = np.setdiff1d(np.arange(case.supply.clusters), self.opened(at))
            _, firsts = np.unique(kind[closed], return_index=True)
            _, now = self._weigh(at)
            for other in closed[np.sort(firsts)].tolist():
                there = np.where(at == cluster, other, at)
                if case.crowd.fits[at == cluster, kind[other]].all() and not clashes(case.land, case.crowd, there):
                    excess, paid = self._weigh(there)
                    if excess == 0 and paid < now:
                        at, now = there, paid
        return best if (at == best.cluster).all() else self.settle(at) or best

    def _weigh(self, at: Ints) -> tuple[float, float]:
        """Excess and price of an assignment."""
        self.steps -= len(at) // STEPS_PER_LOOK
        return self._anneal(at.copy(), self.opened(at), 1.0, 1.0, priced=True, target=0.0, steps=0)

    def _anneal(
        self, at: Ints, choice: Ints, hot: float, cold: float, *, priced: bool, target: float, steps: int = -1
    ) -> tuple[float, float]:
        case, each = self.case, STEPS_PRICED if priced else 1
        most = min(max(STEPS_PER_SERVER * len(at), FEWEST_STEPS), self.steps // each) if steps < 0 else steps
        excess, price, tried = anneal(
            case.land, case.crowd, choice, self.reserve, self.core_mb, at, self.draws,
            Annealing(most, hot, cold, float(self.dearest), priced, target), self.home, self.most_away,
        )  # fmt: skip
        self.steps -= tried * each
        return excess, price

    def _put(self, at: Ints, server: int, choice: Ints) -> bool:
        """Put a server where most is free, excess or not; False: failure domains leave it no cluster."""
        case, need = self.case, self.case.need
        load = np.bincount(at[at >= 0], weights=need[MB, at >= 0], minlength=case.supply.clusters)
        free = self.capacity - load / self.mean_mb
        for cluster in choice[np.argsort(-free[choice], kind="stable")].tolist():
            if case.crowd.fits[server, case.crowd.kind[cluster]] and case.asked.pinned[server] in (NOWHERE, cluster):
                at[server] = cluster
                if case.asked.level[server] < 0 or not clashes_with(case.land, case.crowd, at, server):
                    return True
        at[server] = NOWHERE
        return False

    def _allowed(self, at: Ints) -> Ints:
        """The clusters in use, and as many more as may be: the largest first."""
        opened = self.opened(at)
        closed = np.setdiff1d(np.arange(self.case.supply.clusters), opened)
        more = self.case.most_new - int((~self.case.busy[opened]).sum())
        largest = closed[np.argsort(-self.capacity[closed], kind="stable")]
        return np.sort(np.concatenate([opened, largest[: max(more, 0)]]))
