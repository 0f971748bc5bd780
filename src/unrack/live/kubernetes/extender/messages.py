"""What kube-scheduler asks an extender, and is answered: ``k8s.io/kube-scheduler/extender/v1``."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from unrack.live.kubernetes.client.objects import Pod

BEST_SCORE = 10
"""Scores of nodes are from 0 to this."""


class Message(Struct, rename="pascal", frozen=True):
    """What is sent either way."""


class Items(Struct, frozen=True):
    """Whole nodes, which go back as they came."""

    items: list[Raw] = []


class AskedPod(Message, frozen=True):
    """A pod, and the nodes on which it may run: by name, or whole where the extender is not ``nodeCacheCapable``."""

    pod: Pod
    nodes: Items | None = None
    node_names: list[str] | None = None


class Filtered(Message, frozen=True):
    """The nodes that are left, as they were asked for; the others, and those of them that stay so; or an error."""

    nodes: Items | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = {}
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class Scored(Message, frozen=True):
    """How much a node is wanted."""

    host: str
    score: int


class Bound(Message, frozen=True):
    """The pod that is to be bound, and to which node."""

    pod_name: str
    pod_namespace: str
    node: str
    pod_uid: str = field(name="PodUID")


class _Named(Struct, frozen=True):
    name: str = ""


class _Node(Struct, frozen=True):
    metadata: _Named


def names_of(asked: AskedPod) -> list[str]:
    """The nodes that are asked about.

    Raises
    ------
    msgspec.ValidationError
        There is neither a list of names nor one of nodes, or one of these has no name.
    """
    if asked.node_names is not None:
        return asked.node_names
    if asked.nodes is None:
        raise msgspec.ValidationError("Expected `NodeNames` or `Nodes`")
    return [msgspec.json.decode(one, type=_Node).metadata.name for one in asked.nodes.items]


def filtered(asked: AskedPod, names: list[str], later: dict[str, str], never: dict[str, str]) -> Filtered:
    """The answer where some nodes have no room now, and others never have."""
    fits = [name not in later and name not in never for name in names]
    if asked.node_names is not None:
        left: Any = [name for name, one in zip(names, fits, strict=True) if one]
        return Filtered(node_names=left, failed_nodes=later, failed_and_unresolvable_nodes=never)
    assert asked.nodes is not None
    left = [node for node, one in zip(asked.nodes.items, fits, strict=True) if one]
    return Filtered(Items(left), failed_nodes=later, failed_and_unresolvable_nodes=never)
