"""Everything that the page shows of memory in use; nothing where no workload of the study says what jobs use."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.metric.table import USE_METRICS
from unrack.plots.series import bin_edges
from unrack.report.charts.chart import MOST_POLICIES, Chart
from unrack.report.directory import RunFiles
from unrack.report.section import Section, Shown, metric_table, section_of, stack_chart
from unrack.report.setting import Setting, estimate
from unrack.report.use.over_time import COLOURS, HELD, SPANS, USED, stops_of, use_over_time
from unrack.report.use.table import THROUGHPUT, changed_jobs, stopped_jobs, throughput_by_memory

MOST_ROWS = 60
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
    return section_of(shown, knows_use, _of_setting, _of_run, table=by_memory)


def _of_setting(setting: Setting) -> Shown:
    return share_charts(setting), {"": metric_table(setting, (THROUGHPUT, *USE_METRICS), tuple(setting.runs))}


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
