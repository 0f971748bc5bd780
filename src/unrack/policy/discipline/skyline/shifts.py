"""Levels of a skyline with jobs that end at other times than they were to, as others share their devices."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES
from unrack.policy.discipline.skyline.columns import PlanColumns


def change(free: Ints, left: Ints, slot: Ints, rows: Ints, claims: Ints, sign: int) -> None:
    """Give back (1) or take (-1) rows and claims.

    Parameters
    ----------
    free : int64[…, 2, nodes]
        Free cores and MB, at one moment or several.
    left : int64[…, slots]
        What is free of places then.
    slot : int64[places]
        The slot of each place; -1: no job holds any of it at any time.
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

    def __init__(self, columns: PlanColumns, steps: int) -> None:
        self.columns, self.steps = columns, steps
        self._before = columns.times[:steps].copy(), columns.at[:steps].copy(), columns.level[:steps].copy()

    def undo(self) -> None:
        """All steps are as they were."""
        self.steps = len(self._before[0])
        for array, before in zip((self.columns.times, self.columns.at, self.columns.level), self._before, strict=True):
            array[: self.steps] = before

    def add(self, start_us: int, end_us: int, rows: Ints, claims: Ints, sign: int) -> None:
        """Give back (1) or take (-1) rows and claims from one time to another, µs."""
        a, b = self._step(start_us), self._step(end_us)
        here, first = self.columns.at[a:b], self.columns.total.shape[2]
        level = self.columns.level[here]
        change(level[:, :, :first], level[:, CPU, first:], self.columns.slot, rows, claims, sign)
        self.columns.level[here] = level

    def fits(self, start_us: int, end_us: int, rows: Ints, claims: Ints) -> bool:
        """Whether rows and claims are free from one time to another, and nothing is taken twice at any."""
        self.add(start_us, end_us, rows, claims, -1)
        enough = bool((self.columns.level[: self.steps] >= 0).all())
        self.add(start_us, end_us, rows, claims, 1)
        return enough

    def _step(self, time: int) -> int:
        times, at, level = self.columns.times, self.columns.at, self.columns.level
        k = int(np.searchsorted(times[: self.steps], time))
        if k == self.steps or times[k] != time:
            for column in (times, at):
                column[k + 1 : self.steps + 1] = column[k : self.steps].copy()
            times[k], at[k], level[self.steps] = time, self.steps, level[at[k - 1]]
            self.steps += 1
        return k
