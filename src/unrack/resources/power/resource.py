"""The resource ``power``: its key and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats
from unrack.resources.contract import Installed, Nodes, UsualResource
from unrack.resources.power.installed import Power
from unrack.resources.use import COLOURS, PIECES, Kept, Table, mean_share, picture, rows_by_policy
from unrack.steps import means

HEAD = ("policy", "energy (kWh)", "of nodes without jobs", "a job (kWh)", "mean (kW)", "peak (kW)", "nodes off")
WORDS = (
    "Energy: what all nodes drew in the window of the metrics; a job: that over the jobs that ran to their end. "
    "Nodes without jobs: idle, being switched off, or off. Nodes off: averaged over time."
)


class PowerResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "power"
    title = "Power"

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """What the nodes of a cluster file draw."""
        return Power(table, nodes, where)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Energy by policy, and power over time with the cap; nothing of runs that say nothing of it."""
        told = [run for run in runs if run.metrics.get("energy_kwh") is not None and run.table is not None]
        if not told:
            return ()
        first = {run.policy: run for run in reversed(told)}
        names = list(dict.fromkeys(run.policy for run in told))[: len(COLOURS) - 1]
        lines = {name: _over_time(first[name].table("power")) for name in names}
        if (cap := told[0].written.get("cap")) is not None:
            edges = np.array([min(edges[0] for edges, _ in lines.values()), max(e[-1] for e, _ in lines.values())])
            lines["cap"] = edges, np.array([cap / 1000])
        return (Table("Power over time", WORDS, HEAD, rows_by_policy(told, _row), picture(lines, "kW")),)


def _row(policy: str, runs: Sequence[Kept]) -> tuple[str, ...]:
    def mean(name: str) -> float:
        values = [value for run in runs if (value := run.metrics.get(name)) is not None]
        return sum(values) / len(values) if values else 0.0

    energy = mean("energy_kwh")
    idle = mean_share([mean("energy_without_jobs_kwh") / energy if energy else None])
    kw = (f"{mean(name):,.3g}" for name in ("energy_per_job_kwh", "power_mean_kw", "power_peak_kw"))
    off = mean_share([run.metrics.get("nodes_switched_off") for run in runs])
    return policy, f"{energy:,.1f}", idle, *kw, off


def _over_time(steps: pl.DataFrame) -> tuple[Floats, Floats]:
    """The edges of pieces of time, s, and the mean kW in each."""
    times = steps["time_s"].to_numpy()
    edges = np.linspace(times[0], max(times[-1], times[0] + 1e-9), PIECES + 1)
    return edges, means(times, steps["watts"].to_numpy()[:-1] / 1000, edges)
