"""What a site says of its nodes that the orchestrator does not know, by their names, as keys of a cluster file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from pydantic import Field

from unrack.cluster.file import Count, Lending, LevelTable, MemoryPool
from unrack.cluster.pools.pool import PoolFile
from unrack.cluster.spec import Cluster
from unrack.errors import ClusterError, InputError, nearest
from unrack.live.printable import printable
from unrack.resources.checked import Strict, ranges
from unrack.resources.table import RESOURCES
from unrack.slurm_text.hostlists import compress, expand
from unrack.study.input.inputs import Document

OTHER_RACK = "other"
"""The rack of nodes that are in none of the site's."""
NO_NODES = "no nodes: they come from the orchestrator"
_NUMBERS = re.compile(r"[0-9]+(?:-[0-9]+)?")


class ClusterAdditions(Strict):
    """The ``[cluster]`` table, apart from the keys of resources (``counted``, ``links`` …)."""

    name: str = Field(default="cluster", min_length=1, max_length=80)  # what reports call the cluster
    # rack → its nodes, a list of hosts such as ``n[1-8]``; nodes that are in none share one
    racks: dict[str, str] = Field(default_factory=dict)
    # racks_per_group, lending, memory_pools, domains, failure_domains, pools: as in a cluster file, with
    # names of nodes where that has numbers
    racks_per_group: Count | None = None
    lending: Lending = "all"
    memory_pools: list[MemoryPool] = Field(default_factory=list)
    domains: dict[str, list[str]] = Field(default_factory=dict)
    failure_domains: dict[str, LevelTable] = Field(default_factory=dict)
    pools: list[PoolFile] = Field(default_factory=list)


