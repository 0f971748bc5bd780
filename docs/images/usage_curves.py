"""Draw the picture of memory use in docs/usage.md again: curves that the shapes of unrack-papers draw.

python docs/images/usage_curves.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import vl_convert

from unrack.workload.usage import KINDS, WHOLE, UsageCurves, properties, series_of
from unrack_papers.shapes.draw import drawn
from unrack_papers.shapes.parameters import shapes_of

COLOURS = ["#4c566a", "#5e81ac", "#88c0d0", "#a3be8c", "#d08770", "#b48ead"]
HOURS = 12


def curves(name: str, tasks: int, jobs: int = 400) -> UsageCurves:
    """Curves of jobs of twelve hours, their peaks at 100."""
    run_s = np.full(jobs, HOURS * 3600.0)
    return drawn(shapes_of(name), np.full(jobs, tasks), run_s, np.full(jobs, 100_000), seed=5)


def rows(usage: UsageCurves, curve: int, panel: str, line: int) -> list[dict[str, Any]]:
    """The steps of a curve as rows of a chart, with an end."""
    at, mb = usage.points_of(curve)
    x, y = [*(at / WHOLE * HOURS).tolist(), HOURS], [*(mb / 1000).tolist(), float(mb[-1]) / 1000]
    return [{"x": round(a, 3), "y": round(b, 2), "panel": panel, "line": line} for a, b in zip(x, y, strict=True)]


def chart(title: str, found: list[dict[str, Any]], panels: list[str]) -> dict[str, Any]:
    """A row of panels."""
    return {
        "title": {"text": title, "anchor": "start", "fontSize": 12},
        "data": {"values": found},
        "facet": {"column": {"field": "panel", "type": "nominal", "sort": panels, "title": None}},
        "spec": {
            "width": 190, "height": 110, "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.4},
            "encoding": {
                "x": {"field": "x", "type": "quantitative", "title": "hours",
                      "scale": {"domain": [0, HOURS], "nice": False}, "axis": {"values": [0, 3, 6, 9, 12]}},
                "y": {"field": "y", "type": "quantitative", "title": "% of the job's peak",
                      "scale": {"domain": [0, 100]}, "axis": {"values": [0, 25, 50, 75, 100]}},
                "color": {"field": "line", "type": "nominal", "legend": None, "scale": {"range": COLOURS}},
            },
        },
    }  # fmt: skip


def main() -> None:
    """Choose, draw, write."""
    google, grizzly = curves("google", 1), curves("grizzly", 6)
    kind = properties(series_of(google).over_peak()).kind
    several = np.diff(google.point) > 1
    first = [row for code, name in enumerate(KINDS) for line, curve in enumerate(
        np.flatnonzero((kind == code) & several)[:3].tolist()) for row in rows(google, curve, name, line)]  # fmt: skip
    steps = np.diff(grizzly.point).reshape(-1, 6).min(axis=1)
    jobs = np.flatnonzero(steps > 4)[:4].tolist()
    names = [f"job {place}" for place in range(1, 5)]
    second = [row for name, job in zip(names, jobs, strict=True) for line in range(6)
              for row in rows(grizzly, 6 * job + line, name, line)]  # fmt: skip
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "vconcat": [
            chart("google: one curve for all tasks of a job; three jobs of each kind", first, list(KINDS)),
            chart("grizzly: one curve a task; four jobs of six tasks", second, names),
        ],
        "background": "white",
        "config": {"view": {"stroke": "#d8dee9"}, "axis": {"grid": False}},
    }
    picture = vl_convert.vegalite_to_svg(json.dumps(spec))
    (Path(__file__).parent / "usage.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
