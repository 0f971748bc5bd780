"""Servers placed in one shot: a data centre and a request in, an answer out."""

from __future__ import annotations

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.cluster.tiers.tier import names_of_clusters
from unrack.errors import PolicyError
from unrack.kernels.arrays import Ints
from unrack.policy.tiers.all_at_once import Repack, place_together
from unrack.policy.tiers.answer import PlacedServers
from unrack.policy.tiers.order import REQUEST, check_order, in_order
from unrack.policy.tiers.present import check_now
from unrack.policy.tiers.refusal import MOST_LOOKS, Refusals
from unrack.policy.tiers.supply import asked_of, supply_of
from unrack.solver.batch.solution import nowhere
from unrack.solver.servers.holdings import RULES
from unrack.solver.servers.least_price import least_price
from unrack.solver.servers.one_by_one import OneByOne
from unrack.solver.servers.problem import Allocation
from unrack.workload.request import Request

OPTIMAL = "optimal"
POLICIES = (*RULES, OPTIMAL)


def place_request(
    cluster: Cluster,
    request: Request,
    policy: str = "slo",
    *,
    limit_s: float | None = None,
    seed: int = 0,
    now: Allocation | None = None,
    moves: int | None = None,
    resplit: bool = False,
    order: str = REQUEST,
    explain: bool = False,
) -> PlacedServers:
    """Place the servers of a request that has been read; parameters and errors are those of :func:`unrack.place`.

    ``now``: where servers are already.
    """
    check_order(order, "")
    if policy not in POLICIES:
        raise PolicyError("policy", repr(policy), f"one of {', '.join(POLICIES)}")
    supply, asks = supply_of(cluster), asked_of(request, cluster)
    tiers = cluster.tiers
    assert tiers is not None
    if now is not None:
        check_now(supply, request, now, "where servers are now")
    if policy == OPTIMAL:
        if order != REQUEST:
            raise PolicyError("order", f"{order!r} beside the policy optimal", "servers that come one after the other")
        placed = PlacedServers(policy, cluster, request, asks, supply, nowhere(supply, asks), {}, 0)
        return place_together(placed, Repack(now, moves, resplit), limit_s, seed, explain)
    if moves is not None or resplit:
        got = "a limit on moves" if moves is not None else "new splits for servers that are there"
        raise PolicyError(f"policy {policy}", got, "the policy optimal, which repacks")
    allocator = OneByOne(supply, asks, policy, now)
    todo = np.arange(len(asks)) if now is None else np.flatnonzero(now.cluster < 0)
    todo = in_order(todo, asks, order, tiers.cost_scale)
    reasons: dict[int, str] = {}
    if explain:
        refusals = Refusals(allocator, tiers.cost_scale)
        names = names_of_clusters(cluster)
        for server in todo.tolist():
            reasons[server] = _step(allocator, refusals, server, names)
    else:
        allocator.place(todo)
        out = np.flatnonzero(allocator.cluster[todo] < 0)
        if len(out):
            reasons = _reasons(OneByOne(supply, asks, policy, now), todo, out, tiers.cost_scale)
    found = allocator.allocation
    bound = least_price(supply, asks, found)
    return PlacedServers(policy, cluster, request, asks, supply, found, reasons, bound)


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
    """Why servers had no place when it was their turn: everything is placed once more, with a look at each of them.

    ``out`` are their places in ``todo``.
    """
    refusals = Refusals(again, cost_scale)
    clusters = np.arange(again.supply.clusters)
    reasons: dict[int, str] = {}
    start = 0
    for count, end in enumerate(out.tolist()):
        server = int(todo[end])
        if count * len(clusters) > MOST_LOOKS:
            reasons[server] = "no cluster could take it (too many servers have no place to look at each)"
            continue
        again.place(todo[start:end])
        start = end
        reasons[server] = refusals.of(server).among(clusters)
    return reasons
