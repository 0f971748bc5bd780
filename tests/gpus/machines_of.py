"""The recorded outputs, by name."""

from __future__ import annotations

from pathlib import Path

from unrack.resources.gpus.machines.machine import Machine
from unrack.resources.gpus.machines.reading.read import read_machine

RECORDED = Path(__file__).parent / "recorded"


def text(name: str) -> str:
    return (RECORDED / name).read_text()


def recorded(name: str, cpus: str | None = None) -> Machine:
    return read_machine(RECORDED / name, None if cpus is None else RECORDED / cpus)
