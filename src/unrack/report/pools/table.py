"""The tables of the pool section: deadlines by class, and what was made of the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from unrack.metric.comparison import Mark
from unrack.report.column import columns_of
from unrack.report.pools.count import EVERY, Deadlines
from unrack.report.setting import Setting
from unrack.report.table import is_of

MOST_CLASSES = 8


@dataclass(frozen=True)
class PlainTable:
    """A table to print as it is.

    Attributes
    ----------
    heads
        (words, what they mean) of each column after the first.
    rows
        (name, (text, its mark, as in the comparison) of each cell).
    """

    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[tuple[str, Mark], ...]], ...]


def deadline_table(counts: Mapping[str, Mapping[str, Deadlines]], bound: float | None) -> PlainTable | None:
    """Missed deadlines in % by class, a row a policy and one for the bound; ``None`` where no job has a deadline.

    Parameters
    ----------
    counts
        Policy → class → what became of the deadlines.
    bound
        The share of all jobs that no policy could save, if known.
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
        high = every.missed_high + every.met_high
        shares = [
            _percent(every.missed + every.missed_high, every.jobs),
            _percent(every.missed_high, every.jobs),
            _percent(every.missed_high, high),
            *(
                _percent(own[name].missed + own[name].missed_high, own[name].jobs) if name in own else "–"
                for name in classes
            ),
        ]
        rows.append((policy, ((f"{every.jobs:,}", ""), *((text, "") for text in shares))))
    if bound is not None:
        cells = ["", f"{100 * bound:.2f}", *[""] * (len(heads) - 2)]
        rows.append(("no policy can be below", tuple((text, "") for text in cells)))
    return PlainTable(tuple(heads), tuple(rows))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}" if whole else "–"


def device_table(setting: Setting, kind: str, policies: Sequence[str]) -> PlainTable | None:
    """What was made of the devices of one kind: a row a policy, a column a metric; ``None`` without such metrics."""
    names = dict.fromkeys(
        name for policy in policies for run in setting.runs[policy] for name in run.metrics if is_of(name, kind)
    )
    return metric_table(setting, tuple(names), policies)


def metric_table(setting: Setting, names: Sequence[str], policies: Sequence[str]) -> PlainTable | None:
    """A row a policy, a column a metric; metrics that no policy has are left out. ``None``: that is all of them."""
    heads: list[tuple[str, str]] = []
    columns: list[dict[str, tuple[str, Mark]]] = []
    found = {
        name: {policy: value for policy in policies if (value := setting.value(policy, name)) is not None}
        for name in names
    }
    known = {name: values for name, values in found.items() if values}
    described = columns_of({name: [value.mean for value in values.values()] for name, values in known.items()})
    for name, values in known.items():
        column = described[name]
        marked = setting.marks(name, column.better)
        heads.append((column.label + (f" ({column.unit})" if column.unit else ""), column.meaning))
        cells: dict[str, tuple[str, Mark]] = {}
        for policy in policies:
            value = values.get(policy)
            half = value.half if value is not None and value.count > 1 else None
            cells[policy] = (column.text(None if value is None else value.mean, half), marked.get(policy, ""))
        columns.append(cells)
    if not heads:
        return None
    return PlainTable(tuple(heads), tuple((policy, tuple(cells[policy] for cells in columns)) for policy in policies))
