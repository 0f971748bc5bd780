"""What nodes are called: names of the real system beside the numbers that everything else goes by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from unrack.cluster.domains import NodeSets
from unrack.cluster.file import ClusterFile
from unrack.cluster.formats.site import parsed
from unrack.errors import ClusterError
from unrack.slurm_text.hostlists import expand

NUMBERS = re.compile(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*")
"""A list of nodes by number."""
_SHOWN = 8


def node_names_of(file: ClusterFile, where: str) -> tuple[str, ...]:
    """The name of each node, in order of their numbers; none where no class has names.

    Nodes of classes without names, and memory pools, are called ``node<number>``. A ClusterError if ``names`` is no
    list of hosts, names more or fewer nodes than the class has, or a name that is taken.
    """
    if all(kind.names is None for kind in file.nodes):
        return ()
    found: list[str] = []
    for i, kind in enumerate(file.nodes):
        if kind.names is None:
            found += [f"node{node}" for node in range(len(found), len(found) + kind.count)]
            continue
        key = f"{where}, nodes.{i}.names"
        names = parsed(kind.names, key, expand)
        if len(names) != kind.count:
            raise ClusterError(key, f"{len(names)} names", f"{kind.count}, one for each node of the class")
        found += names
    pools = sum(pool.count for pool in file.memory_pools)
    found += [f"node{node}" for node in range(len(found), len(found) + pools)]
    twice = next((name for name, count in Counter(found).items() if count > 1), None)
    if twice is not None:
        raise ClusterError(f"{where}, nodes", f"two nodes called {twice!r}", "a name of its own for each node")
    return tuple(found)


def drained_nodes(file: ClusterFile, names: Sequence[str], nodes: int, where: str) -> tuple[int, ...]:
    """The nodes of the key ``drained``, in order. A ClusterError if it is no list of nodes of the cluster."""
    if file.drained is None:
        return ()
    try:
        return tuple(sorted(set(numbers_of(file.drained, by_name(names, nodes), nodes))))
    except ValueError as error:
        got, _, want = str(error).rpartition(" is not ")
        raise ClusterError(f"{where}, drained", got or repr(file.drained[:80]), want) from None


class Finder:
    """Finds nodes by number, name, rack or domain."""

    def __init__(self, sets: NodeSets, names: Sequence[str]) -> None:
        self.sets, self.number_of = sets, by_name(names, sets.total)

    def __call__(self, members: Sequence[str], where: str) -> list[int]:
        """The numbers of all that are named, ascending."""
        found: set[int] = set()
        for member in members:
            if member in self.sets and member not in self.number_of:
                found.update(self.sets.find([member], where))
                continue
            found.update(parsed(member, where, lambda text: numbers_of(text, self.number_of, self.sets.total)))
        return sorted(found)


def numbers_of(text: str, names: Mapping[str, int], nodes: int) -> list[int]:
    """The nodes that a list names, in its order; repetitions stay.

    ``text``: names such as ``n[3-4],n7``, or numbers from 0 such as ``3-4,7`` where no node is called so; ``names``:
    name → number; ``nodes``: how many nodes there are. A ValueError if it is no such list, or names a node that does
    not exist.

    Examples
    --------
    >>> numbers_of("n[2-3],n2", {"n1": 0, "n2": 1, "n3": 2}, 3), numbers_of("0-1", {}, 3)
    ([1, 2, 1], [0, 1])
    """
    if NUMBERS.fullmatch(text) and text not in names and text.split(",")[0] not in names:
        return _numbered(text, nodes)
    found = []
    for name in expand(text):
        if name not in names:
            raise ValueError(f"{name!r} is not {_known(names, nodes)}")
        found.append(names[name])
    return found


def by_name(names: Sequence[str], nodes: int) -> dict[str, int]:
    """Name → number; nodes without names are called ``node<number>``."""
    return {name: node for node, name in enumerate(names or [f"node{node}" for node in range(nodes)])}


def _numbered(text: str, nodes: int) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not int(first) <= int(last or first) < nodes:
            raise ValueError(f"{part!r} is not among the nodes 0 to {nodes - 1}")
        found += range(int(first), int(last or first) + 1)
    return found


def _known(names: Mapping[str, int], nodes: int) -> str:
    listed = list(names)
    return f"a node: {', '.join(listed[:_SHOWN])}{f' … ({nodes} in all)' if len(listed) > _SHOWN else ''}"
