"""What describes a metric, and the statistics that many of them are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import polars as pl


class Metric(NamedTuple):
    """A metric.

    Attributes
    ----------
    name
        Its column in ``summary.csv``.
    unit
        Of its value; ``""``: a plain number.
    better
        ``"low"``, ``"high"`` or ``""`` where neither is better.
    summary
        One line of words.
    formula
        How it is computed, in the notation of ``docs/metrics.md``.
    measure
        Measures it on a :class:`unrack.metric.window.Window`; only plug-ins say so, a metric each.
    """

    name: str
    unit: str
    better: Literal["low", "high", ""]
    summary: str
    formula: str
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
