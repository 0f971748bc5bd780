"""Vega-Lite specifications of the memory section; the rows are put in by the page."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence

import numpy as np

from unrack.report.charts.spec import Spec, framed, part_legend, policy_channels, whiskered
from unrack.report.memory.map import PLACES, Bands, places_of

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")


def map_spec(x: Spec, nodes: int, bands: Bands) -> Spec:
    """Lent memory by node and time: a rectangle a cell (fields ``x``, ``x2``, ``y``, ``y2``, ``value``, and words).

    Parameters
    ----------
    x
        The channel of time.
    nodes
        Of the cluster.
    bands
        Its classes.
    """
    words = {"who": "lent by", "when": "when", "amount": "memory", "share": "of their memory"}
    return _cells({**x, "axis": {"grid": False}}, nodes, bands, False, "GB lent a node", words)


def pool_map_spec(x: Spec, nodes: int, bands: Bands) -> Spec:
    """Memory of pools in use by pool and time, as :func:`map_spec` has it."""
    words = {"who": "pool", "when": "when", "amount": "memory in use", "share": "of its memory"}
    title = "share of the pool's memory that is in use"
    return _cells({**x, "axis": {"grid": False}}, nodes, bands, False, title, words, "pool")


def matrix_spec(nodes: int, bands: Bands) -> Spec:
    """Lent memory by lender and borrower, as :func:`map_spec` has it."""
    x = _nodes("x", "node whose tasks use it", nodes, bands)
    words = {"who": "lent by", "when": "used by", "amount": "memory", "share": "of all that was lent"}
    return _cells(x, nodes, bands, True, "GB lent, averaged over time", words)


def _nodes(field: str, title: str, nodes: int, bands: Bands) -> Spec:
    """A channel of nodes, by their places, with some of their numbers."""
    scale = {"domain": [0, PLACES], "nice": False, "zero": False}
    step = next(size * 10**power for power in range(9) for size in (1, 2, 5) if nodes <= 10 * size * 10**power)
    numbers = np.arange(0, nodes, step)
    places = places_of(numbers, nodes, bands).tolist()
    words = dict(zip(places, map(str, numbers.tolist()), strict=True))
    axis = {"grid": False, "values": places, "labelExpr": f"({json.dumps(words)})[datum.value]", "labelOverlap": True}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _cells(
    x: Spec, nodes: int, bands: Bands, square: bool, title: str, words: Mapping[str, str], of: str = "node that lends"
) -> Spec:
    y = _nodes("y", of, nodes, bands)
    y["scale"]["reverse"] = True
    legend = {"orient": "bottom", "direction": "horizontal", "gradientLength": 240, "gradientThickness": 10,
              "title": title, "titleLimit": 300, "format": ",.3~g"}  # fmt: skip
    cells: Spec = {
        "mark": {"type": "rect", "strokeWidth": 0},
        "encoding": {
            "x": x, "x2": {"field": "x2"}, "y": y, "y2": {"field": "y2"},
            "color": {"field": "value", "type": "quantitative", "scale": {"domainMin": 0}, "legend": legend},
            "tooltip": [{"field": field, "type": "nominal", "title": word} for field, word in words.items()],
        },
    }  # fmt: skip
    layers = [cells]
    if bands:
        bounds = places_of(np.array([*(first for _, first in bands), nodes]), nodes, bands).tolist()
        middles = [(first + end) // 2 for first, end in itertools.pairwise(bounds)]
        names = {middle: name for (name, _), middle in zip(bands, middles, strict=True)}
        label = {"orient": "right", "values": middles, "labelExpr": f"({json.dumps(names)})[datum.value]",
                 "title": None, "ticks": False, "domain": False, "grid": False, "labelLimit": 120}  # fmt: skip
        edges = {"values": [{"y": place, "x": place} for place in bounds[1:-1]]}
        rule = {"type": "rule", "strokeDash": [5, 3], "strokeWidth": 1, "opacity": 0.8}
        layers.append({"data": edges, "mark": rule, "encoding": {"y": {**y, "title": None, "axis": label}}})
        if square:
            layers.append({"data": edges, "mark": rule, "encoding": {"x": {**x, "title": None}}})
    return framed({"layer": layers, "resolve": {"axis": {"y": "independent"}}}, 420 if square else 380)


def area_spec(x: Spec, parts: Mapping[str, str], y_title: str, share: bool) -> Spec:
    """Amounts over time stacked on each other (fields ``x``, ``y``, ``part``); a ``share`` is out of 1."""
    order = " : ".join(f"datum.part === {json.dumps(name)} ? {place}" for place, name in enumerate(parts))
    axis: Spec = {"format": ".0%"} if share else {"format": "~s"}
    y: Spec = {"field": "y", "type": "quantitative", "stack": "zero", "title": y_title, "axis": axis}
    return framed({
        "transform": [{"calculate": f"{order} : {len(parts)}", "as": "place"}],
        "mark": {"type": "area", "interpolate": "step-after", "line": False},
        "encoding": {
            "x": x, "y": {**y, **({"scale": {"domain": [0, 1]}} if share else {})},
            "color": {"field": "part", "type": "nominal", "legend": part_legend(4),
                      "scale": {"domain": list(parts), "range": list(parts.values())}},
            "order": {"field": "place", "type": "quantitative"},
            "tooltip": [
                {"field": "part", "type": "nominal", "title": "memory"},
                {"field": "x", "type": "quantitative", "title": x["title"], "format": ",.4~g"},
                {"field": "y", "type": "quantitative", "title": y_title, "format": ".1%" if share else ",.4~g"},
            ],
        },
    })  # fmt: skip


def scatter_spec(policies: Sequence[str], clusters: Sequence[str]) -> Spec:
    """Memory against core utilisation, a mark a run (fields ``x``, ``y``, ``cluster``, ``run``)."""
    axis: Spec = {"scale": {"domain": [0, 1]}, "axis": {"format": ".0%", "tickCount": 5}}
    shapes = [_SHAPES[place % len(_SHAPES)] for place in range(len(clusters))]
    shape: Spec = {"field": "cluster", "type": "nominal", "title": None, "legend": None,
                   "scale": {"domain": list(clusters), "range": shapes}}  # fmt: skip
    if len(clusters) > 1:
        shape["legend"] = {"orient": "bottom", "direction": "horizontal", "columns": 3, "title": None,
                           "labelLimit": 200, "symbolFillColor": "#808890", "symbolStrokeWidth": 0}  # fmt: skip
    return framed({
        "mark": {"type": "point", "size": 70, "filled": True, "opacity": 0.8},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": "cores in use", **axis},
            "y": {"field": "y", "type": "quantitative", "title": "memory in use", **axis},
            "color": policy_channels(policies)["color"],
            "shape": shape,
            "tooltip": [
                {"field": "policy", "type": "nominal", "title": "policy"},
                {"field": "run", "type": "nominal", "title": "run"},
                {"field": "x", "type": "quantitative", "title": "cores in use", "format": ".1%"},
                {"field": "y", "type": "quantitative", "title": "memory in use", "format": ".1%"},
            ],
        },
    }, 320)  # fmt: skip


def grouped_spec(
    policies: Sequence[str], shown: Sequence[str], groups: Sequence[str], most: float = 1.0, whiskers: bool = False
) -> Spec:
    """Throughput relative to the highest: bars grouped by system or mix, one a policy (``x``, ``y``, ``amount``).

    The bars lie where the names of the groups are long, so that all of them can be read. ``most``: the end of the axis;
    ``whiskers``: lines from ``low`` to ``high``.
    """
    longest = max(map(len, groups), default=0)
    lie = longest * len(groups) > 70
    axis: Spec = {"labelAngle": 0, "labelLimit": 170, "labelExpr": "split(datum.label, ' · ')"}
    place, size = ("y", "x") if lie else ("x", "y")
    height = 60 + len(groups) * max(14 * len(shown), 30) if lie else 230
    spec: Spec = {
        "mark": {"type": "bar"},
        "encoding": {
            place: {"field": "x", "type": "nominal", "sort": list(groups), "title": None, "axis": axis,
                    "scale": {"domain": list(groups)}},
            f"{place}Offset": {"field": "policy", "type": "nominal", "sort": list(shown)},
            size: {"field": "y", "type": "quantitative", "title": "throughput, highest = 1", "axis": {"tickCount": 5},
                   "scale": {"domain": [0, most]}},
            "color": policy_channels(policies)["color"],
            "tooltip": [
                {"field": "policy", "type": "nominal", "title": "policy"},
                {"field": "x", "type": "nominal", "title": "where"},
                {"field": "y", "type": "quantitative", "title": "relative to the highest", "format": ".3f"},
                {"field": "amount", "type": "nominal", "title": "throughput"},
            ],
        },
    }  # fmt: skip
    return framed(whiskered(spec, size) if whiskers else spec, height)
