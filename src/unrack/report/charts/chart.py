"""The charts of a study: each a specification, and its series in columns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from unrack.facts import some
from unrack.kernels.arrays import Floats
from unrack.metric.estimate import Estimate, estimate
from unrack.plots.series import (
    bin_edges,
    binned_integral,
    binned_mean,
    clock_start,
    rising,
    rounded,
    six_digits,
    span_unit,
)
from unrack.report.answer import QUESTIONS
from unrack.report.charts import spec as specs
from unrack.report.charts.spec import BOUND, LEVEL, Spec, bar_spec, line_spec, mean_spec, number, series_of, whiskered
from unrack.report.setting import RunFiles, Setting, interval, interval_words, missed_bound
from unrack.report.table import SHORT, Column, column_of, columns_of, share_text

MOST_SETTINGS = 8
MOST_POLICIES = 12
MOST_LINES = 3
"""More lines than these over time hide each other."""
MOST_SEEDS = 20

MOST_SWEPT = 6
"""Sweeps are drawn for so many combinations of a swept parameter and fixed others."""

ABOVE_1 = ("asked_", "memory_overcommit_", "peak_links", "peak_uplinks", "used_links", "used_uplinks")
"""Beginnings of the names of shares that may be above 1; those of fragmentation may be below 0."""
NOT_DRAWN = ("window_start_s", "window_end_s", "bound_missed_deadlines")
"""What says when was measured, and what is drawn beside the missed deadlines."""

Chart = dict[str, Any]
Sweep = dict[str, Any]
_USAGE = ("time_s", "cores_held", "cores_online", "memory_mb_held", "queued_jobs")
SHARE: dict[str, Any] = {"scale": {"domain": [0, 1]}, "axis": {"format": ".0%"}, "tip": ".1%"}
"""What a channel of shares from 0 to 1 looks like."""

_BY_SIZE = ("bounded_slowdown", "count")
_JOBS = ("wait_s", "response_s", "bounded_slowdown", "cores", "state")


def setting_charts(setting: Setting, policies: Sequence[str]) -> list[Chart]:
    """Charts of one setting, of the first ``MOST_POLICIES`` policies; those over time and distributions of one seed.

    ``policies`` are all of the study, here and in other charts: they fix the colours. Each chart has ``id``, ``title``,
    ``note``, ``spec``, and ``series``: for each policy the columns of its rows.
    """
    chosen = {policy: runs[0] for policy, runs in list(setting.runs.items())[:MOST_POLICIES]}
    jobs = {policy: _finished(run) for policy, run in chosen.items()}
    less = setting.served_less
    several = {
        policy: [jobs[policy], *(_finished(run) for run in setting.runs[policy][1:MOST_SEEDS])] for policy in chosen
    }
    charts = [
        *_over_time(chosen, policies, less),
        _ecdf("wait", "wait_s", jobs, policies, less),
        _ecdf("response", "response_s", jobs, policies, less),
    ]
    if setting.seeds > 1:
        charts = [{**chart, "note": f"{chart['note']} The first of {setting.seeds} seeds."} for chart in charts]
    charts.append(_by_size(several, policies))
    return noted([chart for chart in charts if _says_something(chart)], setting)


def _says_something(chart: Chart) -> bool:
    """False without rows, and where no job ever waited: the queue is always empty, all waits are 0, slowdowns 1."""
    flat = {"queue": ("y", 0.0), "wait": ("x", 0.0), "size": ("y", 1.0)}
    column, least = flat.get(chart["id"], ("x", -math.inf))
    return any(value is not None and value > least for rows in chart["series"] for value in rows[column] if rows["x"])


def _finished(run: RunFiles) -> pl.DataFrame:
    return run.jobs(_JOBS).filter(pl.col("state") == "finished")


def noted(charts: Sequence[Chart], setting: Setting) -> list[Chart]:
    """The charts of a setting; the notes say which policies in them served less than others, if any did."""
    shares = [f"{policy} {share_text(share)}" for policy, share in setting.served_less.items()]
    if not shares:
        return list(charts)
    note = f" Served less of the core-time asked for than others, so not comparable: {some(shares, 4)}."
    return [{**chart, "note": chart["note"] + note} for chart in charts]


class Lines(NamedTuple):
    """Lines over time, one a policy, drawn of its table of steps."""

    # name, title: of the chart
    name: str
    title: str
    y: Mapping[str, Any]  # what is special about the vertical channel
    of: str | pl.Expr  # the amount
    over: str | pl.Expr | None = None  # what it is a share of, both weighted by time; ``None``: it stands for itself


_OVER_TIME = (
    Lines("utilisation", "Cores in use over time", {"title": "share of cores online", **SHARE}, "cores_held",
          "cores_online"),
    Lines("memory", "Memory in use over time", {"title": "share of memory", **SHARE},
          pl.col("memory_mb_held") / pl.col("installed")),
    Lines("queue", "Queue length over time", {"title": "jobs waiting", "axis": {"format": ",.3~r"}, "tip": ",.3~f"},
          "queued_jobs"),
)  # fmt: skip


def _over_time(chosen: Mapping[str, RunFiles], policies: Sequence[str], less: Collection[str]) -> list[Chart]:
    usage = {
        policy: run.frame("usage", _USAGE).with_columns(installed=pl.lit(run.total_mb or 0))
        for policy, run in chosen.items()
    }
    counted = all(run.total_mb for run in chosen.values())
    lines = [line for line in _OVER_TIME if counted or line.name != "memory"]
    return time_charts(usage, lines, policies, less)


def time_charts(
    steps: Mapping[str, pl.DataFrame],
    lines: Iterable[Lines],
    policies: Sequence[str],
    less: Collection[str] = (),
    edges: Floats | None = None,
    whole: bool = False,
) -> list[Chart]:
    """Amounts over time, a chart each with a line a policy; nothing of tables with too few rows to say for how long.

    ``steps``: policy → a step function: ``time_s``, which rises, and columns that hold until the next row; ``edges``:
    float64[bins + 1], s, by default from the first row of any table to the last; ``whole``: amounts are 0 before the
    first row and stay what they are after the last, else they are not known there.
    """
    steps = {policy: frame for policy, frame in steps.items() if len(frame) > (not whole)}
    if not steps:
        return []
    spans = edges if edges is not None else bin_edges([(own["time_s"][0], own["time_s"][-1]) for own in steps.values()])

    def column(frame: pl.DataFrame, of: str | pl.Expr) -> Floats:
        expression = pl.col(of) if isinstance(of, str) else of
        values = frame.select(expression.cast(pl.Float64).fill_null(0).alias("y"))["y"].to_numpy()
        if not whole:
            return values
        return np.concatenate([[0.0], values, values[-1:]])

    charts = []
    for line in lines:
        series = {}
        for policy, frame in steps.items():
            times, values = column(frame, "time_s"), column(frame, line.of)
            if whole:
                times[0], times[-1] = min(spans[0], times[1]), max(spans[-1], times[-1])
            below = None if line.over is None else column(frame, line.over)
            series[policy] = binned_mean(times, values, spans) if below is None else ratio(times, values, below, spans)
        charts.append(time_chart(line.name, line.title, line.y, series, spans, policies, less))
    return charts


def time_chart(
    name: str,
    title: str,
    y: Mapping[str, Any],
    series: Mapping[str, Floats],
    edges: Floats,
    policies: Sequence[str],
    less: Collection[str] = (),
) -> Chart:
    """Lines over time, one a policy; more than three of them have a row each.

    ``y``: what is special about the vertical channel; ``series``: policy → its mean in each bin, float64[bins], NaN: a
    gap; ``edges``: float64[bins + 1], s; ``less``: those that served less than others.
    """
    x, at = span_axis(edges)
    starts = at(edges[:-1])
    channel = {"field": "y", "type": "quantitative", **y}
    note = f"Means over {len(starts)} equal spans of time, weighted by time."
    rows = [{"policy": p, "x": starts, "y": rounded(values)} for p, values in series.items()]
    if len(rows) <= MOST_LINES:
        spec = specs.line_spec(policies, x, channel, "step-after", less=less)
    else:
        top = max((float(np.nanmax(values)) for values in series.values() if np.isfinite(values).any()), default=0.0)
        spec = specs.rows_spec(policies, x, channel, top, len(rows), less)
    return {"id": name, "title": title, "note": note, "series": rows, "spec": spec}


def span_axis(edges: Floats) -> tuple[dict[str, Any], Callable[[Floats], list[float | None]]]:
    """A channel ``x`` for times between these (s), and what gives the places of times on it."""
    unit, size = span_unit(float(edges[-1] - edges[0]))
    begin = clock_start(float(edges[0]))
    domain = [float(f"{(edges[0] - begin) / size:.5g}"), float((edges[-1] - begin) / size)]
    scale = {"nice": False, "zero": False, "domain": domain}
    title = f"{unit} since the start of the log"
    return specs.number("x", title, scale=scale), lambda times: rounded((times - begin) / size, 5)


def ratio(times: Floats, held: Floats, online: Floats, edges: Floats) -> Floats:
    """The integral of one step function over that of another in each bin; NaN where the latter is 0."""
    below = binned_integral(times, online, edges)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(below > 0, binned_integral(times, held, edges) / below, np.nan)


def _ecdf(
    name: str, column: str, jobs: Mapping[str, pl.DataFrame], policies: Sequence[str], less: Collection[str]
) -> Chart:
    y = specs.number("y", "share of jobs", **SHARE)
    series = []
    for policy, frame in jobs.items():
        x, share = rising(frame[column].cast(pl.Float64).fill_null(float("nan")).to_numpy())
        if len(x):
            series.append({"policy": policy, "x": rounded(x, 6), "y": rounded(share)})
    return {
        "id": name, "title": f"Distribution of {name} times", "series": series,
        "note": f"Share of finished jobs with a {name} of at most so long; further left and up is better.",
        "spec": specs.line_spec(policies, specs.time_axis(f"{name} (s, log scale)"), y, "step-after", less=less),
    }  # fmt: skip


def size_class(cores: pl.Expr) -> pl.Expr:
    """Class of job size by cores held: 0 = 1 core, 1 = 2–4, 2 = 5–16, 3 = 17–64 … in powers of 4."""
    return ((cores.clip(1) - 1).cast(pl.Float64) + 1).log(4).sub(1e-9).ceil().cast(pl.Int64).clip(0)


def class_name(index: int) -> str:
    """Words for a class of job size.

    Examples
    --------
    >>> class_name(0), class_name(2)
    ('1', '5–16')
    """
    return "1" if index == 0 else f"{4 ** (index - 1) + 1:,}–{4**index:,}"


def _by_size(jobs: Mapping[str, Sequence[pl.DataFrame]], policies: Sequence[str]) -> Chart:
    series, seen = [], set[int]()
    for policy, frames in jobs.items():
        grouped = [
            frame.group_by(size_class(pl.col("cores")).alias("size"))
            .agg(pl.col("bounded_slowdown").mean().clip(1.0), pl.len().alias("count"))
            .drop_nulls()
            for frame in frames
        ]
        means, counts = ([dict(own.select("size", name).iter_rows()) for own in grouped] for name in _BY_SIZE)
        sizes = sorted({size for own in means for size in own})
        values = [value for size in sizes if (value := estimate(own.get(size) for own in means)) is not None]
        seen |= set(sizes)
        rows = [
            (class_name(size), *interval(value, 1.0), sum(own.get(size, 0) for own in counts))
            for size, value in zip(sizes, values, strict=True)
        ]
        series.append(specs.series_of(policy, "x y low high count", rows))
    classes = [class_name(size) for size in sorted(seen)]
    words = interval_words(map(len, jobs.values()), {})
    spec = bar_spec(policies, classes, "cores", "bounded slowdown (log scale)")
    return {
        "id": "size", "title": "Slowdown by job size", "series": series,
        "note": "Mean bounded slowdown of finished jobs by the cores they held; 1 is a job that never waited."
        + (f" Lines: {words}." if words else ""),
        "spec": whiskered(spec) if words else spec,
    }  # fmt: skip


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
            x, low, high = interval_ends(value, column)
            text = column.text(value.mean, value.half if value.count > 1 else None)
            less = int(policy in setting.served_less)
            series.append({"policy": policy, "x": [x], "low": [low], "high": [high], "less": [less], "text": [text]})
        title = question.words[:1].upper() + question.words[1:]
        apart = min(own["low"][0] for own in series) * 10
        is_wide = 0 < apart < max(own["x"][0] for own in series)
        axis = column.heading + is_wide * ", log scale"
        charts.append({
            "id": f"interval {question.metric}", "title": f"{title}, with intervals", "series": series,
            "note": f"Bars: {setting.intervals}.", "spec": mean_spec(list(values), policies, axis, is_wide),
        })  # fmt: skip
    return noted(charts, setting)


def interval_ends(value: Estimate, column: Column) -> tuple[float, float, float]:
    """The mean and its interval, in the unit of the column, without what a share or a slowdown cannot be."""
    least = -math.inf if column.name.startswith("fragmentation_") else float("slowdown" in column.name)
    most = 1.0 if column.unit == "%" and not column.name.startswith(ABOVE_1) else math.inf
    return interval(value, min(value.mean, least), column.factor, max(value.mean, most))


def sweeps(settings: Sequence[Setting], policies: Sequence[str]) -> list[Sweep]:
    """Every metric over each swept parameter that takes several values, all else fixed.

    Returns list of dict: for each parameter and combination of the others: ``key``, ``label`` (words for it), ``note``,
    ``spec`` (the page puts in the title of the vertical axis), and ``metrics``: ``name``, ``words``, ``axis`` (that
    title), ``note``, ``shown`` (whether it is drawn unasked) and ``series``, in which the columns ``low`` and ``high``
    bound the 95 % interval and ``less`` is 1 where the policy served less than others. Empty without a sweep; of the
    first ``MOST_SWEPT`` combinations where there are more.
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
    more = f" (the first {MOST_SWEPT} of {len(several)} combinations)" if len(several) > MOST_SWEPT else ""
    return [_sweep(key, place + more, own, policies) for key, place, own in several[:MOST_SWEPT]]


