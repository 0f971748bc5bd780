"""What a job finds of the places of resources while its tasks are placed one after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.claims import ClaimReader
from unrack.ledger.lease import NODES, TASKS, Lease, nodes_of
from unrack.reasons import Reason
from unrack.sealed import sealed
from unrack.view import View
from unrack.workload.job import CORES
from unrack.workload.job import TASKS as ALL_TASKS

Ints = NDArray[np.int64]


class Claiming:
    """A job that asks for something of resources, and where its tasks are so far."""

    def __init__(self, seen: ClaimReader, asked: Ints, tasks: int, cores: int) -> None:
        self._seen, self._asked, self._tasks, self._cores = seen, asked, tasks, cores
        self._one_node = seen.places.one_node(asked)
        self._placed: dict[int, int] = {}

    def put(self, node: int, tasks: int = 1) -> None:
        """Tasks have a place."""
        self._placed[node] = self._placed.get(node, 0) + tasks

    def open_nodes(self, cores: Ints) -> NDArray[np.bool_]:
        """bool[nodes]: where the next task finds what the job then claims; ``cores``, int64[nodes], are free.

        Of a job whose tasks must all be on one node: where all that are left find that.
        """
        nodes = sorted(self._placed)
        tasks = np.array([self._placed[node] for node in nodes], np.int64)
        left = self._tasks - int(tasks.sum())
        found = self._seen.places.open_nodes(self._asked, self._seen.free, np.array(nodes, np.int64), tasks, left)
        return found & (cores >= left * self._cores) if self._one_node else found

    def narrowed(self, free: Ints) -> Ints:
        """int64[2, nodes]: free cores and MB, and cores below 0 where the next task finds too little else."""
        left = free.copy()
        left[0, ~self.open_nodes(free[0])] = -1
        return sealed(left)

    def claims(self, rows: Ints) -> Ints:
        """int64[claims, 2]: what the job claims on the nodes of a lease."""
        tasks = np.repeat(rows[:, TASKS], rows[:, NODES])
        return self._seen.places.claims(self._asked, nodes_of(rows), tasks, self._seen.free)

    def with_claims(self, lease: Lease) -> Lease:
        """The lease with what the job claims there."""
        return lease._replace(claims=self.claims(lease.rows))

    def fits(self, lease: Lease) -> bool:
        """Whether what a lease claims is free, and all that the job asks there; less means that there was no choice."""
        nodes, tasks = nodes_of(lease.rows), np.repeat(lease.rows[:, TASKS], lease.rows[:, NODES])
        if not self._seen.places.agree(self._asked, nodes, tasks, lease.claims):
            return False
        place, amount = lease.claims.T
        return bool((amount <= self._seen.free[place]).all())

    def lacks(self) -> Reason | None:
        """What there is too little of now for the job, wherever it runs."""
        return self._seen.places.lacks(self._asked, self._seen.free, self._tasks)


def claiming(view: View, job: int) -> Claiming | None:
    """A job as one that claims; ``None``: it asks for nothing of resources."""
    seen = view.columns.claimed
    if seen is None or not (asked := seen.asked(job)).any():
        return None
    return Claiming(seen, asked, int(view.asks[ALL_TASKS, job]), int(view.asks[CORES, job]))


def claims_asked(view: View) -> bool:
    """Whether a job in the system asks for anything of resources."""
    seen = view.columns.claimed
    return seen is not None and seen.asking
