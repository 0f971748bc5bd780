"""What jobs hold, node by node, in the layouts of all versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from unrack.live.slurm.reading import NodeShare, SlurmNode
from unrack.slurm_text.hostlists import expand
from unrack.slurm_text.job_ids import members
from unrack.slurm_text.tres import tres
from unrack.slurm_text.values import listed, number, table, text

_INDEXED = re.compile(r"\b(gpu|shard|mps)(?::[^:(),]+)?:(\d{1,9})\(IDX:([\d,-]+)\)")


def held_nodes(record: Mapping[str, Any]) -> list[str]:
    """The nodes that a job has, those it has given back already left out.

    Raises
    ------
    ValueError
        The list cannot be understood.
    """
    names = text(record.get("nodes"))
    return expand(names) if names else []


def holds_of(record: Mapping[str, Any], nodes: Mapping[str, SlurmNode]) -> dict[str, NodeShare]:
    """What a job that runs holds; where Slurm does not say how much of which node, no less than it may be.

    Raises
    ------
    ValueError
        The nodes it runs on cannot be understood.
    """
    names = held_nodes(record)
    try:
        said = _in_cpus(_allocation(table(record.get("job_resources"))), record)
    except ValueError:
        said = {}
    if names and all(name in said for name in names):
        return {name: said[name] for name in names}
    return spread(record, names, nodes)


def gpus_of(record: Mapping[str, Any]) -> dict[str, dict[int, int]]:
    """Which GPUs a job holds, as of :attr:`unrack.live.slurm.reading.SlurmJob.gpus`.

    Of shares that lie on several GPUs Slurm does not say how many are on which.

    Examples
    --------
    >>> gpus_of({"nodes": "n[1-2]", "gres_detail": ["shard:3(IDX:1)", "gpu:a100:2(IDX:0,2),nvme:2(CNT:2)"]})
    {'n1': {1: 3}, 'n2': {0: 0, 2: 0}}
    """
    details = listed(record.get("gres_detail") or [])
    found: dict[str, dict[int, int]] = {}
    for name, said in zip(held_nodes(record) if details else (), details, strict=False):
        for kind, count, index in _INDEXED.findall(said if isinstance(said, str) else ""):
            numbers = members(index)
            if kind == "gpu" or len(numbers) == 1:
                found.setdefault(name, {}).update(dict.fromkeys(numbers, 0 if kind == "gpu" else int(count)))
    return found


def spread(record: Mapping[str, Any], names: list[str], nodes: Mapping[str, SlurmNode]) -> dict[str, NodeShare]:
    """What a job holds at most of each of its nodes, by what it holds in all; the whole node where that is not said."""
    try:
        total = tres(text(record.get("tres_alloc_str")))
    except ValueError:
        total = tres("")
    holds = {}
    for name in names:
        node = nodes.get(name)
        cores, memory_mb = (node.cores, node.memory_mb) if node else (0, 0)
        if total.cpus is not None:
            most = total.cpus - len(names) + 1  # uneven: one core at least on each of the others
            cores = min(most, cores) if node else most
        if total.mem_mb is not None:
            memory_mb = -(-total.mem_mb // len(names))
        holds[name] = NodeShare(max(cores, 0), memory_mb)
    return holds


def _in_cpus(said: dict[str, NodeShare], record: Mapping[str, Any]) -> dict[str, NodeShare]:
    """With cores of several threads: Slurm counts the threads of all that it gave, and lists cores."""
    cpus, cores = tres(text(record.get("tres_alloc_str"))).cpus or 0, sum(held.cores for held in said.values())
    if not cores or cpus <= cores or cpus % cores:
        return said
    return {name: NodeShare(held.cores * (cpus // cores), held.memory_mb) for name, held in said.items()}


def _allocation(resources: Mapping[str, Any]) -> dict[str, NodeShare]:
    nested = resources.get("nodes")
    rows = nested.get("allocation") if isinstance(nested, Mapping) else resources.get("allocated_nodes")
    if isinstance(rows, Mapping):  # 21.08 numbered them by key
        rows = list(rows.values())
    found = {}
    for row in map(table, listed(rows)):
        name = text(row.get("nodename") or row.get("name"))
        memory = row.get("memory_allocated")
        if memory is None:
            memory = table(row.get("memory")).get("allocated")
        counted = number(table(row.get("cpus")).get("count")) if isinstance(row.get("cpus"), Mapping) else 0
        cores = counted or sum(map(_allocated_cores, _members(row.get("sockets"))))
        if not name or not cores:
            raise ValueError("a row of an allocation without a name or cores")
        found[name] = NodeShare(cores, number(memory))
    return found


def _allocated_cores(socket: Any) -> int:
    return sum(_is_allocated(core) for core in _members(table(socket).get("cores")))


def _is_allocated(core: Any) -> bool:
    status = core.get("status") if isinstance(core, Mapping) else core
    words = status if isinstance(status, list) else [status]
    return any(isinstance(word, str) and word.upper().startswith("ALLOCATED") for word in words)


def _members(value: Any) -> list[Any]:
    """The members of a list, or of a table with numbers as keys."""
    return list(value.values()) if isinstance(value, Mapping) else listed(value)
