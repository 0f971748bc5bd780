"""``APP.toml``: an application, how it is measured, and along which axes."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, field_validator

from unrack.errors import InputError
from unrack.profile.axes.axis import AxisFile
from unrack.profile.axes.table import axis_of
from unrack.profile.machine.machine import usable_cores
from unrack.resources.checked import Strict, validated
from unrack.units import SECOND_US, memory_mb, time_us

Words = Annotated[list[str], Field(max_length=256)]
Percent = Annotated[FiniteFloat, Field(ge=0, le=100)]
Rate = Annotated[FiniteFloat, Field(ge=0, lt=2**42)]


class ProgressFile(Strict):
    """How far it came, where that is not told by its end."""

    regex: str  # a regular expression with one group, a number, in what it prints; the last match counts
    unit: Literal["rate", "seconds"] = "rate"  # what that is: progress a second, or the time of a piece of work

    @field_validator("regex")
    @classmethod
    def _one_group(cls, value: str) -> str:
        try:
            groups = re.compile(value).groups
        except re.error as error:
            raise ValueError(f"a regular expression ({error})") from None
        if groups != 1:
            raise ValueError("a regular expression with one group")
        return value


class ContentionFile(Strict):
    """What contention's files need and no axis here can tell: measured elsewhere, and marked so."""

    local_mb_s: Rate  # bandwidth that it draws when all its memory is local
    remote_mb_s: Rate | None = None  # when all is remote; default: the same times its speed there
    reads: Percent  # share of reads in it
    # its speed when all its memory is remote; default: what the axis far-memory says of a share of 1
    remote_speed: Annotated[FiniteFloat, Field(gt=0, le=2)] | None = None


class ApplicationFile(Strict):
    """The whole file."""

    name: str = Field(pattern=r"^[\w.+/-]{1,60}$")
    command: Words = Field(min_length=1)
    prepare: Words = Field([])  # run before each run, and not timed
    warm_up: int = Field(1, ge=0, le=100, strict=True)  # runs of each axis that do not count
    progress: ProgressFile | None = None  # default: a run is over when the command ends
    # names of files that it reads, as ``{mount}/NAME``; they are beside this file
    inputs: list[Annotated[str, Field(pattern=r"^[^/]+$")]] = Field(default=[], max_length=64)
    cores: int = Field(1, ge=1, le=4096, strict=True)
    memory: str | int | float = 0  # that it needs: "200 MB"
    timeout: str | int | float = "10 min"  # of a run
    repeats: int = Field(5, ge=5, le=1000, strict=True)  # runs of each level, at least
    most_repeats: int = Field(20, ge=5, le=1000, strict=True)
    width: Annotated[FiniteFloat, Field(gt=0, lt=1)] = 0.05  # half of an interval, as a share of the speed: then enough
    confidence: Annotated[FiniteFloat, Field(ge=0.5, lt=1)] = 0.95  # of all intervals of an axis together
    drift: Annotated[FiniteFloat, Field(gt=0, lt=1)] = 0.05  # of controls, from which on a run is refused
    seed: int = Field(0, ge=0, strict=True)  # of the order of runs
    contention: ContentionFile | None = None
    axes: list[dict[str, Any]] = Field(min_length=1, max_length=32)

    @field_validator("memory")
    @classmethod
    def _memory(cls, value: Any) -> Any:
        memory_mb(value)
        return value

    @field_validator("timeout")
    @classmethod
    def _timeout(cls, value: Any) -> Any:
        if time_us(value) <= 0:
            raise ValueError("a time above 0")
        return value


@dataclass(frozen=True)
class Application:
    """An application as its file has it.

    Attributes
    ----------
    file
        Its keys.
    axes
        Its axes, in the order of the file.
    folder
        Where the file is: relative paths begin here, and commands run here.
    text
        The file.
    """

    file: ApplicationFile
    axes: tuple[AxisFile, ...]
    folder: Path
    text: str

    @property
    def name(self) -> str:
        """Its name."""
        return self.file.name

    @property
    def memory_mb(self) -> int:
        """Memory that it needs; 0: not said."""
        return memory_mb(self.file.memory)

    @property
    def timeout_s(self) -> float:
        """After so long a run has failed."""
        return time_us(self.file.timeout) / SECOND_US

    @property
    def looks(self) -> tuple[int, ...]:
        """After so many runs of a level its interval is looked at, whether it is narrow enough."""
        found, most = [self.file.repeats], self.file.most_repeats
        while found[-1] < most:
            found.append(min(most, 2 * found[-1]))
        return tuple(found)

    @property
    def confidence(self) -> float:
        """Of the intervals at one look: a look at which one stops is a chance to stop at a wrong one (Bonferroni)."""
        return 1 - (1 - self.file.confidence) / len(self.looks)

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The files that it reads."""
        return tuple(self.folder / name for name in self.file.inputs)

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of its file and its inputs."""
        found = hashlib.sha256(self.text.encode())
        for path in self.inputs:
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        return found.hexdigest()

    def axis(self, label: str) -> AxisFile | None:
        """One of its axes; ``None``: it has none that is called so."""
        return next((axis for axis in self.axes if axis.label == label), None)


def read_application(path: str | Path) -> Application:
    """An application from ``APP.toml``.

    Raises
    ------
    InputError
        The file cannot be read, a key or value is wrong, or an input is not there.
    """
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), str(getattr(error, "strerror", None) or error), "a file that can be read") from None
    return application_of(text, source.absolute().parent, str(path))


def application_of(text: str, folder: Path, where: str) -> Application:
    """An application from the text of its file; see :func:`read_application`."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(where, str(error), "TOML") from None
    keys = (*ApplicationFile.model_fields, *ProgressFile.model_fields, *ContentionFile.model_fields)
    file = validated(ApplicationFile.model_validate, content, f"{where}, ", keys, InputError, "the whole")
    axes = tuple(axis_of(content, f"{where}, axes.{i}.") for i, content in enumerate(file.axes))
    labels = [axis.label for axis in axes]
    if twice := next((label for i, label in enumerate(labels) if label in labels[:i]), None):
        raise InputError(f"{where}, axes", f"two that are called {twice!r}", "a name for one of them")
    if file.most_repeats < file.repeats:
        raise InputError(f"{where}, most_repeats", str(file.most_repeats), f"{file.repeats} (repeats) or more")
    return Application(file, axes, folder, text)


def check_here(application: Application) -> None:
    """Refuse an application that cannot run here: too few cores, or an input that is not there."""
    cores = len(usable_cores())
    if application.file.cores > cores:
        raise InputError(f"{application.name}, cores", str(application.file.cores), f"at most {cores}, as there are")
    for path in application.inputs:
        if not path.is_file():
            raise InputError(f"{application.name}, inputs", str(path), "a file that is there")
