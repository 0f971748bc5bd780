"""The columns of a CSV or Parquet table as unrack's columns: units, factors, defaults and timestamps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from unrack.cluster.pools.pool import WHOLE
from unrack.units import SECOND_US
from unrack.workload.formats.asks.columns import COLUMNS as KEPT
from unrack.workload.formats.asks.columns import TEXT, TIME
from unrack.workload.formats.intake import ASK, DEVICE, EXTRA, asks_of, unheeded
from unrack.workload.formats.quantities import MOST_MB, amounts, numbers, refuse, said, times_us, typed, whole
from unrack.workload.formats.source import Locator
from unrack.workload.tier_asks import first_fault

LIMITS = ("local", "ceiling")
WORDS = ("group", "spread", "forbidden")
OF_JOBS = ("submit", "start", "end", "run", "request", "deadline", "ran")
TIMES = (*OF_JOBS, *(name for name, one in KEPT.items() if one.kind == TIME))
NAMES = ("id", "user", "app")
ON = "on"
TEXTS = (*NAMES, *WORDS, ON, *(name for name, one in KEPT.items() if one.kind == TEXT))
COLUMNS = ("id", *OF_JOBS, "tasks", "cores", "memory", *LIMITS, *WORDS, "priority", "user", "app", ON, *KEPT)
"""What a column can be mapped to, besides ``KIND.QUANTITY`` for a device demand."""

_TRUTHS = {
    written: number
    for word, number in (("true", "1"), ("yes", "1"), ("false", "0"), ("no", "0"))
    for written in (word, word.capitalize(), word.upper())
}
LOG_WAIT = "log_wait_s"
_CLOCK = ("submit", "start", "end", "deadline", "begin_s")
_ISO = "a time (a number, or a timestamp such as 2024-05-31 13:59:00)"


def carried(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Columns that are nothing of ours, to be carried along; what they ask for in vain is counted."""
    kept = [typed(one) if one.dtype == pl.String else one for one in columns]
    return [*(one.alias(EXTRA + one.name) for one in kept), *unheeded(columns)]


