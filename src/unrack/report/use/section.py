"""Everything that the page shows of memory in use; nothing where no workload of the study says what jobs use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unrack.plots.series import bin_edges
from unrack.report.charts.chart import MOST_POLICIES, Chart, noted
from unrack.report.directory import RunFiles
from unrack.report.section import MOST_RUNS, Part, PlainTable, Section, first_runs, stack_chart
from unrack.report.setting import Setting, estimate
from unrack.report.table import share_text
from unrack.report.use.over_time import COLOURS, HELD, SPANS, USED, use_over_time
from unrack.report.use.run import knows_use, read_use_run, span_of
from unrack.report.use.table import changed_jobs, stopped_jobs, throughput_by_memory, use_table

MOST_ROWS = 60
PARTS = {"used": COLOURS[USED], "held and not used": COLOURS[HELD], "free": "rgba(128, 136, 144, 0.22)"}


@dataclass(frozen=True)
class UseSection(Section):
    """The section; a run's tables are of the jobs whose memory ``changed`` most, and that were ``stopped``."""

    # title of a setting → policy → what it served, where that is less than others
    less: Mapping[str, dict[str, str]] = field(default_factory=dict)
    # throughput per TB, of the first ``MOST_ROWS`` settings; ``None``: memory is not counted
    by_memory: PlainTable | None = None


def use_section(settings: Sequence[Setting], shown: Sequence[Setting]) -> UseSection | None:
    """Read and count what the section shows; ``None``: no workload says what jobs use.

    Parameters
    ----------
    settings
        All settings of the study.
    shown
        Those that the page shows one by one; the ones that do not know use are passed over.
    """
    every, known = ([setting for setting in some if _knows(setting)] for some in (settings, shown))
    if not every:
        return None
    chosen = first_runs(known, len(shown), knows_use)
    tables = [(setting.title, use_table(setting)) for setting in known]
    charts = [Part(setting.title, noted(share_charts(setting), setting)) for setting in known]
    return UseSection(
        tuple(part for part in charts if part.charts),
        tuple(_of_run(run, title, setting) for run, title, setting in chosen[:MOST_RUNS]),
        max(len(chosen) - MOST_RUNS, 0),
        tables=tuple((title, table) for title, table in tables if table is not None),
        less={own.title: {name: share_text(share) for name, share in own.served_less.items()} for own in known},
        by_memory=throughput_by_memory(every[:MOST_ROWS]),
    )


def _knows(setting: Setting) -> bool:
    return any(knows_use(run) for own in setting.runs.values() for run in own)


def _of_run(run: RunFiles, title: str, setting: Setting) -> Part:
    spans = [span for own in setting.runs.values() if (span := span_of(own[0])) is not None]
    own = read_use_run(run)
    charts = use_over_time(own, bin_edges(spans or [(0.0, 1.0)], SPANS))
    tables = {"changed": changed_jobs(own), "stopped": stopped_jobs(own)}
    return Part(title, charts, {name: table for name, table in tables.items() if table is not None})


def share_charts(setting: Setting) -> list[Chart]:
    """Of what is installed: used, held and not used, free; a bar a policy (the first ``MOST_POLICIES``).

    Returns
    -------
    list of dict
        As :func:`unrack.report.charts.chart.setting_charts`; empty where memory is not counted.
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
