"""Vega-Lite specifications as plain dictionaries: channels, lines and bars; the rows are put in by the page."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from unrack.plots.series import PALETTE, wait_axis

_DASHES = ([1, 0], [6, 3], [4, 4], [8, 3, 2, 3])
_DOTS = [1, 3]

BOUND = "no policy can be below"
"""Stands among the policies of a chart for the bound on all of them."""

Spec = dict[str, Any]
LEVEL: Spec = {"labelAngle": 0, "labelOverlap": True}
"""The axis of names: level, and fewer of them where there is no room for all."""

_OF_ROW = 0.6
"""How much of a row its greatest value takes; its name stands above."""

ABOVE: Spec = {"labelAlign": "left", "labelBaseline": "bottom", "labelPadding": 0, "labelOffset": -9, "labelLimit": 440,
               "ticks": False, "domain": False}  # fmt: skip
"""The axis of lying bars: each name above its bar, so that long ones are not cut."""


def colour_of(index: int) -> str:
    """The colour of policy ``index``: with any colour vision told apart; then they repeat, dashed."""
    return PALETTE[index % len(PALETTE)]


def number(field: str, title: str | None, **more: Any) -> Spec:
    """A channel of amounts."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def word(field: str, title: str | None = None, **more: Any) -> Spec:
    """A channel of names."""
    return {"field": field, "type": "nominal", "title": title, **more}


def told(*rows: tuple[str, str] | tuple[str, str, str]) -> list[Spec]:
    """A tooltip: field and title of each row, and the format of an amount."""
    return [word(*row) if len(row) == 2 else number(row[0], row[1], format=row[2]) for row in rows]


def series_of(policy: str, names: str, rows: Iterable[Sequence[Any]]) -> Spec:
    """The rows of a policy as the columns of these names, with blanks between them."""
    listed = list(rows)
    return {"policy": policy, **{name: [row[at] for row in listed] for at, name in enumerate(names.split())}}


