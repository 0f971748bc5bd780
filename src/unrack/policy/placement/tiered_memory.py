"""Memory of the tiers of a cluster of pools, within a server's SLOs, by the rules of :mod:`unrack.policy.tiers`.

What is free says all: of clusters of pools that a rule ranks equally, the first by number is chosen. The paper's
allocator leaves such clusters in the order that its past has made; ``unrack place`` has it so.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, section 4.3: there no server leaves.
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
from unrack.policy.tiers.cluster_kernel import Clusters
from unrack.policy.tiers.own_policy import ANY, barred, clusters_of, found_for, near_replicas, possible_servers
from unrack.reasons import Code, Reason
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import CORES, MEMORY, JobTable

RULES = ("slo", "slo-first-fit", "slo-best-fit")
"""By their numbers in kernels."""


@dataclass(frozen=True)
class TieredMemory:
    """A server has memory of the pools of one cluster of pools."""

    # ``"slo"``: the most used cluster; ``"slo-best-fit"``: the one with least free; both at the lowest price within
    # the SLOs. ``"slo-first-fit"``: the first with enough cores and memory, whatever the SLOs say.
    rule: str = "slo"
    clusters: int | None = None  # at most so many clusters may be in use at a time; ``None``: any number

    places: ClassVar[frozenset[Need]] = frozenset({Need.LOANS, Need.TIERS})
    does: ClassVar[frozenset[Ability]] = frozenset({Ability.POSSIBLE})
    near: ClassVar[bool] = False

    def begin(self, view: View) -> Clusters:
        """The clusters as kernels take them."""
        return clusters_of(view.cluster, RULES.index(self.rule), self.clusters)

    def open_nodes(self, view: View, notes: Clusters, lent: Ints | None = None) -> Bools:
        """bool[nodes]: the compute pools of the clusters."""
        found = np.zeros(len(view.cluster), np.bool_)
        found[notes.member[notes.first[:-1]]] = True
        return found

    def offers(self, view: View, notes: Clusters, job: int, room: Room) -> Iterator[Ints]:
        """All that the server asks, at the compute pool of every cluster that can give it."""
        found = np.full(len(view.cluster), -1, np.int64)
        for cluster, pool in enumerate(notes.member[notes.first[:-1]].tolist()):
            if found_for(view, notes, job, room, cluster) is not None:
                found[pool] = view.asks[MEMORY, job]
        yield found

    def spread(self, view: View, notes: Clusters, job: int, room: Room, tasks: int, now: int) -> list[Spot] | None:
        """The first cluster in the order of the rule that can give what the server, of one task, asks."""
        found = found_for(view, notes, job, room, ANY)
        if found is None:
            return None
        pools, mb = found
        node, *others = pools.tolist()
        local, *parts = mb.tolist()
        loans = tuple(Loan(node, pool, part) for pool, part in zip(others, parts, strict=True) if part)
        return [Spot(node, 1, local, loans)]

    def kind(self, view: View, job: int) -> object:
        """The SLOs, and of a replica its group."""
        return view.slo_of(job)

    def lacks(self, view: View, notes: Clusters, job: int, room: Room) -> Reason:
        """What the clusters lack, each counted for the first thing that it lacks, and how near the best comes."""
        cores, mb = view.asks[[CORES, MEMORY], job].tolist()
        near, slo, compute = near_replicas(view, job), view.slo_of(job), notes.member[notes.first[:-1]]
        free = np.where(barred(view, job, near), 0, room.free[1])
        floor = 0 if slo is None or self.rule == "slo-first-fit" else slo.floor_mb
        there, local = room.cores[compute].clip(0), free[compute]
        total = np.add.reduceat(free[notes.member], notes.first[:-1])
        words, left = list[str](), np.ones(len(compute), np.bool_)
        for lacks, what, amount in (
            (near[compute], "share a failure domain with its group", there),
            (there < cores, f"have too few cores free (at best {{}} of {cores})", there),
            (total < mb, f"have too little memory free (at best {{:,}} of {mb:,} MB)", total),
            (local < floor, f"have too little local memory free (at best {{:,}} of {floor:,} MB)", local),
            (left, "have only memory that is too remote, or are off while no more may be in use", there),
        ):
            hit = left & lacks
            left = left & ~hit
            if hit.any():
                words.append(f"{int(hit.sum())} {what.format(int(amount[hit].max()))}")
        return Reason(Code.NO_ROOM, f"of {len(compute)} clusters {', '.join(words)}")

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which servers have a place on the empty cluster."""
        return possible_servers(cluster, jobs, self.rule != "slo-first-fit")
