"""The axis ``far-memory``: the share of an application's memory that is far away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat

from unrack.errors import RunError
from unrack.profile.axes.axis import AxisFile, AxisKind, Level, LevelNeeds, Reached, Rig, Stand, Usage, number
from unrack.profile.machine.cgroups import group, lacks_group
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine

MB = 2**20
_CONTROL = "/sys/class/zram-control"


class FarMemoryFile(AxisFile):
    """Shares from 0 (all of it near, as in controls) to 1."""

    kind: Literal["far-memory"]
    levels: tuple[Annotated[FiniteFloat, Field(gt=0, le=1)], ...] = Field(min_length=1, max_length=64)

    unit: ClassVar[str] = "share of its memory that is far"


class NumaBind:
    """A second NUMA node, or the memory of a CXL device, which is one: all of the memory there, or every other page."""

    name = "numa-bind"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Why there is none."""
        del journal
        nodes = len(machine.nodes())
        return f"{nodes or 'no'} NUMA node with memory, and it takes two" if nodes < 2 else machine.lacks("numactl")

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """Nothing that levels share."""
        near, *_, far = rig.machine.nodes()
        if bad := [level for level in axis.levels if level not in (0.5, 1.0)]:
            raise RunError(f"axis {axis.label}: a share of {bad[0]:g} by {self.name}, which can hold 0.5 and 1")

        @contextmanager
        def at(level: Level, _: LevelNeeds) -> Iterator[LevelNeeds]:
            yield LevelNeeds(
                prefix=("numactl", f"--membind={far}" if level == 1.0 else f"--interleave={near},{far}"),
                reached=lambda _: Reached(None, number(level), True, "bound by the kernel"),
            )

        yield at


class Zram:
    """A limit of memory with compressed swap behind it: what is far costs a page fault. Good for a shape alone."""

    name = "cgroup-zram"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Why there is none."""
        if not machine.is_root:
            return "not root, and swap devices are root's"
        if not machine.at(_CONTROL).is_dir():
            return "no zram in the kernel"
        return machine.lacks("mkswap", "swapon", "swapoff") or lacks_group(machine, journal, "memory")

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """A swap device as large as the memory of the application, ahead of any other."""
        if not rig.memory_mb:
            raise RunError(f"axis {axis.label}: no memory said, and shares are of it; wanted memory in the file")
        number_ = Path(f"{_CONTROL}/hot_add").read_text().strip()  # its number is known when it is there, not before
        with rig.journal.made("zram", number_):
            Path(f"/sys/block/zram{number_}/disksize").write_text(f"{2 * rig.memory_mb * MB}")
            rig.journal.called("mkswap", f"/dev/zram{number_}")
            rig.journal.called("swapon", "--priority", "32000", f"/dev/zram{number_}")

            @contextmanager
            def at(level: Level, held: LevelNeeds) -> Iterator[LevelNeeds]:
                near = max(MB, round((1 - number(level)) * rig.memory_mb * MB))
                with group(rig.machine, rig.journal, "memory", held.doors) as made:
                    made.limit_memory(near)

                    def reached(usage: Usage) -> Reached:
                        """Whether the limit was felt: an application that needs less has nothing far."""
                        del usage
                        peak = made.peak_memory()
                        far = 1 - peak / (rig.memory_mb * MB) if peak else None
                        return Reached(far, number(level), peak >= 0.95 * near or not peak, "the group's peak")

                    yield LevelNeeds((made.door,), reached=reached)

            yield at


FAR_MEMORY = AxisKind(
    "far-memory", "a share of its memory on another NUMA node, in CXL memory, or in compressed swap", FarMemoryFile,
    (NumaBind(), Zram()),
)  # fmt: skip
