"""What list, EASY, conservative and Slurm-like schedulers share: they place whatever jobs ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.candidate import Candidate, TaskAsk, candidates_on
from unrack.ledger.lease import Lease
from unrack.policy.contract import EVERYTHING, Ability, Estimates, Traits
from unrack.policy.discipline.walk import REFUSED
from unrack.policy.gpus.rule import GpuRule
from unrack.policy.orders import Order, learns_of, reads_of
from unrack.policy.own.answers import checked_lease
from unrack.policy.placement.claiming import Claiming, claiming, claims_asked, found_together, ways, why_not_together
from unrack.policy.placement.contract import MemoryRule, MixedNotes
from unrack.policy.placement.lent_memory import FITS, LentMemory, LocalMemory
from unrack.policy.placement.mixed import Mixed
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US
from unrack.view import View
from unrack.vocabulary import Need
from unrack.workload.job import MEMORY, TASKS, JobTable
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
class OnNodes(Mixed):
    """On the nodes that a function chooses, with all else that is asked for there.

    ``own(free, total, job)``: as of a list scheduler. Nodes that are closed to the job have no free cores; where
    the rule for memory lends, every other node has the memory that a task asks for.
    """

    own: Callable[..., Any] | None = None

    def find(self, view: View, notes: MixedNotes, job: int, now: int) -> Lease | None:
        """A lease on the nodes that the function chooses; ``None``: it finds none, or too little else is free there."""
        if job in view.components.of:
            return found_together(self, view, notes, job, now)
        chosen = self._chosen(view, notes, job, now)
        return None if chosen is None else self.on(view, notes, job, now, chosen)

    def kind(self, view: View, notes: MixedNotes, job: int) -> object:
        """Itself: what the function looks at is not known."""
        return job

    def due_us(self, view: View, notes: MixedNotes, job: int) -> tuple[int, int]:
        """No deadline counts."""
        return -1, NEVER_US

    def in_kernel(self, view: View, notes: MixedNotes, job: int) -> bool:
        """The function is not compiled."""
        return False

    def pass_over(self, view: View, notes: MixedNotes) -> None:
        """None."""

    def refusal(self, notes: MixedNotes, job: int) -> tuple[int, int]:
        """No more is known than that it has no place."""
        return REFUSED, 0

    def opens_us(self, view: View, notes: MixedNotes, jobs: list[int], now: int) -> int | None:
        """Only events matter."""
        return None

    def rule(self, notes: MixedNotes) -> str:
        """The name of the function."""
        return getattr(self.own, "__name__", "own")

    def why(self, view: View, notes: MixedNotes, job: int, now: int) -> Reason | None:
        """The function finds no nodes, or what the job asks for beside them is not free."""
        if job in view.components.of:
            return why_not_together(self, view, notes, job, now)
        chosen = self._chosen(view, notes, job, now)
        if chosen is None:
            claims = claiming(view, job)
            return (None if claims is None else claims.lacks()) or Reason(Code.NO_ROOM, "no nodes by its placement")
        return why_not_on(self, view, notes, job, now, chosen)

    def _chosen(self, view: View, notes: MixedNotes, job: int, now: int) -> Lease | None:
        found = (self._chosen_within(view, notes, job, now, claims) for claims in ways(view, job))
        return next((lease for lease in found if lease is not None), None)

    def _chosen_within(
        self, view: View, notes: MixedNotes, job: int, now: int, claims: Claiming | None
    ) -> Lease | None:
        free, memory = view.columns.free.copy(), self.memory
        if not isinstance(memory, LocalMemory):
            free[0, ~memory.open_nodes(view, notes.memory)] = 0
            free[1] = np.maximum(free[1], view.asks[MEMORY, job] * view.asks[TASKS, job])
        if claims is not None:
            free = np.maximum(claims.narrowed(free), 0)
        assert self.own is not None
        return checked_lease(self.own, self.own(free, view.total, view.job(job)), job, view, now)


def why_not_on(mixed: Mixed, view: View, notes: MixedNotes | None, job: int, now: int, chosen: Lease) -> Reason | None:
    """Why a job does not get all it asks for on nodes that were chosen for it; ``None``: it does."""
    if mixed.on(view, notes, job, now, chosen) is not None:
        return None
    claims = claiming(view, job)
    lacking = None if claims is None else claims.lacks()
    return lacking or Reason(Code.NO_ROOM, "what it asks for beside the nodes that its placement chose")


@dataclass(frozen=True)
class AnyResource:
    """A scheduler that counts nodes where that is exact, and else places jobs with all that they ask for.

    Parameters
    ----------
    order
        In which order jobs are considered: a name in ``ORDERS`` or a function ``order(view, queue, now) -> jobs``.
    place
        Which nodes are filled first: a name in :data:`unrack.policy.placement.lent_memory.PLACES`.
    nodes
        ``"shared"``: several jobs may hold cores of one node. ``"whole"``: a node serves one job at a time.
    estimates
        ``"requested"`` or ``"exact"`` run times.
    label
        What reports call it.
    memory
        Where the memory of tasks comes from; default: the node that they run on.
    gpus
        The rule for GPUs; ``None``: those that are nearest to each other, wherever the node is.
    """

    order: str | Order = "fcfs"
    place: Any = "first-fit"
    _: KW_ONLY
    nodes: str = "shared"
    estimates: Estimates = Estimates.REQUESTED
    label: str = ""
    memory: MemoryRule = field(default_factory=LocalMemory)
    gpus: GpuRule | None = None

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    does: ClassVar[frozenset[Ability]] = frozenset()

    @cached_property
    def traits(self) -> Traits:
        """It places all that jobs ask for: beside the nodes of a function of the user's own, by rules with a name."""
        orders = self.order, getattr(self, "backfill_order", None)
        reads = reads_of(*orders)
        return Traits(
            places=self.memory.places | EVERYTHING,
            reads=reads | ({Need.RACKS} if self.memory.near else frozenset()),
            estimates=self.estimates,
            whole_nodes=self.nodes == "whole",
            by_models=self.placement.pooled.by_models,
            learns=learns_of(*orders),
            does=self.does | self.memory.does | {Ability.HOLDS},
        )

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which jobs have nodes and memory on the empty cluster; asked where memory is not local."""
        return self.memory.possible(cluster, jobs)

    def holds(self, view: View, job: int) -> bool:
        """Whether all components of a heterogeneous job have a place on what is free."""
        return self.placement.find(view, self.placement.begin(view), job, view.now) is not None

    def terms(self, cluster: Cluster) -> Any:
        """The terms on which memory is lent; asked where it is."""
        assert isinstance(self.memory, LentMemory)
        return self.memory.terms(cluster)

    @cached_property
    def mixed(self) -> Mixed:
        """Where jobs go that ask for more than nodes."""
        place = self.place if isinstance(self.place, str) else "first-fit"
        memory = LocalMemory(place) if isinstance(self.memory, LocalMemory) else self.memory
        return Mixed(place, memory, self.nodes == "whole", self.gpus, getattr(self, "pools", None))

    @cached_property
    def placement(self) -> Any:
        """Where jobs go that ask for more than nodes, on nodes of the user's choice where a function says so."""
        own, mixed = self.place, self.mixed
        return mixed if isinstance(own, str) else OnNodes(memory=mixed.memory, whole=mixed.whole, own=own)

    def notes(self, view: View, memory: Any) -> Any:
        """What the placement remembers; ``None`` while nothing was ever chosen, and there are no pools."""
        if memory.notes is None and (memory.chosen or view.columns.devices is not None or self.beyond_nodes(view)):
            memory.notes = self.placement.begin(view)
        return memory.notes

    def beyond_nodes(self, view: View) -> bool:
        """Whether counting nodes does not do: a job in the system asks for devices, or a rule is for more."""
        if getattr(self, "pools", None) is not None or (self.gpus is not None and view.columns.claimed is not None):
            return True
        return more_asked(view) if self._counts_nodes else True

    @cached_property
    def lends(self) -> bool:
        """Whether memory may be that of other nodes."""
        return not isinstance(self.memory, LocalMemory)

    def borrows(self, view: View, since: int = 0) -> bool:
        """Whether memory is that of other nodes, or of a job from ``since`` on may have to be: else nodes are counted.

        So it is where jobs have nodes to themselves, and no rule lends where it need not; a suspended job
        has memory of nodes that are idle.
        """
        memory = self.memory
        if not isinstance(memory, LentMemory) or self.nodes != "whole" or self.place not in FITS:
            return self.lends
        return bool(view.columns.suspended) or memory.may_borrow(view, since)

    def how(self, view: View) -> tuple[bool, Any, bool, bool, Ints]:
        """How passes and plans go: as of :meth:`unrack.policy.discipline.skyline.reserved.Reserved.begin`."""
        lends = self.borrows(view)
        chooses = self.place not in FITS or (self.gpus is not None and view.columns.claimed is not None)
        limits: Ints = np.zeros(0, np.int64)
        if lends and isinstance(self.memory, LentMemory):
            limits = self.memory.may_lend(view.cluster)
        return self.nodes == "whole", self.place, lends or chooses, lends, limits

    @cached_property
    def _counts_nodes(self) -> bool:
        return (self.place in FITS or callable(self.place)) and isinstance(self.memory, LocalMemory)


def more_asked(view: View) -> bool:
    """Whether a job in the system asks for pooled devices or something of resources, or there are components."""
    devices = view.columns.devices
    asked = devices is not None and bool(devices.columns.asked.any())
    return asked or claims_asked(view) or bool(view.components.of)
