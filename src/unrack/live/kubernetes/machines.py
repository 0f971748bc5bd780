"""The nodes of a running Kubernetes as a cluster: cores, memory, GPUs, and counters of what else a pod asks for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec

from unrack.cluster.formats.described import DescribedNode, converted, counter
from unrack.cluster.formats.kubernetes.nodes import GPUS, kubernetes_nodes
from unrack.errors import ClusterError
from unrack.kubernetes_text import quantity
from unrack.live.kubernetes.client.objects import Node
from unrack.slurm_text.hostlists import compress

MB = 2**20
PODS_OF_NODE = "pods"


class Machines(NamedTuple):
    """A cluster, and in what what pods ask for is counted."""

    content: dict[str, Any]  # keys of a cluster file
    nodes: Mapping[str, Node]  # name → those that are in it
    drained: frozenset[str]  # names of those on which nothing is started
    milli: bool  # cores are counted in thousandths
    gpu: str  # the resource that is its GPUs; "": it has none
    counters: Mapping[str, str]  # other resource → its counter
    notes: tuple[str, ...]


def machines_of(
    nodes: Sequence[Node], asked: Sequence[Mapping[str, Fraction]], running: Mapping[str, int], name: str = "Kubernetes"
) -> Machines:
    """The nodes that are in use: pods may be started there, or run there.

    Parameters
    ----------
    nodes
        All of them.
    asked
        What each pod asks.
    running
        Name of a node → how many pods run there.
    name
        What reports call it.

    Raises
    ------
    ClusterError
        No node is left, or one has a value that cannot be.
    """
    down = {node.metadata.name for node in nodes if not is_open(node)}
    kept = [node for node in nodes if node.metadata.name not in down or running.get(node.metadata.name)]
    if not kept:
        raise ClusterError("the nodes of Kubernetes", f"{len(nodes)}, none in use", "one or more that are ready")
    amounts = [amounts_of(node) for node in kept]
    parts = [one.get("cpu", Fraction(1)).denominator > 1 for one in amounts]
    milli = any(parts) or any(one.get("cpu", Fraction(0)).denominator > 1 or not one.get("cpu") for one in asked)
    listed = {"kind": "NodeList", "items": [msgspec.to_builtins(node) for node in kept]}
    found = kubernetes_nodes(listed, "the nodes of Kubernetes", name, milli=milli)
    installed = Counter[str]()
    for one in amounts:
        installed.update({key: math.floor(one.get(key, Fraction(0))) for key in GPUS})
    gpu = max(GPUS, key=lambda key: installed[key]) if any(installed.values()) else ""
    described = tuple(_only(one, gpu, own) for one, own in zip(found.nodes, amounts, strict=True))
    made = converted(replace(found, nodes=described, notes=()), all_nodes=True)
    wanted = {key for one in asked for key, amount in one.items() if amount} - {"cpu", "memory", gpu}
    least = min((int(one[PODS_OF_NODE]) for one in amounts if PODS_OF_NODE in one), default=len(asked))
    wanted |= {PODS_OF_NODE} if len(asked) > least else set()
    tables, counters = _counted(sorted(wanted), kept, amounts)
    content = {**made.content, "site": {}} | ({"counted": tables} if tables else {})
    drained = [node.metadata.name for node in kept if node.metadata.name in down]
    if drained:
        content["drained"] = compress(drained)
    notes = [*made.notes]
    if len(kept) < len(nodes):
        notes.append(f"Nodes that are cordoned or not ready, and run nothing, are left out: {len(nodes) - len(kept)}.")
    if milli:
        notes.append("Cores are counted in thousandths.")
    return Machines(
        content, {node.metadata.name: node for node in kept}, frozenset(drained), milli, gpu, counters, tuple(notes)
    )


def is_open(node: Node) -> bool:
    """True if it is ready and not cordoned; its taints are another matter."""
    ready = [one.status for one in node.status.conditions if one.type == "Ready"]
    return not node.spec.unschedulable and all(status == "True" for status in ready)


def counted(resource: str, amount: Fraction, whole: Callable[[Fraction], int]) -> int:
    """An amount as its counter has it: whole, and in MB where Kubernetes says bytes."""
    return whole(amount / MB if _is_bytes(resource) else amount)


def _is_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def amounts_of(node: Node) -> dict[str, Fraction]:
    """What pods may have of a node: cores, bytes and pieces by resource."""
    of = node.status.allocatable or node.status.capacity
    try:
        return {key: quantity(value) for key, value in of.items()}
    except ValueError as error:
        raise ClusterError(f"node {node.metadata.name}, status.allocatable", *str(error).split(" is not ", 1)) from None


def _only(node: DescribedNode, gpu: str, amounts: Mapping[str, Fraction]) -> DescribedNode:
    gpus = math.floor(amounts.get(gpu, Fraction(0)))
    return replace(node, gpus=gpus, model=node.model if gpus else "", others={}, down="", labels={})


def _counted(
    wanted: Sequence[str], nodes: Sequence[Node], amounts: Sequence[Mapping[str, Fraction]]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Counters of resources of nodes, a table for each amount of each; and the counter of each resource."""
    tables, counters = list[dict[str, Any]](), dict[str, str]()
    for resource in wanted:
        named = counter(resource)
        while named in counters.values():
            named += "_"
        places: dict[int, list[str]] = {}
        for node, own in zip(nodes, amounts, strict=True):
            amount = counted(resource, own.get(resource, Fraction(0)), math.floor)
            if amount > 0:
                places.setdefault(amount, []).append(node.metadata.name)
        for amount, names in sorted(places.items()):
            tables.append({"name": named, "amount": amount, "per": "node", "nodes": [compress(names)]})
            counters[resource] = named
    return tables, counters
