"""``MIXES.toml``: which profiled applications run together on one drive, when they begin, and under which levels."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from unrack.errors import InputError, nearest
from unrack.profile.axes.axis import AxisFile, Level, label_of
from unrack.profile.axes.drives import DrivesFile
from unrack.profile.models.drives import drive_times
from unrack.profile.profile import Profile, is_numeric, read_profile
from unrack.resources.checked import Strict, validated
from unrack.units import SECOND_US, bandwidth_mb_s, memory_mb, time_us

Share = Annotated[float, Field(ge=0, le=10)]


class JobFile(Strict):
    """A job of a mix."""

    app: str  # the name of a profiled application
    at: str | int | float = 0  # when it begins: "3 s"
    levels: dict[str, float] = Field({})  # axis → level that holds for this job alone


class MixFile(Strict):
    """Jobs that run together."""

    name: str = ""
    jobs: list[JobFile] = Field(min_length=1, max_length=64)


class DrawFile(Strict):
    """Mixes that are drawn."""

    mixes: int = Field(10, ge=1, le=1000, strict=True)
    jobs: tuple[int, int] = (2, 4)  # fewest and most of a mix
    within: Share = 0.5  # jobs begin within this share of the longest run alone
    levels: dict[str, list[float]] = Field({})  # axis → levels of which each job that has the axis draws one
    seed: int = Field(0, ge=0, strict=True)


class MixesFile(Strict):
    """The whole file."""

    profiles: list[str] = Field(min_length=1, max_length=64)  # folders, beside this file
    repeats: int = Field(3, ge=1, le=100, strict=True)  # how often each mix is run
    draw: DrawFile | None = None
    mixes: list[MixFile] = Field([])


@dataclass(frozen=True)
class Job:
    """A job of a mix: an application, when it begins, and the levels that hold for it alone."""

    profile: Profile
    at_s: float
    levels: tuple[tuple[AxisFile, float], ...] = ()

    @property
    def label(self) -> str:
        """Its application, and its levels."""
        return self.profile.name + "".join(f", {axis.label} {level:g}" for axis, level in self.levels)

    @property
    def drives(self) -> DrivesFile | None:
        """Its axis of drives; ``None``: it uses none."""
        return next((axis for axis in self.profile.application.axes if isinstance(axis, DrivesFile)), None)


@dataclass(frozen=True)
class Mix:
    """Jobs that run together."""

    name: str
    jobs: tuple[Job, ...]


@dataclass(frozen=True)
class Mixes:
    """What is to be checked: all on one drive of the same bandwidth, if any uses one."""

    mixes: tuple[Mix, ...]
    repeats: int
    mb_s: int  # 0: no drive
    size_mb: int


def read_mixes(path: Path) -> Mixes:
    """The mixes of a file.

    Raises
    ------
    InputError
        A key or value is wrong, a profile cannot be read, or a mix asks for what was not measured.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), str(getattr(error, "strerror", None) or error), "a file that can be read") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(str(path), str(error), "TOML") from None
    keys = [name for model in (MixesFile, MixFile, JobFile, DrawFile) for name in model.model_fields]
    file = validated(MixesFile.model_validate, content, f"{path}, ", keys, InputError, "the whole")
    profiles: dict[str, Profile] = {}
    for name in file.profiles:
        profile = read_profile(path.parent / name)
        if profile.name in profiles:
            raise InputError(f"{path}, profiles", f"two of {profile.name!r}", "one of each application")
        if profile.application.file.progress is not None:
            want = "applications that are done when their command ends"
            raise InputError(f"{path}, profiles", f"{profile.name}, which has a progress of its own", want)
        profiles[profile.name] = profile
    mixes = [_mix(mix, i, profiles, str(path)) for i, mix in enumerate(file.mixes)]
    if file.draw is not None:
        mixes += _drawn(file.draw, list(profiles.values()), str(path))
    if not mixes:
        raise InputError(str(path), "no mixes", "[[mixes]] or [draw]")
    drives = [(one.name, axis) for one in profiles.values() for axis in one.application.axes
              if isinstance(axis, DrivesFile)]  # fmt: skip
    rates = {bandwidth_mb_s(axis.rate) for _, axis in drives}
    if len(rates) > 1:
        got = f"drives of {', '.join(f'{rate} MB/s' for rate in sorted(rates))}"
        raise InputError(f"{path}, profiles", got, "applications that were measured on drives of the same bandwidth")
    for mix in mixes:
        _check(mix, str(path))
    size_mb = max((memory_mb(axis.size) for _, axis in drives), default=0)
    return Mixes(tuple(mixes), file.repeats, max(rates, default=0), size_mb)


