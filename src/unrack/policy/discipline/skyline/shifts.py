"""Levels of a skyline whose jobs end at other times than they were to, as others share their devices."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES
from unrack.ledger.names import CPU, MEM
from unrack.policy.discipline.skyline.columns import Columns


def change(free: Ints, left: Ints, slot: Ints, rows: Ints, claims: Ints, sign: int) -> None:
    """Give back (1) or take (-1) rows and claims.

    Parameters
    ----------
    free : int64[…, 2, nodes]
        Free cores and MB, at one moment or several.
    left : int64[…, slots]
        What is free of places then.
    slot : int64[places]
        The slot of each place; -1: nobody holds any of it at any time.
    """
    for row in rows.tolist():
        nodes = slice(row[FIRST], row[FIRST] + row[NODES])
        free[..., CPU, nodes] += sign * row[CORES]
        free[..., MEM, nodes] += sign * row[LOCAL_MB]
    for place, amount in claims.tolist():
        if slot[place] >= 0:
            left[..., slot[place]] += sign * amount


class Shifted:
    """The steps of a skyline, changed in place; :meth:`undo` makes them as they were.

    Parameters
    ----------
    columns
        With room for two steps more for each change.
    steps
        How many there are.
    """

    def __init__(self, columns: Columns, steps: int) -> None:
        self.columns, self.steps = columns, steps
        self._before = columns.times[:steps].copy(), columns.level[:steps].copy()

    def undo(self) -> None:
        """All steps are as they were."""
        self.steps = len(self._before[0])
        self.columns.times[: self.steps], self.columns.level[: self.steps] = self._before

    def add(self, start_us: int, end_us: int, rows: Ints, claims: Ints, sign: int) -> None:
        """Give back (1) or take (-1) rows and claims from one time to another, µs."""
        a, b = self._step(start_us), self._step(end_us)
        level, first = self.columns.level, self.columns.total.shape[2]
        change(level[a:b, :, :first], level[a:b, CPU, first:], self.columns.slot, rows, claims, sign)

    def fits(self, start_us: int, end_us: int, rows: Ints, claims: Ints) -> bool:
        """Whether rows and claims are free from one time to another, and nothing is taken twice at any."""
        self.add(start_us, end_us, rows, claims, -1)
        enough = bool((self.columns.level[: self.steps] >= 0).all())
        self.add(start_us, end_us, rows, claims, 1)
        return enough

    def _step(self, time: int) -> int:
        times, level = self.columns.times, self.columns.level
        at = int(np.searchsorted(times[: self.steps], time))
        if at == self.steps or times[at] != time:
            times[at + 1 : self.steps + 1] = times[at : self.steps].copy()
            level[at + 1 : self.steps + 1] = level[at : self.steps].copy()
            times[at], level[at] = time, level[at - 1]
            self.steps += 1
        return at
