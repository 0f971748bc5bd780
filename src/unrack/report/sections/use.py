"""Everything that the page shows of memory in use; nothing where no workload of the study says what jobs use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from unrack.facts import some
from unrack.kernels.arrays import Floats
from unrack.metric.estimate import estimate
from unrack.metric.kinds.memory import USE_METRICS
from unrack.plots.series import bin_edges, rounded
from unrack.report.charts.chart import MOST_POLICIES, Chart, span_axis
from unrack.report.charts.spec import Spec, framed, number, part_legend, told, word
from unrack.report.sections.section import PlainTable, SectionKind, Shown, metric_table, plain, stack_chart
from unrack.report.setting import RunFiles, Setting
from unrack.report.table import number_text, share_text

MOST_ROWS = 60
MOST_JOBS = 8
THROUGHPUT = "throughput_jobs_per_h"
USED, HELD, ASKED, INSTALLED, STOPPED = "used", "held", "asked", "installed", "stop for lack of memory"
COLOURS = {USED: "#4477AA", HELD: "#A9C3E0", ASKED: "#EE8866", INSTALLED: "#808890", STOPPED: "#D7263D"}
SPANS = 300
"""Spans of time of the picture."""

_GB, _TB = 1024.0, 1024.0**2
PARTS = {"used": COLOURS[USED], "held and not used": COLOURS[HELD], "free": "rgba(128, 136, 144, 0.22)"}
_JOBS = (
    "job", "user", "state", "tasks", "memory_mb", "peak_mb_per_task", "memory_grown_mb", "memory_shrunk_mb",
    "memory_stops", "node_s_lost", "node_s_blocked", "restarts",
)  # fmt: skip


def knows_use(run: RunFiles) -> bool:
    """Whether the run's workload says what jobs use."""
    return "memory_used" in run.metrics


def of_study(settings: Sequence[Setting], shown: Sequence[Setting], policies: Sequence[str]) -> dict[str, Any]:
    """A table of throughput by memory, in the first ``MOST_ROWS`` settings that know use."""
    return {"table": throughput_by_memory(list(filter(USE.is_in, settings))[:MOST_ROWS])}


def of_setting(setting: Setting, policies: Sequence[str]) -> Shown:
    """Shares of the memory, and the metrics of use."""
    return share_charts(setting), {"": metric_table(setting, (THROUGHPUT, *USE_METRICS), setting.runs)}


def of_run(run: RunFiles, setting: Setting) -> Shown:
    """Use over time, and tables of the jobs of which the memory ``changed`` most, and that were ``stopped``."""
    spans = [span for own in setting.runs.values() if (span := own[0].span) is not None]
    jobs = run.frame("jobs", _JOBS)
    charts = use_over_time(run.frame("memory"), run.span, stops_of(run.frame("placements")), run.total_mb,
                           bin_edges(spans or [(0.0, 1.0)], SPANS))  # fmt: skip
    return charts, {"changed": changed_jobs(jobs), "stopped": stopped_jobs(jobs)}


def share_charts(setting: Setting) -> list[Chart]:
    """Of what is installed: used, held and not used, free; a bar a policy (the first ``MOST_POLICIES``).

    Empty where memory is not counted.
    """
    stack = {}
    for policy, runs in list(setting.runs.items())[:MOST_POLICIES]:
        if (shares := shares_of(runs)) is None:
            continue
        used, idle, _ = shares
        words = f"{100 * idle / (used + idle) if used + idle else 0:.3g} % of what jobs hold is not used"
        stack[policy] = [(name, share, words) for name, share in zip(PARTS, shares, strict=True) if share > 0]
    if not stack:
        return []
    title, note = "Memory used, held for nothing, and free", "Averages over the window of measurement."
    return [stack_chart("use shares", title, note, stack, PARTS, "share of the memory installed", wide=True)]


def shares_of(runs: Sequence[RunFiles]) -> tuple[float, float, float] | None:
    """Used, held and not used, and free memory as shares of what is installed, over the seeds; ``None``: not known.

    Where jobs stand still for lack of memory, what they need counts as use in the metrics; here all shares are of what
    is installed, and use is what is held at most.
    """
    used, idle = [], []
    for run in runs:
        share, unused = run.metrics.get("memory_used"), run.metrics.get("memory_held_unused")
        if share is None:
            return None
        held = min(share / (1 - unused) if unused is not None and unused < 1 else share, 1.0)
        used.append(min(share, held))
        idle.append(max(held - share, 0.0))
    means = estimate(used), estimate(idle)
    if means[0] is None or means[1] is None:
        return None
    return means[0].mean, means[1].mean, max(1 - means[0].mean - means[1].mean, 0.0)


