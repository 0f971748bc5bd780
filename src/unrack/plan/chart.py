"""Cost against a goal: every system that was tried, and the ones that no other beats in both. SVG, no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from unrack.plan.goal import is_share, is_time
from unrack.plan.words import values_text
from unrack.report.charts.spec import colour_of

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, FOOT = 60, 24, 34, 52
"""Pixels: room for the words of the axes."""
TICKS = 6
SEEDS_OF_INTERVALS = 4
"""Intervals of means over fewer seeds are as wide as the chart, and say nothing."""
TIMES = (("s", 1.0, 120.0), ("min", 60.0, 7_200.0), ("h", 3_600.0, 172_800.0), ("d", 86_400.0, math.inf))
"""Unit, its seconds, and up to how many seconds it is taken."""


class Point(NamedTuple):
    """A system in the picture: its cost, the mean of the metric and half its interval, its line, and what it is."""

    cost: float
    value: float
    half: float
    line: int
    verdict: str
    chosen: bool
    words: str


class Axis(NamedTuple):
    """From where to where, and at which values there are words."""

    low: float
    high: float
    ticks: tuple[float, ...]


def points_of(found: Mapping[str, Any], goal: int) -> list[Point]:
    """All systems of an answer that have a value for a goal."""
    points = []
    for at, line in enumerate(found["lines"]):
        chosen = None if line["answer"] is None else line["answer"]["values"]
        for system in line["tried"]:
            own = system["goals"][goal]
            if own["mean"] is None:
                continue
            words = (
                f"{line['policy']} on {line['cluster']}, {values_text(system['values'], found['labels'])}: "
                f"{own['text']}, {system['cost']['total']:,.0f} {found['currency']}, "
                f"goals met on {system['met']} of {system['seeds']} seeds"
            )
            half = float(own["half"] or 0.0) if system["seeds"] >= SEEDS_OF_INTERVALS else 0.0
            cost = float(system["cost"]["total"])
            points.append(
                Point(cost, float(own["mean"]), half, at, system["verdict"], system["values"] == chosen, words)
            )
    return points


def front(points: Sequence[Point], low_is_good: bool) -> list[Point]:
    """The points that no other beats: neither cheaper nor better without being dearer or worse, the cheapest first.

    Examples
    --------
    >>> some = [Point(cost, value, 0, 0, "", False, "") for cost, value in ((1, 9), (2, 4), (3, 6), (4, 2))]
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


def axis_of(low: float, high: float) -> Axis:
    """A range with round numbers around two values.

    Examples
    --------
    >>> axis_of(0.0, 9.3).ticks
    (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)
    """
    if high <= low:
        low, high = low - (abs(low) or 1.0) * 0.1, high + (abs(high) or 1.0) * 0.1
    rough = (high - low) / (TICKS - 1)
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def chart(found: Mapping[str, Any], goal: int) -> str:
    """The picture of a goal.

    Parameters
    ----------
    found
        The answer of a plan.
    goal
        Which goal, by its place in ``goals``.
    """
    points = points_of(found, goal)
    words = found["goals"][goal]
    metric, sign = words.split(" ")[:2]
    low_is_good = sign[0] == "<"
    wanted, relative = float(found["thresholds"][goal]), bool(found["relative"][goal])
    ends = [value for point in points for value in (point.value - point.half, point.value + point.half)]
    least, most = min(*ends, wanted), max(*ends, wanted)
    unit, size = ("% of the reference", 0.01) if relative else _unit(metric, [least, most])
    least = 0.0 if min(point.value for point in points) >= 0 and least < 0.6 * most else least
    y = axis_of(least / size, most / size)
    x = axis_of(min(point.cost for point in points), max(point.cost for point in points))
    wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - FOOT

    def across(cost: float) -> float:
        return round(LEFT + wide * (cost - x.low) / (x.high - x.low), 1)

    def up(value: float) -> float:
        return round(TOP + tall * (1 - (max(value / size, y.low) - y.low) / (y.high - y.low)), 1)

    title = f"cost against {metric} of all systems that were tried"
    lines = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
    ]
    lines += _frame(x, y, across, lambda value: up(value * size), unit, metric, found["currency"])
    lines.append(f'<path class="goal" d="M{LEFT} {up(wanted)}H{WIDTH - RIGHT}"/>')
    under = up(wanted) < TOP + 20
    lines.append(f'<text class="goal" x="{LEFT + 6}" y="{up(wanted) + (16 if under else -6)}">goal</text>')
    for at in range(len(found["lines"])):
        own = front([point for point in points if point.line == at], low_is_good)
        if len(own) > 1:
            path = "L".join(f"{across(point.cost)} {up(point.value)}" for point in own)
            lines.append(f'<path class="front" stroke="{colour_of(at)}" d="M{path}"/>')
    for point in points:
        lines += _mark(point, across(point.cost), up)
    return "\n".join([*lines, "</svg>"])


def _mark(point: Point, x: float, up: Any) -> list[str]:
    colour, y = colour_of(point.line), up(point.value)
    fill = colour if point.verdict == "meets" else "var(--ground)"
    found = []
    if point.half:
        ends = f"M{x} {up(point.value - point.half)}V{up(point.value + point.half)}"
        found.append(f'<path stroke="{colour}" opacity=".5" d="{ends}"/>')
    ring = f'<circle cx="{x}" cy="{y}" r="9" fill="none" stroke="{colour}" stroke-width="1.5"/>' if point.chosen else ""
    dash = ' stroke-dasharray="2 1.5"' if point.verdict in ("open", "undecided") else ""
    found.append(
        f'<g><title>{escape(point.words)}</title>{ring}<circle cx="{x}" cy="{y}" r="4.5" fill="{fill}" '
        f'stroke="{colour}" stroke-width="1.6"{dash}/></g>'
    )
    return found


def _frame(x: Axis, y: Axis, across: Any, up: Any, unit: str, metric: str, currency: str) -> list[str]:
    """Grid, ticks and titles of the axes."""
    lines = []
    for tick in y.ticks:
        lines.append(f'<path class="grid" d="M{LEFT} {up(tick)}H{WIDTH - RIGHT}"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{up(tick) + 4}" text-anchor="end">{_number(tick)}</text>')
    scale, thousands = _thousands(x)
    for tick in x.ticks:
        lines.append(f'<path class="grid" d="M{across(tick)} {TOP}V{HEIGHT - FOOT}"/>')
        lines.append(
            f'<text x="{across(tick)}" y="{HEIGHT - FOOT + 18}" text-anchor="middle">{_number(tick / scale)}</text>'
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    money = f"{thousands} {currency}".strip()
    lines.append(f'<text class="title" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">cost, {escape(money)}</text>')
    said = escape(f"{metric}, {unit}" if unit else metric)
    lines.append(f'<text class="title" x="8" y="16">{said}</text>')
    return lines


def _thousands(x: Axis) -> tuple[float, str]:
    return (1e6, "million") if x.high >= 5e6 else (1e3, "thousand") if x.high >= 2e4 else (1.0, "")


def _number(value: float) -> str:
    return f"{value:,.10g}"


def _unit(metric: str, values: Sequence[float]) -> tuple[str, float]:
    """The unit of an axis, and how much of the metric's own it is."""
    if is_time(metric):
        most = max(abs(value) for value in values)
        return next((unit, size) for unit, size, up_to in TIMES if most <= up_to)
    return ("%", 0.01) if is_share(metric) else ("", 1.0)
