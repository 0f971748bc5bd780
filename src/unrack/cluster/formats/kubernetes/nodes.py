"""Nodes as ``kubectl get nodes -o json`` tells of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from unrack.cluster.formats.described import Described, DescribedNode
from unrack.cluster.formats.site import parsed
from unrack.errors import ClusterError
from unrack.kubernetes_text import entries, inside, objects, quantity, table

GPUS = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
"""Resources that are GPUs."""
_MODELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name")
_RACKS = ("topology.kubernetes.io/rack", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_MASTERS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def kubernetes_nodes(content: Any, where: str, name: str, *, milli: bool = False) -> Described:
    """Read a list of nodes; other objects of the list are passed over.

    ``content``: the parsed JSON; ``where``, ``name``: what errors call the file, and what the cluster is called;
    ``milli``: count thousandths of cores in place of whole ones. A ClusterError if there is no node, or one has a value
    that cannot be.
    """
    try:
        found = objects(content, "Node")
    except ValueError as error:
        raise ClusterError(where, "another document", str(error).rpartition(" is not ")[2]) from None
    if not found:
        raise ClusterError(where, "no node", "the output of kubectl get nodes,pods -o json")
    tainted: Counter[str] = Counter()
    nodes = tuple(_node(node, f"{where}, {at}".rstrip(", "), milli, tainted) for at, node in found)
    notes = [
        f"Open to all here in spite of the taint {taint}: {count} node{'s' * (count != 1)}."
        for taint, count in sorted(tainted.items())
    ]
    return Described(where, name, nodes, {}, tuple(notes))


def _node(node: Mapping[str, Any], at: str, milli: bool, tainted: Counter[str]) -> DescribedNode:
    allocatable = table(node, "status", "allocatable") or table(node, "status", "capacity")

    def amount(key: str, unit: int = 1) -> int:
        if key not in allocatable:
            return 0
        number = math.floor(parsed(allocatable[key], f"{at}, status.allocatable.{key}", quantity) / unit)
        if number >= 2**42:
            raise ClusterError(f"{at}, status.allocatable.{key}", repr(allocatable[key])[:80], "less")
        return number

    for key in ("cpu", "memory"):
        if key not in allocatable:
            raise ClusterError(f"{at}, status.allocatable.{key}", "nothing", "a quantity such as 8 or 32Gi")
    cores = amount("cpu") if not milli else math.floor(quantity(allocatable["cpu"]) * 1000)
    if cores >= 2**31:
        raise ClusterError(f"{at}, status.allocatable.cpu", repr(allocatable["cpu"])[:80], "fewer cores")
    labels = table(node, "metadata", "labels")
    gpus = next((key for key in GPUS if amount(key)), None)
    down = node_down(node)
    for taint in entries(node, "spec", "taints"):
        if not down and taint.get("effect") in ("NoSchedule", "NoExecute"):
            tainted[str(taint.get("key"))] += 1
    counted = {key for key in allocatable if "/" in str(key)} - {gpus}
    return DescribedNode(
        _name(node, at),
        cores,
        amount("memory", 2**20),
        amount(gpus) if gpus else 0,
        next((str(labels[key]) for key in _MODELS if key in labels), "") if gpus else "",
        frozenset(),
        next((str(labels[key]) for key in _RACKS if key in labels), ""),
        down,
        {key: held for key in sorted(counted) if (held := amount(key))},
        labels=labels,
    )


def _name(node: Mapping[str, Any], at: str) -> str:
    name = inside(node, "metadata", "name")
    if not isinstance(name, str) or not name or any(mark in name for mark in ",[] \t\n"):
        raise ClusterError(f"{at}, metadata.name", repr(name)[:80], "the name of a node")
    return name


def node_down(node: Mapping[str, Any]) -> str:
    """Why nothing is started on the node; ``""``: it is in use."""
    if inside(node, "spec", "unschedulable") is True:
        return "cordoned"
    ready = [one for one in entries(node, "status", "conditions") if one.get("type") == "Ready"]
    if any(one.get("status") != "True" for one in ready):
        return "not ready"
    taints = [str(one.get("key")) for one in entries(node, "spec", "taints")]
    return "of the control plane" if any(key in _MASTERS for key in taints) else ""
