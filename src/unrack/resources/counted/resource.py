"""The resource ``counted``: its keys, metrics and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from unrack.resources.contract import Installed, Kept, Nodes, Table, Told
from unrack.resources.counted.counters import Counters
from unrack.resources.counted.keys import read_counters
from unrack.resources.counted.measures import MEASURES, measures
from unrack.resources.counted.section import tables


class Counted(NamedTuple):
    """See :class:`unrack.resources.contract.Resource`."""

    name: str = "counted"
    title: str = "Licences and other counters"
    metrics: tuple[Told, ...] = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The counters of a cluster file."""
        return Counters(read_counters(table, where), nodes, where)

    def measure(
        self,
        installed: Installed,
        claims: pl.DataFrame,
        jobs: pl.DataFrame,
        start_s: float,
        end_s: float,
        placements: pl.DataFrame | None = None,
    ) -> dict[str, float | None]:
        """How much of every counter was used."""
        return measures(installed.places, claims, start_s, end_s)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """A table of every counter."""
        return tables(runs)
