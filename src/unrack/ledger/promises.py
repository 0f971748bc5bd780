"""What waiting jobs were promised: kept by the ledger, so that a policy that begins anew goes on keeping it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Lease
from unrack.ledger.memory.use import from_rows

STIRRED = -1
"""What policies compare, where reservations may move forward whatever was given back."""


class Promise(NamedTuple):
    """When a waiting job is to start, and on what."""

    start_us: int  # when it is to start, µs; or earlier
    turn: int = -1  # which of those that start at one time goes first; -1: that follows from the order of the jobs
    grain: int = 0  # what the rows of the lease count: 0, nodes; 1, nodes of each group; 2, cores of each group
    lease: Lease | None = None  # on what; ``None``: only the time was promised


class PromisedRows(NamedTuple):
    """Promises in the columns of a plan, which are as they are here until the next round."""

    grain: int  # as of :class:`Promise`, of all of them
    start_us: Ints  # int64[jobs]: when each job is to start, µs; below 0: it was promised nothing
    where: Ints  # int64[4 or more, jobs]: of each the first row and end in ``rows``; first and end in ``claims``
    # rows, claims, places: as of :mod:`unrack.ledger.memory.use`
    rows: Ints
    claims: Ints
    places: int
    held: Mapping[int, Lease] = MappingProxyType({})  # leases that hold devices too, by job

    def one_by_one(self) -> dict[int, Promise]:
        """The promises by job."""
        found = {}
        for job in np.flatnonzero(self.start_us >= 0).tolist():
            row, end, claim, last = self.where[:4, job].tolist()
            lease = self.held.get(job) or from_rows(job, self.rows[row:end], self.claims[claim:last], self.places)
            found[job] = Promise(int(self.start_us[job]), -1, int(self.grain), lease)
        return found


class Promises(NamedTuple):
    """All that a policy has promised after a round."""

    made: Mapping[int, Promise] | PromisedRows  # by job, or in columns
    # what the policy compares to see whether anything was given back since; ``None``: nothing was; or STIRRED
    freed: int | None = None
    of: Ints | None = None  # int64[nodes]: the group of each node, where leases count more than nodes

    def by_job(self) -> dict[int, Promise]:
        """Job → what it was promised."""
        return self.made.one_by_one() if isinstance(self.made, PromisedRows) else dict(self.made)

    def start_us(self, job: int) -> int:
        """When a job was promised to start, µs; below 0: it was promised nothing."""
        made = self.made
        if isinstance(made, PromisedRows):
            return int(made.start_us[job]) if job < len(made.start_us) else -1
        return made[job].start_us if job in made else -1

    def and_one(self, job: int, promise: Promise) -> Promises:
        """These and one that was made before this ledger began."""
        return Promises({**self.by_job(), job: promise}, None, self.of)

    def stirred(self) -> Promises:
        """The same, for a policy that has to see that jobs were started, or were not, other than it planned."""
        return self._replace(freed=STIRRED)


NO_PROMISES = Promises({})
