"""GPUs of nodes as a pool from which every node may attach."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from unrack.live.kubernetes.adapter.picture import is_usable
from unrack.live.kubernetes.client.objects import Node
from unrack.live.kubernetes.machines import amounts_of
from unrack.live.kubernetes.remote.table import ServerPods
from unrack.resources.checked import ranges
from unrack.units import SECOND_US

SERVER = "unrack.io/server-of"
"""The label of server pods: of which scheduler."""
KIND = "remote_gpu"


class GpuPool(NamedTuple):
    """A pool of a cluster file, and the names of its devices: ``NODE:0``, ``NODE:1`` and so on."""

    table: dict[str, Any]
    devices: tuple[str, ...]


class Taken(NamedTuple):
    """What is not for clients: how many of the GPUs of each node, by its name, and those of them that have a name."""

    of: Mapping[str, int] = {}
    devices: frozenset[str] = frozenset()


NONE_TAKEN = Taken()


def _devices(node: str, count: int, taken: Collection[str], held: Collection[str]) -> list[str]:
    """So many devices of a node: those that are held, then the first of the others, in order."""
    named = (f"{node}:{number}" for number in range(count + len(taken) + len(held)))
    free = sorted((name not in held, i, name) for i, name in enumerate(named) if name not in taken)
    return [name for _, _, name in sorted(free[:count], key=lambda one: one[1])]


def node_of(device: str) -> str:
    """The node in which a GPU sits."""
    return device.rpartition(":")[0]


def serves(options: ServerPods, node: Node) -> bool:
    """True if other nodes may use the GPUs of a node."""
    return all(node.metadata.labels.get(key) == value for key, value in options.nodes.items())


def without_gpus(options: ServerPods, node: Node) -> Node:
    """A node as pods see it: its GPUs are reached through servers alone."""
    if not serves(options, node):
        return node
    status = node.status
    kept = {
        name: {key: amount for key, amount in getattr(status, name).items() if key != options.resource}
        for name in ("allocatable", "capacity")
    }
    return Node(node.metadata, node.spec, type(status)(kept["allocatable"], kept["capacity"], status.conditions))


def pool_of(
    options: ServerPods, nodes: Mapping[str, Node], names: tuple[str, ...], taken: Taken, held: Collection[str]
) -> GpuPool | None:
    """The pool of the GPUs of the nodes that may be used; ``None``: they have none.

    Parameters
    ----------
    nodes, names
        By name; all of them, in the order of the cluster.
    taken, held
        What is not for clients; the devices that they have now.
    """
    count = {
        name: max(0, int(amounts_of(nodes[name]).get(options.resource, 0)) - taken.of.get(name, 0))
        for name in names
        if serves(options, nodes[name]) and is_usable(nodes[name])
    }
    most = max(count.values(), default=0)
    if not most:
        return None
    home = [
        run
        for least in range(1, most + 1)
        for run in ranges(i for i, n in enumerate(names) if count.get(n, 0) >= least)
    ]
    devices = tuple(device for name in names for device in _devices(name, count.get(name, 0), taken.devices, held))
    latency = f"{options.attach_us / SECOND_US} s"
    table = {"kind": KIND, "count": len(devices), "share": 1, "home": home, "attach_latency": latency}
    return GpuPool(table, devices)
