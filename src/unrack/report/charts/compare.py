"""Results side by side as an Altair chart: a small bar chart for each metric, the best of each marked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unrack.errors import InputError
from unrack.extras import extra, needed_for
from unrack.metric.estimate import ComparedRow, marks, served_less
from unrack.plots.series import PALETTE, distribution, rounded, six_digits
from unrack.report.charts.spec import number, word
from unrack.report.table import Column, column_of, share_text
from unrack.workload.account import WEEKDAYS

if TYPE_CHECKING:
    from unrack.sim.result import Result
    from unrack.workload.generate.batch.fit import Marginal, ModelFit


SHOWN = ("missed_deadlines", "wait_s_mean", "wait_s_p95", "bounded_slowdown_mean", "utilisation_cores", "jobs_finished")
"""The metrics drawn unless others are asked for: those of them that the results have."""
MOST_RESULTS = 30
_BEST, _OTHER, _LESS = "best", "compared", "served less: not compared"


def compare(results: Sequence[Result] | Mapping[str, Result], metrics: Sequence[str] = ()) -> Any:
    """Draw metrics of several results side by side and mark the best, as the report does.

    A result that served less of the work than another is marked and not compared, as waits are those of the jobs that
    finished.

    Parameters
    ----------
    results
        Two results or more, or one with a name each; those of a list are called after their policies.
    metrics
        Which, in order; see ``unrack metrics``. By default the main ones.

    Returns
    -------
    altair.ConcatChart
        It shows in a notebook, and ``save`` writes html, svg, png or pdf.

    Raises
    ------
    InputError
        There is no result, there are too many, a metric does not exist, or Altair is not installed.
    """
    named = _named(results)
    alt = extra("altair")
    values = {name: result.metrics for name, result in named.items()}
    known = list(dict.fromkeys(metric for own in values.values() for metric in own))
    for metric in metrics:
        if metric not in known:
            raise InputError("metrics", repr(metric), "metrics that the results have, such as " + ", ".join(SHOWN[1:]))
    there = [name for name in metrics or SHOWN if any(own.get(name) is not None for own in values.values())]
    rows = {name: ComparedRow({0: own.metrics}, _world(own)) for name, own in named.items()}
    less = served_less(rows)
    charts = []
    for metric in there:
        column = column_of(metric, [own.get(metric) for own in values.values()])
        marked = marks(rows, metric, column.better, less)
        charts.append(_bars(alt, column, {name: own.get(metric) for name, own in values.items()}, marked, less))
    words = _words(named, less)
    title = alt.TitleParams(f"{len(named)} results compared", subtitle=words, anchor="start")
    return alt.concat(*charts, columns=2, title=title).properties(description=f"Results compared. {' '.join(words)}")


def _named(results: Sequence[Result] | Mapping[str, Result]) -> dict[str, Result]:
    if isinstance(results, Mapping):
        found = {str(name): result for name, result in results.items()}
    else:
        found = {}
        for result in results:
            name, number = result.policy or result.log.cluster.name, 1
            alike = name
            while alike in found:
                number += 1
                alike = f"{name} ({number})"
            found[alike] = result
    if not 1 <= len(found) <= MOST_RESULTS:
        raise InputError("results", f"{len(found)} results", f"1 to {MOST_RESULTS} results")
    return found


def _world(result: Result) -> str:
    modelled = result.pace is not None and bool((result.pace.model >= 0).any())
    return "models" if modelled or result.contention is not None else "base"


def _words(named: Mapping[str, Result], less: Mapping[str, float]) -> list[str]:
    words = ["Dark bars and bold numbers are the best of a metric, ties included."]
    if len({_world(result) for result in named.values()}) > 1:
        words.append("Results with models or contention are compared with each other, those without with each other.")
    if less:
        some = ", ".join(f"{name} {share_text(share)}" for name, share in list(less.items())[:4])
        words.append(f"Served less of the work than others, so not compared: {some}.")
    if len({result.log.jobs.digest() for result in named.values()}) > 1:
        words.append("The results are of different workloads: differences are not the policies' alone.")
    return words


def _bars(
    alt: Any, column: Column, values: Mapping[str, float | None], marked: Mapping[str, str], less: Mapping[str, float]
) -> Any:
    rows = [
        {
            "name": name, "value": six_digits(value * column.factor), "text": column.text(value),
            "kind": _BEST if marked.get(name) == "best" else _LESS if name in less else _OTHER,
        }
        for name, value in values.items() if value is not None
    ]  # fmt: skip
    title = column.heading[:1].upper() + column.heading[1:]
    order = list(values)
    kinds = [_BEST, _OTHER, _LESS]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=alt.Y("name:N", sort=order, title=None, scale=alt.Scale(domain=order), axis=alt.Axis(labelLimit=220)),
        x=alt.X("value:Q", title=title, axis=alt.Axis(tickCount=4, format=",.4~r")),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("text:N", title=title), alt.Tooltip("kind:N")],
    )  # fmt: skip
    colour = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=kinds, range=[PALETTE[0], "#9CBBD6", "#D5DADF"]))
    bars = base.mark_bar(height={"band": 0.72}).encode(color=colour)
    weight = {"expr": f"datum.kind === '{_BEST}' ? 'bold' : 'normal'"}
    words = base.mark_text(align="left", dx=4, fontSize=11, fontWeight=weight).encode(
        text=alt.Text("text:N"), color=alt.value("#1c2024")
    )
    return (bars + words).properties(width=260, height={"step": 22})


_COLOURS = {"log": "#4c566a", "model": "#d08770"}
_FROM = {"work": 0.01}
"""Where a logarithmic axis begins; otherwise at 1."""

_WIDTH, _HEIGHT = 360, 190


def drawn(fit: ModelFit, ending: str) -> bytes:
    """The charts as a file: ``".svg"``, ``".png"``, or ``".html"``, one page that needs no network.

    A MissingError if vl-convert is not installed.
    """
    with needed_for("a picture of a fitted model"):
        import vl_convert

    spec = json.dumps(spec_of(fit))
    if ending == ".svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    if ending == ".png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2))
    return str(vl_convert.vegalite_to_html(spec, bundle=True)).encode()


def spec_of(fit: ModelFit) -> dict[str, Any]:
    """A Vega-Lite specification: bars for hour and weekday, distribution functions for the rest, two to a row."""
    charts = [_marginals(one) if one.name in ("hour of day", "weekday") else _steps(one) for one in fit.marginals]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "title": {"text": "Batch model and log", "subtitle": f"fitted to {fit.model.source}", "anchor": "start"},
        "concat": charts,
        "columns": 2,
        "config": {"view": {"stroke": None}, "axis": {"grid": False}},
    }


def _chart(marginal: Marginal, rows: list[dict[str, Any]], mark: Any, x: dict[str, Any]) -> dict[str, Any]:
    """Shares of jobs over ``x``, of the log and of the model."""
    scale = {"domain": list(_COLOURS), "range": list(_COLOURS.values())}
    return {
        "title": f"{marginal.name[:1].upper()}{marginal.name[1:]}: KS distance {marginal.distance:.3f}",
        "width": _WIDTH,
        "height": _HEIGHT,
        "data": {"values": rows},
        "mark": mark,
        "encoding": {
            "x": {"field": "x", **x},
            "y": number("y", "share of jobs", axis={"format": ".0%"}),
            "color": word("of", scale=scale, legend={"orient": "top"}),
        },
    }


def _marginals(marginal: Marginal) -> dict[str, Any]:
    kinds = 24 if marginal.name == "hour of day" else 7
    names: Sequence[Any] = list(range(24)) if kinds == 24 else [day[:2] for day in WEEKDAYS]
    rows = []
    for of, values in (("log", marginal.log), ("model", marginal.drawn)):
        counts = np.bincount(values.astype(np.int64), minlength=kinds)
        rows += [{"x": name, "y": round(share, 6), "of": of}
                 for name, share in zip(names, (counts / counts.sum()).tolist(), strict=True)]  # fmt: skip
    x = {"type": "ordinal", "sort": list(names), "title": marginal.name, "axis": {"labelAngle": 0}}
    chart = _chart(marginal, rows, "bar", x)
    chart["encoding"]["xOffset"] = {"field": "of", "type": "nominal"}
    return chart


def _steps(marginal: Marginal) -> dict[str, Any]:
    logarithmic = marginal.name != "accuracy"
    rows = []
    for of, values in (("log", marginal.log), ("model", marginal.drawn)):
        places, shares = distribution(np.maximum(values, _FROM.get(marginal.name, 1.0)) if logarithmic else values)
        rows += [{"x": x, "y": round(y, 5), "of": of}
                 for x, y in zip(rounded(places, 6), shares.tolist(), strict=True)]  # fmt: skip
    unit = f" ({marginal.unit})" if marginal.unit else ""
    words = {"size": "size (nodes), log scale", "accuracy": "run time / requested time",
             "work": "work of a job (node-hours), log scale, from 0.01"}  # fmt: skip
    title = words.get(marginal.name, f"{marginal.name}{unit}, log scale, from 1 s")
    scale = {"type": "log" if logarithmic else "linear", "nice": False}
    x = {"type": "quantitative", "title": title, "scale": scale, "axis": {"format": "~s"}}
    chart = _chart(marginal, rows, {"type": "line", "interpolate": "step-after"}, x)
    chart["encoding"]["y"]["scale"] = {"domain": [0, 1]}
    return chart
