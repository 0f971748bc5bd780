"""All servers of a request at once, newcomers beside those that are there, and repacking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from unrack.cluster.tiers.tier import names_of_clusters, scaled
from unrack.errors import InputError
from unrack.kernels.arrays import Bools, Ints
from unrack.policy.tiers.answer import PlacedServers
from unrack.policy.tiers.supply import could_hold
from unrack.solver.batch.running.moves import Step
from unrack.solver.batch.solution import Solution, first_fault, price_of
from unrack.solver.clock import Part, timed
from unrack.solver.servers.holdings import RULES
from unrack.solver.servers.least_price import least_price, least_prices
from unrack.solver.servers.one_by_one import OneByOne
from unrack.solver.servers.problem import NOWHERE, Allocation, Asked, Supply

MOST_LOOKS = 200_000_000
"""Servers without a place times clusters that are looked at for reasons, at most."""


class Lack(NamedTuple):
    """Something that a cluster may lack."""

    what: str  # in words, of clusters
    fails: Bools  # bool[clusters]: which clusters lack it
    amount: Ints | None = None  # int64[clusters]: how much each has of it, the more the better; `None`: it is no amount
    words: str = ""  # how to say an amount
    scale: int = 1  # what amounts are divided by in words; negative amounts stand for what should be small


@dataclass(frozen=True)
class Refusal:
    """What each cluster lacks for a server, tests in order; a cluster counts for the first that it fails."""

    lacks: tuple[Lack, ...]

    def among(self, clusters: Ints) -> str:
        """In words, for some clusters: how many lack what, and how near the best of them comes."""
        parts = []
        rest = clusters
        for lack in self.lacks:
            hit = rest[lack.fails[rest]]
            rest = rest[~lack.fails[rest]]
            if len(hit):
                parts.append(f"{len(hit)} {lack.what}")
                if lack.amount is not None:
                    best = int(lack.amount[hit].max())
                    parts[-1] += f" (at best {lack.words.format(scaled(abs(best), lack.scale))})"
        return f"of {len(clusters)} clusters " + ", ".join(parts) if parts else "no cluster"


class Refusals:
    """Reasons, from the state of an allocator at the time of asking.

    ``allocator``: what places; ``cost_scale``: units of weight for each MB of a tier of cost 1.
    """

    def __init__(self, allocator: OneByOne, cost_scale: int) -> None:
        self._by = allocator
        self._scale = cost_scale
        supply = allocator.supply
        lengths = np.diff(supply.first)
        self._member = np.full((supply.clusters, supply.width), -1, np.int64)
        for place in range(supply.width):
            has = lengths > place
            self._member[has, place] = supply.member[supply.first[:-1][has] + place]

    def of(self, server: int) -> Refusal:
        """What the clusters lack for a server, as things stand."""
        pools, asks, member = self._by.pools, self._by.servers, self._member
        ids = np.arange(len(member))
        mb = np.where(member >= 0, pools.mb[member], 0)
        if asks.forbidden.shape[1]:
            mb[asks.forbidden[server][pools.tier[member]]] = 0
        near = self._near(server)
        mb[near] = 0
        cores, need = pools.cores[member[:, 0]], int(asks.mb[server])
        left, weight = np.full(len(ids), need), np.zeros(len(ids), np.int64)
        for place in range(mb.shape[1]):
            part = np.minimum(left, mb[:, place])
            weight += part * pools.weight[member[:, place]]
            left -= part
        pin, floor, ceiling = int(asks.pinned[server]), int(asks.floor[server]), int(asks.ceiling[server])
        full = 0 <= self._by.most <= int((pools.load > 0).sum())
        lacks = [
            Lack("are not the one it is pinned to", (ids != pin) & (pin >= 0)),
            Lack("are off while no more may be in use", (pools.load == 0) & full),
            Lack("share a failure domain with its group", near[:, 0]),
            Lack("have too few cores free", cores < asks.cores[server], cores, f"{{}} of {asks.cores[server]}"),
            Lack("have too little memory free", left > 0, mb.sum(axis=1), f"{{:,}} of {need:,} MB"),
        ]
        if RULES[self._by.rule] != "first-fit":
            words = f"{{:,}} of {floor:,} MB"
            lacks.append(Lack("have too little local memory free", mb[:, 0] < floor, mb[:, 0], words))
            words = f"{{:,}} weighted MB, above {scaled(ceiling, self._scale):,}"
            lacks.append(Lack("have only memory that is too remote", weight > ceiling, -weight, words, self._scale))
        return Refusal(tuple(lacks))

    def _near(self, server: int) -> Bools:
        """bool[clusters, width]: pools in a failure domain where the server's group holds something."""
        asks, pools, member = self._by.servers, self._by.pools, self._member
        level, group = int(asks.level[server]), int(asks.group[server])
        found = np.zeros(member.shape, np.bool_)
        if level < 0:
            return found
        others = np.flatnonzero((asks.group == group) & (asks.cluster >= 0))
        taken = set()
        for other in others.tolist():
            its = self._member[asks.cluster[other]]
            held = (asks.parts[other] > 0) | (np.arange(len(its)) == 0)
            taken.update(pools.domain[level, its[held & (its >= 0)]].tolist())
        taken.discard(-1)
        return np.isin(pools.domain[level, member], sorted(taken)) & (member >= 0)


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
    from unrack.solver.batch.solve import place_batch

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
    from unrack.solver.batch.running.repack import repack

    assert how.now is not None
    came = (how.now.cluster < 0) & (placed.allocation.cluster >= 0)
    plan = repack(
        placed.supply, placed.asked, placed.allocation, moves=how.moves or 0, seed=seed,
        resplit=how.resplit, newcomers=int(came.sum()), **part,
    )  # fmt: skip
    found: Solution = plan
    if could_hold(placed.supply, placed.asked, True)[plan.unplaced].any():
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
    from unrack.solver.batch.solve import place_batch

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
        fits = could_hold(placed.supply, placed.asked, True)
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
