"""What was measured: values of every row at every point, a value a seed, and how they stand to the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from unrack import Estimate
from unrack_papers.options import Options
from unrack_papers.reproduction import Place, Quantity, Reproduction, Row, X
from unrack_papers.verdict import CHANCE, Ends, Looks, Verdict, interval, judge
from unrack_papers.within import Value, Within, mean_of

BOUND = Quantity("bound", "bound_missed_deadlines", 100, 2, "%")
"""Missed deadlines that no policy could avoid on the hardware of the row."""


class Compared(NamedTuple):
    """One number of the paper's table beside ours.

    Attributes
    ----------
    place, quantity
        Which number it is.
    paper
        As printed; ``None``: the paper gives none.
    ours
        Mean over the seeds with its 95 % interval, in the printed unit; ``None``: not defined on any seed.
    least, most
        Of the seeds.
    exact
        Nothing was drawn: the number is its own interval.
    chance
        Of a false verdict.
    """

    place: Place
    quantity: Quantity
    paper: float | None
    ours: Estimate | None
    least: float | None
    most: float | None
    exact: bool = False
    chance: float = CHANCE

    @property
    def interval(self) -> Ends | None:
        """The 95 % confidence interval of the mean; ``None`` with fewer than two seeds."""
        return interval(self.ours)

    @property
    def tolerance(self) -> float | None:
        """Up to which difference we agree: the quantity's tolerance and the paper's rounding."""
        if self.paper is None:
            return None
        own = max(self.quantity.tolerance, self.quantity.share * abs(self.paper))
        return own + 0.5 * 10.0**-self.quantity.decimals * (1 + 1e-9)

    @property
    def verdict(self) -> Verdict | None:
        """Whether we agree with the paper's value; ``None`` where either is missing."""
        if self.paper is None or self.ours is None or self.tolerance is None:
            return None
        ends = interval(self.ours, self.exact, self.chance)
        return judge(ends, ends, self.paper - self.tolerance, self.paper + self.tolerance)[0]

    @property
    def near(self) -> bool:
        """Whether the paper's value lies between our least and greatest seed, as that of a single run may."""
        if self.paper is None or self.least is None or self.most is None:
            return False
        half = 0.5 * 10.0**-self.quantity.decimals
        return self.least - half <= self.paper <= self.most + half

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper


