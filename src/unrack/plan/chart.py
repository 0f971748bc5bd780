"""Cost against a goal: every system that was tried, and the ones that no other beats in both. SVG, no network.

A system is drawn at the value that decides: of the seed at which the share of seeds is reached or lost, or the mean
with its bounds. So a system that fails for this goal is on the wrong side of its line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from unrack.plan.decided import shown, values_text
from unrack.plan.goal import is_share, is_time
from unrack.report.charts.spec import colour_of
from unrack.units import time_unit

WIDTH, HEIGHT = 400, 300
LEFT, RIGHT, TOP, FOOT = 56, 16, 30, 46
"""Pixels, of a narrow screen: the picture grows with its words, so they overlap at no width."""
TICKS = 5
ORDERS = 30.0
"""Values that differ by more than this factor are on a logarithmic axis."""
CUT = 1000.0
"""Values below the goal by more than this factor are at the end of such an axis."""
LETTER, LINE = 7.0, 13.0
"""Pixels of a letter, on average, and of a line of words."""


class Point(NamedTuple):
    """A system in the picture: its cost, the value that decides, over which range, its line, and what it is."""

    cost: float
    value: float
    low: float
    high: float
    line: int
    verdict: str
    chosen: bool
    words: str
    label: str = ""


class Axis(NamedTuple):
    """From where to where, at which values there are words, and whether by factors."""

    low: float
    high: float
    ticks: tuple[float, ...]
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value is: 0 at the low end, 1 at the high one; what is below the low end is there."""
        value = min(max(value, self.low), self.high)
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def points_of(found: Mapping[str, Any], goal: int) -> list[Point]:
    """All systems of an answer that have a value for a goal; the answer and the one below it have a label."""
    points = []
    for at, line in enumerate(found["lines"]):
        chosen, below = (None if line[key] is None else line[key]["values"] for key in ("answer", "below"))
        for system in line["tried"]:
            own = system["goals"][goal]
            if own["value"] is None:
                continue
            words = (
                f"{line['policy']} on {line['cluster']}, {values_text(system['values'], found['labels'])}: "
                f"{own['text']}, {system['cost']['total']:,.0f} {found['currency']}, "
                f"goals met on {system['met']} of {system['seeds']} seeds"
            )
            named = system["values"] in (chosen, below)
            low, high = (own["value"] if own[end] is None else own[end] for end in ("low", "high"))
            label = ", ".join(map(shown, system["values"].values())) if named else ""
            point = Point(
                system["cost"]["total"], own["value"], low, high, at, system["verdict"], system["values"] == chosen,
                words, label,
            )  # fmt: skip
            points.append(point)
    return points


def front(points: Sequence[Point], low_is_good: bool) -> list[Point]:
    """The points that no other beats: neither cheaper nor better without being dearer or worse, the cheapest first.

    Examples
    --------
    >>> some = [Point(cost, value, 0, 0, 0, "", False, "") for cost, value in ((1, 9), (2, 4), (3, 6), (4, 2))]
    >>> [(one.cost, one.value) for one in front(some, low_is_good=True)]
    [(1, 9), (2, 4), (4, 2)]
    """
    sign = 1 if low_is_good else -1
    best, kept = math.inf, list[Point]()
    for point in sorted(points, key=lambda one: (one.cost, sign * one.value)):
        if sign * point.value < best:
            best = sign * point.value
            kept.append(point)
    return kept


