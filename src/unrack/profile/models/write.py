"""All files that models read, of some profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unrack.errors import InputError
from unrack.profile.axes.axis import AxisFile, Level, label_of
from unrack.profile.axes.drives import DrivesFile
from unrack.profile.axes.far_memory import FarMemoryFile
from unrack.profile.axes.gpus import GpusFile
from unrack.profile.axes.memory_bandwidth import MemoryBandwidthFile
from unrack.profile.axes.network import NetworkFile
from unrack.profile.models.contention import contention_files
from unrack.profile.models.drives import drive_files
from unrack.profile.models.gpus import gpu_files
from unrack.profile.models.links import link_files
from unrack.profile.profile import Profile, is_numeric
from unrack.study.results.record import write_whole

WRITERS = {"contention": contention_files, "drives": drive_files, "links": link_files, "gpus": gpu_files}
"""Model → what makes its files."""


def model_files(profiles: Sequence[Profile]) -> dict[str, str]:
    """Name → content, of every model that the profiles have something for.

    Raises
    ------
    InputError
        Two profiles are of the same application, two axes of one tell the same, or one lacks what a model needs.
    """
    names = [profile.name for profile in profiles]
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise InputError("profiles", f"two of {twice!r}", "one of each application")
    for profile in profiles:
        _check_once(profile)
    files: dict[str, str] = {}
    for make in WRITERS.values():
        files |= make(profiles)
    return {**files, "levels.csv": _levels(profiles)}


def write_models(profiles: Sequence[Profile], folder: Path) -> list[Path]:
    """Write them into a folder; returns their paths."""
    files = model_files(profiles)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in files]


def _check_once(profile: Profile) -> None:
    """Refuse two axes of which a model could read one only, as copies on a GPU with MPS and without."""
    told: dict[tuple[str, Level], str] = {}
    for axis in profile.application.axes:
        for what in _read_of(axis):
            if earlier := told.get((axis.kind, what)):
                got = f"{profile.name}: axes {earlier} and {axis.label}, which tell models the same of {axis.kind}"
                raise InputError("profiles", got, "one of them; the other in an application's file of its own")
            told[axis.kind, what] = axis.label


def _read_of(axis: AxisFile) -> Sequence[Level]:
    """What models read of an axis, of which there can be one in a profile."""
    if isinstance(axis, GpusFile):
        return axis.levels
    if isinstance(axis, MemoryBandwidthFile):
        return [axis.reads]
    return [1] if isinstance(axis, DrivesFile | NetworkFile | FarMemoryFile) else []


def _levels(profiles: Sequence[Profile]) -> str:
    """What was measured at every level of every axis, whether a model reads it or not."""
    lines = ["application,axis,level,speed,low,high,runs,form"]
    for profile in profiles:
        for axis in profile.application.axes:
            form = profile.fit(axis).offered if is_numeric(axis) else ""
            for one in profile.estimates(axis):
                ends = f"{one.speed:.6f},{one.low:.6f},{one.high:.6f}"
                lines.append(f"{profile.name},{axis.label},{label_of(one.level)},{ends},{one.runs},{form}")
    return "\n".join([*lines, ""])
