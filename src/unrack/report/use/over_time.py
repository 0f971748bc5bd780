"""The picture of a run: memory asked, held and used over time, and when jobs were stopped for lack of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from unrack.facts import some
from unrack.kernels.arrays import Floats
from unrack.plots.series import rounded
from unrack.report.charts.chart import Chart, span_axis
from unrack.report.charts.spec import Spec, framed, number, part_legend, told, word

USED, HELD, ASKED, INSTALLED, STOPPED = "used", "held", "asked", "installed", "stop for lack of memory"
COLOURS = {USED: "#4477AA", HELD: "#A9C3E0", ASKED: "#EE8866", INSTALLED: "#808890", STOPPED: "#D7263D"}
SPANS = 300
"""Spans of time of the picture."""

_GB, _TB = 1024.0, 1024.0**2


AMOUNTS = ("asked", "held", "used")


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
    amounts = {name: np.append(memory[f"{name}_mb"].cast(pl.Float64).to_numpy(), 0.0) for name in AMOUNTS}
    x, size = span_axis(edges)
    most = max([total_mb or 0, *(float(values.max()) for values in amounts.values())])
    unit, words = (_TB, "TB") if most >= 4 * _TB else (_GB, "GB")
    series = {"policy": "", "x": rounded(edges[:-1] / size, 5)} | {
        name: rounded(largest_in(times, values, edges) / unit) for name, values in amounts.items()
    }
    note = f"The largest amounts in each of {len(edges) - 1} equal spans of time. Pale: held and not used."
    if stops.height:
        note += f" Triangles: {stops.height:,} stops for lack of memory."
    total = None if total_mb is None else total_mb / unit
    return [{"id": "use over time", "title": "Memory asked, held and used over time", "note": note, "wide": True,
             "series": [series], "spec": use_spec(x, words, total, stop_marks(stops, edges, size))}]  # fmt: skip


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

    Parameters
    ----------
    times, values : float64[rows]
        The value from each time until the next, and 0 before the first; times do not fall.
    edges : float64[spans + 1]
        Spans of time.

    Returns
    -------
    float64[spans]

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


def stop_marks(stops: pl.DataFrame, edges: Floats, size: float) -> list[Chart]:
    """A mark for every span of time with stops: where (``x``, at the first of them), how many, and of which jobs."""
    times = stops["time_s"].to_numpy()
    jobs = stops["job"].cast(str).to_list()
    span = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)
    marks = list[Chart]()
    for first, count in zip(*np.unique(span, return_index=True, return_counts=True)[1:], strict=True):
        named = some(jobs[first : first + count], 3)
        marks.append({"x": rounded(times[first : first + 1] / size, 5)[0], "stops": int(count), "jobs": named})
    return marks
