"""A rule for memory that lets tasks run on some nodes only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.spec import Cluster
from unrack.policy.contract import Ability
from unrack.policy.placement.contract import MemoryRule, Room, Spot
from unrack.reasons import Reason
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import JobTable

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(slots=True)
class Bounds:
    """The notes of the rule inside, and where tasks may run; ``None``: everywhere."""

    notes: Any
    nodes: Bools | None = None


@dataclass(frozen=True)
class Inside:
    """Another rule for memory, kept to some nodes; lenders may be anywhere."""

    rule: MemoryRule

    @property
    def places(self) -> frozenset[Need]:
        """As the rule."""
        return self.rule.places

    @property
    def near(self) -> bool:
        """As the rule."""
        return self.rule.near

    @property
    def does(self) -> frozenset[Ability]:
        """As the rule."""
        return self.rule.does

    def begin(self, view: View) -> Bounds:
        """No bounds."""
        return Bounds(self.rule.begin(view))

    def open_nodes(self, view: View, notes: Bounds, lent: Ints | None = None) -> Bools:
        """Those of the rule, within bounds."""
        found = self.rule.open_nodes(view, notes.notes, lent)
        return found if notes.nodes is None else found & notes.nodes

    def offers(self, view: View, notes: Bounds, job: int, room: Room) -> Iterator[Ints]:
        """As the rule."""
        return self.rule.offers(view, notes.notes, job, room)

    def take(self, view: View, notes: Bounds, job: int, node: int, room: Room, now: int) -> Spot:
        """As the rule."""
        return self.rule.take(view, notes.notes, job, node, room, now)

    def spread(self, view: View, notes: Bounds, job: int, room: Room, now: int) -> list[Spot] | None:
        """As the rule."""
        return self.rule.spread(view, notes.notes, job, room, now)

    def kind(self, view: View, job: int) -> object:
        """As the rule."""
        return self.rule.kind(view, job)

    def lacks(self, view: View, notes: Bounds, job: int, room: Room) -> Reason:
        """As the rule."""
        return self.rule.lacks(view, notes.notes, job, room)

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """As the rule."""
        return self.rule.possible(cluster, jobs)
