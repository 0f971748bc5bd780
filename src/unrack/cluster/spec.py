"""What there is: nodes with cores and memory, in racks and failure domains."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from unrack.cluster.pool import Devices, PoolFile, build_devices, no_devices
from unrack.errors import ClusterError, first_fault, got_and_want
from unrack.units import memory_mb

Ints = NDArray[np.int64]
MOST_NODES = 10_000_000


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("a number")
    return value


def _capacity_mb(value: object) -> object:
    known = _number(value)
    return memory_mb(known, rounding="down") if isinstance(known, int | float | str) else known


CapacityMb = Annotated[int, BeforeValidator(_capacity_mb), Field(ge=0)]
Count = Annotated[int, BeforeValidator(_number), Field(ge=1)]


class NodeClass(BaseModel):
    """Nodes that are alike.

    Attributes
    ----------
    count
        How many.
    cores
        Of each node; 1 or more.
    memory_mb
        Of each node: MB, or text such as ``"90 GB"``. Left out: memory is not counted on these nodes.
    name
        What reports call the class.
    rack
        Put all of them into one rack of this name; otherwise see ``nodes_per_rack`` of the cluster.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: Count = Field(le=MOST_NODES)
    cores: Count = Field(lt=2**31)
    memory_mb: CapacityMb | None = Field(default=None, alias="memory")
    name: str = ""
    rack: str | None = None


class ClusterFile(BaseModel):
    """The keys of a cluster file or of a ``[[clusters]]`` table of a study."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "cluster"
    nodes: list[NodeClass] = Field(min_length=1)
    nodes_per_rack: Count | None = None
    domains: dict[str, list[str]] = Field(default_factory=dict)
    pools: list[PoolFile] = Field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Cluster:
    """A data centre as columns over its nodes.

    Attributes
    ----------
    name
        What reports call it.
    cores, memory_mb : int64[nodes]
        Installed on each node. Memory that is not counted is ``UNCOUNTED_MB``.
    node_class, rack : int64[nodes]
        Indices into ``class_names`` and ``rack_names``.
    domains
        Further failure domains: name → node ids that fail together. Racks and single nodes are domains too.
    devices
        The pooled devices; none by default.
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
        try:
            file = ClusterFile.model_validate(dict(content))
        except ValidationError as error:
            fault = first_fault(error.errors())
            key = ".".join(str(part) for part in fault["loc"])
            raise ClusterError(f"{where}, {key}" if key else where, *got_and_want(fault)) from None
        return _build(file, where)

    @classmethod
    def load(cls, path: str | Path) -> Cluster:
        """Read a cluster file: TOML, or the ``.machines`` table that goes with some grid logs.

        Raises
        ------
        ClusterError
            It cannot be read, or says something impossible.
        """
        where = str(path)
        try:
            text = Path(path).read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise ClusterError(where, str(error), "a readable text file") from None
        if Path(path).suffix == ".machines":
            return cls.from_dict({"name": Path(path).stem.split(".")[0], "nodes": _machines(text, where)}, where)
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ClusterError(where, str(error), "valid TOML") from None
        return cls.from_dict({"name": Path(path).stem, **content}, where)

    @classmethod
    def preset(cls, name: str) -> Cluster:
        """One of ``unrack presets``."""
        from unrack.cluster.presets import PRESETS

        if name not in PRESETS:
            raise ClusterError("preset", repr(name), f"one of {', '.join(PRESETS)}")
        return cls.from_dict({"name": name, **PRESETS[name].content}, f"preset {name}")

    def __len__(self) -> int:
        return len(self.cores)

    @property
    def total_cores(self) -> int:
        """Installed cores."""
        return int(self.cores.sum())

    @property
    def total_mb(self) -> int | None:
        """Installed memory, MB; ``None`` where some node's memory is not counted."""
        return None if bool((self.memory_mb == UNCOUNTED_MB).any()) else int(self.memory_mb.sum())

    def domain(self, name: str) -> tuple[int, ...]:
        """The nodes that fail together under a name: a domain of the file, a rack, or ``node<id>``.

        Raises
        ------
        ClusterError
            There is no such domain.
        """
        if name in self.domains:
            return self.domains[name]
        if name in self.rack_names:
            return tuple(int(node) for node in np.flatnonzero(self.rack == self.rack_names.index(name)))
        match = re.fullmatch(r"node(\d{1,9})", name)
        if match is not None and int(match[1]) < len(self):
            return (int(match[1]),)
        raise ClusterError(
            "failure domain", repr(name), f"a domain or rack of the cluster, or node0 … node{len(self) - 1}"
        )

    def digest(self) -> str:
        """SHA-256 over everything that can change a schedule."""
        total = hashlib.sha256()
        for column in (self.cores, self.memory_mb, self.node_class, self.rack):
            total.update(column.astype("<i8").tobytes())
        total.update(repr((self.class_names, self.rack_names, sorted(self.domains.items()))).encode())
        if len(self.devices):
            total.update(self.devices.identity().encode())
        return total.hexdigest()


