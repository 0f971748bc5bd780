"""Compiled: dual recursive bi-partitioning of one machine's GPUs (Amaral 2019, Alg. 2 and 3).

The graph of the free GPUs is cut in two by the method of Fiduccia and Mattheyses; each task of the job goes to the side
with the greater utility that has room, and so on in each side. (In Algorithm 3 text and pseudo-code disagree on which
side wins: it is the greater utility.)
"""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats
from unrack.resources.gpus.choice import Neighbours, mean_share, members, sockets_of
from unrack.resources.gpus.columns import Ask, Gpus


@inlined
def gain(distance: Floats, one: int, other: int, i: int) -> float:
    """By how much the cut shrinks if a GPU of one side moves to the other; near GPUs are bound by 1 / distance."""
    total = 0.0
    for j in range(distance.shape[0]):
        if j != i:
            if other >> j & 1:
                total += 1.0 / distance[i, j]
            elif one >> j & 1:
                total -= 1.0 / distance[i, j]
    return total


@compiled
def bisected(distance: Floats, s: int) -> int:
    """One half of a set of GPUs, the one with its first; the halves differ by one at most, and the cut is small.

    Passes of moves by greatest gain, each GPU once a pass, to the best state of it (Fiduccia and Mattheyses 1982).
    """
    count = members(s)
    one, taken = 0, 0
    for i in range(distance.shape[0]):
        if s >> i & 1 and taken < (count + 1) // 2:
            one |= 1 << i
            taken += 1
    slack = 1 if count % 2 == 0 else 0
    while True:
        a, b, moved, total, best, at = one, s & ~one, 0, 0.0, 1e-9, one
        for _ in range(count):
            which, most = -1, -1e18
            for i in range(distance.shape[0]):
                if s >> i & 1 and not moved >> i & 1:
                    to_b = a >> i & 1
                    size = members(a) + (-1 if to_b else 1)
                    if abs(2 * size - count) > 1 + slack:
                        continue
                    found = gain(distance, a, b, i) if to_b else gain(distance, b, a, i)
                    if found > most:
                        which, most = i, found
            if which < 0:
                break
            a, b, moved, total = a ^ 1 << which, b ^ 1 << which, moved | 1 << which, total + most
            if abs(2 * members(a) - count) <= 1 and total > best:
                best, at = total, a
        if at == one:
            break
        one = at
    first = s & ~(s - 1)
    return one if one & first else s & ~one


@inlined
def mean_distance(distance: Floats, s: int, placed: int) -> float:
    """Between GPUs of a set and those that the job has already."""
    total, pairs = 0.0, 0
    for i in range(distance.shape[0]):
        if s >> i & 1:
            for j in range(distance.shape[0]):
                if placed >> j & 1 and i != j:
                    total += distance[i, j]
                    pairs += 1
    return total / pairs if pairs else 0.0


@inlined
def side_value(
    gpus: Gpus, peers: Neighbours, node: int, ask: Ask, job: int, side: int, other: int, here: int, there: int,
    left: int, near: float,
) -> float:  # fmt: skip
    """The utility of a task on one side: 1/t with the job's other tasks, I of its sockets, 1 - w of its GPUs.

    ``here`` and ``there`` tasks are on this side and on the other already; of those that are ``left`` beside it as many
    are taken to come here as have room.
    """
    kind = gpus.kind[node]
    size = gpus.size[kind]
    come = min(left, members(side) - here - 1)
    distance = gpus.distance[kind, :size, :size]
    inside = (here + come) * mean_distance(distance, side, side)
    outside = (there + left - come) * mean_distance(distance, side, other)
    others = here + there + left
    cost = (inside + outside) / others if others else near
    sockets = sockets_of(gpus, kind, side)
    around = 0
    for i in range(size):
        around += sockets >> gpus.socket[kind, i] & 1
    apart = 1.0 if cost <= near else near / cost
    return apart + mean_share(gpus, peers, node, sockets, job, ask.profile) + (1.0 - members(side) / around)


@inlined
def bisecting(gpus: Gpus, peers: Neighbours, node: int, ask: Ask, job: int, available: int, count: int) -> int:
    """The set of GPUs of a machine that a job of so many gets."""
    kind = gpus.kind[node]
    size = gpus.size[kind]
    distance = gpus.distance[kind, :size, :size]
    near = 1e18
    for i in range(size):
        for j in range(i):
            near = min(near, distance[i, j])
    sides, tasks = np.empty(64, np.int64), np.empty(64, np.int64)
    sides[0], tasks[0], waiting, found = available, count, 1, 0
    while waiting:
        waiting -= 1
        s, n = sides[waiting], tasks[waiting]
        if n == 0:
            continue
        if n == members(s):
            found |= s
            continue
        a = bisected(distance, s)
        b = s & ~a
        in_a, in_b = 0, 0
        for k in range(n):
            first = side_value(gpus, peers, node, ask, job, a, b, in_a, in_b, n - k - 1, near)
            second = side_value(gpus, peers, node, ask, job, b, a, in_b, in_a, n - k - 1, near)
            if (first >= second and in_a < members(a)) or in_b == members(b):
                in_a += 1
            else:
                in_b += 1
        sides[waiting], tasks[waiting] = b, in_b
        sides[waiting + 1], tasks[waiting + 1] = a, in_a
        waiting += 2
    return found
