"""A running system packed again: with few moves, empty as many clusters as possible, then lower the price.

Every move is made on the books as soon as it is decided, beside all that is there at that moment; so the moves, in
their order, are a plan in which nothing ever exceeds what there is, a server that moves being counted at both ends.

Two ways, of which the better is kept. Move by move (``repack.py``), clusters in
several orders. And, where splits may change, the search for a whole batch (``search.py``), kept so
near to what runs now that the moves suffice; then an order of steps to get there
(``_go_towards``), in which a server may be parked.

Emptying the clusters of a running system, and lowering its price, move by move.

A cluster is emptied server by server, the largest first, into the fullest open cluster that has room. If none has, a
server elsewhere (the smallest that helps) moves on to make room. A cluster that cannot be emptied keeps all its
servers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from unrack.errors import InputError
from unrack.jit import Bools, Ints
from unrack.solver import Asked, Supply, least_prices
from unrack_papers.clock import Clock, timed
from unrack_papers.servers.batch.bound import Bounds
from unrack_papers.servers.batch.case import MB, Case, efforts, make_case, split_together
from unrack_papers.servers.batch.pack import clashes
from unrack_papers.servers.batch.running.moves import TIGHTEST, Books, Budget, Step, best_place, best_saving, make_room
from unrack_papers.servers.batch.search import Search
from unrack_papers.servers.batch.solution import Solution, first_fault, price_of, prices
from unrack_papers.servers.problem import Allocation

LOOKS_FOR_ROOM = 50
"""Looks that it takes for each server whether its leaving would make room."""


def empty_clusters(books: Books, fewest: int, draws: np.random.Generator | None) -> None:
    """Empty clusters while moves remain and more than ``fewest`` are in use.

    Parameters
    ----------
    draws
        Clusters with fewest servers come first; with draws, in an order that only leans to that.
    """
    case, run = books.case, books.run
    while True:
        opened = books.opened()
        at = books.run.at
        counts = np.bincount(at[at >= 0], minlength=case.supply.clusters)[opened]
        weight = counts * (draws.random(len(opened)) + 0.5 if draws is not None else 1.0)
        held = case.asked.pinned[run.at >= 0]
        for k in np.argsort(weight, kind="stable").tolist():
            victim = int(opened[k])
            if books.budget.over:
                return
            may = counts[k] <= books.left and len(opened) > fewest and not (held == victim).any()
            if may and _clear(books, victim):
                break
        else:
            return


def cheapen_places(books: Books, *, resplit: bool) -> None:
    """Make the moves that remain, the one that saves most first; then split again those that stay, if allowed."""
    case = books.case
    books.run.opened[:] = False
    books.run.opened[books.opened()] = True
    into = np.zeros(books.run.mb.shape[1], np.int64)
    while books.left and not books.budget.over:
        paid = prices(case.supply, books.allocation)
        books.budget.looks -= len(paid) * case.supply.clusters
        server, cluster = best_saving(case.land, case.crowd, books.run, paid)
        if server < 0:
            break
        books.price_at(server, cluster, into)
        books.move(server, cluster, into)
    if not resplit:
        return
    for part in np.unique(case.part[books.opened()]).tolist():
        which = np.flatnonzero((books.run.at >= 0) & (case.part[books.run.at] == part))
        if books.budget.over:
            return
        if (case.asked.level[which] < 0).all():
            split = split_together(case.supply, case.asked, which, books.run.at[which])
            if split is not None:
                books.split_again(which, split)


def _clear(books: Books, victim: int) -> bool:
    """Move every server of a cluster elsewhere; if that fails, nothing has changed."""
    before = books.copy()
    books.run.opened[victim] = False
    case, size = books.case, books.case.need[MB]
    movers = np.flatnonzero(books.run.at == victim)
    order = np.argsort(size, kind="stable")
    into = np.zeros(books.run.mb.shape[1], np.int64)
    waiting = len(movers)
    for i in movers[np.argsort(-size[movers], kind="stable")].tolist():
        if books.run.moved[i] or books.left < waiting or books.budget.over:
            return books.restore(before)
        books.budget.looks -= case.supply.clusters
        cluster, _ = best_place(case.land, case.crowd, books.run, i, TIGHTEST, into)
        if cluster < 0 and books.left > waiting:
            books.budget.looks -= LOOKS_FOR_ROOM * len(order)
            other, away = make_room(case.land, case.crowd, books.run, i, order)
            if other >= 0:
                books.price_at(other, away, into)
                books.move(other, away, into)
                cluster, _ = best_place(case.land, case.crowd, books.run, i, TIGHTEST, into)
        if cluster < 0:
            return books.restore(before)
        books.move(i, cluster, into)
        waiting -= 1
    return True


def _go_towards(books: Books, target: Allocation) -> bool:
    """Make the steps towards an allocation of the servers placed now; returns whether it was reached, but for splits.

    As long as any can: a server moves to its new cluster with its new split; or one that is in the right cluster takes
    its new split; or one moves to its new cluster with a split that fits for now. Where nothing can, the smallest
    server that still has to move is parked in a cluster that has room for it, once. What cannot be reached so is left.
    """
    case, parked = books.case, np.zeros(len(target.cluster), np.bool_)
    free_to_split = case.asked.level < 0
    while True:
        run = books.run
        away = np.flatnonzero(run.at != target.cluster)
        other = np.flatnonzero((run.at == target.cluster) & (run.mb != target.mb).any(axis=1) & free_to_split)
        if not len(away) and not len(other):
            return True
        steps = len(books.plan)
        for i in away[free_to_split[away]].tolist():
            if books.takes(i, int(target.cluster[i]), target.mb[i]):
                books.move(i, int(target.cluster[i]), target.mb[i])
        if len(books.plan) == steps:
            books.split_again(other, target.mb[other])
        if len(books.plan) == steps and not (_for_now(books, target, away) or _park(books, target, away, parked)):
            return not len(away)


def _for_now(books: Books, target: Allocation, away: Ints) -> bool:
    """Move one server to its new cluster with any split that fits."""
    into = np.zeros(books.run.mb.shape[1], np.int64)
    for i in away.tolist():
        if books.price_at(i, int(target.cluster[i]), into) >= 0:
            books.move(i, int(target.cluster[i]), into)
            return True
    return False


def _park(books: Books, target: Allocation, away: Ints, parked: Bools) -> bool:
    """Move the smallest server that was not parked before out of its cluster, to any that has room."""
    case, into = books.case, np.zeros(books.run.mb.shape[1], np.int64)
    books.run.opened[:] = True
    waiting = away[~parked[away]]
    for i in waiting[np.argsort(case.need[MB, waiting], kind="stable")].tolist():
        cluster, _ = best_place(case.land, case.crowd, books.run, i, TIGHTEST, into)
        if cluster >= 0:
            parked[i] = True
            books.move(i, cluster, into)
            return True
    return False


STEPS_A_SECOND = 750_000
"""Moves and swaps that the search may try for each second of work."""
LOOKS_A_SECOND = 2_000_000
"""Looks of a server at a cluster, for each second of work."""
TRIES = 8
"""Orders of clusters that are tried, at most."""
SHARES = (4, 3, 2, 1)
"""Quarters of the moves that the search may use: fewer, until there are steps to as few clusters as it finds."""


@dataclass(frozen=True, eq=False)
class Repacking(Solution):
    """A solution, and how to get there from what runs now."""

    plan: list[Step] = field(default_factory=list)  # list of Step: in this order, each fits
    # int64[any]: servers that change their cluster, ascending
    moved: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    # memory that is written anew: all of a server that moves; of one that stays, what grows in some pool
    copied_mb: int = 0


def repack(
    supply: Supply, asked: Asked, now: Allocation, *, moves: int, limit_s: float | Clock | None = None, seed: int = 0,
    resplit: bool = False, newcomers: int = 0, effort_s: float | None = None, share: float = 1.0,
) -> Repacking:  # fmt: skip
    """Empty as many clusters as a number of moves allows, then lower the price.

    Its bounds hold for any plan with as many moves. An InputError if ``moves`` is negative, or ``now`` holds
    more than is installed or is not what servers ask.

    Parameters
    ----------
    supply
        All that is installed, as if no server were there.
    asked
        The servers that run. Those that ``now`` has nowhere stay nowhere.
    now
        Where they are.
    moves
        At most so many servers change their cluster. One of them may move twice.
    limit_s
        Time it may compute, s, or a clock that runs; ``None``: no clock is looked at.
    seed
        Of the search.
    resplit
        Whether servers that stay may have their memory split again.
    newcomers
        How many of the servers could have come elsewhere, without a move: the bounds allow for that.
    effort_s, share
        Work that may be done, in counted seconds, and part of the default: as of
        ``place_batch``.
    """
    if moves < 0:
        raise InputError("moves", str(moves), "at least 0")
    fault = first_fault(supply, asked, now)
    if fault is not None:
        raise InputError(f"now, {fault[0]}", *fault[1:])
    with timed(limit_s) as clock:
        first, *more = efforts(clock, effort_s, share)
        found = _repacked(supply, asked, now, moves, clock, first, seed, newcomers, resplit=resplit)
        for effort in more:
            if found.status != "optimal" and not clock.over():
                other = _repacked(supply, asked, now, moves, clock, effort, seed + 1, newcomers, resplit=resplit)
                found = replace(min(found, other, key=lambda one: one.objective), cut=clock.cut)
    return found


def _repacked(
    supply: Supply, asked: Asked, now: Allocation, moves: int, clock: Clock, effort: float, seed: int, newcomers: int,
    *, resplit: bool,
) -> Repacking:  # fmt: skip
    there = np.flatnonzero(now.cluster >= 0)
    case, everybody = make_case(supply, replace(asked.some(there), most_clusters=-1)), now
    now = Allocation(everybody.cluster[there], everybody.mb[there])
    bounds = Bounds(case, effort, clock)
    fewest, least_used = (_left_by(now, steps) for steps in (moves, moves + newcomers))
    if least_used < _left_by(now, 0):
        least_used = max(least_used, bounds.clusters(len(there)))
        fewest = max(fewest, least_used)
    budget = Budget(round(effort * LOOKS_A_SECOND / 2), clock)
    found = _move_by_move(case, now, moves, fewest, seed, budget, resplit=resplit)
    if resplit and moves and not clashes(case.land, case.crowd, now.cluster):
        budget = Budget(round(effort * LOOKS_A_SECOND / 2), clock)
        for share in SHARES:
            search = Search(
                case, np.random.default_rng(seed), clock,
                round(effort * STEPS_A_SECOND / len(SHARES)), now.cluster, moves * share // SHARES[0],
            )  # fmt: skip
            packed = search.empty(now, fewest)
            wished = len(search.opened(packed.cluster))
            wish, _ = search.cheapen(packed, price_of(supply, packed), bounds.price(len(bounds.able), wished))
            if not budget.over:
                books = Books(case, now, moves, budget)
                _go_towards(books, wish)
                cheapen_places(books, resplit=True)
                found = min(found, books, key=_goals)
            if len(found.opened()) <= wished or search.over:
                break
    used, price = _goals(found)
    at, mb = everybody.cluster.copy(), everybody.mb.copy()
    at[there], mb[there] = found.run.at, found.run.mb
    out = np.flatnonzero(at < 0)
    least = bounds.price(len(there), used)
    if not resplit:
        least = max(least, _saved_at_most(case, now, moves + newcomers))
    bound = (len(out), least_used, least)
    status = "optimal" if bound == (len(out), used, price) else "feasible"
    return Repacking(
        status, Allocation(at, mb), out, used, price, *bound, cut=clock.cut and status != "optimal",
        wall_s=clock.took_s(), plan=[replace(step, server=int(there[step.server])) for step in found.plan],
        moved=np.flatnonzero(at != everybody.cluster), copied_mb=found.copied_mb,
    )  # fmt: skip


def _move_by_move(
    case: Case, now: Allocation, moves: int, fewest: int, seed: int, budget: Budget, *, resplit: bool
) -> Books:
    """The best of several orders in which clusters are emptied."""
    draws = np.random.default_rng(seed)
    tries: list[Books] = []
    enough = budget.looks // 2  # the other half is for the price
    for attempt in range(TRIES):
        books = Books(case, now, moves, budget)
        empty_clusters(books, fewest, draws if attempt else None)
        tries.append(books)
        if len(books.opened()) <= fewest or budget.over or budget.looks < enough:
            break
    best = min(tries, key=lambda books: len(books.opened()))
    cheapen_places(best, resplit=resplit)
    return best


def _saved_at_most(case: Case, now: Allocation, moves: int) -> int:
    """At least this price where servers that stay keep their split: those that move save what they could if alone."""
    paid = prices(case.supply, now)
    saved = np.sort(np.maximum(paid - least_prices(case.supply, case.asked), 0))[::-1]
    return int(paid.sum() - saved[:moves].sum())


def _goals(books: Books) -> tuple[int, int]:
    return len(books.opened()), price_of(books.case.supply, books.allocation)


def _left_by(now: Allocation, moves: int) -> int:
    """Clusters that stay in use as a move empties no more than its share of one."""
    counts = np.sort(np.unique(now.cluster[now.cluster >= 0], return_counts=True)[1])
    return len(counts) - int(np.searchsorted(np.cumsum(counts), moves, side="right"))
