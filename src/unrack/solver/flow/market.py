"""Networks of one kind: each source sends one unit by a place that it chooses to the one sink."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.solver.flow.network import Network

Ints = NDArray[np.int64]


class Market(NamedTuple):
    """Tasks that choose one of their offers each, and places with slots for them.

    A place that could hold all tasks that have an offer of it is open: it has no slots, as it needs none.
    """

    first: Ints
    """int64[tasks + 1]: where the offers of a task begin."""
    place: Ints
    """int64[offers]: the place, numbered from 0."""
    cost: Ints
    """int64[offers]: of the way by it to the sink."""
    back_first: Ints
    """int64[places + 1]: where the offers of a place begin in the columns that follow."""
    back: Ints
    """int64[offers]: the offer."""
    back_task: Ints
    """int64[offers]: whose it is."""
    back_cost: Ints
    """int64[offers]: its cost."""
    slot_first: Ints
    """int64[places + 1]: where the slots of a place begin."""
    is_open: NDArray[np.bool_]
    """bool[places]."""


class Stall(NamedTuple):
    """A market, and where its offers and places are in the network."""

    market: Market
    arc: Ints
    """int64[offers]: the arc from task to place."""
    out: Ints
    """int64[places]: the arc from place to sink."""


def market_of(network: Network) -> Stall | None:
    """The network as a market; ``None`` if it is none. O(arcs log arcs).

    Sources send one unit each, and no arc leads to them; one node receives; every other arc goes from a place to it,
    one a place; each source has an arc to an open place, so that there is a flow. Arcs of capacity 0 do not count.

    Parameters
    ----------
    network
        As :func:`unrack.solver.flow.network.checked` returns it.
    """
    supply, tail, head, capacity, cost = network
    sources, sinks = np.flatnonzero(supply > 0), np.flatnonzero(supply < 0)
    if len(sinks) != 1 or (supply[sources] != 1).any():
        return None
    usable = capacity > 0
    sends = supply > 0
    out = np.flatnonzero(usable & ~sends[tail])
    if (head[out] != sinks[0]).any() or len(np.unique(tail[out])) < len(out):
        return None
    place_of = np.full(len(supply), -1)
    place_of[tail[out]] = np.arange(len(out))
    arc = np.flatnonzero(usable & sends[tail])
    if sends[head[arc]].any() or (head[arc] == sinks[0]).any():
        return None
    arc = arc[place_of[head[arc]] >= 0]
    task_of = np.cumsum(sends) - 1
    arc = arc[np.argsort(tail[arc], kind="stable")]
    task, place = task_of[tail[arc]], place_of[head[arc]]
    asked = np.bincount(place, minlength=len(out))
    is_open = capacity[out] >= asked
    if not np.isin(np.arange(len(sources)), task[is_open[place]]).all():
        return None
    total, back = cost[arc] + cost[out[place]], np.argsort(place, kind="stable")
    market = Market(
        _starts(np.bincount(task, minlength=len(sources))), place, total,
        _starts(asked), back, task[back], total[back], _starts(np.where(is_open, 0, capacity[out])), is_open,
    )  # fmt: skip
    return Stall(market, arc, out)


def _starts(counts: Ints) -> Ints:
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
