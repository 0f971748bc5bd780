"""The metrics of resources, as each of them measures its own."""

from __future__ import annotations

from typing import Literal, cast

import polars as pl

from unrack.metric.metric import Metric
from unrack.metric.window import Window
from unrack.resources.table import RESOURCES

RESOURCE_METRICS: dict[str, Metric] = {
    told.name: Metric(told.name, told.unit, cast(Literal["low", "high", ""], told.better), told.summary, told.formula)
    for resource in RESOURCES.values()
    for told in resource.metrics
}
"""One for every quantity of a resource, where the name has QUANTITY in it."""


def resource_metrics(window: Window) -> dict[str, float | None]:
    """Metrics of every resource that the cluster has, over a window."""
    tables, values = window.tables, dict[str, float | None]()
    for name, installed in window.cluster.places.installed.items():
        own = tables["claims"].filter(pl.col("resource") == name)
        values |= RESOURCES[name].measure(
            installed, own, tables["jobs"], window.start_s, window.end_s, tables["placements"]
        )
    return values
