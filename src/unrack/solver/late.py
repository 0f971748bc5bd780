"""How many jobs must be late, and how long they take in all, whatever schedules them: two lower bounds.

*Response*: on one processor that may be interrupted at will, serving the job with least work left minimises the sum of
the times from release to end (Schrage 1968). A resource that gives itself whole to one job at a time can do whatever a
schedule that splits it among jobs does, so its optimum, with each job's energy over the capacity as work, is a bound.

*Late*: from what fits between releases and due times.

A job on time spends all its energy (amount held x time) within its window, from release to due. Three relaxations of
"what can be on time" give the bound; each only lets more jobs be on time than any schedule can.

1. A job with a window shorter than its fastest run, or that offers less of a resource than its energy, is late:
   *certain*.
2. For one resource of capacity c, let a fraction x_j of job j be on time, holding z_j = e_j x_j of its energy e_j, and
   let energy be spent at any rate, interrupted at will. Such z are the flows from jobs to the times of their windows:
   feasible if no set of jobs asks for more than c x the length of the union of its windows. That is a coverage
   function, so the z form a polymatroid, and on a polymatroid the greedy maximises a weighted sum (Edmonds 1970). The
   weight of z_j in sum x_j is 1/e_j: least energy first. With jobs in levels of equal energy t_1 < t_2 < ..., and F_k
   the most energy that the jobs of levels 1..k can spend together, the greedy gives level k exactly F_k - F_(k-1).
3. F_k needs no linear programme: jobs and times form a convex bipartite graph, on which serving at every time the job
   due first, and dropping what is left of it at its due time, is a maximum flow (Glover 1967).

So sum(1 - x_j) >= sum over levels (E_k - (F_k - F_(k-1))) / t_k with E_k the energy of level k. Where there are more
different energies than ``LEVELS``, a level holds jobs of up to t_k: e_j - z_j is then divided by more than e_j, which
can only lower the result, and the greedy over these weights is again exact. The late jobs are whole, so the sum is
rounded up. Times are whole and energies are rounded down to a fraction of a time unit, so the flows are exact.

Sizes as a bin sees them: what cannot be used beside an item is counted as used.

A function f on sizes is *superadditive* if f(x) + f(y) <= f(x + y). Whatever set of items fits a bin of size C then has
sum f(size) <= f(C), so f is as good a measure as size itself, and a sharper one where items leave gaps: of 25 cores,
tasks of 15 and of 6 can be had as {15, 6} or {6, 6, 6, 6}; counted in pieces of 6 they are 3/4 and 1/4 of a node.

References
----------
Edmonds, J. (1970). Submodular functions, matroids, and certain polyhedra.
Schrage, L. (1968). A proof of the optimality of the shortest remaining processing time discipline. Operations Research.
Glover, F. (1967). Maximum matching in a convex bipartite graph. Naval Research Logistics Quarterly 14, 313-316.
Carlier, J., Clautiaux, F., Moukrim, A. (2007). New reduction procedures and lower bounds for the two-dimensional bin
packing problem with fixed orientation. Computers & Operations Research 34, 2223-2250.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints

LEVELS = 64
"""Most levels of energy that are told apart; beyond, they are a geometric series."""
DUST = 1e-6
"""Of a job: what rounding may have added to a sum of fractions."""


@dataclass(frozen=True)
class Late:
    """A lower bound on the number of late jobs."""

    certain: int  # jobs that are late even if they are alone
    by_resource: Ints  # int64[resources]: how many of the others must be late because of one resource

    @property
    def total(self) -> int:
        """At least so many jobs are late under any schedule."""
        return self.certain + int(self.by_resource.max(initial=0))


def fewest_late(release: Ints, due: Ints, fastest: Ints, energy: Floats, capacity: Floats) -> Late:
    """Bound from below how many jobs end after they are due, or never.

    O(resources x levels x jobs x log jobs). Returns what is certain, and what each resource adds.

    Parameters
    ----------
    release, due : int64[jobs]
        From when a job may run, and when it should have ended; due < 0: never late. In one unit of time, at least 0.
    fastest : int64[jobs]
        Least time a job runs, in the same unit; not rounded up.
    energy : float64[resources, jobs]
        Least amount of a resource x time that a job spends if it is on time; infinite if it cannot be.
    capacity : float64[resources]
        Amount there is at any time.

    Examples
    --------
    Three jobs of 4 units on one processor, all due at 10, and one that cannot even run:

    >>> zero, four = np.zeros(4, np.int64), np.full(4, 4)
    >>> due = np.array([10, 10, 10, 3])
    >>> fewest_late(zero, due, four, np.full((1, 4), 4.0), np.ones(1))
    Late(certain=1, by_resource=array([1]))
    """
    capacity = np.asarray(capacity, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        spans = np.where(energy > 0, energy / capacity[:, None], 0.0)  # time that the whole resource would need
    spans *= 1 - 2.0**-50
    window = due - release
    hopeless = (window < fastest) | (spans > window).any(axis=0)
    certain = int((hopeless & (due >= 0)).sum())
    rows = np.flatnonzero(~hopeless & (due >= 0))
    rows = rows[np.argsort(release[rows], kind="stable")]
    late = np.zeros(len(capacity), np.int64)
    if len(rows) == 0:
        return Late(certain, late)
    start = int(release[rows[0]])
    fine = 1 << (60 - (int(due[rows].max()) - start).bit_length())
    begin, end = (release[rows] - start) * fine, (due[rows] - start) * fine
    for r in range(len(capacity)):
        work = np.floor(spans[r, rows] * fine).astype(np.int64)
        late[r] = max(0, ceil(_shortfall(begin, end, work) - DUST))
    return Late(certain, late)


def most_work(release: Ints, due: Ints, work: Ints) -> int:
    """The most work that a processor of speed 1 can do on jobs within their windows, interrupted at will.

    Parameters
    ----------
    release, due, work : int64[jobs]
        In order of release; work in the unit of time, each at most due - release; the last due time below 2**61.
    """
    return int(_earliest_due_first(release, due, work))


def _shortfall(release: Ints, due: Ints, work: Ints) -> float:
    """Least sum over jobs of the fraction that is not on time (step 2 of the proof), from below."""
    tops = _levels(work)
    level = np.searchsorted(tops, work)
    energy = [_exact_sum(work[level == k]) for k in range(len(tops))]
    asked, missing = sum(energy), 0.0
    flow = most_work(release, due, work)
    for k in range(len(tops) - 1, -1, -1):
        if flow == asked:
            break  # levels 1..k are served whole: nothing is missing there
        kept = level < k
        below = most_work(release[kept], due[kept], work[kept])
        missing += (energy[k] - (flow - below)) / int(tops[k])
        flow, asked = below, asked - energy[k]
    return missing


def _exact_sum(values: Ints) -> int:
    """The sum of whole numbers from 0 to 2**61, however many."""
    low = (1 << 30) - 1
    return (int((values >> 30).sum()) << 30) + int((values & low).sum())


def _levels(work: Ints) -> Ints:
    """The largest energy of each level, ascending."""
    values = np.unique(work)
    if len(values) <= LEVELS:
        return values
    low, high = max(1, int(values[0])), int(values[-1])
    cuts = np.searchsorted(values, np.geomspace(low, high, LEVELS), side="right") - 1
    return np.unique(np.append(values[np.maximum(cuts, 0)], high))


@compiled
def _earliest_due_first(release: Ints, due: Ints, work: Ints) -> int:
    left = work.copy()
    heap = [(0, 0)]  # a first entry tells the compiler its type
    heap.pop()
    now, at, done = 0, 0, 0
    while at < len(release) or len(heap) > 0:
        if len(heap) == 0 and release[at] > now:
            now = release[at]
        while at < len(release) and release[at] <= now:
            heappush(heap, (due[at], at))
            at += 1
        until, job = heap[0]
        stop = min(now + left[job], until)
        if at < len(release):
            stop = min(stop, release[at])
        if stop > now:
            done += stop - now
            left[job] -= stop - now
            now = stop
        if left[job] <= 0 or until <= now:
            heappop(heap)
    return done


def least_response(release: Ints, work: Floats) -> float:
    """The least sum over jobs of end minus release on a processor of speed 1, interrupted at will.

    O(jobs x log jobs). ``release``: int64[jobs], from when a job may run, in any order; ``work``: float64[jobs], in the
    same unit of time.

    Examples
    --------
    >>> least_response(np.array([0, 1]), np.array([10.0, 2.0]))
    14.0
    """
    if len(release) == 0:
        return 0.0
    order = np.argsort(release, kind="stable")
    return float(_shortest_left_first(release[order] - release[order[0]], work[order].astype(np.float64)))


@compiled
def _shortest_left_first(release: Ints, work: Floats) -> float:
    heap = [(0.0, 0)]  # a first entry tells the compiler its type
    heap.pop()
    now, total, at = 0.0, 0.0, 0
    while at < len(release) or len(heap) > 0:
        if len(heap) == 0:
            now = max(now, float(release[at]))
        while at < len(release) and release[at] <= now:
            heappush(heap, (work[at], at))
            at += 1
        left, job = heappop(heap)
        if at < len(release) and release[at] < now + left:
            heappush(heap, (left - (release[at] - now), job))
            now = float(release[at])
        else:
            now += left
            total += now - release[job]
    return total


def in_pieces(size: Ints, whole: int, piece: int) -> Ints:
    """Twice the number of pieces that a size takes of a whole: up to half, those it holds; beyond, all but those left.

    Returns int64[...]: superadditive and not decreasing in size; ``2 * (whole // piece)`` for the whole.

    Parameters
    ----------
    size : int64[...]
        From 0 to ``whole``.
    whole, piece
        1 <= piece <= whole / 2. With piece 1, size itself, twice.

    Examples
    --------
    >>> in_pieces(np.array([5, 6, 15, 19, 25]), whole=25, piece=6).tolist()
    [0, 2, 6, 6, 8]
    """
    half = np.where(2 * size == whole, whole // piece, 2 * (size // piece))
    return np.where(2 * size > whole, 2 * (whole // piece - (whole - size) // piece), half)


def telling_pieces(size: Ints, weight: Floats, whole: int, most: int) -> list[int]:
    """Pieces worth counting in, ascending: the sizes up to half, and what just does not fit beside a larger size.

    ``size``: int64[items], from 0 to ``whole``; ``weight``: float64[items], how much each matters: the pieces of the
    ``most`` heaviest sizes are returned.
    """
    sizes, place = np.unique(size, return_inverse=True)
    total = np.bincount(place, weights=weight, minlength=len(sizes))
    heaviest = sizes[np.lexsort((sizes, -total))][:most].tolist()
    pieces = {int(x) if 2 * x <= whole else int(whole - x + 1) for x in heaviest}
    return sorted(piece for piece in pieces if 1 < piece <= whole // 2)
