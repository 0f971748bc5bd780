"""What a fabric manager does for a scheduler: attach devices to nodes, detach them, say what is attached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from unrack.errors import RunError


class FabricError(RunError):
    """An operation did not succeed, or not wholly; it may be asked for again under the same id."""


Between = Callable[[str], None]
"""Told which step of an operation was just done; tests and drills raise a :class:`FabricError` there."""


def go_on(step: str) -> None:
    """Do nothing between steps."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Devices that one job has on one node.

    Attributes
    ----------
    operation
        The id of the operation that attaches it: letters, digits, ``-``, ``_`` and ``.``, at most 100, a letter or
        digit first. Asked for twice, it is done once.
    job
        The number of the job in Slurm, or what else names it, in the same characters.
    node
        The name of the node.
    devices
        The names of the devices, as the fabric knows them: letters, digits, ``-``, ``_``, ``.``, ``:``, ``+``, in
        parts split by ``/`` that each begin with a letter or digit; at most 80.
    amounts
        What the job has of them in all: quantity → amount, such as ``{"capacity_mb": 1000}``; others may then have
        the rest. Empty: the devices are the job's alone.
    """

    operation: str
    job: str
    node: str
    devices: tuple[str, ...]
    amounts: Mapping[str, int] = field(default_factory=dict)


class Fabric(Protocol):
    """A fabric manager. Its methods may be slow and may raise :class:`FabricError`; they are called from any thread."""

    def attach(self, wanted: Attachment) -> None:
        """Attach devices to a node. When it returns, they are there for jobs to use."""
        ...

    def detach(self, operation: str) -> None:
        """Undo what :meth:`attach` did under this id, wholly or in part done; nothing was: nothing happens."""
        ...

    def state(self) -> list[Attachment]:
        """What is attached, in order of operation; also what is half attached."""
        ...
