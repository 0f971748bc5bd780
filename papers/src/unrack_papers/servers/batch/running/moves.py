"""Where a running server could move to, and a what-if ledger on which planned moves are made one by one.

A server holds its old place until its new one is filled, so a move must fit beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unrack.jit import Bools, Ints, compiled, inlined
from unrack.solver import cheapest
from unrack_papers.clock import Clock
from unrack_papers.servers.batch.case import CEILING, CORES, FLOOR, MB, Case, Crowd, Land
from unrack_papers.servers.problem import Allocation

TIGHTEST, CHEAPEST = range(2)
"""Of the clusters that have room: the one with least left, or the one with the lowest price."""


class Running(NamedTuple):
    """Servers in their places."""

    at: Ints  # int64[servers]: the cluster of each; -1: nowhere
    mb: Ints  # int64[servers, width]: MB from each pool of it
    # free_cores, free_mb, int64[pools]
    free_cores: Ints
    free_mb: Ints
    opened: Bools  # bool[clusters]: where servers may move to
    moved: Bools  # bool[servers]: moved before, so not to be moved again


@inlined
def _taken(land: Land, crowd: Crowd, run: Running, i: int, pool: int) -> bool:
    """Whether another server of the group holds something in the failure domain of a pool."""
    level, group = crowd.level[i], crowd.group[i]
    if level < 0 or group < 0 or land.domain[level, pool] < 0:
        return False
    for k in range(crowd.mate[group], crowd.mate[group + 1]):
        j = crowd.mates[k]
        if j != i and run.at[j] >= 0:
            start = land.first[run.at[j]]
            for p in range(start, land.first[run.at[j] + 1]):
                if land.domain[level, land.member[p]] == land.domain[level, pool] and (
                    p == start or run.mb[j, p - start] > 0
                ):
                    return True
    return False


@compiled
def price_there(land: Land, crowd: Crowd, run: Running, i: int, c: int, gone: int, into: Ints) -> int:
    """The lowest price at which a server fits a cluster, and its split; -1: it does not fit.

    ``i``, ``c``: the server and the cluster; ``gone``: a server of that cluster that will have left it; -1: none;
    ``into``: int64[width], receives the MB from each pool.
    """
    start = land.first[c]
    width, compute = land.first[c + 1] - start, land.member[start]
    if not crowd.fits[i, crowd.kind[c]] or (crowd.pinned[i] >= 0 and crowd.pinned[i] != c):
        return -1
    need = crowd.need
    cores = run.free_cores[compute] + (need[CORES, gone] if gone >= 0 else 0)
    if cores < need[CORES, i]:
        return -1
    left, load = need[MB, i], 0
    for j in range(width):  # what is free to anybody: most clusters are too full, and that is soon seen
        pool = land.member[start + j]
        free = run.free_mb[pool] + (run.mb[gone, j] if gone >= 0 else 0)
        if j == 0 and free < need[FLOOR, i]:
            return -1
        mb = min(left, free)
        load += mb * land.weight[pool]
        left -= mb
    if left > 0 or load > need[CEILING, i] or _taken(land, crowd, run, i, compute):
        return -1
    offer = np.zeros((3, width), np.int64)
    for j in range(width):
        pool = land.member[start + j]
        offer[1, j], offer[2, j] = land.weight[pool], land.price[pool]
        if not (crowd.forbidden[i, land.tier[pool]] or _taken(land, crowd, run, i, pool)):
            offer[0, j] = run.free_mb[pool] + (run.mb[gone, j] if gone >= 0 else 0)
    into[:] = 0
    return cheapest(need[MB, i], need[FLOOR, i], need[CEILING, i], offer[0], offer[1], offer[2], width, into)


@compiled
def best_place(land: Land, crowd: Crowd, run: Running, i: int, rule: int, into: Ints) -> tuple[int, int]:
    """The open cluster, not its own, that a server should move to, and the price there; -1: none has room.

    ``rule``: TIGHTEST or CHEAPEST; then the lowest id; ``into``: int64[width], receives the split there.
    """
    best, best_score, best_price = -1, 0, -1
    trial = np.zeros(run.mb.shape[1], np.int64)
    for c in range(len(run.opened)):
        if not run.opened[c] or c == run.at[i]:
            continue
        price = price_there(land, crowd, run, i, c, -1, trial)
        if price < 0:
            continue
        score = price
        if rule == TIGHTEST:
            score = 0
            for p in range(land.first[c], land.first[c + 1]):
                score += run.free_mb[land.member[p]]
        if best < 0 or score < best_score:
            best, best_score, best_price = c, score, price
            into[:] = trial
    return best, best_price


@compiled
def make_room(land: Land, crowd: Crowd, run: Running, i: int, order: Ints) -> tuple[int, int]:
    """A server that can move to another open cluster so that its own then has room for server i; -1, -1: none.

    ``order``: int64[any], the servers to try, in order.
    """
    trial = np.zeros(run.mb.shape[1], np.int64)
    for k in range(len(order)):
        j = order[k]
        c = run.at[j]
        if j == i or c < 0 or c == run.at[i] or run.moved[j] or not run.opened[c]:
            continue
        if price_there(land, crowd, run, i, c, j, trial) >= 0:
            there, _ = best_place(land, crowd, run, j, TIGHTEST, trial)
            if there >= 0:
                return j, there
    return -1, -1


@compiled
def best_saving(land: Land, crowd: Crowd, run: Running, paid: Ints) -> tuple[int, int]:
    """The server that saves most by a move to an open cluster, and that cluster; -1, -1: none saves anything.

    ``paid``: int64[servers], the price of each where it is.
    """
    best, where, most = -1, -1, 0
    trial = np.zeros(run.mb.shape[1], np.int64)
    for i in range(len(run.at)):
        if run.at[i] >= 0 and not run.moved[i]:
            c, price = best_place(land, crowd, run, i, CHEAPEST, trial)
            if c >= 0 and paid[i] - price > most:
                best, where, most = i, c, paid[i] - price
    return best, where


@dataclass(frozen=True)
class Step:
    """One step of a plan: a server gets this memory in this cluster; ``before``: where it was, or stays."""

    server: int
    before: int
    cluster: int
    mb: tuple[int, ...]


@dataclass
class Budget:
    """What work may still be done: ``looks``, of a server at a cluster; and a time limit, where there is one."""

    looks: int
    clock: Clock

    @property
    def over(self) -> bool:
        """Whether looks or time are used up."""
        return self.looks <= 0 or self.clock.over()


class Books:
    """What-if ledger for planned moves.

    Parameters
    ----------
    case
        The servers and what is installed.
    now
        Where they are.
    moves
        How many of them may change their cluster.
    budget
        Of the search for moves.

    Attributes
    ----------
    run
        Where they are after the plan.
    left
        Moves that remain.
    plan : list of Step
    copied_mb
        Memory written anew.
    """

    def __init__(self, case: Case, now: Allocation, moves: int, budget: Budget) -> None:
        supply = case.supply
        self.case, self.left, self.budget = case, moves, budget
        opened = np.zeros(supply.clusters, np.bool_)
        opened[now.cluster[now.cluster >= 0]] = True
        count = len(now.cluster)
        self.run = Running(
            now.cluster.copy(), now.mb.copy(), supply.cores.copy(), supply.mb.copy(), opened, np.zeros(count, np.bool_)
        )  # fmt: skip
        self.plan: list[Step] = []
        self.copied_mb = 0
        for i in np.flatnonzero(now.cluster >= 0).tolist():
            self._hold(i, 1)

    @property
    def allocation(self) -> Allocation:
        """Where everybody is now."""
        return Allocation(self.run.at, self.run.mb)

    def opened(self) -> Ints:
        """int64[any]: clusters that hold a server."""
        return np.unique(self.run.at[self.run.at >= 0])

    def price_at(self, server: int, cluster: int, into: Ints) -> int:
        """See :func:`price_there`."""
        return price_there(self.case.land, self.case.crowd, self.run, server, cluster, -1, into)

    def takes(self, server: int, cluster: int, mb: Ints) -> bool:
        """Whether a cluster has room for a server with this split; failure domains are not looked at."""
        pools = self.case.supply.pools(cluster)
        room = self.run.free_cores[pools[0]] >= self.case.asked.cores[server]
        return bool(room and (mb[: len(pools)] <= self.run.free_mb[pools]).all())

    def move(self, server: int, cluster: int, mb: Ints) -> None:
        """Make a move that fits. A server that moves on has used up no further move."""
        self.plan.append(Step(server, int(self.run.at[server]), cluster, tuple(mb.tolist())))
        self._hold(server, -1)
        self.run.at[server], self.run.mb[server] = cluster, mb
        self._hold(server, 1)
        self.left -= not self.run.moved[server]
        self.run.moved[server] = True
        self.copied_mb += int(self.case.asked.mb[server])

    def _hold(self, server: int, sign: int) -> None:
        pools = self.case.supply.pools(int(self.run.at[server]))
        self.run.free_cores[pools[0]] -= sign * self.case.asked.cores[server]
        self.run.free_mb[pools] -= sign * self.run.mb[server, : len(pools)]

    def split_again(self, which: Ints, split: Ints) -> bool:
        """Change the splits of servers that stay, in an order in which each fits; False: only some could."""
        run, supply = self.run, self.case.supply
        waiting = [k for k, i in enumerate(which.tolist()) if (run.mb[i] != split[k]).any()]
        while waiting:
            stuck = []
            for k in waiting:
                i = int(which[k])
                pools = supply.pools(int(run.at[i]))
                more = np.maximum(split[k] - run.mb[i], 0)[: len(pools)]
                if (more <= run.free_mb[pools]).all():
                    self.copied_mb += int(more.sum())
                    self._hold(i, -1)
                    run.mb[i] = split[k]
                    self._hold(i, 1)
                    self.plan.append(Step(i, int(run.at[i]), int(run.at[i]), tuple(split[k].tolist())))
                else:
                    stuck.append(k)
            if len(stuck) == len(waiting):
                return False
            waiting = stuck
        return True

    def copy(self) -> tuple[Running, int, int, int]:
        """What :meth:`restore` needs."""
        return Running._make(column.copy() for column in self.run), self.left, len(self.plan), self.copied_mb

    def restore(self, before: tuple[Running, int, int, int]) -> bool:
        """Undo all since a copy; returns False."""
        self.run, self.left, steps, self.copied_mb = before
        del self.plan[steps:]
        return False
