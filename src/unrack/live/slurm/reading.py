"""What Slurm says at one moment: nodes, jobs and licences, checked and in one form whatever version said it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from unrack.cluster.formats.site import SaidSite
from unrack.live.driver.used import Used
from unrack.live.slurm.constraints import Partition, Reservation
from unrack.slurm_text.job_ids import HOLDING, UNUSABLE, WAITING

SHARD, MPS = "shard", "mps"
"""Slurm's names for parts of GPUs, of which each GPU has some; a job has those of one GPU of a node.

Shards may be of any GPU; of one GPU of a node alone jobs have MPS at a time.
"""
SHARES = SHARD, MPS
SILENT = frozenset({"NOT_RESPONDING", "NO_RESPOND", "UNKNOWN"})
"""Words in the state of a node that has not answered, or not yet."""
ASLEEP = frozenset({"POWERED_DOWN", "POWERING_UP"})
"""Words in the state of a node that saves power: it does not answer, Slurm starts jobs on it, and it wakes up."""
GOES_DOWN = "POWERING_DOWN"
"""In the state of a node that is being powered down, on which Slurm starts nothing until that is done."""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node."""

    name: str  # its name
    # cores, memory_mb: What jobs may have of it: without what is set aside for the system. Cores are what Slurm calls
    # CPUs.
    cores: int
    memory_mb: int
    gres: Mapping[str, int] = field(default_factory=dict)  # name of a generic resource → how many: ``{"gpu": 4}``
    words: frozenset[str] = frozenset()  # the words of its state: ``{"IDLE", "DRAIN"}``
    partitions: frozenset[str] = frozenset()  # which it is in
    reason: str = ""  # why it is down or draining; ``""``: not said
    features: tuple[str, ...] = ()  # that it has now
    types: tuple[str, ...] = ()  # of its generic resources, as ``gpu:a100``; ``shard``, ``mps``: its GPUs have such
    together: int = 1  # how many of its CPUs are given to jobs together: the threads of a core

    @property
    def usable(self) -> bool:
        """True if jobs may be started on it, or soon."""
        return not self.words & (UNUSABLE - SILENT if self.words & ASLEEP else UNUSABLE)

    @property
    def takes_jobs(self) -> bool:
        """True if jobs may be started on it now."""
        return self.usable and GOES_DOWN not in self.words

    @property
    def is_closed(self) -> bool:
        """True if no job will be started on it for a while: not if it is only silent."""
        return bool(self.words & (UNUSABLE - SILENT)) or GOES_DOWN in self.words


