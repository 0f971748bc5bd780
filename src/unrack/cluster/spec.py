"""What there is: nodes with cores and memory, in racks, lending groups and failure domains."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unrack.cluster.domains import NAMED, NODE, RACK, Level, NodeSets, lending_groups_of, rack_groups_of, racks_of
from unrack.cluster.file import MOST_NODES, ClusterFile, MemoryPool, NodeClass, content_of, keys_at, torus_of
from unrack.cluster.node_names import Finder, by_name, drained_nodes, node_names_of
from unrack.cluster.pools.from_file import plan_pools
from unrack.cluster.pools.pool import Devices, build_devices, no_devices
from unrack.cluster.presets import cluster_facts
from unrack.cluster.prices.prices import Prices, make_prices
from unrack.cluster.tiers import Tiers, build_tiers
from unrack.errors import ClusterError, check_choice
from unrack.facts import line, table
from unrack.kernels.arrays import Ints
from unrack.resources.checked import validated
from unrack.resources.contract import Nodes
from unrack.resources.places import Places, built, is_resource, no_places
from unrack.sealed import Sealed
from unrack.vocabulary import Need

UNCOUNTED_MB = 2**42
"""Memory of a node where it is not counted: more than any job may ask."""
GROUPS = ("lending_group", "rack_group")
"""Columns of a cluster that are 0 throughout unless something is said about them."""


def _none_given() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Cluster(Sealed):
    """A data centre as columns over its nodes.

    Attributes
    ----------
    name
        What reports call it.
    cores, memory_mb : int64[nodes]
        Installed on each node. Memory that is not counted is ``UNCOUNTED_MB``. A node without cores is a memory pool's:
        others may borrow its memory, nothing runs on it; such nodes come last.
    node_class, rack : int64[nodes]
        Indices into ``class_names`` and ``rack_names``.
    domains
        Further failure domains: name → node ids that fail together. Racks and single nodes are domains too.
    devices
        The pooled devices; none by default.
    lending_group : int64[nodes]
        A node may borrow memory of the nodes of its own group and of those of group -1; by default all are of group 0.
    rack_group : int64[nodes]
        Which group of racks each node is in; by default all are in one, 0.
    failure_levels
        Levels of failure domains beside ``node`` and ``rack``, such as chassis; see :meth:`level`.
    tiers
        Tiers of memory and the clusters that pools form; ``None``: memory has no tiers.
    torus : int64[nodes, 2]
        Rows and columns of the cores on each die of each node; 0: not known. ``None``: of no node.
    places
        What there is of resources such as licences: where how much of it can be held.
    prices
        What its parts cost; ``None``: not known. They change no schedule, and no digest.
    names
        What the nodes are called, in order of their numbers; none: not known.
    drained
        The nodes on which nothing is started, in order.
    """

    name: str
    cores: Ints
    memory_mb: Ints
    node_class: Ints
    class_names: tuple[str, ...]
    rack: Ints
    rack_names: tuple[str, ...]
    domains: Mapping[str, tuple[int, ...]]
    devices: Devices = field(default_factory=lambda: no_devices(0))
    lending_group: Ints = field(default_factory=_none_given)
    rack_group: Ints = field(default_factory=_none_given)
    failure_levels: tuple[Level, ...] = ()
    tiers: Tiers | None = None
    torus: Ints | None = None
    places: Places = field(default_factory=lambda: no_places(0))
    prices: Prices | None = None
    names: tuple[str, ...] = ()
    drained: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in GROUPS:
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.zeros(len(self.cores), np.int64))
        super().__post_init__()

    @classmethod
    def homogeneous(
        cls,
        nodes: int,
        cores: int,
        memory: float | str | None = None,
        name: str = "cluster",
        nodes_per_rack: int | None = None,
    ) -> Cluster:
        """``nodes`` equal nodes.

        Parameters
        ----------
        nodes, cores
            How many nodes, and cores in each.
        memory
            Of each node: MB, or text such as ``"64 GB"``; ``None``: not counted.

        Raises
        ------
        ClusterError
            A number is out of range.

        Examples
        --------
        >>> Cluster.homogeneous(nodes=100, cores=4, memory="64 GB").total_cores
        400
        """
        group: dict[str, Any] = {"count": nodes, "cores": cores}
        if memory is not None:
            group["memory"] = memory
        return cls.from_dict({"name": name, "nodes": [group], "nodes_per_rack": nodes_per_rack}, "Cluster.homogeneous")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], where: str = "cluster") -> Cluster:
        """A cluster from the keys of a cluster file; ``where`` is named in errors."""
        own = {key: value for key, value in content.items() if not is_resource(key)}
        file = validated(ClusterFile.model_validate, own, f"{where}, ", keys_at)
        built_cluster = _build(file, where, {key: value for key, value in content.items() if is_resource(key)})
        return built_cluster if file.prices is None else built_cluster.priced(file.prices, f"{where}, prices")

    def priced(self, prices: str | Mapping[str, Any], where: str = "prices") -> Cluster:
        """The same cluster with prices: the name of a preset, or the keys of ``prices`` of a cluster file.

        Raises
        ------
        ClusterError
            There is no such preset or key, a number is out of range, or a price is of what the cluster does not have.
        """
        from unrack.cluster.prices.bill import check_prices

        made = make_prices(prices, where)
        check_prices(made, [self], where)
        return replace(self, prices=made)

    @classmethod
    def load(cls, path: str | Path) -> Cluster:
        """Read a cluster file: TOML, the ``.machines`` table of some grid logs, or a description of a real system.

        Descriptions are those that ``unrack cluster convert`` knows: ``slurm.conf``, with its partitions, nodes of
        Slurm and Kubernetes. Nodes that are down stay out.

        Raises
        ------
        ClusterError
            It cannot be read, or says something impossible.
        """
        return cls.from_dict(content_of(path), str(path))

    @classmethod
    def preset(cls, name: str) -> Cluster:
        """One of ``unrack presets``."""
        from unrack.cluster.presets import PRESETS

        check_choice("preset", name, PRESETS, ClusterError)
        return cls.from_dict({"name": name, **PRESETS[name].content}, f"preset {name}")

    def __len__(self) -> int:
        return len(self.cores)

    @property
    def offers(self) -> frozenset[Need]:
        """What there is to be had besides cores."""
        found = {
            Need.MEMORY: bool((self.memory_mb != UNCOUNTED_MB).any()),
            Need.DEVICES: len(self.devices) > 0,
            Need.TIERS: self.tiers is not None,
            Need.COUNTED: len(self.places.parts) > 0,
            Need.RACKS: len(self.rack_names) > 1,
        }
        return frozenset(need for need, there in found.items() if there)

    @property
    def total_cores(self) -> int:
        """Installed cores."""
        return int(self.cores.sum())

    @property
    def total_mb(self) -> int | None:
        """Installed memory, MB; ``None`` where some node's memory is not counted."""
        return None if bool((self.memory_mb == UNCOUNTED_MB).any()) else int(self.memory_mb.sum())

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of failure domains: ``"node"``, ``"rack"``, and those that the cluster file has, in its order.

        Each parts the nodes, or some of them, into domains of nodes that fail together.
        """
        return (NODE, RACK, *(level.name for level in self.failure_levels))

    def level(self, name: str) -> Ints:
        """int64[nodes]: which domain of a level each node is in, as an index into :meth:`domain_names`; -1: none.

        Raises
        ------
        ClusterError
            There is no such level.

        Examples
        --------
        >>> content = {"nodes": [{"count": 6, "cores": 8}], "failure_domains": {"chassis": {"nodes_each": 4}}}
        >>> cluster = Cluster.from_dict(content)
        >>> cluster.levels, cluster.level("chassis").tolist(), cluster.domain_names("chassis")
        (('node', 'rack', 'chassis'), [0, 0, 0, 0, 1, 1], ('chassis0', 'chassis1'))
        """
        return np.arange(len(self), dtype=np.int64) if name == NODE else self._level(name).of_node

    def domain_names(self, level: str) -> tuple[str, ...]:
        """The names of the domains of a level.

        Raises
        ------
        ClusterError
            There is no such level.
        """
        if level == NODE:
            return tuple(f"node{node}" for node in range(len(self)))
        return self._level(level).domain_names

    @cached_property
    def sizes(self) -> tuple[Ints, Ints]:
        """int64[2, sizes]: cores and MB of nodes, each pair once; int64[sizes]: how many nodes have them."""
        sizes, counts = np.unique(np.stack([self.cores, self.memory_mb]), axis=1, return_counts=True)
        return sizes, counts

    @cached_property
    def number_of(self) -> Mapping[str, int]:
        """Name of a node → its number; nodes without names are called ``node<number>``."""
        return by_name(self.names, len(self))

    @cached_property
    def _levels(self) -> dict[str, Level]:
        return {level.name: level for level in (Level(RACK, self.rack_names, self.rack), *self.failure_levels)}

    def _level(self, name: str) -> Level:
        if name not in self._levels:
            raise ClusterError("level of failure domains", repr(name), f"one of {', '.join(self.levels)}")
        return self._levels[name]

    def domain(self, name: str) -> tuple[int, ...]:
        """The nodes that fail together under a name: a set of ``domains``, a domain of a level, or ``node<id>``.

        Raises
        ------
        ClusterError
            There is no such domain.
        """
        level = self.level_of(name)
        if level == NAMED:
            return self.domains[name]
        return (int(name[4:]),) if level == NODE else self._level(level).nodes(name)

    def level_of(self, domain: str) -> str:
        """The level of a failure domain; ``"domain"`` for a set of ``domains``, which is of no level.

        Raises
        ------
        ClusterError
            There is no such domain.
        """
        if domain in self.domains:
            return NAMED
        for level in self._levels.values():
            if domain in level.index:
                return level.name
        match = re.fullmatch(r"node(\d{1,9})", domain)
        if match is not None and int(match[1]) < len(self):
            return NODE
        known = " or ".join(["domain", *self.levels[1:]])
        raise ClusterError("failure domain", repr(domain), f"a {known} of the cluster, or node0 … node{len(self) - 1}")

    def __repr__(self) -> str:
        return line("Cluster", self.name, cluster_facts(self))

    def _repr_html_(self) -> str:
        """For a notebook."""
        return table("Cluster", self.name, cluster_facts(self))

    def digest(self) -> str:
        """SHA-256 over everything that can change a schedule."""
        total = hashlib.sha256()
        for column in (self.cores, self.memory_mb, self.node_class, self.rack):
            total.update(column.astype("<i8").tobytes())
        total.update(repr((self.class_names, self.rack_names, sorted(self.domains.items()))).encode())
        if len(self.devices):
            total.update(self.devices.identity().encode())
        for name in GROUPS:
            column = getattr(self, name)
            if column.any():
                total.update(name.encode() + column.astype("<i8").tobytes())
        for level in self.failure_levels:
            total.update(repr((level.name, level.domain_names)).encode() + level.of_node.astype("<i8").tobytes())
        if self.tiers is not None:
            total.update(self.tiers.identity())
        if self.torus is not None:
            total.update(b"torus" + self.torus.astype("<i8").tobytes())
        if self.places.parts:
            total.update(self.places.identity().encode())
        if self.names:  # jobs that run at the start say by name where
            total.update(repr(self.names).encode())
        if self.drained:
            total.update(f"drained {self.drained}".encode())
        return total.hexdigest()


def _build(file: ClusterFile, where: str, resources: Mapping[str, Any]) -> Cluster:
    kinds: list[NodeClass | MemoryPool] = [*file.nodes, *file.memory_pools]
    counts = [kind.count for kind in kinds]
    total = sum(counts)
    if total > MOST_NODES:
        raise ClusterError(f"{where}, nodes", f"{total} nodes", f"at most {MOST_NODES}")
    names = file.class_names
    if len(set(names)) != len(names):
        raise ClusterError(f"{where}, nodes", f"node classes {names}", "a different name for each")
    cores = [kind.cores for kind in file.nodes] + [0] * len(file.memory_pools)
    memory = [UNCOUNTED_MB if kind.memory_mb is None else kind.memory_mb for kind in kinds]
    if file.memory_pools and UNCOUNTED_MB in memory:
        key = f"{where}, nodes.{memory.index(UNCOUNTED_MB)}.memory"
        raise ClusterError(key, "nothing", "memory of every class of nodes, as there are memory pools")
    if file.tiers:
        if "lending" in file.model_fields_set:
            want = "no lending where there are tiers: which pools a node may use is said by shared_by or pool_clusters"
            raise ClusterError(f"{where}, lending", repr(file.lending), want)
        grouped = next((i for i, pool in enumerate(file.memory_pools) if pool.group is not None), None)
        if grouped is not None:
            want = "no group where there are tiers: the users of a pool are said by shared_by or pool_clusters"
            raise ClusterError(f"{where}, memory_pools.{grouped}.group", str(file.memory_pools[grouped].group), want)
    taken = next((i for i, pool in enumerate(file.pools) if is_resource(pool.kind)), None)
    if taken is not None:
        want = "another word: it is the name of a resource"
        raise ClusterError(f"{where}, pools.{taken}.kind", repr(file.pools[taken].kind), want)
    rack, rack_names = racks_of(file, where)
    sets = NodeSets(total, rack, rack_names)
    sets.name_domains(file, where)
    sets.part(file, where)
    node_names = node_names_of(file, where)
    cores_of = np.repeat(np.array(cores, np.int64), counts)
    memory_of = np.repeat(np.array(memory, np.int64), counts)
    devices = build_devices(plan_pools(file, rack, rack_names, sets.find, where), total, where)
    find, countable = Finder(sets, node_names), devices.countable(cores_of)
    return Cluster(
        name=file.name,
        cores=cores_of,
        memory_mb=memory_of,
        node_class=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        class_names=names,
        rack=rack,
        rack_names=rack_names,
        domains=sets.domains,
        devices=devices,
        lending_group=lending_groups_of(file, rack, where),
        rack_group=rack_groups_of(file, rack),
        failure_levels=tuple(sets.levels),
        tiers=build_tiers(file, cores_of, where),
        torus=torus_of(file, where),
        places=built(resources, Nodes(cores_of, memory_of, rack, rack_names, find, countable), where),
        names=node_names,
        drained=drained_nodes(file, node_names, total, where),
    )
