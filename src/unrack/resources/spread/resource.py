"""The resource ``spread``: its key and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl

from unrack.resources.contract import Installed, Kept, Nodes, Table, Told
from unrack.resources.spread.limits import Limits
from unrack.resources.spread.section import tables


class Spread(NamedTuple):
    """See :class:`unrack.resources.contract.Resource`."""

    name: str = "spread"
    title: str = "Instances kept apart"
    metrics: tuple[Told, ...] = ()

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The groups of a cluster file."""
        return Limits(table, nodes, where)

    def measure(
        self,
        installed: Installed,
        claims: pl.DataFrame,
        jobs: pl.DataFrame,
        start_s: float,
        end_s: float,
        placements: pl.DataFrame | None = None,
    ) -> dict[str, float | None]:
        """Nothing: a limit is no amount of anything."""
        return {}

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """A table of the limits."""
        return tables(runs)
