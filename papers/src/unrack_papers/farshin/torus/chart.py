"""Tori as grids of tiles: which are taken, and which were chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from unrack_papers.measured import Measured
from unrack_papers.pages.figure import Draw, framed
from unrack_papers.reproduction import Numbers, Spec

STATES = ("free", "chosen", "taken")
"""What a tile is; its number among the values is its place here."""
SHADES = ("#f2f2f2", "#009E73", "#222222")


def tori(columns: int, panels: Callable[[Measured], Mapping[str, Numbers]]) -> Draw:
    """A grid a panel: black is taken, green is chosen; the sum of distances stands in the title.

    Parameters
    ----------
    columns
        Of the torus.
    panels
        Title → ``hops`` and ``tile.0`` …, a place in :data:`STATES`.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        titles = []
        for title, numbers in panels(measured).items():
            titles.append(f"{title}: {numbers['hops'] or 0:g}")
            for key, what in numbers.items():
                if key.startswith("tile."):
                    tile = int(key.removeprefix("tile."))
                    lines.append({"panel": titles[-1], "column": tile % columns, "row": tile // columns,
                                  "state": STATES[int(what or 0)], "tile": tile})  # fmt: skip
        axis = {"type": "ordinal", "title": None, "axis": None}
        scale = {"domain": list(STATES), "range": list(SHADES)}
        place = {"x": {"field": "column", **axis}, "y": {"field": "row", **axis}}
        unit: Spec = {
            "encoding": place,
            "layer": [
                {"mark": {"type": "rect", "stroke": "#888", "strokeWidth": 1},
                 "encoding": {"color": {"field": "state", "type": "nominal", "title": None, "scale": scale,
                                        "legend": {"symbolType": "square", "symbolStrokeColor": "#888"}}}},
                {"mark": {"type": "text", "fontSize": 10},
                 "encoding": {"text": {"field": "tile"},
                              "color": {"condition": {"test": "datum.state == 'free'", "value": "#555"},
                                        "value": "white"}}},
            ],
        }  # fmt: skip
        spec = framed(measured, lines, titles, unit)
        return {**spec, "columns": 2, "spec": {**spec["spec"], "width": 230, "height": 184}}

    return draw
