"""Vega-Lite specifications as plain dictionaries; the rows are put in by the page."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

# Okabe and Ito's colours, told apart with any colour vision, without yellow and black; then they repeat, dashed.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8F8F8F", "#A6761D")
_DASHES = ([1, 0], [6, 3], [4, 4], [8, 3, 2, 3])
_DOTS = [1, 3]
_TIMES = ((0, "0"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h"), (21600, "6 h"),
          (86400, "1 d"), (604800, "1 w"), (2592000, "30 d"))  # fmt: skip

BOUND = "no policy can be below"
"""Stands among the policies of a chart for the bound on all of them."""

Spec = dict[str, Any]
ABOVE: Spec = {"labelAlign": "left", "labelBaseline": "bottom", "labelPadding": 0, "labelOffset": -9, "labelLimit": 440,
               "ticks": False, "domain": False}  # fmt: skip
"""The axis of lying bars: each name above its bar, so that long ones are not cut."""

LEVEL: Spec = {"labelAngle": 0, "labelOverlap": True}
"""The axis of names: level, and fewer of them where there is no room for all."""


def colour_of(index: int) -> str:
    """The colour of policy ``index``."""
    return COLOURS[index % len(COLOURS)]


def policy_channels(policies: Sequence[str], less: Collection[str] = ()) -> Spec:
    """Colour, and dashes once the colours repeat, for each policy of the study; legends are the page's own.

    Policies of ``less``, which served less than others, are dotted.
    """
    colours = ["#808890" if name == BOUND else colour_of(index) for index, name in enumerate(policies)]
    channels: Spec = {
        "color": {
            "field": "policy",
            "type": "nominal",
            "scale": {"domain": list(policies), "range": colours},
            "legend": None,
        }
    }
    if len(policies) > len(COLOURS) or less:
        dashes = [_DASHES[index // len(COLOURS) % len(_DASHES)] for index in range(len(policies))]
        dashes = [_DOTS if name in less else dash for name, dash in zip(policies, dashes, strict=True)]
        scale = {"domain": list(policies), "range": dashes}
        channels["strokeDash"] = {"field": "policy", "type": "nominal", "scale": scale, "legend": None}
    return channels


def line_spec(
    policies: Sequence[str],
    x: Spec,
    y: Spec,
    interpolate: str = "linear",
    marks: bool = False,
    less: Collection[str] = (),
) -> Spec:
    """Lines of y over x, one a policy, with a tooltip at the nearest point.

    Parameters
    ----------
    policies
        All policies of the study, in order.
    x, y
        Channels on the fields ``x`` and ``y``.
    interpolate
        As Vega-Lite has it.
    marks
        Show each point, with an error bar from ``low`` to ``high``; hollow where ``less`` is 1.
    less
        Policies that served less than others: their lines are dotted.
    """
    names = policy_channels(policies, less)
    tooltip = [{"field": "policy", "title": "policy"}, {**_tip(x), "field": "x"}, {**_tip(y), "field": "y"}]
    near = {"name": "near", "select": {"type": "point", "nearest": True, "on": "pointermove", "clear": "pointerout"}}
    shown = 1 if marks else {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
    opacity = {"value": shown} if marks else shown
    layers: list[Spec] = [
        {
            "mark": {"type": "line", "interpolate": interpolate, "strokeWidth": 1.4, "clip": True},
            "encoding": {"y": y, **names},
        }
    ]
    if marks:
        bar = {"type": "nominal", "field": "policy"}
        layers.append({
            "mark": {"type": "rule", "strokeWidth": 1.2},
            "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": names["color"], "detail": bar},
        })  # fmt: skip
    point: Spec = {"type": "point", "filled": not marks, "size": 45}
    colour: Spec = {"color": names["color"]}
    if marks:
        hollow = {"condition": {"test": "datum.less === 1", "value": "transparent"}, **names["color"]}
        colour = {"stroke": names["color"], "fill": hollow}
    layers.append({
        "params": [near],
        "mark": point,
        "encoding": {"y": y, **colour, "opacity": opacity, "tooltip": tooltip},
    })  # fmt: skip
    return framed({"encoding": {"x": x}, "layer": layers})


def rows_spec(policies: Sequence[str], x: Spec, y: Spec, top: float, rows: int, less: Collection[str] = ()) -> Spec:
    """A step line of y over x in a row of its own for each policy, all rows on one scale.

    Parameters
    ----------
    policies, x, y, less
        As of :func:`line_spec`.
    top
        The greatest y, where the scale of ``y`` has no domain.
    rows
        How many policies have a line.
    """
    names = policy_channels(policies, less)
    top = y.get("scale", {}).get("domain", [0, top])[1] or 1
    pattern = y.get("axis", {}).get("format", "").replace("~s", ".3~s") or ".3~g"
    place = [
        {"calculate": f"indexof({json.dumps(list(policies))}, datum.policy)", "as": "order"},
        {"window": [{"op": "dense_rank", "as": "row"}], "sort": [{"field": "order"}]},
        {"calculate": f"isValid(datum.y) ? datum.row - {_OF_ROW} * datum.y / {top} : null", "as": "high"},
    ]
    scale = {"reverse": True, "nice": False, "zero": True, "padding": 0}
    axis = {"labels": False, "ticks": False, "domain": False, "tickMinStep": 1}
    words = json.dumps(f"{y['title']}, each row from 0 to ")
    title = {"expr": f"{words} + format({top}, '{pattern}')"}
    high = {"field": "high", "type": "quantitative", "scale": scale, "axis": axis | {"title": title}}
    tooltip = [{"field": "policy", "title": "policy"}, {**_tip(x), "field": "x"}, {**_tip(y), "field": "y"}]
    near = {"name": "near", "select": {"type": "point", "nearest": True, "on": "pointermove", "clear": "pointerout"}}
    shown = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
    step: Spec = {"interpolate": "step-after", "clip": True}
    label: Spec = {"type": "text", "align": "left", "baseline": "top", "fontSize": 11, "dy": 2,
                   "limit": {"expr": "width - 8"}}  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "area", "opacity": 0.25, **step},
         "encoding": {"y": high, "y2": {"field": "row"}, "color": names["color"]}},
        {"mark": {"type": "line", "strokeWidth": 1.1, **step}, "encoding": {"y": high, **names}},
        {"params": [near], "mark": {"type": "point", "filled": True, "size": 45},
         "encoding": {"y": high, "color": names["color"], "opacity": shown, "tooltip": tooltip}},
        {"transform": [{"aggregate": [{"op": "min", "field": "row", "as": "row"}], "groupby": ["policy"]},
                       {"calculate": "datum.row - 1", "as": "high"}],
         "mark": label, "encoding": {"x": {"value": 4}, "y": high, "text": {"field": "policy"}}},
    ]  # fmt: skip
    return framed({"transform": place, "encoding": {"x": x}, "layer": layers}, max(230, 46 * rows))


_OF_ROW = 0.6
"""How much of a row its greatest value takes; its name stands above."""


def _tip(channel: Spec) -> Spec:
    axis = channel.get("axis", {})
    pattern = channel.get("tip", axis.get("format", ".4~g"))
    return {"type": channel["type"], "title": channel["title"]} | (
        {"format": pattern} if channel["type"] == "quantitative" else {}
    )


def bar_spec(policies: Sequence[str], classes: Sequence[str], x_title: str, y_title: str) -> Spec:
    """Bars up from 1 on a log scale, grouped by class, one a policy (fields ``x``, ``y``, ``count``)."""
    y = {"field": "y", "type": "quantitative", "title": y_title, "scale": {"type": "log", "domainMin": 1, "nice": True}}
    return framed({
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "x", "type": "nominal", "sort": list(classes), "title": x_title, "axis": LEVEL},
            "xOffset": {"field": "policy", "type": "nominal", "sort": list(policies)},
            "y": {**y, "axis": {"format": "~s", "labelOverlap": True, "tickCount": 4}},
            "y2": {"datum": 1},
            "color": policy_channels(policies)["color"],
            "tooltip": [
                {"field": "policy", "type": "nominal", "title": "policy"},
                {"field": "x", "type": "nominal", "title": x_title},
                {"field": "y", "type": "quantitative", "title": y_title, "format": ",.4~g"},
                {"field": "count", "type": "quantitative", "title": "jobs", "format": ",d"},
            ],
        },
    })  # fmt: skip


def time_axis(title: str) -> Spec:
    """An x channel for seconds from 0 to months: logarithmic, but with a place for 0."""
    words = ", ".join(f"'{value}': '{text}'" for value, text in _TIMES)
    values = [value for value, _ in _TIMES]
    axis = {"values": values, "labelExpr": f"({{{words}}})[datum.value]", "labelOverlap": "greedy"}
    scale = {"type": "symlog", "constant": 1, "nice": False, "zero": True}
    return {"field": "x", "type": "quantitative", "title": title, "scale": scale, "axis": axis, "tip": ",.4~g"}


def framed(spec: Spec, height: int = 230) -> Spec:
    """A specification as wide as its place on the page, without what is meant for tooltips alone."""
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "height": height,
        "autosize": {"type": "fit", "contains": "padding"},
        **_without_tips(spec),
    }


def _without_tips(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _without_tips(value) for key, value in part.items() if key != "tip"}
    return [_without_tips(value) for value in part] if isinstance(part, list) else part


def stack_spec(policies: Sequence[str], parts: Mapping[str, str], x_title: str, bound: float | None = None) -> Spec:
    """Horizontal bars from 0 to 100 %, one a policy, of parts in order (fields ``y``, ``x``, ``part``, ``count``).

    Parameters
    ----------
    policies
        From top to bottom.
    parts
        Name → colour, from left to right.
    x_title
        Of the axis.
    bound
        A share to mark with a line from top to bottom, if any.
    """
    order = " : ".join(f"datum.part === {json.dumps(name)} ? {place}" for place, name in enumerate(parts))
    bars: Spec = {
        "transform": [{"calculate": f"{order} : {len(parts)}", "as": "place"}],
        "mark": {"type": "bar", "height": {"band": 0.42}},
        "encoding": {
            "y": {"field": "policy", "type": "nominal", "sort": list(policies), "title": None,
                  "axis": ABOVE},
            "x": {"field": "x", "type": "quantitative", "stack": "zero", "title": x_title,
                  "scale": {"domain": [0, 1]}, "axis": {"format": ".0%", "tickCount": 5}},
            "color": {"field": "part", "type": "nominal", "legend": part_legend(4),
                      "scale": {"domain": list(parts), "range": list(parts.values())}},
            "order": {"field": "place", "type": "quantitative"},
            "tooltip": [
                {"field": "policy", "type": "nominal", "title": "policy"},
                {"field": "part", "type": "nominal", "title": "what"},
                {"field": "x", "type": "quantitative", "title": "share", "format": ".2%"},
                {"field": "count", "type": "nominal", "title": "amount"},
            ],
        },
    }  # fmt: skip
    layers = [bars]
    if bound is not None:
        place = {"x": {"datum": bound, "type": "quantitative"}}
        layers.append({"mark": {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 2}, "encoding": place})
    return framed({"layer": layers}, 38 * max(len(policies), 1) + 96)


def share_spec(policies: Sequence[str], levels: Sequence[str], x_title: str, y_title: str, form: str = ".0%") -> Spec:
    """Bars of a share, grouped by level, one a policy (fields ``x``, ``y``); ``form``: of the numbers on the axis."""
    return framed({
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "x", "type": "nominal", "sort": list(levels), "title": x_title, "axis": LEVEL},
            "xOffset": {"field": "policy", "type": "nominal", "sort": list(policies)},
            "y": {"field": "y", "type": "quantitative", "title": y_title, "axis": {"format": form, "tickCount": 5}},
            "color": policy_channels(policies)["color"],
            "tooltip": [
                {"field": "policy", "type": "nominal", "title": "policy"},
                {"field": "x", "type": "nominal", "title": x_title},
                {"field": "y", "type": "quantitative", "title": y_title, "format": ".1%"},
            ],
        },
    })  # fmt: skip


def node_spec(shown: Sequence[str], policies: Sequence[str], groups: Sequence[str], parts: Mapping[str, str]) -> Spec:
    """Jobs by node, a stacked bar for each policy shown over its colour (fields ``x``, ``y``, ``part``)."""
    x = {"field": "x", "type": "nominal", "title": "node", "axis": {"labelAngle": 0, "labelOverlap": True, "offset": 6},
         "sort": list(groups), "scale": {"domain": list(groups)}}  # fmt: skip
    offset = {"field": "policy", "type": "nominal", "sort": list(shown)}
    fill = {"field": "part", "type": "nominal", "legend": part_legend(8), "title": None,
            "scale": {"domain": list(parts), "range": list(parts.values())}}  # fmt: skip
    tooltip = [
        {"field": "policy", "type": "nominal", "title": "policy"},
        {"field": "x", "type": "nominal", "title": "node"},
        {"field": "part", "type": "nominal", "title": "class"},
        {"field": "y", "type": "quantitative", "title": "jobs", "format": ",.4~g"},
    ]
    y = {"field": "y", "type": "quantitative", "title": "jobs", "stack": "zero"}
    foot: Spec = {
        "mark": {"type": "tick", "orient": "horizontal", "thickness": 5, "bandSize": 0, "yOffset": 5, "opacity": 1},
        "encoding": {"y": {"datum": 0, "type": "quantitative"}, "fill": policy_channels(policies)["color"]},
    }
    return framed({
        "encoding": {"x": x, "xOffset": offset},
        "layer": [{"mark": {"type": "bar"}, "encoding": {"y": y, "fill": fill, "tooltip": tooltip}}, foot],
        "resolve": {"scale": {"fill": "independent"}},
    })  # fmt: skip


def whiskered(spec: Spec, along: str = "y") -> Spec:
    """A specification of bars with a line over each, from ``low`` to ``high`` on the channel along which it lies."""
    parts = {key: value for key, value in spec.items() if key not in ("mark", "encoding")}
    channels = {name: own for name, own in spec["encoding"].items() if name in ("x", "y", "xOffset", "yOffset")}
    ends = {along: {**channels[along], "field": "low"}, f"{along}2": {"field": "high"}}
    line: Spec = {"mark": {"type": "rule", "strokeWidth": 1.2}, "encoding": {**channels, **ends}}
    return {**parts, "layer": [{"mark": spec["mark"], "encoding": spec["encoding"]}, line]}


def part_legend(columns: int) -> Spec:
    """A legend of parts below a chart."""
    return {"orient": "bottom", "direction": "horizontal", "columns": columns, "title": None, "symbolType": "square",
            "labelLimit": 200}  # fmt: skip