def _sweep(key: str, note: str, settings: Sequence[Setting], policies: Sequence[str]) -> Sweep:
    x, places = _axis(key, settings)
    y = number("y", "", scale={"zero": False})
    runs = [run for setting in settings for own in setting.runs.values() for run in own]
    names = dict.fromkeys(name for run in runs for name in run.metrics)
    questions = {question.metric: question.words.capitalize() for question in QUESTIONS}
    first = [name for name in (*questions, *SHORT) if name in names]
    metrics = []
    columns = columns_of({name: [run.metrics.get(name) for run in runs] for name in [*first, *names]})
    for name, column in columns.items():
        series = [_series(policy, column, settings, places) for policy in policies]
        series = [rows for rows in series if rows["x"]]
        if not series or name in NOT_DRAWN:
            continue
        bound = _bound(settings, places) if name == "missed_deadlines" else None
        metrics.append({
            "name": name, "words": questions.get(name, column.label[:1].upper() + column.label[1:]),
            "axis": column.heading, "shown": name in questions,
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
        if value is not None:
            rows.append((place, *interval_ends(value, column), int(policy in setting.served_less)))
    return series_of(policy, _COLUMNS, rows)


def _bound(settings: Sequence[Setting], places: Sequence[Any]) -> Mapping[str, Any] | None:
    """The share of deadlines, in %, that no policy could keep in each setting; ``None`` where it is not known."""
    rows = []
    for place, setting in zip(places, settings, strict=True):
        bound = missed_bound(run for own in setting.runs.values() for run in own)
        if bound is not None:
            rows.append((place, *[six_digits(100 * bound)] * 3, 0))
    return series_of(BOUND, _COLUMNS, rows) if rows else None
