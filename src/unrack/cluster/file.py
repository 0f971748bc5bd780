"""The keys of a cluster file: classes of nodes, nodes that are memory alone, and which may lend to which."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, PlainValidator

from unrack.cluster.pools.pool import MOST_DEVICES, PoolFile
from unrack.cluster.tiers import TierFile
from unrack.errors import ClusterError
from unrack.kernels.arrays import Ints
from unrack.resources.checked import Strict
from unrack.resources.table import RESOURCES
from unrack.units import memory_mb

MOST_NODES = 10_000_000
LONGEST_SIDE = 32
"""Most rows or columns of cores on a die."""
LENDING = ("all", "rack", "none")


def number(value: object) -> object:
    """The value, unless it is a truth value, which Python would take for 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


def _capacity_mb(value: object) -> object:
    known = number(value)
    return memory_mb(known, rounding="down") if isinstance(known, int | float | str) else known


def _some_mb(value: object) -> object:
    mb = _capacity_mb(value)
    if isinstance(mb, int) and mb < 1:
        raise ValueError("1 MB or more")
    return mb


def _lending(value: object) -> str | int:
    if isinstance(value, str) and value in LENDING:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_NODES:
        return value
    raise ValueError(f"{', '.join(map(repr, LENDING))}, or how many nodes lend to each other (1 to {MOST_NODES})")


def _torus(value: object) -> tuple[int, int]:
    if isinstance(value, list | tuple) and len(value) == 2:
        rows, columns = value
        if all(type(side) is int and 1 <= side <= LONGEST_SIDE for side in value):
            return rows, columns
    raise ValueError(f"[rows, columns] of cores on a die, 1 to {LONGEST_SIDE} each")


def _level(value: object) -> dict[str, int | list[str]]:
    each = "nodes_each = N, racks_each = N, or names with lists of node ids, racks or domains, such as a = ['0-3']"
    if isinstance(value, dict) and value:
        number_of = value.get("nodes_each", value.get("racks_each"))
        if isinstance(number_of, int) and not isinstance(number_of, bool):
            if len(value) == 1 and 1 <= number_of <= MOST_NODES:
                return value
        elif all(isinstance(members, list) and all(isinstance(m, str) for m in members) for members in value.values()):
            return value
    raise ValueError(each)


CapacityMb = Annotated[int, BeforeValidator(_capacity_mb), Field(ge=0)]
SomeMb = Annotated[int, BeforeValidator(_some_mb)]
Count = Annotated[int, BeforeValidator(number), Field(ge=1, lt=2**31)]
Group = Annotated[int, BeforeValidator(number), Field(ge=0, lt=2**31)]
Lending = Annotated[str | int, PlainValidator(_lending)]
Torus = Annotated[tuple[int, int], PlainValidator(_torus)]
LevelTable = Annotated[dict[str, int | list[str]], PlainValidator(_level)]


class NodeClass(Strict):
    """Nodes that are alike."""

    count: Count = Field(le=MOST_NODES)  # how many
    cores: Count  # of each node; 1 or more
    # Of each node: MB, or text such as ``"90 GB"``. Left out: memory is not counted on these nodes.
    memory_mb: CapacityMb | None = Field(default=None, alias="memory")
    name: str = ""  # what reports call the class
    # put all of them into one rack of this name; otherwise see ``nodes_per_rack`` of the cluster
    rack: str | None = None
    # GPUs built into each node, which only its own tasks use, each whole: a pool of the kind ``gpu`` per node, in
    # which jobs ask for ``gpu.devices``. Left out: none. GPUs with more to say of them are ``pools`` with ``per =
    # "node"``.
    gpus: Count | None = Field(default=None, le=MOST_DEVICES)
    # How the cores of a die are laid out: ``[rows, columns]``, joined as a torus. A node has as many such dies as its
    # cores fill. Left out: not known.
    torus: Torus | None = None
    # what the nodes are called, such as ``"n[1-16]"``: as many names as there are nodes, in order of their numbers
    names: str | None = Field(default=None, min_length=1)


class MemoryPool(Strict):
    """A ``[[memory_pools]]`` table: nodes without cores that lend memory to others, such as CXL memory devices."""

    # what reports call the class, and the rack of those that are in no other; default: ``memory0``, ``memory1`` …
    name: str = ""
    count: Count = Field(le=MOST_NODES)  # how many nodes
    memory_mb: SomeMb = Field(alias="memory")  # of each: MB, or text such as ``"512 GB"``; 1 MB or more
    rack: str | None = None  # the rack of the cluster that they sit in; default: one of their own
    group: Group | None = None  # which lending group they lend to, where ``lending`` is a number; default: every group
    tier: str | None = None  # which of the cluster's ``tiers`` their memory is of; needed where there are tiers
    # How many compute pools (nodes with cores, in order of id) share each of them; default: 1. The cluster file's
    # ``pool_clusters`` can say otherwise.
    shared_by: Count | None = None