@dataclass(frozen=True, eq=False)
class Measured:
    """The outcome of a reproduction.

    Attributes
    ----------
    reproduction
        What was run.
    options
        How.
    values
        (group, x, row) → for each seed: metric → value, ``None`` where it is not defined. Of a value that is known only
        within ends these stand beside it: see :func:`known_within`.
    chance
        Of a false verdict: what this look at the numbers may spend of it.
    looks
        When claims were looked at while seeds were added; ``None``: once, after as many as the options say.
    """

    reproduction: Reproduction
    options: Options
    values: Mapping[Place, Sequence[Mapping[str, float | None]]]
    chance: float = CHANCE
    looks: Looks | None = None

    @cached_property
    def _quantities(self) -> dict[str, Quantity]:
        return {quantity.label: quantity for quantity in (*self.reproduction.quantities, BOUND)}

    def quantity(self, label: str) -> Quantity:
        """The quantity with this label."""
        return self._quantities[label]

    def each(self, place: Place, label: str) -> list[Value | None]:
        """A quantity at a place, a value a seed, in the printed unit."""
        quantity = self.quantity(label)
        found = (_known(values, quantity.metric) for values in self.values.get(place, ()))
        return [None if value is None else value * quantity.factor for value in found]

    def at(self, place: Place, label: str) -> Estimate | None:
        """The mean of a quantity at a place, in the printed unit."""
        return mean_of(self.each(place, label))

    def gaps(self, more: Place, less: Place, label: str, share: float = 1.0) -> list[Value | None]:
        """``share`` × ``more`` - ``less``, a value a seed; empty where either was not run."""
        if not (self.values.get(more) and self.values.get(less)):
            return []
        pairs = zip(self.each(more, label), self.each(less, label), strict=True)
        return [None if a is None or b is None else share * a - b for a, b in pairs]

    def gap(self, more: Place, less: Place, label: str, share: float = 1.0) -> Estimate | None:
        """The mean of ``share`` × ``more`` - ``less``, seed by seed: both ran the same jobs, so noise cancels."""
        return mean_of(self.gaps(more, less, label, share))

    def compared(self, place: Place, label: str) -> Compared:
        """A number of the paper's table beside ours."""
        quantity = self.quantity(label)
        there = (value.get(quantity.metric) for value in self.values.get(place, ()))
        seeds = [value * quantity.factor for value in there if value is not None and math.isfinite(value)]
        paper = self.reproduction.printed.get(place, {}).get(label)
        least, most = (min(seeds), max(seeds)) if seeds else (None, None)
        ours, exact = self.at(place, label), self.reproduction.exact
        return Compared(place, quantity, paper, ours, least, most, exact, self.chance)

    def cells(self) -> Iterator[Compared]:
        """Every number, in the order of points, rows and quantities; the bound last in each row.

        A place that was derived has only the quantities that are there.
        """
        labels = [quantity.label for quantity in self.reproduction.quantities]
        bounded = self.bounded
        run = {(point.group, point.x, row.name) for point in self.reproduction.points for row in point.rows}
        for place in self.values:
            for label in [*labels, *([BOUND.label] if bounded and BOUND.label not in labels else [])]:
                found = self.compared(place, label)
                if place in run or found.ours is not None or found.paper is not None:
                    yield found

    @property
    def bounded(self) -> bool:
        """Whether there is a bound on missed deadlines anywhere."""
        return any(seed.get(BOUND.metric) is not None for seeds in self.values.values() for seed in seeds)

    @property
    def groups(self) -> tuple[str, ...]:
        """The panels, in order; those that were derived last."""
        run = [point.group for point in self.reproduction.points]
        return tuple(dict.fromkeys([*run, *(group for group, _, _ in self.values)]))

    def xs(self, group: str) -> tuple[X, ...]:
        """The places on the axis of a panel, in order."""
        run = [point.x for point in self.reproduction.points if point.group == group]
        return tuple(dict.fromkeys(run or [x for own, x, _ in self.values if own == group]))

    def rows(self, group: str) -> tuple[Row, ...]:
        """The rows of a panel, in order."""
        points = self.reproduction.points
        own = {row.name: row for point in points if point.group == group for row in point.rows}
        if not own:
            derived = {name for group_, _, name in self.values if group_ == group}
            own = {row.name: row for point in points for row in point.rows if row.name in derived}
        return tuple(own.values())

    def of_the_paper(self) -> Measured:
        """The paper's own values in place of ours, as exact, to judge its claims by its own numbers."""
        values = {
            place: ({self.quantity(label).metric: value / self.quantity(label).factor for label, value in row.items()},)
            for place, row in self.reproduction.printed.items()
        }
        return Measured(replace(self.reproduction, exact=True), self.options, values)

    def titled(self, group: str) -> str:
        """A panel with its words."""
        words = self.reproduction.groups.get(group)
        return f"{group}, {words}" if words else group

    @property
    def without_window(self) -> int:
        """How many pairs of point and seed never reached the load at which measuring starts, and are left out."""
        firsts = [self.values[point.group, point.x, point.rows[0].name] for point in self.reproduction.points]
        return sum(not seed for seeds in firsts for seed in seeds)


ENDS = ("at least", "at most")
"""After the name of a metric and a dot: what its value lies within, where it was not seen itself."""


def known_within(metric: str, value: Value) -> dict[str, float | None]:
    """A value by the name of its metric, and what it is known to lie within.

    Examples
    --------
    >>> known_within("least", Within(1.0, 1.0, 2.0))
    {'least': 1.0, 'least.at least': 1.0, 'least.at most': 2.0}
    """
    if not isinstance(value, Within):
        return {metric: value}
    low, high = (f"{metric}.{end}" for end in ENDS)
    return {metric: value.shown, low: value.low, high: value.high}


def _known(values: Mapping[str, float | None], metric: str) -> Value | None:
    value = values.get(metric)
    low, high = (values.get(f"{metric}.{end}") for end in ENDS)
    return value if value is None or low is None or high is None else Within(value, low, high)
