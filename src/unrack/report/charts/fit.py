"""Charts of a model fitted to a log: each property of the jobs as the log has it and as the model draws it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unrack.extras import needed_for
from unrack.plots.series import distribution, rounded
from unrack.report.charts.spec import number, word
from unrack.workload.account import WEEKDAYS

if TYPE_CHECKING:
    from unrack.workload.generate.batch.fit import Fit, Marginal

_COLOURS = {"log": "#4c566a", "model": "#d08770"}
_FROM = {"work": 0.01}
"""Where a logarithmic axis begins; otherwise at 1."""

_WIDTH, _HEIGHT = 360, 190


def drawn(fit: Fit, ending: str) -> bytes:
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


def spec_of(fit: Fit) -> dict[str, Any]:
    """A Vega-Lite specification: bars for hour and weekday, distribution functions for the rest, two to a row."""
    charts = [_bars(one) if one.name in ("hour of day", "weekday") else _steps(one) for one in fit.marginals]
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


def _bars(marginal: Marginal) -> dict[str, Any]:
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
