"""A running system packed again: with few moves, empty as many clusters as possible, then lower the price.

Every move is made on the books as soon as it is decided, beside all that is there at that moment; so the moves, in
their order, are a plan in which nothing ever exceeds what there is, a server that moves being counted at both ends.

Two ways, of which the better is kept. Move by move (:mod:`unrack.solver.batch_empty`), clusters in several orders.
And, where splits may change, the search for a whole batch (:mod:`unrack.solver.batch_search`), kept so near to what
runs now that the moves suffice; then an order of steps to get there (:mod:`unrack.solver.batch_order`), in which a
server may be parked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from unrack.errors import InputError
from unrack.solver.batch_books import Books, Step
from unrack.solver.batch_bound import Bounds
from unrack.solver.batch_case import Case, make_case
from unrack.solver.batch_empty import cheapen_places, empty_clusters
from unrack.solver.batch_order import go_towards
from unrack.solver.batch_pack import clashes
from unrack.solver.batch_search import Search
from unrack.solver.batch_solution import Solution, price_of
from unrack.solver.batch_split import fits_together, split_together
from unrack.solver.tiers import Allocation, Asked, Supply

Ints = NDArray[np.int64]

STEPS_A_SECOND = 200_000
"""Moves and swaps that the search may try for each second of the limit."""
TRIES = 8
"""Orders of clusters that are tried, at most: one for each second of the limit."""

SHARES = (4, 3, 2, 1)
"""Quarters of the moves that the search may use: fewer, until there are steps to as few clusters as it finds."""


@dataclass(frozen=True, eq=False)
class Repacking(Solution):
    """A solution, and how to get there from what runs now.

    Attributes
    ----------
    plan : list of Step
        In this order, each fits.
    moved : int64[any]
        Servers whose cluster changes, ascending.
    copied_mb
        Memory that is written anew: all of a server that moves; of one that stays, what grows in some pool.
    """

    plan: list[Step] = field(default_factory=list)
    moved: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    copied_mb: int = 0


def repack(
    supply: Supply, asked: Asked, now: Allocation, *, moves: int, limit_s: float = 60.0, seed: int = 0, resplit: bool
    = False
) -> Repacking:  # fmt: skip
    """Empty as many clusters as a number of moves allows, then lower the price.

    Parameters
    ----------
    supply
        All that is installed, as if nobody were there.
    asked
        The servers that run. Those that ``now`` has nowhere stay nowhere.
    now
        Where they are.
    moves
        At most so many servers change their cluster. One of them may move twice.
    limit_s
        Time it may take, s.
    seed
        Of the search.
    resplit
        Whether servers that stay may have their memory split again.

    Returns
    -------
    Repacking
        Its bounds hold for any plan with as many moves.

    Raises
    ------
    InputError
        ``moves`` is negative, or ``now`` holds more than is installed or breaks an SLO.
    """
    began = perf_counter()
    if moves < 0:
        raise InputError("moves", str(moves), "at least 0")
    there = np.flatnonzero(now.cluster >= 0)
    _check(supply, asked, now, there)
    case, everybody = make_case(supply, _some(asked, there)), now
    now = Allocation(everybody.cluster[there], everybody.mb[there])
    bounds = Bounds(case)
    fewest = max(_left_by(now, moves), bounds.clusters(len(there)))
    found = _move_by_move(case, now, moves, fewest, seed, began + limit_s / 2, limit_s, resplit)
    if resplit and not clashes(case.land, case.crowd, now.cluster):
        for share in SHARES:
            search = Search(
                case, np.random.Generator(np.random.PCG64(seed)), began + limit_s,
                round(limit_s * STEPS_A_SECOND / len(SHARES)), now.cluster, moves * share // SHARES[0],
            )  # fmt: skip
            wished, tries = _as_a_whole(search, now, moves, fewest, bounds)
            found = min([found, *tries], key=_goals)
            if len(found.opened()) <= wished:
                break
    used, price = _goals(found)
    at, mb = everybody.cluster.copy(), everybody.mb.copy()
    at[there], mb[there] = found.run.at, found.run.mb
    out = np.flatnonzero(at < 0)
    bound = (len(out), fewest, bounds.price(len(there), used))
    return Repacking(
        "optimal" if bound == (len(out), used, price) else "feasible", Allocation(at, mb), out, used, price, *bound,
        wall_s=perf_counter() - began, plan=[replace(step, server=int(there[step.server])) for step in found.plan],
        moved=np.flatnonzero(at != everybody.cluster), copied_mb=found.copied_mb,
    )  # fmt: skip


def _move_by_move(
    case: Case, now: Allocation, moves: int, fewest: int, seed: int, until: float, limit_s: float, resplit: bool
) -> Books:
    """The best of several orders in which clusters are emptied."""
    draws = np.random.Generator(np.random.PCG64(seed))
    tries: list[Books] = []
    for attempt in range(min(TRIES, max(1, int(limit_s)))):
        books = Books(case, now, moves)
        empty_clusters(books, fewest, draws if attempt else None, resplit=resplit)
        tries.append(books)
        if len(books.opened()) <= fewest or perf_counter() > until:
            break
    best = min(tries, key=lambda books: len(books.opened()))
    cheapen_places(best, resplit=resplit)
    return best


def _as_a_whole(search: Search, now: Allocation, moves: int, fewest: int, bounds: Bounds) -> tuple[int, list[Books]]:
    """How many clusters a search leaves; and what is reached: clusters emptied, and then also the price lowered."""
    packed = search.empty(now, fewest)
    wished = len(search.opened(packed.cluster))
    least = bounds.price(len(bounds.able), wished)
    tries = []
    gentle = _least_copied(search.case, now, packed)
    for wish in (gentle, search.cheapen(packed, price_of(search.case.supply, packed), least)[0]):
        books = Books(search.case, now, moves)
        go_towards(books, wish)
        cheapen_places(books, resplit=True)
        tries.append(books)
    return wished, tries


def _least_copied(case: Case, now: Allocation, wish: Allocation) -> Allocation:
    """The same servers in the same clusters, with splits as near as can be to what they are now."""
    mb = wish.mb.copy()
    was = np.where((wish.cluster == now.cluster)[:, None], now.mb, 0)
    parts = case.part[wish.cluster]
    for part in np.unique(parts).tolist():
        which = np.flatnonzero(parts == part)
        split = split_together(case.supply, case.asked, which, wish.cluster[which], was=was[which])
        if split is not None:
            mb[which] = split
    return Allocation(wish.cluster, mb)


def _goals(books: Books) -> tuple[int, int]:
    return len(books.opened()), price_of(books.case.supply, books.allocation)


def _left_by(now: Allocation, moves: int) -> int:
    """Clusters that stay in use as a move empties no more than its share of one."""
    counts = np.sort(np.unique(now.cluster[now.cluster >= 0], return_counts=True)[1])
    return len(counts) - int(np.searchsorted(np.cumsum(counts), moves, side="right"))


def _some(asked: Asked, which: Ints) -> Asked:
    """What some servers ask; any number of clusters may be in use."""
    a = asked
    return Asked(
        a.cores[which], a.mb[which], a.floor[which], a.ceiling[which], a.forbidden[which], a.group[which],
        a.level[which], a.pinned[which],
    )  # fmt: skip


def _check(supply: Supply, asked: Asked, now: Allocation, there: Ints) -> None:
    compute = supply.member[supply.first[now.cluster[there]]]
    cores = np.bincount(compute, weights=asked.cores[there], minlength=len(supply.mb))
    if (cores > supply.cores).any():
        pool = int(np.argmax(cores > supply.cores))
        raise InputError(
            "now", f"{cores[pool]:.0f} cores in use in pool {pool}", f"at most the {supply.cores[pool]} it has"
        )
    if not fits_together(supply, asked, there, now.cluster[there], now.mb[there]):
        raise InputError(
            "now", "a server outside its SLOs, or a pool that gives more than it has", "an allocation that fits"
        )
