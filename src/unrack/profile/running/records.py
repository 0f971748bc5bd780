"""Raw runs: a line of JSON each, on disk before the next run begins."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unrack.errors import InputError
from unrack.profile.axes.axis import Level

RUNS = "runs.jsonl"


@dataclass(frozen=True)
class Run:
    """One run of an application, of one copy or of several at once."""

    axis: str
    block: int  # each block has every level once, in an order of its own, with controls between
    sitting: int  # which call of ``unrack profile run``
    order: int  # counts the runs of a sitting
    level: Level | None  # ``None``: a control
    times_s: tuple[float, ...]  # of each copy's unit of progress
    reached: float | None  # the level that was reached, as ``source`` tells
    wanted: float
    held: bool  # whether that was the level
    source: str
    cpu_s: float = 0.0
    faults: int = 0
    load: float = 0.0  # of the machine, in the minute before
    at: str = ""  # when it ended

    @property
    def time_s(self) -> float:
        """The mean over copies."""
        return sum(self.times_s) / len(self.times_s)


@dataclass(frozen=True)
class Refused:
    """A block that does not count, and why."""

    axis: str
    block: int
    why: str


@dataclass(frozen=True)
class Records:
    """What is in a file of runs, in order."""

    runs: tuple[Run, ...]
    refused: tuple[Refused, ...]

    def of(self, axis: str) -> list[Run]:
        """The runs of an axis that count."""
        out = {one.block for one in self.refused if one.axis == axis}
        return [run for run in self.runs if run.axis == axis and run.block not in out]

    @property
    def sittings(self) -> int:
        """How many there were."""
        return max((run.sitting for run in self.runs), default=-1) + 1


class Writer:
    """Appends runs to a file that no other process writes; each is on disk when :meth:`add` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InputError(str(path), "a file that another run writes", "a folder of its own (--out)") from None
        self._file.seek(0)
        self._file.truncate(self._file.read().rfind(b"\n") + 1)  # without a line that was cut off

    def forget(self) -> None:
        """Forget all."""
        self._file.truncate(0)

    def add(self, record: Run | Refused) -> None:
        """Write one."""
        line = {"record": type(record).__name__.lower(), **asdict(record)}
        self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_records(folder: Path) -> Records:
    """The runs of a profile.

    Raises
    ------
    InputError
        There is no such file, or a line of it is no run; a last line without an end was cut off, and does not count.
    """
    path = folder / RUNS
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        got = str(getattr(error, "strerror", None) or error)
        raise InputError(str(path), got, "runs of `unrack profile run`") from None
    runs: list[Run] = []
    refused: list[Refused] = []
    for i, line in enumerate(text.split("\n")[:-1], 1):
        try:
            content = json.loads(line)
            record = content.pop("record")
            if record == "refused":
                refused.append(Refused(**content))
            elif record == "run":
                runs.append(_run(content))
            else:
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InputError(f"{path}, line {i}", f"{line:.80}", "a run, as `unrack profile run` writes it") from None
    return Records(tuple(runs), tuple(refused))


def _run(content: dict[str, Any]) -> Run:
    level = content.pop("level")
    times = tuple(map(float, content.pop("times_s")))
    if not times or not all(0 < time < float("inf") for time in times):
        raise ValueError
    return Run(level=tuple(level) if isinstance(level, list) else level, times_s=times, **content)


def table_of(runs: Iterable[Run]) -> Any:
    """A Polars table of runs, a row a copy."""
    import polars as pl

    from unrack.profile.axes.axis import label_of

    rows = [
        {**asdict(run), "level": label_of(run.level), "times_s": None, "copy": copy, "time_s": time}
        for run in runs
        for copy, time in enumerate(run.times_s)
    ]
    return pl.DataFrame(rows, infer_schema_length=None).drop("times_s") if rows else pl.DataFrame()
