"""Swept keys in words: ``workloads.scale_load`` is the load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_LAST = {
    "scale_load": "load",
    "load": "load",
    "ideal_load": "ideal load",
    "large_share": "share of large nodes",
    "lending": "lending groups",
    "jitter": "jitter of arrivals",
    "overestimate": "overestimate of run times",
    "mtbf": "mean time between failures",
    "mttr": "mean time to repair",
    "resample": "resampled jobs",
    "first": "first jobs",
    "core_tiles": "choice of cores",
}
"""The last part of a key, wherever it stands."""

_OF_NODES = {"count": "nodes", "cores": "cores of a node", "memory": "memory of a node"}
_OF_POOLS = {"compose": "devices a composition", "split": "parts of a device", "share": "jobs a composition"}
_DEVICES = {"nvme": "drives", "gpu": "GPUs", "fpga": "FPGAs", "ssd": "SSDs"}


def swept_labels(keys: Iterable[str], study: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Key → words for it, different ones for different keys; ``study``: as a table, for names of clusters and pools.

    Examples
    --------
    >>> swept_labels(["workloads.scale_load", "policies.interval", "clusters.nodes.0.count"])
    {'workloads.scale_load': 'load', 'policies.interval': 'interval', 'clusters.nodes.0.count': 'nodes'}
    """
    found = {key: _label(key.split("."), study or {}) for key in keys}
    words = list(found.values())
    return {key: label if words.count(label) == 1 else f"{label} ({_place(key)})" for key, label in found.items()}


def _place(key: str) -> str:
    return _readable(" ".join(key.split(".")[:-1]))


def _readable(text: str) -> str:
    return text.replace("_", " ")


def _label(parts: list[str], study: Mapping[str, Any]) -> str:
    own, entry = _entry(parts, study)
    last = parts[-1]
    inside = [part for part in parts[:-1] if not part.isdigit()]
    within = inside[-1] if inside else ""
    name = str(entry.get("name") or "") if isinstance(entry, Mapping) else ""
    if within == "nodes" and last in _OF_NODES:
        return _OF_NODES[last] + (f" of {name}" if name else "")
    if within == "pools":
        kind = str(entry.get("kind") or "") if isinstance(entry, Mapping) else ""
        noun = _DEVICES.get(kind, f"{kind} devices" if kind else "devices")
        words = noun if last == "count" else _OF_POOLS.get(last, _readable(last))
        pool = name or kind
        return f"{words} of the pool {pool}" if pool else words
    if within == "counted" and last == "amount":
        return name or "amount"
    if last.isdigit() and inside:
        return _readable(within)
    label = _LAST.get(last, _readable(last))
    return f"{label} of {own}" if own else label


def _entry(parts: list[str], study: Mapping[str, Any]) -> tuple[str, Any]:
    """The name of the cluster or workload that a key is about, if there are several; and the table of its last part."""
    place: Any = study
    own = ""
    for depth, part in enumerate(parts[:-1]):
        if isinstance(place, list):
            if part.isdigit():
                entry = place[int(part)] if int(part) < len(place) else {}
                if depth == 1 and len(place) > 1 and isinstance(entry, Mapping):
                    own = str(entry.get("name") or f"{parts[0].removesuffix('s')} {int(part) + 1}")
                place = entry
                continue
            place = place[0] if len(place) == 1 else {}
        if not isinstance(place, Mapping):
            return own, {}
        place = place.get(part, {})
    if isinstance(place, list) and len(place) == 1:
        place = place[0]
    return own, place
