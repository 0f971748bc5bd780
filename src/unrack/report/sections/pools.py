"""What the page shows of pools: of a setting, and a picture of a run; and over time, of a run of each policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats
from unrack.metric.estimate import Mark
from unrack.metric.kinds.pool import asked_steps, pool_steps, stranded_of
from unrack.plots.series import bin_edges, six_digits
from unrack.report.charts.canvas import MOST_RUNS, MOST_SHARES_A_PAGE, budgets, occupancy_data
from unrack.report.charts.chart import MOST_POLICIES, MOST_SEEDS, SHARE, Chart, Lines, time_charts
from unrack.report.charts.spec import BOUND, node_spec, series_of, share_spec
from unrack.report.sections.pool_counts import (
    EVERY,
    MOST_LEVEL,
    Deadlines,
    PoolRun,
    composition_times,
    deadlines,
    has_pools,
    jobs_by_node,
    kinds_of_all,
    node_groups,
    read_pool_run,
    work_by_rule,
)
from unrack.report.sections.section import PlainTable, SectionKind, Shown, first_runs, metric_table, plain, stack_chart
from unrack.report.setting import Setting, missed_bound
from unrack.report.table import is_of

DEADLINES = "missed deadlines"


def of_study(settings: Sequence[Setting], shown: Sequence[Setting], policies: Sequence[str]) -> dict[str, Any]:
    """Which jobs shared which devices when, of the runs that can be chosen."""
    chosen = first_runs(shown, has_pools)[:MOST_RUNS]
    shares = budgets([run.rows("shares") for run, *_ in chosen], MOST_SHARES_A_PAGE)
    packed = [occupancy_data(run, title, budget) for (run, title, _), budget in zip(chosen, shares, strict=True)]
    return {"packed": packed, "seeds": min(max(setting.seeds for setting in shown), MOST_SEEDS)}


def of_setting(setting: Setting, policies: Sequence[str]) -> Shown:
    """Charts, and tables of missed deadlines, if there are any, and of each kind of devices."""
    runs = pool_runs(setting)
    counts = {policy: deadlines(own) for policy, own in runs.items()}
    tables = {kind: device_table(setting, kind, tuple(runs)) for kind in kinds_of_all(runs)}
    bound = missed_bound(run.run for own in runs.values() for run in own)
    return pool_charts(runs, counts, policies), {DEADLINES: deadline_table(counts, bound), **tables}


MOST_CLASSES, MOST_IN_TABLE = 5, 8
"""Classes of jobs with a chart of their own, and with a column."""

OUTCOMES = {
    "missed, high priority": "#A50F15", "missed": "#F08070", "no deadline": "#B8C0C8", "met": "#A5D6BB",
    "met, high priority": "#2E8B57",
}  # fmt: skip
PARTS = ("#4477AA", "#CCBB44", "#228833", "#EE6677", "#66CCEE", "#AA3377", "#EE8866", "#44AA99", "#999933", "#8FA3B7")
_ASKED = {"title": "unasked part of what is in use", "axis": {"format": ".0%"}, "tip": ".1%"}
Runs = Mapping[str, Sequence[PoolRun]]


def pool_runs(setting: Setting) -> dict[str, list[PoolRun]]:
    """Policy → its runs: ``MOST_SEEDS`` seeds of ``MOST_POLICIES`` policies, the first ones; empty without pools."""
    found = {}
    for policy, runs in list(setting.runs.items())[:MOST_POLICIES]:
        own = [read_pool_run(run) for run in runs[:MOST_SEEDS] if has_pools(run)]
        if own:
            found[policy] = own
    return found


def pool_charts(runs: Runs, counts: Mapping[str, Mapping[str, Deadlines]], policies: Sequence[str]) -> list[Chart]:
    """Charts of one setting, over the seeds of each policy; those over time from the first.

    ``counts``: policy → class → what became of the deadlines. Charts have a ``group``, too: ``"deadlines"``,
    ``"sharing"``, ``"nodes"`` or ``"time"``. Those with nothing to show are left out.
    """
    charts = [
        *_deadline_charts(runs, counts),
        *_sharing_charts(runs, policies),
        *_node_charts(runs, policies),
        *_rule_charts(runs),
        *pool_time_charts({policy: own[0] for policy, own in runs.items()}, policies),
    ]
    return [chart for chart in charts if any(rows["x"] for rows in chart["series"])]


def _deadline_charts(runs: Runs, counts: Mapping[str, Mapping[str, Deadlines]]) -> list[Chart]:
    classes = list(dict.fromkeys(name for own in counts.values() for name in own))
    if all(own[EVERY].jobs == own[EVERY].none for own in counts.values()):
        return []
    shown = classes[: MOST_CLASSES + 1]
    charts: list[Chart] = []
    for name in shown if len(classes) > 2 else shown[:1]:
        series = {}
        for policy, own in counts.items():
            if name in own:
                found = own[name]
                amounts = (found.missed_high, found.missed, found.none, found.met, found.met_high)
                series[policy] = [
                    (part, amount / found.jobs, f"{amount:,} of {found.jobs:,} jobs")
                    for part, amount in zip(OUTCOMES, amounts, strict=True) if amount
                ]  # fmt: skip
        bound = missed_bound(run.run for own in runs.values() for run in own) if name == EVERY else None
        jobs = max(own[name].jobs for own in counts.values() if name in own)
        note = f"{jobs:,} jobs a policy."
        if bound is not None:
            some = f"{100 * bound:.2f} % of all jobs miss" if bound > 0 else "no job is known to miss"
            note += f" Dashed line, the bound: {some} their deadline whatever the policy."
        title = name.capitalize() if name == EVERY else f"Class {name}"
        charts.append(stack_chart(
            f"deadlines {name}", title, note, series, OUTCOMES, "share of jobs", bound=bound, group="deadlines"
        ))  # fmt: skip
    return charts


def _sharing_charts(runs: Runs, policies: Sequence[str]) -> list[Chart]:
    charts: list[Chart] = []
    for kind in kinds_of_all(runs):
        times = {policy: composition_times(own, kind) for policy, own in runs.items()}
        for which, name, title, x_title, note in (
            (0, "size", "Composition size", "devices in a composition",
             "Share of the time that compositions were in use, by the number of devices that were seen as one."),
            (1, "sharing", "Jobs per composition", "jobs at a time on one composition or device",
             "Share of the time that compositions were in use, by the number of jobs on them at that time."),
        ):  # fmt: skip
            totals = {policy: own[which] for policy, own in times.items() if own[which].sum() > 0}
            if not totals:
                continue
            most = max(int(np.flatnonzero(total)[-1]) for total in totals.values())
            if most == 1:  # one device, or one job, a composition: nothing to tell
                continue
            levels = [f"{place}+" if place == MOST_LEVEL else str(place) for place in range(1, most + 1)]
            series = [
                {"policy": policy, "x": levels, "y": [six_digits(v) for v in total[1 : most + 1] / total.sum()]}
                for policy, total in totals.items()
            ]
            charts.append({
                "id": f"{name} {kind}", "title": f"{title}: {kind}", "note": note, "group": "sharing", "series": series,
                "spec": share_spec(policies, levels, x_title, "share of time"),
            })  # fmt: skip
    return charts


def _node_charts(runs: Runs, policies: Sequence[str]) -> list[Chart]:
    nodes = max(len(run.run.hardware) for own in runs.values() for run in own)
    groups = node_groups(nodes)
    words = [str(first) if first == last else f"{first}–{last}" for first, last in groups]
    found = {policy: jobs_by_node(own, groups) for policy, own in runs.items()}
    totals: dict[str, float] = {}
    for by_class in found.values():
        for name, jobs in by_class.items():
            totals[name] = totals.get(name, 0.0) + sum(jobs)
    classes = sorted(totals, key=lambda name: (-totals[name], name))[: len(PARTS)]
    series = []
    for policy, by_class in found.items():
        rows = [
            (word, name, six_digits(jobs))
            for name in classes for word, jobs in zip(words, by_class.get(name, ()), strict=False) if jobs
        ]  # fmt: skip
        series.append(series_of(policy, "x part y", rows))
    note = "Jobs that ran to their end, averaged over seeds; the foot of a bar has the colour of its policy."
    if len(totals) > len(classes):
        note += f" The {len(classes)} of {len(totals)} classes with the most jobs."
    return [{
        "id": "nodes", "title": "Jobs per node, by class", "wide": True, "group": "nodes", "series": series,
        "note": note, "spec": node_spec(list(runs), policies, words, dict(zip(classes, PARTS, strict=False))),
    }]  # fmt: skip


def _rule_charts(runs: Runs) -> list[Chart]:
    demands = tuple(dict.fromkeys(name for own in runs.values() for run in own for name in run.demands))
    titles = {"cores": "Core-time", **{name: f"{quantity_words(name)}-time" for name in demands}}
    tables = {amount: {policy: work_by_rule(own, amount) for policy, own in runs.items()} for amount in titles}
    tables = {
        amount: {policy: own for policy, own in table.items() if sum(own.values()) > 0}
        for amount, table in tables.items()
    }
    if all(len(own) == 1 for table in tables.values() for own in table.values()):
        return []  # each policy has one rule, and that placed everything
    rules = sorted({rule for table in tables.values() for own in table.values() for rule in own})
    colours = {rule: PARTS[place % len(PARTS)] for place, rule in enumerate(rules)}
    charts: list[Chart] = []
    for amount, title in titles.items():
        if not tables[amount]:
            continue
        series = {
            policy: [(rule, work / sum(own.values()), f"{work / 3600:,.4g} hours × {amount.split('.')[-1]}")
                     for rule, work in own.items() if work > 0]
            for policy, own in tables[amount].items()
        }  # fmt: skip
        note = "What each rule placed, of all that finished jobs asked for, times how long they ran."
        name = f"{title} by placement rule"
        charts.append(stack_chart(f"rules {amount}", name, note, series, colours, "share of the work", group="rules"))
    return charts


def pool_time_charts(runs: Mapping[str, PoolRun], policies: Sequence[str]) -> list[Chart]:
    """Charts of the devices in use, the jobs that share them and those stranded, over time, of a run of each policy.

    As :func:`unrack.report.sections.pools.pool_charts`; empty where no job held a device.
    """
    ends = [
        (float(run.shares["start_s"].min()), float(run.shares["end_s"].max()))  # type: ignore[arg-type]  # of floats
        for run in runs.values() if len(run.shares)
    ]  # fmt: skip
    if not ends:
        return []
    edges, charts = bin_edges(ends), list[Chart]()
    for kind in kinds_of_all({policy: [run] for policy, run in runs.items()}):
        installed = {policy: len(run.devices.of_kind(kind)) for policy, run in runs.items()}
        used = {policy: pool_steps(run.shares, kind, installed[policy]) for policy, run in runs.items()}
        used = {policy: steps for policy, steps in used.items() if len(steps)}
        stranded = {policy: lost for policy in used if (lost := _stranded(runs[policy], kind)) is not None}
        shared = any((own["sharers"] > own["compositions"]).any() for own in used.values())  # by several jobs, ever
        share = pl.col("devices")
        for name, title, y, steps, of, over in (
            ("used", f"{kind} devices in use", {"title": "share of devices", **SHARE}, used,
             pl.col("devices_used") / share, None),
            ("sharers", f"Jobs per {kind} composition", {"title": "jobs per composition in use"},
             used if shared else {}, "sharers", "compositions"),
            ("stranded", f"{kind} devices stranded", {"title": "share of devices", **SHARE}, stranded,
             pl.col("stranded") / share, None),
        ):  # fmt: skip
            counted = {policy: own.with_columns(devices=pl.lit(installed[policy])) for policy, own in steps.items()}
            charts += _drawn(Lines(f"{name} {kind}", f"{title} over time", y, of, over), counted, policies, edges)
        demands = dict.fromkeys(name for run in runs.values() for name in run.demands if name.startswith(f"{kind}."))
        for demand in demands:
            title = f"Fragmentation of {quantity_words(demand)} over time"
            held = {policy: _held(runs[policy], kind, demand) for policy in used if demand in runs[policy].demands}
            name, unasked = f"fragmentation {demand.replace('.', ' ')}", pl.col("installed") - pl.col("held")
            charts += _drawn(Lines(name, title, _ASKED, unasked, "installed"), held, policies, edges)
    return charts


def _drawn(line: Lines, steps: Mapping[str, pl.DataFrame], policies: Sequence[str], edges: Floats) -> list[Chart]:
    return [{**own, "group": "time"} for own in time_charts(steps, [line], policies, edges=edges, whole=True)]


def _held(run: PoolRun, kind: str, demand: str) -> pl.DataFrame:
    own = run.shares.filter(pl.col("kind") == kind)
    return asked_steps(own, run.run.frame("jobs", ("job", demand)), run.devices, kind, demand.partition(".")[2])


def _stranded(run: PoolRun, kind: str) -> pl.DataFrame | None:
    jobs = run.run.frame("jobs", ("cores_per_task", *run.demands))
    return stranded_of(run.shares, kind, jobs, run.placements, run.devices, run.run.hardware.cores)


def quantity_words(name: str) -> str:
    """A quantity of a kind, ``"nvme.bandwidth_mb_s"`` for example, without its unit."""
    return name.replace(".", " ").removesuffix("_mb_s").removesuffix("_mb").replace("_", " ")


def deadline_table(counts: Mapping[str, Mapping[str, Deadlines]], bound: float | None) -> PlainTable | None:
    """Missed deadlines in % by class, a row a policy and one for the bound; ``None`` where no job has a deadline.

    ``counts``: policy → class → what became of the deadlines; ``bound``: the share of jobs that no policy could save.
    """
    if all(own[EVERY].jobs == own[EVERY].none for own in counts.values()):
        return None
    classes = list(dict.fromkeys(name for own in counts.values() for name in own if name != EVERY))[:MOST_IN_TABLE]
    heads = [
        ("jobs", "All that count, over all seeds."),
        ("missed (%)", "Ended after the deadline, or never; of all jobs."),
        (
            "high priority, missed (%)",
            "The same for jobs of high priority; of all jobs, so never more than the former.",
        ),
        ("of high priority (%)", "Missed deadlines of high priority, of the jobs of high priority."),
        *((f"{name} (%)", f"Missed deadlines, of the jobs of class {name}.") for name in classes),
    ]
    rows: list[tuple[str, tuple[tuple[str, Mark], ...]]] = []
    for policy, own in counts.items():
        every = own[EVERY]
        shares = [
            _percent(every.missed + every.missed_high, every.jobs),
            _percent(every.missed_high, every.jobs),
            _percent(every.missed_high, every.missed_high + every.met_high),
        ]
        of_class = (own.get(name, Deadlines()) for name in classes)
        shares += [_percent(found.missed + found.missed_high, found.jobs) for found in of_class]
        rows.append((policy, plain(f"{every.jobs:,}", *shares)))
    if bound is not None:
        rows.append((BOUND, plain("", f"{100 * bound:.2f}", *[""] * (len(heads) - 2))))
    return PlainTable(tuple(heads), tuple(rows))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}" if whole else "–"


def device_table(setting: Setting, kind: str, policies: Sequence[str]) -> PlainTable | None:
    """What was made of the devices of one kind: a row a policy, a column a metric; ``None`` without such metrics."""
    names = dict.fromkeys(
        name for policy in policies for run in setting.runs[policy] for name in run.metrics if is_of(name, kind)
    )
    return metric_table(setting, names, policies)


POOLS = SectionKind(has_pools, of_setting, of_study=of_study)
