"""The resource ``gpus``: its keys, metrics and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import polars as pl

from unrack.resources.contract import Installed, Kept, Nodes, Table, Told
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.gpus.keys import read_keys
from unrack.resources.gpus.measures import MEASURES, measures
from unrack.resources.gpus.section import tables


class GpuResource(NamedTuple):
    """See :class:`unrack.resources.contract.Resource`."""

    name: str = "gpus"
    title: str = "GPUs and how they are connected"
    metrics: tuple[Told, ...] = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The GPUs of a cluster file."""
        return Fleet(read_keys(table, where), nodes, where)

    def measure(
        self,
        installed: Installed,
        claims: pl.DataFrame,
        jobs: pl.DataFrame,
        start_s: float,
        end_s: float,
        placements: pl.DataFrame | None = None,
    ) -> dict[str, float | None]:
        """How much was used, and how good the placements were."""
        return measures(cast(Fleet, installed), claims, jobs, start_s, end_s, placements)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Use and quality of the placements by policy."""
        return tables(runs)
