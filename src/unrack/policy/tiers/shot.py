"""Servers placed in one shot: a data centre and a request in, an answer out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.spec import Cluster
from unrack.cluster.tiers import names_of_clusters, scaled
from unrack.errors import InputError, PolicyError
from unrack.policy.core_tiles import CoreSet
from unrack.policy.tiers.least import least_prices
from unrack.policy.tiers.now import check_now
from unrack.policy.tiers.refusal import Refusals
from unrack.policy.tiers.supply import asked_of, supply_of
from unrack.solver.batch_books import Step
from unrack.solver.batch_check import first_fault
from unrack.solver.batch_solution import Solution
from unrack.solver.one_by_one import OneByOne
from unrack.solver.standing import RULES
from unrack.solver.tiers import Allocation, Asked, Supply
from unrack.workload.request import Request

Ints = NDArray[np.int64]

OPTIMAL = "optimal"
POLICIES = (*RULES, OPTIMAL)
EXPLAINED = 200_000_000
"""Servers without a place times clusters that are looked at for reasons, at most."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the servers of a request are, and what that is worth.

    Attributes
    ----------
    policy
        Who placed them.
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
        A repacking: servers that move, or whose memory is split anew, in an order in which each step fits.
    copied_mb
        A repacking: memory that is copied.
    core_sets
        Server → which cores of its compute pool it has; ``None``: nobody asked.
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
    copied_mb: int = field(default=0)
    core_sets: Mapping[int, CoreSet] | None = None

    @property
    def prices(self) -> Ints:
        """int64[servers]: price of each server's memory, MB times price of the tier, in units of the price scale."""
        return _sums(self.supply, self.allocation, self.supply.price)

    @property
    def weights(self) -> Ints:
        """int64[servers]: weighted remote memory of each server, in units of the cost scale."""
        return _sums(self.supply, self.allocation, self.supply.weight)

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
        there = np.flatnonzero(self.allocation.cluster >= 0)
        start = self.supply.first[self.allocation.cluster[there]]
        lengths = self.supply.first[self.allocation.cluster[there] + 1] - start
        for place in range(self.supply.width):
            has = lengths > place
            tier = self.supply.tier[self.supply.member[start[has] + place]]
            np.add.at(found, (there[has], tier), self.allocation.mb[there[has], place])
        return found

    def as_json(self) -> dict[str, Any]:
        """What ``unrack place --json`` prints; see ``docs/tiers.md``."""
        tiers = self.cluster.tiers
        assert tiers is not None
        names: tuple[str | int, ...] = tiers.cluster_names or tuple(range(tiers.clusters))
        ids = self.request.ids
        tier_mb = self.tier_mb().tolist()
        at, mb = self.allocation.cluster.tolist(), self.allocation.mb.tolist()
        lengths = np.diff(self.supply.first).tolist()
        answer: dict[str, Any] = {
            "policy": self.policy,
            "price": scaled(self.price, tiers.price_scale),
            "price_per_hour": self.price / tiers.price_scale / 1024,
            "clusters_used": self.clusters_used,
            "clusters": tiers.clusters,
            "violations": self.violations,
            "unplaced": [ids[i] for i in self.unplaced],
            "bound": scaled(self.bound, tiers.price_scale),
            "bound_clusters": self.bound_clusters,
            "gap": (self.price - self.bound) / self.price if self.price > 0 else 0.0,
            "status": self.status,
        }
        if self.moves is not None:
            answer["moves"] = [
                {
                    "id": ids[step.server],
                    "from": names[step.before],
                    "to": names[step.cluster],
                    "pools": np.asarray(step.mb)[: lengths[step.cluster]].tolist(),
                }
                for step in self.moves
            ]
            answer["copied_mb"] = self.copied_mb
        if self.core_sets is not None:
            answer |= sum_of_cores(self.core_sets)
        answer["servers"] = [
            {
                "id": ids[i],
                "cluster": names[at[i]] if at[i] >= 0 else None,
                "tiers": dict(zip(tiers.names, tier_mb[i], strict=True)),
                "pools": mb[i][: lengths[at[i]]] if at[i] >= 0 else [],
                "price": scaled(price, tiers.price_scale) if at[i] >= 0 else None,
                "reason": self.reasons.get(i),
            }
            for i, price in enumerate(self.prices.tolist())
        ]
        for i, cores in (self.core_sets or {}).items():
            answer["servers"][i]["cores"] = cores.as_json()
        return answer


def sum_of_cores(core_sets: Mapping[int, CoreSet]) -> dict[str, int]:
    """How close together the cores of all servers are, as ``unrack place --json`` says it."""
    sets = core_sets.values()
    return {
        "core_distance": sum(cores.distance for cores in sets),
        "core_distance_least": sum(cores.least for cores in sets),
        "cores_apart": sum(cores.apart for cores in sets),
    }


def _sums(supply: Supply, allocation: Allocation, column: Ints) -> Ints:
    """int64[servers]: MB of each server times a column of the pools."""
    total = np.zeros(len(allocation.cluster), np.int64)
    there = np.flatnonzero(allocation.cluster >= 0)
    start = supply.first[allocation.cluster[there]]
    lengths = supply.first[allocation.cluster[there] + 1] - start
    for place in range(supply.width):
        has = lengths > place
        total[there[has]] += allocation.mb[there[has], place] * column[supply.member[start[has] + place]]
    return total


