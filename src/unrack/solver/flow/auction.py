"""Least cost in a market by an auction: tasks bid for slots, and slots that stay empty come down to them.

Each slot has a price. A task without a slot takes the offer that is cheapest with its price, and raises that price
until the offer is worse than its second best by ε; who had the slot bids anew. Once every task has a place, each empty
slot that has a price above 0 asks: it goes to the task that gains most by it, at a price at which the task is content
by ε, and that task's slot is empty then; or its price falls to 0 if no task gains. All are then content by ε, which
is made smaller from scale to scale. With costs multiplied by tasks + 1, ε = 1 is enough. It ends earlier as soon as
whole prices, rounded, prove the match: no task gains by any other offer, and no empty slot has a price.

O(tasks offers log(tasks C)) a scale at worst, for costs up to C and slots of a place few; much less as a rule.

References
----------
D. P. Bertsekas, "The auction algorithm: a distributed relaxation method for the assignment problem", Annals of
Operations Research 14 (1988). D. P. Bertsekas, D. A. Castañon, H. Tsaknakis, "Reverse auction and the solution of
inequality constrained assignment problems", SIAM Journal on Optimization 3 (1993).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.errors import InputError
from unrack.jit import compiled, inlined
from unrack.solver.flow.market import Market, Stall, market_of
from unrack.solver.flow.network import Network

Ints = NDArray[np.int64]

STEP = 5
"""ε is divided by so much from scale to scale."""
DISCOUNT = 3
"""All prices fall by so many ε before a scale: then fewer slots stay empty, which costs more than to bid again."""
PROOF_PASSES = 64
"""Passes over all offers in which whole prices have to settle."""
FAR = 2**62


class Books(NamedTuple):
    """Who has what at which price."""

    price: Ints
    """int64[slots]."""
    owner: Ints
    """int64[slots]: the task in it, or -1."""
    slot: Ints
    """int64[tasks]: the slot of a task, or -1 in an open place."""
    chosen: Ints
    """int64[tasks]: its offer, or -1."""
    pays: Ints
    """int64[tasks]: cost and price of it."""
    cheapest: Ints
    """int64[places]: the slot of the lowest price."""
    lowest: Ints
    """int64[places]: its price; 0 in an open place."""
    second: Ints
    """int64[places]: the next price."""


def auction(network: Network) -> Ints:
    """int64[arcs]: a flow of least cost in a market.

    Parameters
    ----------
    network
        As :func:`unrack.solver.flow.network.checked` returns it.

    Raises
    ------
    InputError
        If the network is no market (:func:`unrack.solver.flow.market.market_of`).
    """
    stall = market_of(network)
    if stall is None:
        raise InputError(
            "network", "one that is no market", "sources of one unit, each with arcs to places, one of them open to all"
        )
    return auctioned(network, stall)


def auctioned(network: Network, stall: Stall) -> Ints:
    """As :func:`auction`, of a network that is known to be a market."""
    chosen = match_all(stall.market)
    amount = np.zeros_like(network.tail)
    amount[stall.arc[chosen]] = 1
    amount[stall.out] = np.bincount(stall.market.place[chosen], minlength=len(stall.out))
    return amount


@inlined
def note_lowest(market: Market, books: Books, place: int) -> None:
    """Find a place's lowest prices anew."""
    lowest, second, cheapest = FAR, FAR, -1
    for slot in range(market.slot_first[place], market.slot_first[place + 1]):
        price = books.price[slot]
        if price < lowest:
            lowest, second, cheapest = price, lowest, slot
        elif price < second:
            second = price
    books.lowest[place], books.second[place], books.cheapest[place] = lowest, second, cheapest


@inlined
def bid(market: Market, books: Books, cost: Ints, task: int, epsilon: int) -> int:
    """Give a task the offer that is cheapest: the task that had the slot, or -1."""
    best, best_cost, next_cost = -1, FAR, FAR
    for offer in range(market.first[task], market.first[task + 1]):
        pays = cost[offer] + books.lowest[market.place[offer]]
        if pays < best_cost:
            best, best_cost, next_cost = offer, pays, best_cost
        elif pays < next_cost:
            next_cost = pays
    place = market.place[best]
    books.chosen[task], books.pays[task], books.slot[task] = best, best_cost, -1
    if market.is_open[place]:
        return -1
    if books.second[place] < FAR:
        next_cost = min(next_cost, cost[best] + books.second[place])
    slot = books.cheapest[place]
    books.price[slot] += next_cost - best_cost + epsilon
    books.pays[task] = next_cost + epsilon
    evicted = books.owner[slot]
    books.owner[slot], books.slot[task] = task, slot
    note_lowest(market, books, place)
    return int(evicted)


