"""What a resource is: the keys of a cluster file, what jobs claim of it where, and what is told of it.

A resource says what there is as *places*, each with a whole amount of one quantity, and what a job claims of them as
rows of (place, amount). What each job holds, what is free, drafts, plans, tables and the audit are the house's: see
``docs/adding-a-resource.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.reasons import Reason
from unrack.resources.checked import NodeSets as NodeSets
from unrack.resources.checked import Window as Window
from unrack.resources.checked import node_ids
from unrack.resources.use import Kept, Measured, Metric, Table, usual_tables

TASK_NODE, HOME, DEVICES = range(3)
"""Columns of pooled devices as resources see them: the node of the task, the node where they sit, and how many."""
NO_HOME = -1
"""The home of devices that sit in no node."""
ANY_NUMBER = 2**31
"""On so many nodes a job may be where nothing says on how few."""
NONE_ATTACHED: Ints = np.empty((0, 3), np.int64)
"""No pooled devices."""


class Nodes(NamedTuple):
    """The nodes of a cluster, int64[nodes] each; a node without cores is a memory pool's: nothing runs on it.

    Attributes
    ----------
    cores, memory_mb
        Installed.
    rack
        Indices into ``rack_names``.
    rack_names
        The racks.
    find
        The numbers of nodes that are named, as in ``["0-15", "rack3", "n[1-4]"]``; ``None``: by number alone. Its
        second argument says where they are named, for errors.
    counters
        What reservations may keep in number, as jobs ask for it, and how much there is: ``counted.NAME`` of the whole
        cluster, ``KIND.devices``; for a site alone.
    """

    cores: Ints
    memory_mb: Ints
    rack: Ints
    rack_names: tuple[str, ...]
    find: Callable[[Sequence[str], str], Sequence[int]] | None = None
    counters: tuple[tuple[str, int], ...] = ()

    def named(self, members: Sequence[str], where: str) -> Sequence[int]:
        """The numbers of nodes that are named; repetitions stay.

        Raises
        ------
        ClusterError
            There is no such node.
        """
        if self.find is not None:
            return self.find(members, where)
        return [node for member in members for node in node_ids(member, len(self.cores), where)]

    def room_for(self, cores: int, mb: int) -> Ints:
        """int64[nodes]: how many tasks of so many cores and MB each holds when it is empty; very many of none."""
        return tasks_on(self.cores, self.memory_mb, cores, mb)


def tasks_on(node_cores: Ints | int, node_mb: Ints | int, cores: Ints | int, mb: Ints | int) -> Ints:
    """How many tasks of so many cores and MB nodes hold when they are empty, entry by entry; very many of none."""
    fit = np.where(
        np.greater(cores, 0), node_cores // np.maximum(cores, 1), np.where(np.greater(node_cores, 0), 2**31, 0)
    )
    return np.where(np.greater(mb, 0), np.minimum(fit, node_mb // np.maximum(mb, 1)), fit)


class Place(NamedTuple):
    """Where an amount can be held.

    Attributes
    ----------
    name
        What tables call it; its own within the resource.
    quantity
        What it has: what jobs ask for as ``RESOURCE.QUANTITY``.
    amount
        How much is installed, in whole units.
    """

    name: str
    quantity: str
    amount: int


class Gangs(NamedTuple):
    """Jobs as gangs of equal tasks, int64[jobs] each: how many tasks, and cores and MB of each.

    ``elsewhere``: memory may be that of other nodes, so that it says nothing of where a task goes. ``asked``: all that
    they ask of the resource, by quantity; one that is not there is not asked for. ``remote``: how many pooled devices a
    task has on other nodes at least, whichever its own is; ``None``: no job asks for whole devices.
    """

    tasks: Ints
    cores: Ints
    memory_mb: Ints
    elsewhere: bool = False
    asked: Mapping[str, Ints] = MappingProxyType({})
    remote: Ints | None = None

    @property
    def mb_on_nodes(self) -> Ints:
        """int64[jobs]: MB of a task that have to be on its node."""
        return self.memory_mb * (not self.elsewhere)

    def some(self, which: Bools) -> Gangs:
        """Some of the jobs."""
        asked = {quantity: amounts[which] for quantity, amounts in self.asked.items()}
        columns = self.tasks[which], self.cores[which], self.memory_mb[which]
        return Gangs(*columns, self.elsewhere, asked, None if self.remote is None else self.remote[which])


class Installed(Protocol):
    """A resource as one cluster has it. It does not change, and knows nothing of what jobs hold."""

    @property
    def quantities(self) -> tuple[str, ...]:
        """What jobs may ask for."""

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """Those of them that say of a job what its claims do not hang on, such as whose it is."""

    @property
    def limits(self) -> int:
        """How many of its places, the last, are limits: a job that only waits for room in one holds up no other."""

    @property
    def windows(self) -> Sequence[Window]:
        """When nodes, or some of its places, are kept for some jobs; jobs run in one only if they end in it."""

    @property
    def delay_us(self) -> int:
        """How much longer than it runs a job may hold what it holds, because that has to be made ready for it, µs."""

    @property
    def places(self) -> Sequence[Place]:
        """Where there is how much: a tuple, or a :class:`unrack.resources.grid.Grid` of very many that are alike."""

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: place and amount that a job claims, each place once, in order.

        Where there is a choice among places, this is the one that is made if no policy makes another.

        Parameters
        ----------
        asked : int64[quantities]
            What it asks for.
        nodes, tasks : int64[k]
            The nodes on which it runs, ascending, and how many tasks on each; none: it has no place yet.
        free : int64[places]
            What no job holds.
        devices : int64[k, 3]
            Its pooled devices: TASK_NODE, HOME (NO_HOME: in no node) and how many DEVICES, each pair of nodes once.
        """

    def anywhere(self, asked: Ints, tasks: int) -> Ints | None:
        """int64[claims, 2]: what :meth:`claims` says wherever a job of so many tasks runs; ``None``: that matters."""

    def ample(self, asked: Ints, full: Ints, total: Ints) -> bool:
        """Whether on every node as many tasks as ``full`` (int64[nodes]) find what they ask, of ``total`` per place."""

    def certain(self, asked: Ints, tasks: int) -> Ints:
        """int64[claims, 2]: what so many tasks claim wherever they run, of which :meth:`ample` says nothing."""

    def device_costs(self, asked: Ints, free: Ints, nodes: Ints, homes: Ints) -> Ints:
        """int64[nodes, homes]: how much one more device that sits there adds to what a task claims here; -1: too much.

        ``free`` is what the job leaves with all that it has so far. 0: devices claim nothing, wherever they are.
        """

    def agrees(self, asked: Ints, nodes: Ints, tasks: Ints, claims: Ints, devices: Ints = NONE_ATTACHED) -> bool:
        """Whether a job that asks so much and runs there may claim this, if it is free."""

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes of the cluster]: where one more task would find all that the job then claims, its devices apart.

        Parameters
        ----------
        asked, nodes, tasks, devices
            As in :meth:`claims`: the tasks that have a place already, which hold nothing yet, and their devices.
        free : int64[places]
            What no job holds.
        left
            How many tasks have no place yet: where all of them must be on one node, it is to hold so many.
        """

    def most_nodes(self, asked: Ints, free: Ints, among: Bools) -> int:
        """On how many nodes a job that asks so much may be now at most, if all are ``among`` some (bool[nodes])."""

    def sets(self, asked: Ints) -> NodeSets | None:
        """Outside of which nodes no task goes, whatever is free; ``asked``: int64[quantities, jobs]; ``None``: of none.

        Of a job of which :meth:`anywhere` says what it claims any of these nodes will do.
        """

    def choices(self, asked: Ints) -> tuple[Bools, ...]:
        """Sets of nodes, bool[nodes] each, of which all tasks of a job must be in one; the first is tried first.

        None: there is no such choice.
        """

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: which jobs the empty cluster could not give what they ask of one quantity (int64[jobs])."""

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """What there is too little of for a job (the only one of ``gangs``) of which :meth:`never` says so."""

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """What there is too little of now; ``None``: there is enough for a job of so many tasks somewhere."""

    def written(self) -> Any:
        """The keys of the cluster file again, as plain JSON, from which the resource can be read once more."""


