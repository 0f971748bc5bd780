"""The pools of a cluster from its file: single ones, one in each rack or node, and GPUs built into nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from unrack.cluster.file import ClusterFile
from unrack.cluster.pools.pool import PoolFile, PoolPlan
from unrack.errors import ClusterError
from unrack.kernels.arrays import Ints

Find = Callable[[Sequence[str], str], Sequence[int]]
"""Node ids of texts such as ``"0-3"`` or a rack's name; the second argument says where they stand."""
GPU = "gpu"


def plan_pools(file: ClusterFile, rack: Ints, rack_names: Sequence[str], find: Find, where: str) -> list[PoolPlan]:
    """The pools to be built, in order: those of ``pools``, then the GPUs of ``nodes``.

    Parameters
    ----------
    rack : int64[nodes]
        The rack of each node.

    Raises
    ------
    ClusterError
        A pool names a node that does not exist, or would be in racks or nodes that there are not.
    """
    plans: list[PoolPlan] = []
    for i, pool in enumerate(file.pools):
        key = f"pools[{i}]"
        named = pool.reach is not None
        reach = find(pool.reach or (), f"{where}, {key}.reach") if named else range(len(rack))
        homes = sorted(node for entry in pool.home or () for node in find([entry], f"{where}, {key}.home"))
        label = pool.name or pool.kind
        if pool.per is None:
            plans.append(PoolPlan(pool, label, reach, homes or (list(reach) if len(reach) == 1 else []), key))
            continue
        computing = [node for node in reach if node < file.computing]
        if not computing:
            raise ClusterError(f"{where}, {key}.reach", f"{pool.reach}", f"nodes with cores, for a pool per {pool.per}")
        if pool.per == "node":
            plans += in_nodes(pool, label, computing, key)
        else:
            plans += _in_racks(file, pool, label, computing, homes, rack, rack_names, (where, key))
    ends = accumulate(kind.count for kind in file.nodes)
    for i, (kind, end) in enumerate(zip(file.nodes, ends, strict=True)):
        if kind.gpus is not None:
            built_in = PoolFile(kind=GPU, count=kind.gpus, share=1, per="node")
            plans += in_nodes(built_in, GPU, range(end - kind.count, end), f"nodes.{i}.gpus")
    return plans


def in_nodes(pool: PoolFile, label: str, nodes: Sequence[int], key: str) -> list[PoolPlan]:
    """A pool built into each of the nodes."""
    return [PoolPlan(pool, f"{label}-node{node}", [node], [node], key) for node in nodes]


def _in_racks(
    file: ClusterFile,
    pool: PoolFile,
    label: str,
    nodes: Sequence[int],
    homes: Sequence[int],
    rack: Ints,
    rack_names: Sequence[str],
    at: tuple[str, str],
) -> list[PoolPlan]:
    """A pool in each rack of the nodes, for those in it; a ClusterError without racks, or if one has no home."""
    where, key = at
    if file.nodes_per_rack is None and all(kind.rack is None for kind in file.nodes):
        want = "racks: nodes_per_rack = N, or rack = NAME of the classes of nodes"
        raise ClusterError(f"{where}, {key}.per", "'rack', and the cluster has no racks", want)
    members: dict[int, list[int]] = {}
    for node in nodes:
        members.setdefault(int(rack[node]), []).append(node)
    sitting: dict[int, list[int]] = {}
    for node in homes:
        sitting.setdefault(int(rack[node]), []).append(node)
    for number in members:
        if homes and number not in sitting:
            raise ClusterError(
                f"{where}, {key}.home", f"no node of {rack_names[number]}", "a home in each of its racks"
            )
    return [
        PoolPlan(pool, f"{label}-{rack_names[number]}", reach, sitting.get(number, []), key)
        for number, reach in sorted(members.items())
    ]
