"""What a run is told about contended memory: which profiles, and how speeds are predicted from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from unrack.errors import InputError, check_choice
from unrack.resources.checked import Strict, validated
from unrack.slowdown.contention.predict import FALLBACKS, Contention, Fallback
from unrack.slowdown.contention.profile import Method, ProfileSet
from unrack.slowdown.contention.profile_file import read_profiles, synthetic_profiles

Missing = Literal["nearest", "none"]
Drawn = Literal["whole", "share"]
OFF = "off"
SYNTHETIC = "synthetic"
FARTHEST = 1000.0
"""The largest factor of a distance."""


class Distances(Strict):
    """A ``distance`` table: by how much the loss of speed on remote memory counts; 1 = as measured, 0 = like local."""

    rack: float = Field(default=1.0, strict=True)
    group: float = Field(default=1.0, strict=True)
    far: float = Field(default=1.0, strict=True)
    pool: float = Field(default=1.0, strict=True)


class ContentionTable(Strict):
    """A ``[contention]`` table; keys as in :class:`MemoryContention`, but that profiles are named."""

    profiles: str | list[str]  # ``"synthetic"``, a folder, or a file of profiles and one of curves
    method: Method = "line"
    tolerance: float = Field(default=0.25, strict=True)
    floor: float = Field(default=0.01, strict=True)
    curves: Fallback = "alike"
    missing: Missing = "nearest"
    traffic: Drawn = "whole"
    distance: Distances = Distances()


@dataclass(frozen=True)
class MemoryContention:
    """How jobs that use each other's memory slow each other down.

    Parameters
    ----------
    profiles
        What was measured.
    method, tolerance, floor
        As in :class:`unrack.slowdown.contention.predict.Contention`.
    curves
        What stands for the curves of an application that has a profile and none: ``"alike"``, ``"nearest"`` or
        ``"none"`` (``fallback`` there).
    missing
        What a job of an application without a profile runs as: the one ``"nearest"`` in size and run time, or
        ``"none"``; then it neither suffers nor disturbs.
    traffic
        What a job draws from one node's memory: ``"whole"``, the bandwidth of its profile with all its memory local
        where it is local, with all remote where it borrows; ``"share"``: that times the share of its memory that is
        local, or remote.
    distance
        Factors by how far borrowed memory is.

    Attributes
    ----------
    model
        The prediction that follows from these.

    Raises
    ------
    InputError
        A parameter is out of its range.
    """

    profiles: ProfileSet
    method: Method = "line"
    tolerance: float = 0.25
    floor: float = 0.01
    curves: Fallback = "alike"
    missing: Missing = "nearest"
    traffic: Drawn = "whole"
    distance: Distances = Distances()  # noqa: RUF009  # it cannot change
    model: Contention = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        choices = {"curves": FALLBACKS, "missing": get_args(Missing), "traffic": get_args(Drawn)}
        for name, known in choices.items():
            check_choice(name, getattr(self, name), known)
        for name, factor in self.distance.model_dump().items():
            if not 0 <= factor <= FARTHEST or not math.isfinite(factor):
                raise InputError(f"distance.{name}", repr(factor), f"a factor from 0 to {FARTHEST:g}")
        model = Contention(self.profiles, self.method, self.tolerance, self.floor, self.curves)
        object.__setattr__(self, "model", model)

    def settings(self) -> dict[str, Any]:
        """Everything but the profiles, as a ``[contention]`` table has it."""
        names = ("method", "tolerance", "floor", "curves", "missing", "traffic")
        return {**{name: getattr(self, name) for name in names}, "distance": self.distance.model_dump()}

    def identity(self) -> dict[str, Any]:
        """All that speeds depend on: the settings, and a SHA-256 of the content of the profiles."""
        return {"profiles": self.profiles.digest(), **self.settings()}


def make_contention(value: object, folder: Path | None = None) -> MemoryContention | None:
    """Settings from what a study or a caller writes.

    An InputError if a key is unknown or its value cannot be, or a file is wrong.

    Parameters
    ----------
    value
        ``None`` or ``"off"``: no job slows another down. ``"synthetic"``: the profiles that come with unrack. A
        folder, or a file of profiles and one of curves, as for
        :func:`unrack.slowdown.contention.profile_file.read_profiles`. A table as in :class:`ContentionTable`, with
        any of these as its ``profiles``. Or settings.
    folder
        Where paths are looked for first.

    Examples
    --------
    >>> make_contention("off") is None
    True
    >>> make_contention({"profiles": "synthetic", "distance": {"far": 1.5}}).distance
    Distances(rack=1.0, group=1.0, far=1.5, pool=1.0)
    """
    if value is None or isinstance(value, MemoryContention):
        return value
    written: object = {"profiles": value} if isinstance(value, str | Path | Sequence) else value
    if not isinstance(written, Mapping):
        want = f"{OFF!r}, {SYNTHETIC!r}, a folder, two files, or a table with profiles"
        raise InputError("contention", repr(value), want)
    content = {key: _as_text(part) for key, part in written.items()}
    table = validated(
        ContentionTable.model_validate, content, "contention.",
        lambda path: (Distances if len(path) > 1 else ContentionTable).model_fields, InputError,
    )  # fmt: skip
    profiles = _profiles(table.profiles, folder)
    if profiles is None:
        return None
    settings = {name: getattr(table, name) for name in ContentionTable.model_fields if name != "profiles"}
    try:
        return MemoryContention(profiles, **settings)
    except InputError as error:
        raise InputError(f"contention.{error.where}", error.got, error.want) from None


def _as_text(named: object) -> object:
    """Paths as text, alone or in a list."""
    if isinstance(named, Path):
        return str(named)
    return [_as_text(part) for part in named] if isinstance(named, list | tuple) else named


def _profiles(named: str | list[str], folder: Path | None) -> ProfileSet | None:
    """The profiles of that name or in those files; ``None``: off."""
    if named in (OFF, SYNTHETIC):
        return synthetic_profiles() if named == SYNTHETIC else None
    paths = [named] if isinstance(named, str) else named
    if not 1 <= len(paths) <= 2 or not all(paths):
        raise InputError("contention.profiles", repr(named), f"{SYNTHETIC!r}, a folder, or [profiles, curves]")
    return read_profiles(
        *((folder or Path()) / path if ((folder or Path()) / path).exists() else path for path in paths)
    )
