"""All servers of a request at once, newcomers beside those that are there, and repacking."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from unrack.cluster import names_of_clusters
from unrack.errors import InputError
from unrack.jit import Bools
from unrack.solver import NOWHERE, Asked, Supply, least_prices
from unrack_papers.clock import timed
from unrack_papers.servers.allocator.one_by_one import OneByOne, Refusals
from unrack_papers.servers.answer import PlacedServers
from unrack_papers.servers.batch.case import Part
from unrack_papers.servers.batch.running.moves import Step
from unrack_papers.servers.batch.solution import Solution, first_fault, price_of
from unrack_papers.servers.problem import Allocation, least_price

MOST_LOOKS = 200_000_000
"""Servers without a place times clusters that are looked at for reasons, at most."""


OUT = "no allocation was found that has a place for it beside the others"
NEVER = "not even with no other there"


@dataclass(frozen=True)
class Repack:
    """What runs, and what may change."""

    now: Allocation | None  # where servers are; `None`: no server is there
    moves: int | None  # how many of them may change their cluster; `None`: none
    resplit: bool  # whether those that stay may have their memory split anew


def place_together(
    placed: PlacedServers, repack: Repack, limit_s: float | None, seed: int, explain: bool
) -> PlacedServers:
    """As many servers as can be, in the fewest clusters, at the lowest price.

    An InputError if moves without servers that are there, or these are not what they ask for.

    Parameters
    ----------
    placed
        What is given; no server is placed yet.
    repack
        What runs. Newcomers are placed first; then servers move, if they may; then newcomers for which that made
        room.
    limit_s, seed
        Time that it may take, s (``None``: work is counted), and the seed of the search.
    explain
        Say of every server where it is and what that costs beyond the least.
    """
    from unrack_papers.servers.batch.solve import place_batch

    supply, asks, now = placed.supply, placed.asked, repack.now
    moving = repack.moves is not None or repack.resplit
    if now is None:
        if moving:
            got = "new splits" if repack.moves is None else str(repack.moves)
            raise InputError("moves", got, "where the servers are now (--from)")
        found = place_batch(supply, asks, limit_s=limit_s, seed=seed)
        answer = replace(placed, allocation=found.allocation)
    else:
        fault = first_fault(supply, asks, now, placed.request.ids)
        if fault is not None:
            raise InputError(f"where servers are now, {fault[0]}", *fault[1:])
        with timed(limit_s) as clock:
            part = Part(limit_s=clock, share=0.5 if moving else 1.0)
            found = _beside(supply, asks, now, part, seed)
            answer = replace(placed, allocation=found.allocation)
            if moving:
                cut = found.cut
                found, answer = _repacked(answer, repack, part, seed)
                found = replace(found, cut=(found.cut or cut) and found.status != "optimal")
    if found.cut:  # before all bounds were known
        found = replace(found, bound_price=max(found.bound_price, least_price(supply, asks, found.allocation)))
    answer = replace(answer, bound=found.bound_price, status=found.status, bound_clusters=found.bound_clusters)
    answer = replace(answer, cut=found.cut)
    return replace(answer, reasons=_reasons(answer, explain))


def _repacked(placed: PlacedServers, how: Repack, part: Part, seed: int) -> tuple[Solution, PlacedServers]:
    from unrack_papers.servers.batch.running.repack import repack

    assert how.now is not None
    came = (how.now.cluster < 0) & (placed.allocation.cluster >= 0)
    plan = repack(
        placed.supply, placed.asked, placed.allocation, moves=how.moves or 0, seed=seed,
        resplit=how.resplit, newcomers=int(came.sum()), **part,
    )  # fmt: skip
    found: Solution = plan
    if (least_prices(placed.supply, placed.asked)[plan.unplaced] >= 0).any():
        found = _after_moves(placed, plan, part, seed)
    late = (plan.allocation.cluster < 0) & (found.allocation.cluster >= 0)
    steps = (*_comers(placed.allocation, came), *plan.plan, *_comers(found.allocation, late))
    return found, replace(placed, allocation=found.allocation, moves=steps, copied_mb=plan.copied_mb)


def _comers(allocation: Allocation, which: Bools) -> list[Step]:
    return [
        Step(server, NOWHERE, int(allocation.cluster[server]), tuple(allocation.mb[server].tolist()))
        for server in np.flatnonzero(which).tolist()
    ]


def _after_moves(placed: PlacedServers, plan: Solution, part: Part, seed: int) -> Solution:
    """Newcomers that had no place, where moves made room for them; other moves might have made more."""
    found = _beside(placed.supply, placed.asked, plan.allocation, part, seed)
    cut = found.cut or plan.cut
    if len(found.unplaced) == len(plan.unplaced):
        return replace(plan, status="feasible", cut=cut)
    least = least_price(placed.supply, placed.asked, found.allocation)
    return replace(found, status="feasible", bound_clusters=plan.bound_clusters, bound_price=least, cut=cut)


def _beside(supply: Supply, asks: Asked, now: Allocation, part: Part, seed: int) -> Solution:
    """Newcomers placed at once beside servers that stay as they are; where they share groups with these, one by one."""
    from unrack_papers.servers.batch.solve import place_batch

    there, new = np.flatnonzero(now.cluster >= 0), np.flatnonzero(now.cluster < 0)
    grouped = asks.group[new][asks.level[new] >= 0]
    if np.isin(grouped, asks.group[there][asks.level[there] >= 0]).any():
        allocator = OneByOne(supply, asks, "slo", now)
        allocator.place(new)
        some = allocator.allocation
        used = len(np.unique(some.cluster[some.cluster >= 0]))
        out = np.flatnonzero(some.cluster < 0)
        kept = len(np.unique(now.cluster[there]))
        least = least_price(supply, asks, some)
        return Solution("feasible", some, out, used, price_of(supply, some), 0, kept, least)
    cores, mb = now.held(supply, asks.cores)
    left = replace(supply, cores=supply.cores - cores, mb=supply.mb - mb)
    busy = np.zeros(supply.clusters, np.bool_)
    busy[now.cluster[there]] = True
    found = place_batch(left, asks.some(new), seed=seed, busy=busy, **part)
    cluster, parts = now.cluster.copy(), now.mb.copy()
    cluster[new], parts[new] = found.allocation.cluster, found.allocation.mb
    whole = Allocation(cluster, parts)
    price = price_of(supply, whole)
    return replace(
        found, allocation=whole, unplaced=new[found.unplaced], price=price,
        bound_price=found.bound_price + price - found.price,
    )  # fmt: skip


def _reasons(placed: PlacedServers, explain: bool) -> dict[int, str]:
    """Why servers have no place, and with ``explain`` where the others are."""
    tiers = placed.cluster.tiers
    assert tiers is not None
    reasons = {}
    out = placed.unplaced.tolist()
    if out:
        beside, alone = (
            Refusals(OneByOne(placed.supply, placed.asked, "slo", now), tiers.cost_scale)
            for now in (placed.allocation, None)
        )
        fits = least_prices(placed.supply, placed.asked) >= 0
        clusters = np.arange(placed.supply.clusters)
        for count, server in enumerate(out):
            refusals, words = (beside, OUT) if fits[server] else (alone, NEVER)
            lacks = refusals.of(server).among(clusters) if count * len(clusters) <= MOST_LOOKS else ""
            reasons[server] = f"{words}: {lacks}" if lacks.startswith("of ") else words
    if not explain:
        return reasons
    names, at = names_of_clusters(placed.cluster), placed.allocation.cluster
    least, prices = least_prices(placed.supply, placed.asked), placed.prices
    others_there = np.bincount(at[at >= 0], minlength=placed.supply.clusters) - 1
    for server in np.flatnonzero(at >= 0).tolist():
        home = int(at[server])
        over = (int(prices[server]) - max(int(least[server]), 0)) / tiers.price_scale / 1024
        dear = f"{over:,.2f} an hour above its least price" if over > 0 else "at its least price"
        others = f"{others_there[home]} other{'s' if others_there[home] != 1 else ''}"
        reasons[server] = f"cluster {names[home]}, with {others}, {dear}"
    return dict(sorted(reasons.items()))
