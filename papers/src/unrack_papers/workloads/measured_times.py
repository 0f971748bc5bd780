"""Measured run times of applications on GPUs: alone, by placement, and beside another job.

The header is ``kind,application,batch_size,gpus,other_application,other_batch_size,other_gpus,placement,time_s``, and a
row's kind is ``solo`` or ``collocation``. Only the times alone are read here.

Lists with a layout of their own: their columns as numbers; what cannot be is refused with its line and column.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from unrack.resources.gpus import GPUS, app_name
from unrack.workload.formats import DEVICE, MOST, Locator, Source, carried, csv_frame, load, numbers, refuse, whole

TOGETHER = 1
"""The value of ``gpus.together`` for a job that must be on one machine."""


@dataclass(frozen=True)
class Fields:
    """The rows of a list.

    Attributes
    ----------
    frame, at
        The rows as text, and where they are.
    """

    frame: pl.DataFrame
    at: Locator

    @classmethod
    def of(cls, source: Source, needed: Sequence[str]) -> Fields:
        """Read a CSV file with a header.

        Raises
        ------
        TraceError
            It cannot be read as CSV, or a column of ``needed`` is not there.
        """
        frame, at = csv_frame(source, True, ",")
        frame = frame.with_columns(pl.all().str.strip_chars().replace({"": None}))
        for name in needed:
            if name not in frame.columns:
                raise source.fault(None, f"column {name}", "no such column", f"the columns {', '.join(needed)}")
        return cls(frame, at)

    def text(self, name: str) -> pl.Series:
        """A column of words of which every row has one.

        Raises
        ------
        TraceError
            A row has none.
        """
        values = self.frame[name]
        self._given(values, name, "a name")
        return values

    def number(self, name: str, least: float = 0, most: float = 2.0**62, *, gaps: bool = False) -> pl.Series:
        """A column of numbers, Int64 where all are whole.

        Parameters
        ----------
        name
            Of the column.
        least, most
            What the numbers may be.
        gaps
            Whether a row may have none.

        Raises
        ------
        TraceError
            A row has no number, or one out of range.
        """
        if not gaps:
            self._given(self.frame[name], name, "a number")
        values = numbers(self.frame[name], name, self.at)
        want = f"{least:g} or more" if most >= 2.0**62 else f"{least:g} to {most:g}"
        refuse((values < least) | (values > most), values, name, self.at, want)
        return values

    def count(self, name: str, least: int, most: int = MOST) -> pl.Series:
        """Int64: a column of whole numbers.

        Raises
        ------
        TraceError
            As for :meth:`number`, or a number is not whole.
        """
        return whole(self.number(name, least, most), name, self.at)

    def rest(self, taken: Sequence[str]) -> list[pl.Series]:
        """The other columns, to be carried along; what they ask for in vain is counted."""
        return carried([self.frame[name] for name in self.frame.columns if name not in taken])

    def _given(self, values: pl.Series, name: str, want: str) -> None:
        refuse(values.is_null(), pl.Series(["nothing"]).new_from_index(0, len(values)), name, self.at, want)


def asked(quantity: str) -> str:
    """What the column of a quantity of GPUs is called in a frame of jobs."""
    return f"{DEVICE}{GPUS}.{quantity}"


SOLO, BESIDE = "solo", "collocation"
_NEEDED = ("kind", "application", "batch_size", "gpus", "time_s")


class Solo(NamedTuple):
    """A run time alone.

    Attributes
    ----------
    time_s
        At the best of the placements that were measured.
    gpus
        On how many GPUs it was measured: as many as asked, or the nearest number.
    """

    time_s: float
    gpus: int


@dataclass(frozen=True)
class MeasuredTimes:
    """Run times of jobs that are alone on their machine.

    Attributes
    ----------
    path
        The file they came from.
    solo
        Name of an application as of :func:`app_name` → number of GPUs → the least time in s of those measured.
    """

    path: str
    solo: Mapping[str, Mapping[int, float]]

    def best(self, app: str, gpus: int) -> Solo | None:
        """The time at the best placement; ``None`` where the application was not measured with that batch size.

        Of two numbers of GPUs that are as near, the smaller one counts.
        """
        measured = self.solo.get(app)
        if not measured:
            return None
        nearest = min(measured, key=lambda count: (abs(count - gpus), count))
        return Solo(measured[nearest], nearest)

    def known(self) -> str:
        """The applications that were measured, in words."""
        return ", ".join(sorted(self.solo)) or "nothing"


def read_times(path: str | os.PathLike[str] | Source) -> MeasuredTimes:
    """Read a file of measured times.

    Raises
    ------
    TraceError
        The file cannot be read, lacks a column, has a value that cannot be, or no time alone.
    """
    source = load(path)
    fields = Fields.of(source, _NEEDED)
    kinds = fields.text("kind")
    for row, kind in enumerate(kinds):
        if kind not in (SOLO, BESIDE):
            raise fields.at.fault(row, "kind", repr(kind), f"{SOLO} or {BESIDE}")
    apps = app_names(fields)
    gpus, times_s = fields.count("gpus", 1), fields.number("time_s")
    solo: dict[str, dict[int, float]] = {}
    for kind, app, count, time_s in zip(kinds, apps, gpus, times_s.cast(pl.Float64), strict=True):
        if kind == SOLO:
            measured = solo.setdefault(app, {})
            measured[count] = min(time_s, measured.get(count, time_s))
    if not solo:
        raise source.fault(None, "kind", f"no row of the kind {SOLO}", "measured times of applications alone")
    return MeasuredTimes(source.path, solo)


def app_names(fields: Fields) -> Sequence[str]:
    """The name of each row's application, of the columns ``application`` and ``batch_size``.

    Raises
    ------
    TraceError
        A row has no application, or no batch size of 1 or more.
    """
    batches = fields.count("batch_size", 1)
    return [app_name(name, size) for name, size in zip(fields.text("application"), batches, strict=True)]
