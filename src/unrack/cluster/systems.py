"""Families of clusters with a few parameters: systems of which a share of the nodes has more memory."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from unrack.cluster.file import MOST_NODES, CapacityMb, Count, number
from unrack.cluster.spec import Cluster
from unrack.resources.checked import Strict, validated
from unrack.units import memory_mb


class MemorySystem(Strict):
    """The keys of ``memory_system = {…}``: nodes of normal memory, then nodes of large memory.

    Attributes
    ----------
    nodes, cores
        How many nodes, and cores in each.
    large_share
        Which part of the nodes is large, 0 to 1; their number is rounded to the nearest, half up.
    normal_mb, large_mb
        Memory of a normal and of a large node: MB, or text such as ``"64 GB"``.
    """

    nodes: Count = Field(default=1024, le=MOST_NODES)
    cores: Count = Field(default=32, lt=2**31)
    large_share: Annotated[FiniteFloat, BeforeValidator(number), Field(ge=0, le=1)] = 0.5
    normal_mb: CapacityMb = Field(default=memory_mb("32 GB"), alias="normal")
    large_mb: CapacityMb = Field(default=memory_mb("64 GB"), alias="large")

    @model_validator(mode="after")
    def _large_is_larger(self) -> MemorySystem:
        if self.large_mb < self.normal_mb:
            got = f"large = {self.large_mb} MB below normal = {self.normal_mb} MB"
            raise ValueError(f"large nodes with no less memory than normal ones, not {got}")
        return self

    @property
    def large_nodes(self) -> int:
        """How many nodes are large."""
        return math.floor(self.nodes * self.large_share + 0.5)

    @property
    def classes(self) -> list[dict[str, Any]]:
        """The ``nodes`` of the cluster's file; a class without nodes is left out."""
        kinds = (("normal", self.nodes - self.large_nodes, self.normal_mb), ("large", self.large_nodes, self.large_mb))
        return [{"name": name, "count": count, "cores": self.cores, "memory": mb} for name, count, mb in kinds if count]


def memory_system(
    nodes: int = 1024,
    cores: int = 32,
    large_share: float = 0.5,
    normal: float | str = "32 GB",
    large: float | str = "64 GB",
    name: str | None = None,
    **keys: Any,
) -> Cluster:
    """A cluster of nodes of normal memory, then nodes of large memory, as the systems of Vieira Zacarias (2023).

    Parameters
    ----------
    nodes, cores
        How many nodes, and cores in each.
    large_share
        Which part of the nodes is large, 0 to 1; their number is rounded to the nearest, half up.
    normal, large
        Memory of a normal and of a large node: MB, or text such as ``"64 GB"``.
    name
        What reports call it; default: ``memory-NODES-PERCENT``.
    keys
        Further keys of a cluster file: ``lending``, ``memory_pools``, ``nodes_per_rack`` …

    Raises
    ------
    ClusterError
        A number is out of range, or a key does not exist.

    Examples
    --------
    >>> system = memory_system(nodes=8, large_share=0.25, lending=2)
    >>> system.memory_mb.tolist() == [32768] * 6 + [65536] * 2, system.lending_group.tolist()
    (True, [0, 0, 1, 1, 2, 2, 3, 3])
    """
    where = "memory_system"
    given = {"nodes": nodes, "cores": cores, "large_share": large_share, "normal": normal, "large": large}
    system = validated(MemorySystem.model_validate, given, f"{where}, ")
    called = f"memory-{nodes}-{100 * large_share:g}" if name is None else name
    return Cluster.from_dict({"name": called, "nodes": system.classes, **keys}, where)
