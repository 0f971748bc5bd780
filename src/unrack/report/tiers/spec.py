"""Vega-Lite specifications of the section on tiers of memory; the rows are put in by the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from unrack.report.charts.spec import Spec, framed, part_legend

_USED, _STRANDED = "used", "stranded"
KINDS = (_USED, _STRANDED)
"""Of lines over time: solid and dashed."""


def tier_lines(x: Spec, tiers: Mapping[str, str]) -> Spec:
    """Shares of each tier over time, used solid and stranded dashed (fields ``x``, ``y``, ``part``, ``kind``)."""
    return framed({
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5, "clip": True},
        "encoding": {
            "x": x,
            "y": {"field": "y", "type": "quantitative", "title": "share of the tier's memory",
                  "scale": {"domain": [0, 1]}, "axis": {"format": ".0%"}},
            "color": {"field": "part", "type": "nominal", "legend": part_legend(6),
                      "scale": {"domain": list(tiers), "range": list(tiers.values())}},
            "strokeDash": {"field": "kind", "type": "nominal",
                           "scale": {"domain": list(KINDS), "range": [[1, 0], [4, 3]]},
                           "legend": {**part_legend(2), "symbolType": "stroke"}},
            "tooltip": [
                {"field": "part", "type": "nominal", "title": "tier"},
                {"field": "kind", "type": "nominal", "title": "memory"},
                {"field": "x", "type": "quantitative", "title": x["title"], "format": ",.4~g"},
                {"field": "y", "type": "quantitative", "title": "share of the tier", "format": ".1%"},
            ],
        },
    })  # fmt: skip


def fill_spec(clusters: Sequence[str], tiers: Mapping[str, str], title: str) -> Spec:
    """GB held in each cluster, stacked by tier (fields ``x``, ``y``, ``part``, ``servers``)."""
    order = " : ".join(f"datum.part === {json.dumps(name)} ? {place}" for place, name in enumerate(tiers))
    axis: Spec = {"labelAngle": 0, "labelOverlap": True, "ticks": False}
    return framed({
        "transform": [{"calculate": f"{order} : {len(tiers)}", "as": "place"}],
        "mark": {"type": "bar"},
        "encoding": {
            "x": {"field": "x", "type": "nominal", "sort": list(clusters), "title": title, "axis": axis,
                  "scale": {"domain": list(clusters)}},
            "y": {"field": "y", "type": "quantitative", "stack": "zero", "title": "GB held by servers",
                  "axis": {"tickCount": 5}},
            "color": {"field": "part", "type": "nominal", "legend": part_legend(6),
                      "scale": {"domain": list(tiers), "range": list(tiers.values())}},
            "order": {"field": "place", "type": "quantitative"},
            "tooltip": [
                {"field": "x", "type": "nominal", "title": title},
                {"field": "part", "type": "nominal", "title": "tier"},
                {"field": "y", "type": "quantitative", "title": "GB", "format": ",.4~g"},
                {"field": "servers", "type": "quantitative", "title": "servers", "format": ",.3~g"},
            ],
        },
    })  # fmt: skip
