"""What Slurm is told to do: orders that name jobs by number and nodes by name, and nothing that a user wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass

FEATURES = re.compile(r"[\w.+@:=&|*,()\[\]-]+")
"""What a job may say of features, where it is to be told to Slurm again."""


@dataclass(frozen=True, slots=True)
class JobKey:
    """Which job: its number; or, of a member of an array, the number of the array and which member it is."""

    id: int
    member: int = -1

    def __str__(self) -> str:
        return str(self.id) if self.member < 0 else f"{self.id}_{self.member}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job that is held shall run when it is released; changes nothing else."""

    job: JobKey  # which
    nodes: tuple[str, ...]  # on exactly these, by name
    # True: forget the time before which it was not to begin. Slurm sets one, two minutes ahead, when it requeues.
    at_once: bool = False
    partition: str = ""  # in which of those that it asks for; ``""``: it asks for one
    # of a heterogeneous job: the nodes of each component, which share none, and its partition
    parts: tuple[tuple[tuple[str, ...], str], ...] = ()
    # its time limit, s, where it was given more while it ran before, which Slurm keeps; ``None``: leave that as it is
    limit_s: int | None = None
    numbered: bool = True  # whether Slurm is told how many nodes that are
    anywhere: bool = False  # whether Slurm is told that it asks for no features, which it counts on no named nodes
    # in which of those that it asks for, as Slurm's main loop tries nodes that are named in the first alone, and holds
    # the job; it cannot be told of several again. ``""``: it asks for one or none
    reservation: str = ""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """What a job that is held asked for by name before it was placed; changes nothing else."""

    job: JobKey  # which
    nodes: tuple[str, ...] = ()  # by name; empty: leave that as it is
    partition: str = ""  # between commas; ``""``: leave that as it is
    features: str = ""  # ``""``: leave that as it is
    # of a heterogeneous job: the nodes that each component wants not to have, and its partitions
    parts: tuple[tuple[tuple[str, ...], str], ...] = ()


@dataclass(frozen=True, slots=True)
class Release:
    """Let Slurm start a job that is held."""

    job: JobKey


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Hold a job that waits, and forget where it was to run. Refused, and nothing is changed, if it runs already."""

    job: JobKey  # which
    # nodes_min, nodes_max: how many nodes it asked for before it was placed; 0: leave that as it is
    nodes_min: int = 0
    nodes_max: int = 0
    together: bool = False  # whether it is a heterogeneous job, which keeps its place


@dataclass(frozen=True, slots=True)
class RequeueHeld:
    """Stop a running job and queue it again, held. One that has ended, or waits, stays as it is."""

    job: JobKey


@dataclass(frozen=True, slots=True)
class Lengthen:
    """Let a job have another time limit; one that runs goes on. Of a heterogeneous job that of all components."""

    job: JobKey  # which
    limit_s: int  # whole minutes


Order = Place | AskAgain | Release | HoldBack | RequeueHeld | Lengthen


@dataclass(frozen=True, slots=True)
class OrderAnswer:
    """What became of an order: ``""``, or why it was refused, in Slurm's words."""

    order: Order
    problem: str = ""

    @property
    def done(self) -> bool:
        """True if Slurm took it."""
        return not self.problem
