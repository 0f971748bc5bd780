"""Figures of disaggregated memory: distributions of response times, and one utilisation against another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unrack_papers.measured import Measured
from unrack_papers.pages.figure import LINES, Draw, framed, names, numbers, rows_of_figures
from unrack_papers.reproduction import Spec, X

TIMES = {60: "1 min", 600: "10 min", 3600: "1 h", 21_600: "6 h", 86_400: "1 d", 691_200: "8 d",
         5_529_600: "64 d"}  # fmt: skip
PERCENT = {"domain": [0, 100]}
SHAPES = ["circle", "triangle-up", "square", "cross"]
DASHES = {"all": [1, 0], "large": [1, 0], "normal": [5, 3]}


Labels = Mapping[str, Sequence[tuple[int, str]]]
"""Kind of job → (time in s, quantity's label)."""


def in_columns(draw: Draw, columns: int, xs: Sequence[X] | None = None) -> Draw:
    """A figure with its panels in so many columns; and places on an axis of names in order where bars are missing."""

    def laid_out(measured: Measured) -> Spec:
        spec = {**draw(measured), "columns": columns}
        if xs is not None:
            spec["spec"]["encoding"]["x"]["sort"] = list(xs)
        return spec

    return laid_out


def distributions(labels: Labels, divided: Sequence[str]) -> Draw:
    """Shares of the jobs within each time: all jobs of every panel; below, large and normal jobs of some.

    Parameters
    ----------
    labels
        The quantities of each kind of job.
    divided
        The panels of the second row.
    """
    return rows_of_figures([distribution(labels, ["all"]), distribution(labels, ["large", "normal"], divided)])


def distribution(labels: Labels, kinds: Sequence[str], panels: Sequence[str] | None = None) -> Draw:
    """Shares of the jobs of some kinds within each time, in some panels or all."""

    def draw(measured: Measured) -> Spec:
        groups = [group for group in measured.groups if panels is None or group in panels]
        lines: list[dict[str, Any]] = []
        for group in groups:
            for row in measured.rows(group):
                place = (group, measured.xs(group)[0], row.name)
                for kind in kinds:
                    for time_s, label in labels[kind]:
                        found = measured.at(place, label)
                        panel = measured.titled(group)
                        lines.append({"panel": panel, "row": row.name, "kind": f"{kind} jobs", "x": time_s,
                                      "y": None if found is None else found.mean})  # fmt: skip
        expression = "".join(f"datum.value == {time_s} ? '{name}' : " for time_s, name in TIMES.items()) + "''"
        axis = {"values": list(TIMES), "labelExpr": expression}
        encoding = {
            "x": numbers("x", "response time", scale={"type": "log", "nice": False}, axis=axis),
            "y": numbers("y", "jobs, %", scale=PERCENT),
            "color": names("row", list(dict.fromkeys(line["row"] for line in lines)), legend=LINES),
        }
        if len(kinds) > 1:
            dashes = [DASHES[kind] for kind in kinds]
            encoding["strokeDash"] = names("kind", [f"{kind} jobs" for kind in kinds], dashes)
        mark = {"type": "line", "strokeWidth": 1.6, "interpolate": "monotone", "opacity": 0.85}
        titles = [measured.titled(group) for group in groups]
        return framed(measured, lines, titles, {"mark": mark, "encoding": encoding})

    return draw


def scatter(x_label: str, y_label: str, x_title: str, y_title: str, rows: Sequence[str]) -> Draw:
    """One quantity against another: a point a row and place, a panel a group; the mean of a panel drawn large.

    Parameters
    ----------
    x_label, y_label
        The quantities.
    x_title, y_title
        Words for the axes.
    rows
        Which rows, in the order of their colours and shapes.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        for group, place, name in measured.values:
            if name not in rows or group not in measured.groups:
                continue
            x, y = (measured.at((group, place, name), label) for label in (x_label, y_label))
            if x is not None and y is not None:
                mean = place not in measured.xs(group)
                lines.append({"panel": measured.titled(group), "row": name, "x": x.mean, "y": y.mean, "mean": mean})
        encoding = {
            "x": numbers("x", x_title, scale=PERCENT),
            "y": numbers("y", y_title, scale=PERCENT),
            "color": names("row", rows),
            "shape": names("row", rows, SHAPES[: len(rows)]),
        }
        layers: list[Spec] = [
            {"transform": [{"filter": "!datum.mean"}],
             "mark": {"type": "point", "size": 45, "filled": True, "opacity": 0.6}},
            {"transform": [{"filter": "datum.mean"}],
             "mark": {"type": "point", "size": 170, "filled": False, "strokeWidth": 2}},
        ]  # fmt: skip
        titles = [measured.titled(group) for group in measured.groups]
        return framed(measured, lines, titles, {"encoding": encoding, "layer": layers})

    return draw
