"""Cost against a goal: every system that was tried, and the ones that no other beats in both.

A system is drawn at the value that decides: of the seed at which the share of seeds is reached or lost, or the mean
with its bounds. So a system that fails for this goal is on the wrong side of its line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from unrack.plan.decided import shown, values_text
from unrack.plan.goal import is_share, is_time
from unrack.report.charts.spec import Spec, colour_of, framed, number, word
from unrack.units import time_unit

ORDERS = 30.0
"""Values that differ by more than this factor are on a logarithmic axis."""
CUT = 1000.0
"""Values below the goal by more than this factor are at the end of such an axis."""


def front(points: Iterable[tuple[float, float]], low_is_good: bool) -> list[int]:
    """The places of the points (cost, value) that no other beats, the cheapest first.

    Examples
    --------
    >>> front([(1, 9), (2, 4), (3, 6), (4, 2)], low_is_good=True)
    [0, 1, 3]
    """
    sign = 1 if low_is_good else -1
    best, kept = math.inf, list[int]()
    for _, value, at in sorted((cost, sign * value, at) for at, (cost, value) in enumerate(points)):
        if value < best:
            best = value
            kept.append(at)
    return kept


def scale_of(values: Sequence[float], least: float = 0.0) -> Spec:
    """The scale of an axis; of one by factors what is below its ``domainMin``, at or above ``least``, is put there.

    Examples
    --------
    >>> scale_of([0.0, 9.3])["type"], scale_of([0.0, 2.0, 900.0])
    ('linear', {'type': 'log', 'clamp': True, 'nice': False, 'domainMin': 1.0, 'domainMax': 1000.0})
    """
    low, high = min(values), max(values)
    above = min((max(value, least) for value in values if value > 0), default=0.0)
    if low < 0 or above == 0 or high / above <= ORDERS:
        return {"type": "linear", "zero": 0 <= low < 0.6 * high, "nice": True}
    ends = 10.0 ** math.floor(math.log10(above) + 1e-9), 10.0 ** math.ceil(math.log10(high) - 1e-9)
    return {"type": "log", "clamp": True, "nice": False, "domainMin": ends[0], "domainMax": ends[1]}


def points_of(found: Mapping[str, Any], goal: int) -> list[dict[str, Any]]:
    """All systems of an answer that have a value for a goal; the answer and the one below it have a label."""
    points, low_is_good = [], found["goals"][goal].split(" ")[1].startswith("<")
    for at, line in enumerate(found["lines"]):
        chosen, below = (None if line[key] is None else line[key]["values"] for key in ("answer", "below"))
        values = [system["goals"][goal]["value"] for system in line["tried"]]
        tried = [system for system, value in zip(line["tried"], values, strict=True)
                 if value is not None and math.isfinite(value)]  # fmt: skip
        best = front(((one["cost"]["total"], one["goals"][goal]["value"]) for one in tried), low_is_good)
        for place, system in enumerate(tried):
            own, chose = system["goals"][goal], system["values"]
            words = (
                f"{line['policy']} on {line['cluster']}, {values_text(chose, found['labels'])}: "
                f"{own['text']}, {system['cost']['total']:,.0f} {found['currency']}, "
                f"goals met on {system['met']} of {system['seeds']} seeds"
            )
            ends = [own["value"] if own[end] is None or not math.isfinite(own[end]) else own[end]
                    for end in ("low", "high")]  # fmt: skip
            points.append({
                "line": str(at), "cost": system["cost"]["total"], "value": own["value"], "low": ends[0],
                "high": ends[1], "verdict": system["verdict"], "chosen": chose == chosen, "best": place in best,
                "words": words, "label": ", ".join(map(shown, chose.values())) if chose in (chosen, below) else "",
            })  # fmt: skip
    return points


def chart(found: Mapping[str, Any], goal: int) -> Spec:
    """The picture of a goal, by its place in ``goals``."""
    points, words = points_of(found, goal), found["goals"][goal]
    metric, wanted = words.split(" ")[0], float(found["thresholds"][goal])
    ends = [value for point in points for value in (point["low"], point["value"], point["high"])]
    unit, size = ("% of the reference", 0.01) if found["relative"][goal] else _unit(metric, [*ends, wanted])
    points = [{**point, **{key: point[key] / size for key in ("low", "value", "high")}} for point in points]
    wanted, ends = wanted / size, [value / size for value in ends]
    y_scale = scale_of([*ends, wanted], (wanted if wanted > 0 else max(ends)) / CUT)
    x_scale, cut = scale_of([point["cost"] for point in points]), y_scale.get("domainMin", -math.inf)
    points = [{**point, **{key: max(point[key], cut) for key in ("low", "value", "high")}} for point in points]
    lines = [str(at) for at in range(len(found["lines"]))]
    scale = {"domain": lines, "range": [colour_of(at) for at in range(len(lines))]}
    x = number("cost", f"cost, {found['currency']}", scale=x_scale, axis=_axis(x_scale))
    y = number("value", f"{metric}, {unit}" if unit else metric, scale=y_scale, axis=_axis(y_scale, min(ends) < cut))
    colour = word("line", scale=scale, legend=None)
    at: Spec = {"x": x, "y": y}
    dashed = {"condition": {"test": "indexof(['open', 'undecided'], datum.verdict) >= 0", "value": [2, 1.5]},
              "value": [1, 0]}  # fmt: skip
    filled = {"condition": {"test": "datum.verdict !== 'meets'", "value": "transparent"}, **colour}
    rule: Spec = {"y": {**y, "field": "goal"}, "color": {"value": "#D7263D"}}
    layers: list[Spec] = [
        {"data": {"values": [{"goal": wanted, "words": words.partition(" ")[2]}]}, "layer": [
            {"mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.4}, "encoding": rule},
            {"mark": {"type": "text", "align": "right", "dy": -7},
             "encoding": {**rule, "x": {"value": "width"}, "text": {"field": "words"}}},
        ]},
        {"transform": [{"filter": "datum.best"}], "mark": {"type": "line", "strokeWidth": 1.2, "opacity": 0.7},
         "encoding": {**at, "color": colour}},
        {"transform": [{"filter": "datum.low < datum.high"}], "mark": {"type": "rule", "opacity": 0.5},
         "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour}},
        {"transform": [{"filter": "datum.chosen"}], "mark": {"type": "point", "size": 280, "strokeWidth": 1.5},
         "encoding": {**at, "stroke": colour}},
        {"mark": {"type": "point", "size": 65, "strokeWidth": 1.6, "opacity": 1},
         "encoding": {**at, "stroke": colour, "fill": filled, "strokeDash": dashed, "tooltip": word("words")}},
        {"transform": [{"filter": "datum.label"}], "mark": {"type": "text", "align": "left", "dx": 14},
         "encoding": {**at, "text": {"field": "label"}}},
    ]  # fmt: skip
    return {**framed({"layer": layers}, 300), "data": {"values": points}}


def _axis(scale: Spec, cut: bool = False) -> Spec:
    """Few words along an axis; ``cut``: there are values below its low end."""
    words = "format(datum.value, abs(datum.value) < 1 ? '~g' : '~s')"
    axis: Spec = {"tickCount": 5, "labelOverlap": True, "labelExpr": words}
    if scale["type"] == "linear":
        return axis
    powers = (round(math.log10(scale[end])) for end in ("domainMin", "domainMax"))
    less = f"(datum.value <= {scale['domainMin']} ? '≤ ' : '') + {words}" if cut else words
    return {**axis, "labelExpr": less, "values": [10.0**power for power in range(next(powers), next(powers) + 1)]}


def _unit(metric: str, values: Sequence[float]) -> tuple[str, float]:
    """The unit of an axis, and how much of the metric's own it is."""
    if is_time(metric):
        return time_unit(values)
    return ("%", 0.01) if is_share(metric) else ("", 1.0)