UNCOUNTED_MB = 2**42
"""Memory of a node whose memory is not counted: more than any job may ask."""


def _build(file: ClusterFile, where: str) -> Cluster:
    total = sum(group.count for group in file.nodes)
    if total > MOST_NODES:
        raise ClusterError(f"{where}, nodes", f"{total} nodes", f"at most {MOST_NODES}")
    counts = [group.count for group in file.nodes]
    names = tuple(group.name or f"class{i}" for i, group in enumerate(file.nodes))
    if len(set(names)) != len(names):
        raise ClusterError(f"{where}, nodes", f"node classes {names}", "a different name for each")
    cores = np.repeat(np.array([group.cores for group in file.nodes], np.int64), counts)
    memory = [UNCOUNTED_MB if group.memory_mb is None else group.memory_mb for group in file.nodes]
    rack, rack_names = _racks(file)
    domains = {name: _nodes(members, total, f"{where}, domains.{name}") for name, members in file.domains.items()}
    for name in domains:
        if name in rack_names or re.fullmatch(r"node\d+", name):
            raise ClusterError(f"{where}, domains.{name}", repr(name), "a name that no rack or node has")

    def find(members: Sequence[str], at: str) -> Sequence[int]:
        found: set[int] = set()
        for member in members:
            if member in domains:
                found.update(domains[member])
            elif member in rack_names:
                found.update(np.flatnonzero(rack == rack_names.index(member)).tolist())
            else:
                found.update(_nodes([member], total, at))
        return sorted(found)

    return Cluster(
        name=file.name,
        cores=cores,
        memory_mb=np.repeat(np.array(memory, np.int64), counts),
        node_class=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        class_names=names,
        rack=rack,
        rack_names=rack_names,
        domains=domains,
        devices=build_devices(file.pools, total, find, where),
    )


def _racks(file: ClusterFile) -> tuple[Ints, tuple[str, ...]]:
    names: dict[str, int] = {}
    columns = []
    at = 0
    for group in file.nodes:
        if group.rack is not None:
            columns.append(np.full(group.count, names.setdefault(group.rack, len(names)), np.int64))
        elif file.nodes_per_rack is None:
            columns.append(np.full(group.count, names.setdefault("rack0", len(names)), np.int64))
        else:
            numbers = np.arange(at, at + group.count) // file.nodes_per_rack
            first = {int(number): names.setdefault(f"rack{number}", len(names)) for number in np.unique(numbers)}
            columns.append(np.array([first[int(number)] for number in numbers], np.int64))
        at += group.count
    return np.concatenate(columns), tuple(names)


def _nodes(members: Sequence[str], total: int, where: str) -> tuple[int, ...]:
    """Node ids from texts such as ``"0-15"`` and ``"20"``."""
    found: set[int] = set()
    for member in members:
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", member)
        first = int(match[1]) if match else 0
        last = int(match[2] or match[1]) if match else -1
        if not first <= last < total:
            raise ClusterError(where, repr(member), f"node ids such as '3' or '0-15', below {total}")
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def _machines(text: str, where: str) -> list[dict[str, object]]:
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
