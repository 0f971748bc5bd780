"""Metrics as columns for people: label, unit, definition, number format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from unrack.metric.metric import STATISTICS
from unrack.metric.table import KIND_METRICS, RESOURCE_METRICS, TIER_METRICS, entry_of
from unrack.units import time_unit

SHORT = (
    "missed_deadlines", "missed_deadlines_high", "slo_broken_local", "slo_broken_remote", "servers_rejected",
    "price_per_server_h", "wait_s_mean", "wait_s_p95", "response_s_mean",
    "bounded_slowdown_mean", "utility_mean", "used_gpus", "utilisation_cores", "queue_length_mean", "makespan_s",
    "jobs_finished",
)  # fmt: skip
"""The columns that a table shows until all are asked for."""

_UNITS = (("_jobs_per_h", "jobs/h"), ("_s", "s"), ("_mb", "MB"), ("_h", "h"))
_PERCENT = (
    "utilisation",
    "missed_deadlines",
    "bound_missed_deadlines",
    "used_",
    "asked_",
    "stranded_",
    "fragmentation_",
    "remote_share",
    "nodes_lending",
    "memory_only_nodes",
    "jobs_remote",
    "memory_used",
    "memory_held_unused",
    "memory_overcommit_max",
    "jobs_out_of_memory",
    "slo_broken_",
    "servers_rejected",
    "served",
)
_DEVICE_LABELS = {
    "used": "{} in use", "asked": "{} asked", "composition_size": "{} devices a composition",
    "sharing": "jobs a {} composition", "stranded": "{} stranded", "fragmentation": "{} fragmentation",
}  # fmt: skip
"""Stem of a metric of devices → its label, given kind and quantity."""

_USE_LABELS = {
    "memory_used": "memory used", "memory_held_unused": "held but not used", "memory_stops": "stops",
    "memory_overcommit_max": "asked at most, of all memory", "jobs_out_of_memory": "jobs stopped",
    "node_h_lost_memory": "lost to stops", "node_h_blocked": "stood still", "memory_moved_tb": "leases changed by",
}  # fmt: skip
"""Metric of memory in use → its label."""

_TIER_LABELS = {
    "used_memory_": "{} used", "stranded_memory_": "{} stranded", "stranded_memory": "stranded",
    "stranded_in_use": "stranded in clusters in use", "slo_broken_local": "too little local",
    "slo_broken_remote": "too remote", "price_per_server_h": "price of a server hour",
    "price_per_gb_h": "price of a GB hour",
}  # fmt: skip
"""Metric of tiers of memory, or the stem of those with a metric for every tier → its label, given the tier."""


@dataclass(frozen=True)
class Column:
    """A metric, ready to show."""

    name: str  # of the metric
    label: str  # words for a heading, without the unit
    unit: str  # of the numbers as :meth:`text` prints them; ``""``: none
    factor: float  # what a value is multiplied by to be in ``unit``
    better: str  # ``"low"``, ``"high"`` or ``""``
    meaning: str  # the definition, in a sentence or two

    def text(self, value: float | None, half: float | None = None) -> str:
        """The value in ``unit``, to about four digits, ± ``half`` if that is given; a dash for ``None``."""
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
    label = _USE_LABELS.get(name) or _tier_label(name) or _device_label(name)
    label = label or " ".join([*plain.split("_"), *([last] if base is stem else [])])
    if better:
        meaning += f". {'Lower' if better == 'low' else 'Higher'} is better"
    factor = 1.0
    if known is not None and unit in label.split() and known.name in (*TIER_METRICS, *KIND_METRICS):
        unit = ""
    is_share = known is not None and known.name in RESOURCE_METRICS and known.summary.startswith("share")
    if is_share or name.startswith(_PERCENT):
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
