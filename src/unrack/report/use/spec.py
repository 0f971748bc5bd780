"""The Vega-Lite specification of memory over time; the rows are put in by the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unrack.report.charts.spec import Spec, framed, part_legend

USED, HELD, ASKED, INSTALLED, STOPPED = "used", "held", "asked", "installed", "stop for lack of memory"
COLOURS = {USED: "#4477AA", HELD: "#A9C3E0", ASKED: "#EE8866", INSTALLED: "#808890", STOPPED: "#D7263D"}


def use_spec(x: Spec, unit: str, installed: float | None, stops: Sequence[Mapping[str, object]]) -> Spec:
    """Areas of what is held and used, lines of what is asked and installed (fields ``x``, and their names).

    Parameters
    ----------
    x
        The channel of time.
    unit
        Of the amounts.
    installed
        Amount installed; ``None``: not counted.
    stops
        Rows of ``x``, ``stops`` and ``jobs``: marks at the top.
    """
    shown = {ASKED: True, INSTALLED: installed is not None, HELD: True, USED: True, STOPPED: bool(stops)}
    names = [name for name, there in shown.items() if there]
    legend = {**part_legend(5), "symbolOpacity": 1, "symbolStrokeWidth": 0, "symbolFillColor": None}
    colour = {"type": "nominal", "legend": legend,
              "scale": {"domain": names, "range": [COLOURS[name] for name in names]}}  # fmt: skip

    x = {**x, "axis": {"tickCount": 12}}

    def y(name: str) -> Spec:
        return {"field": name, "type": "quantitative", "title": unit, "stack": None, "axis": {"tickCount": 6}}

    def coloured(name: str) -> Spec:
        return {**colour, "datum": name}

    def area(name: str) -> Spec:
        mark = {"type": "area", "interpolate": "step-after", "clip": True, "opacity": 1}
        return {"mark": mark, "encoding": {"x": x, "y": y(name), "color": coloured(name)}}

    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 1.4, "clip": True}
    layers: list[Spec] = [
        area(HELD),
        area(USED),
        {"mark": line, "encoding": {"x": x, "y": y(ASKED), "color": coloured(ASKED)}},
    ]
    if installed is not None:
        layers.append({
            "data": {"values": [{"amount": float(f"{installed:.6g}")}]},
            "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5},
            "encoding": {"y": y("amount"), "color": coloured(INSTALLED)},
        })  # fmt: skip
    amounts = [{"field": name, "type": "quantitative", "title": f"{name} ({unit})", "format": ",.4~g"}
               for name in (ASKED, HELD, USED)]  # fmt: skip
    when = {"field": "x", "type": "quantitative", "title": x["title"], "format": ",.4~g"}
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
                "tooltip": [when, {"field": "stops", "type": "quantitative", "title": "stops"},
                            {"field": "jobs", "type": "nominal", "title": "jobs"}],
            },
        })  # fmt: skip
    return framed({"layer": layers}, 300)
