"""Lists with a layout of their own: their columns as numbers; what cannot be is refused with its line and column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from unrack.resources.gpus import GPUS
from unrack.workload.formats import DEVICE, MOST, Locator, Source, carried, csv_frame, numbers, refuse, whole

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
