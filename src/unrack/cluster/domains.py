"""Failure domains: sets of nodes by name, and levels of them that part the nodes, such as chassis, racks and feeds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unrack.cluster.file import ClusterFile
from unrack.errors import ClusterError
from unrack.kernels.arrays import Ints
from unrack.resources.checked import node_ids, ranges

REACHES_ALL = -1
"""The lending group of a memory pool that lends to every node."""

NODE, RACK = "node", "rack"
"""Levels that every cluster has."""
NAMED = "domain"
"""What stands in place of a level for a set of ``domains``, which may overlap others."""
RESERVED = (NODE, RACK, NAMED)
NO_DOMAIN = -1
"""In place of a domain for a node that is in none of the level."""


def racks_of(file: ClusterFile, where: str) -> tuple[Ints, tuple[str, ...]]:
    """The rack of each node, int64[nodes], and the names of the racks.

    A ClusterError if a memory pool is in a rack that does not exist, or would have a rack of its own under a name that
    is taken.
    """
    names: dict[str, int] = {}
    columns = []
    at = 0
    for kind in file.nodes:
        if kind.rack is not None:
            columns.append(np.full(kind.count, names.setdefault(kind.rack, len(names)), np.int64))
        elif file.nodes_per_rack is None:
            columns.append(np.full(kind.count, names.setdefault("rack0", len(names)), np.int64))
        else:
            numbers = np.arange(at, at + kind.count) // file.nodes_per_rack
            first = {int(number): names.setdefault(f"rack{number}", len(names)) for number in np.unique(numbers)}
            columns.append(np.array([first[int(number)] for number in numbers], np.int64))
        at += kind.count
    there = list(names)
    for i, (pool, label) in enumerate(zip(file.memory_pools, file.class_names[len(file.nodes) :], strict=True)):
        key = f"{where}, memory_pools.{i}"
        if pool.rack is not None and pool.rack not in there:
            most = f"{', '.join(there[:8])}{' …' if len(there) > 8 else ''}"
            raise ClusterError(f"{key}.rack", repr(pool.rack), f"a rack of the nodes: {most}")
        if pool.rack is None and label in there:
            raise ClusterError(f"{key}.name", repr(label), "a name that no rack has, or 'rack' to put it into that one")
        columns.append(np.full(pool.count, names.setdefault(pool.rack or label, len(names)), np.int64))
    return np.concatenate(columns), tuple(names)


def rack_groups_of(file: ClusterFile, rack: Ints) -> Ints:
    """int64[nodes]: the group of racks of each node; 0 for all where there is one."""
    return np.zeros(len(rack), np.int64) if file.racks_per_group is None else rack // file.racks_per_group


def lending_groups_of(file: ClusterFile, rack: Ints, where: str) -> Ints:
    """int64[nodes]: the lending group of each node; ``REACHES_ALL``: memory that every node may borrow.

    A ClusterError if a memory pool belongs to a group that does not exist.
    """
    nodes = np.arange(file.computing, dtype=np.int64)
    if file.lending == "rack":
        groups = rack[: len(nodes)]
    elif file.lending == "none":
        groups = nodes
    else:
        groups = nodes // (file.lending if isinstance(file.lending, int) else len(nodes))
    columns = [groups]
    at = len(nodes)
    for i, pool in enumerate(file.memory_pools):
        group = REACHES_ALL
        if pool.group is not None:
            key, last = f"{where}, memory_pools.{i}.group", int(groups[-1])
            if not isinstance(file.lending, int):
                want = f"no group where lending = {file.lending!r}; it takes lending = N, the nodes of a group"
                raise ClusterError(key, str(pool.group), want)
            if pool.group > last:
                raise ClusterError(key, str(pool.group), f"the number of a lending group, 0 to {last}")
            group = pool.group
        elif pool.rack is not None and file.lending == "rack":
            group = int(rack[at])
        columns.append(np.full(pool.count, group, np.int64))
        at += pool.count
    return np.concatenate(columns)


@dataclass(frozen=True, eq=False)
class Level:
    """A level of failure domains: it parts the nodes, or some of them, into sets that fail together."""

    name: str  # what a domain of it is: ``"chassis"``
    domain_names: tuple[str, ...]  # of its domains: ``"chassis0"`` …
    of_node: Ints  # int64[nodes]: index of each node's domain in ``domain_names``; -1: none

    @cached_property
    def index(self) -> dict[str, int]:
        """Domain name → its index."""
        return {name: i for i, name in enumerate(self.domain_names)}

    def nodes(self, domain: str) -> tuple[int, ...]:
        """The nodes of a domain of this level, ascending."""
        return tuple(np.flatnonzero(self.of_node == self.index[domain]).tolist())

    def written(self) -> dict[str, list[str]]:
        """Domain → its nodes, as a cluster file may have them."""
        order = np.argsort(self.of_node, kind="stable")
        at = np.searchsorted(self.of_node[order], np.arange(len(self.domain_names) + 1))
        return {name: ranges(order[at[i] : at[i + 1]]) for i, name in enumerate(self.domain_names)}


class NodeSets:
    """The nodes behind every name of a cluster file, as far as it has been read: racks, domains, domains of levels."""

    def __init__(self, total: int, rack: Ints, rack_names: Sequence[str]) -> None:
        self.total = total
        self.racks = Level(RACK, tuple(rack_names), rack)
        self.domains: dict[str, tuple[int, ...]] = {}
        self.levels: list[Level] = []

    def __contains__(self, name: str) -> bool:
        return (
            name in self.domains
            or re.fullmatch(r"node\d+", name) is not None
            or any(name in level.index for level in (self.racks, *self.levels))
        )

    def find(self, members: Sequence[str], at: str) -> list[int]:
        """The nodes, ascending, that members such as ``"0-15"``, ``"20"``, ``"rack3"`` or ``"feed A"`` are.

        A ClusterError if a member is none of these; ``at`` says where it stands.
        """
        found: set[int] = set()
        for member in members:
            levels = [level for level in (self.racks, *self.levels) if member in level.index]
            if member in self.domains:
                found.update(self.domains[member])
            elif levels:
                found.update(levels[0].nodes(member))
            else:
                found.update(node_ids(member, self.total, at))
        return sorted(found)

    def name_domains(self, file: ClusterFile, where: str) -> None:
        """Take in ``domains``. A ClusterError if a name is taken, or a node does not exist."""
        for name, members in file.domains.items():
            at = f"{where}, domains.{name}"
            nodes = {node for member in members for node in node_ids(member, self.total, at)}
            if name in self:
                raise ClusterError(at, repr(name), "a name that no rack or node has")
            self.domains[name] = tuple(sorted(nodes))

    def part(self, file: ClusterFile, where: str) -> None:
        """Take in ``failure_domains``, level by level.

        A ClusterError if a name is taken, a node does not exist, or one is in two domains of a level.
        """
        for name, table in file.failure_domains.items():
            at = f"{where}, failure_domains.{name}"
            if not name or name in RESERVED:
                raise ClusterError(at, repr(name), f"the name of a level other than {', '.join(RESERVED)}")
            level = self._level(name, table, file, at)
            for domain in level.domain_names:
                if domain in self:
                    raise ClusterError(f"{at}.{domain}", repr(domain), "a name that no rack, node or other domain has")
            self.levels.append(level)

    def _level(self, name: str, table: Mapping[str, int | list[str]], file: ClusterFile, at: str) -> Level:
        each = next((value for value in table.values() if isinstance(value, int)), None)
        if each is None:
            members = {key: self.find(value, f"{at}.{key}") for key, value in table.items() if isinstance(value, list)}
            return parted(name, members, self.total, at)
        of_node = self.racks.of_node // each if "racks_each" in table else _in_turn(file, each)
        return Level(name, tuple(f"{name}{i}" for i in range(int(of_node.max()) + 1)), of_node)


def parted(name: str, members: Mapping[str, Sequence[int]], total: int, at: str) -> Level:
    """A level from the nodes of each of its domains.

    A ClusterError if a domain has no node, or a node is in two of them.
    """
    of_node = np.full(total, NO_DOMAIN, np.int64)
    names = tuple(members)
    for i, (domain, nodes) in enumerate(members.items()):
        if not len(nodes):
            raise ClusterError(f"{at}.{domain}", "no nodes", "one or more")
        ids = np.array(nodes, np.int64)
        twice = ids[of_node[ids] >= 0]
        if len(twice):
            got = f"node {twice[0]}, which is in {names[int(of_node[twice[0]])]!r} too"
            raise ClusterError(f"{at}.{domain}", got, "nodes that no other domain of the level has")
        of_node[ids] = i
    return Level(name, names, of_node)


def _in_turn(file: ClusterFile, each: int) -> Ints:
    """int64[nodes]: consecutive nodes together; those of each memory pool by themselves."""
    columns, first = [], 0
    for count in (file.computing, *(pool.count for pool in file.memory_pools)):
        columns.append(first + np.arange(count, dtype=np.int64) // each)
        first += -(-count // each)
    return np.concatenate(columns)
