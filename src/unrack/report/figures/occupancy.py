"""The picture of a pool, as a chart: devices × time, shaded by how many jobs share a composition."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from unrack.plots.lanes import ended
from unrack.plots.series import span_unit
from unrack.report.directory import RunFiles
from unrack.steps import levels, spans

MOST_BARS = 20_000
MOST_SHARED = 6


def occupancy_chart(run: RunFiles) -> tuple[dict[str, Any], str] | None:
    """A Vega-Lite specification with its rows, and what it leaves out; ``None``: no job held a device."""
    shares, first, last = ended(run.frame("shares", ("start_s", "end_s", "devices", "composition")))
    if not len(shares):
        return None
    unit, size = span_unit(last - first)
    own = shares.unique("composition", keep="first")
    held_by = dict(zip(own["composition"].to_list(), own["devices"].to_list(), strict=True))
    life, when, level = levels(shares["composition"].cast(pl.Int64).to_numpy(), *spans(shares))
    bars = [(float(when[k]), float(when[k + 1]), int(level[k]), held_by[int(life[k])])
            for k in np.flatnonzero(level > 0).tolist()]  # fmt: skip
    every = sum(len(devices) for *_, devices in bars)
    words = "A bar is a composition while the same jobs share it."
    if every > MOST_BARS:
        bars.sort(key=lambda bar: (bar[0] - bar[1]) * len(bar[3]))
        total = sum((bar[1] - bar[0]) * len(bar[3]) for bar in bars)
        counts = np.cumsum([len(bar[3]) for bar in bars])
        bars = bars[: max(int(np.searchsorted(counts, MOST_BARS, side="right")), 1)]
        kept = sum((bar[1] - bar[0]) * len(bar[3]) for bar in bars)
        words += f" The longest bars: {100 * kept / total:.3g} % of the device-time."
    names = [*map(str, range(1, MOST_SHARED)), f"{MOST_SHARED} or more"]
    rows = [
        {"x": round(low / size, 6), "x2": round(high / size, 6), "y": device, "y2": device + 1,
         "part": names[min(count, MOST_SHARED) - 1]}
        for low, high, count, devices in sorted(bars, key=lambda bar: bar[0]) for device in devices
    ]  # fmt: skip
    lanes = len(run.hardware.devices)
    shown = [name for name in names if any(row["part"] == name for row in rows)]
    hues = dict(zip(names, ("#7FC8A9", "#3FA7A0", "#3B7EA1", "#5B5EA6", "#8E3B8E", "#C2185B"), strict=True))
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": rows},
        "mark": {"type": "rect", "stroke": "white", "strokeWidth": 0.3},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": f"{unit} since the start of the log",
                  "scale": {"nice": False, "zero": False}},
            "x2": {"field": "x2"},
            "y": {"field": "y", "type": "quantitative", "title": "device", "axis": {"grid": False, "tickMinStep": 1},
                  "scale": {"domain": [0, lanes], "reverse": True, "nice": False}},
            "y2": {"field": "y2"},
            "color": {"field": "part", "type": "nominal", "title": "jobs that share it",
                      "scale": {"domain": shown, "range": [hues[name] for name in shown]},
                      "legend": {"orient": "bottom", "direction": "horizontal", "columns": 6}},
        },
    }  # fmt: skip
    return spec, words
