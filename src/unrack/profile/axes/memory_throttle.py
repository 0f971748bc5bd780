"""The axis ``memory-throttle``: per cent of memory bandwidth that the processor lets an application's cores have."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat

from unrack.errors import RunError
from unrack.profile.axes.axis import UNKNOWN, AxisFile, AxisKind, Level, LevelNeeds, Reached, Rig, Stand, Usage, number
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine

ROOT = "/sys/fs/resctrl"
_NUMBERS = count()


class MemoryThrottleFile(AxisFile):
    """Per cent, above 0 and at most 100, which is the control."""

    kind: Literal["memory-throttle"]
    levels: tuple[Annotated[FiniteFloat, Field(gt=0, le=100)], ...] = Field(min_length=1, max_length=64)

    base: ClassVar[Level | None] = 100.0
    falls: ClassVar[bool] = False
    unit: ClassVar[str] = "% of memory bandwidth"


class Resctrl:
    """Memory bandwidth allocation (Intel RDT, AMD QoS) through resctrl; its counters tell what the group moved."""

    name = "resctrl"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Why there is none."""
        del journal
        if "resctrl" not in machine.text("/proc/filesystems"):
            return "no resctrl in the kernel or the processor"
        if not machine.at(f"{ROOT}/schemata").is_file():
            return f"resctrl is not mounted; wanted: mount -t resctrl resctrl {ROOT}"
        if not domains(machine.text(f"{ROOT}/schemata")):
            return "no memory bandwidth allocation in the processor: schemata has no line MB"
        if re.search(r"MB:.*=\d{4,}", machine.text(f"{ROOT}/schemata")):
            return "resctrl is mounted with mba_MBps; wanted per cent"
        return "" if machine.is_root else "not root, and resctrl is root's"

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """Refuse levels that the processor cannot hold."""
        step = int(rig.machine.text(f"{ROOT}/info/MB/bandwidth_gran").strip() or 1)
        least = int(rig.machine.text(f"{ROOT}/info/MB/min_bandwidth").strip() or 1)
        for level in axis.levels:
            if number(level) % step or number(level) < least:
                want = f"multiples of {step} from {least} on"
                raise RunError(f"axis {axis.label}: the processor does not hold {number(level):g} %; wanted {want}")

        @contextmanager
        def at(level: Level, _: LevelNeeds) -> Iterator[LevelNeeds]:
            folder = rig.machine.at(ROOT) / f"{rig.token}-{next(_NUMBERS)}"
            with rig.journal.made("resctrl", str(folder)):
                folder.mkdir()
                found = domains(rig.machine.text(f"{ROOT}/schemata"))
                line = ";".join(f"{domain}={number(level):g}" for domain in found)
                (folder / "schemata").write_text(f"MB:{line}\n")
                before, begun = moved(folder), time.monotonic()

                def reached(usage: Usage) -> Reached:
                    """What the group moved; the level itself is the hardware's to hold."""
                    del usage
                    if before is None or (after := moved(folder)) is None:
                        return UNKNOWN
                    rate = (after - before) / 1e6 / (time.monotonic() - begun)
                    return Reached(rate, number(level), True, "counter, MB/s")

                yield LevelNeeds((str(folder / "tasks"),), reached=reached)

        yield at


def domains(schemata: str) -> list[str]:
    r"""Domains of the line MB, which are caches or sockets, as they are written.

    Examples
    --------
    >>> domains("    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n")
    ['0', '1']
    """
    line = next((line.strip() for line in schemata.splitlines() if line.strip().startswith("MB:")), "MB:")
    names = [pair.partition("=")[0].strip() for pair in line.removeprefix("MB:").split(";") if "=" in pair]
    return [name for name in names if name.isdigit()]


def moved(folder: Path) -> int | None:
    """Bytes that a group moved so far, over all domains; ``None``: no counters, or none that count now."""
    texts = []
    for path in sorted((folder / "mon_data").glob("mon_L3_*/mbm_total_bytes")):
        try:
            texts.append(path.read_text().strip())
        except OSError:
            return None
    return sum(map(int, texts)) if texts and all(text.isdigit() for text in texts) else None


MEMORY_THROTTLE = AxisKind(
    "memory-throttle", "per cent of memory bandwidth that the processor lets it have", MemoryThrottleFile, (Resctrl(),)
)