def throughput_by_memory(settings: Sequence[Setting]) -> PlainTable | None:
    """Jobs per hour for every TB that is installed: a row a setting, a column a policy (the first ``MOST_POLICIES``).

    What served less than others of its setting says so. ``None``: no cluster counts its memory.
    """
    policies = list(dict.fromkeys(policy for setting in settings for policy in setting.runs))[:MOST_POLICIES]
    heads = [("installed (TB)", "Memory of all nodes."),
             *((policy, "Jobs per hour and TB installed.") for policy in policies)]  # fmt: skip
    rows = []
    for setting in settings:
        mb = next(iter(setting.runs.values()))[0].total_mb
        if mb is None:
            continue
        values, marked = setting.values(THROUGHPUT), setting.marks(THROUGHPUT, "high")
        cells = [*plain(number_text(mb / _TB))]
        for policy in policies:
            value = values.get(policy)
            text = number_text(None if value is None else value.mean / (mb / _TB))
            if policy in setting.served_less:
                text += f" (served {share_text(setting.served_less[policy])})"
            cells.append((text, marked.get(policy, "")))
        rows.append((setting.title, tuple(cells)))
    return PlainTable(tuple(heads), tuple(rows)) if rows else None


_Column = tuple[str, str, Callable[[dict[str, Any]], str]]
"""Words, what they mean, and the text of a job."""

_OF_TASKS: tuple[_Column, ...] = (
    ("asked (GB)", "By all of its tasks.", lambda job: _gb(job["memory_mb"])),
    ("peak of a task (GB)", "The most that any of its tasks uses.", lambda job: _gb(job["peak_mb_per_task"])),
    ("tasks", "How many it has.", lambda job: f"{job['tasks']:,}"),
)
_STOPS: _Column = (
    "stops", "Attempts that were stopped for lack of memory.", lambda job: f"{job['memory_stops']:,}",
)  # fmt: skip


def changed_jobs(jobs: pl.DataFrame) -> PlainTable | None:
    """The jobs with the leases that changed most, in MB; ``None``: no lease changed."""
    moved = pl.col("memory_grown_mb") + pl.col("memory_shrunk_mb")
    return _most(jobs.filter(moved > 0), [moved], (
        ("grew by (GB)", "Sum of all by which its leases grew while it ran.", lambda job: _gb(job["memory_grown_mb"])),
        ("shrank by (GB)", "Sum of all by which its leases shrank while it ran.",
         lambda job: _gb(job["memory_shrunk_mb"])),
        *_OF_TASKS, _STOPS,
    ))  # fmt: skip


def stopped_jobs(jobs: pl.DataFrame) -> PlainTable | None:
    """The jobs that lost most for lack of memory, stopped or standing still; ``None``: there was enough."""
    hit = (pl.col("memory_stops") > 0) | (pl.col("node_s_blocked") > 0)
    cost = pl.col("node_s_lost") + pl.col("node_s_blocked")
    return _most(jobs.filter(hit), [cost, pl.col("memory_stops")], (
        _STOPS,
        ("lost (node-h)", "Work that was lost with these attempts.", lambda job: _hours(job["node_s_lost"])),
        ("stood still (node-h)", "Time in which it stood still for lack of memory, times its nodes.",
         lambda job: _hours(job["node_s_blocked"])),
        *_OF_TASKS,
        ("in the end", "What became of it.", lambda job: str(job["state"])),
    ))  # fmt: skip


def _most(jobs: pl.DataFrame, by: Sequence[pl.Expr], columns: Sequence[_Column]) -> PlainTable | None:
    """The ``MOST_JOBS`` jobs that have most of something, of equal ones the first; ``None`` without any."""
    top = jobs.sort(by, descending=True, maintain_order=True).head(MOST_JOBS)
    rows = [(_name(job), plain(*(text(job) for *_, text in columns))) for job in top.iter_rows(named=True)]
    return PlainTable(tuple((words, meaning) for words, meaning, _ in columns), tuple(rows)) if rows else None


def _hours(node_s: float) -> str:
    return number_text(round(node_s / 3600, 3))


def _name(row: dict[str, object]) -> str:
    return f"{row['job']} of {row['user']}" if row.get("user") else str(row["job"])


def _gb(mb: int) -> str:
    return number_text(mb / 1024)


def stops_of(placements: pl.DataFrame) -> pl.DataFrame:
    """When attempts were stopped for lack of memory, in order: columns time_s and job."""
    stopped = placements.filter(pl.col("outcome") == "out-of-memory").group_by("job", "attempt", maintain_order=True)
    return stopped.agg(pl.col("end_s").max().alias("time_s")).sort("time_s", "job").select("time_s", "job")


