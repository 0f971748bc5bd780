"""The resource ``links``: its keys, metrics and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import polars as pl

from unrack.resources.contract import Installed, Kept, Nodes, Table, Told
from unrack.resources.links.keys import read_keys
from unrack.resources.links.links import Links
from unrack.resources.links.measures import MEASURES, measures
from unrack.resources.links.section import tables


class LinkResource(NamedTuple):
    """See :class:`unrack.resources.contract.Resource`."""

    name: str = "links"
    title: str = "Network links"
    metrics: tuple[Told, ...] = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The links of a cluster file."""
        return Links(read_keys(table, where), nodes, where)

    def measure(
        self,
        installed: Installed,
        claims: pl.DataFrame,
        jobs: pl.DataFrame,
        start_s: float,
        end_s: float,
        placements: pl.DataFrame | None = None,
    ) -> dict[str, float | None]:
        """How much of links and uplinks was claimed."""
        quantities = [place.quantity for place in installed.places]
        return measures(quantities, cast(Links, installed).capacity.tolist(), claims, start_s, end_s)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Load by policy."""
        return tables(runs)
