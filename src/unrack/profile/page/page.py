"""The page: curves with their points and bands, noise, errors of forms, and what the machine could measure."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Sequence
from importlib import resources
from itertools import pairwise
from typing import Any

from unrack.extras import has_pictures
from unrack.profile.axes.axis import AxisFile, label_of, number
from unrack.profile.fitting.curve import CurveFit
from unrack.profile.fitting.estimates import ratios_of
from unrack.profile.profile import Profile, is_numeric

STEPS = 60
_COLOUR, _POINT = "#0072B2", "#2e3440"


def page_of(profiles: Sequence[Profile]) -> str:
    """One HTML page of profiles, which needs no network; charts where vl-convert is installed."""
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = resources.files("unrack.profile.page").joinpath("page.html.j2").read_text(encoding="utf-8")
    title = f"Profile{'s' * (len(profiles) > 1)} of {', '.join(profile.name for profile in profiles)}"
    shown = [_shown(profile) for profile in profiles]
    for one, after in pairwise(shown):  # what the same machine could measure is said once
        if one["probe"] == after["probe"]:
            one["probe"] = []
    return environment.from_string(template).render(title=title, pictures=has_pictures(), profiles=shown)


def _shown(profile: Profile) -> dict[str, Any]:
    axes = []
    for axis, content in zip(profile.application.axes, profile.content["axes"], strict=True):
        picture = _drawn(profile, axis) if has_pictures() else ""
        axes.append({**content, "picture": picture, "shape_only": "the group's peak" in content["sources"]})
    about = profile.probe
    return {
        "name": profile.name, "command": shlex.join(profile.application.file.command), "axes": axes,
        "at": str(about.get("at", "")), "kernel": str(about.get("kernel", "")), "load": float(about.get("load", 0.0)),
        "probe": about.get("probe", []),
    }  # fmt: skip


def _drawn(profile: Profile, axis: AxisFile) -> str:
    """The chart of an axis as SVG."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(json.dumps(chart_of(profile, axis))))


def chart_of(profile: Profile, axis: AxisFile) -> dict[str, Any]:
    """A Vega-Lite specification: runs, and levels with intervals; of numbers, the offered curve and its band too."""
    points = [
        {"level": one["level"], "x": float(one["level"]) if is_numeric(axis) else one["level"], "speed": one["speed"],
         "low": one["low"], "high": min(one["high"], 2.0)}
        for one in profile.content["axes"][profile.application.axes.index(axis)]["levels"]
    ]  # fmt: skip
    kind = "quantitative" if is_numeric(axis) else "nominal"
    words = {} if is_numeric(axis) else {"sort": None, "axis": {"labelAngle": 0}}
    x = {"field": "x", "type": kind, "title": axis.unit or "level", **words}
    top = max(1.0, *(point["high"] for point in points))
    y = {"field": "speed", "type": "quantitative", "title": "speed (1 = control)", "scale": {"domain": [0, top]}}
    ratios = ratios_of(profile.records.of(axis.label))
    runs = [
        {"x": number(one.level) if is_numeric(axis) else label_of(one.level), "speed": math.exp(-ratio)}
        for one in profile.estimates(axis) for ratio in ratios[one.level]
    ]  # fmt: skip
    layers: list[dict[str, Any]] = _curve(profile.fit(axis)) if is_numeric(axis) else []
    layers += [
        {"data": {"values": runs}, "mark": {"type": "point", "size": 60, "color": _COLOUR, "opacity": 0.5},
         "encoding": {"y": {**y, "field": "speed"}}},
        {"mark": {"type": "rule", "color": _POINT},
         "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}}},
        {"mark": {"type": "point", "filled": True, "size": 45, "color": _POINT, "opacity": 1}, "encoding": {"y": y}},
    ]  # fmt: skip
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": 420,
        "height": 230,
        "background": "white",
        "data": {"values": points},
        "encoding": {"x": x},
        "layer": layers,
        "config": {"font": "Helvetica, Arial, sans-serif", "view": {"stroke": "#ccc"}, "axis": {"gridColor": "#eee"}},
    }


def _curve(fit: CurveFit) -> list[dict[str, Any]]:
    curve, first, last = fit.curve(), fit.x[0], fit.x[-1]
    grid = sorted({*(first + (last - first) * i / STEPS for i in range(STEPS + 1)), *fit.x})
    rows = []
    for x in grid:
        low, high = fit.band(x)
        rows.append({"x": x, "speed": curve(x), "low": low, "high": min(high, 2.0) if math.isfinite(high) else 2.0})
    y = {"type": "quantitative", "title": "speed (1 = control)"}
    data = {"values": rows}
    return [
        {"data": data, "mark": {"type": "area", "color": _COLOUR, "opacity": 0.15},
         "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}}},
        {"data": data, "mark": {"type": "line", "color": _COLOUR, "strokeWidth": 2},
         "encoding": {"y": {**y, "field": "speed"}}},
    ]  # fmt: skip
