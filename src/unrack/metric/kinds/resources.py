"""The metrics of resources, as each of them measures its own."""

from __future__ import annotations

from typing import Literal, cast

import polars as pl

from unrack.cluster.spec import Cluster
from unrack.metric.metric import Metric
from unrack.resources.table import RESOURCES

RESOURCE_METRICS: dict[str, Metric] = {
    told.name: Metric(told.name, told.unit, cast(Literal["low", "high", ""], told.better), told.summary, told.formula)
    for resource in RESOURCES.values()
    for told in resource.metrics
}
"""One for every quantity of a resource, where the name has QUANTITY in it."""


def resource_metrics(
    claims: pl.DataFrame | None,
    jobs: pl.DataFrame,
    placements: pl.DataFrame | None,
    cluster: Cluster,
    start_s: float,
    end_s: float,
) -> dict[str, float | None]:
    """Metrics of every resource that the cluster has, over a window."""
    values: dict[str, float | None] = {}
    for name, installed in cluster.places.installed.items():
        own = NO_ROWS if claims is None else claims.filter(pl.col("resource") == name)
        values |= RESOURCES[name].measure(installed, own, jobs, start_s, end_s, placements)
    return values


NO_ROWS = pl.DataFrame(
    schema={"start_s": pl.Float64, "end_s": pl.Float64, "resource": pl.String, "quantity": pl.String,
            "place": pl.String, "amount": pl.Int64}
)  # fmt: skip
