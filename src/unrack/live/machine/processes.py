"""Processes of this machine: whether one is still the one that it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """A process: its id, and when it started, in ticks since the machine did, so that a reused id is told apart."""

    pid: int
    started: int


def process(pid: int) -> Process | None:
    """The process with that id; ``None``: there is none, or it has ended and only its parent has yet to hear of it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    return None if fields[0] in ("Z", "X", "x") else Process(pid, int(fields[19]))


def is_alive(known: Process) -> bool:
    """True if this very process still runs."""
    return process(known.pid) == known


def machine_run() -> str:
    """An id of this run of the machine, from one boot to the next; ``""``: not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def process_space() -> str:
    """The space in which process ids are counted: containers have their own; ``""``: not known."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
