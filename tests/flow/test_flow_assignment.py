"""One round's network: at least total cost by an independent solver, and split among equal hosts as they have room."""

from __future__ import annotations

import numpy as np
import pytest
from flow_check import faults
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from tries import draws

from unrack.policy.flow import assignment
from unrack.policy.flow.assignment import Sides, assign, build, groups_of
from unrack.solver.min_cost_flow import SOLVERS

Ints = NDArray[np.int64]


def sides_of(seed: int, few_costs: bool = True) -> Sides:
    """A random round: a few sorts, more classes, hosts of which some are alike, arcs of preference, tight places."""
    random = np.random.default_rng(seed)
    sorts, classes = int(random.integers(1, 4)), int(random.integers(1, 7))
    kinds, hosts = int(random.integers(1, 4)), int(random.integers(1, 9))
    high = 3 if few_costs else 1000
    kind = random.integers(0, kinds, hosts)
    fits = random.integers(0, 4, (sorts, kinds))[:, kind]
    cost = random.integers(0, high, (sorts, kinds))[:, kind]
    room = random.integers(0, 6, kinds)[kind]
    sort = random.integers(0, sorts, classes)
    arcs = {(int(random.integers(classes)), int(random.integers(hosts))) for _ in range(int(random.integers(0, 4)))}
    preferred = np.array([[c, h, random.integers(0, high)] for c, h in sorted(arcs)], np.int64).reshape(-1, 3)
    most = fits + random.integers(0, 2, fits.shape)
    return Sides(
        random.integers(1, 6, classes), sort, random.integers(0, 2 * high, classes), fits, cost, room, preferred,
        np.minimum(most, room) if seed % 2 else None,
    )  # fmt: skip


def least_cost(sides: Sides) -> int:
    """The optimum by linear programming over every class and host, written from what sides mean, not as a network."""
    classes, hosts = len(sides.supply), sides.fits.shape[1]
    most = np.broadcast_to(sides.room, sides.fits.shape) if sides.most is None else sides.most
    through, own = classes * hosts, len(sides.preferred)
    cost = np.concatenate([sides.cost[sides.sort].ravel(), sides.preferred[:, 2], sides.waiting])
    every = np.zeros((classes, through + own + classes))
    rows, bounds = [], []
    for c in range(classes):
        every[c, c * hosts : (c + 1) * hosts] = 1
        every[c, through + np.flatnonzero(sides.preferred[:, 0] == c)] = 1
        every[c, through + own + c] = 1
    for h in range(hosts):
        at_host = np.zeros(through + own + classes)
        at_host[np.arange(classes) * hosts + h] = 1
        at_host[through + np.flatnonzero(sides.preferred[:, 1] == h)] = 1
        rows.append(at_host)
        bounds.append(sides.room[h])
        for s in range(len(sides.fits)):
            row = np.zeros(through + own + classes)
            row[np.flatnonzero(sides.sort == s) * hosts + h] = 1
            rows.append(row.copy())
            bounds.append(sides.fits[s, h])
            liked = [i for i, (c, host, _) in enumerate(sides.preferred) if host == h and sides.sort[c] == s]
            if liked:
                row[through + np.array(liked)] = 1
                rows.append(row)
                bounds.append(most[s, h])
    found = linprog(cost, np.array(rows), np.array(bounds), every, sides.supply, method="highs")
    assert found.status == 0
    return round(found.fun)


def charged(sides: Sides, owner: Ints, host: Ints) -> int:
    """What an assignment costs at least, by the arcs that it can have used; and that no host holds too much."""
    assert (np.bincount(host, minlength=len(sides.room)) <= sides.room).all()
    for s in range(len(sides.fits)):
        most = sides.fits[s] if sides.most is None else np.maximum(sides.fits, sides.most)[s]
        liked = np.bincount(
            [h for c, h, _ in sides.preferred.tolist() if sides.sort[c] == s] or [0], minlength=len(sides.room)
        )
        held = np.bincount(host[sides.sort[owner] == s], minlength=len(sides.room))
        assert (held <= np.where(liked > 0, np.maximum(sides.room, most), sides.fits[s])).all()
    waits = sides.supply - np.bincount(owner, minlength=len(sides.supply))
    assert (waits >= 0).all()
    own = {(c, h): cost for c, h, cost in sides.preferred.tolist()}
    total = int(waits @ sides.waiting)
    for c, h in zip(owner.tolist(), host.tolist(), strict=True):
        ways = [own[c, h]] if (c, h) in own else []
        if sides.fits[sides.sort[c], h] > 0:
            ways.append(int(sides.cost[sides.sort[c], h]))
        total += min(ways)
    return total


@pytest.mark.parametrize("block", range(10))
def test_a_round_costs_what_an_independent_solver_says_with_equal_hosts_grouped_or_not(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(100 * block, 100 * block + 100):
        sides = sides_of(seed, few_costs=seed % 3 > 0)
        wanted = least_cost(sides)
        for grouping in (groups_of, lambda sides: np.arange(sides.fits.shape[1])):
            monkeypatch.setattr(assignment, "groups_of", grouping)
            found = assign(sides)
            assert found.cost == wanted, seed
            assert faults(found.built.network, found.flow) == []
            assert charged(sides, found.owner, found.host) <= wanted, seed


@draws(60)
@given(st.integers(0, 100_000))
def test_whatever_the_solver_the_same_sub_tasks_get_the_same_hosts(seed: int) -> None:
    sides = sides_of(seed)
    first = assign(sides)
    for solver in SOLVERS:
        other = assign(sides, solver)
        assert (first.owner.tolist(), first.host.tolist()) == (other.owner.tolist(), other.host.tolist()), solver


def test_equal_hosts_are_one_node_of_the_network_and_are_filled_one_after_the_other() -> None:
    ones = np.ones((1, 1000), np.int64)
    sides = Sides(np.array([7]), np.array([0]), np.array([9]), 4 * ones, 0 * ones, np.full(1000, 4))
    assert len(build(sides).network.supply) == 4, "a class, its aggregator, a group, the sink"
    assert assign(sides).host.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_a_preferred_host_stands_alone_and_others_that_are_alike_are_numbered_by_their_first() -> None:
    fits = np.array([[2, 1, 2, 1, 2]])
    preferred = np.array([[0, 2, 0]])
    sides = Sides(np.array([1]), np.array([0]), np.array([9]), fits, 0 * fits, fits[0], preferred)
    assert groups_of(sides).tolist() == [0, 1, 2, 1, 0]


def test_hosts_that_are_full_of_one_sort_still_take_what_fits_of_another() -> None:
    # two hosts alike take 3 each, of the second sort at most 1: the first cannot have all of the first host
    sides = Sides(
        np.array([4, 2]), np.array([0, 1]), np.array([9, 9]), np.array([[3, 3], [1, 1]]), np.zeros((2, 2), np.int64),
        np.array([3, 3]),
    )  # fmt: skip
    found = assign(sides)
    assert sorted(zip(found.owner.tolist(), found.host.tolist(), strict=True)) == [
        (0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 1),
    ]  # fmt: skip


def test_of_two_that_want_one_place_the_one_that_waits_longer_has_it() -> None:
    one = np.ones((1, 1), np.int64)
    sides = Sides(np.array([1, 1]), np.array([0, 0]), np.array([5, 6]), one, one, np.array([1]))
    assert assign(sides).owner.tolist() == [1]
    assert assign(sides._replace(waiting=np.array([6, 6]))).owner.tolist() == [0], "the first of equals"
    assert assign(sides._replace(waiting=np.array([0, 0]))).owner.tolist() == [], "to wait costs less"
