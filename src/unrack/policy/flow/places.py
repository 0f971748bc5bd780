"""A phase of a round as a network: classes of sub-tasks, hosts, what fits, what it costs; and who goes where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.policy.flow.assignment import NOBODY, UNIT, Assignment, Sides, assign
from unrack.policy.flow.costs.contract import Costs, Phase

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
    """

    supply: Ints
    row: Ints
    rounds: Ints
    at: Ints


class Solved(NamedTuple):
    """A phase after its network was solved, for explanations."""

    phase: Phase
    costs: Costs
    classes: Classes
    sides: Sides
    assignment: Assignment


def solved(
    phase: Phase, classes: Classes, costs: Costs, room: Ints, weight: float, force: bool, solver: str, aggregate: bool
) -> Solved:
    """Assign the sub-tasks of a phase to its hosts.

    Parameters
    ----------
    room : int64[hosts]
        How many sub-tasks each host could take in all.
    weight
        What each round of waiting adds to the cost of waiting.
    force
        Whether waiting costs more than any placement.
    """
    supplied = np.bincount(classes.row, classes.supply, len(phase.sorts)).astype(np.int64)
    room = np.minimum(room, supplied.sum())
    fits = np.where(np.isfinite(costs.place), np.minimum(phase.fits, np.minimum(room[None], supplied[:, None])), 0)
    place = whole(np.where(np.isfinite(costs.place), costs.place, 0))
    waiting = whole(costs.waiting[classes.row] + weight * classes.rounds) + 1  # never just as good as a place
    if force:
        waiting = np.full(len(classes.row), 10 * MOST_COST * UNIT)
    own = np.flatnonzero((classes.at >= 0) & (room[classes.at] > 0))
    home = whole(costs.preferred)[classes.row[own]]
    preferred = np.stack([own, classes.at[own], home], axis=1) if len(own) else NOBODY
    sides = Sides(classes.supply, classes.row, waiting, fits, place, room, preferred)
    return Solved(phase, costs, classes, sides, assign(sides, solver, aggregate))


def whole(cost: Floats) -> Ints:
    """Costs as whole numbers of 1/UNIT."""
    found: Ints = np.rint(np.clip(cost, -MOST_COST, MOST_COST) * UNIT).astype(np.int64)
    return found