class Additions:
    """What a site says of its nodes, before it is known which there are.

    Parameters
    ----------
    table
        The ``[cluster]`` table as it was written; it has been checked with :func:`checked`.
    """

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = dict(table)
        self._racks: dict[str, str] = {
            node: rack for rack, nodes in self._table.pop("racks", {}).items() for node in expand(nodes)
        }

    def rack_of(self, node: str) -> str | None:
        """The rack of a node; ``None``: the site does not say."""
        return self._racks.get(node)

    @property
    def named(self) -> list[str]:
        """All nodes that it names, each once, in order of appearance."""
        return list(dict.fromkeys([*self._racks, *(node for entry in self.entries() for node in self.nodes_of(entry))]))

    def keys(self, nodes: Sequence[str]) -> dict[str, Any]:
        """The keys of a cluster file, without ``nodes``.

        Parameters
        ----------
        nodes
            The names of all nodes with cores, in the order in which the cluster file has them.

        Raises
        ------
        InputError
            It names a node that there is not.
        """
        number = {node: i for i, node in enumerate(nodes)}
        for node in self._racks:
            if node not in number:
                raise InputError("cluster.racks", f"'{printable(node)}'", "a node that there is")

        def translated(entries: Iterable[str], where: str, whole: bool = False) -> list[str]:
            found: list[str] = []
            for entry in entries:
                members = self.nodes_of(entry)
                if whole and not members:  # where a cluster file has nothing but numbers
                    members = [node for node, rack in self._racks.items() if rack == entry]
                missing = next((node for node in members if node not in number), None)
                if missing is not None:
                    raise InputError(where, f"'{printable(missing)}'", "a node that there is, a rack or a domain")
                found += ranges(sorted({number[node] for node in members})) if members else [entry]
            return found

        made = dict(self._table)
        if "pools" in made:
            made["pools"] = [
                {key: translated(value, f"cluster.pools[{i}].{key}") if key in ("reach", "home") else value
                 for key, value in pool.items()}
                for i, pool in enumerate(made["pools"])
            ]  # fmt: skip
        if "domains" in made:
            made["domains"] = {
                name: translated(entries, f"cluster.domains.{name}", whole=True)
                for name, entries in made["domains"].items()
            }
        if "failure_domains" in made:
            made["failure_domains"] = {
                level: {key: translated(value, f"cluster.failure_domains.{level}.{key}") if isinstance(value, list)
                        else value for key, value in domains.items()}
                for level, domains in made["failure_domains"].items()
            }  # fmt: skip
        return made

    def joined(self, content: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
        """A cluster file that the nodes were written to, with what the site adds.

        Parameters
        ----------
        content
            The keys of the cluster file. Classes of nodes with several racks are parted; lists of the site go behind.
        nodes
            The names of all nodes with cores, in order.

        Raises
        ------
        InputError
            The site names a node that there is not.
        """
        made = {**content, "nodes": self._parted(content["nodes"], nodes)} if self._racks else dict(content)
        for key, value in self.keys(nodes).items():
            made[key] = [*made[key], *value] if isinstance(made.get(key), list) and isinstance(value, list) else value
        return made

    def _parted(self, classes: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> list[dict[str, Any]]:
        """Classes of nodes, each in one rack, in the same order of nodes."""
        found: list[dict[str, Any]] = []
        at = 0
        for i, kind in enumerate(classes):
            members = nodes[at : at + kind["count"]]
            at += kind["count"]
            for rack, run in groupby(members, lambda node: self._racks.get(node, OTHER_RACK)):
                names = list(run)
                part = {**kind, "count": len(names), "rack": rack}
                if "names" in kind:
                    part["names"] = compress(names)
                if len(names) < len(members):
                    part["name"] = f"{kind.get('name') or f'class{i}'} in {rack} from {names[0]}"
                found.append(part)
        return found

    def entries(self) -> Iterator[str]:
        """What stands where nodes, racks or domains are named."""
        for pool in self._table.get("pools", ()):
            yield from pool.get("reach", ())
            yield from pool.get("home", ())
        for entries in self._table.get("domains", {}).values():
            yield from entries
        for domains in self._table.get("failure_domains", {}).values():
            for value in domains.values():
                yield from value if isinstance(value, list) else ()

    def nodes_of(self, entry: str) -> list[str]:
        """The nodes of an entry; none: it is the name of a rack or domain.

        Raises
        ------
        ValueError
            It is not a list of hosts.
        """
        levels = self._table.get("failure_domains", {})
        pools = (str(pool.get("rack") or pool.get("name", "")) for pool in self._table.get("memory_pools", ()))
        within = (domain for level in levels.values() for domain in level)
        if entry in {*self._racks.values(), *self._table.get("domains", {}), *within, *pools}:
            return []
        numbered = any(re.fullmatch(f"{re.escape(level)}[0-9]+", entry) for level in levels)  # by nodes_each
        return [] if numbered else expand(entry)


def checked(table: Mapping[str, Any], document: Document) -> Additions:
    """The ``[cluster]`` table of a site file, tried on nodes that have the names in it.

    Raises
    ------
    InputError
        A key or a value is wrong, or no cluster could be made of it.
    """
    at = ("cluster",)
    known = [*ClusterAdditions.model_fields, *RESOURCES.names()]
    for key in table:
        if key == "nodes":
            raise document.fault((*at, key), "this key", NO_NODES)
        if key == "site":
            raise document.fault((*at, key), "this key", "no site: that is the orchestrator's")
        if key not in known:
            raise document.fault((*at, key), "an unknown key", nearest(key, known))
    document.validated(ClusterAdditions, {key: value for key, value in table.items() if key not in RESOURCES}, at)
    _check_names(table, document)
    additions = Additions(table)
    names = additions.named or ["n1"]
    nodes = [{"count": 1, "cores": 1, "memory": "1 TB", "name": f"{i} {name}"} for i, name in enumerate(names)]
    if "racks" in table:
        nodes = [
            {**node, "rack": additions.rack_of(name) or OTHER_RACK} for node, name in zip(nodes, names, strict=True)
        ]
    with document.part(*at, kind=ClusterError):
        keys = additions.keys(names)
        keys.pop("gpus", None)  # machines must be those of the real nodes: looked at when these are known
        Cluster.from_dict({"nodes": nodes, **keys}, "cluster")
    return additions


def _check_names(table: Mapping[str, Any], document: Document) -> None:
    """Refuse what is no list of hosts, a node in two racks, and numbers in place of names."""
    seen: dict[str, str] = {}
    for rack, nodes in table.get("racks", {}).items():
        where = ("cluster", "racks", rack)
        try:
            members = expand(nodes)
        except ValueError as error:
            raise document.fault(where, f"'{printable(nodes)}'", f"nodes such as 'n[1-8]': {error}") from None
        for node in members:
            if node in seen:
                raise document.fault(where, f"'{printable(node)}', which is in {seen[node]!r}", "each node in one rack")
            seen[node] = rack
    additions = Additions(table)
    for entry in additions.entries():
        if _NUMBERS.fullmatch(entry) and entry not in table.get("racks", {}):
            want = "names of nodes, such as 'n[1-4]', racks or domains"
            raise document.fault(("cluster",), f"the number {entry!r}", want)
        try:
            additions.nodes_of(entry)
        except ValueError as error:
            raise document.fault(("cluster",), f"'{printable(entry)}'", f"nodes, racks or domains: {error}") from None
