"""A batch of servers made ready for search and bounds: SLOs tightened; clusters that are equal, or share pools, told.

What a server's SLOs imply is put into them, for every cluster at once: with w the least weight of a remote pool it may
use, at least memory - ceiling // w must be local (the floor rises to that), and of what is then left, remote, no more
than memory - floor times the greatest weight can count (the ceiling falls to that). Sums over servers then say more.

The memory of all servers of some clusters, split over their pools together at the lowest price.

With m_ip MB of server i from pool p of its cluster: sum_p m_ip = memory_i, local m_i0 >= floor_i, sum_p w_p m_ip <=
ceiling_i, sum_i m_ip <= free_p, whole numbers, least sum price_p m_ip. Splitting servers one after the other can do
worse, and can fail where this does not: what the first takes of a pool the next might need more.

Solvers under a time limit of the user's, and the work of a search that is counted where there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from threading import Event, Thread
from typing import Any, NamedTuple, TypedDict, TypeVar

import numpy as np

from unrack.errors import InputError
from unrack.extras import needed_for
from unrack.jit import Bools, Ints, compiled, inlined
from unrack.solver import Asked, Supply, least_weight
from unrack_papers.clock import Clock

T = TypeVar("T")

COUNTED_S = 60.0
"""Work of a search, in seconds of an ordinary core: steps, iterations and nodes are counted."""
LOOK_S = 0.01
"""So often it is looked whether a solver that knows wall time only has used up what is left."""


def until_up(clock: Clock, solve: Callable[[float], T], known: Callable[[T], bool]) -> T | None:
    """What a solver finds before the time is up; ``None``: it was up.

    Parameters
    ----------
    solve
        Called with a limit of wall time, s, which is all that the solver knows; again if it was too short, as others
        had the machine.
    known
        Whether an answer is one, and not an end of time or work.
    """
    while not clock.over():
        allowed, before = clock.wall_s(), clock.took_s()
        found = solve(allowed)
        if known(found) or clock.took_s() - before < allowed:
            return found
    return None


def solved(solver: Any, model: Any, clock: Clock) -> Any:
    """The status of a CP-SAT solver, which is stopped when the time is up: its own limits are of wall time."""
    if clock.limit_s == inf:
        return solver.solve(model)
    done = Event()

    def watch() -> None:
        while not done.wait(LOOK_S):
            if clock.over():
                solver.stop_search()

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        return solver.solve(model)
    finally:
        done.set()
        watching.join()


class Part(TypedDict):
    """The arguments of a part of a search."""

    limit_s: Clock
    share: float


def efforts(clock: Clock, effort_s: float | None, share: float = 1.0) -> tuple[float, ...]:
    """The work that a search may do, in counted seconds: as asked; else as without a limit, then what more it allows.

    Examples
    --------
    >>> efforts(Clock(), None), efforts(Clock(15), None), efforts(Clock(100), None, share=0.5), efforts(Clock(9), 5)
    ((60.0,), (60.0,), (30.0, 20.0), (5,))
    """
    if effort_s is not None:
        return (effort_s,)
    more = share * (clock.limit_s - COUNTED_S) if COUNTED_S < clock.limit_s < inf else 0.0
    return (share * COUNTED_S, more) if more else (share * COUNTED_S,)


CORES, MB, FLOOR, CEILING = range(4)
"""Rows of :attr:`Case.need`."""


class Land(NamedTuple):
    """A supply as kernels take it; see :class:`unrack.solver.Supply`."""

    cores: Ints
    mb: Ints
    weight: Ints
    price: Ints
    tier: Ints
    first: Ints
    member: Ints
    domain: Ints


class Crowd(NamedTuple):
    """Servers as kernels take them."""

    need: Ints  # int64[4, servers]: cores, MB, least local MB, most weighted remote MB: all that SLOs imply
    fits: Bools  # bool[servers, kinds]: whether a server fits a cluster of a kind when it is alone there
    kind: Ints  # int64[clusters]
    forbidden: Bools  # bool[servers, tiers]
    # level, pinned, int64[servers]
    level: Ints
    pinned: Ints
    group: Ints  # int64[servers]: a number from 0 up, or -1: none
    # mates, mate: the servers of group g are ``mates[mate[g]:mate[g + 1]]``
    mates: Ints
    mate: Ints


@dataclass(frozen=True, eq=False)
class Case:
    """A batch ready to be solved."""

    supply: Supply
    asked: Asked
    land: Land
    crowd: Crowd
    busy: Bools  # bool[clusters]: in use before
    # int64[clusters]: clusters of one part share pools, directly or through others; parts are numbered by their first
    # cluster
    part: Ints
    hopeless: Bools  # bool[servers]: fits no cluster, even alone
    most_new: int  # at most so many clusters may come into use beside the busy ones

    @property
    def need(self) -> Ints:
        """int64[4, servers]: see :class:`Crowd`."""
        return self.crowd.need


def make_case(supply: Supply, asked: Asked, busy: Bools | None = None) -> Case:
    """Check a batch and make it ready.

    An InputError if ``busy`` is not one truth value a cluster, or a server names a cluster or level that does not
    exist.
    """
    on = np.zeros(supply.clusters, np.bool_) if busy is None else np.asarray(busy, np.bool_)
    if on.shape != (supply.clusters,):
        raise InputError(
            "busy", f"an array of shape {on.shape}", f"one truth value for each of {supply.clusters} clusters"
        )
    if len(asked) and int(asked.pinned.max()) >= supply.clusters:
        raise InputError("pinned", f"cluster {int(asked.pinned.max())}", f"one of {supply.clusters} clusters, from 0")
    if len(asked) and int(asked.level.max()) >= len(supply.domain):
        raise InputError("level", str(int(asked.level.max())), f"one of {len(supply.domain)} levels, from 0")
    land = Land(
        supply.cores, supply.mb, supply.weight, supply.price, supply.tier, supply.first, supply.member,
        np.ascontiguousarray(supply.domain),
    )  # fmt: skip
    need, kind = tightened(supply, asked), supply.kinds()
    forbidden = _per_tier(supply, asked)
    fits = np.zeros((len(asked), int(kind.max(initial=-1)) + 1), np.bool_)
    _, example = np.unique(kind, return_index=True)
    alone(land, need, forbidden, example.astype(np.int64), fits)
    crowd = Crowd(need, fits, kind, forbidden, asked.level, asked.pinned, *_groups(asked.group))
    pinned = np.maximum(asked.pinned, 0)
    there = fits[np.arange(len(asked)), kind[pinned]] if len(kind) else np.zeros(len(asked), np.bool_)
    hopeless = np.where(asked.pinned >= 0, ~there, ~fits.any(axis=1))
    most = supply.clusters if asked.most_clusters < 0 else asked.most_clusters
    return Case(supply, asked, land, crowd, on, parts(supply), hopeless, max(most - int(on.sum()), 0))


def tightened(supply: Supply, asked: Asked) -> Ints:
    """int64[4, servers]: cores, MB, floor and ceiling, with what follows from them for every cluster."""
    remote = np.zeros(len(supply.mb), np.bool_)
    remote[np.delete(supply.member, supply.first[:-1])] = True
    tiers = asked.forbidden.shape[1]
    lightest = np.full(len(asked), -1, np.int64)
    heaviest = np.zeros(len(asked), np.int64)
    for tier in np.unique(supply.tier[remote]):
        weights = supply.weight[remote & (supply.tier == tier)]
        may = ~asked.forbidden[:, tier] if tier < tiers else np.ones(len(asked), np.bool_)
        lightest[may & ((lightest < 0) | (lightest > weights.min()))] = weights.min()
        heaviest[may & (heaviest < weights.max())] = weights.max()
    most_remote = np.where(lightest < 0, 0, np.where(lightest == 0, asked.mb, asked.ceiling // np.maximum(lightest, 1)))
    floor = np.maximum(asked.floor, asked.mb - most_remote)
    ceiling = np.minimum(asked.ceiling, heaviest * np.maximum(asked.mb - floor, 0))
    return np.stack([asked.cores, asked.mb, floor, ceiling]).astype(np.int64)


def parts(supply: Supply) -> Ints:
    """int64[clusters]: clusters that share pools, directly or through others, have the same number."""
    root = list(range(supply.clusters))

    def top(cluster: int) -> int:
        while root[cluster] != cluster:
            root[cluster] = root[root[cluster]]
            cluster = root[cluster]
        return cluster

    owner: dict[int, int] = {}
    for cluster in range(supply.clusters):
        for pool in supply.pools(cluster).tolist():
            a, b = top(owner.setdefault(pool, cluster)), top(cluster)
            root[max(a, b)] = min(a, b)
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(top(c), len(numbers)) for c in range(supply.clusters)], np.int64)


@compiled
def alone(land: Land, need: Ints, forbidden: Bools, example: Ints, fits: Bools) -> None:
    """Whether each server fits each kind of cluster (``example``: one cluster of each) with no other there."""
    free, weight = np.zeros(len(land.member), np.int64), np.zeros(len(land.member), np.int64)
    for kind in range(len(example)):
        start = land.first[example[kind]]
        width = land.first[example[kind] + 1] - start
        for i in range(need.shape[1]):
            for j in range(width):
                pool = land.member[start + j]
                weight[j] = land.weight[pool]
                free[j] = 0 if forbidden[i, land.tier[pool]] else land.mb[pool]
            load = least_weight(need[MB, i], need[FLOOR, i], free, weight, width)
            fits[i, kind] = land.cores[land.member[start]] >= need[CORES, i] and 0 <= load <= need[CEILING, i]


@inlined
def clash(land: Land, crowd: Crowd, at: Ints, i: int) -> bool:
    """Whether a server's cluster shares a failure domain, in a pool it may use, with that of another of its group."""
    level, group = crowd.level[i], crowd.group[i]
    if level < 0 or group < 0:
        return False
    for k in range(crowd.mate[group], crowd.mate[group + 1]):
        j = crowd.mates[k]
        if j == i or at[j] < 0:
            continue
        for p in range(land.first[at[i]], land.first[at[i] + 1]):
            pool = land.member[p]
            domain = land.domain[level, pool]
            if domain < 0 or (p > land.first[at[i]] and crowd.forbidden[i, land.tier[pool]]):
                continue
            for q in range(land.first[at[j]], land.first[at[j] + 1]):
                other = land.member[q]
                if land.domain[level, other] == domain and (
                    q == land.first[at[j]] or not crowd.forbidden[j, land.tier[other]]
                ):
                    return True
    return False