class Usual(ABC):
    """What most resources say alike: where a job runs says what it claims, and pooled devices claim nothing."""

    unclaimed: tuple[str, ...] = ()
    limits = 0
    delay_us = 0
    windows: Sequence[Window] = ()

    @abstractmethod
    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """See :meth:`Installed.claims`."""

    def anywhere(self, asked: Ints, tasks: int) -> Ints | None:
        """Where it runs matters."""
        return None

    def ample(self, asked: Ints, full: Ints, total: Ints) -> bool:
        """Whether as many tasks fit; where what they claim does not add up it is not known."""
        own: Any = self
        nodes, none = np.flatnonzero(full), np.zeros(0, np.int64)
        if not self.adds_up(asked) or not own.open_nodes(asked, total, none, none)[nodes].all():
            return False
        place, amount = self.claims(asked, nodes, full[nodes], total).T
        return bool((amount <= total[place]).all())

    def adds_up(self, asked: Ints) -> bool:
        """Whether every task claims as much, of places that its node decides alone."""
        return False

    def certain(self, asked: Ints, tasks: int) -> Ints:
        """Nothing: it speaks of all claims."""
        return np.empty((0, 2), np.int64)

    def device_costs(self, asked: Ints, free: Ints, nodes: Ints, homes: Ints) -> Ints:
        """Pooled devices claim nothing."""
        return np.zeros((len(nodes), len(homes)), np.int64)

    def agrees(self, asked: Ints, nodes: Ints, tasks: Ints, claims: Ints, devices: Ints = NONE_ATTACHED) -> bool:
        """Only what :meth:`claims` says: it does not look at what is free."""
        return np.array_equal(self.claims(asked, nodes, tasks, claims, devices), claims)

    def most_nodes(self, asked: Ints, free: Ints, among: Bools) -> int:
        """On any number."""
        return ANY_NUMBER

    def sets(self, asked: Ints) -> NodeSets | None:
        """No job is kept from any node."""
        return None

    def choices(self, asked: Ints) -> tuple[Bools, ...]:
        """There are none."""
        return ()


