"""A phase of a round as a network: classes of sub-tasks, hosts, what fits, what it costs; and who goes where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.policy.flow.assignment import Assignment, Sides, assign
from unrack.policy.flow.costs.contract import Costs, Phase
from unrack.policy.rounds import UNIT

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_COST = 1000
"""Costs above this, or below its negative, are no different; so is waiting for more rounds than come to it."""


class Classes(NamedTuple):
    """Sub-tasks that are alike.

    Attributes
    ----------
    supply : int64[classes]
        How many there are.
    row : int64[classes]
        Which row of the phase they are of.
    rounds : int64[classes]
        In how many rounds they were left waiting.
    at : int64[classes]
        The host that is the node they were given; -1: none.
    stay : int64[classes]
        The host that they have, of running jobs; -1: none.
    """

    supply: Ints
    row: Ints
    rounds: Ints
    at: Ints
    stay: Ints


class Solved(NamedTuple):
    """A phase after its network was solved, for explanations."""

    phase: Phase
    costs: Costs
    classes: Classes
    sides: Sides
    assignment: Assignment


def solved(
    phase: Phase, classes: Classes, costs: Costs, room: Ints, force: bool, move: float, weight: float, solver: str,
    aggregate: bool,
) -> Solved:  # fmt: skip
    """Assign the sub-tasks of a phase to its hosts.

    Parameters
    ----------
    room : int64[hosts]
        How many sub-tasks each host could take in all.
    force
        Whether waiting costs more than any placement.
    move
        What it costs to have a sub-task of a running job elsewhere than where it is.
    weight
        What each round of waiting adds to the cost of waiting.
    """
    supplied = np.bincount(classes.row, classes.supply, len(phase.sorts)).astype(np.int64)
    room = np.minimum(room, supplied.sum())
    most = np.minimum(phase.fits, np.minimum(room[None], supplied[:, None]))
    may = np.isfinite(costs.place)
    place = np.where(may, costs.place, 0)
    waiting = whole(costs.waiting[classes.row] + weight * classes.rounds) + 1  # never just as good as a place
    if force:
        waiting = np.full(len(classes.row), 10 * MOST_COST * UNIT)
    preferred = [arcs_to(classes.at, room, costs.preferred[classes.row] + move * (classes.at != classes.stay))]
    if move:
        stay = np.where((classes.stay != classes.at) & (classes.stay >= 0), classes.stay, -1)
        preferred.append(arcs_to(stay, room, place[classes.row, classes.stay]))
    sides = Sides(
        classes.supply, classes.row, waiting, np.where(may, most, 0), whole(place + move), room,
        np.concatenate(preferred), None if phase.chosen else most,
    )  # fmt: skip
    return Solved(phase, costs, classes, sides, assign(sides, solver, aggregate))


def arcs_to(host: Ints, room: Ints, cost: Floats) -> Ints:
    """int64[arcs, 3]: arcs of the classes that have a host of their own (-1: none), if it has room."""
    own = np.flatnonzero((host >= 0) & (room[host] > 0))
    return np.stack([own, host[own], whole(cost[own])], axis=1)


def whole(cost: Floats) -> Ints:
    """Costs as whole numbers of 1/UNIT."""
    found: Ints = np.rint(np.clip(cost, -MOST_COST, MOST_COST) * UNIT).astype(np.int64)
    return found
