"""Columns of Slurm's text as numbers; every refusal names the line and the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from unrack.slurm_text.times import moment_s, span_s
from unrack.slurm_text.tres import Memory, memory
from unrack.workload.formats.quantities import MOST, shown
from unrack.workload.formats.source import Locator

_STAMP = "%Y-%m-%dT%H:%M:%S"
_UNSAID = ("unknown", "n/a", "none", "(null)", "none assigned")


class Columns:
    """The columns of a frame of text, each made into something else by a function of one entry.

    Attributes
    ----------
    frame, at
        The text, and where its rows are.
    """

    def __init__(self, frame: pl.DataFrame, at: Locator) -> None:
        self.frame, self.at = frame, at

    def __contains__(self, name: str) -> bool:
        return name in self.frame.columns

    def text(self, name: str) -> pl.Series:
        """A column of text; nulls where there is none or it says nothing."""
        if name not in self.frame.columns:
            return pl.Series(name, [None], pl.String).new_from_index(0, self.frame.height)
        values = self.frame[name]
        return values.set(values.str.to_lowercase().is_in(_UNSAID).fill_null(False), None)

    def made(self, name: str, parse: Callable[[str], Any]) -> dict[str, Any]:
        """Entry → what it says, of all different entries of a column.

        Raises
        ------
        TraceError
            ``parse`` raised a ValueError on an entry; the error is about the first line with such a one.
        """
        found: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        values = self.text(name)
        for entry in values.drop_nulls().unique().to_list():
            try:
                found[entry] = parse(entry)
            except ValueError as error:
                wrong[entry] = str(error)
        if wrong:
            rows = values.is_in(list(wrong)).fill_null(False).arg_true().to_list()
            entry = values[rows[0]]
            raise self.at.faults(rows, name, shown(entry), wrong[entry].rpartition(" is not ")[2])
        return found

    def column(self, name: str, parse: Callable[[str], Any], kind: type[pl.DataType] | pl.DataType) -> pl.Series:
        """A column of what its entries say; null = not said."""
        return self.looked_up(name, self.made(name, parse), kind)

    def looked_up(self, name: str, found: dict[str, Any], kind: type[pl.DataType] | pl.DataType) -> pl.Series:
        """A column of what its entries say, by a table of all entries."""
        said = {entry: value for entry, value in found.items() if value is not None}
        values = self.text(name)
        return values.replace_strict(list(said), list(said.values()), default=None, return_dtype=kind)

    def by_name(self, name: str, found: Mapping[str, Mapping[str, int]]) -> dict[str, pl.Series]:
        """Name → how many, where each entry says how many there are under some names."""
        names = sorted({one for said in found.values() for one in said})
        return {
            one: self.looked_up(name, {entry: said.get(one) for entry, said in found.items()}, pl.Int64)
            for one in names
        }

    def whole(self, name: str) -> pl.Series:
        """Int64: whole numbers, such as ``16`` or ``2K``, or the least of ``2-4``; 0 and null = not said."""
        values = self.column(name, _whole, pl.Int64)
        return values.set(values == 0, None)

    def moment_us(self, name: str) -> pl.Series:
        """Int64 µs since 1970."""
        values = self.text(name)
        stamps = values.str.to_datetime(_STAMP, strict=False, time_unit="us").dt.epoch("us")
        rest = Columns(pl.DataFrame({name: values.set(stamps.is_not_null(), None)}), self.at)
        return stamps.fill_null(rest.column(name, moment_s, pl.Int64) * 1_000_000)

    def span_us(self, name: str) -> pl.Series:
        """Int64 µs of a span such as ``1-02:03:04``; null = not known or without end."""
        return (self.column(name, _span, pl.Float64) * 1e6).round().cast(pl.Int64)

    def seconds_us(self, name: str) -> pl.Series:
        """Int64 µs of a number of seconds."""
        return self.column(name, _seconds, pl.Int64) * 1_000_000

    def memories(self, name: str, unit: str = "M") -> dict[str, Memory | None]:
        """Entry → how much memory, of all different entries."""
        return self.made(name, lambda entry: memory(entry, unit))


def first_said(*columns: pl.Series) -> pl.Series:
    """The values of the first of some columns that has one, row by row."""
    return pl.select(pl.coalesce(*columns)).to_series()


def _span(entry: str) -> float | None:
    span = span_s(entry)
    if span is not None and span > 2**31:
        raise ValueError("a time of up to 68 years")
    return span


def _seconds(entry: str) -> int:
    if not (entry.isascii() and entry.isdigit() and len(entry) < 11):
        raise ValueError("a whole number of seconds")
    return int(entry)


def _whole(entry: str) -> int:
    digits = entry.partition("-")[0]
    factor = {"K": 1000, "M": 1_000_000}.get(digits[-1:].upper(), 1)
    digits = digits if factor == 1 else digits[:-1]
    if not (digits.isascii() and digits.replace(".", "", factor > 1).isdigit() and len(digits) < 11):
        raise ValueError("a whole number")
    number = round(float(digits) * factor)
    if number > MOST:
        raise ValueError(f"up to {MOST}")
    return number
