"""What is called between the steps of an operation: tests and drills stop there, everything else goes on."""

from __future__ import annotations

from collections.abc import Callable

Between = Callable[[str], None]
"""Told which step was just done; it may raise :class:`~unrack.live.fabric.contract.FabricError`."""


def go_on(step: str) -> None:
    """Do nothing."""
