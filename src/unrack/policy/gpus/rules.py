"""The rules for GPUs by name.

Two of them, compiled, mark nodes as the authors' plug-ins for packing and clustering do (Weng et al., ATC 2023), from 0
to 100. Marks are whole numbers, the greatest wins, and of equal ones the first node, in the order of the cluster. They
differ from ``packing`` and ``clustering``, which leave no such ties:

* A pod without GPUs has the mark 0 everywhere: it goes to the first node with room, and takes its cores and memory.
* Packing marks a busy node by how many idle GPUs a pod takes of it, not by how much is free there: all that hold a pod
  on whole GPUs are equal. GPUs in use that have room differ by tenths of a GPU.
* Clustering knows pods on a part of a GPU, all alike, and pods on 1, 2, … whole ones. It asks whether a node has such
  pods and whether it has others, not how many; how full the node is counts in steps of 320/1000 of a GPU.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.resources.gpus.choice import Neighbours, free_share, mean_share, members, relative_cost, sockets_of
from unrack.resources.gpus.columns import FAR_COST, WHOLE, Ask, Gpus
from unrack.resources.gpus.fragmentation import Demands, fragments

NEAREST = "nearest"
(
    FIRST_FIT, BEST_FIT, WORST_FIT, PACK, SPREAD, RANDOM, DRB, TOPOLOGY, FGD, DOT_PRODUCT, CLUSTERING, PACKING,
    LEAST_LEFT, FORESIGHT, PACKING_AS_AUTHORS, CLUSTERING_AS_AUTHORS,
) = range(16)  # fmt: skip
RULES = {
    "first-fit": FIRST_FIT,
    "best-fit": BEST_FIT,
    "worst-fit": WORST_FIT,
    "pack": PACK,
    "spread": SPREAD,
    "random": RANDOM,
    "drb": DRB,
    "topology": TOPOLOGY,
    "fgd": FGD,
    "dot-product": DOT_PRODUCT,
    "clustering": CLUSTERING,
    "packing": PACKING,
    "least-left": LEAST_LEFT,
    "foresight": FORESIGHT,
    "packing-as-authors": PACKING_AS_AUTHORS,
    "clustering-as-authors": CLUSTERING_AS_AUTHORS,
}
"""Name → its number in kernels.

