"""Everything that the page shows of memory in use; nothing where no workload of the study says what jobs use."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from unrack.metric.table import USE_METRICS
from unrack.plots.series import bin_edges
from unrack.report.charts.chart import MOST_POLICIES, Chart
from unrack.report.column import number_text
from unrack.report.directory import RunFiles
from unrack.report.section import PlainTable, Section, Shown, metric_table, plain, section_of, stack_chart
from unrack.report.setting import Setting, estimate
from unrack.report.table import share_text
from unrack.report.use.over_time import COLOURS, HELD, SPANS, USED, stops_of, use_over_time

MOST_ROWS = 60
MOST_JOBS = 8
THROUGHPUT = "throughput_jobs_per_h"
MB_PER_TB = 1024**2
PARTS = {"used": COLOURS[USED], "held and not used": COLOURS[HELD], "free": "rgba(128, 136, 144, 0.22)"}
_JOBS = (
    "job", "user", "state", "tasks", "memory_mb", "peak_mb_per_task", "memory_grown_mb", "memory_shrunk_mb",
    "memory_stops", "node_s_lost", "node_s_blocked", "restarts",
)  # fmt: skip


def knows_use(run: RunFiles) -> bool:
    """Whether the run's workload says what jobs use."""
    return "memory_used" in run.metrics


def use_section(settings: Sequence[Setting], shown: Sequence[Setting]) -> Section | None:
    """Read and count what the section shows of the settings that know use; ``None``: no workload says what jobs use.

    A run's tables are of the jobs whose memory ``changed`` most, and that were ``stopped``; the table of the study is
    of throughput by memory, in the first ``MOST_ROWS`` settings.
    """
    every = [own for own in settings if any(knows_use(run) for runs in own.runs.values() for run in runs)]
    if not every:
        return None
    by_memory = throughput_by_memory(every[:MOST_ROWS])

    def of_setting(setting: Setting) -> Shown:
        return share_charts(setting), {"": metric_table(setting, (THROUGHPUT, *USE_METRICS), setting.runs)}

    return section_of(shown, knows_use, of_setting, _of_run, table=by_memory)


def _of_run(run: RunFiles, setting: Setting) -> Shown:
    spans = [span for own in setting.runs.values() if (span := own[0].span) is not None]
    jobs = run.frame("jobs", _JOBS)
    charts = use_over_time(run.frame("memory"), run.span, stops_of(run.frame("placements")), run.total_mb,
                           bin_edges(spans or [(0.0, 1.0)], SPANS))  # fmt: skip
    return charts, {"changed": changed_jobs(jobs), "stopped": stopped_jobs(jobs)}


def share_charts(setting: Setting) -> list[Chart]:
    """Of what is installed: used, held and not used, free; a bar a policy (the first ``MOST_POLICIES``).

    Empty where memory is not counted.
    """
    stack = {}
    for policy, runs in list(setting.runs.items())[:MOST_POLICIES]:
        if (shares := shares_of(runs)) is None:
            continue
        used, idle, _ = shares
        words = f"{100 * idle / (used + idle) if used + idle else 0:.3g} % of what jobs hold is not used"
        stack[policy] = [(name, share, words) for name, share in zip(PARTS, shares, strict=True) if share > 0]
    if not stack:
        return []
    title, note = "Memory used, held for nothing, and free", "Averages over the window of measurement."
    return [stack_chart("use shares", title, note, stack, PARTS, "share of the memory installed", wide=True)]


def shares_of(runs: Sequence[RunFiles]) -> tuple[float, float, float] | None:
    """Used, held and not used, and free memory as shares of what is installed, over the seeds; ``None``: not known.

    Where jobs stand still for lack of memory, what they need counts as use in the metrics; here all shares are of what
    is installed, and use is what is held at most.
    """
    used, idle = [], []
    for run in runs:
        share, unused = run.metrics.get("memory_used"), run.metrics.get("memory_held_unused")
        if share is None:
            return None
        held = min(share / (1 - unused) if unused is not None and unused < 1 else share, 1.0)
        used.append(min(share, held))
        idle.append(max(held - share, 0.0))
    means = estimate(used), estimate(idle)
    if means[0] is None or means[1] is None:
        return None
    return means[0].mean, means[1].mean, max(1 - means[0].mean - means[1].mean, 0.0)


