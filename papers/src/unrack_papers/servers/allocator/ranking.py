"""Clusters in a stable order of utilisation, and the first of them that could take a server, without looking at all.

The paper's allocator sorts its clusters by utilisation, in whole percent, before each server: stably, so that among
equals the order of before stays. That order is kept here instead of sorted again. Each of the 101 utilisations has a
run of slots; a cluster that was filled goes to the end of its new run (it stood behind all of them), one that was
emptied goes to the front. Slots in ascending order are then the sorted list.

Over the slots stands a tree of maxima of what the clusters have free, in columns such that more is never worse. Where
not even the maxima of a part of the list could take a server, no cluster of that part can. So the first cluster that
fits is found from left to right without entering hopeless parts. A placement touches one leaf and its ancestors, O(log
clusters); a run that is out of slots has all of them laid out again, which happens at most once in (slots / 404) moves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import Ints, compiled, inlined

FULL = 100
"""The highest utilisation, percent."""
HEAD, TAIL, BEGIN, END = range(4)
"""Rows of :attr:`Ranking.span`."""


class Ranking(NamedTuple):
    """The order and the tree over it."""

    # int64[2 * slots, columns]: node 1 is the root, ``slots + s`` the leaf of slot s. What the columns say is the
    # allocator's; -1 in leaves without a cluster.
    tree: Ints
    ranked: Ints  # int64[slots]: the cluster in a slot; -1: none
    # at, used, int64[clusters]: the slot of each cluster (-1: none yet) and its utilisation
    at: Ints
    used: Ints
    # int64[4, 101]: per utilisation: first slot taken, one after the last taken, first and one after the last slot of
    # its run
    span: Ints


def make_ranking(used: Ints, columns: int) -> Ranking:
    """Clusters in order of utilisation (percent, 0 to 100), then of id; their leaves are still to be filled in.

    ``used``: int64[clusters], utilisation of each; ``columns``: of the tree.
    """
    slots = 1
    while slots < 4 * len(used) + 4 * (FULL + 1):
        slots *= 2
    ranking = Ranking(
        np.full((2 * slots, columns), -1, np.int64),
        np.full(slots, -1, np.int64),
        np.full(len(used), -1, np.int64),
        used.astype(np.int64),
        np.zeros((4, FULL + 1), np.int64),
    )
    _lay_out(*ranking, np.argsort(-used, kind="stable").astype(np.int64))
    return ranking


@compiled
def _lay_out(tree: Ints, ranked: Ints, at: Ints, used: Ints, span: Ints, order: Ints) -> None:
    """Give the clusters slots in this order, with room in every run; leaves move along, -1 where there was no slot."""
    slots, width = len(ranked), tree.shape[1]
    leaves = np.full((len(order), width), -1, np.int64)
    counts = np.zeros(FULL + 1, np.int64)
    for k in range(len(order)):
        counts[used[order[k]]] += 1
        if at[order[k]] >= 0:
            leaves[k] = tree[slots + at[order[k]]]
    tree[:] = -1
    ranked[:] = -1
    spare = (slots - len(order)) // (FULL + 1)
    slot, k = 0, 0
    for percent in range(FULL, -1, -1):
        span[BEGIN, percent] = slot
        slot += spare // 3
        span[HEAD, percent] = slot
        for _ in range(counts[percent]):
            ranked[slot], at[order[k]] = order[k], slot
            tree[slots + slot] = leaves[k]
            slot += 1
            k += 1
        span[TAIL, percent] = slot
        slot += spare - spare // 3
        span[END, percent] = slot
    for node in range(slots - 1, 0, -1):
        for i in range(width):
            tree[node, i] = max(tree[2 * node, i], tree[2 * node + 1, i])


@inlined
def climb(tree: Ints, leaf: int) -> None:
    """Make the maxima above a leaf right again."""
    node = leaf // 2
    while node >= 1:
        same = True
        for i in range(tree.shape[1]):
            most = max(tree[2 * node, i], tree[2 * node + 1, i])
            if most != tree[node, i]:
                tree[node, i] = most
                same = False
        if same:
            return
        node //= 2


@inlined
def rank(tree: Ints, ranked: Ints, at: Ints, used: Ints, span: Ints, cluster: int, percent: int, row: Ints) -> None:
    """Tell what a cluster has free now, and move it if its utilisation is another: up to the end, down to the front.

    ``percent``: its utilisation now; ``row``: int64[columns], its leaf.
    """
    slots = len(ranked)
    slot = at[cluster]
    if used[cluster] != percent:
        up = percent > used[cluster]
        tree[slots + slot] = -1
        climb(tree, slots + slot)
        ranked[slot], at[cluster] = -1, -1
        if (span[TAIL, percent] == span[END, percent]) if up else (span[HEAD, percent] == span[BEGIN, percent]):
            others = np.empty(len(at) - 1, np.int64)
            k = 0
            for s in range(slots):
                if ranked[s] >= 0:
                    others[k] = ranked[s]
                    k += 1
            _lay_out(tree, ranked, at, used, span, others)
        if up:
            slot = span[TAIL, percent]
            span[TAIL, percent] += 1
        else:
            span[HEAD, percent] -= 1
            slot = span[HEAD, percent]
        ranked[slot], at[cluster], used[cluster] = cluster, slot, percent
    for i in range(tree.shape[1]):
        tree[slots + slot, i] = row[i]
    climb(tree, slots + slot)
