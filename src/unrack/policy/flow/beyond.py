"""Jobs that ask for more than nodes and whole devices: lent memory, shares and parts of devices, GPUs by a rule.

The network says on which nodes their tasks go; the rest is placed there as other disciplines place it. A rule for GPUs,
where one is given, chooses among all machines for the jobs that it is for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.lease import Lease
from unrack.policy.flow.inside import Bounds, Inside
from unrack.policy.flow.left import Left
from unrack.policy.flow.sorts import Sort
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.placement.contract import MemoryRule
from unrack.policy.placement.local_memory import LocalMemory
from unrack.policy.placement.mixed import Mixed, Notes
from unrack.view import Draft, View

Bools = NDArray[np.bool_]


@dataclass
class Beyond:
    """The placement of such jobs, and the ledger as it is after the first ``done`` leases of the round."""

    mixed: Mixed
    notes: Notes
    inside: Inside
    by_gpus: Mixed | None = None
    gpu_notes: Notes | None = None
    draft: Draft | None = None
    done: int = 0

    @staticmethod
    def of(view: View, place: str, memory: MemoryRule, whole: bool, gpus: GpuRule | None) -> Beyond:
        """For a cluster as it is now."""
        inside = Inside(memory)
        mixed = Mixed(place, inside, whole)
        found = Beyond(mixed, mixed.begin(view), inside)
        if gpus is not None and isinstance(memory, LocalMemory):
            found.by_gpus = Mixed(place, memory, whole, gpus)
            found.gpu_notes = found.by_gpus.begin(view)
        return found

    def forget(self) -> None:
        """A new round begins."""
        self.draft, self.done = None, 0

    def open_nodes(self, view: View) -> Bools:
        """bool[nodes]: which may run tasks at all."""
        return self.inside.open_nodes(view, self.notes.memory)

    def needed(self, view: View, job: int, sort: Sort) -> bool:
        """Whether a job asks for more than nodes and whole devices; the same for all of a sort."""
        if sort.devices is None or not isinstance(self.inside.rule, LocalMemory):
            return True
        return self._by_rule(view, job, sort) is not None

    def _by_rule(self, view: View, job: int, sort: Sort) -> GpuRule | None:
        """The rule for GPUs, if it is for the job."""
        if self.by_gpus is None or self.gpu_notes is None or sort.devices != {}:
            return None
        rule = self.by_gpus.gpus
        return rule if rule is not None and rule.serves(view, self.gpu_notes.gpus, job) else None

    def placing(self, view: View, job: int, sort: Sort) -> tuple[Mixed, Notes]:
        """The placement of a job on any nodes, as other disciplines place it, and its notes."""
        if self._by_rule(view, job, sort) is not None:
            assert self.by_gpus is not None
            assert self.gpu_notes is not None
            return self.by_gpus, self.gpu_notes
        return self.mixed, self.notes

    def opens_us(self, view: View, jobs: list[int], now: int) -> int | None:
        """When, if nothing happens, one of these jobs has a place that it has not now, µs; ``None``: never."""
        ways = [(self.mixed, self.notes)]
        if self.by_gpus is not None and self.gpu_notes is not None:
            ways.append((self.by_gpus, self.gpu_notes))
        found = [mixed.opens_us(view, notes, jobs, now) for mixed, notes in ways if jobs]
        return min((time for time in found if time is not None), default=None)

    def lease(
        self, view: View, left: Left, job: int, sort: Sort, nodes: list[int] | None, now: int, decided: list[Lease]
    ) -> Lease | None:
        """A lease, taken out of what is left; ``None``: there is none.

        Parameters
        ----------
        nodes
            Where its tasks are to be; ``None``: anywhere. A rule for GPUs chooses among all nodes.
        decided
            The leases of this round so far.
        """
        if self.draft is None:
            self.draft, self.done = Draft(view, now), 0
        for lease in decided[self.done :]:
            self.draft.start(lease)
        self.done = len(decided)
        mixed, notes = self.placing(view, job, sort)
        bounds: Bounds = self.notes.memory
        if nodes is not None and notes is self.notes:
            bounds.nodes = np.zeros(len(left.cores), np.bool_)
            bounds.nodes[nodes] = True
        found = mixed.find(self.draft.view, notes, job, now)
        bounds.nodes = None
        if found is None or not left.holds(found):
            return None
        left.take(found)
        return found
