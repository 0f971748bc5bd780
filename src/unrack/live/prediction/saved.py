"""Predictions in a file, a line each time, with the starts and runs that were seen then: later ones are held to it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from unrack.errors import InputError, TraceError, first_fault, got_and_want
from unrack.live.prediction.learnt import Past
from unrack.live.prediction.starts import Prediction

VERSION = 1
MOST_BYTES = 2**30
Key = Annotated[str, Field(max_length=400)]
Moment = Annotated[FiniteFloat, Field(ge=0)] | None


class SavedStart(BaseModel):
    """A predicted start, s since 1970; ``None``: never."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    job: Key
    requested_s: Moment
    early_s: Moment
    middle_s: Moment
    late_s: Moment


class Saved(BaseModel):
    """A line of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    at_s: FiniteFloat  # when it was written, s since 1970
    starts: dict[str, list[SavedStart]]  # policy → what was predicted under it
    # job → when it started, s since 1970, of all jobs that ran or had ended
    started: dict[Key, FiniteFloat] = Field(default_factory=dict)
    # user, run time and limit in s of jobs that had ended
    ended: list[tuple[str, FiniteFloat, FiniteFloat]] = Field(default_factory=list)

    @property
    def past(self) -> list[Past]:
        """The runs that had ended."""
        return [Past(*run) for run in self.ended]


def saved_of(
    at_s: float, predictions: Iterable[Prediction], started: Mapping[str, float], ended: Iterable[Past] = ()
) -> Saved:
    """What is to be written of predictions that were made just now, of starts that were seen and of runs that ended."""

    def moment(since_s: float | None) -> float | None:
        return None if since_s is None else round(at_s + since_s, 3)

    starts = {
        prediction.policy: [
            SavedStart(
                job=start.job,
                requested_s=moment(start.requested_s),
                early_s=moment(start.early_s),
                middle_s=moment(start.middle_s),
                late_s=moment(start.late_s),
            )
            for start in prediction.starts
        ]
        for prediction in predictions
    }
    return Saved(
        at_s=at_s, starts=starts, started=dict(started), ended=[(run.user, run.ran_s, run.limit_s) for run in ended]
    )


def save(path: Path, saved: Saved) -> None:
    """Append a line.

    Raises
    ------
    InputError
        It cannot be written.
    """
    line = saved.model_dump_json() + "\n"
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a file that can be written") from None


def load_saved(path: Path) -> list[Saved]:
    """The lines of a file, in its order. A last line without an end, which was cut off, is passed over.

    Raises
    ------
    InputError
        The file cannot be read, is too large, or a line is not one of ours.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(str(path), f"over {MOST_BYTES >> 20} MB", "a smaller file")
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(str(path), error.strerror or str(error), "a file that 'predict --save' wrote") from None
    found = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            found.append(Saved.model_validate(json.loads(line)))
        except ValidationError as error:
            fault = first_fault(error.errors())
            where = ".".join(map(str, fault["loc"]))
            raise TraceError(str(path), number, where, *got_and_want(fault)) from None
        except (ValueError, RecursionError):
            raise TraceError(str(path), number, "", "no JSON", "a line that 'predict --save' wrote") from None
    return found


def recent(saved: Sequence[Saved], since_s: float) -> list[Saved]:
    """Those that were written at a moment or later."""
    return [one for one in saved if one.at_s >= since_s]
