"""Figures over time and over shares of the jobs: lines without points, a panel a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unrack_papers.measured import Measured
from unrack_papers.pages.figure import LINES, Draw, framed, names, numbers
from unrack_papers.reproduction import Spec, Values


def along(values: Values, prefix: str, metric: str, rows: Sequence[str], title: str = "{}") -> Values:
    """Values that are called ``prefix.X``, as a place on the axis each, of the panel of that title."""
    found: Values = {}
    for (group, _, row), seeds in values.items():
        keys = [key for key in seeds[0] if key.startswith(f"{prefix}.")] if seeds and row in rows else []
        for key in keys:
            x = int(key.removeprefix(f"{prefix}."))
            found[title.format(group), x, row] = tuple({metric: seed.get(key)} for seed in seeds)
    return found


def without(values: Values, *prefixes: str) -> Values:
    """The same without values that stand elsewhere."""
    return {
        place: tuple({k: v for k, v in seed.items() if k.partition(".")[0] not in prefixes or "." not in k}
                     for seed in seeds)
        for place, seeds in values.items()
    }  # fmt: skip


def lines_over(
    label: str, panels: Sequence[str], x_title: str, y_title: str, order: Sequence[str], mark: str = "linear"
) -> Draw:
    """A quantity over x, a panel a group, a line a row; each panel has axes of its own."""

    def draw(measured: Measured) -> Spec:
        shown: list[dict[str, Any]] = []
        for group in panels:
            for own, x, row in measured.values:
                found = measured.at((own, x, row), label) if own == group else None
                if found is not None:
                    shown.append({"panel": group, "row": row, "x": x, "y": found.mean})
        encoding = {
            "x": numbers("x", x_title),
            "y": numbers("y", y_title, scale={"zero": False}),
            "color": names("row", order, legend=LINES),
        }
        line = {"type": "line", "interpolate": mark, "strokeWidth": 1.6, "opacity": 0.9}
        spec = framed(measured, shown, list(panels), {"mark": line, "encoding": encoding}, 330)
        spec["resolve"] |= {"scale": {"x": "independent", "y": "independent"}}
        return spec

    return draw
