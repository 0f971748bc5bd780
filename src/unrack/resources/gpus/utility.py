"""Compiled: how good a placement is (paper 001, §4.1): communication, interference, fragmentation.

``U = a / t + b x I + c x (1 - w)`` with the three weights 1/3 each:

* ``t`` (eq. 3) is what the job's communication costs on its GPUs, relative to the least that so many GPUs of such a
  machine can cost: 1 or more. A job that communicates less (its weight) feels less of it.
* ``I`` (eq. 4) is the mean of alone / collocated run time over the job and its neighbours, the jobs with GPUs at its
  sockets: 1 or less. Equation 2 has ``1 / I``, which would reward interference: equation 1 minimises it.
* ``w`` (eq. 5) is the mean share of free GPUs of the sockets of its machines before it came, so that a machine in use
  is taken before an idle one. Equation 2 has ``1 / w``, which has no upper bound; ``1 - w`` has the same order.
"""

from __future__ import annotations

from typing import NamedTuple

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.resources.gpus.choice import members
from unrack.resources.gpus.columns import WHOLE, Ask, Gpus, network_distance


class Neighbours(NamedTuple):
    """Who is where, and what that does: as kernels take it."""

    holders: Ints  # int64[2, places]: as in `Claimed`, of the places of the GPUs
    profile: Ints  # int64[jobs]: the row of every job's application
    beside: Floats  # float64[rows, rows]: factor on the run time of the first beside the second


@inlined
def sockets_of(gpus: Gpus, kind: int, s: int) -> int:
    """The set of sockets of a set of GPUs."""
    found = 0
    for i in range(gpus.size[kind]):
        if s >> i & 1:
            found |= 1 << gpus.socket[kind, i]
    return found


@inlined
def gpus_at(gpus: Gpus, kind: int, sockets: int) -> int:
    """The set of GPUs at a set of sockets."""
    found = 0
    for i in range(gpus.size[kind]):
        if sockets >> gpus.socket[kind, i] & 1:
            found |= 1 << i
    return found


@inlined
def next_neighbour(gpus: Gpus, who: Neighbours, node: int, around: int, job: int, at: int) -> int:
    """The first GPU from ``at`` on with a neighbour that no GPU before it has; the number of GPUs: none."""
    kind, first = gpus.kind[node], gpus.first[node]
    for i in range(at, gpus.size[kind]):
        if around >> i & 1 and who.holders[0, first + i] == 1 and who.holders[1, first + i] != job:
            new = True
            for j in range(i):
                if around >> j & 1 and who.holders[0, first + j] == 1:
                    new = new and who.holders[1, first + j] != who.holders[1, first + i]
            if new:
                return i
    return int(gpus.size[kind])


@inlined
def interference(
    gpus: Gpus, who: Neighbours, node: int, sockets: int, job: int, profile: int
) -> tuple[float, float, int]:
    """Of the neighbours at some sockets: the worst factor that the job suffers, the sum of their shares, their number.

    A share is a run time alone over that beside the job.
    """
    kind, first = gpus.kind[node], gpus.first[node]
    worst, total, count = 1.0, 0.0, 0
    if gpus.slices[kind] == 0:
        around = gpus_at(gpus, kind, sockets)
        i = next_neighbour(gpus, who, node, around, job, 0)
        while i < gpus.size[kind]:
            other = who.profile[who.holders[1, first + i]]
            worst = max(worst, who.beside[profile, other])
            total += 1.0 / who.beside[other, profile]
            count += 1
            i = next_neighbour(gpus, who, node, around, job, i + 1)
    return worst, total, count


@inlined
def mean_share(gpus: Gpus, who: Neighbours, node: int, sockets: int, job: int, profile: int) -> float:
    """The mean over a job and its neighbours at some sockets of run time alone over that beside each other (eq. 4)."""
    worst, total, others = interference(gpus, who, node, sockets, job, profile)
    return (1.0 / worst + total) / (others + 1)


@inlined
def free_share(gpus: Gpus, free: Ints, node: int) -> float:
    """The mean over the sockets of a machine of the share of their GPUs that is free (eq. 5)."""
    kind, first = gpus.kind[node], gpus.first[node]
    slices, total = gpus.slices[kind], 0.0
    for socket in range(gpus.sockets[kind]):
        own, left = 0, 0.0
        for i in range(gpus.size[kind]):
            if gpus.socket[kind, i] == socket:
                own += 1
                if slices:
                    for part in range(slices):
                        left += free[first + i * slices + part] / slices
                else:
                    left += free[first + i] / WHOLE
        total += left / own if own else 0.0
    return float(total / gpus.sockets[kind])


@inlined
def relative_cost(cost: float, least: float, weight: float) -> float:
    """Communication relative to the least, 1 or more; of a job that communicates less, less."""
    if least <= 0.0:
        return 1.0
    return 1.0 + weight * (cost / least - 1.0)


def utility_of(cost: float, shares: float, free: float) -> float:
    """The utility of the three terms: t, I and w."""
    return (1.0 / cost + shares + 1.0 - free) / 3.0


@compiled
def terms(
    gpus: Gpus, free: Ints, who: Neighbours, job: int, ask: Ask, nodes: Ints, sets: Ints
) -> tuple[float, float, float]:
    """The terms t, I and w of a job on sets of GPUs of some nodes; ``free`` is what was free before it came."""
    cost, worst, total, count, left = 0.0, 1.0, 0.0, 0, 0.0
    for a in range(nodes.shape[0]):
        node, s = nodes[a], sets[a]
        kind = gpus.kind[node]
        cost += gpus.cost[kind, ask.graph, s]
        for b in range(a):
            between = members(s) * members(sets[b]) * network_distance(gpus, kind, gpus.kind[nodes[b]])
            cost += between
        most, more, others = interference(gpus, who, node, sockets_of(gpus, kind, s), job, ask.profile)
        worst, total, count = max(worst, most), total + more, count + others
        left += free_share(gpus, free, node)
    least = _spread_least(gpus, ask, nodes, sets)
    shares = (1.0 / worst + total) / (count + 1)
    return relative_cost(cost, least, ask.weight), shares, left / max(1, nodes.shape[0])


@inlined
def _spread_least(gpus: Gpus, ask: Ask, nodes: Ints, sets: Ints) -> float:
    """The least that so many GPUs can cost: on as few machines of the first one's kind as hold them, or one a task."""
    kind, wanted = gpus.kind[nodes[0]], 0
    for a in range(sets.shape[0]):
        wanted += members(sets[a])
    size = ask.gpus if ask.apart else gpus.size[kind]
    total, before, between = 0.0, 0, network_distance(gpus, kind, kind)
    while before < wanted:
        here = min(size, wanted - before)
        total += gpus.least[kind, ask.graph, here] + before * here * between
        before += here
    return total
