"""The contracts of placement: of a job as a whole, and of the memory of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import Lease, Loan
from unrack.policy.contract import Ability
from unrack.policy.placement.alone import Alone
from unrack.policy.pools.pool_placement import PoolNotes
from unrack.reasons import Reason
from unrack.units import NEVER_US
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import JobTable


class Placement(Protocol):
    """Where a job goes.

    Attributes
    ----------
    timeless
        Whether a job without a place has none later either, unless something starts or ends.
    """

    @property
    def timeless(self) -> bool:
        """Whether time alone changes nothing."""

    def begin(self, view: View) -> Any:
        """What it needs to remember of a cluster."""

    def find(self, view: View, notes: Any, job: int, now: int) -> Lease | None:
        """A lease for a waiting job on what is free now; ``None``: it has no place."""

    def alone(self, view: View, notes: Any) -> Alone:
        """What chooses in kernels, for jobs that want LENT, DEVICES or LENT_DEVICES of plans and passes."""

    def kind(self, view: View, notes: Any, job: int) -> object:
        """Where a job has no place, another of the same kind has none either; the same as long as a job waits."""

    def due_us(self, view: View, notes: Any, job: int) -> tuple[int, int]:
        """The deadline of a job, µs (-1: none), and until when it counts."""

    def in_kernel(self, view: View, notes: Any, job: int) -> bool:
        """Whether :meth:`pass_over` places jobs of this kind."""

    def pass_over(self, view: View, notes: Any) -> Callable[..., int] | None:
        """As :func:`unrack.policy.discipline.queue_kernel.pass_over`; ``None``: it places none."""

    def found(self, view: View, notes: Any, job: int, node: int) -> Lease:
        """The lease of a job that has taken devices in that kernel."""

    def refusal(self, notes: Any, job: int) -> tuple[int, int]:
        """Why the job that was asked about last has no place, as of :mod:`unrack.policy.discipline.walk`.

        Second, if it would be late: when it would end at best, µs.
        """

    def opens_us(self, view: View, notes: Any, jobs: list[int], now: int) -> int | None:
        """When, if nothing happens, one of the jobs has a place that it has not now, µs; ``None``: never."""

    def rule(self, notes: Any) -> str:
        """By which rule the place found last was chosen, for reports."""

    def why(self, view: View, notes: Any, job: int, now: int) -> Reason | None:
        """Why a job has no place now; ``None``: it has one."""


@dataclass(slots=True)
class MixedNotes:
    """What a mixed placement remembers: of the rules for pools, for memory and for GPUs."""

    pools: PoolNotes
    memory: Any
    gpus: Any = None


class Room(NamedTuple):
    """What is left while the tasks of one job are placed one after the other."""

    cores: Ints  # int64[nodes]: cores that the next task may use; -1: the node takes none
    free: Ints  # int64[2, nodes]: free cores and MB
    lent: Ints  # int64[nodes]: MB of each node that tasks elsewhere use
    whole: bool = False  # whether a node serves one job at a time

    def seen(self, local: bool) -> Ints:
        """int64[2, nodes]: cores that the next task may use, and MB; not ``local``: more than any task asks."""
        return np.stack([self.cores, self.free[1] if local else np.full(len(self.cores), NEVER_US)])


class Spot(NamedTuple):
    """Some tasks on a node, and where their memory is."""

    node: int
    tasks: int
    mb: int
    loans: tuple[Loan, ...] = ()


class MemoryRule(Protocol):
    """Where the memory of a job's tasks comes from.

    Attributes
    ----------
    places
        ``Need.LOANS`` if it takes memory of other nodes, ``Need.TIERS`` if it is for clusters with tiers.
    near
        Whether it looks at how far lenders are.
    """

    @property
    def places(self) -> frozenset[Need]:
        """What it gives besides memory of the node where a task runs."""

    @property
    def near(self) -> bool:
        """Whether it looks at how far lenders are."""

    @property
    def does(self) -> frozenset[Ability]:
        """Which optional methods a policy has by it: of ``Ability.POSSIBLE`` and ``TERMS``."""

    def begin(self, view: View) -> Any:
        """What it needs to remember of a cluster."""

    def open_nodes(self, view: View, notes: Any, lent: Ints | None = None) -> Bools:
        """bool[nodes]: which may run tasks at all, if so many MB of each were lent; default: as many as are."""

    def offers(self, view: View, notes: Any, job: int, room: Room) -> Iterator[Ints]:
        """int64[nodes] each: MB that one task of the job could have at each node; a later one is the second choice."""

    def spread(self, view: View, notes: Any, job: int, room: Room, tasks: int, now: int) -> list[Spot] | None:
        """Nodes and memory for so many tasks of a job, whatever else it asks; ``None``: there are none now."""

    def kind(self, view: View, job: int) -> object:
        """What, beside cores and memory, decides whether a job has its memory somewhere."""

    def lacks(self, view: View, notes: Any, job: int, room: Room) -> Reason:
        """What memory there is too little of."""

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which jobs have cores and memory on the empty cluster."""