def place_request(
    cluster: Cluster,
    request: Request,
    policy: str = "slo",
    *,
    limit_s: float = 60.0,
    seed: int = 0,
    now: Allocation | None = None,
    moves: int | None = None,
    resplit: bool = False,
    explain: bool = False,
) -> Placed:
    """Place servers on the pools of a data centre.

    Parameters
    ----------
    cluster
        A data centre with tiers of memory.
    request
        The servers; one at a time, they come in its order.
    policy
        ``"slo"`` (the paper's allocator), ``"first-fit"``, ``"best-fit"``, or ``"optimal"``: all servers at once, the
        fewest clusters first, then the lowest price.
    limit_s, seed
        Of ``optimal``: time that it may take, s, and the seed of its search.
    now
        Where servers are already; they stay there, but for ``moves`` of them.
    moves
        Of ``optimal`` with ``now``: how many servers may change their cluster.
    resplit
        Of ``moves``: servers that stay in their cluster may have their memory split anew.
    explain
        Say of each server why it is where it is; only one at a time.

    Raises
    ------
    InputError
        The request asks for what does not exist, or ``now`` does not fit.
    PolicyError
        There is no such policy.
    """
    if policy not in POLICIES:
        raise PolicyError("policy", repr(policy), f"one of {', '.join(POLICIES)}")
    supply, asks = supply_of(cluster), asked_of(request, cluster)
    tiers = cluster.tiers
    assert tiers is not None
    if now is not None:
        check_now(supply, request, now, "where servers are now")
    if policy == OPTIMAL:
        return _optimal(cluster, request, supply, asks, limit_s, seed, now, moves, resplit)
    if moves is not None or resplit:
        got = "a limit on moves" if moves is not None else "new splits for servers that are there"
        raise PolicyError(f"policy {policy}", got, "the policy optimal, which repacks")
    allocator = OneByOne(supply, asks, policy, now)
    todo = np.arange(len(asks)) if now is None else np.flatnonzero(now.cluster < 0)
    reasons: dict[int, str] = {}
    if explain:
        refusals = Refusals(allocator, tiers.cost_scale)
        names = names_of_clusters(cluster)
        for server in todo.tolist():
            reasons[server] = _step(allocator, refusals, server, names)
    else:
        allocator.place(todo)
        out = todo[allocator.cluster[todo] < 0]
        if len(out):
            reasons = _reasons(OneByOne(supply, asks, policy, now), todo, out, tiers.cost_scale)
    return _placed(policy, cluster, request, asks, supply, allocator.allocation, reasons)


def _step(allocator: OneByOne, refusals: Refusals, server: int, names: tuple[str, ...]) -> str:
    """Place one server and say why it went where it did, or why nowhere."""
    order, used, lacks = allocator.order, allocator.ranking.used.copy(), refusals.of(server)
    if allocator.place([server]) == 0:
        return lacks.among(order)
    cluster = int(allocator.cluster[server])
    words = f"cluster {names[cluster]}"
    if RULES[allocator.rule] == "best-fit":
        return f"{words}, the fullest of those that could take it"
    if RULES[allocator.rule] == "slo":
        words += f" ({used[cluster]} % in use)"
    ahead = order[: int(np.flatnonzero(order == cluster)[0])]
    return f"{words}, the first in order" + (f" that could: {lacks.among(ahead)}" if len(ahead) else "")


def _reasons(again: OneByOne, todo: Ints, out: Ints, cost_scale: int) -> dict[int, str]:
    """Why servers had no place when it was their turn: everything is placed once more, with a look at each of them."""
    refusals = Refusals(again, cost_scale)
    clusters = np.arange(again.supply.clusters)
    reasons: dict[int, str] = {}
    start = 0
    for count, server in enumerate(out.tolist()):
        if count * len(clusters) > EXPLAINED:
            reasons[server] = "no cluster could take it (too many servers have no place to look at each)"
            continue
        end = int(np.searchsorted(todo, server))
        again.place(todo[start:end])
        start = end
        reasons[server] = refusals.of(server).among(clusters)
    return reasons


def _placed(
    policy: str, cluster: Cluster, request: Request, asks: Asked, supply: Supply, allocation: Allocation,
    reasons: Mapping[int, str], **more: Any,
) -> Placed:  # fmt: skip
    bound = more.pop("bound", None)
    if bound is None:
        bound = int(least_prices(supply, asks)[allocation.cluster >= 0].clip(0).sum())
    return Placed(policy, cluster, request, asks, supply, allocation, reasons, bound, **more)


def _optimal(
    cluster: Cluster, request: Request, supply: Supply, asks: Asked, limit_s: float, seed: int,
    now: Allocation | None, moves: int | None, resplit: bool,
) -> Placed:  # fmt: skip
    """All servers at once; with ``now``, a repacking with so many moves, after servers without a place are placed."""
    from unrack.solver.batch import place_batch
    from unrack.solver.batch_repack import repack

    steps: tuple[Step, ...] | None = None
    copied = 0
    found: Solution
    if now is None:
        if moves is not None or resplit:
            got = str(moves) if moves is not None else "new splits"
            raise InputError("moves", got, "where the servers are now (--from)")
        found = place_batch(supply, asks, limit_s=limit_s, seed=seed)
    else:
        fault = first_fault(supply, asks, now, request.ids)
        if fault is not None:
            raise InputError(f"where servers are now, {fault[0]}", *fault[1:])
        allocator = OneByOne(supply, asks, "slo", now)
        allocator.place(np.flatnonzero(now.cluster < 0))
        plan = repack(supply, asks, allocator.allocation, moves=moves or 0, limit_s=limit_s, seed=seed, resplit=resplit)
        found, copied = plan, plan.copied_mb
        steps = tuple(plan.plan)
    reasons = {int(server): "no allocation was found that has a place for it too" for server in found.unplaced}
    return _placed(
        OPTIMAL, cluster, request, asks, supply, found.allocation, reasons, bound=found.bound_price,
        status=found.status, bound_clusters=found.bound_clusters, moves=steps, copied_mb=copied,
    )  # fmt: skip
