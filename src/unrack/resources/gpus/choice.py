"""Compiled: how many tasks find GPUs on a node, which GPUs are nearest to each other, and how good a placement is.

How good it is follows from communication, interference and fragmentation (Amaral 2019, §4.1):
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

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Floats, Ints
from unrack.resources.gpus.columns import FAR_COST, WHOLE, Ask, Gpus, network_distance


@inlined
def free_set(gpus: Gpus, free: Ints, node: int) -> int:
    """The set of GPUs of a node of which no job holds anything; none of a machine with GPUs in slices."""
    found, first = 0, gpus.first[node]
    kind = gpus.kind[node]
    if kind >= 0 and gpus.slices[kind] == 0:
        for i in range(gpus.size[kind]):
            if free[first + i] == WHOLE:
                found |= 1 << i
    return found


@inlined
def members(s: int) -> int:
    """How many GPUs are in a set."""
    count = 0
    while s:
        s &= s - 1
        count += 1
    return count


@inlined
def block_starts(slices: int, size: int) -> int:
    """The step between places where a block of slices may begin: as MIG has it, at multiples of the next power of 2."""
    step = 1
    while step < size:
        step *= 2
    return min(step, slices)


@inlined
def may_begin(slices: int, size: int, start: int) -> bool:
    """Whether a block may begin there; of eight slices the last one has no computing units of its own."""
    fits = start % block_starts(slices, size) == 0 and start + size <= slices
    return fits and not (slices == 8 and size == 1 and start == 7)


@inlined
def gpu_fit(gpus: Gpus, free: Ints, node: int, count: int, milli: int, slices: int) -> int:
    """How many tasks find their GPUs on a node."""
    kind = gpus.kind[node]
    if count == 0:
        return 1 << 30
    if kind < 0 or (gpus.slices[kind] > 0) != (slices > 0):
        return 0
    first, found = gpus.first[node], 0
    if slices:
        each = gpus.slices[kind]
        if count > 1 or slices > each:
            return 0
        for gpu in range(gpus.size[kind]):
            for start in range(each):
                if may_begin(each, slices, start) and block_is_free(free, first + gpu * each + start, slices):
                    found += 1
        return found
    if milli == WHOLE or count > 1:
        for i in range(gpus.size[kind]):
            found += free[first + i] >= milli
        if milli == WHOLE:
            return found // count
        return shared_gangs(gpus, free, node, count, milli)
    for i in range(gpus.size[kind]):
        found += free[first + i] // milli
    return found


@inlined
def block_is_free(free: Ints, first: int, size: int) -> bool:
    """Whether so many slices in a row are free."""
    for i in range(first, first + size):
        if free[i] == 0:
            return False
    return True


@inlined
def last_block(free: Ints, first: int, slices: int, size: int) -> int:
    """The last place of a GPU where a block is free; -1: there is none."""
    for start in range(slices - size, -1, -1):
        if may_begin(slices, size, start) and block_is_free(free, first + start, size):
            return start
    return -1


@inlined
def shared_gangs(gpus: Gpus, free: Ints, node: int, count: int, milli: int) -> int:
    """How many tasks fit that each use a part of several GPUs: no task uses one twice."""
    kind, first = gpus.kind[node], gpus.first[node]
    tasks = 0
    while True:
        room = 0
        for i in range(gpus.size[kind]):
            room += min(tasks + 1, free[first + i] // milli)
        if room < (tasks + 1) * count:
            return tasks
        tasks += 1


@compiled
def tasks_that_fit(gpus: Gpus, free: Ints, count: int, milli: int, slices: int) -> Ints:
    """int64[nodes]: how many tasks find their GPUs on each node."""
    found = np.empty(gpus.kind.shape[0], np.int64)
    for node in range(gpus.kind.shape[0]):
        found[node] = gpu_fit(gpus, free, node, count, milli, slices)
    return found


@inlined
def nearest_set(gpus: Gpus, kind: int, graph: int, available: int, count: int) -> int:
    """Of all sets of so many available GPUs that with the least cost of communication; of equal ones the first."""
    best, least, s = -1, FAR_COST, available
    while s:
        cost = gpus.cost[kind, graph, s]
        if members(s) == count and (cost < least or (cost == least and s < best)):
            best, least = s, cost
        s = (s - 1) & available
    return best


@inlined
def claim_set(gpus: Gpus, free: Ints, node: int, s: int, found: Ints, at: int) -> int:
    """Claim all of the GPUs of a set; returns how many claims there are now."""
    for i in range(gpus.size[gpus.kind[node]]):
        if s >> i & 1:
            free[gpus.first[node] + i] -= WHOLE
            found[at, 0], found[at, 1] = gpus.first[node] + i, WHOLE
            at += 1
    return at


@inlined
def claim_parts(gpus: Gpus, free: Ints, node: int, count: int, milli: int, tasks: int, found: Ints, at: int) -> int:
    """Claim parts of GPUs; returns how many claims there are now.

    Of the fullest that has room; where a task uses several, of those with most room, so that all tasks find as many.
    """
    kind, first = gpus.kind[node], gpus.first[node]
    begin = at
    for _ in range(tasks):
        used = 0
        for _ in range(count):
            best, least = -1, WHOLE + 1
            for i in range(gpus.size[kind]):
                left = free[first + i] if count == 1 else WHOLE - free[first + i] // milli
                if not used >> i & 1 and milli <= free[first + i] and left < least:
                    best, least = i, left
            used |= 1 << best
            at = claim_part(free, first + best, milli, found, begin, at)
    return at


@inlined
def claim_part(free: Ints, place: int, milli: int, found: Ints, begin: int, at: int) -> int:
    """Claim a part of one GPU more."""
    free[place] -= milli
    for row in range(begin, at):
        if found[row, 0] == place:
            found[row, 1] += milli
            return at
    found[at, 0], found[at, 1] = place, milli
    return at + 1


@inlined
def claim_slices(gpus: Gpus, free: Ints, node: int, size: int, tasks: int, found: Ints, at: int) -> int:
    """Claim blocks of slices: of the GPU with fewest free ones, at the last place where a block may be."""
    kind, first = gpus.kind[node], gpus.first[node]
    each = gpus.slices[kind]
    for _ in range(tasks):
        best, least = -1, each + 1
        for gpu in range(gpus.size[kind]):
            left = 0
            for i in range(each):
                left += free[first + gpu * each + i]
            start = last_block(free, first + gpu * each, each, size)
            if left < least and start >= 0:
                best, least = first + gpu * each + start, left
        for i in range(best, best + size):
            free[i] = 0
            found[at, 0], found[at, 1] = i, 1
            at += 1
    return at


@compiled
def choose_on_node(gpus: Gpus, free: Ints, node: int, ask: Ask, tasks: int, found: Ints, at: int) -> int:
    """GPUs for some tasks on one node, taken from what is free; returns how many claims there are now."""
    if ask.gpus == 0 or gpu_fit(gpus, free, node, ask.gpus, ask.milli, ask.slices) < tasks:
        return at  # it asks for none, or there is no choice that would be free
    if ask.slices:
        return claim_slices(gpus, free, node, ask.slices, tasks, found, at)
    if ask.milli < WHOLE:
        return claim_parts(gpus, free, node, ask.gpus, ask.milli, tasks, found, at)
    available = free_set(gpus, free, node)
    s = nearest_set(gpus, gpus.kind[node], ask.graph, available, ask.gpus * tasks)
    return claim_set(gpus, free, node, s, found, at)


class Neighbours(NamedTuple):
    """Which jobs are where, and what that does: as kernels take it."""

    holders: Ints  # int64[2, places]: as in `Claimed`, of the places of the GPUs
    whole: Ints  # int64[jobs]: 1 for those that ask for whole GPUs; others are no neighbours
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
def next_neighbour(gpus: Gpus, peers: Neighbours, node: int, around: int, job: int, at: int) -> int:
    """The first GPU from ``at`` on with a neighbour that no GPU before it has; the number of GPUs: none."""
    kind, first = gpus.kind[node], gpus.first[node]
    for i in range(at, gpus.size[kind]):
        other = peers.holders[1, first + i]
        if around >> i & 1 and peers.holders[0, first + i] == 1 and peers.whole[other] and other != job:
            new = True
            for j in range(i):
                seen = around >> j & 1 and peers.holders[0, first + j] == 1
                new = new and not (seen and peers.holders[1, first + j] == other)
            if new:
                return i
    return int(gpus.size[kind])


@inlined
def interference(
    gpus: Gpus, peers: Neighbours, node: int, sockets: int, job: int, profile: int
) -> tuple[float, float, int]:
    """Of the neighbours at some sockets: the worst factor that the job suffers, the sum of their shares, their number.

    A share is a run time alone over that beside the job.
    """
    kind, first = gpus.kind[node], gpus.first[node]
    worst, total, count = 1.0, 0.0, 0
    if gpus.slices[kind] == 0:
        around = gpus_at(gpus, kind, sockets)
        i = next_neighbour(gpus, peers, node, around, job, 0)
        while i < gpus.size[kind]:
            other = peers.profile[peers.holders[1, first + i]]
            worst = max(worst, peers.beside[profile, other])
            total += 1.0 / peers.beside[other, profile]
            count += 1
            i = next_neighbour(gpus, peers, node, around, job, i + 1)
    return worst, total, count


@inlined
def mean_share(gpus: Gpus, peers: Neighbours, node: int, sockets: int, job: int, profile: int) -> float:
    """The mean over a job and its neighbours at some sockets of run time alone over that beside each other (eq. 4)."""
    worst, total, others = interference(gpus, peers, node, sockets, job, profile)
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
    gpus: Gpus, free: Ints, peers: Neighbours, job: int, ask: Ask, nodes: Ints, sets: Ints
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
        most, more, others = interference(gpus, peers, node, sockets_of(gpus, kind, s), job, ask.profile)
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