def axis_of(low: float, high: float, least: float | None = None) -> Axis:
    """A range with round numbers around two values.

    ``least``: the least value that is told apart, above 0; with it the axis may go by factors. What is less is at its
    end.

    Examples
    --------
    >>> axis_of(0.0, 9.3).ticks
    (0.0, 2.5, 5.0, 7.5, 10.0)
    >>> axis_of(0.0, 900.0, 2.0).ticks
    (1.0, 10.0, 100.0, 1000.0)
    """
    if least is not None and low >= 0 and high / least > ORDERS:
        first, last = math.floor(math.log10(least) + 1e-9), math.ceil(math.log10(high) - 1e-9)
        ticks = tuple(10.0**power for power in range(first, last + 1, -(-(last - first) // TICKS)))
        return Axis(10.0**first, 10.0**last, ticks, log=True)
    if high <= low:
        low, high = low - (abs(low) or 1.0) * 0.1, high + (abs(high) or 1.0) * 0.1
    rough = (high - low) / (TICKS - 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    begin, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(number * step, 12) for number in range(begin, end + 1))
    return Axis(ticks[0], ticks[-1], ticks)


class _Labels:
    """Words in the picture that do not overlap: what finds no room is left out, as it is below and in tooltips."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, float, float, float]] = []

    def put(self, text: str, x: float, y: float, anchor: str = "start", kind: str = "") -> list[str]:
        """Words at a place, if there is room."""
        wide = LETTER * len(text)
        left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        box = (left, y - LINE + 3, left + wide, y + 3)
        inside = box[0] >= 0 and box[2] <= WIDTH and box[1] >= 0 and box[3] <= HEIGHT
        if not inside or any(
            box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3] for other in self.taken
        ):
            return []
        self.taken.append(box)
        own = f' class="{kind}"' if kind else ""
        return [f'<text{own} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>']

    def beside(self, text: str, x: float, y: float) -> list[str]:
        """Words beside a point, at the first of several places where there is room."""
        places = ((12, 4, "start"), (-12, 4, "end"), (0, -14, "middle"), (0, 22, "middle"), (14, 18, "start"))
        return next((found for by, down, anchor in places if (found := self.put(text, x + by, y + down, anchor))), [])


def chart(found: Mapping[str, Any], goal: int) -> str:
    """The picture of a goal, by its place in ``goals``."""
    points = points_of(found, goal)
    words = found["goals"][goal]
    metric, sign = words.split(" ")[:2]
    wanted, relative = float(found["thresholds"][goal]), bool(found["relative"][goal])
    ends = [value for point in points for value in (point.low, point.value, point.high) if math.isfinite(value)]
    unit, size = ("% of the reference", 0.01) if relative else _unit(metric, [*ends, wanted])
    least, most = min(*ends, wanted) / size, max(*ends, wanted) / size
    near = (wanted / size if wanted > 0 else most) / CUT  # so far down the axis goes
    above = [max(value / size, near) for value in (*ends, wanted) if value > 0]
    y = axis_of(0.0 if 0 <= least < 0.6 * most else least, most, min(above, default=None))
    costs = [point.cost for point in points]
    x = axis_of(min(costs), max(costs), min((cost for cost in costs if cost > 0), default=None))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - FOOT

    def across(cost: float) -> float:
        return round(LEFT + wide * x.share(cost), 1)

    def up(value: float) -> float:
        return round(TOP + tall * (1 - y.share(value / size)), 1)

    title = f"cost against {metric} of all systems that were tried"
    lines = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
    ]
    labels = _Labels()
    labels.taken += [(across(point.cost) - 6, up(point.value) - 6, across(point.cost) + 6, up(point.value) + 6)
                     for point in points]  # fmt: skip
    cut = y.log and min(ends) / size < y.low
    lines += _frame(x, y, across, lambda value: up(value * size), unit, metric, found["currency"], labels, cut)
    lines.append(f'<path class="goal" d="M{LEFT} {up(wanted)}H{WIDTH - RIGHT}"/>')
    for place in (up(wanted) - 5, up(wanted) + 14):
        if text := labels.put(words.partition(" ")[2], WIDTH - RIGHT, place, "end", "goal"):
            lines += text
            break
    labels.taken.append((LEFT, up(wanted) - 1, WIDTH - RIGHT, up(wanted) + 1))
    named = set[tuple[str, float, float]]()
    for at in range(len(found["lines"])):
        own = front([point for point in points if point.line == at], sign[0] == "<")
        if len(own) > 1:
            path = "L".join(f"{across(point.cost)} {up(point.value)}" for point in own)
            lines.append(f'<path class="front" stroke="{colour_of(at)}" d="M{path}"/>')
    for point in sorted(points, key=lambda one: (bool(one.label), one.chosen)):
        lines += _mark(point, across(point.cost), up)
        at_point = point.label, across(point.cost), up(point.value)
        if point.label and at_point not in named:
            named.add(at_point)
            lines += labels.beside(*at_point)
    return "\n".join([*lines, "</svg>"])


def _mark(point: Point, x: float, up: Any) -> list[str]:
    colour, y = colour_of(point.line), up(point.value)
    fill = colour if point.verdict == "meets" else "var(--ground)"
    found = []
    if point.low < point.high:
        found.append(f'<path stroke="{colour}" opacity=".5" d="M{x} {up(point.low)}V{up(point.high)}"/>')
    ring = f'<circle cx="{x}" cy="{y}" r="9" fill="none" stroke="{colour}" stroke-width="1.5"/>' if point.chosen else ""
    dash = ' stroke-dasharray="2 1.5"' if point.verdict in ("open", "undecided") else ""
    found.append(
        f'<g><title>{escape(point.words)}</title>{ring}<circle cx="{x}" cy="{y}" r="4.5" fill="{fill}" '
        f'stroke="{colour}" stroke-width="1.6"{dash}/></g>'
    )
    return found


def _frame(
    x: Axis, y: Axis, across: Any, up: Any, unit: str, metric: str, currency: str, labels: _Labels, cut: bool
) -> list[str]:
    """Grid, ticks and titles of the axes; ``cut``: there are values below the upward axis, and they are at its end."""
    scale, many = (1e6, "million ") if x.high >= 5e6 else (1e3, "thousand ") if x.high >= 2e4 else (1.0, "")
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines = labels.put(f"cost, {many}{currency}".strip(), middle, HEIGHT - 6, "middle", "title")
    lines += labels.put(f"{metric}, {unit}" if unit else metric, 4, 14, kind="title")
    for tick in y.ticks:
        lines.append(f'<path class="grid" d="M{LEFT} {up(tick)}H{WIDTH - RIGHT}"/>')
        less = "≤ " if cut and tick == y.low else ""
        lines += labels.put(less + _number(tick), LEFT - 6, up(tick) + 4, "end")
    for tick in x.ticks:
        lines.append(f'<path class="grid" d="M{across(tick)} {TOP}V{HEIGHT - FOOT}"/>')
        lines += labels.put(_number(tick / scale), across(tick), HEIGHT - FOOT + 16, "middle")
    return lines


def _number(value: float) -> str:
    """A number in few letters.

    Examples
    --------
    >>> _number(2500), _number(1e7), _number(0.001)
    ('2,500', '10M', '0.001')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.10g}{letter}"
    return f"{value:,.10g}"


def _unit(metric: str, values: Sequence[float]) -> tuple[str, float]:
    """The unit of an axis, and how much of the metric's own it is."""
    if is_time(metric):
        return time_unit(values)
    return ("%", 0.01) if is_share(metric) else ("", 1.0)
