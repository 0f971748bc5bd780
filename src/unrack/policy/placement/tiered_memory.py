"""Memory of the tiers of a cluster of pools, within a server's SLOs, by the rules of :mod:`unrack.policy.tiers`.

Clusters of pools that are used equally come in order of their numbers. The policy ``slo`` leaves them in the order in
which they were, as the paper's allocator does; else the schedules are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import Loan
from unrack.policy.contract import Ability
from unrack.policy.placement.contract import Room, Spot
from unrack.policy.tiers.own_policy import barred, near_replicas, possible_servers, split_of
from unrack.reasons import Code, Reason
from unrack.solver.servers.holdings import MILLIONTHS
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import CORES, MEMORY, JobTable

RULES = ("slo", "slo-first-fit", "slo-best-fit")


@dataclass(frozen=True)
class TieredMemory:
    """A server has memory of the pools of one cluster of pools."""

    # ``"slo"``: the most used cluster; ``"slo-best-fit"``: the one with least free; both at the lowest price within
    # the SLOs. ``"slo-first-fit"``: the first with enough cores and memory, whatever the SLOs say.
    rule: str = "slo"

    places: ClassVar[frozenset[Need]] = frozenset({Need.LOANS, Need.TIERS})
    does: ClassVar[frozenset[Ability]] = frozenset({Ability.POSSIBLE})
    near: ClassVar[bool] = False

    def begin(self, view: View) -> None:
        """Nothing."""

    def open_nodes(self, view: View, notes: None, lent: Ints | None = None) -> Bools:
        """bool[nodes]: the compute pools of the clusters."""
        tiers = view.cluster.tiers
        assert tiers is not None
        found = np.zeros(len(view.cluster), np.bool_)
        found[tiers.member[tiers.first[:-1]]] = True
        return found

    def offers(self, view: View, notes: None, job: int, room: Room) -> Iterator[Ints]:
        """All that the server asks, at the compute pool of every cluster that can give it."""
        found = np.full(len(view.cluster), -1, np.int64)
        for pools in self._candidates(view, job, room):
            if self._split(view, job, pools, room) is not None:
                found[pools[0]] = view.asks[MEMORY, job]
        yield found

    def spread(self, view: View, notes: None, job: int, room: Room, tasks: int, now: int) -> list[Spot] | None:
        """The first cluster in the order of the rule that can give what the server asks."""
        for pools in self._candidates(view, job, room):
            spot = self._spot(view, job, pools, room)
            if spot is not None:
                return [spot]
        return None

    def kind(self, view: View, job: int) -> object:
        """The SLOs, and of a replica its group."""
        return view.slo_of(job)

    def lacks(self, view: View, notes: None, job: int, room: Room) -> Reason:
        """A cluster of pools that has it all."""
        mb = int(view.asks[MEMORY, job])
        return Reason(Code.NO_ROOM, f"a cluster of pools for {mb} MB within the server's SLOs")

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which servers have a place on the empty cluster."""
        return possible_servers(cluster, jobs, self.rule != "slo-first-fit")

    def _candidates(self, view: View, job: int, room: Room) -> Iterator[Ints]:
        """int64[pools] each: clusters with a compute pool that takes the server, in the order of the rule."""
        tiers = view.cluster.tiers
        assert tiers is not None
        compute, near = tiers.member[tiers.first[:-1]], near_replicas(view, job)
        takes = (room.cores[compute] >= int(view.asks[CORES, job])) & ~near[compute]
        for cluster in self._order(view, room)[takes[self._order(view, room)]].tolist():
            yield tiers.pools(cluster)

    def _order(self, view: View, room: Room) -> Ints:
        """int64[clusters]: in the order of the rule, then of their numbers."""
        tiers, cluster = view.cluster.tiers, view.cluster
        assert tiers is not None
        first, compute = tiers.first[:-1], tiers.member[tiers.first[:-1]]
        if self.rule == "slo-first-fit":
            return np.arange(tiers.clusters)
        free, all_mb = room.free[1], cluster.memory_mb
        if self.rule == "slo":
            installed = np.maximum(np.add.reduceat(all_mb[tiers.member], first), 1)
            used = installed - np.add.reduceat(free[tiers.member], first)
            all_cores = np.maximum(cluster.cores[compute], 1)
            percent = (cluster.cores[compute] - room.free[0][compute]) * 100 // all_cores // 2
            return np.argsort(-(percent + used * 100 // installed // 2), kind="stable")
        share = np.add.reduceat((free * MILLIONTHS // np.maximum(all_mb, 1))[tiers.member], first)
        share += room.free[0][compute] * MILLIONTHS // np.maximum(cluster.cores[compute], 1)
        return np.argsort(share, kind="stable")

    def _split(self, view: View, job: int, pools: Ints, room: Room) -> Ints | None:
        free = np.where(barred(view, job, near_replicas(view, job)), 0, room.free[1])
        if self.rule != "slo-first-fit":
            found = split_of(view, job, pools, free)
            return None if found is None else found[0]
        mb = int(view.asks[MEMORY, job])
        before = np.concatenate([[0], np.cumsum(free[pools])])
        return np.diff(np.minimum(before, mb)) if before[-1] >= mb else None

    def _spot(self, view: View, job: int, pools: Ints, room: Room) -> Spot | None:
        mb = self._split(view, job, pools, room)
        if mb is None:
            return None
        node, *others = pools.tolist()
        local, *parts = mb.tolist()
        loans = tuple(Loan(node, pool, part) for pool, part in zip(others, parts, strict=True) if part)
        return Spot(node, 1, local, loans)
