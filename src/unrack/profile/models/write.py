"""All files that models read, of some profiles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unrack.errors import InputError
from unrack.profile.axes.axis import label_of
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
        Two profiles are of the same application, or one lacks what a model needs.
    """
    names = [profile.name for profile in profiles]
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise InputError("profiles", f"two of {twice!r}", "one of each application")
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
