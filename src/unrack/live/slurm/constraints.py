"""What a Slurm allows beyond what is free: the limits of its partitions, and its reservations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from unrack.slurm_text.hostlists import compress

FORBID_STARTS = frozenset({"DOWN", "INACTIVE"})
"""States of partitions in which no job is started; in the state DRAIN those that wait already are."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition."""

    name: str  # its name
    state: str = "UP"  # ``UP``, ``DOWN``, ``DRAIN`` or ``INACTIVE``; ``""``: not said
    # limit_s, default_s: the longest time limit that it allows, and that of jobs that do not say one; ``None``: none
    limit_s: int | None = None
    default_s: int | None = None
    # nodes_min, nodes_max: how many nodes a job may have; ``nodes_max`` 0: any number
    nodes_min: int = 0
    nodes_max: int = 0
    node_cores_max: int = 0  # how many cores a job may have of a node; 0: any number
    said: str = ""  # all that Slurm said of it, to see whether something has changed
    fields: Mapping[str, str] = field(default_factory=dict)  # the same, by key

    @property
    def assumed_s(self) -> int | None:
        """The time limit of a job that does not say one."""
        return self.limit_s if self.default_s is None else self.default_s

    @property
    def forbids_starts(self) -> bool:
        """True if no job of it is started at present."""
        return self.state in FORBID_STARTS

    def refusals(self, limit_s: int | None, nodes: int, cores: int) -> Iterator[str]:
        """Slurm's reasons never to start a job with this time limit on so many nodes, with so many cores of each."""
        if self.limit_s is not None and limit_s is not None and limit_s > self.limit_s:
            yield "PartitionTimeLimit"
        if nodes < self.nodes_min or 0 < self.nodes_max < nodes:
            yield "PartitionNodeLimit"
        if 0 < self.node_cores_max < cores:
            yield "MaxCPUsPerNode"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation of nodes, or of some cores of them, and of licences."""

    name: str  # its name
    # start_s, end_s: when, s since 1970; of one that comes again, the next time
    start_s: int
    end_s: int
    nodes: tuple[str, ...] = ()  # by name; empty: it is of licences, or of something else
    fields: Mapping[str, str] = field(default_factory=dict)  # whatever else Slurm said of it, by key

    @property
    def opens_s(self) -> int:
        """From when on its own jobs may start, s since 1970; 0: at any time."""
        return 0 if "FLEX" in self.fields.get("Flags", "").upper().split(",") else self.start_s

    @property
    def record(self) -> dict[str, str]:
        """As ``scontrol`` shows it."""
        times = {"StartTime": str(self.start_s), "EndTime": str(self.end_s)}
        return {**self.fields, "ReservationName": self.name, **times, "Nodes": compress(self.nodes)}