@inlined
def ask(market: Market, books: Books, back_cost: Ints, slot: int, place: int, epsilon: int) -> int:
    """Give an empty slot to the task that gains most, or let its price fall to 0: the slot that it leaves, or -1."""
    best, best_gain, next_gain = -1, -FAR, -FAR
    for at in range(market.back_first[place], market.back_first[place + 1]):
        gain = books.pays[market.back_task[at]] - back_cost[at]
        if gain > best_gain:
            best, best_gain, next_gain = at, gain, best_gain
        elif gain > next_gain:
            next_gain = gain
    if best_gain <= epsilon:
        books.price[slot] = 0
        return -1
    task = market.back_task[best]
    left = books.slot[task]
    books.price[slot] = max(0, next_gain - epsilon)
    books.pays[task] = back_cost[best] + books.price[slot]
    books.owner[slot], books.slot[task], books.chosen[task] = task, slot, market.back[best]
    if left >= 0:
        books.owner[left] = -1
    return int(left)


@inlined
def hold_scale(market: Market, books: Books, cost: Ints, back_cost: Ints, place_of: Ints, epsilon: int) -> None:
    """Let all tasks bid, then all empty slots ask."""
    for slot in range(len(books.price)):
        books.owner[slot] = -1
        books.price[slot] = max(0, books.price[slot] - DISCOUNT * epsilon)
    for place in range(len(market.is_open)):
        if not market.is_open[place]:
            note_lowest(market, books, place)
    for first in range(len(books.slot)):
        task = first
        while task >= 0:
            task = bid(market, books, cost, task, epsilon)
    for first in range(len(books.price)):
        slot = first
        while slot >= 0 and books.owner[slot] < 0 and books.price[slot] > 0:
            slot = ask(market, books, back_cost, slot, place_of[slot], epsilon)


@compiled
def is_proven(market: Market, books: Books, unit: int, whole: Ints) -> bool:
    """True if prices in the costs' own unit (into ``whole``, int64[places]) show that no other match costs less.

    They begin a little too high, and fall until all tasks are content. False if a price would have to be below 0,
    or if they have not settled after some passes.
    """
    for place in range(len(whole)):
        whole[place] = 0
        if not market.is_open[place]:
            has_empty = False
            for slot in range(market.slot_first[place], market.slot_first[place + 1]):
                has_empty = has_empty or books.owner[slot] < 0
            if not has_empty:
                note_lowest(market, books, place)
                whole[place] = books.lowest[place] // unit + 2
    for _ in range(PROOF_PASSES):
        settled = True
        for task in range(len(books.chosen)):
            least = FAR
            for offer in range(market.first[task], market.first[task + 1]):
                least = min(least, market.cost[offer] + whole[market.place[offer]])
            chosen = books.chosen[task]
            least -= market.cost[chosen]
            if least < whole[market.place[chosen]]:
                if least < 0:
                    return False
                whole[market.place[chosen]] = least
                settled = False
        if settled:
            return True
    return False


@compiled
def match_all(market: Market) -> Ints:
    """int64[tasks]: the offer that each task takes in a match of least cost."""
    tasks, places, slots = len(market.first) - 1, len(market.is_open), market.slot_first[-1]
    books = Books(
        np.zeros(slots, np.int64), np.full(slots, -1),
        np.full(tasks, -1), np.full(tasks, -1), np.zeros(tasks, np.int64),
        np.full(places, -1), np.zeros(places, np.int64), np.zeros(places, np.int64),
    )  # fmt: skip
    place_of, whole = np.empty(slots, np.int64), np.empty(places, np.int64)
    for place in range(places):
        place_of[market.slot_first[place] : market.slot_first[place + 1]] = place
    unit = tasks + 1
    cost, back_cost = market.cost * unit, market.back_cost * unit
    epsilon = 1
    for offer in range(len(cost)):
        epsilon = max(epsilon, abs(cost[offer]))
    while True:
        epsilon = max(1, epsilon // STEP)
        hold_scale(market, books, cost, back_cost, place_of, epsilon)
        if epsilon == 1 or (4 * epsilon <= unit and is_proven(market, books, unit, whole)):
            return books.chosen
