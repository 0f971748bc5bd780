"""A batch of servers placed all at once: as many as can be, in the fewest clusters, at the lowest price.

1. Bounds: a linear programme over classes of equal servers and clusters (:mod:`unrack.solver.batch_bound`). 2. A
first allocation: one at a time, in several orders (:mod:`unrack.solver.one_by_one`); the best of them. 3. From there,
steps that place what was left out, empty clusters and lower the price (:mod:`unrack.solver.batch_search`),
   each until its bound is met or its tries are used up.
4. A batch small enough is solved, or an answer that is not proven finished, by constraint programming
   (:mod:`unrack.solver.tiers_cp`).

Tries are counted, not timed: unless ``limit_s`` cuts it short, the same batch and seed have the same answer.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from unrack.solver.batch_bound import Bounds
from unrack.solver.batch_case import CORES, FLOOR, MB, Case, make_case
from unrack.solver.batch_pack import clashes
from unrack.solver.batch_search import Search
from unrack.solver.batch_solution import Solution, nowhere, price_of
from unrack.solver.one_by_one import OneByOne
from unrack.solver.tiers import Allocation, Asked, Supply
from unrack.solver.tiers_cp import place_cp

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

STEPS_A_SECOND = 400_000
"""Moves and swaps that may be tried for each second of the limit."""
SMALL = 150
"""Servers x members of clusters: solved by constraint programming at once."""
MIDDLE = 4000
"""Servers x members of clusters: an answer that is not proven is finished by constraint programming."""
EFFORT = 0.2
"""Deterministic seconds of constraint programming for each second of the limit."""


def place_batch(
    supply: Supply, asked: Asked, *, limit_s: float = 60.0, seed: int = 0, start: Allocation | None = None,
    busy: Bools | None = None,
) -> Solution:  # fmt: skip
    """Place a batch of servers: as many as can be, in the fewest clusters, at the lowest price.

    Parameters
    ----------
    supply
        What is free now.
    asked
        The servers, and what else they ask; all of it is met.
    limit_s
        Time it may take, s. Loading the solvers, up to 2 s, is not counted.
    seed
        Of the search.
    start
        An allocation of these servers that may be improved on; it must meet what they ask.
    busy : bool[clusters]
        Clusters that are in use before, and so count as used; default: none.

    Returns
    -------
    Solution
        With bounds that no allocation of the batch can beat.

    Raises
    ------
    InputError
        ``busy`` is of another length, or a server is pinned to a cluster that does not exist.

    Examples
    --------
    >>> from unrack.solver.tiers import asked, regular_supply
    >>> supply = regular_supply(3, (4, 100), ((400, 1, 50, 1), (800, 2, 25, 1)), price=100)
    >>> asks = asked(np.array([1, 1]), np.array([200, 300]), np.array([20, 30]), np.array([270, 400]), tiers=3)
    >>> found = place_batch(supply, asks)
    >>> found.status, found.clusters_used, found.price, found.unplaced.tolist()
    ('optimal', 1, 22000, [])
    """
    began = perf_counter()
    case = make_case(supply, asked, busy)
    best = _first(case, start)
    size = len(asked) * len(supply.member)
    bound = (int(case.hopeless.sum()), int(case.busy.sum()), 0)
    if 0 < size <= SMALL:
        exact = _by_cp(case, best, limit_s, seed)
        if exact.status == "optimal":
            return replace(exact, wall_s=perf_counter() - began)
        best, bound = exact.allocation, _higher(bound, exact.bound)
    until, steps = began + limit_s, round(limit_s * STEPS_A_SECOND)
    best, more = _searched(case, best, seed, until, steps)
    found = _solution(case, best, _higher(bound, more), began)
    narrow = _narrowed(case)
    if found.status != "optimal" and narrow is not None:
        other, _ = _searched(narrow, _first(narrow, None), seed, until, steps)
        best = min(best, other, key=lambda one: _objective(case, one))
        found = _solution(case, best, found.bound, began)
    left = limit_s - (perf_counter() - began)
    if found.status != "optimal" and SMALL < size <= MIDDLE and left > 0:
        exact = _by_cp(case, best, left, seed)
        if exact.objective < found.objective:
            best = exact.allocation
        found = _solution(case, best, _higher(found.bound, exact.bound), began)
    return found


def _searched(
    case: Case, best: Allocation, seed: int, until: float, steps: int
) -> tuple[Allocation, tuple[int, int, int]]:
    """The steps, and a bound on the three goals, each given that those before are as in the answer."""
    bounds = Bounds(case)
    search = Search(case, np.random.Generator(np.random.PCG64(seed)), until, steps)
    fewest_out = bounds.unplaced()
    apart = not clashes(case.land, case.crowd, best.cluster)
    if apart:
        best = search.admit(best, fewest_out)
    placed = int((best.cluster >= 0).sum())
    fewest = bounds.clusters(placed)
    if apart:
        best = search.empty(best, fewest)
    used = len(search.opened(best.cluster))
    least = bounds.price(placed, used)
    if apart:
        again = search.exchange(best)
        if price_of(case.supply, again) < price_of(case.supply, best):
            best = again
        best, _ = search.cheapen(best, price_of(case.supply, best), least)
    return best, (fewest_out, fewest, least)


def _narrowed(case: Case) -> Case | None:
    """The batch with servers of groups kept off tiers that can be in another failure domain than the cores are.

    The search takes any pool that a server may use as used, so replicas in different racks are kept from clusters that
    share a pool. None: that would change nothing.
    """
    supply, asked = case.supply, case.asked
    forbidden = case.crowd.forbidden.copy()
    for level in np.unique(asked.level[asked.level >= 0]).tolist():
        domain = supply.domain[level]
        for c in range(supply.clusters):
            pools = supply.pools(c)
            elsewhere = pools[(domain[pools] >= 0) & (domain[pools] != domain[pools[0]])]
            forbidden[np.ix_(asked.level == level, supply.tier[elsewhere])] = True
    if (forbidden == case.crowd.forbidden).all():
        return None
    return make_case(supply, replace(asked, forbidden=forbidden), case.busy)


def _first(case: Case, start: Allocation | None) -> Allocation:
    """The best of the start, if any, and of servers placed one at a time in several orders."""
    supply, asked, need = case.supply, case.asked, case.need
    tries = [] if start is None else [start]
    orders = [np.arange(len(asked))]
    orders += [np.argsort(-need[row], kind="stable") for row in (MB, CORES, FLOOR)]
    orders += [np.argsort(need[MB], kind="stable")]
    for order in orders:
        for rule in ("slo", "best-fit"):
            allocator = OneByOne(supply, asked, rule)
            allocator.pools.load[case.busy] = 1
            allocator.place(order.astype(np.int64))
            tries.append(allocator.allocation)
    tries = tries or [nowhere(supply, asked)]
    return min(tries, key=lambda one: _objective(case, one))


def _by_cp(case: Case, start: Allocation, limit_s: float, seed: int) -> Solution:
    return place_cp(
        case.supply, case.asked, limit_s=limit_s, seed=seed, start=start, busy=case.busy, effort=EFFORT * limit_s
    )  # fmt: skip


def _objective(case: Case, best: Allocation) -> tuple[int, int, int]:
    used = case.busy.copy()
    used[best.cluster[best.cluster >= 0]] = True
    return int((best.cluster < 0).sum()), int(used.sum()), price_of(case.supply, best)


def _higher(one: tuple[int, int, int], two: tuple[int, int, int]) -> tuple[int, int, int]:
    """The stronger of two bounds, goal by goal."""
    return max(one[0], two[0]), max(one[1], two[1]), max(one[2], two[2])


def _solution(case: Case, best: Allocation, bound: tuple[int, int, int], began: float) -> Solution:
    goals = _objective(case, best)
    status = "optimal" if goals == bound else "feasible"
    out = np.flatnonzero(best.cluster < 0)
    return Solution(status, best, out, goals[1], goals[2], *bound, wall_s=perf_counter() - began)
