"""Everything that the page shows of the pools of a study; nothing where its clusters have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unrack.report.charts.chart import MOST_SEEDS, Chart, noted
from unrack.report.charts.gantt import budgets
from unrack.report.pools.chart import bound_of, pool_charts, pool_runs
from unrack.report.pools.count import deadlines
from unrack.report.pools.occupancy import MOST_RUNS, MOST_SHARES_A_PAGE, occupancy_data
from unrack.report.pools.run import has_pools, kinds_of_all
from unrack.report.pools.table import deadline_table, device_table
from unrack.report.section import PlainTable, first_runs
from unrack.report.setting import Setting


@dataclass(frozen=True)
class PoolSetting:
    """One setting with pools.

    Attributes
    ----------
    title
        Of the setting.
    charts
        See :func:`unrack.report.pools.chart.pool_charts`.
    deadlines
        The table of missed deadlines, if any job has one.
    devices
        (kind, table) of what was made of the devices.
    seeds
        How many seeds the countings are over, at most.
    """

    title: str
    charts: list[Chart]
    deadlines: PlainTable | None
    devices: tuple[tuple[str, PlainTable], ...]
    seeds: int

    def has(self, group: str) -> bool:
        """Whether there is a chart of that group."""
        return any(chart["group"] == group for chart in self.charts)


@dataclass(frozen=True)
class PoolSection:
    """The section: its settings, and the data of the occupancy picture, one a run that can be chosen."""

    settings: tuple[PoolSetting, ...]
    occupancies: list[dict[str, Any]]

    def has(self, group: str) -> bool:
        """Whether any setting has a chart of that group."""
        return any(setting.has(group) for setting in self.settings)


def pool_section(settings: Sequence[Setting], policies: Sequence[str]) -> PoolSection:
    """Read and count what the section shows of these settings.

    Parameters
    ----------
    settings
        Those shown on the page; the ones without pools are passed over.
    policies
        All policies of the study: they fix the colours.
    """
    found = []
    for setting in settings:
        runs = pool_runs(setting)
        if not runs:
            continue
        counts = {policy: deadlines(own) for policy, own in runs.items()}
        kinds = kinds_of_all(runs)
        tables = [(kind, device_table(setting, kind, tuple(runs))) for kind in kinds]
        found.append(
            PoolSetting(
                setting.title, noted(pool_charts(runs, counts, policies), setting),
                deadline_table(counts, bound_of(runs)),
                tuple((kind, table) for kind, table in tables if table is not None),
                min(max(map(len, runs.values())), MOST_SEEDS),
            )
        )  # fmt: skip
    chosen = [(run, title) for run, title, _ in first_runs(settings, len(settings), has_pools)][:MOST_RUNS]
    shares = budgets([run.rows("shares") for run, _ in chosen], MOST_SHARES_A_PAGE)
    data = [occupancy_data(run, title, budget) for (run, title), budget in zip(chosen, shares, strict=True)]
    return PoolSection(tuple(found), data)
