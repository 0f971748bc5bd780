"""How a chart looks outside the page: its size, its fonts, a legend of its own, colours that survive a grey printer."""

from __future__ import annotations

import copy
import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unrack.errors import InputError
from unrack.report.charts.spec import Spec

PT_A_MM = 72 / 25.4
COLUMN_MM, PAGE_MM = 85.0, 180.0
"""Widths of one and of two columns of a paper."""
FONTS = {
    "sans": "Liberation Sans, Arial, Helvetica, DejaVu Sans, sans-serif",
    "serif": "Liberation Serif, Times New Roman, Times, DejaVu Serif, serif",
}
# Cividis (Nuñez, Anderton, Renslow 2018): dark to light, told apart in grey and with any colour vision; its
# lightest part is left out, as lines in it vanish on white.
CIVIDIS = ("#00204D", "#00336F", "#39486B", "#575C6D", "#707173", "#8A8779", "#A69D75", "#C4B56C")
LEVEL_TITLE = {"titleAngle": 0, "titleAlign": "left", "titleBaseline": "bottom", "titleX": 0, "titleY": -6}
"""Titles of vertical axes stand above them: nothing has to be read sideways, and none is cut."""

DASHES = ([1, 0], [5, 2], [2, 2], [7, 2, 2, 2], [1, 2], [9, 3])


@dataclass(frozen=True)
class Style:
    """How figures look."""

    # ``"page"``: as on the page, with a title. ``"paper"``: one or two columns wide, 8 pt, no title (a caption says
    # it), colours that are told apart in grey.
    name: str = "page"
    font: str = "sans"  # ``"sans"`` or ``"serif"``

    @classmethod
    def of(cls, name: str | None, font: str | None) -> Style:
        """The style with that name and font, ``None`` being the first of each; others are an InputError."""
        if name not in (None, "page", "paper"):
            raise InputError("--style", repr(name), "page or paper")
        if font is not None and font not in FONTS:
            raise InputError("--font", repr(font), " or ".join(FONTS))
        return cls(name or "page", font or "sans")

    @property
    def paper(self) -> bool:
        """Whether it is that of a paper."""
        return self.name == "paper"


