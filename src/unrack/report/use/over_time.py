"""The picture of a run: memory asked, held and used over time, and when jobs were stopped for lack of it."""

from __future__ import annotations

import numpy as np

from unrack.plots.series import Floats, rounded
from unrack.report.charts.chart import Chart, span_axis
from unrack.report.use.run import UseRun
from unrack.report.use.spec import use_spec

SPANS = 300
"""Spans of time of the picture."""

_GB, _TB = 1024.0, 1024.0**2


def use_over_time(own: UseRun, edges: Floats) -> list[Chart]:
    """The picture, as :func:`unrack.report.charts.chart.setting_charts`; nothing where use was never looked at.

    Parameters
    ----------
    own
        A run.
    edges : float64[spans + 1]
        Spans of time, s.
    """
    if len(own.times) < 2:
        return []
    x, size = span_axis(edges)
    most = max([own.total_mb or 0, *(float(values.max()) for values in own.amounts.values())])
    unit, words = (_TB, "TB") if most >= 4 * _TB else (_GB, "GB")
    series = {"policy": "", "x": rounded(edges[:-1] / size, 5)} | {
        name.removesuffix("_mb"): rounded(largest_in(own.times, values, edges) / unit)
        for name, values in own.amounts.items()
    }
    note = f"The largest amounts in each of {len(edges) - 1} equal spans of time. Pale: held and not used."
    if own.stops.height:
        note += f" Triangles: {own.stops.height:,} stops for lack of memory."
    total = None if own.total_mb is None else own.total_mb / unit
    return [{"id": "use over time", "title": "Memory asked, held and used over time", "note": note, "wide": True,
             "series": [series], "spec": use_spec(x, words, total, stop_marks(own, edges, size))}]  # fmt: skip


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


def stop_marks(own: UseRun, edges: Floats, size: float) -> list[Chart]:
    """A mark for every span of time with stops: where (``x``, at the first of them), how many, and of which jobs."""
    times = own.stops["time_s"].to_numpy()
    jobs = own.stops["job"].cast(str).to_list()
    span = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)
    marks = list[Chart]()
    for first, count in zip(*np.unique(span, return_index=True, return_counts=True)[1:], strict=True):
        more = f" and {count - 3} more" if count > 3 else ""
        named = ", ".join(jobs[first : first + min(count, 3)]) + more
        marks.append({"x": rounded(times[first : first + 1] / size, 5)[0], "stops": int(count), "jobs": named})
    return marks
