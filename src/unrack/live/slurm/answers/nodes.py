"""Nodes, in the layouts of all versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from unrack.live.slurm.reading import SHARES, SlurmNode
from unrack.slurm_text.job_ids import node_words
from unrack.slurm_text.tres import gres, tres
from unrack.slurm_text.values import listed, number, table, text, words

_PARTS = re.compile(r"([0-9]{1,18})")


def nodes_of(answer: Any, set_aside_mb: Mapping[str, int] | None = None) -> tuple[list[SlurmNode], list[str]]:
    """The nodes of an answer, in order of name as Slurm has them (n2 before n10), and what could not be understood.

    Parameters
    ----------
    answer
        The table that has ``nodes``.
    set_aside_mb
        Node → memory that jobs may not have, for versions in which nodes do not say so themselves.

    Raises
    ------
    ValueError
        There are no nodes in it.
    """
    records = table(answer).get("nodes")
    if records is None:
        raise ValueError("an answer without nodes")
    nodes, unreadable = {}, []
    for place, record in enumerate(listed(records)):
        try:
            node = node_of(table(record), set_aside_mb or {})
        except ValueError as error:
            unreadable.append(f"node {_named(record, place)}: {error}")
        else:
            nodes[node.name] = node
    return [nodes[name] for name in sorted(nodes, key=_in_numbers)], unreadable


def node_of(record: Mapping[str, Any], set_aside_mb: Mapping[str, int]) -> SlurmNode:
    """A node.

    Raises
    ------
    ValueError
        It cannot be understood.
    """
    name = text(record.get("name"))
    if not name:
        raise ValueError("a node without a name")
    partitions = record.get("partitions")
    if isinstance(partitions, str):
        partitions = partitions.split(",")
    said = gres(text(record.get("gres")))
    features = record.get("active_features") or record.get("features") or ""
    features = text(features).split(",") if isinstance(features, str) else map(text, listed(features))
    memory_mb = number(record.get("real_memory"))
    aside_mb = number(record.get("specialized_memory")) or set_aside_mb.get(name, 0)
    state = [*words(record.get("state")), *words(record.get("state_flags"))]
    threads = max(number(record.get("threads"), 1), 1)
    cores = number(record.get("sockets")) * number(record.get("cores"))
    return SlurmNode(
        name=name,
        cores=number(record.get("effective_cpus")) or tres(text(record.get("tres"))).cpus or number(record.get("cpus")),
        memory_mb=max(memory_mb - aside_mb, 0),
        gres=said.gres,
        words=frozenset().union(*map(node_words, state)),
        partitions=frozenset(text(partition) for partition in listed(partitions) if partition),
        reason=text(record.get("reason")),
        features=tuple(dict.fromkeys(one.strip() for one in features if one.strip())),
        types=(
            *(f"{name}:{kind}" for name, kinds in said.types.items() for kind in kinds),
            *(share for share in SHARES if said.gres.get(share, 0)),
        ),
        together=threads if number(record.get("cpus")) == cores * threads else 1,
    )


def _in_numbers(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if place % 2 else (0, part) for place, part in enumerate(_PARTS.split(name))]


def _named(record: Any, place: int) -> str:
    name = record.get("name") if isinstance(record, Mapping) else None
    return repr(name)[:60] if isinstance(name, str) else f"number {place}"
