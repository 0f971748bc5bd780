"""What Slurm is told to do: orders that name jobs by number and nodes by name, and nothing that a user wrote."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobKey:
    """Which job: its number; or, of a member of an array, the number of the array and which member it is."""

    id: int
    member: int = -1

    def __str__(self) -> str:
        return str(self.id) if self.member < 0 else f"{self.id}_{self.member}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job that is held shall run when it is released; changes nothing else.

    Attributes
    ----------
    job
        Which.
    nodes
        On exactly these, by name.
    tasks
        How many tasks it has on them; 0: leave that alone.
    """

    job: JobKey
    nodes: tuple[str, ...]
    tasks: int = 0


@dataclass(frozen=True, slots=True)
class Release:
    """Let Slurm start a job that is held."""

    job: JobKey


@dataclass(frozen=True, slots=True)
class HoldBack:
    """Hold a job that waits, and forget where it was to run."""

    job: JobKey


@dataclass(frozen=True, slots=True)
class RequeueHeld:
    """Stop a running job and queue it again, held."""

    job: JobKey


Order = Place | Release | HoldBack | RequeueHeld


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an order: ``""``, or why it was refused, in Slurm's words."""

    order: Order
    problem: str = ""

    @property
    def done(self) -> bool:
        """True if Slurm took it."""
        return not self.problem
