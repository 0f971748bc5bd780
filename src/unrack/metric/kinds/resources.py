"""The metrics of resources, as each of them measures its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, cast

import polars as pl

from unrack.metric.metric import Metric, Window
from unrack.plugins.code import blamed
from unrack.resources.table import RESOURCES, resource_of


class _OfResources(Mapping[str, Metric]):
    """The metrics of all resources that there are, also of plug-ins."""

    def __getitem__(self, name: str) -> Metric:
        told = next((told for one in RESOURCES.values() for told in one.metrics if told.name == name), None)
        if told is None:
            raise KeyError(name)
        return Metric(told.name, told.unit, cast(Literal["low", "high", ""], told.better), told.summary, told.formula)

    def __iter__(self) -> Iterator[str]:
        return (told.name for one in RESOURCES.values() for told in one.metrics)

    def __len__(self) -> int:
        return sum(1 for _ in self)


RESOURCE_METRICS = _OfResources()
"""One for every quantity of a resource, where the name has QUANTITY in it."""


def resource_metrics(window: Window) -> dict[str, float | None]:
    """Metrics of every resource that the cluster has, over a window."""
    tables, values = window.tables, dict[str, float | None]()
    for name, installed in window.cluster.places.installed.items():
        own = tables["claims"].filter(pl.col("resource") == name)
        with blamed(f"the resource {name}, measure,"):
            values |= resource_of(name).measure(
                installed, own, tables["jobs"], window.start_s, window.end_s, tables["placements"]
            )
    return values
