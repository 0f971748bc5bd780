"""The resource ``links``: its keys, metrics and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from unrack.resources.contract import Installed, Nodes, Speeds, UsualResource
from unrack.resources.links.links import LINK, UPLINK, Links, read_keys
from unrack.resources.use import Kept, Measured, Metric, Table, use_of, use_tables

MEASURES = (
    Metric("used_links", "", "", "share of what the links of nodes carry that jobs claimed",
           "∫ claimed dt / (carried x window)"),
    Metric("peak_links", "", "low", "share of what a node's link carries that was claimed at most, of the fullest",
           "max claimed / carried"),
    Metric("used_uplinks", "", "", "share of what uplinks carry that jobs claimed",
           "∫ claimed dt / (carried x window)"),
    Metric("peak_uplinks", "", "low", "share of what an uplink carries that was claimed at most",
           "max claimed / carried"),
)  # fmt: skip
WORDS = (
    "In use: the mean share of what all of them carry that jobs claimed; fullest: the most at any time on one, above "
    "100 % where they are oversubscribed. GB sent: claimed MB/s x time; what passes between two nodes counts at both. "
    "The picture has what jobs claim of all together, in MB/s."
)


class LinkResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "links"
    title = "Network links"
    metrics = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The links of a cluster file."""
        return Links(read_keys(table, where), nodes, where)

    def measure(self, run: Measured) -> dict[str, float | None]:
        """How much of links and uplinks was claimed; ``None`` over a window of no time, or where there are none."""
        values: dict[str, float | None] = {}
        carries = [*zip(run.installed.places, run.installed.capacity.tolist(), strict=True)]
        for quantity, stem in ((LINK, "links"), (UPLINK, "uplinks")):
            own = {place.name: each for place, each in carries if place.quantity == quantity}
            use = use_of(own, run.claims.filter(pl.col("quantity") == quantity), run.start_s, run.end_s)
            values |= {f"used_{stem}": use.used, f"peak_{stem}": use.peak}
        return values

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Load by policy and over time, of links and of uplinks where there are any."""
        return tuple(
            table
            for quantity, stem, title in ((LINK, "links", "Load of the links"), (UPLINK, "uplinks", "Load of uplinks"))
            if any(run.metrics.get(f"used_{stem}") is not None for run in runs)
            for table in use_tables(
                runs, f"links.{quantity}", title, WORDS,
                {"in use": f"used_{stem}", "fullest": f"peak_{stem}"}, ("GB sent", 1000.0),
            )
        )  # fmt: skip

    def slowdown(self, cluster: Any, jobs: Any) -> Speeds | None:
        """See :class:`unrack.resources.links.slowdown.LinkSpeeds`."""
        from unrack.resources.links.slowdown import LinkSpeeds

        return LinkSpeeds.of(cluster, jobs)
