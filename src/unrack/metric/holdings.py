"""What a metric is, and what it is measured of: the tables of a run, in the window of time that counts.

``holdings`` is one table of all that jobs held: which job how much of what, where and when. The tables of placements,
loans, shares and claims say the same, each in the words of its resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from unrack.cluster.spec import UNCOUNTED_MB, Cluster
from unrack.resources.use import Metric as Metric
from unrack.steps import areas_of
from unrack.units import SECOND_US

SPAN = ("job", "attempt", "span", "start_s", "end_s")
HOUR_S = 3600


def holdings(cluster: Cluster, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """One row for every amount that was held in every span, in order of (start, job, attempt, span).

    Of the tables of a run: its placements, and its loans, shares and claims where it has such. Columns: job, attempt,
    span, start_s, end_s; resource, quantity, place (a node's number, the numbers of the devices of a composition as
    ``3+4``, or a counter's name), places (from ``place`` on, so many consecutive ones hold this each), amount (on
    each), node (that of the tasks that use it, where that is another than the place; else empty) and bundle (the number
    of the composition or split device; else empty).
    """
    parts = [_nodes(tables["placements"], "cores"), _nodes(tables["placements"], "memory_mb")]
    if "loans" in tables:
        parts.append(_loans(cluster, tables["loans"]))
    if "shares" in tables:
        parts += _shares(cluster, tables["shares"])
    if "claims" in tables:
        parts.append(_part(tables["claims"], pl.col("resource"), pl.col("quantity"), pl.col("place")))
    return pl.concat(parts).filter(pl.col("amount") > 0).sort("start_s", "job", "attempt", "span", maintain_order=True)


def _part(frame: pl.DataFrame, resource: Any, quantity: Any, place: Any, **others: Any) -> pl.DataFrame:
    return frame.select(
        *SPAN,
        resource.alias("resource"),
        quantity.alias("quantity"),
        place.cast(pl.String).alias("place"),
        others.get("places", pl.lit(1)).cast(pl.Int32).alias("places"),
        others.get("amount", pl.col("amount")).cast(pl.Int64).alias("amount"),
        others.get("node", pl.lit(None)).cast(pl.Int32).alias("node"),
        others.get("bundle", pl.lit(None)).cast(pl.Int32).alias("bundle"),
    )


def _nodes(placements: pl.DataFrame, quantity: str) -> pl.DataFrame:
    each = pl.col(f"{quantity}_per_node")
    return _part(
        placements, pl.lit("nodes"), pl.lit(quantity), pl.col("first_node"), places=pl.col("nodes"), amount=each
    )


def _loans(cluster: Cluster, loans: pl.DataFrame) -> pl.DataFrame:
    """Memory of other nodes; of pools, where there are tiers."""
    of_pool = np.zeros(len(cluster), np.bool_) if cluster.tiers is None else cluster.tiers.tier > 0
    resource = pl.lit(pl.Series(np.where(of_pool[loans["lender"].to_numpy()], "tiers", "lending")))
    return _part(loans, resource, pl.lit("memory_mb"), pl.col("lender"), amount=pl.col("mb"), node=pl.col("node"))


def _shares(cluster: Cluster, shares: pl.DataFrame) -> list[pl.DataFrame]:
    """What is held of each quantity of a composition, as one amount."""
    parts = []
    for kind, names in zip(cluster.devices.kinds, cluster.devices.quantities, strict=True):
        own = shares.filter(pl.col("kind") == kind)
        place = pl.col("devices").cast(pl.List(pl.String)).list.join("+")
        for at, name in enumerate(names):
            amount = pl.col("amounts").list.get(at)
            parts.append(
                _part(own, pl.lit("pools"), pl.lit(f"{kind}.{name}"), place, amount=amount, node=pl.col("node"),
                      bundle=pl.col("composition"))
            )  # fmt: skip
    return parts


def totals(held: pl.DataFrame, cluster: Cluster) -> pl.DataFrame:
    """What was held of every quantity in all: one row a resource and quantity, in order of these.

    Columns: resource, quantity, installed (empty: memory that is lent is that of nodes, or is not counted), jobs (that
    held some), most (held at one time), mean (over the time in which any was held) and hours (amount x hours, summed).
    """
    rows = held.filter(pl.col("end_s") > pl.col("start_s")).with_columns(all=pl.col("amount") * pl.col("places"))
    of = ["resource", "quantity"]
    time = (pl.col("end_s") - pl.col("start_s")) / HOUR_S
    sums = rows.group_by(of).agg(jobs=pl.col("job").n_unique(), hours=(pl.col("all") * time).sum())
    began = rows.select(*of, pl.col("start_s").alias("at"), pl.col("all").alias("step"))
    ended = rows.select(*of, pl.col("end_s").alias("at"), (-pl.col("all")).alias("step"))
    steps = pl.concat([began, ended]).group_by([*of, "at"]).agg(pl.col("step").sum()).sort([*of, "at"])
    steps = steps.with_columns(level=pl.col("step").cum_sum().over(of), until=pl.col("at").shift(-1).over(of))
    busy = pl.when(pl.col("level") > 0).then((pl.col("until") - pl.col("at")) / HOUR_S).otherwise(0.0)
    most = steps.with_columns(busy=busy).group_by(of).agg(most=pl.col("level").max(), busy=pl.col("busy").sum())
    found = sums.join(most, on=of).with_columns(mean=pl.col("hours") / pl.col("busy"))
    return (
        found.join(installed(cluster), on=of, how="left")
        .sort(of)
        .select(*of, "installed", "jobs", "most", "mean", "hours")
    )


def installed(cluster: Cluster) -> pl.DataFrame:
    """What there is of every quantity that has an amount of its own. Columns: resource, quantity, installed."""
    near = np.ones(len(cluster), np.bool_) if cluster.tiers is None else cluster.tiers.tier == 0
    found = {("nodes", "cores"): cluster.total_cores}
    memory, counted = cluster.memory_mb, bool((cluster.memory_mb < UNCOUNTED_MB).all())
    if counted:
        found["nodes", "memory_mb"] = int(memory[near].sum())
        found["tiers", "memory_mb"] = int(memory[~near].sum())
    devices = cluster.devices
    for number, (kind, names) in enumerate(zip(devices.kinds, devices.quantities, strict=True)):
        for at, name in enumerate(names):
            found["pools", f"{kind}.{name}"] = int(devices.capacity[at, devices.kind == number].sum())
    for part in cluster.places.parts:
        found |= {(part.name, quantity): amount for quantity, amount in part.amounts.items()}
    rows = [(*key, amount) for key, amount in found.items()]
    return pl.DataFrame(rows, {"resource": pl.String, "quantity": pl.String, "installed": pl.Int64}, orient="row")


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
