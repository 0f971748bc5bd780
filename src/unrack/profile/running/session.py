"""A profile's runs: blocks of all levels in random order, with controls between, until the intervals are narrow.

What measures is handed in, so that the same session runs a real application and one of a known curve.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import pairwise

from unrack.errors import RunError
from unrack.profile.application import Application
from unrack.profile.axes.axis import AxisFile, Level, label_of, number
from unrack.profile.fitting.estimates import Estimate, drift_of, estimates_of
from unrack.profile.running.records import Records, Refused, Run

Measure = Callable[[Level | None], Run]
"""Runs the application once at a level (``None``: a control); which block and so on is filled in by the session."""
Bench = Callable[[AxisFile], AbstractContextManager[Measure]]
"""Sets up what an axis needs."""
MISSES = 2
"""So often may a level be missed, then the runs stop."""


@dataclass(frozen=True)
class State:
    """How far it is."""

    axis: str
    block: int
    level: str  # what is run now
    runs: int  # so far
    widest: float  # the widest half of an interval; infinite at first


def run_session(
    application: Application,
    records: Records,
    bench: Bench,
    add: Callable[[Run | Refused], None],
    tell: Callable[[State], None] = lambda _: None,
) -> Records:
    """Run what is missing, axis by axis; returns all records.

    Parameters
    ----------
    records
        Of earlier sittings; a block that was begun is finished.
    add
        Keeps a record, durably.

    Raises
    ------
    RunError
        The controls drifted, or a level was not held; what was run is kept, and blocks that drifted do not count.
    """
    session = _Session(application, records, add, tell)
    for axis in application.axes:
        while session.refuse_drift(axis):  # of a sitting that was interrupted before it could
            pass
        if session.left(axis)[1]:
            with bench(axis) as measure:
                session.run_axis(axis, measure)
    return session.records


class _Session:
    def __init__(
        self,
        application: Application,
        records: Records,
        add: Callable[[Run | Refused], None],
        tell: Callable[[State], None],
    ) -> None:
        self._application, self._file = application, application.file
        self.records, self._add, self._tell = records, add, tell
        self._sitting, self._order, self._widest = records.sittings, 0, float("inf")

    def left(self, axis: AxisFile) -> tuple[int, list[Level]]:
        """The block to run now, and its levels in order; without levels no runs are missing.

        What a block has follows from the runs before it, so that one that was interrupted ends as it would have.
        """
        last = max((run.block for run in self.records.runs if run.axis == axis.label), default=-1)
        for block in range(max(0, last), last + 2):
            own = [run for run in self.records.of(axis.label) if run.block == block]
            if block == last and not own:
                continue  # it was refused
            order = self._active(axis, [run for run in self.records.of(axis.label) if run.block < block])
            random.Random(f"{self._file.seed}, {axis.label}, {block}").shuffle(order)
            if left := [level for level in order if level not in {run.level for run in own}]:
                return block, left
        return last + 1, []

    def run_axis(self, axis: AxisFile, measure: Measure) -> None:
        """Run blocks until no level asks for more."""
        for _ in range(self._file.warm_up):
            measure(None)
        while (left := self.left(axis))[1]:
            block, levels = left
            self._run(axis, block, None, measure)
            for level in levels:
                self._run(axis, block, level, measure)
                self._run(axis, block, None, measure)
            if why := self.refuse_drift(axis):
                raise RunError(
                    f"axis {axis.label}, {why}, and {self._file.drift:.0%} are allowed; the runs are kept, "
                    "and those of this block do not count. Run it again on a quieter machine"
                )

    def _run(self, axis: AxisFile, block: int, level: Level | None, measure: Measure) -> None:
        self._tell(State(axis.label, block, label_of(level), len(self.records.runs), self._widest))
        found = measure(level)
        run = replace(found, axis=axis.label, block=block, sitting=self._sitting, order=self._order, level=level)
        self._order += 1
        self._add(run)
        self.records = replace(self.records, runs=(*self.records.runs, run))
        missed = [one for one in self.records.of(axis.label)
                  if one.level == level and not one.held and one.sitting == self._sitting]  # fmt: skip
        if len(missed) >= MISSES:
            got = "" if run.reached is None else f": {run.reached:.4g} of {run.wanted:.4g} ({run.source})"
            raise RunError(
                f"axis {axis.label}, level {label_of(level)}: not held, {len(missed)} times{got}; the runs are kept, "
                "and those that missed do not count"
            )

    def refuse_drift(self, axis: AxisFile) -> str:
        """Refuse the block that is furthest off, if that is too far: which, and why; empty: none is."""
        found = drift_of(self.records.of(axis.label))
        off, block = max(((off, block) for block, off in found.items()), default=(0.0, 0))
        if off <= self._file.drift:
            return ""
        refused = Refused(axis.label, block, f"controls drifted by {off:.1%}")
        self._add(refused)
        self.records = replace(self.records, refused=(*self.records.refused, refused))
        return f"block {block}: {refused.why}"

    def _active(self, axis: AxisFile, runs: list[Run]) -> list[Level]:
        """The levels that need more runs than these; where none does and the axis names an error, perhaps a new one."""
        levels = levels_of(axis, runs)
        found = {one.level: one for one in estimates_of(runs, levels, self._application.confidence)}
        self._widest = max((one.half for one in found.values()), default=float("inf"))
        active = [level for level in levels if level not in found or self._asks(found[level])]
        if not active and axis.error is not None and len(levels) < axis.most_levels:
            new = level_to_add(axis, [found[level] for level in levels])
            active = [] if new is None else [new]
        return active

    def _asks(self, one: Estimate) -> bool:
        wide = one.half > self._file.width
        return one.runs < self._file.most_repeats and (wide or one.runs not in self._application.looks)


def levels_of(axis: AxisFile, runs: Sequence[Run]) -> list[Level]:
    """The levels of an axis: those of its file, and those that were added while it was measured."""
    return list(dict.fromkeys((*axis.points, *(run.level for run in runs if run.level is not None))))


def level_to_add(axis: AxisFile, found: list[Estimate]) -> Level | None:
    """A level next to the one that its neighbours predict worst; ``None``: all are predicted well enough.

    It is put into the middle of the wider gap beside that level. The controls count as a level if they have a number.
    """
    assert axis.error is not None
    points = sorted((number(one.level), one.speed, one.half) for one in found)
    if axis.origin is not None:
        points = sorted([*points, (axis.origin, 1.0, 0.0)])
    worst, place = 0.0, -1
    for i in range(1, len(points) - 1):
        (x0, y0, _), (x, y, half), (x1, y1, _) = points[i - 1 : i + 2]
        off = abs(y0 + (y1 - y0) * (x - x0) / (x1 - x0) - y)
        if off > axis.error + half * y and off > worst:
            worst, place = off, i
    if place < 0:
        return None
    left, right = pairwise(points[place - 1 : place + 2])
    low, high = max((left, right), key=lambda pair: (pair[1][0] - pair[0][0], -pair[0][0]))
    return round((low[0] + high[0]) / 2, 9)
