"""What a cost model sees of a phase of a round, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.policy.flow.sorts import Sort
from unrack.view import View


class Phase(NamedTuple):
    """One group of resources in one round: sub-tasks of several sorts, and hosts that could take them.

    Attributes
    ----------
    view, now
        The cluster, before this round, and the time, µs.
    group
        ``"nodes"`` (cores, memory, and what is built into nodes), or a kind of pooled devices.
    sorts
        What the sub-tasks ask; those of a sort are alike.
    node : int64[hosts]
        The node of each host; -1: a pool that is in no node.
    fits : int64[sorts, hosts]
        How many sub-tasks of each sort a host could take if it took no others.
    postponed : bool[sorts]
        Whether they have been left waiting in as many rounds as the model says (``postpones``), or more.
    chosen
        Whether an earlier phase has given the sub-tasks nodes.
    slowdown : float64[sorts, hosts]
        How many times as long a sub-task would run there as undisturbed, as far as devices elsewhere and the network
        say so.
    home : float64[sorts]
        The same of a sub-task on the node that an earlier phase gave it.
    load : float64[hosts]
        The share of the network link of the host's node that is in use now, before this round; 0 where links are not
        modelled.
    sensitivity : float64[sorts]
        By how much a run grows beside a link that others use fully: 0.6 = 60 %.
    seen : bool[sorts, hosts]
        Where a job of the same application has run before, so that its image is there.
    """

    view: View
    now: int
    group: str
    sorts: list[Sort]
    node: Ints
    fits: Ints
    postponed: Bools
    chosen: bool
    slowdown: Floats
    home: Floats
    load: Floats
    sensitivity: Floats
    seen: Bools


class Costs(NamedTuple):
    """What placements cost; 1 is the cost of what just meets its goal.

    Attributes
    ----------
    place : float64[sorts, hosts]
        Of a sub-task on a host; infinite: not there.
    waiting : float64[sorts]
        Of leaving a sub-task waiting for the first time; the rounds it has waited are added.
    preferred : float64[sorts]
        Of a sub-task at the host that is its node, where an earlier phase has given it one.
    """

    place: Floats
    waiting: Floats
    preferred: Floats


CostModel = Callable[[Phase], Costs]
"""A model is a function; its attribute ``postpones``, where it has one, is a number of rounds for ``postponed``."""


def postpones(model: CostModel) -> int:
    """After how many rounds of waiting a model treats a job otherwise; 0: it does not."""
    return int(getattr(model, "postpones", 0))