def use_over_time(
    memory: pl.DataFrame, span: tuple[float, float] | None, stops: pl.DataFrame, total_mb: int | None, edges: Floats
) -> list[Chart]:
    """The picture, as :func:`unrack.report.charts.chart.setting_charts`; nothing where use was never looked at.

    ``memory``: the run's table of what jobs used, held and asked whenever it was looked at, each until the next;
    ``span``: from when until when the run lasted, s, if anything happened: at its end nothing is in use; ``total_mb``:
    installed, ``None``: not counted; ``edges``: float64[spans + 1], s.
    """
    if not len(memory):
        return []
    times = memory["time_s"].cast(pl.Float64).to_numpy()
    times = np.append(times, max(float(times[-1]), span[1] if span else 0.0))
    amounts = {name: np.append(memory[f"{name}_mb"].cast(pl.Float64).to_numpy(), 0.0) for name in (ASKED, HELD, USED)}
    x, at = span_axis(edges)
    most = max([total_mb or 0, *(float(values.max()) for values in amounts.values())])
    unit, words = (_TB, "TB") if most >= 4 * _TB else (_GB, "GB")
    series = {"policy": "", "x": at(edges[:-1])} | {
        name: rounded(largest_in(times, values, edges) / unit) for name, values in amounts.items()
    }
    note = f"The largest amounts in each of {len(edges) - 1} equal spans of time. Pale: held and not used."
    if stops.height:
        note += f" Triangles: {stops.height:,} stops for lack of memory."
    total = None if total_mb is None else total_mb / unit
    return [{"id": "use over time", "title": "Memory asked, held and used over time", "note": note, "wide": True,
             "series": [series], "spec": use_spec(x, words, total, stop_marks(stops, edges, at))}]  # fmt: skip


def use_spec(x: Spec, unit: str, installed: float | None, stops: Sequence[Mapping[str, object]]) -> Spec:
    """Areas of what is held and used, lines of what is asked and installed (fields ``x``, and their names).

    ``installed`` is ``None`` where it is not counted; ``stops``: rows of ``x``, ``stops`` and ``jobs``, marks on top.
    """
    shown = {ASKED: True, INSTALLED: installed is not None, HELD: True, USED: True, STOPPED: bool(stops)}
    names = [name for name, there in shown.items() if there]
    legend = {**part_legend(5), "symbolOpacity": 1, "symbolStrokeWidth": 0, "symbolFillColor": None}
    colour = {"type": "nominal", "legend": legend,
              "scale": {"domain": names, "range": [COLOURS[name] for name in names]}}  # fmt: skip
    x = {**x, "axis": {"tickCount": 12}}

    def y(name: str) -> Spec:
        return number(name, unit, stack=None, axis={"tickCount": 6})

    def coloured(name: str) -> Spec:
        return {**colour, "datum": name}

    area = {"type": "area", "interpolate": "step-after", "clip": True, "opacity": 1}
    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.4, "clip": True}
    layers: list[Spec] = [
        {"mark": mark, "encoding": {"x": x, "y": y(name), "color": coloured(name)}}
        for name, mark in ((HELD, area), (USED, area), (ASKED, line))
    ]
    if installed is not None:
        layers.append({
            "data": {"values": [{"amount": float(f"{installed:.6g}")}]},
            "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5},
            "encoding": {"y": y("amount"), "color": coloured(INSTALLED)},
        })  # fmt: skip
    when, *amounts = told(
        ("x", x["title"], ",.4~g"), *((name, f"{name} ({unit})", ",.4~g") for name in (ASKED, HELD, USED))
    )
    layers.append({
        "mark": {"type": "rule", "strokeWidth": 5, "opacity": 0, "clip": True},
        "encoding": {"x": x, "tooltip": [when, *amounts]},
    })  # fmt: skip
    if stops:
        layers.append({
            "data": {"values": list(stops)},
            "mark": {"type": "point", "shape": "triangle-down", "filled": True, "size": 60, "opacity": 1},
            "encoding": {
                "x": x, "y": {"value": 5}, "color": coloured(STOPPED),
                "tooltip": [when, number("stops", "stops"), word("jobs", "jobs")],
            },
        })  # fmt: skip
    return framed({"layer": layers}, 300)


def largest_in(times: Floats, values: Floats, edges: Floats) -> Floats:
    """The largest value of a step function in each span of time.

    Returns float64[spans].

    Parameters
    ----------
    times, values : float64[rows]
        The value from each time until the next, and 0 before the first; times do not fall.
    edges : float64[spans + 1]
        Spans of time.

    Examples
    --------
    >>> steps = np.array([1.0, 3.0, 3.5, 6.0]), np.array([4.0, 9.0, 1.0, 0.0])
    >>> largest_in(*steps, np.array([0.0, 2.0, 4.0, 6.0, 8.0])).tolist()
    [4.0, 9.0, 1.0, 0.0]
    """
    before = np.searchsorted(times, edges[:-1], side="right") - 1
    found = np.where(before >= 0, values[np.maximum(before, 0)], 0.0)
    inside = (times >= edges[0]) & (times < edges[-1])
    span = np.searchsorted(edges, times[inside], side="right") - 1
    np.maximum.at(found, span, values[inside])
    return found


def stop_marks(stops: pl.DataFrame, edges: Floats, at: Callable[[Floats], list[float | None]]) -> list[Chart]:
    """A mark for every span of time with stops: where (``x``, at the first of them), how many, and of which jobs."""
    times = stops["time_s"].to_numpy()
    jobs = stops["job"].cast(str).to_list()
    span = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)
    marks = list[Chart]()
    for first, count in zip(*np.unique(span, return_index=True, return_counts=True)[1:], strict=True):
        named = some(jobs[first : first + count], 3)
        marks.append({"x": at(times[first : first + 1])[0], "stops": int(count), "jobs": named})
    return marks


USE = SectionKind(knows_use, of_setting, of_run, of_study)