def _per_tier(supply: Supply, asked: Asked) -> Bools:
    """bool[servers, tiers]: forbidden, with a column for every tier of the supply."""
    tiers = max(int(supply.tier.max(initial=-1)) + 1, asked.forbidden.shape[1])
    wide = np.zeros((len(asked), tiers), np.bool_)
    wide[:, : asked.forbidden.shape[1]] = asked.forbidden
    return wide


def _groups(group: Ints) -> tuple[Ints, Ints, Ints]:
    """The last three of :class:`Crowd`."""
    names, of = np.unique(group, return_inverse=True)
    number = of.reshape(-1).astype(np.int64) - int((names < 0).sum())  # those of no group come first, as -1
    members = np.argsort(number, kind="stable")
    count = len(names) - int((names < 0).sum())
    start = np.searchsorted(number[members], np.arange(count + 1)).astype(np.int64)
    return np.maximum(number, -1), members.astype(np.int64), start


EFFORT = 1.0
"""Deterministic seconds of the solver; a linear optimum is all but whole, so a hundredth of it is enough as a rule."""


def split_together(
    supply: Supply, asked: Asked, which: Ints, cluster: Ints, clock: Clock | None = None
) -> Ints | None:  # fmt: skip
    """Split the memory of servers that are together in clusters; cores and failure domains are not looked at.

    Returns int64[some, width] or None: MB from each pool of the server's cluster: the cheapest. None: there is no such
    split, or none was found.

    Parameters
    ----------
    which : int64[some]
        Servers; every one that is to hold memory of these clusters' pools.
    cluster : int64[some]
        The cluster of each.
    clock
        When the search must end. Default: by what it has worked only.
    """
    with needed_for("memory of servers split together"):
        from ortools.sat.python import cp_model

    count = len(which)
    if not count:
        return np.zeros((0, supply.width), np.int64)
    width = np.diff(supply.first)[cluster]
    server = np.repeat(np.arange(count), width)
    place = np.arange(len(server)) - np.repeat(np.cumsum(width) - width, width)
    pool = supply.member[supply.first[cluster][server] + place]
    asks = which[server]
    high = np.minimum(supply.mb[pool], asked.mb[asks])
    tiers = asked.forbidden.shape[1]
    if tiers:
        tier = np.minimum(supply.tier[pool], tiers - 1)
        high[asked.forbidden[asks, tier] & (supply.tier[pool] < tiers)] = 0
    low = np.where(place == 0, asked.floor[asks], 0)
    if (low > high).any():
        return None
    model = cp_model.CpModel()
    parts = [model.new_int_var(a, b, "") for a, b in zip(low.tolist(), high.tolist(), strict=True)]

    def weighed(rows: Ints, factors: Ints) -> Any:
        return cp_model.LinearExpr.weighted_sum([parts[k] for k in rows.tolist()], factors.tolist())

    ones, first = np.ones(len(server), np.int64), np.cumsum(width) - width
    for i, begin, size in zip(which.tolist(), first.tolist(), width.tolist(), strict=True):
        own = np.arange(begin, begin + size)
        model.add(weighed(own, ones[own]) == int(asked.mb[i]))
        model.add(weighed(own, supply.weight[pool[own]]) <= int(asked.ceiling[i]))
    for one in np.unique(pool).tolist():
        takers = np.flatnonzero(pool == one)
        model.add(weighed(takers, ones[takers]) <= int(supply.mb[one]))
    model.minimize(weighed(np.arange(len(server)), supply.price[pool]))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = EFFORT

    def solve(wall_s: float) -> Any:
        solver.parameters.max_time_in_seconds = wall_s
        return solver.solve(model)

    known = (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    if until_up(clock or Clock(), solve, lambda status: status in known) != cp_model.OPTIMAL:
        return None
    mb = np.zeros((count, supply.width), np.int64)
    mb[server, place] = [solver.value(part) for part in parts]
    return mb
