"""Nodes by a function of the user's own, and there all else that jobs ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.candidate import Candidate, TaskAsk, candidates_on
from unrack.ledger.lease import Lease
from unrack.policy.own.answers import checked_lease
from unrack.policy.placement.claiming import Claiming, claiming, ways
from unrack.policy.placement.local_memory import LocalMemory
from unrack.policy.placement.mixed import Mixed, Notes
from unrack.policy.placement.together import components_of, found_together, why_not_together
from unrack.reasons import Code, Reason
from unrack.view import View
from unrack.workload.job import MEMORY, TASKS
from unrack.workload.seen_job import SeenJob

NodePlacement = Callable[[Ints, Ints, SeenJob], Lease | Candidate | Iterable[Candidate] | None]
"""``place(free, total, job)``: a lease that fits in ``free`` (int64[2, nodes]: cores, MB), or ``None``: not now.

Candidates of :func:`candidates` make a lease too, in the order in which the tasks fill them.
"""


def candidates(free: Ints, total: Ints, job: SeenJob) -> Iterator[Candidate]:
    """The nodes with room for tasks of a job, in order of their number, for a placement under a list scheduler.

    Parameters
    ----------
    free, total : int64[2, nodes]
        What the placement is given: what is free now, or will be then.
    """
    return candidates_on(job.index, TaskAsk(job.tasks, job.cores, job.memory_mb), free, total)


@dataclass(frozen=True)
class OnNodes:
    """A placement on the nodes that a function chooses; see :class:`unrack.policy.placement.contract.Placement`."""

    # ``place(free, total, job)``, as of a list scheduler. Nodes that are closed to the job have no free cores; where
    # the rule for memory lends, every other node has the memory that a task asks for.
    place: Callable[..., Any]
    mixed: Mixed  # chooses the rest

    timeless: ClassVar[bool] = True

    def begin(self, view: View) -> Notes:
        """The notes of what chooses the rest."""
        return self.mixed.begin(view)

    def find(self, view: View, notes: Notes, job: int, now: int) -> Lease | None:
        """A lease on the nodes that the function chooses; ``None``: it finds none, or too little else is free there."""
        if components_of(view, job):
            return found_together(view, job, lambda left, one: self.find(left, notes, one, now))
        chosen = self._chosen(view, notes, job, now)
        return None if chosen is None else self.mixed.on(view, notes, job, now, chosen)

    def kind(self, view: View, notes: Notes, job: int) -> object:
        """Itself: what the function looks at is not known."""
        return job

    def opens_us(self, view: View, notes: Notes, jobs: list[int], now: int) -> int | None:
        """Only events matter."""
        return None

    def rule(self, notes: Notes) -> str:
        """The name of the function."""
        return getattr(self.place, "__name__", "own")

    def why(self, view: View, notes: Notes, job: int, now: int) -> Reason | None:
        """The function finds no nodes, or what the job asks for beside them is not free."""
        if components_of(view, job):
            return why_not_together(
                view, job, lambda left, one: self.find(left, notes, one, now),
                lambda left, one: self.why(left, notes, one, now),
            )  # fmt: skip
        chosen = self._chosen(view, notes, job, now)
        if chosen is None:
            claims = claiming(view, job)
            return (None if claims is None else claims.lacks()) or Reason(Code.NO_ROOM, "no nodes by its placement")
        return why_not_on(self.mixed, view, notes, job, now, chosen)

    def _chosen(self, view: View, notes: Notes, job: int, now: int) -> Lease | None:
        found = (self._chosen_within(view, notes, job, now, claims) for claims in ways(view, job))
        return next((lease for lease in found if lease is not None), None)

    def _chosen_within(self, view: View, notes: Notes, job: int, now: int, claims: Claiming | None) -> Lease | None:
        free, memory = view.columns.free.copy(), self.mixed.memory
        if not isinstance(memory, LocalMemory):
            free[0, ~memory.open_nodes(view, notes.memory)] = 0
            free[1] = np.maximum(free[1], view.asks[MEMORY, job] * view.asks[TASKS, job])
        if claims is not None:
            free = np.maximum(claims.narrowed(free), 0)
        return checked_lease(self.place, self.place(free, view.total, view.job(job)), job, view, now)


def why_not_on(mixed: Mixed, view: View, notes: Notes | None, job: int, now: int, chosen: Lease) -> Reason | None:
    """Why a job does not get all it asks for on nodes that were chosen for it; ``None``: it does."""
    if mixed.on(view, notes, job, now, chosen) is not None:
        return None
    claims = claiming(view, job)
    lacking = None if claims is None else claims.lacks()
    return lacking or Reason(Code.NO_ROOM, "what it asks for beside the nodes that its placement chose")
