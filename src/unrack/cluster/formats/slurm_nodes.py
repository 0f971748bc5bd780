"""Nodes as ``scontrol show node`` tells of them, in blocks, on lines (``-o``) or as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from unrack.cluster.formats.described import Described, DescribedNode, parsed
from unrack.errors import ClusterError
from unrack.slurm_text.records import Record, records
from unrack.slurm_text.states import UNUSABLE, node_words
from unrack.slurm_text.tres import Tres, gres, tres

GIVEAWAY = re.compile(r"\s*NodeName=\S+ .*?\bCPU(Alloc|Tot|Efctv)=", re.DOTALL)
"""What the first record looks like."""
_MOST = 2**31 - 1


def shown_nodes(text: str, where: str, name: str) -> Described:
    """Read what ``scontrol show node`` printed.

    Raises
    ------
    ClusterError
        A record lacks a key, or has a value that cannot be.
    """
    return Described(where, name, tuple(_shown(record, where) for record in records(text, "NodeName")))


def _shown(record: Record, where: str) -> DescribedNode:
    at, fields = f"{where}, line {record.line}", record.fields

    def number(*keys: str) -> int:
        key = next((key for key in keys if key in fields), keys[-1])
        return _whole(fields.get(key), f"{at}, {key}")

    said = parsed(fields.get("Gres", ""), f"{at}, Gres", gres)
    if not said.gres:
        said = parsed(fields.get("CfgTRES", ""), f"{at}, CfgTRES", tres)
    memory = number("RealMemory")
    if "MemSpecLimit" in fields:
        memory = max(memory - number("MemSpecLimit"), 0)
    return _node(
        fields["NodeName"], number("CPUEfctv", "CPUTot"), memory, said, fields.get("Partitions", ""),
        node_words(fields.get("State", "")),
    )  # fmt: skip


def json_nodes(content: Mapping[str, Any], where: str, name: str) -> Described:
    """Read what ``scontrol show node --json`` printed (in older versions of Slurm also ``sinfo --json``).

    Raises
    ------
    ClusterError
        It has no list ``nodes``, or a node lacks a key or has a value that cannot be.
    """
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or not nodes:
        raise ClusterError(f"{where}, nodes", "no list of nodes", "the output of scontrol show node --json")
    return Described(where, name, tuple(_of_json(node, f"{where}, nodes.{place}") for place, node in enumerate(nodes)))


def _of_json(node: Any, at: str) -> DescribedNode:
    if not isinstance(node, dict) or not isinstance(node.get("name"), str) or not node["name"]:
        raise ClusterError(at, repr(node)[:80], "a node with a name")
    memory = _whole(node.get("real_memory"), f"{at}.real_memory") - _whole(
        node.get("specialized_memory", 0), f"{at}.specialized_memory"
    )
    said = parsed(str(node.get("gres") or ""), f"{at}.gres", gres)
    state = node.get("state")
    words = [state] if isinstance(state, str) else state if isinstance(state, list) else []
    flags = node.get("state_flags")
    words += flags if isinstance(flags, list) else []
    partitions = node.get("partitions")
    listed = ",".join(map(str, partitions)) if isinstance(partitions, list) else ""
    cpus = _whole(node.get("effective_cpus") or node.get("cpus"), f"{at}.cpus")
    return _node(node["name"], cpus, max(memory, 0), said, listed, node_words("+".join(map(str, words))))


def _node(name: str, cpus: int, memory: int, said: Tres, partitions: str, words: frozenset[str]) -> DescribedNode:
    return DescribedNode(
        name,
        cpus,
        memory or None,
        said.gres.get("gpu", 0),
        "+".join(said.types.get("gpu", ())),
        frozenset(part for part in partitions.split(",") if part and part != "(null)"),
        "",
        ", ".join(sorted(words & UNUSABLE)).lower(),
        {kind: count for kind, count in said.gres.items() if kind != "gpu" and count},
    )


def _whole(value: object, at: str) -> int:
    if isinstance(value, dict):  # {"set": true, "infinite": false, "number": 8}
        value = value.get("number")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise ClusterError(at, "nothing" if value is None else repr(value)[:80], f"a whole number from 0 to {_MOST}")
    return value