``first-fit``: the first machine and its first GPUs. ``best-fit``: the machine with fewest free GPUs, its fullest
sockets first. ``worst-fit``: the machine with most free GPUs. ``pack``: as best-fit, GPUs as near to each other as can
be. ``spread``: the machine with most free GPUs, over its sockets. ``random``: any that fit. ``drb``: dual recursive
bi-partitioning by utility (Amaral 2019, Alg. 2 and 3). ``topology``: the placement of greatest utility, found exactly.
``fgd``: where fragmentation grows least (Weng et al. 2023). ``dot-product``, ``clustering``, ``packing`` and
``least-left`` (best fit over all that a machine has): those it is compared with there. ``foresight``: where that and
what a machine will strand grow least (unrack's own). ``packing-as-authors`` and ``clustering-as-authors``: with
the marks of the authors' plug-ins (above).
"""
BY_KIND = (CLUSTERING, CLUSTERING_AS_AUTHORS)
"""Rules that look for jobs of the same kind."""
BY_DEMANDS = (FGD, FORESIGHT)
"""Rules that look at what jobs usually ask."""
WORDS = ", ".join([NEAREST, *RULES])


BEST = 100
MOST_MILLI = 8 * WHOLE
"""The GPUs of the largest node, to which clustering relates what is free."""
SHARED = 0
"""The kind of jobs on parts of GPUs; of others it is how many GPUs they ask for."""


@inlined
def packing_mark(gpus: Gpus, free: Ints, ask: Ask, node: int) -> int:
    """GPUs in use with room 50 to 100, the fuller the better; idle ones of a busy node 33 to 49; an idle node less."""
    kind, first = gpus.kind[node], gpus.first[node]
    if ask.gpus == 0 or kind < 0 or gpus.slices[kind]:
        return 0
    idle = 0
    for i in range(gpus.size[kind]):
        idle += free[first + i] == WHOLE
    if idle == gpus.size[kind]:
        return int(max(BEST // 3 - idle, idle))
    taken, idle, left = 0, 0, 0
    for _ in range(ask.gpus):
        best, least = 0, WHOLE + 1
        for i in range(gpus.size[kind]):
            if not taken >> i & 1 and ask.milli <= free[first + i] < least:
                best, least = i, free[first + i]
        taken |= 1 << best
        idle += least == WHOLE
        left += least * 100 // WHOLE
    if idle:
        return max(BEST // 2 - idle, BEST // 3)
    return int(max(BEST - left // 10, BEST // 2))


@inlined
def clustering_mark(gpus: Gpus, peers: Neighbours, free: Ints, kinds: Ints, ask: Ask, job: int, node: int) -> int:
    """Nodes with jobs of its kind alone, with such among others, idle, with others: 75, 50, 25 and 0, and how full."""
    kind, first = gpus.kind[node], gpus.first[node]
    if ask.gpus == 0 or kind < 0 or gpus.slices[kind]:
        return 0
    seen, left = 0, 0
    for i in range(first, first + gpus.size[kind]):
        left += free[i]
        if peers.holders[0, i] == 1:
            seen |= 1 << kinds[peers.holders[1, i]]
        elif peers.holders[0, i]:
            seen |= 1 << SHARED
    own = 1 << kinds[job]
    mark = 75 if seen == own else 50 if seen & own else 0 if seen else 25
    return int(mark + BEST // 4 * (MOST_MILLI - min(left, MOST_MILLI)) // MOST_MILLI)


@inlined
def stranded(left: Ints, cores: int, mb: int, demands: Demands) -> float:
    """What will be left of a machine's GPUs once tasks as they usually come have used up its cores or its memory."""
    total = 0
    for i in range(left.shape[0]):
        total += left[i]
    usable = float(total)
    if demands.per_gpu[0] > 0:
        usable = min(usable, WHOLE * cores / demands.per_gpu[0])
    if demands.per_gpu[1] > 0:
        usable = min(usable, WHOLE * mb / demands.per_gpu[1])
    return total - usable


@inlined
def lost_on(left: Ints, cores: int, mb: int, demands: Demands, rule: int) -> float:
    """F of a machine; by foresight, and what will be stranded there."""
    return fragments(left, cores, demands) + (stranded(left, cores, mb, demands) if rule == FORESIGHT else 0.0)


@inlined
def part_with_least(gpus: Gpus, free: Ints, cores: int, demands: Demands, ask: Ask, node: int) -> tuple[int, float]:
    """The place of the GPU that leaves least F, and that F; ``cores``: what is free once the task has its own."""
    first = gpus.first[node]
    left = free[first : gpus.first[node + 1]]  # as it was, in the end
    best, least = -1, 1e300
    for i in range(left.shape[0]):
        if left[i] < ask.milli:
            continue
        seen = False
        for j in range(i):
            seen = seen or left[j] == left[i]
        if seen:
            continue
        left[i] -= ask.milli
        found = fragments(left, cores, demands)
        left[i] += ask.milli
        if found < least - 1e-9:
            best, least = i, found
    return first + best, least


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
    gpus: Gpus, peers: Neighbours, node: int, ask: Ask, job: int, available: int, count: int, shares: Floats
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
                shares[sockets] = mean_share(gpus, peers, node, sockets, job, ask.profile)
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
    gpus: Gpus, free: Ints, peers: Neighbours, rule: int, node: int, ask: Ask, job: int, available: int, count: int
) -> int:
    """The GPUs of one machine that a job gets by a rule, of those that are free."""
    kind = gpus.kind[node]
    if rule == TOPOLOGY:
        s, _ = best_set(gpus, peers, node, ask, job, available, count, room_for_shares(gpus))
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