def _mix(file: MixFile, number: int, profiles: dict[str, Profile], path: str) -> Mix:
    jobs = []
    for i, job in enumerate(file.jobs):
        where = f"{path}, mixes.{number}.jobs.{i}."
        if job.app not in profiles:
            raise InputError(f"{where}app", repr(job.app), nearest(job.app, profiles))
        try:
            at_s = time_us(job.at) / SECOND_US
        except ValueError as error:
            raise InputError(f"{where}at", repr(job.at), str(error)) from None
        profile = profiles[job.app]
        levels = tuple((_axis(profile, label, f"{where}levels"), level) for label, level in sorted(job.levels.items()))
        jobs.append(Job(profile, at_s, levels))
    return Mix(file.name or f"mix {number + 1}", tuple(jobs))


def _axis(profile: Profile, label: str, where: str) -> AxisFile:
    axis = profile.application.axis(label)
    own = [one.label for one in profile.application.axes if is_numeric(one)]
    if axis is None or label not in own:
        raise InputError(
            where, repr(label), f"an axis of {profile.name} with numbers: {', '.join(own) or 'it has none'}"
        )
    return axis


def _drawn(file: DrawFile, profiles: Sequence[Profile], path: str) -> list[Mix]:
    low, high = file.jobs
    if not 1 <= low <= high <= 64:
        raise InputError(f"{path}, draw.jobs", f"{low}, {high}", "two numbers, the smaller one first")
    draw, mixes = random.Random(file.seed), []
    for i in range(file.mixes):
        jobs: list[Job] = []
        chosen = [draw.choice(profiles) for _ in range(draw.randint(low, high))]
        longest = max(alone_s(profile) for profile in chosen)
        for profile in chosen:
            axes = [axis for axis in profile.application.axes if file.levels.get(axis.label)]
            levels = tuple((axis, draw.choice(file.levels[axis.label])) for axis in axes)
            jobs.append(Job(profile, round(draw.uniform(0, file.within * longest), 1) if jobs else 0.0, levels))
        mixes.append(Mix(f"drawn {i + 1}", tuple(jobs)))
    return mixes


def alone_s(profile: Profile) -> float:
    """How long an application takes alone, on a drive of its own where it was measured on drives."""
    axes = profile.application.axes
    return profile.alone_s(next((axis for axis in axes if isinstance(axis, DrivesFile)), axes[0]))


def _check(mix: Mix, path: str) -> None:
    """Refuse more sharers than were measured, and levels outside of those that were."""
    sharers = sum(job.drives is not None for job in mix.jobs)
    for job in mix.jobs:
        if job.drives is not None:
            most = max(k for d, k in drive_times(job.profile, job.drives) if d == 1)
            if sharers > most:
                got = f"{sharers} jobs on the drive, and {job.profile.name} was measured with up to {most}"
                raise InputError(f"{path}, {mix.name}", got, "as many as were measured")
        for axis, level in job.levels:
            x = job.profile.fit(axis).x
            if not x[0] <= level <= x[-1]:
                got = f"{axis.label} of {label_of(_level(level))} for {job.profile.name}"
                raise InputError(f"{path}, {mix.name}", got, f"a level from {x[0]:g} to {x[-1]:g}, as measured")


def _level(level: float) -> Level:
    return level
