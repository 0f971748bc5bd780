"""The charts of one run on tiers of memory: tiers and pools over time, and the clusters at the busiest moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats
from unrack.plots.series import binned_mean, rounded, six_digits
from unrack.report.charts.bars import fill_spec
from unrack.report.charts.chart import Chart, span_axis
from unrack.report.charts.node_map import IN_POOLS, held_map
from unrack.report.charts.spec import Spec, coloured_parts, framed, number, part_legend, told
from unrack.report.tiers.run import TierRun
from unrack.units import seconds_text

COLOURS = ("#4477AA", "#66AA88", "#DDAA44", "#AA4466", "#7766AA", "#8F8F8F")
"""Of tiers, from the local one on; then they repeat."""
KINDS = ("used", "stranded")
"""Of lines over time: solid and dashed."""
MOST_BARS = 120
"""Clusters of a chart; where there are more, a bar is of several neighbours."""


def run_charts(own: TierRun, edges: Floats, bins: Floats) -> list[Chart]:
    """The charts of a run, as :func:`unrack.report.memory.chart.run_charts`.

    ``edges``, ``bins``: float64[columns + 1], spans of time of equal length, s: of the map, and of the lines.
    """
    use = own.memory_use()
    note = "The share of each pool's memory that servers hold; empty: nothing."
    installed, of = own.run.hardware.memory_mb, {"id": "pools over time", "title": "Every pool over time"}
    pools = [held_map(use, installed, own.bands, edges, IN_POOLS, note, shares="always", **of)] if len(use) else []
    return [*_over_time(own, bins), *_fullest(own, use, float(edges[0]), float(edges[-1])), *pools]


def colours_of(tiers: Sequence[str]) -> dict[str, str]:
    """A colour for each tier."""
    return {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(tiers)}


def _over_time(own: TierRun, edges: Floats) -> list[Chart]:
    if len(own.steps) < 2:
        return []
    x, size = span_axis(edges)
    starts, series = rounded(edges[:-1] / size, 5), []
    times = own.steps["time_s"].to_numpy()
    for name, installed in own.installed.items():
        for kind in KINDS if installed else ():
            values = own.steps[f"{kind}_mb_{name}"].cast(pl.Float64).to_numpy() / installed
            series.append({"policy": "", "x": starts, "y": rounded(binned_mean(times, values, edges)),
                           "part": [name] * len(starts), "kind": [kind] * len(starts)})  # fmt: skip
    note = f"What servers hold of each tier, and what is free but out of reach; means over {len(starts)} equal spans."
    return [{"id": "tiers over time", "title": "Memory of each tier over time", "series": series, "note": note,
             "spec": tier_lines(x, colours_of(own.names))}]  # fmt: skip


def tier_lines(x: Spec, tiers: Mapping[str, str]) -> Spec:
    """Shares of each tier over time, used solid and stranded dashed (fields ``x``, ``y``, ``part``, ``kind``)."""
    rows = told(("part", "tier"), ("kind", "memory"), ("x", x["title"], ",.4~g"), ("y", "share of the tier", ".1%"))
    return framed({
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5, "clip": True},
        "encoding": {
            "x": x,
            "y": number("y", "share of the tier's memory", scale={"domain": [0, 1]}, axis={"format": ".0%"}),
            "color": coloured_parts(tiers, 6),
            "strokeDash": {"field": "kind", "type": "nominal",
                           "scale": {"domain": list(KINDS), "range": [[1, 0], [4, 3]]},
                           "legend": {**part_legend(2), "symbolType": "stroke"}},
            "tooltip": rows,
        },
    })  # fmt: skip


def busiest(steps: pl.DataFrame, tiers: Sequence[str], start_s: float, end_s: float) -> float | None:
    """When most memory is in use, s, in a span of time: the first such moment; ``None``: it never is."""
    inside = steps.filter(pl.col("time_s").is_between(start_s, end_s))
    used = inside.select(pl.sum_horizontal(f"used_mb_{name}" for name in tiers).alias("used"))["used"]
    at = used.arg_max()
    return None if at is None or used[at] == 0 else float(inside["time_s"][at])


def _fullest(own: TierRun, use: pl.DataFrame, start_s: float, end_s: float) -> list[Chart]:
    at = busiest(own.steps, own.names, start_s, end_s)
    if at is None:
        return []
    held = use.filter((pl.col("start_s") <= at) & (pl.col("end_s").fill_null(np.inf) > at))
    nodes = list(own.clusters)
    bound = np.append(np.arange(0, len(nodes), -(-len(nodes) // MOST_BARS)), len(nodes))
    each, groups = np.diff(bound), len(bound) - 1
    place = np.full(len(own.tier), groups, np.int64)  # the last: of no cluster
    place[nodes] = np.repeat(np.arange(groups), each)
    gb, servers = np.zeros((len(own.names), groups + 1)), np.zeros(groups + 1)
    node, lender = held["node"].to_numpy(), held["lender"].to_numpy()
    np.add.at(gb, (own.tier[lender], place[node]), held["mb"].to_numpy() / 1024)
    running = own.run.frame("placements", ("start_s", "end_s", "first_node")).filter(
        (pl.col("start_s") <= at) & (pl.col("end_s").fill_null(np.inf) > at)
    )
    np.add.at(servers, place[running["first_node"].to_numpy()], 1)
    gb, servers = gb[:, :-1] / each, servers[:-1] / each
    called = list(own.clusters.values())
    names = [called[first] if count == 1 else f"{called[first]}–{called[first + count - 1]}"
             for first, count in zip(bound[:-1].tolist(), each.tolist(), strict=True)]  # fmt: skip
    series = [
        {"policy": "", "x": names, "y": [six_digits(amount) for amount in gb[tier].tolist()],
         "part": [name] * groups, "servers": [six_digits(count) for count in servers.tolist()]}
        for tier, name in enumerate(own.names)
    ]  # fmt: skip
    many = " Each bar is the average of neighbouring clusters." if len(nodes) > groups else ""
    free = len(nodes) - len(set(node.tolist()) & set(nodes))
    empty = f" {free:,} of {len(nodes):,} {'is' if free == 1 else 'are'} empty." if free else ""
    return [{"id": "busiest", "title": "Clusters at the busiest moment",
             "note": f"What the servers of each cluster hold {seconds_text(at)} into the log.{empty}{many}",
             "series": series, "spec": fill_spec(names, colours_of(own.names), "cluster")}]  # fmt: skip
