"""The comparison table: a row a policy, a column a metric with its label, unit and definition, the best ones marked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unrack.metric.estimate import Mark
from unrack.metric.holdings import STATISTICS
from unrack.metric.kinds.jobs import FAILURE_METRICS, POWER_METRICS, PREEMPTION_METRICS, SIZE_METRICS
from unrack.metric.kinds.memory import TIER_METRICS, USE_METRICS
from unrack.metric.table import KIND_METRICS, entry_of
from unrack.report.setting import RunFiles, Setting
from unrack.units import time_unit

SHORT = (
    "missed_deadlines", "missed_deadlines_high", "slo_broken_local", "slo_broken_remote", "servers_rejected",
    "price_per_server_h", "wait_s_mean", "wait_s_p95", "response_s_mean",
    "bounded_slowdown_mean", "utility_mean", "used_gpus", "utilisation_cores", "utilisation_memory", "energy_kwh",
    "queue_length_mean", "makespan_s", "jobs_finished",
)  # fmt: skip
"""The columns that a table shows until all are asked for."""

OF_SOME = ("missed_deadlines", "missed_deadlines_high", "utilisation_memory")
"""Those that stand there only where they are known: all runs have them."""

_UNITS = (("_jobs_per_h", "jobs/h"), ("_s", "s"), ("_mb", "MB"), ("_h", "h"), ("_kwh", "kWh"), ("_kw", "kW"))
_DEVICE_LABELS = {
    "used": "{} in use", "asked": "{} asked", "composition_size": "{} devices a composition",
    "sharing": "jobs a {} composition", "stranded": "{} stranded", "fragmentation": "{} fragmentation",
}  # fmt: skip
"""Stem of a metric of devices → its label, given kind and quantity."""

_LABELS = {
    "bound_missed_deadlines": "bound", "bounded_slowdown_mean": "bounded slowdown",
    "core_distance_over_least": "core hops ÷ least", "core_pairs_apart": "pairs apart",
    "clusters_used_mean": "clusters in use", "price_over_bound": "price ÷ bound",
    "utility_mean": "GPU utility", "used_gpus": "GPUs in use", "utilisation_cores": "cores in use",
    "utilisation_memory": "memory in use", "jobs_finished": "finished", "jobs_rejected": "rejected",
    "memory_used": "memory used", "memory_held_unused": "held but not used", "memory_stops": "stops",
    "memory_overcommit_max": "asked at most, of all memory", "jobs_out_of_memory": "jobs stopped",
    "node_h_lost_memory": "lost to stops", "node_h_blocked": "stood still", "memory_moved_tb": "leases changed by",
}  # fmt: skip
"""Metric → its label, in the report and in the terminal, where its name is none."""

_TIER_LABELS = {
    "used_memory_": "{} used", "stranded_memory_": "{} stranded", "stranded_memory": "stranded",
    "stranded_in_use": "stranded in clusters in use", "slo_broken_local": "too little local",
    "slo_broken_remote": "too remote", "price_per_server_h": "price of a server hour",
    "price_per_gb_h": "price of a GB hour",
}  # fmt: skip
"""Metric of tiers of memory, or the stem of those with a metric for every tier → its label, given the tier."""
MOST_ROWS_IN_FULL = 400
"""Above so many rows a table shows its short columns only; ``summary.csv`` has them all."""


@dataclass(frozen=True)
class Column:
    """A metric, ready to show."""

    name: str  # of the metric
    label: str  # words for a heading, without the unit
    unit: str  # of the numbers as :meth:`text` prints them; ``""``: none
    factor: float  # what a value is multiplied by to be in ``unit``
    better: str  # ``"low"``, ``"high"`` or ``""``
    meaning: str  # the definition, in a sentence or two

    @property
    def heading(self) -> str:
        """The label, with the unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def text(self, value: float | None, half: float | None = None) -> str:
        """The value in ``unit``, to about four digits, ± ``half`` if that is given; a dash for ``None``."""
        if value is not None and self.name == "served" and value < 1:
            value = min(value, 0.9999)  # never rounded up to all
        text = number_text(None if value is None else value * self.factor)
        return text if value is None or half is None else f"{text} ± {number_text(half * self.factor)}"