def policy_channels(policies: Sequence[str], less: Collection[str] = ()) -> Spec:
    """Colour, and dashes once the colours repeat, for each policy of the study; legends are the page's own.

    Policies of ``less``, which served less than others, are dotted.
    """

    def channel(values: list[Any]) -> Spec:
        scale = {"domain": list(policies), "range": values}
        return {"field": "policy", "type": "nominal", "scale": scale, "legend": None}

    channels = {"color": channel(["#808890" if p == BOUND else colour_of(i) for i, p in enumerate(policies)])}
    if len(policies) > len(PALETTE) or less:
        dashes = [_DASHES[index // len(PALETTE) % len(_DASHES)] for index in range(len(policies))]
        channels["strokeDash"] = channel(
            [_DOTS if name in less else dash for name, dash in zip(policies, dashes, strict=True)]
        )
    return channels


def hollow(colour: Spec) -> Spec:
    """The inside of a mark of that colour: empty where ``less`` is 1."""
    return {"condition": {"test": "datum.less === 1", "value": "transparent"}, **colour}


def part_legend(columns: int) -> Spec:
    """A legend of parts below a chart."""
    return {"orient": "bottom", "direction": "horizontal", "columns": columns, "title": None, "symbolType": "square",
            "labelLimit": 200}  # fmt: skip


def coloured_parts(parts: Mapping[str, str], columns: int) -> Spec:
    """The colours of parts, name → colour (field ``part``), and their legend."""
    scale = {"domain": list(parts), "range": list(parts.values())}
    return {"field": "part", "type": "nominal", "legend": part_legend(columns), "scale": scale}


def stacked(spec: Spec, parts: Collection[str]) -> Spec:
    """A specification with parts that lie on each other in this order."""
    order = " : ".join(f"datum.part === {json.dumps(name)} ? {place}" for place, name in enumerate(parts))
    channels = {**spec["encoding"], "order": {"field": "place", "type": "quantitative"}}
    place = {"calculate": f"{order} : {len(parts)}", "as": "place"}
    return {"transform": [place], **spec, "encoding": channels}


def line_spec(
    policies: Sequence[str],
    x: Spec,
    y: Spec,
    interpolate: str = "linear",
    marks: bool = False,
    less: Collection[str] = (),
) -> Spec:
    """Lines of y over x, one a policy, with a tooltip at the nearest point; those of policies of ``less`` are dotted.

    ``marks``: show each point, with an error bar from ``low`` to ``high``, hollow where ``less`` is 1.
    """
    names = policy_channels(policies, less)
    line = {"mark": {"type": "line", "interpolate": interpolate, "strokeWidth": 1.4, "clip": True},
            "encoding": {"y": y, **names}}  # fmt: skip
    if not marks:
        return framed({"encoding": {"x": x}, "layer": [line, _points(x, y, {"y": y, "color": names["color"]})]})
    bar = {
        "mark": {"type": "rule", "strokeWidth": 1.2},
        "encoding": {"y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": names["color"],
                     "detail": {"type": "nominal", "field": "policy"}},
    }  # fmt: skip
    points = _points(x, y, {"y": y, "stroke": names["color"], "fill": hollow(names["color"])})
    points["mark"]["filled"], points["encoding"]["opacity"] = False, {"value": 1}
    return framed({"encoding": {"x": x}, "layer": [line, bar, points]})


def _points(x: Spec, y: Spec, channels: Spec) -> Spec:
    """Points with a tooltip, of which the one nearest to the pointer is shown."""
    near = {"name": "near", "select": {"type": "point", "nearest": True, "on": "pointermove", "clear": "pointerout"}}
    shown = {"condition": {"param": "near", "empty": False, "value": 1}, "value": 0}
    tooltip = [{"field": "policy", "title": "policy"}, {**_tip(x), "field": "x"}, {**_tip(y), "field": "y"}]
    return {"params": [near], "mark": {"type": "point", "filled": True, "size": 45},
            "encoding": {**channels, "opacity": shown, "tooltip": tooltip}}  # fmt: skip


def rows_spec(policies: Sequence[str], x: Spec, y: Spec, top: float, rows: int, less: Collection[str] = ()) -> Spec:
    """A step line of y over x in a row of its own for each of so many policies, all rows on one scale.

    ``top``: the greatest y, where the scale of ``y`` has no domain. Others as of :func:`line_spec`.
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
    step: Spec = {"interpolate": "step-after", "clip": True}
    label: Spec = {"type": "text", "align": "left", "baseline": "top", "fontSize": 11, "dy": 2,
                   "limit": {"expr": "width - 8"}}  # fmt: skip
    layers: list[Spec] = [
        {"mark": {"type": "area", "opacity": 0.25, **step},
         "encoding": {"y": high, "y2": {"field": "row"}, "color": names["color"]}},
        {"mark": {"type": "line", "strokeWidth": 1.1, **step}, "encoding": {"y": high, **names}},
        _points(x, y, {"y": high, "color": names["color"]}),
        {"transform": [{"aggregate": [{"op": "min", "field": "row", "as": "row"}], "groupby": ["policy"]},
                       {"calculate": "datum.row - 1", "as": "high"}],
         "mark": label, "encoding": {"x": {"value": 4}, "y": high, "text": {"field": "policy"}}},
    ]  # fmt: skip
    return framed({"transform": place, "encoding": {"x": x}, "layer": layers}, max(230, 46 * rows))


def _tip(channel: Spec) -> Spec:
    axis = channel.get("axis", {})
    pattern = channel.get("tip", axis.get("format", ".4~g"))
    return {"type": channel["type"], "title": channel["title"]} | (
        {"format": pattern} if channel["type"] == "quantitative" else {}
    )


def time_axis(title: str) -> Spec:
    """An x channel for seconds from 0 to months: logarithmic, but with a place for 0."""
    scale = {"type": "symlog", "constant": 1, "nice": False, "zero": True}
    return number("x", title, scale=scale, axis=wait_axis(), tip=",.4~g")


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
