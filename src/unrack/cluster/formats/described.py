"""Nodes as another system describes them, and the keys of a cluster file that they become."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

from unrack.cluster.formats.site import ALL, SaidSite, lose, once, site_table
from unrack.errors import ClusterError
from unrack.slurm_text.hostlists import compress

if TYPE_CHECKING:
    from unrack.cluster.formats.kubernetes.queues import QueueObjects


@dataclass(frozen=True)
class DescribedNode:
    """One node."""

    name: str  # what the system calls it
    cores: int  # that jobs may have: what the system counts, threads where it counts these
    memory_mb: int | None  # ``None`` = not said
    # gpus, model: whole GPUs, and their model (``""``: not said)
    gpus: int = 0
    model: str = ""
    partitions: frozenset[str] = frozenset()  # that it is in
    rack: str = ""  # ``""`` = not said
    down: str = ""  # why nothing is started on it; ``""``: it is in use
    others: Mapping[str, int] = field(default_factory=dict)  # other devices → how many, which are left out
    features: tuple[str, ...] = ()  # that it has
    labels: Mapping[str, Any] = field(default_factory=dict)  # that it has


@dataclass(frozen=True)
class Described:
    """A system."""

    where: str  # the file, for errors
    name: str  # of the cluster
    nodes: tuple[DescribedNode, ...]  # in its order
    licences: Mapping[str, int] = field(default_factory=dict)  # name → how many
    notes: tuple[str, ...] = ()  # what the cluster file does not have of it, a sentence each
    site: SaidSite | None = None  # what it says of partitions, accounts and limits; ``None``: there are no such
    queues: QueueObjects | None = None  # of Kubernetes, which become part of the site with those of other files
    in_order: bool = False  # whether the cluster file is to have the nodes in this order

    def __post_init__(self) -> None:
        seen = set[str]()
        for node in self.nodes:
            seen.add(once(node.name, seen, f"{self.where}, nodes"))


@dataclass(frozen=True)
class Converted:
    """A cluster file in the making."""

    content: dict[str, Any]  # its keys
    notes: tuple[str, ...]  # what was left out or changed, a sentence each


def together(systems: Sequence[Described]) -> Described:
    """One system of which each of these says a part; of what several say, the last counts.

    A ClusterError if none of them has nodes.
    """
    main = next((one for one in systems if one.nodes), None)
    if main is None:
        want = "a file that has them beside it, such as slurm.conf or the output of scontrol show node"
        raise ClusterError(", ".join(one.where for one in systems), "no nodes", want)
    nodes = {node.name: node for one in systems for node in one.nodes}
    licences = {name: amount for one in systems for name, amount in one.licences.items()}
    notes = tuple(dict.fromkeys(note for one in systems for note in one.notes))
    said = [one.site for one in systems if one.site is not None]
    if queues := [one.queues for one in systems if one.queues is not None]:
        said.append(reduce(lambda before, later: before.then(later), queues).site())
    if not said:
        return replace(main, nodes=tuple(nodes.values()), licences=licences, notes=notes)
    site = SaidSite()
    for one in said:
        site = site.then(one)
    members = {
        name: {node.name for node in nodes.values() if labels.items() <= node.labels.items()}
        for name, labels in site.flavours.items()
    }
    members |= {name: set(nodes if ALL in listed else listed) for name, listed in site.members.items()}
    for name, inside in members.items():
        if unknown := sorted(inside - set(nodes)):
            lose(site.lost_of_partitions, "Nodes of partitions that no file describes", name, compress(unknown))
    placed = tuple(
        replace(
            node,
            partitions=frozenset(
                {name for name in node.partitions if name not in members}
                | {name for name, inside in members.items() if node.name in inside}
            ),
        )
        for node in nodes.values()
    )
    return replace(main, nodes=placed, licences=licences, notes=notes, site=site, queues=None)


def converted(system: Described, *, all_nodes: bool = False, partition: str | None = None) -> Converted:
    """The keys of a cluster file: equal nodes in one class, in the order in which the first of each comes.

    Where the nodes of a system have an order, only neighbours are in one class.

    ``system``: what there is; ``all_nodes``: keep nodes that are down; ``partition``: keep the nodes of this partition
    alone. A ClusterError if there is no such partition, or no node is left.
    """
    system = together([system])
    notes = list(system.notes)
    nodes = list(system.nodes)
    if partition is not None:
        known = sorted({name for node in nodes for name in node.partitions})
        if partition not in known:
            raise ClusterError("--partition", repr(partition), f"one of {', '.join(known)}" if known else "none")
        nodes = [node for node in nodes if partition in node.partitions]
    if not all_nodes and (down := [node for node in nodes if node.down]):
        reasons = Counter(node.down for node in down)
        why = ", ".join(f"{reason}: {count}" for reason, count in sorted(reasons.items()))
        notes.append(f"{_nodes(len(down))} left out ({why}); --all-nodes keeps them.")
        nodes = [node for node in nodes if not node.down]
    if empty := [node for node in nodes if node.cores < 1]:
        notes.append(f"{_nodes(len(empty))} without cores left out.")
        nodes = [node for node in nodes if node.cores >= 1]
    if not nodes:
        raise ClusterError(system.where, "no node that is in use", "one or more")
    others = Counter[str]()
    for node in nodes:
        others.update(node.others)
    if others:
        listed = ", ".join(f"{count} {name}" for name, count in sorted(others.items()))
        notes.append(f"Devices left out: {listed}; pools of them would be [[pools]] tables.")
    content = _content(system, nodes)
    if system.site is not None:
        counters = {one["name"]: one["amount"] for one in content.get("counted", ())}
        site, lost = site_table(system.site, nodes, partition, counters)
        content |= {"site": site} if site else {}
        notes += lost
    return Converted(content, tuple(notes))


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


def _content(system: Described, nodes: list[DescribedNode]) -> dict[str, Any]:
    def kind_of(node: DescribedNode) -> tuple[Any, ...]:
        return (node.rack, node.cores, node.memory_mb, node.gpus, node.model)

    first_of: dict[tuple[Any, ...], int] = {}
    if not system.in_order:
        nodes = sorted(nodes, key=lambda node: first_of.setdefault(kind_of(node), len(first_of)))
    content: dict[str, Any] = {"name": system.name, "nodes": []}
    gpus: list[dict[str, Any]] = []
    first = 0
    names: Counter[str] = Counter()
    for (rack, cores, memory_mb, count, model), neighbours in groupby(nodes, kind_of):
        alike = list(neighbours)
        listed = compress([node.name for node in alike])
        name = listed if len(listed) <= 60 else listed[:57] + "..."
        names[name] += 1
        kind: dict[str, Any] = {"count": len(alike), "cores": cores}
        kind |= {} if memory_mb is None else {"memory": memory_mb}
        kind |= {"name": name if names[name] == 1 else f"{name} ({names[name]})"}
        kind |= {"names": listed}
        content["nodes"].append(kind | ({"rack": rack} if rack else {}))
        last = first + len(alike) - 1
        if count:
            machine = {"gpus": count} | ({"model": model} if model else {})
            gpus.append({"nodes": f"{first}-{last}" if last > first else f"{first}", "machine": machine})
        first = last + 1
    if gpus:
        content["gpus"] = gpus
    if system.licences:
        content["counted"] = [
            {"name": counter(name), "amount": amount} for name, amount in system.licences.items() if amount > 0
        ]
    return content


def counter(name: str) -> str:
    """The name of a licence as a counter can have it.

    Examples
    --------
    >>> counter("matlab@server.org"), counter("3ds")
    ('matlab_server_org', 'l3ds')
    """
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if plain[:1].isalpha() else f"l{plain}"


def cluster_text(content: dict[str, Any], comments: Sequence[str] = ()) -> str:
    """A cluster file with these keys: a line for each class of nodes, machine and counter.

    ``content``: numbers, text, lists of tables, and tables, which come last; ``comments``: lines for the top.

    Examples
    --------
    >>> print(cluster_text({"name": "a", "nodes": [{"count": 2, "cores": 8}]}, ["from b"]), end="")
    # from b
    name = "a"
    nodes = [
        { count = 2, cores = 8 },
    ]
    """
    lines = [f"# {' '.join(comment.split())}" for comment in comments]
    tables = {key: value for key, value in content.items() if isinstance(value, dict)}
    lines += _lines({key: value for key, value in content.items() if key not in tables})
    for key, table in tables.items():
        lines += ["", f"[{_key(key)}]", *_lines(table)]
    return "\n".join([*lines, ""])


def _lines(content: Mapping[str, Any]) -> list[str]:
    lines = []
    for key, value in content.items():
        if isinstance(value, list):
            lines += [f"{_key(key)} = [", *(f"    {_value(entry)}," for entry in value), "]"]
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(key)} = {_value(entry)}' for key, entry in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
