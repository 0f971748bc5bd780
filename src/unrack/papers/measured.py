"""What was measured: values of every row at every point, a value a seed, and how they stand to the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from unrack.papers.options import Options
from unrack.papers.reproduction import Place, Quantity, Reproduction, Row, X
from unrack.papers.verdict import Verdict, interval, judge
from unrack.report.setting import Estimate, estimate

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
    """

    place: Place
    quantity: Quantity
    paper: float | None
    ours: Estimate | None
    least: float | None
    most: float | None
    exact: bool = False

    @property
    def interval(self) -> tuple[float, float] | None:
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
        return judge(self.ours, self.paper - self.tolerance, self.paper + self.tolerance, self.exact)[0]

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
        (group, x, row) → for each seed: metric → value, ``None`` where it is not defined.
    """

    reproduction: Reproduction
    options: Options
    values: Mapping[Place, Sequence[Mapping[str, float | None]]]

    @cached_property
    def _quantities(self) -> dict[str, Quantity]:
        return {quantity.label: quantity for quantity in (*self.reproduction.quantities, BOUND)}

    def quantity(self, label: str) -> Quantity:
        """The quantity with this label."""
        return self._quantities[label]

    def each(self, place: Place, label: str) -> list[float | None]:
        """A quantity at a place, a value a seed, in the printed unit."""
        quantity = self.quantity(label)
        found = (values.get(quantity.metric) for values in self.values.get(place, ()))
        return [None if value is None else value * quantity.factor for value in found]

    def at(self, place: Place, label: str) -> Estimate | None:
        """The mean of a quantity at a place, in the printed unit."""
        return estimate(self.each(place, label))

    def gaps(self, more: Place, less: Place, label: str, share: float = 1.0) -> list[float | None]:
        """``share`` × ``more`` - ``less``, a value a seed; empty where either was not run."""
        if not (self.values.get(more) and self.values.get(less)):
            return []
        pairs = zip(self.each(more, label), self.each(less, label), strict=True)
        return [None if a is None or b is None else share * a - b for a, b in pairs]

    def gap(self, more: Place, less: Place, label: str, share: float = 1.0) -> Estimate | None:
        """The mean of ``share`` × ``more`` - ``less``, seed by seed: both ran the same jobs, so noise cancels."""
        return estimate(self.gaps(more, less, label, share))

    def compared(self, place: Place, label: str) -> Compared:
        """A number of the paper's table beside ours."""
        quantity = self.quantity(label)
        seeds = [v for v in self.each(place, label) if v is not None and math.isfinite(v)]
        paper = self.reproduction.printed.get(place, {}).get(label)
        ours = estimate(seeds)
        least, most = (min(seeds), max(seeds)) if seeds else (None, None)
        return Compared(place, quantity, paper, ours, least, most, self.reproduction.exact)

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
            place: 2 * ({self.quantity(label).metric: value / self.quantity(label).factor
                         for label, value in row.items()},)
            for place, row in self.reproduction.printed.items()
        }  # fmt: skip
        return Measured(self.reproduction, self.options, values)

    def titled(self, group: str) -> str:
        """A panel with its words."""
        words = self.reproduction.groups.get(group)
        return f"{group}, {words}" if words else group

    @property
    def without_window(self) -> int:
        """How many pairs of point and seed never reached the load at which measuring starts, and are left out."""
        firsts = [self.values[point.group, point.x, point.rows[0].name] for point in self.reproduction.points]
        return sum(not seed for seeds in firsts for seed in seeds)
