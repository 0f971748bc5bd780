"""Everything that the page shows of the pools of a study; nothing where its clusters have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from unrack.report.charts.chart import noted
from unrack.report.charts.gantt import budgets
from unrack.report.pools.chart import bound_of, pool_charts, pool_runs
from unrack.report.pools.count import deadlines
from unrack.report.pools.occupancy import MOST_RUNS, MOST_SHARES_A_PAGE, occupancy_data
from unrack.report.pools.run import has_pools, kinds_of_all
from unrack.report.pools.table import deadline_table, device_table
from unrack.report.section import Part, Section, first_runs
from unrack.report.setting import Setting

DEADLINES = "missed deadlines"


@dataclass(frozen=True)
class PoolSection(Section):
    """The section; a setting's tables are of missed deadlines, if there are any, and of each kind of devices."""

    # the data of the occupancy picture, one a run that can be chosen
    occupancies: list[dict[str, Any]] = field(default_factory=list)
    seeds: int = 1  # how many seeds the countings are over, at most

    def has(self, group: str) -> bool:
        """Whether any setting has a chart of that group."""
        return any(chart["group"] == group for part in self.settings for chart in part.charts)


def pool_section(settings: Sequence[Setting], policies: Sequence[str]) -> PoolSection:
    """Read and count what the section shows of these settings.

    Parameters
    ----------
    settings
        Those shown on the page; the ones without pools are passed over.
    policies
        All policies of the study: they fix the colours.
    """
    found, seeds = [], 1
    for setting in settings:
        if not (runs := pool_runs(setting)):
            continue
        counts = {policy: deadlines(own) for policy, own in runs.items()}
        tables = {DEADLINES: deadline_table(counts, bound_of(runs))}
        tables |= {kind: device_table(setting, kind, tuple(runs)) for kind in kinds_of_all(runs)}
        there = {name: table for name, table in tables.items() if table is not None}
        found.append(Part(setting.title, noted(pool_charts(runs, counts, policies), setting), there))
        seeds = max(seeds, *map(len, runs.values()))
    chosen = first_runs(settings, len(settings), has_pools)[:MOST_RUNS]
    shares = budgets([run.rows("shares") for run, *_ in chosen], MOST_SHARES_A_PAGE)
    data = [occupancy_data(run, title, budget) for (run, title, _), budget in zip(chosen, shares, strict=True)]
    return PoolSection(tuple(found), occupancies=data, seeds=seeds)