@dataclass(frozen=True, slots=True)
class NodeShare:
    """What a job has of one node: cores (Slurm's CPUs), and memory in MB."""

    cores: int
    memory_mb: int


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job, or a task of an array that Slurm keeps a record of its own for, or those of an array that still wait.

    Attributes
    ----------
    id
        Its number in Slurm. Of an array with one record for all that wait, the number of the array.
    array, tasks_waiting
        Of a member of an array: the array's number. Of a record for all that wait: which members it stands for.
    array_limit
        How many members of the array may run at once; 0: any number.
    member
        Which member of its array it is; -1: none, or a record of several.
    het, het_size, component
        Of a component of a heterogeneous job: the number of its first component, how many there are, and which it is,
        from 0. ``het`` 0: it is none.
    components
        Of a heterogeneous job as one: its components, each as Slurm tells of it.
    name, user, account, qos, comment, admin_comment, partition
        Words of the user, never to be trusted. ``partition`` may list several, split by commas.
    state, reason
        The base state, such as PENDING, and why it waits, such as JobHeldUser.
    completing
        True: it has ended, and what it held is being cleared up. Versions before 23.11 do not say then what became of
        it, and its state is COMPLETING.
    priority
        Slurm's; 0: held.
    submit_s, eligible_s, start_s, end_s
        When, s since 1970; 0: not known, or not yet. Of a waiting job ``start_s`` is what Slurm expects.
    limit_s
        Its time limit; ``None``: none.
    nodes_min, nodes_max
        How many nodes it asks; ``nodes_max`` 0: not said.
    tasks, cpus, cpus_per_task
        What it asks.
    node_memory_mb, cpu_memory_mb
        What it asks of each node, or of each CPU; both 0: not said.
    gres
        What it asks of generic resources on each node.
    gres_total
        What it asks of them in all, whatever the node (``--gpus``).
    gpu_cpus, gpu_memory_mb
        What it asks with each GPU; 0: not said.
    licences
        What it asks of licences.
    required_nodes, excluded_nodes
        By name.
    exclusive
        True: it wants its nodes for itself.
    set_aside
        How many cores of each of its nodes its tasks do not have (``--core-spec``).
    dependency
        What it waits for; ``""``: nothing.
    tasks_per_node
        How many tasks it wants on each node; 0: not said. A job that says so does not start on fewer nodes.
    tasks_per_core, threads_per_core
        How many tasks it wants on a core at most, and how many threads of it; 0: not said.
    contiguous
        True: it wants nodes side by side.
    crowded
        True: it waits, and asks for more tasks than cores.
    features, reservation
        As the job asks for them, ``""``: not said.
    reserved_in
        Of a job that asks for several reservations, that of them in which it is to be; ``""`` of others.
    types
        Of the generic resources that it asks for, as ``gpu:a100``; ``shard`` or ``mps``, if it asks for such.
    beyond
        What it asks that no field here tells of, by the words of Slurm: ``("network", "burst buffer")``.
    holds
        What it holds, by node; empty unless it runs.
    gpus
        Which GPUs of a node it holds, by their numbers there, and how many shares of each; 0: all. Empty: not said.
    restarts
        How often it was started again.
    nice
        What is taken off its priority, as its user wants.
    """

    id: int
    state: str
    reason: str = ""
    array: int = 0
    tasks_waiting: tuple[int, ...] = ()
    array_limit: int = 0
    member: int = -1
    het: int = 0
    het_size: int = 0
    component: int = 0
    components: tuple[SlurmJob, ...] = ()
    name: str = ""
    user: str = ""
    account: str = ""
    qos: str = ""
    partition: str = ""
    comment: str = ""
    admin_comment: str = ""
    completing: bool = False
    priority: int = 0
    submit_s: int = 0
    eligible_s: int = 0
    start_s: int = 0
    end_s: int = 0
    limit_s: int | None = None
    nodes_min: int = 1
    nodes_max: int = 0
    tasks: int = 1
    cpus: int = 1
    cpus_per_task: int = 1
    node_memory_mb: int = 0
    cpu_memory_mb: int = 0
    gres: Mapping[str, int] = field(default_factory=dict)
    gres_total: Mapping[str, int] = field(default_factory=dict)
    gpu_cpus: int = 0
    gpu_memory_mb: int = 0
    licences: Mapping[str, int] = field(default_factory=dict)
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    exclusive: bool = False
    set_aside: int = 0
    dependency: str = ""
    tasks_per_node: int = 0
    tasks_per_core: int = 0
    threads_per_core: int = 0
    contiguous: bool = False
    crowded: bool = False
    features: str = ""
    reservation: str = ""
    reserved_in: str = ""
    types: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    holds: Mapping[str, NodeShare] = field(default_factory=dict)
    gpus: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    restarts: int = 0
    nice: int = 0

    @property
    def counts_features(self) -> bool:
        """True if it asks for numbers of nodes with several features: Slurm starts it on no nodes that are named."""
        return {"*", "&"} <= set(self.features) and not self.het

    @property
    def every(self) -> tuple[SlurmJob, ...]:
        """Its components; of a job by itself: itself."""
        return self.components or (self,)

    @property
    def waits(self) -> bool:
        """True if it waits to be started."""
        return self.state in WAITING

    @property
    def runs(self) -> bool:
        """True if it holds nodes."""
        return self.state in HOLDING or self.completing

    @property
    def is_held(self) -> bool:
        """True if Slurm will not start it, whatever is free, until it is released."""
        return self.waits and self.priority == 0


@dataclass(frozen=True, slots=True)
class Licence:
    """Licences of one name: how many there are, and how many jobs hold."""

    total: int
    used: int


@dataclass(frozen=True, slots=True)
class Reading:
    """All that was read at one moment."""

    at_s: float  # when, by the clock of this machine, s since 1970
    # nodes, jobs: In order of name, and of id. Jobs that have ended are there as long as Slurm remembers them.
    nodes: tuple[SlurmNode, ...]
    jobs: tuple[SlurmJob, ...]
    licences: Mapping[str, Licence] = field(default_factory=dict)  # by name
    partitions: Mapping[str, Partition] = field(default_factory=dict)  # by name
    reservations: tuple[Reservation, ...] = ()  # those that there are, now or later
    # What could not be understood, a sentence for each. A job of which only that is known that it holds nodes is in
    # ``jobs`` nevertheless, without a partition and with ``beyond`` = ``("unreadable",)``.
    unreadable: tuple[str, ...] = ()
    # its accounts, qualities of service and limits; ``None``: not known, or Slurm does not enforce them
    accounting: SaidSite | None = None
    used: Used | None = None  # what accounts and users have used; ``None``: not known, or it is not used
