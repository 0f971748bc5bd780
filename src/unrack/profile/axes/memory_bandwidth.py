"""The axis ``memory-bandwidth``: traffic to memory, MB/s, beside an application."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat

from unrack.errors import RunError
from unrack.profile.axes.axis import AxisFile, AxisKind, Level, LevelNeeds, Reached, Rig, Stand, Usage, about, number
from unrack.profile.machine.cgroups import in_front
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine, usable_cores
from unrack.profile.machine.marked import marked


class MemoryBandwidthFile(AxisFile):
    """MB/s of a generator on a core that the application does not use."""

    kind: Literal["memory-bandwidth"]
    levels: tuple[Annotated[FiniteFloat, Field(ge=1, le=1e7)], ...] = Field(min_length=1, max_length=64)
    reads: Literal[50, 100] = 100  # share of reads in the traffic, percent, as contention's curves have it
    # Where the traffic goes: a NUMA node; default: wherever the kernel puts it
    node: int | None = Field(None, ge=0, strict=True)

    unit: ClassVar[str] = "MB/s beside it"

    @property
    def label(self) -> str:
        """What it is called, with the share of reads."""
        return self.name or f"{self.kind}-{self.reads}"


class Generator:
    """The generator of :mod:`unrack.profile.axes.generator`."""

    name = "generator"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """A core of its own is all that it needs."""
        del journal
        few = len(usable_cores()) < 2
        return "one core, and the generator needs one beside the application's" if few else machine.lacks("taskset")

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """Nothing that levels share."""
        assert isinstance(axis, MemoryBandwidthFile)
        free = usable_cores()[rig.cores :]
        if not free:
            raise RunError(f"axis {axis.label}: the application has all {rig.cores} cores, and the generator needs one")
        argv = ["taskset", "-c", str(free[-1])]
        if axis.node is not None:
            argv += ["numactl", f"--membind={axis.node}"]
        argv += [sys.executable, "-m", "unrack.profile.axes.generator"]

        @contextmanager
        def at(level: Level, _: LevelNeeds) -> Iterator[LevelNeeds]:
            words = [*argv, f"{number(level):g}", str(axis.reads)]
            with (
                in_front(rig.machine, rig.journal) as doors,
                marked(words, rig.token, doors, stdout=subprocess.PIPE) as started,
            ):
                assert started.stdout is not None
                try:
                    if started.stdout.readline().strip() != b"ready":
                        raise RunError(f"axis {axis.label}: the generator did not start")

                    def reached(usage: Usage) -> Reached:
                        del usage
                        started.terminate()
                        said, _ = started.communicate(timeout=30)
                        return about(float(said.split()[-1]), number(level), "own bytes")

                    yield LevelNeeds(reached=reached)
                finally:
                    started.kill()

        yield at


MEMORY_BANDWIDTH = AxisKind(
    "memory-bandwidth", "traffic to memory beside it, at a rate and a share of reads", MemoryBandwidthFile,
    (Generator(),),
)  # fmt: skip
