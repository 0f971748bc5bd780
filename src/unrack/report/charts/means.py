"""The main metrics of each policy with their intervals: a point and a bar, a chart a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unrack.report.answer import QUESTIONS
from unrack.report.charts.bars import mean_spec
from unrack.report.charts.chart import MOST_POLICIES, Chart, noted
from unrack.report.column import column_of
from unrack.report.setting import Setting, interval


def mean_charts(setting: Setting, policies: Sequence[str]) -> list[Chart]:
    """Each main metric of a setting that has intervals, the first ``MOST_POLICIES`` policies; empty without intervals.

    Parameters and charts are as of :func:`unrack.report.charts.chart.setting_charts`; in their series ``low`` and
    ``high`` bound the interval.
    """
    charts: list[Chart] = []
    for question in QUESTIONS:
        values = dict(list(setting.values(question.metric).items())[:MOST_POLICIES])
        if all(value.count < 2 for value in values.values()):
            continue
        column = column_of(question.metric, [value.mean for value in values.values()])
        series: list[dict[str, Any]] = []
        for policy, value in values.items():
            x, low, high = interval(value, min(value.mean, 0.0), column.factor)
            text = column.text(value.mean, value.half if value.count > 1 else None)
            less = int(policy in setting.served_less)
            series.append({"policy": policy, "x": [x], "low": [low], "high": [high], "less": [less], "text": [text]})
        title = question.words[:1].upper() + question.words[1:]
        apart = min(own["low"][0] for own in series) * 10
        is_wide = 0 < apart < max(own["x"][0] for own in series)
        axis = column.label + (f" ({column.unit})" if column.unit else "") + is_wide * ", log scale"
        charts.append({
            "id": f"interval {question.metric}", "title": f"{title}, with intervals", "series": series,
            "note": f"Bars: {setting.intervals}.", "spec": mean_spec(list(values), policies, axis, is_wide),
        })  # fmt: skip
    return noted(charts, setting)
