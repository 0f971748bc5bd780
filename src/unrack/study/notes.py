"""Nothing is ignored: a key that can never change anything in a study is refused, one that sometimes cannot is told."""

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