def number_text(value: float | None) -> str:
    """A number to about four digits, with commas between thousands.

    Examples
    --------
    >>> number_text(1234567.8), number_text(12.3456), number_text(3.0), number_text(None)
    ('1,234,568', '12.35', '3', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) < 1e-12:  # what rounding leaves of 0
        return "0"
    if value == round(value) or abs(value) >= 1000:
        return f"{round(value):,}"
    return f"{value:.4g}"


def columns_of(values: Mapping[str, Iterable[float | None]]) -> dict[str, Column]:
    """Describe the metrics of one table, each with its values: a quantity has one unit in all of its columns.

    Waits and responses are one quantity, the times of jobs. The unit fits the columns of ``SHORT``, if there are any.
    """
    of_quantity: dict[str, list[float | None]] = {}
    shown = {_quantity(name) for name in values if name in SHORT}
    for name, own in values.items():
        if name in SHORT or _quantity(name) not in shown:
            of_quantity.setdefault(_quantity(name), []).extend(own)
    return {name: column_of(name, of_quantity[_quantity(name)]) for name in values}


def _quantity(name: str) -> str:
    stem, _, last = name.rpartition("_")
    stem = stem if last in STATISTICS else name
    return "times of jobs" if stem in ("wait_s", "response_s") else stem


def column_of(name: str, values: Iterable[float | None]) -> Column:
    """Describe a metric for a table that holds these values.

    Seconds become minutes, hours or days as the values ask (:func:`unrack.units.time_unit`); fractions become
    percentages.
    """
    stem, _, last = name.rpartition("_")
    base = stem if last in STATISTICS else name
    plain = base
    for ending, _ in _UNITS:
        plain = plain.removesuffix(ending)
    known = entry_of(name)
    if known is None:
        unit, better = next((unit for ending, unit in _UNITS if base.endswith(ending)), ""), ""
        meaning = " ".join([*plain.split("_"), *([STATISTICS[last][0]] if base is stem else [])])
    else:
        unit, better = known.unit, known.better
        meaning = ". ".join(part.rstrip(".") for part in (known.summary, known.formula) if part)
    label = _LABELS.get(name) or _tier_label(name) or _device_label(name)
    label = label or " ".join([*([last] if base is stem else []), *plain.split("_")])
    if better:
        meaning += f". {'Lower' if better == 'low' else 'Higher'} is better"
    factor = 1.0
    if known is not None and unit in label.split() and known.name in (*TIER_METRICS, *KIND_METRICS):
        unit = ""
    if known is not None and known.is_share:
        unit, factor = "%", 100.0
    elif unit == "s":
        unit, seconds = time_unit(value for value in values if value is not None)
        factor = 1 / seconds
    return Column(name, label, "" if unit in ("1", "-") else unit, factor, better, f"{name}: {meaning}.")


def _device_label(name: str) -> str:
    """``"nvme bandwidth asked"`` of ``"asked_nvme_bandwidth_mb_s"``; ``""`` where the name is of no such form."""
    for stem, label in _DEVICE_LABELS.items():
        if name.startswith(f"{stem}_"):
            rest = name.removeprefix(f"{stem}_").removesuffix("_mb_s").removesuffix("_mb")
            return label.format(rest.replace("_", " "))
    return ""


def _tier_label(name: str) -> str:
    """``"rack memory in use"`` of ``"used_memory_rack"``; ``""`` where the name is of no such form."""
    stem = next((stem for stem in (name, "used_memory_", "stranded_memory_") if stem in _TIER_LABELS
                 and name.startswith(stem)), None)  # fmt: skip
    return "" if stem is None else _TIER_LABELS[stem].format(name.removeprefix(stem))


GROUPS = (
    "Deadlines",
    "Tiers of memory",
    "Times of jobs",
    "Cores and memory",
    "Memory in use",
    "Power",
    "Failures",
    "Preemption",
    "Sizes of jobs",
    "Jobs",
    "Other",
)
"""Groups of columns, in order; those of devices come before the last three."""

_OF = {
    "Tiers of memory": TIER_METRICS,
    "Memory in use": USE_METRICS,
    "Power": POWER_METRICS,
    "Failures": FAILURE_METRICS,
    "Preemption": PREEMPTION_METRICS,
    "Sizes of jobs": SIZE_METRICS,
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
class ReportRow:
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
    groups: tuple[tuple[str, tuple[ReportRow, ...]], ...]  # (title of the setting, its rows)
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
    short = [name for name in (*SHORT, *extra) if name in names and (name in known or name not in OF_SOME)]
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


def cells_of(setting: Setting, columns: Sequence[Column], policies: Iterable[str]) -> dict[str, list[Cell]]:
    """Policy → a cell for every column."""
    cells: dict[str, list[Cell]] = {policy: [] for policy in policies}
    for column in columns:
        marked = setting.marks(column.name, column.better)
        for policy, own in cells.items():
            value = setting.value(policy, column.name)
            if value is None:
                own.append(Cell("–", "", ""))
                continue
            text = column.text(value.mean, value.half if value.count > 1 else None)
            own.append(Cell(text, repr(value.mean), marked.get(policy, "")))
    return cells


def _rows(setting: Setting, columns: Sequence[Column]) -> tuple[ReportRow, ...]:
    cells = cells_of(setting, columns, setting.runs)
    less = {policy: share_text(share) for policy, share in setting.served_less.items()}
    worlds = {policy: row.world if len(setting.worlds) > 1 else "" for policy, row in setting.rows.items()}
    return tuple(
        ReportRow(policy, own[0].policy, len(own), tuple(cells[policy]), less.get(policy, ""), worlds[policy])
        for policy, own in setting.runs.items()
    )
