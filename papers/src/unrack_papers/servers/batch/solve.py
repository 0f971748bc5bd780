"""A batch of servers placed all at once: as many as can be, in the fewest clusters, at the lowest price.

1. Bounds: a linear programme over classes of equal servers and clusters (``bound.py``).
2. A first allocation: one at a time, in several orders (:mod:`unrack_papers.servers.allocator.one_by_one`); the best.
3. From there, steps that place what was left out, empty clusters and lower the price (``search.py``), each until its
   bound is met or its tries are used up.
4. A batch small enough is solved, or an answer that is not proven finished, by constraint programming
   (``constraint.py``).

Work is counted, not timed: steps, visits, iterations, nodes. Without a time limit the same batch and seed have the same
answer on any machine, however busy. A limit ends the same steps earlier (:class:`unrack_papers.clock.Clock`), and the
answer is the best until then and says that it was cut; one above what is counted lets the search go on from there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product

import numpy as np

from unrack.errors import InputError
from unrack.extras import needed_for
from unrack.jit import Bools
from unrack.solver import Asked, Supply
from unrack_papers.clock import Clock, timed
from unrack_papers.servers.allocator.one_by_one import OneByOne
from unrack_papers.servers.batch.bound import Bounds
from unrack_papers.servers.batch.case import CORES, FLOOR, MB, Case, efforts, make_case
from unrack_papers.servers.batch.constraint import place_cp
from unrack_papers.servers.batch.pack import clashes
from unrack_papers.servers.batch.search import Search
from unrack_papers.servers.batch.solution import Solution, first_fault, objective, price_of
from unrack_papers.servers.problem import Allocation

STEPS_A_SECOND = 1_500_000
"""Moves and swaps that may be tried for each second of work."""
NARROWED = 4
"""A search among fewer choices has what the one before it left, and this part of all steps at least."""
SMALL = 150
"""Servers x members of clusters: solved by constraint programming at once."""
MIDDLE = 4000
"""Servers x members of clusters: an answer that is not proven is finished by constraint programming."""
VISITS_A_SECOND = 100_000
"""Clusters that may be brought up to date while servers are placed one at a time, for each second of work."""
EFFORT = 0.2
"""Deterministic seconds of constraint programming for each second of work."""


def place_batch(
    supply: Supply, asked: Asked, *, limit_s: float | Clock | None = None, seed: int = 0,
    start: Allocation | None = None, busy: Bools | None = None, effort_s: float | None = None, share: float = 1.0,
) -> Solution:  # fmt: skip
    """Place a batch of servers: as many as can be, in the fewest clusters, at the lowest price.

    Parameters
    ----------
    supply
        What is free now.
    asked
        The servers, and what else they ask; all of it is met.
    limit_s
        Time it may compute, s, without loading solvers and compiling, or a clock that runs. ``None``: no clock is
        looked at.
    seed
        Of the search.
    start
        An allocation of these servers that may be improved on; it must meet what they ask.
    busy : bool[clusters]
        Clusters that are in use before, and so count as used; default: none.
    effort_s
        Work that may be done, in seconds of an ordinary core, which are counted and not measured; default: 60, and
        more where the time limit is longer.
    share
        Part of the default work.

    Returns
    -------
    Solution
        With bounds that no allocation of the batch can beat.

    Raises
    ------
    InputError
        ``busy`` is of another length, a server names a cluster or level that does not exist, or ``start`` is not what
        servers ask.

    Examples
    --------
    >>> from unrack.solver import asked
    >>> from unrack_papers.servers.problem import regular_supply
    >>> supply = regular_supply(3, (4, 100), ((400, 1, 50, 1), (800, 2, 25, 1)), price=100)
    >>> asks = asked(np.array([1, 1]), np.array([200, 300]), np.array([20, 30]), np.array([270, 400]), tiers=3)
    >>> found = place_batch(supply, asks)
    >>> found.status, found.clusters_used, found.price, found.unplaced.tolist()
    ('optimal', 1, 22000, [])
    """
    case = make_case(supply, asked, busy)
    fault = None if start is None else first_fault(supply, asked, start)
    if fault is not None:
        raise InputError(f"start, {fault[0]}", *fault[1:])
    _load_solvers()
    with timed(limit_s) as clock:
        first, *more = efforts(clock, effort_s, share)
        found = _placed(case, start, clock, first, seed)
        for effort in more:
            if found.status != "optimal" and not clock.over():
                found = _placed(case, found.allocation, clock, effort, seed + 1, found.bound)
    return found


def _load_solvers() -> None:
    """Load what takes seconds, before a time limit begins."""
    with needed_for("servers placed all at once"):
        from ortools.linear_solver import pywraplp  # noqa: F401
        from ortools.sat.python import cp_model  # noqa: F401


def _placed(
    case: Case,
    start: Allocation | None,
    clock: Clock,
    effort: float,
    seed: int,
    proven: tuple[int, int, int] = (0, 0, 0),
) -> Solution:
    """An answer after so much work, no worse than the start, of which ``proven`` is a bound."""
    bounds = Bounds(case, effort, clock)
    best = _first(case, start, effort, clock)
    size = len(case.asked) * len(case.supply.member)
    if 0 < size <= SMALL:
        exact = _by_cp(case, best, clock, EFFORT * effort, seed)
        if exact.status == "optimal":
            return replace(exact, wall_s=clock.took_s())
        best, proven = exact.allocation, _higher(exact.bound, proven)
    steps = round(effort * STEPS_A_SECOND)
    search = Search(case, np.random.default_rng(seed), clock, steps)
    best = _searched(search, best, bounds)
    found, narrow = _solution(case, best, proven, bounds, clock), _narrowed(case)
    if found.status != "optimal" and narrow is not None and not clock.over():
        first, rest = _first(narrow, None, effort, clock), max(search.steps, steps // NARROWED)
        other = _searched(Search(narrow, np.random.default_rng(seed), clock, rest), first, bounds)
        best = min(best, other, key=lambda one: objective(case.supply, one, case.busy))
        found = _solution(case, best, proven, bounds, clock)
    if found.status != "optimal" and SMALL < size <= MIDDLE and not clock.over():
        exact = _by_cp(case, best, clock, EFFORT * effort, seed)
        found = _solution(case, exact.allocation, _higher(exact.bound, proven), bounds, clock)
    return found


def _searched(search: Search, best: Allocation, bounds: Bounds) -> Allocation:
    """The steps, each until its bound is met."""
    case = search.case
    if clashes(case.land, case.crowd, best.cluster):
        return best
    out = int((best.cluster < 0).sum())
    best = search.admit(best, bounds.unplaced(out))
    placed, used = int((best.cluster >= 0).sum()), len(search.opened(best.cluster))
    best = search.empty(best, bounds.clusters(placed, used))
    least = bounds.price(placed, len(search.opened(best.cluster)))
    best = min(best, search.exchange(best), key=lambda some: price_of(case.supply, some))
    return search.cheapen(best, price_of(case.supply, best), least)[0]


def _narrowed(case: Case) -> Case | None:
    """The batch with servers of groups kept off tiers that can be in another failure domain than the cores are.

    The search takes any pool that a server may use as used, so replicas in different racks are kept from clusters that
    share a pool. None: that would change nothing.
    """
    supply, asked = case.supply, case.asked
    forbidden = case.crowd.forbidden.copy()
    compute = np.repeat(supply.member[supply.first[:-1]], np.diff(supply.first))
    for level in np.unique(asked.level[asked.level >= 0]).tolist():
        domain = supply.domain[level]
        elsewhere = (domain[supply.member] >= 0) & (domain[supply.member] != domain[compute])
        forbidden[np.ix_(asked.level == level, np.unique(supply.tier[supply.member[elsewhere]]))] = True
    if (forbidden == case.crowd.forbidden).all():
        return None
    return make_case(supply, replace(asked, forbidden=forbidden), case.busy)


def _first(case: Case, start: Allocation | None, effort: float, clock: Clock) -> Allocation:
    """The best of the start, if any, and of servers placed one at a time in several orders."""
    supply, asked, need = case.supply, case.asked, case.need
    tries = [] if start is None else [start]
    orders = [np.arange(len(asked))]
    orders += [np.argsort(-need[row], kind="stable") for row in (MB, CORES, FLOOR)]
    orders += [np.argsort(need[MB], kind="stable")]
    sharers = np.bincount(supply.member, minlength=len(supply.mb))[supply.member].sum() / max(supply.clusters, 1)
    most = effort * VISITS_A_SECOND / max(len(asked) * sharers, 1.0)
    for order, rule in islice(product(orders, ("slo", "best-fit")), max(1, int(most))):
        allocator = OneByOne(supply, asked, rule)
        allocator.pools.load[case.busy] = 1
        allocator.place(order.astype(np.int64))
        tries.append(allocator.allocation)
        if clock.over():
            break
    return min(tries, key=lambda one: objective(case.supply, one, case.busy))


def _by_cp(case: Case, start: Allocation, clock: Clock, effort: float, seed: int) -> Solution:
    return place_cp(case.supply, case.asked, limit_s=clock, seed=seed, start=start, busy=case.busy, effort=effort)


def _higher(one: tuple[int, int, int], two: tuple[int, int, int]) -> tuple[int, int, int]:
    return max(one[0], two[0]), max(one[1], two[1]), max(one[2], two[2])


def _solution(case: Case, best: Allocation, proven: tuple[int, int, int], bounds: Bounds, clock: Clock) -> Solution:
    """An answer with the stronger of two bounds, goal by goal; ``proven`` is of one that is no better."""
    goals = objective(case.supply, best, case.busy)
    bound = _higher(bounds.of(goals), proven)
    status = "optimal" if goals == bound else "feasible"
    out = np.flatnonzero(best.cluster < 0)
    cut = clock.cut and status != "optimal"
    return Solution(status, best, out, goals[1], goals[2], *bound, cut=cut, wall_s=clock.took_s())
