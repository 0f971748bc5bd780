"""Pictures of sensitivity curves: what was measured, and the curve that predictions use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from unrack.errors import InputError
from unrack.extras import needed_for
from unrack.slowdown import Curve, Method, ProfileSet, fitted

STEPS = 24
SERIES = ("local, 50 % reads", "local, 100 % reads", "remote, 50 % reads", "remote, 100 % reads")
COLOURS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00")


def plot_profiles(profiles: ProfileSet, path: str | Path, method: Method = "line", nodes: int | None = None) -> None:
    """Draw every application's curves with the fitted ones through them, a panel an application.

    Drawn are the curves with interference on all of the application's nodes. An InputError if the file cannot be
    written, there is nothing to draw, or vl-convert is not installed.

    Parameters
    ----------
    path
        What to write; ends in ``.svg`` or ``.png``.
    method
        How curves go through points.
    nodes
        Only applications measured on so many nodes; ``None``: each on the fewest that it was measured on.
    """
    target = Path(path)
    if target.suffix not in (".svg", ".png"):
        raise InputError("path", repr(str(path)), "a name that ends in .svg or .png")
    spec = json.dumps(chart(profiles, method, nodes))
    with needed_for("a picture of profiles"):
        import vl_convert

    content = (
        str(vl_convert.vegalite_to_svg(spec)).encode()
        if target.suffix == ".svg"
        else bytes(vl_convert.vegalite_to_png(spec, scale=2))
    )
    try:
        target.write_bytes(content)
    except OSError as error:
        raise InputError(str(target), error.strerror or str(error), "a file that can be written") from None


def chart(profiles: ProfileSet, method: Method = "line", nodes: int | None = None) -> dict[str, Any]:
    """The picture as a Vega-Lite specification with its numbers in it; arguments as in :func:`plot_profiles`."""
    rows: list[dict[str, Any]] = []
    panels: list[str] = []
    for app in profiles:
        sizes = [size for owner, size in profiles.families if owner == app and nodes in (None, size)]
        if not sizes:
            continue
        panel = f"{profiles[app][0].name} ({min(sizes)} node{'s' if min(sizes) > 1 else ''})"
        panel = panel if panel not in panels else f"{panel} #{app}"
        panels.append(panel)
        family = profiles.families[app, min(sizes)]
        widest = max(curve.interfering for curve in family)
        for curve in family:
            if curve.interfering == widest:
                rows += _rows(curve, panel, method)
    if not rows:
        raise InputError("nodes", repr(nodes), "a number of nodes that curves were measured on")
    y = {"field": "speed", "type": "quantitative", "title": "speed (1 = alone, local)",
         "scale": {"zero": False, "nice": True}}  # fmt: skip
    colour = {"field": "series", "type": "nominal", "title": None,
              "scale": {"domain": list(SERIES), "range": list(COLOURS)}}  # fmt: skip
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": "white",
        "title": {"text": "Sensitivity to interfering traffic", "anchor": "start",
                  "subtitle": f"Points: measured, interference on all nodes. Lines: what predictions use ({method})."},
        "data": {"values": rows},
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": panels,
                  "header": {"labelFontSize": 11, "labelFontWeight": "bold"}},
        "columns": 6,
        "spacing": 18,
        "spec": {
            "width": 150,
            "height": 110,
            "encoding": {"x": {"field": "x", "type": "quantitative", "title": "interference, GB/s",
                               "axis": {"tickCount": 4}},
                         "y": y, "color": colour},
            "layer": [
                {"transform": [{"filter": "!datum.point"}], "mark": {"type": "line", "strokeWidth": 1.3}},
                {"transform": [{"filter": "datum.point"}],
                 "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.9}},
            ],
        },
        "config": {
            "font": "Helvetica, Arial, sans-serif",
            "view": {"stroke": "#ccc"},
            "axis": {"gridColor": "#eee", "labelFontSize": 9, "titleFontSize": 10},
            "legend": {"orient": "top", "symbolType": "circle", "columns": 4, "labelFontSize": 11},
            "title": {"fontSize": 14, "subtitleFontSize": 11, "subtitleColor": "#555", "offset": 10},
        },
    }  # fmt: skip


def _rows(curve: Curve, panel: str, method: Method) -> list[dict[str, Any]]:
    series = SERIES[2 * curve.remote + (curve.reads == 100)]
    fit, top = fitted(curve.points, method), curve.points[-1][0]
    marks = [(x, y, True) for x, y in curve.points]
    lines = [(top * i / STEPS, min(fit.at(top * i / STEPS), 1.0), False) for i in range(STEPS + 1)]
    return [
        {"panel": panel, "series": series, "x": round(x / 1000, 4), "speed": round(y, 5), "point": point}
        for x, y, point in marks + lines
    ]
