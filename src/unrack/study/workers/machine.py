"""How much memory this machine has for us."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container's or a batch job's limit stands, bytes."""


def memory_mb() -> int:
    """The memory of this machine, or the part of it that this program is held to, MB (of 2²⁰ bytes)."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in LIMITS:
        with suppress(OSError, ValueError):  # not there, or "max"
            found = min(found, int(Path(limit).read_text()))
    return found // 2**20
