"""Charts of a sweep: any metric over a swept parameter, all else fixed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from unrack.plots.series import six_digits
from unrack.report.answer import QUESTIONS
from unrack.report.charts.spec import BOUND, LEVEL, Spec, line_spec, number, series_of
from unrack.report.setting import Setting, interval, missed_bound
from unrack.report.table import SHORT, Column, column_of

MOST_LINES = 6
"""Sweeps are drawn for so many combinations of a swept parameter and fixed others."""
NOT_DRAWN = ("window_start_s", "window_end_s", "bound_missed_deadlines")
"""What says when was measured, and what is drawn beside the missed deadlines."""

Sweep = dict[str, Any]


def sweeps(settings: Sequence[Setting], policies: Sequence[str]) -> list[Sweep]:
    """Every metric over each swept parameter that takes several values, all else fixed.

    Returns
    -------
    list of dict
        For each parameter and combination of the others: ``key``, ``label`` (words for it), ``note``, ``spec`` (the
        page puts in the title of the vertical axis), and ``metrics``: ``name``, ``words``, ``axis`` (that title),
        ``note``, ``shown`` (whether it is drawn unasked) and ``series``, in whose columns ``low`` and ``high`` bound
        the 95 % interval and ``less`` is 1 where the policy served less than others. Empty without a sweep; of the
        first ``MOST_LINES`` combinations where there are more.
    """
    lines: dict[tuple[str, str], list[Setting]] = {}
    for key in dict.fromkeys(key for setting in settings for key in setting.parameters):
        for setting in settings:
            if key in setting.parameters:
                fixed = [
                    f"{setting.label(other)} = {value}" for other, value in setting.parameters.items() if other != key
                ]
                place = " · ".join([f"{setting.workload} on {setting.cluster}", *fixed])
                lines.setdefault((key, place), []).append(setting)
    several = [(key, place, own) for (key, place), own in lines.items() if len(own) > 1]
    more = f" (the first {MOST_LINES} of {len(several)} combinations)" if len(several) > MOST_LINES else ""
    return [_sweep(key, place + more, own, policies) for key, place, own in several[:MOST_LINES]]


def _sweep(key: str, note: str, settings: Sequence[Setting], policies: Sequence[str]) -> Sweep:
    x, places = _axis(key, settings)
    y = number("y", "", scale={"zero": False})
    runs = [run for setting in settings for own in setting.runs.values() for run in own]
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    questions = {question.metric: question.words.capitalize() for question in QUESTIONS}
    first = [name for name in (*questions, *SHORT) if name in names]
    metrics = []
    for name in dict.fromkeys([*first, *names]):
        column = column_of(name, [run.metrics.get(name) for run in runs])
        series = [_series(policy, column, settings, places) for policy in policies]
        series = [rows for rows in series if rows["x"]]
        if not series or name in NOT_DRAWN:
            continue
        bound = _bound(settings, places) if name == "missed_deadlines" else None
        metrics.append({
            "name": name, "words": questions.get(name, column.label[:1].upper() + column.label[1:]),
            "axis": column.label + (f" ({column.unit})" if column.unit else ""), "shown": name in questions,
            "note": " · grey: the bound, no policy can be below" if bound else "",
            "series": [*series, bound] if bound else series,
        })  # fmt: skip
    for words in dict.fromkeys(setting.intervals for setting in settings if setting.intervals):
        note += f" · bars: {words}"
    if any(setting.served_less for setting in settings):
        note += " · hollow: served less than others, so not comparable"
    label = settings[0].label(key)
    spec = line_spec([*policies, BOUND], x, y, marks=True)
    return {"key": key, "label": label, "note": note, "spec": spec, "metrics": metrics}


def metric_choices(found: Sequence[Sweep]) -> dict[str, str]:
    """Metric → words, of the metrics that can be drawn when asked for."""
    return {metric["name"]: metric["words"] for sweep in found for metric in sweep["metrics"] if not metric["shown"]}


def _axis(key: str, settings: Sequence[Setting]) -> tuple[Spec, list[Any]]:
    """The x channel, and each setting's place on it: numbers as they are, anything else as words."""
    values, title = [setting.parameters[key] for setting in settings], settings[0].label(key)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        axis: Spec = {"values": sorted(set(values)), "labelOverlap": True, "format": "~g"}
        scale = {"zero": False, "nice": False, "padding": 12}
        return number("x", title, scale=scale, axis=axis, tip="~g"), values
    places = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return {"field": "x", "type": "ordinal", "title": title, "sort": places, "axis": LEVEL}, places


_COLUMNS = "x y low high less"


def _series(policy: str, column: Column, settings: Sequence[Setting], places: Sequence[Any]) -> Mapping[str, Any]:
    rows = []
    for place, setting in zip(places, settings, strict=True):
        value = setting.value(policy, column.name) if policy in setting.runs else None
        if value is not None:  # metrics below 0 are rare, and then their means are
            ends = interval(value, min(value.mean, 0.0), column.factor)
            rows.append((place, *ends, int(policy in setting.served_less)))
    return series_of(policy, _COLUMNS, rows)


def _bound(settings: Sequence[Setting], places: Sequence[Any]) -> Mapping[str, Any] | None:
    """The share of deadlines, in %, that no policy could keep in each setting; ``None`` where it is not known."""
    rows = []
    for place, setting in zip(places, settings, strict=True):
        bound = missed_bound(run for own in setting.runs.values() for run in own)
        if bound is not None:
            rows.append((place, *[six_digits(100 * bound)] * 3, 0))
    return series_of(BOUND, _COLUMNS, rows) if rows else None