def throughput_by_memory(settings: Sequence[Setting]) -> PlainTable | None:
    """Jobs per hour for every TB that is installed: a row a setting, a column a policy (the first ``MOST_POLICIES``).

    What served less than others of its setting says so. ``None``: no cluster counts its memory.
    """
    policies = list(dict.fromkeys(policy for setting in settings for policy in setting.runs))[:MOST_POLICIES]
    heads = [("installed (TB)", "Memory of all nodes."),
             *((policy, "Jobs per hour and TB installed.") for policy in policies)]  # fmt: skip
    rows = []
    for setting in settings:
        mb = next(iter(setting.runs.values()))[0].total_mb
        if mb is None:
            continue
        values, marked = setting.values(THROUGHPUT), setting.marks(THROUGHPUT, "high")
        cells = [*plain(number_text(mb / MB_PER_TB))]
        for policy in policies:
            value = values.get(policy)
            text = number_text(None if value is None else value.mean / (mb / MB_PER_TB))
            if policy in setting.served_less:
                text += f" (served {share_text(setting.served_less[policy])})"
            cells.append((text, marked.get(policy, "")))
        rows.append((setting.title, tuple(cells)))
    return PlainTable(tuple(heads), tuple(rows)) if rows else None


def changed_jobs(jobs: pl.DataFrame) -> PlainTable | None:
    """The jobs whose leases changed most, in MB; ``None``: no lease changed."""
    moved = pl.col("memory_grown_mb") + pl.col("memory_shrunk_mb")
    top = jobs.with_row_index("row").filter(moved > 0).sort(moved, "row", descending=[True, False]).head(MOST_JOBS)
    heads = (
        ("grew by (GB)", "Sum of all by which its leases grew while it ran."),
        ("shrank by (GB)", "Sum of all by which its leases shrank while it ran."),
        ("asked (GB)", "By all of its tasks."),
        ("peak of a task (GB)", "The most that any of its tasks uses."),
        ("tasks", "How many it has."),
        ("stops", "Attempts that were stopped for lack of memory."),
    )
    rows = [
        (_name(row), plain(_gb(row["memory_grown_mb"]), _gb(row["memory_shrunk_mb"]), _gb(row["memory_mb"]),
                            _gb(row["peak_mb_per_task"]), f"{row['tasks']:,}", f"{row['memory_stops']:,}"))
        for row in top.iter_rows(named=True)
    ]  # fmt: skip
    return PlainTable(heads, tuple(rows)) if rows else None


def stopped_jobs(jobs: pl.DataFrame) -> PlainTable | None:
    """The jobs that lost most for lack of memory, stopped or standing still; ``None``: there was enough."""
    hit = (pl.col("memory_stops") > 0) | (pl.col("node_s_blocked") > 0)
    cost = pl.col("node_s_lost") + pl.col("node_s_blocked")
    order = [cost, pl.col("memory_stops"), pl.col("row")]
    top = jobs.with_row_index("row").filter(hit).sort(order, descending=[True, True, False]).head(MOST_JOBS)
    heads = (
        ("stops", "Attempts that were stopped for lack of memory."),
        ("lost (node-h)", "Work that was lost with these attempts."),
        ("stood still (node-h)", "Time in which it stood still for lack of memory, times its nodes."),
        ("asked (GB)", "By all of its tasks."),
        ("peak of a task (GB)", "The most that any of its tasks uses."),
        ("tasks", "How many it has."),
        ("in the end", "What became of it."),
    )
    rows = [
        (_name(row), plain(f"{row['memory_stops']:,}", number_text(round(row["node_s_lost"] / 3600, 3)),
                            number_text(round(row["node_s_blocked"] / 3600, 3)), _gb(row["memory_mb"]),
                            _gb(row["peak_mb_per_task"]), f"{row['tasks']:,}", str(row["state"])))
        for row in top.iter_rows(named=True)
    ]  # fmt: skip
    return PlainTable(heads, tuple(rows)) if rows else None


def _name(row: dict[str, object]) -> str:
    return f"{row['job']} of {row['user']}" if row.get("user") else str(row["job"])


def _gb(mb: int) -> str:
    return number_text(mb / 1024)
