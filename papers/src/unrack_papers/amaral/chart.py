"""Figures of placements on GPUs: who is where when, and jobs from the most slowed down to the least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unrack_papers.measured import Measured
from unrack_papers.pages.figure import LINES, Draw, framed, names, numbers
from unrack_papers.reproduction import Spec


def gantt(measured: Measured) -> Spec:
    """A panel a policy, a bar a job on each of its GPUs, over time."""
    lines: list[dict[str, Any]] = []
    for (_, _, row), seeds in measured.values.items():
        for key, start_s in seeds[0].items():
            if key.endswith(".from"):
                job, gpu, _ = key.split(".")
                lines.append({"panel": row, "job": f"job {job}", "gpu": f"GPU {gpu}", "from": start_s,
                              "to": seeds[0][f"{job}.{gpu}.to"]})  # fmt: skip
    panels = list(dict.fromkeys(line["panel"] for line in lines))
    jobs = sorted({line["job"] for line in lines})
    unit: Spec = {
        "mark": {"type": "bar", "stroke": "white", "strokeWidth": 0.8},
        "height": 110,
        "encoding": {
            "x": numbers("from", "time, s"),
            "x2": {"field": "to"},
            "y": {"field": "gpu", "type": "nominal", "title": None},
            "color": names("job", jobs),
        },
    }
    return framed(measured, lines, panels, unit, 260)


def ranked(label: str, groups: Sequence[str], x_title: str, y_title: str, order: Sequence[str]) -> Draw:
    """A quantity over ranks, a panel a group, a line a row; y is logarithmic."""

    def draw(measured: Measured) -> Spec:
        lines: list[dict[str, Any]] = []
        for group, x, name in measured.values:
            found = measured.at((group, x, name), label) if group in groups else None
            if found is not None:
                lines.append({"panel": group, "row": name, "x": x, "y": found.mean})
        encoding = {
            "x": numbers("x", x_title),
            "y": numbers("y", y_title, scale={"type": "log", "nice": False}),
            "color": names("row", order, legend=LINES),
        }
        mark = {"type": "line", "strokeWidth": 1.8, "opacity": 0.85}
        spec = framed(measured, lines, list(groups), {"mark": mark, "encoding": encoding}, 340)
        spec["resolve"] |= {"scale": {"y": "independent"}}
        return spec

    return draw
