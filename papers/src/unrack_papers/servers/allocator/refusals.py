"""Why a server has no place: what each cluster of pools lacks for it, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unrack.jit import Bools, Ints
from unrack_papers.servers.allocator.holdings import RULES
from unrack_papers.servers.allocator.one_by_one import OneByOne


class Lack(NamedTuple):
    """Something that a cluster may lack."""

    what: str  # in words, of clusters
    fails: Bools  # bool[clusters]: which clusters lack it
    amount: Ints | None = None  # int64[clusters]: how much each has of it, the more the better; `None`: it is no amount
    words: str = ""  # how to say an amount
    scale: int = 1  # what amounts are divided by in words; negative amounts stand for what should be small


@dataclass(frozen=True)
class Refusal:
    """What each cluster lacks for a server, tests in order; a cluster counts for the first that it fails."""

    lacks: tuple[Lack, ...]

    def among(self, clusters: Ints) -> str:
        """In words, for some clusters: how many lack what, and how near the best of them comes."""
        parts = []
        rest = clusters
        for lack in self.lacks:
            hit = rest[lack.fails[rest]]
            rest = rest[~lack.fails[rest]]
            if len(hit):
                parts.append(f"{len(hit)} {lack.what}")
                if lack.amount is not None:
                    best = int(lack.amount[hit].max())
                    parts[-1] += f" (at best {lack.words.format(_scaled(abs(best), lack.scale))})"
        return f"of {len(clusters)} clusters " + ", ".join(parts) if parts else "no cluster"


class Refusals:
    """Reasons, from the state of an allocator at the time of asking.

    ``allocator``: what places; ``cost_scale``: units of weight for each MB of a tier of cost 1.
    """

    def __init__(self, allocator: OneByOne, cost_scale: int) -> None:
        self._by = allocator
        self._scale = cost_scale
        supply = allocator.supply
        lengths = np.diff(supply.first)
        self._member = np.full((supply.clusters, supply.width), -1, np.int64)
        for place in range(supply.width):
            has = lengths > place
            self._member[has, place] = supply.member[supply.first[:-1][has] + place]

    def of(self, server: int) -> Refusal:
        """What the clusters lack for a server, as things stand."""
        pools, asks, member = self._by.pools, self._by.servers, self._member
        ids = np.arange(len(member))
        mb = np.where(member >= 0, pools.mb[member], 0)
        if asks.forbidden.shape[1]:
            mb[asks.forbidden[server][pools.tier[member]]] = 0
        near = self._near(server)
        mb[near] = 0
        cores, need = pools.cores[member[:, 0]], int(asks.mb[server])
        left, weight = np.full(len(ids), need), np.zeros(len(ids), np.int64)
        for place in range(mb.shape[1]):
            part = np.minimum(left, mb[:, place])
            weight += part * pools.weight[member[:, place]]
            left -= part
        pin, floor, ceiling = int(asks.pinned[server]), int(asks.floor[server]), int(asks.ceiling[server])
        full = 0 <= self._by.most <= int((pools.load > 0).sum())
        lacks = [
            Lack("are not the one it is pinned to", (ids != pin) & (pin >= 0)),
            Lack("are off while no more may be in use", (pools.load == 0) & full),
            Lack("share a failure domain with its group", near[:, 0]),
            Lack("have too few cores free", cores < asks.cores[server], cores, f"{{}} of {asks.cores[server]}"),
            Lack("have too little memory free", left > 0, mb.sum(axis=1), f"{{:,}} of {need:,} MB"),
        ]
        if RULES[self._by.rule] != "first-fit":
            words = f"{{:,}} of {floor:,} MB"
            lacks.append(Lack("have too little local memory free", mb[:, 0] < floor, mb[:, 0], words))
            words = f"{{:,}} weighted MB, above {_scaled(ceiling, self._scale):,}"
            lacks.append(Lack("have only memory that is too remote", weight > ceiling, -weight, words, self._scale))
        return Refusal(tuple(lacks))

    def _near(self, server: int) -> Bools:
        """bool[clusters, width]: pools in a failure domain where the server's group holds something."""
        asks, pools, member = self._by.servers, self._by.pools, self._member
        level, group = int(asks.level[server]), int(asks.group[server])
        found = np.zeros(member.shape, np.bool_)
        if level < 0:
            return found
        others = np.flatnonzero((asks.group == group) & (asks.cluster >= 0))
        taken = set()
        for other in others.tolist():
            its = self._member[asks.cluster[other]]
            held = (asks.parts[other] > 0) | (np.arange(len(its)) == 0)
            taken.update(pools.domain[level, its[held & (its >= 0)]].tolist())
        taken.discard(-1)
        return np.isin(pools.domain[level, member], sorted(taken)) & (member >= 0)


def _scaled(value: int, scale: int) -> int | float:
    """A whole number of units of 1 / scale as a plain number."""
    return value // scale if value % scale == 0 else value / scale