class ClusterFile(Strict):
    """The keys of a cluster file or of a ``[[clusters]]`` table of a study."""

    name: str = "cluster"  # what reports call the cluster
    # nodes, memory_pools: what there is; memory pools are numbered after all other nodes
    nodes: list[NodeClass] = Field(min_length=1)
    memory_pools: list[MemoryPool] = Field(default_factory=list)
    nodes_per_rack: Count | None = None  # default: nodes of classes without a rack of their own share one
    racks_per_group: Count | None = None  # how many racks, in order of id, make a group of racks; default: all
    # which nodes may borrow of which: ``"all"``, ``"rack"``, ``"none"`` (of memory pools alone), or how many
    # consecutive nodes make a group
    lending: Lending = "all"
    # further failure domains: name → node ids such as ``"0-15"``
    domains: dict[str, list[str]] = Field(default_factory=dict)
    # levels of failure domains, such as ``chassis``, which part the nodes: ``nodes_each = 4``, ``racks_each = 2``, or
    # name → node ids, racks, domains, and domains of levels before it
    failure_domains: dict[str, LevelTable] = Field(default_factory=dict)
    pools: list[PoolFile] = Field(default_factory=list)  # pools of devices
    tiers: list[TierFile] = Field(default_factory=list)  # tiers of memory, the local one first
    # Which pools form a cluster: lists of node ids, each with one node with cores. Default: every node with cores
    # with the memory pools that it has by their ``shared_by``.
    pool_clusters: list[list[int | str]] | None = Field(default=None, min_length=1)
    # What its parts cost: the name of a preset, or a table. They change no schedule.
    prices: str | dict[str, Any] | None = None
    # Nodes, by names or numbers such as ``"n[3,7]"`` or ``"2,6"``, on which nothing is started; what runs there when
    # a run begins goes on. They count as installed.
    drained: str | None = Field(default=None, min_length=1)

    @property
    def computing(self) -> int:
        """How many nodes have cores; they are numbered first."""
        return sum(kind.count for kind in self.nodes)

    @property
    def class_names(self) -> tuple[str, ...]:
        """What reports call each class of nodes, memory pools last."""
        nodes = [kind.name or f"class{i}" for i, kind in enumerate(self.nodes)]
        return (*nodes, *(pool.name or f"memory{i}" for i, pool in enumerate(self.memory_pools)))


def _machines_table(text: str, where: str) -> list[dict[str, object]]:
    """Node classes of a ``.machines`` table: id, name, nodes, cores, speed, memory in KB; one class a line."""
    groups: list[dict[str, object]] = []
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or line.startswith((";", "#")):
            continue
        try:
            _, name, count, cores, _, kilobytes = fields[:6]
            groups.append({"name": name, "count": int(count), "cores": int(cores), "memory": f"{int(kilobytes)} KB"})
        except ValueError:
            raise ClusterError(
                f"{where}, line {number}", repr(line[:80]), "id name nodes cores speed memory-in-KB"
            ) from None
    return groups


def content_of(path: str | Path, *, milli: bool = False) -> dict[str, Any]:
    """The keys of a cluster file, from any file that :meth:`Cluster.load` reads.

    ``milli``: count thousandths of cores, where the file does. A ClusterError if it cannot be read.
    """
    from unrack.cluster.formats.reading import described, text_of

    where = str(path)
    text = text_of(Path(path), where)
    if Path(path).suffix == ".machines":
        return {"name": Path(path).stem.split(".")[0], "nodes": _machines_table(text, where)}
    if Path(path).suffix != ".toml":
        from unrack.cluster.formats.described import converted

        if (system := described(Path(path), text, where, milli=milli)) is not None:
            return dict(converted(system).content)
    try:
        return {"name": Path(path).stem, **tomllib.loads(text)}
    except tomllib.TOMLDecodeError as error:
        raise ClusterError(where, str(error), "valid TOML") from None


def keys_at(location: tuple[int | str, ...]) -> list[str]:
    """The keys that there are where a key of a cluster file is unknown."""
    own = (NodeClass, MemoryPool, PoolFile, TierFile)
    tables: dict[str, type[BaseModel]] = dict(zip(("nodes", "memory_pools", "pools", "tiers"), own, strict=True))
    if len(location) == 1:
        return known_keys()
    table = tables.get(str(location[0]))
    return [] if table is None else [info.alias or name for name, info in table.model_fields.items()]


def known_keys() -> list[str]:
    """The keys of a cluster file; those of resources, too."""
    return [*ClusterFile.model_fields, *RESOURCES.names()]


def torus_of(file: ClusterFile, where: str) -> Ints | None:
    """int64[nodes, 2]: how the cores of each node are laid out; ``None`` where no class says it."""
    if all(kind.torus is None for kind in file.nodes):
        return None
    sides = [kind.torus or (0, 0) for kind in file.nodes]
    for index, (kind, (rows, columns)) in enumerate(zip(file.nodes, sides, strict=True)):
        if kind.torus is not None and kind.cores % (rows * columns):
            want = f"{rows * columns} cores on a die to divide the {kind.cores} of the node"
            raise ClusterError(f"{where}, nodes.{index}.torus", f"[{rows}, {columns}]", want)
    pools = sum(pool.count for pool in file.memory_pools)
    counts = [*(kind.count for kind in file.nodes), pools]
    return np.repeat(np.array([*sides, (0, 0)], np.int64), counts, axis=0)
