"""Compiled: which GPUs of one machine a job gets, by each rule."""

from __future__ import annotations

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.policy.gpus.rules import BEST_FIT, PACK, RANDOM, SPREAD, TOPOLOGY
from unrack.resources.gpus.choice import members
from unrack.resources.gpus.columns import FAR_COST, Ask, Gpus
from unrack.resources.gpus.utility import (
    Neighbours,
    free_share,
    mean_share,
    relative_cost,
    sockets_of,
)


@inlined
def mixed_up(a: int, b: int) -> int:
    """A number that looks random, of two numbers."""
    x = (a * 2654435761 + b * 40503 + 12345) & 0x7FFFFFFF
    x = ((x >> 15) ^ x) * 73244475 & 0x7FFFFFFF
    x = ((x >> 13) ^ x) * 73244475 & 0x7FFFFFFF
    return (x >> 12) ^ x


@inlined
def lowest(available: int, count: int) -> int:
    """The first GPUs of a set."""
    found = 0
    while members(found) < count:
        found |= available & ~(available - 1)
        available &= available - 1
    return found


@inlined
def fullest_first(gpus: Gpus, kind: int, available: int, count: int) -> int:
    """GPUs of the sockets with fewest available ones first."""
    found = 0
    while members(found) < count:
        best, least = -1, 1 << 30
        for i in range(gpus.size[kind]):
            if available & ~found & 1 << i:
                beside = 0
                for j in range(gpus.size[kind]):
                    beside += (available >> j & 1) * (gpus.socket[kind, i] == gpus.socket[kind, j])
                if beside < least:
                    best, least = i, beside
        found |= 1 << best
    return found


@inlined
def at_random(gpus: Gpus, kind: int, available: int, count: int, job: int) -> int:
    """Any of them."""
    found = 0
    while members(found) < count:
        best, least = -1, 1 << 62
        for i in range(gpus.size[kind]):
            if available & ~found & 1 << i and mixed_up(job, i) < least:
                best, least = i, mixed_up(job, i)
        found |= 1 << best
    return found


@inlined
def by_distance(gpus: Gpus, kind: int, graph: int, available: int, count: int, far: bool) -> int:
    """The set with the least (or most) cost of communication; of equal ones in the fullest sockets, then the first."""
    best, least, left, s = -1, FAR_COST, 1 << 30, available
    while s:
        if members(s) == count:
            cost = -gpus.cost[kind, graph, s] if far else gpus.cost[kind, graph, s]
            around = broken_sockets(gpus, kind, available, s)
            if cost < least or (cost == least and (around < left or (around == left and s < best))):
                best, least, left = s, cost, around
        s = (s - 1) & available
    return best


@inlined
def broken_sockets(gpus: Gpus, kind: int, available: int, s: int) -> int:
    """How many available GPUs stay behind at the sockets of a set."""
    sockets, found = sockets_of(gpus, kind, s), 0
    for i in range(gpus.size[kind]):
        found += (available & ~s) >> i & 1 and sockets >> gpus.socket[kind, i] & 1
    return found


@inlined
def room_for_shares(gpus: Gpus) -> Floats:
    """float64[sets of sockets], not filled: of the machine with most of them."""
    return np.empty(1 << gpus.sockets.max(), np.float64)


@inlined
def best_set(
    gpus: Gpus, who: Neighbours, node: int, ask: Ask, job: int, available: int, count: int, shares: Floats
) -> tuple[int, float]:
    """The set of greatest utility of a machine, by enumeration, and 1/t + I of it.

    Of equal ones that with fewest GPUs left behind at its sockets, then the first. ``shares``: room for I by set of
    sockets.
    """
    kind = gpus.kind[node]
    every = 1 << gpus.sockets[kind]
    for sockets in range(1, every):
        shares[sockets] = -1.0
    least = gpus.least[kind, ask.graph, count]
    best, most, left, s = -1, -1.0, 1 << 30, available
    while s:
        if members(s) == count:
            sockets = sockets_of(gpus, kind, s)
            if shares[sockets] < 0.0:
                shares[sockets] = mean_share(gpus, who, node, sockets, job, ask.profile)
            good = 1.0 / relative_cost(gpus.cost[kind, ask.graph, s], least, ask.weight) + shares[sockets]
            if good >= most - 1e-12:
                around = broken_sockets(gpus, kind, available, s)
                if good > most + 1e-12 or around < left or (around == left and s < best):
                    best, most, left = s, max(most, good), around
        s = (s - 1) & available
    return best, most


@inlined
def utility_on(gpus: Gpus, free: Ints, good: float, node: int) -> float:
    """The utility of a machine's best set, from 1/t + I of it."""
    return (good + 1.0 - free_share(gpus, free, node)) / 3.0


@inlined
def chosen_set(
    gpus: Gpus, free: Ints, who: Neighbours, rule: int, node: int, ask: Ask, job: int, available: int, count: int
) -> int:
    """The GPUs of one machine that a job gets by a rule, of those that are free."""
    kind = gpus.kind[node]
    if rule == TOPOLOGY:
        s, _ = best_set(gpus, who, node, ask, job, available, count, room_for_shares(gpus))
        return s
    if rule == PACK:
        return by_distance(gpus, kind, ask.graph, available, count, False)
    if rule == SPREAD:
        return by_distance(gpus, kind, ask.graph, available, count, True)
    if rule == RANDOM:
        return at_random(gpus, kind, available, count, job)
    if rule == BEST_FIT:
        return fullest_first(gpus, kind, available, count)
    return lowest(available, count)