def styled(spec: Spec, title: str, subtitle: str, wide: bool, style: Style) -> Spec:
    """A specification that stands alone: the chart, with its rows, and its legend, size, fonts and colours.

    ``title``, ``subtitle``: what the page says above it, of which a paper's figures go without; ``wide``: it takes the
    whole width of a page.
    """
    own = copy.deepcopy(spec)
    rows = own["data"]["values"]
    policies = list(dict.fromkeys(row["policy"] for row in rows if row.get("policy")))
    _legends(own, policies, style, "stroke" if '"line"' in json.dumps(own.get("layer", own.get("mark"))) else "square")
    width, height = _size(own, wide, style)
    own |= {"width": width, "height": height, "autosize": {"type": "fit", "contains": "padding"}, "padding": 2}
    own["config"], own["background"] = _config(style), "white"
    own.pop("title", None)
    own["description"] = title + (f". {subtitle}" if subtitle else "")
    if not style.paper:
        own["title"] = {"text": title, "subtitle": _lines(subtitle, width // 6), "anchor": "start"}
    return own


def _size(spec: Spec, wide: bool, style: Style) -> tuple[int, int]:
    height = spec["height"] if isinstance(spec.get("height"), int) else 300
    if not style.paper:
        return (900 if wide else 520), height + 90
    return round((PAGE_MM if wide else COLUMN_MM) * PT_A_MM), round(height * (0.78 if wide else 0.68))


def _config(style: Style) -> Spec:
    size = 8 if style.paper else 11
    title_size = 8 if style.paper else 12
    ink = "#000000" if style.paper else "#333333"
    axis = {
        "labelFontSize": size, "titleFontSize": title_size, "titleFontWeight": "normal", "labelColor": ink,
        "titleColor": ink, "gridColor": "#E3E3E3", "domainColor": "#666666", "tickColor": "#666666",
        "gridWidth": 0.5, "domainWidth": 0.6, "tickWidth": 0.6, "tickSize": 3, "titlePadding": 4, "labelSeparation": 5,
    }  # fmt: skip
    legend = {
        "labelFontSize": size, "titleFontSize": title_size, "titleFontWeight": "normal", "labelColor": ink,
        "titleColor": ink, "symbolSize": 40 if style.paper else 90, "rowPadding": 1, "columnPadding": 8, "offset": 6,
        "labelLimit": 400,
    }  # fmt: skip
    title = {"fontSize": 14, "subtitleFontSize": 11, "subtitleColor": "#555555", "subtitlePadding": 4}
    heat = list(reversed(CIVIDIS)) if style.paper else ["#e4eef7", "#a6cbe6", "#4f9bcb", "#15609f", "#08264f"]
    return {
        "font": FONTS[style.font], "axis": axis, "axisY": LEVEL_TITLE, "legend": legend, "title": title,
        "view": {"stroke": None}, "range": {"heatmap": heat}, "rule": {"color": "#333333"},
    }  # fmt: skip


def _legends(part: Any, policies: Sequence[str], style: Style, symbol: str) -> None:
    """Give the channels of policies a legend, which on the page stands apart, and a paper's colours to all."""
    if isinstance(part, list):
        for own in part:
            _legends(own, policies, style, symbol)
    elif isinstance(part, dict):
        for name, own in part.items():
            if name in ("color", "fill", "stroke", "strokeDash", "shape") and isinstance(own, dict) and "field" in own:
                _channel(name, own, policies, style, symbol)
            if name != "data":
                _legends(own, policies, style, symbol)
        if style.paper and _draws_lines(part):
            _dash(part["encoding"], policies)


def _channel(name: str, channel: Spec, policies: Sequence[str], style: Style, symbol: str) -> None:
    scale = channel.get("scale", {})
    if channel["field"] == "policy" and channel.get("legend", 0) is None:
        if len(policies) > 1 and name != "strokeDash":
            columns = 2 if style.paper else 4
            channel["legend"] = {"orient": "bottom", "direction": "horizontal", "columns": columns, "title": None,
                                 "values": list(policies), "symbolType": symbol}  # fmt: skip
        channel["title"] = None
    if not style.paper:
        return
    if isinstance(channel.get("legend"), dict):
        columns = channel["legend"].get("columns")
        channel["legend"]["columns"] = min(columns, 3) if columns else 3
        channel["legend"].pop("gradientLength", None)
    if name in ("color", "fill", "stroke") and isinstance(scale.get("range"), list):
        channel["scale"] = {**scale, "range": _greys(scale["domain"], policies, channel["field"])}


def _greys(domain: Sequence[str], policies: Sequence[str], field: str) -> list[str]:
    """Dark to light, as far apart as they can be, in order of the domain; those that are not drawn take no place."""
    drawn = [name for name in domain if field != "policy" or name in policies]
    hues = shades(len(drawn))
    return [hues[drawn.index(name)] if name in drawn else "#808080" for name in domain]


def shades(count: int) -> list[str]:
    """So many colours from dark to light, evenly spaced along Cividis.

    Examples
    --------
    >>> shades(2), shades(1)
    (['#00204D', '#C4B56C'], ['#00204D'])
    """
    at = np.linspace(0, len(CIVIDIS) - 1, count)
    channels = zip(*(bytes.fromhex(colour[1:]) for colour in CIVIDIS), strict=True)
    found = np.rint([np.interp(at, range(len(CIVIDIS)), channel) for channel in channels]).astype(np.uint8)
    return [f"#{bytes(colour).hex().upper()}" for colour in found.T]


def _draws_lines(part: Spec) -> bool:
    mark = part.get("mark")
    kind = mark.get("type") if isinstance(mark, dict) else mark
    return kind == "line" and "encoding" in part


def _dash(encoding: Spec, policies: Sequence[str]) -> None:
    """Lines of policies differ in dashes as well; where dashes mean something already, they stay."""
    colour = encoding.get("color", {})
    if colour.get("field") == "policy" and "strokeDash" not in encoding and len(policies) > 1:
        domain = colour["scale"]["domain"]
        dashes = [DASHES[(policies.index(name) if name in policies else 0) % len(DASHES)] for name in domain]
        encoding["strokeDash"] = {"field": "policy", "type": "nominal", "title": None,
                                  "scale": {"domain": domain, "range": dashes}, "legend": colour["legend"]}  # fmt: skip


def _lines(text: str, most: int) -> list[str]:
    return textwrap.wrap(text, most)[:4]
