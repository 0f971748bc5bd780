"""Communication graphs of the user's own: edge lists, and the least cost of one on every set of GPUs."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from unrack.jit import compiled, inlined

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_VERTICES = 6
"""Which task is on which GPU is found by enumeration: 720 ways for each set of six GPUs."""


class GraphFile(BaseModel):
    """A communication graph.

    Attributes
    ----------
    name
        For messages.
    edges
        Pairs of vertices, counted from 0, and how much passes between the two (default 1) where it is not alike.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    edges: list[list[float]] = Field(min_length=1)

    @model_validator(mode="after")
    def _edges_can_be(self) -> Self:
        seen = set()
        for edge in self.edges:
            ends = edge[:2]
            if len(edge) not in (2, 3) or any(end not in range(MOST_VERTICES) for end in ends) or ends[0] == ends[1]:
                raise ValueError(f"edges of two vertices from 0 to {MOST_VERTICES - 1}, and a weight")
            if not 0 < (edge[2] if len(edge) == 3 else 1.0) < 1e6:
                raise ValueError("weights above 0 and below 1 000 000")
            if frozenset(ends) in seen:
                raise ValueError("each edge once")
            seen.add(frozenset(ends))
        return self

    @property
    def weights(self) -> Floats:
        """float64[vertices, vertices]: how much passes between two; 0: nothing."""
        count = 1 + int(max(end for edge in self.edges for end in edge[:2]))
        found = np.zeros((count, count))
        for edge in self.edges:
            a, b = int(edge[0]), int(edge[1])
            found[a, b] = found[b, a] = edge[2] if len(edge) == 3 else 1.0
        return found


@compiled
def fill_own_costs(d: Floats, weights: Floats, cost: Floats, least: Floats) -> None:
    """Least communication of the first vertices of a graph on every set of as many GPUs (float64[sets]).

    The tasks are on the GPUs in the best of all orders. Sets of more GPUs than vertices cannot be.
    """
    n = d.shape[0]
    own = np.zeros(n, np.int64)
    for s in range(1 << n):
        count = 0
        for i in range(n):
            if s >> i & 1:
                own[count] = i
                count += 1
        if count <= weights.shape[0]:
            cost[s] = least_assignment(d, weights, own, count)
            least[count] = min(least[count], cost[s])


@inlined
def least_assignment(d: Floats, weights: Floats, own: Ints, count: int) -> float:
    """The least sum of weight x distance over all ways to put so many vertices on so many GPUs, one on each."""
    best, level, taken = np.inf, 0, 0
    at, sums = np.full(count + 1, -1), np.zeros(count + 1)
    if count == 0:
        return 0.0
    while level >= 0:
        if at[level] >= 0:
            taken &= ~(1 << at[level])
        following = at[level] + 1
        while following < count and taken >> following & 1:
            following += 1
        if following == count:
            at[level] = -1
            level -= 1
            continue
        at[level] = following
        taken |= 1 << following
        total = sums[level]
        for before in range(level):
            total += weights[level, before] * d[own[following], own[at[before]]]
        if total < best:  # else no way to go on from here is better
            if level == count - 1:
                best = total
            else:
                level += 1
                sums[level] = total
    return best
