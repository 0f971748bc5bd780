"""What nodes are called, beside the numbers that all else goes by; and another number of nodes in a class of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count as counting
from itertools import islice
from typing import Any

from unrack.cluster.domains import NodeSets
from unrack.cluster.file import MOST_NODES, ClusterFile
from unrack.cluster.formats.site import parsed
from unrack.errors import ClusterError
from unrack.slurm_text.hostlists import compress, expand

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


_LAST_NUMBER = re.compile(r"(.*?)(\d{1,18})(\D*)", re.DOTALL | re.ASCII)
LISTS = ("gpus", "domains", "failure_domains")
"""Keys of a cluster file below which nodes are told by number."""


def recount(table: dict[str, Any], index: int, before: int) -> None:
    """Fit the content of a cluster file, in place, to a changed ``count`` of a class of nodes with names.

    Fewer nodes: the first names of the class stay. More: names that go on from the last one. Further nodes are like
    the last one of their class: they have its GPUs and features and are in its domains and partitions. Numbers of
    nodes behind the class move on.

    Parameters
    ----------
    table
        The content; nothing is done where the class has no names, or not ``before`` of them.
    index
        Which class.
    before
        How many nodes it had.

    Examples
    --------
    >>> table = {"nodes": [{"count": 4, "names": "n[08-09]"}], "gpus": [{"machine": "dgx-1", "nodes": "0-1"}]}
    >>> recount(table, 0, 2)
    >>> table["nodes"][0]["names"], table["gpus"][0]["nodes"]
    ('n[08-11]', '0-3')
    """
    classes = table["nodes"]
    own, after = classes[index], classes[index]["count"]
    try:
        given = [before if kind is own else kind["count"] for kind in classes]
        names = [expand(kind["names"]) if kind.get("names") else [] for kind in classes]
    except (AttributeError, KeyError, TypeError, ValueError):
        return  # what is wrong is said when the cluster is made
    if (
        not all(type(count) is int and 0 < count <= MOST_NODES for count in (*given, after))
        or len(names[index]) != before
    ):
        return
    taken = {name for some in names for name in some}
    kept = [*names[index], *more_names(names[index][-1], taken, max(after - before, 0))][:after]
    own["names"] = compress(kept)
    moved = _Moved(sum(given[:index]), before, after)
    for key in LISTS:
        if key in table and (found := moved.within(table.pop(key))):
            table[key] = found
    gone = set(names[index]) - set(kept)
    if isinstance(table.get("drained"), str) and (drained := moved.drained(table.pop("drained"), gone)):
        table["drained"] = drained
    site = table.get("site")
    if isinstance(site, dict):
        with suppress(AttributeError, TypeError, ValueError):  # what is wrong is said when the cluster is made
            last, more = names[index][-1], kept[before:]
            for one in site.get("partitions", ()):
                if one.get("nodes") is not None:
                    one["nodes"] = moved.members(one["nodes"], gone, last, more)
            for feature, members in site.get("features", {}).items():
                site["features"][feature] = moved.members(members, gone, last, more)


def more_names(last: str, taken: set[str], count: int) -> list[str]:
    """So many names after a name that are not taken: the last number before its domain goes on."""
    host, dot, domain = last.partition(".")
    match = _LAST_NUMBER.fullmatch(host)
    head, digits, tail = (f"{host}-", "1", "") if match is None else match.groups()
    names = (f"{head}{str(number).zfill(len(digits))}{tail}{dot}{domain}" for number in counting(int(digits) + 1))
    return list(islice((name for name in names if name not in taken), count))


class _Moved:
    """Where numbers of nodes go when a class that begins at ``first`` has another number of nodes."""

    def __init__(self, first: int, before: int, after: int) -> None:
        self.behind, self.last, self.more = first + after, first + before - 1, after - before

    def range(self, low: int, high: int) -> tuple[int, int] | None:
        """The nodes from ``low`` to ``high``, with those that are new like the last; ``None``: none is left."""
        low = min(low, self.behind) if low <= self.last else low + self.more
        high = min(high, self.behind - 1) if high < self.last else high + self.more
        return (low, high) if low <= high else None

    def text(self, text: str) -> str:
        """Such as ``"0-3,7"``."""
        found = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            if there := self.range(int(first), int(last or first)):
                found.append(f"{there[0]}-{there[1]}" if there[1] > there[0] else f"{there[0]}")
        return ",".join(found)

    def drained(self, text: str, gone: set[str]) -> str:
        """A list by number, or by name without the nodes that are gone."""
        if NUMBERS.fullmatch(text):
            return self.text(text)
        with suppress(ValueError):
            return compress(name for name in expand(text) if name not in gone)
        return text

    def members(self, listed: list[str], gone: set[str], last: str, more: list[str]) -> list[str]:
        """Lists of nodes by number, or by name without those that are gone, and with further ones after the last."""
        found = []
        for text in listed:
            if NUMBERS.fullmatch(text):
                found.append(self.text(text))
                continue
            hosts = [host for host in expand(text) if host not in gone]
            place = hosts.index(last) + 1 if last in hosts else 0
            found.append(compress([*hosts[:place], *(more if place else ()), *hosts[place:]]) if hosts else "")
        return [text for text in found if text]

    def within(self, value: Any) -> Any:
        """All that stands below a key; ``None``: no node of it is left."""
        if isinstance(value, dict):
            found = {key: one if key == "machine" else self.within(one) for key, one in value.items()}
            return None if "nodes" in found and found["nodes"] is None else _some(found)
        if isinstance(value, list):
            return list(_some(dict(enumerate(self.within(one) for one in value))).values()) or None
        return (self.text(value) or None) if isinstance(value, str) and NUMBERS.fullmatch(value) else value


def _some(found: dict[Any, Any]) -> dict[Any, Any]:
    return {key: one for key, one in found.items() if one is not None}
