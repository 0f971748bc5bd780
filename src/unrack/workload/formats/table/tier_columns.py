"""The columns of a table that ask for tiers of memory: ``local``, ``ceiling``, ``group``, ``spread``, ``forbidden``.

Unlike other odd values, which follow rules that are counted, what is wrong here is refused: a floor that is dropped, or
a replica that is not kept apart, would be a promise broken in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from unrack.workload.formats.quantities import MOST_MB, amounts, refuse
from unrack.workload.formats.source import Locator
from unrack.workload.tier_asks import NO_CEILING, first_fault, tier_asks

LIMITS = ("local", "ceiling")
WORDS = ("group", "spread", "forbidden")


@dataclass(frozen=True)
class TierColumns:
    """The columns that a table has of them.

    Attributes
    ----------
    at
        Where the rows are.
    called
        Our name → what the column is called, in errors.
    limits
        ``local`` and ``ceiling``: the numbers, defaults filled in.
    factors
        The same: MB in one unit.
    words
        ``group``, ``spread`` and ``forbidden``: the text, null = none.
    default_spread
        Of groups without a word about it.
    """

    at: Locator
    called: Mapping[str, str]
    limits: Mapping[str, pl.Series]
    factors: Mapping[str, Fraction]
    words: Mapping[str, pl.Series]
    default_spread: str | None

    def asks(self, tasks: pl.Series, memory: pl.Series | None) -> dict[str, pl.Series]:
        """The columns checked, ``local`` in MB rounded up and ``ceiling`` down; empty where no job asks anything.

        Parameters
        ----------
        tasks
            Of each row; null = not given.
        memory
            In MB, not yet freed of negative amounts; ``None`` = not given.

        Raises
        ------
        TraceError
            A negative amount, a floor above the memory, a number of tasks other than 1, or a group whose servers differ
            in their spread; the error names the line and the field.
        """
        made = {ours: self._whole(ours, values) for ours, values in self.limits.items()} | dict(self.words)
        made = {ours: values for ours, values in made.items() if values.null_count() < len(values)}
        if not made:
            return {}
        if self.default_spread is not None and "group" in made:
            spread = made.get("spread", made["group"].clear(len(tasks)))
            made["spread"] = spread.set(spread.is_null() & made["group"].is_not_null(), self.default_spread)
        count = len(tasks)
        held = np.zeros(count, np.int64) if memory is None else memory.fill_null(0).to_numpy()
        if (held < 0).any():
            row = int(np.argmax(held < 0))
            raise self.at.fault(row, self.called["memory"], f"{held[row]} MB", "0 MB or more")
        asks = tier_asks(
            made["local"].fill_null(0).to_numpy() if "local" in made else np.zeros(count, np.int64),
            made["ceiling"].fill_null(NO_CEILING).to_numpy() if "ceiling" in made else None,
            group=made.get("group"),
            spread=made.get("spread"),
            forbidden=made.get("forbidden"),
        )
        if (fault := first_fault(asks, tasks.fill_null(1).to_numpy(), held)) is not None:
            raise self.at.fault(fault.row, self.called[fault.field], fault.got, fault.want)
        return made

    def _whole(self, ours: str, values: pl.Series) -> pl.Series:
        """Int64 MB; what is too much to be an amount is refused."""
        factor, called = self.factors[ours], self.called[ours]
        refuse(values < 0, values, called, self.at, "0 or more", promise=True)
        refuse(
            values >= float(MOST_MB / factor),
            values,
            called,
            self.at,
            f"below {float(MOST_MB / factor):g}",
            promise=True,
        )
        return (
            amounts(values, called, self.at, factor) if ours == "local" else -amounts(-values, called, self.at, factor)
        )
