"""The comparison table: a row a policy, a column a metric, the best of each column marked if it is certain."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from unrack.metric.comparison import Mark
from unrack.metric.table import FAILURE_METRICS, TIER_METRICS, USE_METRICS, entry_of
from unrack.report.column import SHORT, Column, columns_of, number_text
from unrack.report.directory import RunFiles
from unrack.report.setting import Setting

MOST_ROWS_IN_FULL = 400
"""Above so many rows a table shows its short columns only; ``summary.csv`` has them all."""

GROUPS = (
    "Deadlines",
    "Tiers of memory",
    "Times of jobs",
    "Cores and memory",
    "Memory in use",
    "Failures",
    "Jobs",
    "Other",
)
"""Groups of columns, in order; those of devices come before the last three."""

_OF = {
    "Tiers of memory": TIER_METRICS,
    "Memory in use": USE_METRICS,
    "Failures": FAILURE_METRICS,
}
"""Groups that have a table of metrics of their own."""

_STEMS = {
    "Times of jobs": ("wait_", "response_", "slowdown_", "bounded_slowdown_", "stretch_"),
    "Cores and memory": ("utilisation", "remote_share", "nodes_lending", "memory_only_nodes", "jobs_remote"),
    "Jobs": ("jobs_", "served", "queue_", "throughput_", "makespan_", "restarts"),
}


@dataclass(frozen=True)
class Cell:
    """One number of the table."""

    text: str  # the mean over the seeds, with ± half its 95 % interval where there are several
    sort: str  # what sorts the column: the mean, ``""`` where there is none
    mark: Mark  # ``"best"`` of its setting, ``"among"`` those not told apart from the best, or ``""``


@dataclass(frozen=True)
class Row:
    """One policy in one setting."""

    # policy, full: its name, and with all parameters
    policy: str
    full: str
    seeds: int  # how many
    cells: tuple[Cell, ...]  # one a column
    less: str  # ``"50 %"``: the share of core-time that it served, where others of its world served more; ``""``
    world: str  # its world, where the setting has several; ``""``


@dataclass(frozen=True)
class Comparison:
    """The whole table."""

    columns: tuple[Column, ...]  # shared by all settings
    short: tuple[bool, ...]  # column → it is shown at first
    # heads, short_heads: (group, how many columns it has): of all columns, and of those shown at first
    heads: tuple[tuple[str, int], ...]
    short_heads: tuple[tuple[str, int], ...]
    groups: tuple[tuple[str, tuple[Row, ...]], ...]  # (title of the setting, its rows)
    left_out: int  # how many metrics are not in the table, because it is too long


def comparison(settings: Sequence[Setting]) -> Comparison:
    """Build the table of every setting of a study."""
    runs = [run for setting in settings for own in setting.runs.values() for run in own]
    names = list(dict.fromkeys(name for run in runs for name in run.metrics))
    kinds = tuple(dict.fromkeys(kind for run in runs for kind in kinds_in(run)))
    lost = any((run.metrics.get("jobs_rejected") or 0) > 0 for run in runs)
    short_of = any((share := run.metrics.get("served")) is not None and share < 1 for run in runs)
    extra = [f"used_{kind}" for kind in kinds]
    extra += [name for name, there in (("served", short_of), ("jobs_rejected", lost)) if there]
    known = {name for run in runs for name, value in run.metrics.items() if value is not None}
    short = [name for name in (*SHORT, *extra) if name in names and (name in known or "deadlines" not in name)]
    names = [*short, *(name for name in names if name not in short)]
    groups_of = {name: group_of(name, kinds) for name in names}
    order = list(dict.fromkeys((*GROUPS[:5], *(f"{kind} devices" for kind in kinds), *GROUPS[5:])))
    names.sort(key=lambda name: order.index(groups_of[name]))
    short = [name for name in names if name in short]
    kept = names if sum(len(setting.runs) for setting in settings) <= MOST_ROWS_IN_FULL else short or names[:8]
    columns = list(columns_of({name: [run.metrics.get(name) for run in runs] for name in kept}).values())
    groups = tuple((setting.title, _rows(setting, columns)) for setting in settings)
    shown = tuple(column.name in short or not short for column in columns)
    heads = Counter(groups_of[name] for name in kept)
    short_heads = Counter(groups_of[name] for name, own in zip(kept, shown, strict=True) if own)
    return Comparison(
        tuple(columns), shown, tuple(heads.items()), tuple(short_heads.items()), groups, len(names) - len(kept)
    )


def kinds_in(run: RunFiles) -> tuple[str, ...]:
    """Kinds of devices of a run's cluster."""
    devices = run.record["cluster"].get("devices")
    return tuple(map(str, devices.get("kinds") or ())) if isinstance(devices, dict) else ()


def group_of(name: str, kinds: Sequence[str]) -> str:
    """The group of columns that a metric stands in: one of ``GROUPS``, or the devices of one of the kinds.

    Examples
    --------
    >>> group_of("wait_s_mean", ()), group_of("used_nvme", ["nvme"]), group_of("anything", ["nvme"])
    ('Times of jobs', 'nvme devices', 'Other')
    """
    if "deadline" in name:
        return "Deadlines"
    of = next((kind for kind in kinds if is_of(name, kind)), None)
    if of is not None:
        return f"{of} devices"
    entry = entry_of(name)
    own = next((group for group, table in _OF.items() if entry is not None and entry.name in table), None)
    return own or next((group for group, stems in _STEMS.items() if name.startswith(stems)), "Other")


def is_of(name: str, kind: str) -> bool:
    """Whether a metric is about devices of that kind.

    Examples
    --------
    >>> is_of("used_nvme", "nvme"), is_of("asked_nvme_bandwidth_mb_s", "nvme"), is_of("used_nvme2", "nvme")
    (True, True, False)
    """
    return f"_{kind}_" in f"{name}_" and not name.startswith(f"{kind}_")


def share_text(share: float) -> str:
    """A share served, in percent, never rounded up to all of it.

    Examples
    --------
    >>> share_text(0.5), share_text(0.99996), share_text(1.0)
    ('50 %', '99.99 %', '100 %')
    """
    return f"{number_text(math.floor(share * 10_000) / 100 if share < 1 else 100.0)} %"


def _rows(setting: Setting, columns: Sequence[Column]) -> tuple[Row, ...]:
    cells: dict[str, list[Cell]] = {policy: [] for policy in setting.runs}
    for column in columns:
        values = setting.values(column.name)
        marked = setting.marks(column.name, column.better)
        for policy, own in cells.items():
            value = values.get(policy)
            if value is None:
                own.append(Cell("–", "", ""))
                continue
            text = column.text(value.mean, value.half if value.count > 1 else None)
            own.append(Cell(text, repr(value.mean), marked.get(policy, "")))
    less = {policy: share_text(share) for policy, share in setting.served_less.items()}
    worlds = {policy: row.world if len(setting.worlds) > 1 else "" for policy, row in setting.rows.items()}
    return tuple(
        Row(policy, own[0].policy, len(own), tuple(cells[policy]), less.get(policy, ""), worlds[policy])
        for policy, own in setting.runs.items()
    )
