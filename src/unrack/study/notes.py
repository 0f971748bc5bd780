"""Nothing is ignored: a key that can never change anything in a study is refused, one that sometimes cannot is told.

Notes have swept keys in words: ``workloads.scale_load`` is the load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unrack.errors import StudyError
from unrack.facts import some
from unrack.sim.effect import WORDS, Effect
from unrack.study.input.inputs import Document, Location
from unrack.workload.formats.rules import intake_notes
from unrack.workload.site.graph import graph_of
from unrack.workload.site.settled import refuse_odd

if TYPE_CHECKING:
    from unrack.study.grid import Run


IN_CLUSTERS = {"lending": ("lending", "memory_pools"), "racks": ("racks_per_group",)}
"""Effect → the keys of a ``[[clusters]]`` table that ask for it."""
IN_JOBS = {
    "slo": ("local_share", "alpha", "replicas", "servers"),
    "memory": ("memory_mb", "memory"),
    "priority": ("priority", "urgent"),
}
"""Effect → the keys of a generator that ask for it, at any depth."""
MOST_POLICIES = 6


def refuse_idle(document: Document, runs: Sequence[Run]) -> None:
    """Refuse the first key of a study that changes nothing in any of its runs: a StudyError says why.

    What stands in another file (a trace, a cluster file) or in a preset is not refused: runs tell it.
    """
    asked: dict[tuple[str, Location], list[Effect]] = {}
    for run in runs:
        for effect in run.effects:
            location = _location(effect, run, document)
            if location is not None:
                asked.setdefault((effect.key, location), []).append(effect)
    for (key, location), found in asked.items():
        if all(effect.why_not and not effect.counted for effect in found):
            what = WORDS[key].format(of=found[0].of)
            raise _refusal(document, what, location, [effect.why_not for effect in found])
    if document.table.get("models") and not any(run.world.models for run in runs) and "sweep" not in document.table:
        raise _refusal(document, "models", ("models",), ["every policy has world = 'base'"])


def refuse_odd_jobs(document: Document, runs: Sequence[Run]) -> None:
    """Refuse jobs that no cluster could take at their word: a StudyError names the first, and what it says."""
    for run in {(id(run.cluster), id(run.workload)): run for run in runs}.values():
        with document.part("workloads", run.place[1]):
            graph_of(run.workload.jobs)
            refuse_odd(run.cluster, run.workload.jobs)


def _refusal(document: Document, what: str, location: Location, reasons: Iterable[str]) -> StudyError:
    why = "; ".join(list(dict.fromkeys(reasons))[:3])
    return document.fault(location, f"{what}, without effect in any run: {why}", "a study in which it counts")


def _location(effect: Effect, run: Run, document: Document) -> Location | None:
    """The key of the study that asks for it; ``None``: none does, it comes from elsewhere."""
    cluster, workload, policy = run.place
    table = document.table
    if {"clusters", "workloads", "policies"} & set(table.get("sweep", ())):
        return None  # what stands where differs from run to run
    if effect.key == "models":
        names = [one if isinstance(one, str) else one.get("model") for one in table.get("models", ())]
        return ("models", names.index(effect.of)) if effect.of in names else ("models",)
    if effect.key in ("contention", "slowdowns", "seeds"):
        return (effect.key,)
    if effect.key == "governs":
        return ("models",)
    if effect.key == "distance":
        return ("contention", "distance", effect.of)
    if effect.key in ("world", "near"):
        return ("policies", policy) if policy < len(table["policies"]) else ("--policy",)
    if effect.key in IN_CLUSTERS:
        own = table["clusters"][cluster]
        return next((("clusters", cluster, key) for key in IN_CLUSTERS[effect.key] if key in own), None)
    if effect.key == "resources":
        own, resource = table["clusters"][cluster], effect.of.split()[0]
        return ("clusters", cluster, resource) if resource in own else None
    if effect.key in IN_JOBS:
        generate = table["workloads"][workload].get("generate")
        inside = _path(generate, IN_JOBS[effect.key]) if isinstance(generate, Mapping) else None
        return None if inside is None else ("workloads", workload, "generate", *inside)
    return None


def _path(value: Any, keys: Sequence[str]) -> Location | None:
    """Where below a value one of the keys is."""
    parts: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        if found := next((key for key in keys if key in value), None):
            return (found,)
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in parts:
        if (inside := _path(part, keys)) is not None:
            return (key, *inside)
    return None


def told_of(records: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """What (policy, record) of finished runs have to tell: first of their workloads, then of the policies."""
    kept = list(records)
    workloads = [(record.get("workload", {}), site_of(record)) for _, record in kept]
    read = [
        note for one, site in workloads for note in intake_notes(one.get("name", ""), one.get("intake") or {}, site)
    ]
    return [*dict.fromkeys(read), *told((policy, str(words)) for policy, one in kept for words in one.get("notes", ()))]


def site_of(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The table ``site`` of the cluster of a run, from its record; ``None``: it has none."""
    return (record.get("cluster", {}).get("resources") or {}).get("site")


def told(notes: Iterable[tuple[str, str]]) -> list[str]:
    """What runs have to tell, (policy, note), each note once, with the policies that it is about.

    Examples
    --------
    >>> told([("easy", "no effect of x: y"), ("fcfs", "no effect of x: y")])
    ['no effect of x: y (easy, fcfs)']
    """
    said_of: dict[str, dict[str, None]] = {}
    for policy, words in notes:
        said_of.setdefault(words, {})[policy] = None
    return [f"{words} ({some(list(policies), MOST_POLICIES)})" for words, policies in said_of.items()]


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
