"""What describes a metric, and the statistics that many of them are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import polars as pl


class Metric(NamedTuple):
    """A metric."""

    name: str  # its column in ``summary.csv``
    unit: str  # of its value; ``""``: a plain number
    better: Literal["low", "high", ""]  # ``"low"``, ``"high"`` or ``""`` where neither is better
    summary: str  # one line of words
    formula: str  # how it is computed, in the notation of ``docs/metrics.md``
    # measures it on a :class:`unrack.metric.window.Window`; only plug-ins say so, a metric each
    measure: Callable[[Any], float | None] | None = None


def by_name(*metrics: Metric) -> dict[str, Metric]:
    """Name → metric, in this order."""
    return {metric.name: metric for metric in metrics}


STATISTICS = {
    "mean": ("mean", "Σx / n"),
    "median": ("median", "x at rank 0.5 (n - 1), interpolated"),
    "p95": ("95th percentile", "x at rank 0.95 (n - 1), interpolated"),
    "max": ("largest", "max x"),
}


def statistics(name: str, values: pl.Series) -> dict[str, float | None]:
    """``STATISTICS`` of a column, as ``NAME_mean`` and so on; ``None`` without values."""
    found = {
        "mean": values.mean(),
        "median": values.median(),
        "p95": values.quantile(0.95, "linear"),
        "max": values.max(),
    }
    return {f"{name}_{key}": float(own) if isinstance(own, int | float) else None for key, own in found.items()}
