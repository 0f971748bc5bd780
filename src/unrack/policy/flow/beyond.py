"""Jobs that ask for more than nodes and whole devices: lent memory, shares and parts of devices, GPUs by a rule.

The network says on which nodes their tasks go; the rest is placed there as other disciplines place it. A rule for GPUs,
where one is given, chooses among all machines for the jobs that it is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import Lease
from unrack.policy.flow.left import Left
from unrack.policy.flow.sorts import Sort
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.placement.contract import MemoryRule
from unrack.policy.placement.local_memory import LocalMemory
from unrack.policy.placement.mixed import Mixed, Notes
from unrack.view import Draft, View

Way = tuple[Mixed, Notes]
"""A placement, and its notes."""


@dataclass(eq=False)
class Inside:
    """Another rule for memory, kept to some nodes; lenders may be anywhere. All else is as the rule says."""

    rule: MemoryRule
    nodes: Bools | None = None  # where tasks may run; ``None``: everywhere

    def open_nodes(self, view: View, notes: Any, lent: Ints | None = None) -> Bools:
        """Those of the rule, within bounds."""
        found = self.rule.open_nodes(view, notes, lent)
        return found if self.nodes is None else found & self.nodes

    def __getattr__(self, name: str) -> Any:
        if name == "rule":  # of a copy in the making
            raise AttributeError(name)
        return getattr(self.rule, name)


@dataclass
class Beyond:
    """The placement of such jobs, and the ledger as it is after the first ``done`` leases of the round."""

    general: Way
    inside: Inside
    by_gpus: Way | None = None
    draft: Draft | None = None
    done: int = 0

    @staticmethod
    def of(view: View, place: str, memory: MemoryRule, whole: bool, gpus: GpuRule | None) -> Beyond:
        """For a cluster as it is now."""
        inside = Inside(memory)
        ways = [Mixed(place, cast(MemoryRule, inside), whole)]
        if gpus is not None and isinstance(memory, LocalMemory):
            ways.append(Mixed(place, memory, whole, gpus))
        general, *by_gpus = [(mixed, mixed.begin(view)) for mixed in ways]
        return Beyond(general, inside, by_gpus[0] if by_gpus else None)

    def forget(self) -> None:
        """A new round begins."""
        self.draft, self.done = None, 0

    def open_nodes(self, view: View) -> Bools:
        """bool[nodes]: which may run tasks at all."""
        return self.inside.open_nodes(view, self.general[1].memory)

    def needed(self, view: View, job: int, sort: Sort) -> bool:
        """Whether a job asks for more than nodes and whole devices; the same for all of a sort."""
        if sort.devices is None or not isinstance(self.inside.rule, LocalMemory):
            return True
        return self._by_rule(view, job, sort) is not None

    def _by_rule(self, view: View, job: int, sort: Sort) -> Way | None:
        """The placement by the rule for GPUs, if it is for the job."""
        if self.by_gpus is None or sort.devices != {}:
            return None
        mixed, notes = self.by_gpus
        return self.by_gpus if mixed.gpus is not None and mixed.gpus.serves(view, notes.gpus, job) else None

    def placing(self, view: View, job: int, sort: Sort) -> Way:
        """The placement of a job on any nodes, as other disciplines place it, and its notes."""
        return self._by_rule(view, job, sort) or self.general

    def opens_us(self, view: View, jobs: list[int], now: int) -> int | None:
        """When, if nothing happens, one of these jobs has a place that it has not now, µs; ``None``: never."""
        ways = [way for way in (self.general, self.by_gpus) if way is not None]
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
        if nodes is not None and notes is self.general[1]:
            self.inside.nodes = np.zeros(len(left.cores), np.bool_)
            self.inside.nodes[nodes] = True
        found = mixed.find(self.draft.view, notes, job, now)
        self.inside.nodes = None
        if found is None or not left.holds(found):
            return None
        left.take(found)
        return found
