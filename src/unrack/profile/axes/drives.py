"""The axis ``drives``: drives that are composed, and shared by copies of an application."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from unrack.profile.axes.axis import (
    AxisFile,
    AxisKind,
    Bandwidth,
    Level,
    LevelNeeds,
    Reached,
    Rig,
    Stand,
    Usage,
    at_most,
)
from unrack.profile.machine.cgroups import group, lacks_group
from unrack.profile.machine.journal import Journal
from unrack.profile.machine.machine import Machine
from unrack.units import bandwidth_mb_s, memory_mb

Several = Annotated[int, Field(ge=1, le=64, strict=True)]


class DrivesFile(AxisFile):
    """Pairs of drives that are seen as one and copies that share them; 1 × 1 is the control."""

    kind: Literal["drives"]
    levels: tuple[tuple[Several, Several], ...] = Field(min_length=1, max_length=64)  # type: ignore[assignment]
    rate: Bandwidth  # what one drive reads, and writes: "20 MB/s"
    size: str | int | float = "256 MB"  # room on the drive, beside the inputs
    error: None = None

    base: ClassVar[Level | None] = (1, 1)
    surrounds: ClassVar[bool] = True
    unit: ClassVar[str] = "drives × sharers"

    @field_validator("size")
    @classmethod
    def _size(cls, value: Any) -> Any:
        if memory_mb(value) < 32:
            raise ValueError("32 MB or more")
        return value


AHEAD_S = 0.1
"""So long a group may be ahead of its cap."""
REQUEST_KB = 128
"""The most that is read ahead, or in one request. A loop device has as much of both as what is below it, which can be
megabytes: a tenth of a second of a slow drive, in which those that read ahead have it to themselves."""


class CappedLoop:
    """A loop device that a control group may read, and write, at so many bytes a second.

    Drives that are composed are one device with the sum of their bandwidths.
    """

    name = "capped-loop"

    def lacks(self, machine: Machine, journal: Journal) -> str:
        """Why there is none."""
        if not machine.is_root:
            return "not root, and loop devices are root's"
        if not machine.at("/dev/loop-control").exists():
            return "no loop devices"
        return machine.lacks("losetup", "mkfs.ext4", "mount", "umount") or lacks_group(machine, journal, "io")

    @contextmanager
    def stand(self, axis: AxisFile, rig: Rig) -> Iterator[Stand]:
        """The device, with the inputs on it."""
        assert isinstance(axis, DrivesFile)
        mb_s = bandwidth_mb_s(axis.rate)
        copies = max(sharers for _, sharers in axis.levels)
        with capped_drive(rig, memory_mb(axis.size), copies) as drive:

            @contextmanager
            def at(level: Level, within: LevelNeeds) -> Iterator[LevelNeeds]:
                assert isinstance(level, tuple)
                devices, sharers = level
                with drive(devices * mb_s, within) as held:
                    yield LevelNeeds(held.doors, words=held.words, copies=sharers, reached=held.reached)

            yield at


Drive = Callable[[float, LevelNeeds], AbstractContextManager[LevelNeeds]]
"""Holds a device at so many MB/s (a million bytes); see :data:`Stand`."""


@contextmanager
def capped_drive(rig: Rig, size_mb: int, copies: int) -> Iterator[Drive]:
    """A loop device of a file, formatted, with the inputs of the application on it, for each copy of it.

    It is mounted anew for each run, so that nothing of it is in the page cache.

    Parameters
    ----------
    size_mb
        Room beside the inputs.
    copies
        How many have a folder of their own there, ``{mount}``: else one would find in the cache what another read.
    """
    image = rig.scratch / f"{rig.token}-drive.img"
    mount = rig.scratch / f"{rig.token}-drive"
    size = size_mb * 2**20 + copies * sum(path.stat().st_size for path in rig.inputs) * 21 // 20
    with rig.journal.made("file", str(image)), rig.journal.made("file", str(mount)):
        with image.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, -(-size // 4096) * 4096)  # a full disk is told now, not in a run
        mount.mkdir()
        with rig.journal.made("loop", str(image)):
            device = rig.journal.called("losetup", "-f", "--show", "--direct-io=on", str(image))
            rig.journal.called("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", "-m", "0", device)
            where = rig.machine.text(f"/sys/block/{Path(device).name}/dev").strip()
            for name in ("read_ahead_kb", "max_sectors_kb"):
                rig.machine.at(f"/sys/block/{Path(device).name}/queue/{name}").write_text(f"{REQUEST_KB}")
            with _mounted(rig, device, mount):
                for copy in range(copies):
                    (mount / str(copy)).mkdir()
                    for path in rig.inputs:
                        shutil.copy(path, mount / str(copy) / path.name)

            @contextmanager
            def drive(mb_s: float, within: LevelNeeds) -> Iterator[LevelNeeds]:
                with _mounted(rig, device, mount), group(rig.machine, rig.journal, "io", within.doors) as made:
                    cap = round(mb_s * 1e6)
                    made.limit_device(where, cap)
                    time.sleep(1.5 * AHEAD_S)  # or the first reads are given what the cap let pass since it was set
                    begun = time.monotonic()

                    def reached(usage: Usage) -> Reached:
                        del usage
                        moved = made.moved(where)
                        took = time.monotonic() - begun
                        rate = max(0, max(moved) - AHEAD_S * cap) / took / 1e6
                        return at_most(rate, mb_s, "bytes of its group")

                    yield LevelNeeds(
                        (made.door,), words={"drive": device, "mount": f"{mount}/{{copy}}"}, reached=reached
                    )

            yield drive


@contextmanager
def _mounted(rig: Rig, device: str, mount: Path) -> Iterator[None]:
    with rig.journal.made("mount", str(mount)):
        rig.journal.called("mount", "-o", "noatime", device, str(mount))
        yield


DRIVES = AxisKind(
    "drives", "drives of a set bandwidth, composed, and shared by copies of it", DrivesFile, (CappedLoop(),)
)
