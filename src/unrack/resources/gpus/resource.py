"""The resource ``gpus``: its keys, metrics and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import polars as pl

from unrack.resources.contract import Installed, Nodes, Speeds, UsualResource
from unrack.resources.gpus.asks import WHOLE
from unrack.resources.gpus.fleet import Fleet
from unrack.resources.gpus.fragmentation.steps import fragmentation_steps, undivided_gpus
from unrack.resources.gpus.keys import read_keys
from unrack.resources.gpus.quality import placements
from unrack.resources.gpus.section import tables
from unrack.resources.telling import Kept, Table, Told

MEASURES = (
    Told("used_gpus", "", "", "share of the GPUs that jobs held", "∫ held dt / (installed x window)"),
    Told("utility_mean", "", "high", "mean utility of starts on whole GPUs", "mean of (1/t + I + 1 - w) / 3"),
    Told("gpu_nearness_mean", "", "high", "least cost of communication over what it is, at starts", "mean 1/t"),
    Told("gpu_free_share_mean", "", "", "share of a machine's GPUs that were free before a start there", "mean w"),
    Told("gpu_cost_mean", "", "low", "communication of jobs with several GPUs, over the least possible", "mean t"),
    Told("gpu_interference_mean", "", "high", "run time alone over run time beside neighbours, at starts", "mean I"),
    Told("gpus_across_sockets", "", "low", "share of jobs with several GPUs whose GPUs are at several sockets",
         "jobs at several sockets / jobs with several GPUs"),
    Told("below_min_utility", "jobs", "low", "starts below the least utility that the job asks for", "count"),
    Told("fragmented_gpus", "", "low", "share of the GPUs that were free and of no use to a usual task",
         "∫ F dt / (undivided GPUs x window)"),
)  # fmt: skip


class GpuResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "gpus"
    title = "GPUs and how they are connected"
    metrics = MEASURES

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

    def slowdown(self, cluster: Any, jobs: Any) -> Speeds | None:
        """See :class:`unrack.resources.gpus.slowdown.GpuSpeeds`."""
        from unrack.resources.gpus.slowdown import GpuSpeeds

        return GpuSpeeds.of(cluster, jobs)


def measures(
    fleet: Fleet,
    claims: pl.DataFrame,
    jobs: pl.DataFrame,
    start_s: float,
    end_s: float,
    placed: pl.DataFrame | None = None,
) -> dict[str, float | None]:
    """Every metric; ``None`` over a window that lasts no time, or where there is nothing to say it of."""
    values: dict[str, float | None] = dict.fromkeys((told.name for told in MEASURES), None)
    length = end_s - start_s
    sliced, kinds = _sliced(fleet), fleet.gpus.kind[fleet.gpus.kind >= 0]
    installed = float(fleet.gpus.size[kinds].sum())
    slices = sum(place.quantity == "slices" for place in fleet.places)
    if length > 0 and installed:
        share = pl.when(pl.col("quantity") == "milli").then(1 / WHOLE).otherwise(sliced / slices if slices else 0.0)
        until, since = pl.min_horizontal("end_s", pl.lit(end_s)), pl.max_horizontal("start_s", pl.lit(start_s))
        spent = claims.select((pl.col("amount") * share * (until - since).clip(0.0)).sum()).item()
        values["used_gpus"] = float(spent) / (installed * length)
    steps = None if placed is None else fragmentation_steps(fleet, claims, jobs, placed, start_s, end_s)
    if steps is not None:
        values["fragmented_gpus"] = float(steps.means(1)[0]) / undivided_gpus(fleet)
    starts = placements(fleet, claims, jobs) if claims.height else None
    if starts is not None and starts.height:
        several = starts.filter(pl.col("gpus") > 1)
        values["utility_mean"] = _mean(starts["utility"])
        values["gpu_interference_mean"] = _mean(starts["interference"])
        values["gpu_nearness_mean"] = _mean(1.0 / starts["cost"])
        values["gpu_free_share_mean"] = _mean(starts["free"])
        values["gpu_cost_mean"] = _mean(several["cost"])
        values["gpus_across_sockets"] = _mean((several["sockets"] > 1).cast(pl.Float64))
        values["below_min_utility"] = float((starts["utility"] < starts["wanted"]).sum())
    return values


def _sliced(fleet: Fleet) -> float:
    kinds = fleet.gpus.kind[fleet.gpus.kind >= 0]
    return float((fleet.gpus.size[kinds] * (fleet.gpus.slices[kinds] > 0)).sum())


def _mean(values: pl.Series) -> float | None:
    return float(values.to_numpy().mean()) if len(values) else None
