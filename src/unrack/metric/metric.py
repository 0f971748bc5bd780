"""What describes a metric, and what it is measured of: the tables of a run, in the window of time that counts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import polars as pl

from unrack.cluster.spec import Cluster
from unrack.resources.use import Metric as Metric
from unrack.steps import areas_of
from unrack.units import SECOND_US


def by_name(*metrics: Metric) -> dict[str, Metric]:
    """Name → metric, in this order."""
    return {metric.name: metric for metric in metrics}


STATISTICS = {
    "mean": ("mean", "Σx / n"),
    "median": ("median", "x at rank 0.5 (n - 1), interpolated"),
    "p95": ("95th percentile", "x at rank 0.95 (n - 1), interpolated"),
    "max": ("largest", "max x"),
}


def measures(column: str) -> list[pl.Expr]:
    """``STATISTICS`` of a column, each called ``COLUMN_mean`` and so on."""
    all_ = (pl.mean(column), pl.median(column), pl.col(column).quantile(0.95, "linear"), pl.max(column))
    return [own.alias(f"{column}_{name}") for name, own in zip(STATISTICS, all_, strict=True)]


def statistics(name: str, values: pl.Series) -> dict[str, float | None]:
    """``STATISTICS`` of a column, as ``NAME_mean`` and so on; ``None`` without values."""
    found = values.alias(name).to_frame().select(measures(name)).row(0, named=True)
    return {key: number(own) for key, own in found.items()}


class Window:
    """A run in a window of time.

    ``tables``: those of the run, by name: ``jobs``, ``usage`` and ``placements``, and others where it has such;
    ``cluster``: what was installed; ``window_us``: its ends, both included; ``None``: from the first submission to the
    last end.
    """

    def __init__(
        self, tables: Mapping[str, pl.DataFrame], cluster: Cluster, window_us: tuple[int, int] | None = None
    ) -> None:
        self.tables, self.cluster = tables, cluster
        jobs = tables["jobs"]
        if window_us is None:
            start, last = jobs["submit_s"].min(), jobs["end_s"].max()
            self.start_s = number(start) or 0.0
            self.end_s = self.start_s if last is None else float(last)  # type: ignore[arg-type]  # of floats
            self.jobs = jobs
        else:
            self.start_s, self.end_s = window_us[0] / SECOND_US, window_us[1] / SECOND_US
            self.jobs = jobs.filter(pl.col("submit_s").is_between(self.start_s, self.end_s))

    @property
    def length_s(self) -> float:
        """How long it is; below 0 where it ends before it starts."""
        return self.end_s - self.start_s

    @cached_property
    def finished(self) -> pl.DataFrame:
        """The jobs submitted in the window that ran to their end."""
        return self.jobs.filter(pl.col("state") == "finished")

    def areas(self, table: str) -> dict[str, float]:
        """The integral over the window of each column of a table that is a step function."""
        steps = self.tables[table]
        return areas_of(steps, [name for name in steps.columns if name != "time_s"], self.start_s, self.end_s)

    def inside(self, table: str) -> pl.DataFrame:
        """The rows of a table with a time in the window."""
        return self.tables[table].filter(pl.col("time_s").is_between(self.start_s, self.end_s))


def number(value: object) -> float | None:
    """A statistic of a column, as Polars gives it; ``None``: there is none."""
    return float(value) if isinstance(value, int | float) else None


def ratio(part: float, whole: float) -> float | None:
    """One over the other; ``None`` where the other is not above 0."""
    return part / whole if whole > 0 else None