@dataclass(frozen=True)
class TableColumns:
    """A table and how to read it."""

    # frame, at: the table, and where its rows are
    frame: pl.DataFrame
    at: Locator
    columns: Mapping[str, str]  # our name → the table's column
    defaults: Mapping[str, float | str]  # our name → the value where the column or its entry is missing
    scale: Mapping[str, Fraction]  # our name → factor on the numbers
    # time_us, memory_mb: one unit of time in µs, one unit of memory in MB
    time_us: Fraction
    memory_mb: Fraction
    memory_per: str  # ``"task"``, ``"core"`` or ``"job"``
    units: Mapping[str, Fraction]  # our name → µs or MB in one unit of that column, where its own name states the unit
    relative: bool  # deadlines are counted from the submission

    def jobs(self) -> list[pl.Series]:
        """The columns that :func:`unrack.workload.formats.intake.workload` takes."""
        made = self._times()
        tasks, cores = self._size("tasks"), self._size("cores").fill_null(1)
        made |= {"tasks": tasks, "cores": cores}
        unclipped = None
        if (memory := self._numbers("memory")) is not None:
            if self.memory_per == "core":
                too_much = memory.cast(pl.Float64) * cores >= 2.0**62
                refuse(too_much, memory, self._called("memory"), self.at, "less than 4 EB")
                memory = memory * cores
            elif self.memory_per == "job":
                memory = memory / tasks.clip(lower_bound=1)
            unclipped = self._amount(memory, "memory")
            made["memory_mb"] = unclipped.set((unclipped < 0).fill_null(False), None)
        made |= {ASK + ours: values for ours, values in self._asks(tasks, unclipped).items()}
        if (priority := self._numbers("priority", truths=True)) is not None:
            made["priority"] = whole(priority, self._called("priority"), self.at, most=2**53)
        for ours in sorted({*self.columns, *self.defaults}):
            if "." in ours and (values := self._numbers(ours)) is not None:
                counted = ours.endswith(f".{WHOLE}")
                amount = self._whole(values, ours) if counted else self._amount(values, ours)
                made[DEVICE + ours] = amount.clip(lower_bound=0)
        for ours in NAMES:
            if (names := self._names(ours)) is not None:
                made[ours] = names
        made |= self._on() | self._kept()
        return [values.alias(name) for name, values in made.items()]

    def _called(self, ours: str) -> str:
        return self.columns.get(ours, f"default of {ours}")

    def _constant(self, value: object) -> pl.Series:
        return pl.Series([value]).new_from_index(0, self.frame.height)

    def _numbers(self, ours: str, *, truths: bool = False) -> pl.Series | None:
        """A column as numbers with defaults filled in, or ``None`` where there is neither.

        With ``truths``, true and false (and yes and no) count as 1 and 0.
        """
        values = None
        if ours in self.columns:
            values = self.frame[self.columns[ours]]
            if values.dtype == pl.String:
                values = said(values)
                if truths:
                    values = values.replace(_TRUTHS)
            elif truths and values.dtype == pl.Boolean:
                values = values.cast(pl.Int64)
            values = numbers(values, self.columns[ours], self.at, nan_is_missing=True)
        if ours not in self.defaults:
            return values
        nowhere = Locator(self.at.source, lambda row: None)
        default = numbers(pl.Series([self.defaults[ours]]), f"default of {ours}", nowhere)[0]
        return self._constant(default) if values is None else values.fill_null(default)

    def _times(self) -> dict[str, pl.Series]:
        times = {ours: values for ours in OF_JOBS if (values := self._time(ours)) is not None}
        if "run" not in times:
            times["run"] = times["end"] - times.get("start", times["submit"])
        made = {"submit_us": times["submit"], "work_us": times["run"]}
        if self.relative and "deadline" in times:
            since = times["deadline"]
            times["deadline"] = (since + times["submit"]).set((since < 0).fill_null(False), None)
        made |= {f"{ours}_us": times[ours] for ours in ("request", "deadline") if ours in times}
        if "start" in times and LOG_WAIT not in self.frame.columns:  # which tables of runs have, of their own trace
            wait_s = (times["start"] - times["submit"]) / 1e6
            made[EXTRA + LOG_WAIT] = wait_s.set(wait_s < 0, None)
        return made

    def _time(self, ours: str) -> pl.Series | None:
        """µs: a number of units, a timestamp (µs since 1970 UTC), or a native duration."""
        if ours not in self.columns and ours not in self.defaults:
            return None
        values = self.frame[self.columns[ours]] if ours in self.columns else None
        if values is not None and ours in _CLOCK and not (ours == "deadline" and self.relative):
            stamps = self._stamps(values, ours)
            if stamps is not None:
                return stamps
        if values is not None and values.dtype == pl.Duration:
            return values.dt.total_microseconds()
        amount = self._numbers(ours)
        assert amount is not None
        own = Fraction(SECOND_US) if self.columns.get(ours) == ours in KEPT else self.time_us  # begin_s is in s
        unit_us = self.units.get(ours, own)
        return times_us(amount, self._called(ours), self.at, unit_us * self.scale.get(ours, 1))

    def _stamps(self, values: pl.Series, ours: str) -> pl.Series | None:
        if values.dtype == pl.String:
            text = said(values)
            shown = text.drop_nulls()
            if not len(shown) or "-" not in shown[0][1:] or "e-" in shown[0].lower():
                return None
            parsed = text.str.replace("T", " ", literal=True).str.replace(r"Z$", "+00:00").str.replace(r"[.]0*$", "")
            zoned = parsed.str.contains(r"[+-]\d\d:?\d\d$").fill_null(False)
            whole_day = parsed.str.contains(r"^\S+$").fill_null(False)
            values = pl.select(
                pl.when(zoned)
                .then(parsed.str.to_datetime("%Y-%m-%d %H:%M:%S%.f%#z", strict=False, time_unit="us", time_zone="UTC"))
                .when(whole_day)
                .then(parsed.str.to_datetime("%Y-%m-%d", strict=False, time_unit="us").dt.replace_time_zone("UTC"))
                .otherwise(
                    pl.coalesce(
                        parsed.str.to_datetime(form, strict=False, time_unit="us")
                        for form in ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M")
                    ).dt.replace_time_zone("UTC")
                )
            ).to_series()
            refuse(values.is_null() & text.is_not_null(), text, self.columns[ours], self.at, _ISO)
        if isinstance(values.dtype, (pl.Datetime, pl.Date)):
            return values.dt.epoch("us")
        return None

    def _size(self, ours: str) -> pl.Series:
        values = self._numbers(ours)
        return self._constant(1) if values is None else self._whole(values, ours)

    def _whole(self, values: pl.Series, ours: str) -> pl.Series:
        """A column that counts: whole numbers, or rounded up where they are scaled."""
        if ours in self.scale:
            return whole(amounts(values, self._called(ours), self.at, self.scale[ours]), self._called(ours), self.at)
        return whole(values, self._called(ours), self.at)

    def _amount(self, values: pl.Series, ours: str) -> pl.Series:
        return amounts(values, self._called(ours), self.at, self._factor(ours))

    def _factor(self, ours: str) -> Fraction:
        """How many of what is kept one unit of a column is."""
        unit = self.memory_mb if ours in ("memory", *LIMITS) else Fraction(1)
        return self.units.get(ours, unit) * self.scale.get(ours, 1)

    def _asks(self, tasks: pl.Series, memory: pl.Series | None) -> dict[str, pl.Series]:
        """What is asked of tiers, ``local`` in MB rounded up and ``ceiling`` down; empty where no job asks anything.

        ``memory``: in MB, not yet freed of negative amounts; ``None`` = not given.
        """
        limits = {ours: values for ours in LIMITS if (values := self._numbers(ours)) is not None}
        made = {ours: self._limit(ours, values) for ours, values in limits.items()}
        for ours in WORDS:
            text = self._text(ours) if ours in self.columns else None
            if (words := text if ours == "spread" else self._with_default(ours, text)) is not None:
                made[ours] = words
        made = {ours: values for ours, values in made.items() if values.null_count() < len(values)}
        if not made:
            return {}
        default_spread = self.defaults.get("spread")
        if default_spread is not None and "group" in made:
            spread = made.get("spread", made["group"].clear(len(tasks)))
            made["spread"] = spread.set(spread.is_null() & made["group"].is_not_null(), str(default_spread))
        count = len(tasks)
        held = np.zeros(count, np.int64) if memory is None else memory.fill_null(0).to_numpy()
        if (held < 0).any():
            row = int(np.argmax(held < 0))
            raise self.at.fault(row, self._called("memory"), f"{held[row]} MB", "0 MB or more")
        if (fault := first_fault(asks_of(made, count), tasks.fill_null(1).to_numpy(), held)) is not None:
            raise self.at.fault(fault.row, self._called(fault.field), fault.got, fault.want)
        return made

    def _limit(self, ours: str, values: pl.Series) -> pl.Series:
        """Int64 MB; what is too much to be an amount is refused."""
        factor, called = self._factor(ours), self._called(ours)
        most = float(MOST_MB / factor)
        refuse(values < 0, values, called, self.at, "0 or more", promise=True)
        refuse(values >= most, values, called, self.at, f"below {most:g}", promise=True)
        if ours == "local":
            return amounts(values, called, self.at, factor)
        return -amounts(-values, called, self.at, factor)

    def _on(self) -> dict[str, pl.Series]:
        """The nodes of jobs that run at the start, and for how long these have run; nothing: no job does."""
        if ON not in self.columns or (on := self._text(ON)).null_count() == len(on):
            return {}
        ran = self._time("ran")
        line = pl.Series([self.at.line_of(row) or 0 for row in range(self.frame.height)], dtype=pl.Int64)
        return {"on": on, "ran_us": self._constant(0) if ran is None else ran.fill_null(0), "line": line}

    def _kept(self) -> dict[str, pl.Series]:
        """Where and when jobs may run, after which others and for which user."""
        made: dict[str, pl.Series | None] = {}
        for ours in (name for name in KEPT if name in self.columns or name in self.defaults):
            if KEPT[ours].kind == TEXT:
                made[ours] = self._with_default(ours, self._text(ours) if ours in self.columns else None)
            elif KEPT[ours].kind == TIME:
                time = self._time(ours)
                made[ours] = None if time is None else time / 1e6
            elif (number := self._numbers(ours)) is not None:
                made[ours] = self._whole(number, ours)
        return {EXTRA + ours: values for ours, values in made.items() if values is not None}

    def _text(self, ours: str) -> pl.Series:
        """A column of words; those that say that there is none are null."""
        return said(self.frame[self.columns[ours]].cast(pl.String))

    def _names(self, ours: str) -> pl.Series | None:
        values = None
        if ours in self.columns:
            values = self.frame[self.columns[ours]]
            if values.dtype == pl.String:
                values = typed(values)
            elif values.dtype.is_integer():
                values = numbers(values, self.columns[ours], self.at)
            else:
                values = values.cast(pl.String)
        return values if ours == "id" else self._with_default(ours, values)

    def _with_default(self, ours: str, words: pl.Series | None) -> pl.Series | None:
        """Words with the default in their gaps, if there is one, or in place of the column."""
        if ours not in self.defaults:
            return words
        default = str(self.defaults[ours])
        return self._constant(default) if words is None else words.cast(pl.String).fill_null(default)
