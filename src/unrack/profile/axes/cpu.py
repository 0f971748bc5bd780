"""The axis ``cpu``: the share of its cores' time that an application gets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat

from unrack.profile.axes.axis import AxisFile, AxisKind, Level, LevelNeeds, Rig, Stand, at_most, number
from unrack.profile.machine.cgroups import group, lacks_group
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine

Share = Annotated[FiniteFloat, Field(gt=0, le=1)]


class CpuFile(AxisFile):
    """Shares of the time of its cores, above 0 and at most 1."""

    kind: Literal["cpu"]
    levels: tuple[Share, ...] = Field(min_length=1, max_length=64)

    base: ClassVar[Level | None] = 1.0
    falls: ClassVar[bool] = False
    unit: ClassVar[str] = "share of its cores' time"


class CpuQuota:
    """The quota of a control group: so much time of every tenth of a second."""

    name = "cgroup-quota"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Why there is none."""
        return lacks_group(machine, journal, "cpu")

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """Nothing that levels share."""

        @contextmanager
        def at(level: Level, held: LevelNeeds) -> Iterator[LevelNeeds]:
            cores = number(level) * rig.cores
            if level == axis.base:  # pinned to its cores, it can have no more
                yield LevelNeeds()
                return
            with group(rig.machine, rig.journal, "cpu", held.doors) as made:
                made.limit_cpu(cores)
                slack = 0.1 * cores  # what may be used before the first period ends
                yield LevelNeeds(
                    (made.door,),
                    reached=lambda usage: at_most(
                        max(0.0, usage.cpu_s - slack) / usage.wall_s, cores, "time of its processes"
                    ),
                )

        yield at


CPU = AxisKind("cpu", "a share of the time of its cores", CpuFile, (CpuQuota(),))
