"""A what-if ledger of a running system: planned moves are made on it one by one, beside all that is there then."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.solver.batch.case import Case
from unrack.solver.batch.running.moves import Running, price_there
from unrack.solver.clock import Clock
from unrack.solver.servers.problem import Allocation, Supply


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
        """See :func:`unrack.solver.batch.running.moves.price_there`."""
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

    def without(self, which: Ints) -> Supply:
        """What others than these servers leave of the supply; the last of these still holds what it is to leave."""
        supply, run = self.case.supply, self.run
        mb = run.free_mb.copy()
        for i in which[:-1].tolist():
            pools = supply.pools(int(run.at[i]))
            mb[pools] += run.mb[i, : len(pools)]
        return replace(supply, mb=mb)

    def copy(self) -> tuple[Running, int, int, int]:
        """What :meth:`restore` needs."""
        run = self.run
        same = Running(
            run.at.copy(), run.mb.copy(), run.free_cores.copy(), run.free_mb.copy(), run.opened.copy(), run.moved.copy()
        )
        return same, self.left, len(self.plan), self.copied_mb

    def restore(self, before: tuple[Running, int, int, int]) -> bool:
        """Undo all since a copy; returns False."""
        self.run, self.left, steps, self.copied_mb = before
        del self.plan[steps:]
        return False
