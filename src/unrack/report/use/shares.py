"""The chart of a setting: how much of the installed memory was used, held for nothing, and free."""

from __future__ import annotations

from collections.abc import Sequence

from unrack.report.charts.chart import MOST_POLICIES, Chart
from unrack.report.directory import RunFiles
from unrack.report.section import stack_chart
from unrack.report.setting import Setting, estimate
from unrack.report.use.over_time import COLOURS, HELD, USED

PARTS = {"used": COLOURS[USED], "held and not used": COLOURS[HELD], "free": "rgba(128, 136, 144, 0.22)"}


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
