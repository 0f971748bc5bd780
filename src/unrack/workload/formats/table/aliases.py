"""Other names for our columns: what the header of a CSV or Parquet table may call them, and the units it states."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from unrack.workload.formats.asks.columns import COLUMNS, TIME
from unrack.workload.formats.quantities import MEMORY_UNITS_MB, TIME_UNITS_US
from unrack.workload.formats.source import Locator

_TIME_WORDS = {
    "us": "us", "ms": "ms", "s": "s", "sec": "s", "seconds": "s", "min": "min", "minutes": "min", "h": "h",
    "hours": "h", "d": "d", "days": "d",
}  # fmt: skip
_TIME = {word: (unit, Fraction(TIME_UNITS_US[unit])) for word, unit in _TIME_WORDS.items()}
_SIZE = {
    word: (unit, MEMORY_UNITS_MB[unit])
    for unit in ("KB", "MB", "GB", "TB")
    for word in (unit.lower(), unit.lower().replace("b", "ib"))
}
_BANDWIDTH = {"kb_s": ("KB/s", Fraction(1, 1000)), "mb_s": ("MB/s", Fraction(1)), "gb_s": ("GB/s", Fraction(1000))}


class Alias(NamedTuple):
    """Other names for a column."""

    names: tuple[str, ...]  # in lower case with ``_`` between words; a header may add ``_`` and a key of ``units``
    # ending → the unit's name, and how many of the smallest unit kept (µs, MB, MB/s) it is
    units: Mapping[str, tuple[str, Fraction]]


def _alias(names: str, units: Mapping[str, tuple[str, Fraction]] | None = None) -> Alias:
    return Alias(tuple(names.split()), units or {})


ALIASES: dict[str, Alias] = {
    "id": _alias("job job_id"),
    "submit": _alias("arrival arrival_time submit_time submission submission_time submitted", _TIME),
    "start": _alias("start_time", _TIME),
    "end": _alias("end_time", _TIME),
    "run": _alias("time times base_time execution_time exec_time duration run_time runtime lifetime", _TIME),
    "request": _alias("request_time requested_time walltime", _TIME),
    "deadline": _alias("due due_time", _TIME),
    "tasks": _alias("num_tasks"),
    "cores": _alias("core cpu cpus cores_per_task num_cores cpu_cores"),
    "memory": _alias("mem ram", _SIZE),
    "local": _alias("local_sla local_slo slo_local local_floor local_memory local_asked", _SIZE),
    "ceiling": _alias("remote_sla remote_slo slo_remote remote_ceiling", _SIZE),
    "priority": _alias("prio high_priority"),
    "user": _alias("user_id"),
    "app": _alias("class type kind job_class job_type workload_type kind_of_job"),
    "nvme.bandwidth_mb_s": _alias("nvme_bandwidth nvme_bw bandwidth bw storage_bandwidth", _BANDWIDTH),
    "nvme.capacity_mb": _alias("nvme_capacity nvme_cap nvme_storage capacity storage storage_capacity", _SIZE),
    "gpu.devices": _alias("gpus num_gpus gpu_count gpus_per_task"),
    "gpu.bandwidth_mb_s": _alias("gpu_bandwidth gpu_bw", _BANDWIDTH),
    "gpu.memory_mb": _alias("gpu_memory gpu_mem vram", _SIZE),
    **{ours: _alias(one.names, _TIME if one.kind == TIME else {}) for ours, one in COLUMNS.items()},
}
"""Our name → its other names; our name itself counts, too, in other letters or with a unit."""


class AliasedColumn(NamedTuple):
    """A column that is known by another name."""

    column: str  # the file's name for it
    # unit, factor: the unit that the name states, and how many of the smallest unit kept it is; ``""`` and ``None``
    # if it states none
    unit: str
    factor: Fraction | None

    def __str__(self) -> str:
        return f"{self.column} (in {self.unit})" if self.unit else self.column


def find_aliases(header: Sequence[str], taken: Mapping[str, str], at: Locator) -> dict[str, AliasedColumn]:
    """Our name → the column that another name gives it away as; two columns for one of ours are refused.

    ``taken``: our name → the column, of those that need no other name; neither is looked for again. Where ``end`` is
    among them, ``run`` is not looked for.
    """
    columns = [(name, words_of(name)) for name in header if name not in set(taken.values())]
    found: dict[str, AliasedColumn] = {}
    for ours, alias in ALIASES.items():
        if ours in taken or (ours == "run" and "end" in taken):
            continue
        own = () if "." in ours or ours == "req_nodes" else (ours,)  # ReqNodes of sacct is a number
        for names in (own, alias.names):
            matches = [match for name, words in columns if (match := _match(name, words, names, alias.units))]
            if len(matches) > 1:
                got = " and ".join(repr(match.column) for match in matches)
                raise at.source.fault(None, f"column for {ours}", got, f"one of them: columns={{{ours!r}: …}}")
            if matches:
                found[ours] = matches[0]
                break
    return found


def _match(
    name: str, words: str, names: tuple[str, ...], units: Mapping[str, tuple[str, Fraction]]
) -> AliasedColumn | None:
    if words in names:
        return AliasedColumn(name, "", None)
    for ending, (unit, factor) in units.items():
        if words.endswith(f"_{ending}") and words.removesuffix(f"_{ending}") in names:
            return AliasedColumn(name, unit, factor)
    return None


def words_of(name: str, also: str = "") -> str:
    """A header in lower case with ``_`` between words: ``"Arrival-Time (s)"`` and ``"arrivalTime_s"`` are alike.

    ``also``: what counts as a letter, besides letters and digits.
    """
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(rf"[^a-z0-9{also}]+", "_", split.lower()).strip("_")
