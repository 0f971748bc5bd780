"""Sweeps: one study table becomes several, with a dotted key set to each of its values."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from unrack.cluster.node_names import recount
from unrack.errors import ClusterError, PolicyError
from unrack.policy.table import POLICIES, split_policy
from unrack.study.input.inputs import Document, written_out
from unrack.study.world import RunTimes, split_world

BESIDE = ("preset", "file", "name", "prices")
"""Keys that may stand beside a preset or a file of a cluster."""


def combinations(table: Mapping[str, Any], document: Document) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every combination of swept values, first key slowest: (the values by key, the table with them set).

    A part of a key that meets a list and is no number applies to every entry: ``workloads.scale_load`` sets it in all
    workloads, ``policies.interval`` in all policies that have the parameter. A key that leads nowhere is a StudyError.
    """
    swept: Mapping[str, list[Any]] = table.get("sweep", {})
    bare = {key: value for key, value in table.items() if key != "sweep"}
    for values in itertools.product(*swept.values()):
        chosen = dict(zip(swept, values, strict=True))
        changed = copy.deepcopy(bare)
        for key, value in chosen.items():
            if not set_value(changed, key, value, document):
                raise document.fault(("sweep", key), "a key that leads nowhere", "a key of this study, or of its parts")
        yield chosen, changed


def set_value(table: dict[str, Any], key: str, value: object, document: Document) -> bool:
    """Set a dotted key of a study's table; False if it leads nowhere.

    A key within a cluster that is a preset or a file (a StudyError if there is none) writes that cluster out first.
    Where nodes have names, another number of them takes or makes names (:func:`unrack.cluster.node_names.recount`).
    """
    parts = key.split(".")
    clusters = table["clusters"] if isinstance(table.get("clusters"), list) else []
    if parts[0] == "clusters" and len(parts) > 1:
        numbered = parts[1].isdecimal()
        inner = parts[2:] if numbered else parts[1:]
        for index, entry in enumerate(clusters):
            named = isinstance(entry, Mapping) and ("preset" in entry or "file" in entry)
            if named and (not numbered or index == int(parts[1])) and inner and inner[0] not in BESIDE:
                with document.part("clusters", index, kind=ClusterError):
                    clusters[index] = copy.deepcopy(written_out(entry, document, index))
    counts = _counts(clusters)
    found = put(table, parts, value)
    after = _counts(clusters)
    for place, before in counts.items():
        if after.get(place, before) != before:
            recount(clusters[place[0]], place[1], before)
    return found


def _counts(clusters: list[Any]) -> dict[tuple[int, int], Any]:
    """(cluster, class of nodes) → how many nodes, of clusters that are written out."""
    return {
        (number, index): kind["count"]
        for number, table in enumerate(clusters)
        if isinstance(table, dict) and isinstance(table.get("nodes"), list)
        for index, kind in enumerate(table["nodes"])
        if isinstance(kind, dict) and "count" in kind
    }


def put(place: Any, parts: list[str], value: object) -> bool:
    """Set a dotted key below ``place``; False if it leads nowhere."""
    if isinstance(place, list):
        if parts[0].isdecimal():
            index = int(parts[0])
            if index >= len(place) or len(parts) == 1:
                return False
            return put(place[index], parts[1:], value)
        found = [put(entry, parts, value) for entry in place]
        return any(found)
    if not isinstance(place, dict):
        return False
    if len(parts) == 1:
        place[parts[0]] = value
        return True
    if parts[0] == "policies" and isinstance(place.get("policies"), list):
        return put_in_policies(place["policies"], parts[1:], value)
    if parts[0] not in place:
        place[parts[0]] = {}
    return put(place[parts[0]], parts[1:], value)


def _table(text: str) -> dict[str, Any]:
    bare, world = split_world(text)
    said = {} if world == RunTimes.STUDY else {"world": str(world)}
    if bare.rpartition(":")[0].endswith(".py"):
        return {"file": bare, **said}
    name, parameters = split_policy(bare)
    return {**parameters, "name": name, **said}


def put_in_policies(policies: list[Any], parts: list[str], value: object) -> bool:
    """Set a parameter in the policies that have it (or in one, by number); False if none has."""
    chosen = range(len(policies))
    if parts[0].isdecimal() and int(parts[0]) < len(policies):
        chosen = range(int(parts[0]), int(parts[0]) + 1)
        parts = parts[1:]
    if len(parts) != 1:
        return False
    found = False
    for i in chosen:
        entry = policies[i]
        try:
            table = _table(entry) if isinstance(entry, str) else dict(entry)
        except PolicyError:
            continue  # said in full when the policies are made
        name = table.get("name")
        if parts[0] == "world" or (
            isinstance(name, str) and name in POLICIES and parts[0] in POLICIES[name].parameters
        ):
            policies[i] = {**table, parts[0]: value}
            found = True
    return found
