"""Which nodes belong together: racks, groups of racks, and lending groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.file import ClusterFile
from unrack.errors import ClusterError

Ints = NDArray[np.int64]

REACHES_ALL = -1
"""The lending group of a memory pool that lends to every node."""


def racks_of(file: ClusterFile, where: str) -> tuple[Ints, tuple[str, ...]]:
    """The rack of each node, int64[nodes], and the names of the racks.

    Raises
    ------
    ClusterError
        A memory pool is in a rack that does not exist, or would have a rack of its own under a name that is taken.
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

    Raises
    ------
    ClusterError
        A memory pool belongs to a group that does not exist.
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
