"""Figures of users: response by that of the same job when no request is too high, and the two over each other."""

from __future__ import annotations

from typing import Any

from unrack_papers.measured import Measured
from unrack_papers.pages.figure import LINES, Draw, framed, names, numbers, rows_of_figures
from unrack_papers.reproduction import Spec
from unrack_papers.zacarias.overestimation.users import AT, BASE, places

EQUAL, DILIGENT, CARELESS = "none too high", "+0 %, diligent", "+100 %, careless"
SHOWN = {DILIGENT: 0, CARELESS: 100}
COLOURS = {EQUAL: "#222222", DILIGENT: "#0072B2", CARELESS: "#D55E00"}
BY_ROW = ("#D55E00", "#0072B2", "#009E73")


def users(normalised: bool) -> Draw:
    """The response of diligent and careless users over that when no request is too high, a panel a scenario.

    Parameters
    ----------
    normalised
        Whether what is drawn is over that response, too.
    """

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        rows: list[str] = []
        for group in measured.groups:
            own = [row.name for row in measured.rows(group)]
            rows += [name for name in own if name not in rows]
            for name in own:
                for place in places(group, name):
                    x = measured.at(place, BASE.label)
                    found = {user: measured.at(place, AT[level].label) for user, level in SHOWN.items()}
                    for user, y in {EQUAL: x, **found}.items():
                        if x is None or y is None or (user == EQUAL and name != own[0]):
                            continue
                        lines.append(
                            {
                                "panel": group,
                                "row": EQUAL if user == EQUAL else name,
                                "user": user,
                                "x": x.mean,
                                "y": y.mean / x.mean if normalised else y.mean,
                            }
                        )
        several = len(rows) > 1
        colour = (
            names("row", [EQUAL, *rows], [COLOURS[EQUAL], *BY_ROW[: len(rows)]], legend=LINES)
            if several
            else names("user", [*COLOURS], [*COLOURS.values()], legend=LINES)
        )
        dash = names("user", [*COLOURS], [[1, 0], [1, 0], [5, 3]], legend=LINES)
        y_title = "response over that" if normalised else "response, h"
        unit: Spec = {
            "layer": [
                {"mark": {"type": "line", "strokeWidth": 1.6}, "encoding": {"strokeDash": dash}},
                {"mark": {"type": "point", "filled": True, "size": 16, "opacity": 1}},
            ],
            "encoding": {
                "x": numbers("x", "response when no request is too high, h", scale={"zero": True}),
                "y": numbers("y", y_title, scale={"zero": True}),
                "color": colour,
                "detail": [{"field": "row"}, {"field": "user"}],
            },
        }
        return framed(measured, lines, list(measured.groups), unit)

    return draw


def both() -> Draw:
    """Responses, and below them the same over those when no request is too high."""
    return rows_of_figures([users(False), users(True)])
