"""Everything that the page shows of the pools of a study; nothing where its clusters have none."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.report.charts.chart import MOST_SEEDS
from unrack.report.charts.gantt import budgets
from unrack.report.pools.chart import pool_charts, pool_runs
from unrack.report.pools.count import deadlines
from unrack.report.pools.occupancy import MOST_RUNS, MOST_SHARES_A_PAGE, occupancy_data
from unrack.report.pools.run import has_pools, kinds_of_all
from unrack.report.pools.table import deadline_table, device_table
from unrack.report.section import Section, Shown, first_runs, section_of
from unrack.report.setting import Setting, missed_bound

DEADLINES = "missed deadlines"


def pool_section(settings: Sequence[Setting], policies: Sequence[str]) -> Section | None:
    """Read and count what the section shows of these settings, but for those without pools; ``None``: there are none.

    A setting's tables are of missed deadlines, if there are any, and of each kind of devices.
    """

    def of_setting(setting: Setting) -> Shown:
        runs = pool_runs(setting)
        counts = {policy: deadlines(own) for policy, own in runs.items()}
        tables = {kind: device_table(setting, kind, tuple(runs)) for kind in kinds_of_all(runs)}
        bound = missed_bound(run.run for own in runs.values() for run in own)
        return pool_charts(runs, counts, policies), {DEADLINES: deadline_table(counts, bound), **tables}

    chosen = first_runs(settings, len(settings), has_pools)[:MOST_RUNS]
    shares = budgets([run.rows("shares") for run, *_ in chosen], MOST_SHARES_A_PAGE)
    data = [occupancy_data(run, title, budget) for (run, title, _), budget in zip(chosen, shares, strict=True)]
    seeds = max((setting.seeds for setting in settings), default=1)
    return section_of(settings, has_pools, of_setting, packed=data, seeds=min(seeds, MOST_SEEDS))
