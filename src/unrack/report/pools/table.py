"""The tables of the pool section: deadlines by class, and what was made of the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from unrack.metric.comparison import Mark
from unrack.report.charts.spec import BOUND
from unrack.report.pools.count import EVERY, Deadlines
from unrack.report.section import PlainTable, metric_table, plain
from unrack.report.setting import Setting
from unrack.report.table import is_of

MOST_CLASSES = 8


def deadline_table(counts: Mapping[str, Mapping[str, Deadlines]], bound: float | None) -> PlainTable | None:
    """Missed deadlines in % by class, a row a policy and one for the bound; ``None`` where no job has a deadline.

    ``counts``: policy → class → what became of the deadlines; ``bound``: the share of jobs that no policy could save.
    """
    if all(own[EVERY].jobs == own[EVERY].none for own in counts.values()):
        return None
    classes = list(dict.fromkeys(name for own in counts.values() for name in own if name != EVERY))[:MOST_CLASSES]
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
