"""Which cores of a node a job has: close together on a die, where the cores of a die are joined as a torus.

*best*: on the die where they are closest together, proven (:func:`unrack_papers.torus.solve.best_tiles`, with a limit
on its search); *quick*: the same without a search; *first-fit*: the free cores of least ids, as the paper's baseline.

Best and quick use as few dies as they can: while no die has enough free cores, the one with most is taken whole. Of
dies with equal distances they take the one with fewest free cores, then the first. The paper has one die only; what it
costs to talk from die to die it leaves open, so such pairs are counted, not measured.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from unrack import Cluster
from unrack.errors import InputError, RefusedError, check_choice
from unrack.jit import Bools, Ints
from unrack_papers.torus.solve import TorusPlacement, best_tiles, first_fit_tiles, quick_tiles, tile_distance

BEST, QUICK, FIRST_FIT = "best", "quick", "first-fit"
CORE_RULES = (BEST, QUICK, FIRST_FIT)
MOST_NODES = 1_000_000
"""Nodes of a search for the closest cores, about half a second; 12 of 64 cores need a few thousand."""


@dataclass(frozen=True, eq=False)
class CoreSet:
    """The cores of one node that one job has."""

    ids: Ints  # int64[cores]: ascending; core ``die * rows * columns + row * columns + column``
    dies: int  # on how many dies they are
    distance: int  # hops between them, summed over all pairs on one die
    least: int  # the lowest that many cores on each of those dies could have, were the dies empty (or a bound below it)
    apart: int  # pairs of them that are on different dies

    def as_json(self) -> dict[str, Any]:
        """Its parts, for JSON."""
        parts = {"dies": self.dies, "distance": self.distance, "least": self.least, "apart": self.apart}
        return {"ids": self.ids.tolist(), **parts}


@lru_cache(maxsize=65_536)
def _on_die(rule: str, rows: int, columns: int, k: int, taken: bytes) -> TorusPlacement:
    ids = np.flatnonzero(np.frombuffer(taken, np.bool_))
    if rule == BEST:
        return best_tiles(rows, columns, k, ids, most_nodes=MOST_NODES)
    return (quick_tiles if rule == QUICK else first_fit_tiles)(rows, columns, k, ids)


@lru_cache(maxsize=4096)
def _least(rows: int, columns: int, k: int) -> int:
    """A lower bound of the distance of k cores of an empty die: there, the quick answer's has always been met."""
    return quick_tiles(rows, columns, k).bound


class CoreTiles:
    """The free cores of every node, and which ones the next job gets.

    ``cluster``: nodes with a known ``torus``; of others, nothing is counted; ``rule``: one of ``CORE_RULES``. An
    InputError if there is no such rule, or no node's cores are known to be on a torus.
    """

    def __init__(self, cluster: Cluster, rule: str = BEST) -> None:
        check_choice("core tiles", rule, CORE_RULES)
        if cluster.torus is None:
            want = "torus = [rows, columns] of a class of nodes of the cluster"
            got = f"{rule!r}, but how the cores of {cluster.name} are laid out is not known"
            raise InputError("core tiles", got, want)
        self.cluster = cluster
        self.rule = rule
        self._torus = cluster.torus
        self._taken: dict[int, Bools] = {}

    def knows(self, node: int) -> bool:
        """Whether the layout of a node's cores is known."""
        return bool(self._torus[node, 0])

    def taken(self, node: int) -> Bools:
        """bool[dies, cores on a die]: which cores of a node are in use."""
        if node not in self._taken:
            rows, columns = self._torus[node].tolist()
            self._taken[node] = np.zeros((int(self.cluster.cores[node]) // (rows * columns), rows * columns), np.bool_)
        return self._taken[node]

    def take(self, node: int, cores: int) -> CoreSet:
        """Choose free cores of a node by the rule, and take them. A RefusedError if so many are not free."""
        taken = self.taken(node)
        free = (~taken).sum(axis=1)
        if not 1 <= cores <= free.sum():
            raise RefusedError(f"{cores} cores of node {node}: {free.sum()} are free")
        if self.rule == FIRST_FIT:
            ids = np.flatnonzero(~taken.reshape(-1))[:cores]
        else:
            ids = np.sort(np.concatenate(self._close_together(node, cores, free)))
        return self.hold(node, ids)

    def _close_together(self, node: int, cores: int, free: Ints) -> list[Ints]:
        """Ids of free cores on as few dies as can be."""
        taken = self.taken(node)
        rows, columns = self._torus[node].tolist()
        size = rows * columns
        left, chosen = free.copy(), []
        while cores > left.max():
            die = int(np.argmax(left))
            chosen.append(die * size + np.flatnonzero(~taken[die]))
            cores -= int(left[die])
            left[die] = 0
        found: dict[bytes, TorusPlacement] = {}
        keys = []
        for die in np.flatnonzero(left >= cores).tolist() if cores else []:
            pattern = taken[die].tobytes()
            if pattern not in found:
                found[pattern] = _on_die(self.rule, rows, columns, cores, pattern)
            keys.append((found[pattern].distance, int(free[die]), die))
        if keys:
            die = min(keys)[2]
            chosen.append(die * size + found[taken[die].tobytes()].tiles)
        return chosen

    def hold(self, node: int, ids: Sequence[int] | Ints) -> CoreSet:
        """Take these cores of a node. A RefusedError if one of them does not exist, is in use, or is named twice."""
        ids = np.sort(np.asarray(ids, np.int64))
        taken = self.taken(node).reshape(-1)
        outside = ids[(ids < 0) | (ids >= len(taken))]
        if len(outside):
            raise RefusedError(f"core {outside[0]} of node {node}: it has cores 0 to {len(taken) - 1}")
        again = ids[taken[ids]] if taken[ids].any() else ids[1:][ids[1:] == ids[:-1]]
        if len(again):
            raise RefusedError(f"core {again[0]} of node {node}: it is in use already")
        taken[ids] = True
        return self.measure(node, ids)

    def give(self, node: int, ids: Ints) -> None:
        """Free cores of a node. A RefusedError if one of them is free already."""
        taken = self.taken(node).reshape(-1)
        if not taken[ids].all():
            raise RefusedError(f"core {ids[~taken[ids]][0]} of node {node} given back: it is free")
        taken[ids] = False

    def measure(self, node: int, ids: Ints) -> CoreSet:
        """How close together cores of a node are."""
        rows, columns = self._torus[node].tolist()
        dies, count = np.unique(ids // (rows * columns), return_counts=True)
        distance = sum(
            tile_distance(rows, columns, ids[ids // (rows * columns) == die] % (rows * columns))
            for die in dies.tolist()
        )
        least = sum(_least(rows, columns, k) for k in count.tolist())
        apart = (len(ids) ** 2 - int((count**2).sum())) // 2
        return CoreSet(ids, len(dies), distance, least, apart)


best = partial(CoreTiles, rule=BEST)
quick = partial(CoreTiles, rule=QUICK)
first_fit = partial(CoreTiles, rule=FIRST_FIT)
"""What unrack finds under the names of the rules."""
