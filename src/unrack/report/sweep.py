"""Charts of a sweep: the main metrics over a swept parameter, all else fixed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from unrack.report.answer import QUESTIONS
from unrack.report.chart import Chart
from unrack.report.column import Column, column_of
from unrack.report.series import six_digits
from unrack.report.setting import Setting, estimate
from unrack.report.spec import BOUND, Spec, line_spec
from unrack.study.world import world_of

MOST_LINES = 6
"""Charts are drawn for so many combinations of a swept parameter and fixed others."""


def sweep_charts(settings: Sequence[Setting], policies: Sequence[str]) -> list[Chart]:
    """Main metrics over each swept parameter that takes several values, all else fixed.

    Parameters
    ----------
    settings
        All settings of the study.
    policies
        All policies of the study: they fix the colours.

    Returns
    -------
    list of dict
        As :func:`unrack.report.chart.setting_charts`; ``low`` and ``high`` of the series bound the 95 % interval. Empty
        without a sweep; of the first ``MOST_LINES`` combinations where there are more.
    """
    lines: dict[tuple[str, str], list[Setting]] = {}
    for key in dict.fromkeys(key for setting in settings for key in setting.parameters):
        for setting in settings:
            if key in setting.parameters:
                fixed = [f"{other} = {value}" for other, value in setting.parameters.items() if other != key]
                place = " · ".join([f"{setting.workload} on {setting.cluster}", *fixed])
                lines.setdefault((key, place), []).append(setting)
    several = [(key, place, own) for (key, place), own in lines.items() if len(own) > 1]
    more = f" (the first {MOST_LINES} of {len(several)} combinations)" if len(several) > MOST_LINES else ""
    charts = []
    for key, place, own in several[:MOST_LINES]:
        for question in QUESTIONS:
            column = column_of(question.metric, [e.mean for s in own for e in s.values(question.metric).values()])
            x, places = _axis(key, own)
            series = [_series(policy, column, own, places) for policy in policies]
            series = [rows for rows in series if rows["x"]]
            drawn = list(policies)
            if series and question.metric == "missed_deadlines" and (bound := _bound(own, places)) is not None:
                series.append(bound)
                drawn.append(BOUND)
            if series:
                title = column.label + (f" ({column.unit})" if column.unit else "")
                y = {"field": "y", "type": "quantitative", "title": title, "scale": {"zero": False}}
                grey = " · grey: the bound, no policy can be below" if BOUND in drawn else ""
                charts.append({
                    "id": f"{column.name} over {key}", "title": f"{question.words.capitalize()} over {key}",
                    "note": place + more + grey, "series": series, "spec": line_spec(drawn, x, y, marks=True),
                })  # fmt: skip
    return charts


def _axis(key: str, settings: Sequence[Setting]) -> tuple[Spec, list[Any]]:
    """The x channel, and each setting's place on it: numbers as they are, anything else as words."""
    values = [setting.parameters[key] for setting in settings]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        axis: Spec = {"values": sorted(set(values)), "labelOverlap": True, "format": "~g"}
        scale = {"zero": False, "nice": False, "padding": 12}
        return {"field": "x", "type": "quantitative", "title": key, "scale": scale, "axis": axis, "tip": "~g"}, values
    places = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return {"field": "x", "type": "ordinal", "title": key, "sort": places, "axis": {"labelAngle": 0}}, places


def _series(policy: str, column: Column, settings: Sequence[Setting], places: Sequence[Any]) -> dict[str, Any]:
    rows: dict[str, Any] = {"policy": policy, "x": [], "y": [], "low": [], "high": []}
    for place, setting in zip(places, settings, strict=True):
        value = setting.value(policy, column.name) if policy in setting.runs else None
        if value is not None:
            low = max(value.mean - value.half, min(value.mean, 0.0))  # no metric is negative
            rows["x"].append(place)
            for name, number in (("y", value.mean), ("low", low), ("high", value.mean + value.half)):
                rows[name].append(six_digits(number * column.factor))
    return rows


def _bound(settings: Sequence[Setting], places: Sequence[Any]) -> dict[str, Any] | None:
    """The share of deadlines, in %, that no policy could keep in each setting; ``None`` where it is not known.

    Of two worlds the lower one: it holds for the rows of both.
    """
    rows: dict[str, Any] = {"policy": BOUND, "x": [], "y": [], "low": [], "high": []}
    for place, setting in zip(places, settings, strict=True):
        worlds: dict[str, list[float | None]] = {}
        for policy, own in setting.runs.items():
            worlds.setdefault(world_of(policy), []).extend(run.metrics.get("bound_missed_deadlines") for run in own)
        found = [one for one in map(estimate, worlds.values()) if one is not None]
        value = min(found, key=lambda one: one.mean, default=None)
        if value is not None:
            rows["x"].append(place)
            for name in ("y", "low", "high"):
                rows[name].append(six_digits(100 * value.mean))
    return rows if rows["x"] else None
