"""Who claims how much of which place: the part of the ledger that knows no resource by name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.errors import RefusedError
from unrack.ledger.growing import grown, room_for
from unrack.ledger.lease import FIRST, NODES, TASKS, Lease, attached, nodes_of
from unrack.resources.places import AMOUNT, PLACE, Places
from unrack.sealed import sealed

Ints = NDArray[np.int64]


class Claimed:
    """What is free of every place, and what jobs ask.

    Attributes
    ----------
    places
        What there is.
    free : int64[places]
        What nobody holds.
    holders : int64[2, places]
        How many jobs hold something of each place, and the sum of their numbers: of one job alone, its number.
    asked : int64[quantities, room]
        What every job asks.
    home : int64[devices]
        The node that each pooled device sits in; -1: none.
    asking
        How many jobs in the system (waiting or running) ask for anything.
    """

    def __init__(self, places: Places, asked: Ints, home: Ints) -> None:
        self.places, self.home = places, home
        self.free = places.total.copy()
        self.holders = np.zeros((2, len(places)), np.int64)
        self.asked = asked
        self.asking = 0

    def add_job(self, job: int, asked: Ints) -> None:
        """Take in what one more job asks."""
        if job >= self.asked.shape[1]:
            self.asked = grown(self.asked, room_for(job + 1, job))
        self.asked[:, job] = asked

    def note(self, job: int, sign: int) -> None:
        """A job has come into the system, or left it."""
        if self.asked[:, job].any():
            self.asking += sign

    def check(self, lease: Lease, held: Ints, what: str) -> None:
        """Refuse a lease that does not claim what its tasks ask where they and their devices are, or what is not free.

        Its devices exist: that was checked before.

        Parameters
        ----------
        held
            What its job claims already, and gives back for it.

        Raises
        ------
        RefusedError
            As said.
        """
        claims = lease.claims
        if claims.dtype != np.int64 or claims.ndim != 2 or claims.shape[1] != 2:
            raise RefusedError(f"{what}: what its lease claims is no int64[claims, 2]")
        rows = lease.rows
        if len(rows) and (rows[:, (FIRST, NODES)].min() < 0 or nodes_of(rows).max(initial=0) >= self.places.nodes):
            raise RefusedError(f"{what}: a node of its lease does not exist")
        tasks = np.repeat(rows[:, TASKS], rows[:, NODES])
        asked = self.asked[:, lease.job]
        devices = attached(lease.shares, self.home)
        if not self.places.agree(asked, nodes_of(rows), tasks, claims, devices):
            wanted = self.places.claims(asked, nodes_of(rows), tasks, self.places.total, devices)
            raise RefusedError(f"{what}: its lease claims {said(self.places, claims)}, not {said(self.places, wanted)}")
        if len(claims):
            free = self.free[claims[:, PLACE]].copy()
            if len(held):
                mine = np.zeros_like(self.free)
                mine[held[:, PLACE]] = held[:, AMOUNT]
                free += mine[claims[:, PLACE]]
            short = np.flatnonzero(claims[:, AMOUNT] > free)
            if len(short):
                resource, place = self.places.at(int(claims[short[0], PLACE]))
                raise RefusedError(f"{what}: {resource} {place.name} has {free[short[0]]} free, and it claims more")

    def take(self, job: int, claims: Ints) -> None:
        """Claims of a job that were checked are held."""
        place = claims[:, PLACE]
        self.free[place] -= claims[:, AMOUNT]
        self.holders[:, place] += np.array([[1], [job]])

    def give(self, job: int, claims: Ints) -> None:
        """Claims that a job held are free again."""
        place = claims[:, PLACE]
        self.free[place] += claims[:, AMOUNT]
        self.holders[:, place] -= np.array([[1], [job]])

    def copy(self) -> Claimed:
        """The same for a draft; what jobs ask is shared."""
        twin = object.__new__(Claimed)
        twin.places, twin.free, twin.holders = self.places, self.free.copy(), self.holders.copy()
        twin.asked, twin.asking, twin.home = self.asked, self.asking, self.home
        return twin


class ClaimReader:
    """What is claimed, for policies: nothing can be changed through it."""

    __slots__ = ("_claimed", "free", "holders", "home", "places")

    def __init__(self, claimed: Claimed) -> None:
        self._claimed = claimed
        self.places, self.home = claimed.places, claimed.home
        self.free: Ints = sealed(claimed.free)
        self.holders: Ints = sealed(claimed.holders)

    @property
    def asking(self) -> bool:
        """Whether a job in the system asks for anything."""
        return self._claimed.asking > 0

    def asked(self, job: int) -> Ints:
        """int64[quantities]: what a job asks."""
        return self._claimed.asked[:, job].copy()

    def asked_by(self, jobs: Ints) -> Ints:
        """int64[quantities, k]: what some jobs (int64[k]) ask."""
        return self._claimed.asked[:, jobs]


def said(places: Places, claims: Ints) -> str:
    """Claims in words."""
    parts = []
    for place, amount in claims.tolist():
        resource, at = places.at(place) if 0 <= place < len(places) else ("place", None)
        parts.append(f"{amount} of {resource} {place if at is None else at.name}")
    return ", ".join(parts) or "nothing"