def no_room(asked: Ints, gangs: Gangs, room: Callable[[int, int, int], int]) -> Bools:
    """bool[jobs]: which jobs ask for some and have more tasks than there is room for on the empty cluster.

    Parameters
    ----------
    asked : int64[jobs]
        How much each task asks for.
    gangs
        The jobs.
    room
        How many tasks that ask so much, with so many cores and MB, the empty cluster holds; called once for each kind.
    """
    some, found = asked > 0, np.zeros(len(asked), np.bool_)
    if some.any():
        shapes = np.stack([asked, gangs.cores, gangs.mb_on_nodes])[:, some]
        kinds, of = np.unique(shapes, axis=1, return_inverse=True)
        most = np.array([room(*kind) for kind in kinds.T.tolist()], np.int64)
        found[some] = gangs.tasks[some] > most[of.ravel()]
    return found


class Slowdown(Protocol):
    """Speeds of running jobs: 1 = as fast as alone on what they asked for.

    ``view`` is a :class:`unrack.view.View` and ``lease`` a :class:`unrack.ledger.lease.Lease`, which stand below.
    """

    def touched(self, view: Any, lease: Any) -> Ints:
        """int64[k]: the running jobs that may change speed because this lease came, went or changed.

        Called after the change. The job of the lease is asked about too if it still runs.
        """

    def speeds(self, view: Any, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now; above 0."""

    def feels(self, before: Any, after: Any) -> bool:
        """False: no speed changes if a running job gets another lease on the same nodes, with the same devices."""


class Resource(Protocol):
    """One kind of thing that jobs may hold."""

    @property
    def name(self) -> str:
        """Its key in a cluster file, and the first part of its columns of jobs: ``NAME.QUANTITY``."""

    @property
    def title(self) -> str:
        """The heading of its section of the report."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What :meth:`measure` gives; a name may have QUANTITY in it."""

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """What a cluster file says under its key; ``where`` is named in errors.

        Raises
        ------
        ClusterError
            It says something impossible.
        """

    def measure(self, run: Measured) -> dict[str, float | None]:
        """The metrics of a run over a window of time."""

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """What the report shows of the runs of one setting; none: nothing."""

    def slowdown(self, cluster: Any, jobs: Any) -> Slowdown | None:
        """How jobs that hold it slow each other down on a cluster that has it; ``None``: they do not.

        Parameters
        ----------
        cluster
            A :class:`unrack.cluster.spec.Cluster`.
        jobs
            Its jobs, a :class:`unrack.workload.job.JobTable`.
        """


class UsualResource(ABC):
    """A resource of which the report shows what is held, and on which jobs do not slow each other down.

    A subclass has ``name``, ``title`` and ``installed``, and whatever of the rest it says otherwise.
    """

    name: str
    title: str
    metrics: tuple[Metric, ...] = ()

    @abstractmethod
    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """See :meth:`Resource.installed`."""

    def measure(self, run: Measured) -> dict[str, float | None]:
        """No metrics."""
        return {}

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Of every quantity that jobs held: how much, by policy and over time, and which jobs waited for it."""
        return usual_tables(runs, self.name, self.metrics)

    def slowdown(self, cluster: Any, jobs: Any) -> Slowdown | None:
        """Jobs do not slow each other down."""
        return None
