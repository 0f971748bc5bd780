"""Vega-Lite specifications of bars: parts of a whole, amounts by group, and amounts with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unrack.report.charts.spec import (
    LEVEL,
    Spec,
    coloured_parts,
    framed,
    hollow,
    number,
    policy_channels,
    stacked,
    told,
    word,
)

ABOVE: Spec = {"labelAlign": "left", "labelBaseline": "bottom", "labelPadding": 0, "labelOffset": -9, "labelLimit": 440,
               "ticks": False, "domain": False}  # fmt: skip
"""The axis of lying bars: each name above its bar, so that long ones are not cut."""


def stack_spec(policies: Sequence[str], parts: Mapping[str, str], x_title: str, bound: float | None = None) -> Spec:
    """Horizontal bars from 0 to 100 %, one a policy, of parts in order (fields ``y``, ``x``, ``part``, ``count``).

    ``parts``: name → colour, from left to right; ``bound``: a share to mark with a line from top to bottom.
    """
    axes = {
        "y": word("policy", sort=list(policies), axis=ABOVE),
        "x": number("x", x_title, stack="zero", scale={"domain": [0, 1]}, axis={"format": ".0%", "tickCount": 5}),
    }
    tooltip = told(("policy", "policy"), ("part", "what"), ("x", "share", ".2%"), ("count", "amount"))
    bars = {"mark": {"type": "bar", "height": {"band": 0.42}},
            "encoding": {**axes, "color": coloured_parts(parts, 4), "tooltip": tooltip}}  # fmt: skip
    layers = [stacked(bars, parts)]
    if bound is not None:
        place = {"x": {"datum": bound, "type": "quantitative"}}
        layers.append({"mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 2}, "encoding": place})
    return framed({"layer": layers}, 38 * max(len(policies), 1) + 96)


def _grouped(policies: Sequence[str], groups: Sequence[str], x_title: str, y: Spec, tooltip: list[Spec]) -> Spec:
    """Bars side by side, grouped by ``x``, one a policy."""
    return framed({
        "mark": {"type": "bar"},
        "encoding": {
            "x": word("x", x_title, sort=list(groups), axis=LEVEL),
            "xOffset": {"field": "policy", "type": "nominal", "sort": list(policies)},
            "y": y,
            "color": policy_channels(policies)["color"],
            "tooltip": tooltip,
        },
    })  # fmt: skip


def bar_spec(policies: Sequence[str], classes: Sequence[str], x_title: str, y_title: str) -> Spec:
    """Bars up from 1 on a log scale, grouped by class, one a policy (fields ``x``, ``y``, ``count``)."""
    axis = {"format": "~s", "labelOverlap": True, "tickCount": 4}
    y = number("y", y_title, scale={"type": "log", "domainMin": 1, "nice": True}, axis=axis)
    rows = told(("policy", "policy"), ("x", x_title), ("y", y_title, ",.4~g"), ("count", "jobs", ",d"))
    spec = _grouped(policies, classes, x_title, y, rows)
    spec["encoding"]["y2"] = {"datum": 1}
    return spec


def share_spec(policies: Sequence[str], levels: Sequence[str], x_title: str, y_title: str, form: str = ".0%") -> Spec:
    """Bars of a share, grouped by level, one a policy (fields ``x``, ``y``); ``form``: of the numbers on the axis."""
    y = number("y", y_title, axis={"format": form, "tickCount": 5})
    return _grouped(policies, levels, x_title, y, told(("policy", "policy"), ("x", x_title), ("y", y_title, ".1%")))


def node_spec(shown: Sequence[str], policies: Sequence[str], groups: Sequence[str], parts: Mapping[str, str]) -> Spec:
    """Jobs by node, a stacked bar for each policy shown over its colour (fields ``x``, ``y``, ``part``)."""
    x = word("x", "node", axis={**LEVEL, "offset": 6}, sort=list(groups), scale={"domain": list(groups)})
    offset = {"field": "policy", "type": "nominal", "sort": list(shown)}
    fill = {**coloured_parts(parts, 8), "title": None}
    tooltip = told(("policy", "policy"), ("x", "node"), ("part", "class"), ("y", "jobs", ",.4~g"))
    bars = {"mark": {"type": "bar"}, "encoding": {"y": number("y", "jobs", stack="zero"), "fill": fill,
                                                  "tooltip": tooltip}}  # fmt: skip
    foot: Spec = {
        "mark": {"type": "tick", "orient": "horizontal", "thickness": 5, "bandSize": 0, "yOffset": 5, "opacity": 1},
        "encoding": {"y": {"datum": 0, "type": "quantitative"}, "fill": policy_channels(policies)["color"]},
    }
    alone = {"scale": {"fill": "independent"}}
    return framed({"encoding": {"x": x, "xOffset": offset}, "layer": [bars, foot], "resolve": alone})


def fill_spec(clusters: Sequence[str], tiers: Mapping[str, str], title: str) -> Spec:
    """GB held in each cluster, stacked by tier (fields ``x``, ``y``, ``part``, ``servers``)."""
    x = word("x", title, sort=list(clusters), axis={**LEVEL, "ticks": False}, scale={"domain": list(clusters)})
    rows = told(("x", title), ("part", "tier"), ("y", "GB", ",.4~g"), ("servers", "servers", ",.3~g"))
    y = number("y", "GB held by servers", stack="zero", axis={"tickCount": 5})
    return framed(stacked({
        "mark": {"type": "bar"},
        "encoding": {"x": x, "y": y, "color": coloured_parts(tiers, 6), "tooltip": rows},
    }, tiers))  # fmt: skip


def throughput_spec(
    policies: Sequence[str], shown: Sequence[str], groups: Sequence[str], most: float = 1.0, whiskers: bool = False
) -> Spec:
    """Throughput relative to the highest: bars grouped by system or mix, one a policy (``x``, ``y``, ``amount``).

    The bars lie where the names of the groups are long, so that all of them can be read. ``most``: the end of the axis;
    ``whiskers``: lines from ``low`` to ``high``.
    """
    lie = max(map(len, groups), default=0) * len(groups) > 70
    axis: Spec = {"labelAngle": 0, "labelLimit": 170, "labelExpr": "split(datum.label, ' · ')"}
    place, size = ("y", "x") if lie else ("x", "y")
    height = 60 + len(groups) * max(14 * len(shown), 30) if lie else 230
    rows = told(("policy", "policy"), ("x", "where"), ("y", "relative to the highest", ".3f"), ("amount", "throughput"))
    spec: Spec = {
        "mark": {"type": "bar"},
        "encoding": {
            place: word("x", sort=list(groups), axis=axis, scale={"domain": list(groups)}),
            f"{place}Offset": {"field": "policy", "type": "nominal", "sort": list(shown)},
            size: number("y", "throughput, highest = 1", axis={"tickCount": 5}, scale={"domain": [0, most]}),
            "color": policy_channels(policies)["color"],
            "tooltip": rows,
        },
    }
    return framed(whiskered(spec, size) if whiskers else spec, height)


def whiskered(spec: Spec, along: str = "y") -> Spec:
    """A specification of bars with a line over each, from ``low`` to ``high`` on the channel along which it lies."""
    parts = {key: value for key, value in spec.items() if key not in ("mark", "encoding")}
    channels = {name: own for name, own in spec["encoding"].items() if name in ("x", "y", "xOffset", "yOffset")}
    ends = {along: {**channels[along], "field": "low"}, f"{along}2": {"field": "high"}}
    line: Spec = {"mark": {"type": "rule", "strokeWidth": 1.2}, "encoding": {**channels, **ends}}
    return {**parts, "layer": [{"mark": spec["mark"], "encoding": spec["encoding"]}, line]}


def mean_spec(shown: Sequence[str], policies: Sequence[str], x_title: str, is_wide: bool) -> Spec:
    """Points with bars from ``low`` to ``high`` and caps at their ends, a row a policy (fields ``x``, ``text``)."""
    y = word("policy", sort=list(shown), axis={**ABOVE, "grid": False})
    x = {"type": "quantitative", "title": x_title,
         "scale": {"type": "log", "nice": False, "padding": 8} if is_wide else {"zero": False, "nice": True},
         "axis": {"tickCount": 5, "format": ",.4~r"}}  # fmt: skip
    colour = policy_channels(policies)["color"]
    cap: Spec = {"type": "tick", "orient": "vertical", "thickness": 1.6, "size": 9}
    point = {"x": {**x, "field": "x"}, "stroke": colour, "fill": hollow(colour)}
    layers: list[Spec] = [
        {"mark": {"type": "rule", "strokeWidth": 1.6}, "encoding": {
            "x": {**x, "field": "low"}, "x2": {"field": "high"}, "color": colour}},
        *({"mark": cap, "encoding": {"x": {**x, "field": end}, "color": colour}} for end in ("low", "high")),
        {"mark": {"type": "point", "size": 55}, "encoding": {
            **point, "tooltip": told(("policy", "policy"), ("text", x_title))}},
    ]  # fmt: skip
    return framed({"encoding": {"y": y}, "layer": layers}, 38 * max(len(shown), 1) + 56)
