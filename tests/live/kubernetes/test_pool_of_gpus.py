"""Which GPUs of nodes are a pool, and what they are called."""

from __future__ import annotations

from typing import Any

from unrack.cluster.spec import Cluster
from unrack.live.kubernetes.adapter.terms import Added, Terms
from unrack.live.kubernetes.client.objects import Metadata, Node, NodeStatus
from unrack.live.kubernetes.remote.pool import Taken
from unrack.live.kubernetes.remote.table import ServerPods

SERVES = ServerPods(kind="server-pods", pod="server.yaml", port=1)


def node(name: str, count: int, **labels: str) -> Node:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"} | ({"nvidia.com/gpu": str(count)} if count else {})
    return Node(Metadata(name=name, uid=name, labels=labels), status=NodeStatus(amounts))


def terms(*nodes: Node, servers: ServerPods = SERVES, taken: Taken = Taken(), held: Any = ()) -> Terms:  # noqa: B008
    return Terms({one.metadata.name: one for one in nodes}, Added(1_000_000, servers=servers), taken=taken, held=held)


def homes(found: Terms) -> list[str]:
    cluster = Cluster.from_dict(found.content, "cluster")
    return [found.names[home] for home in cluster.devices.home]


def test_every_gpu_is_at_home_in_its_node_however_many_that_has() -> None:
    found = terms(node("a", 0), node("b", 3), node("c", 1), node("d", 0), node("e", 8))
    assert homes(found) == [name.rpartition(":")[0] for name in found.devices]
    assert sorted(found.devices) == ["b:0", "b:1", "b:2", "c:0", *(f"e:{i}" for i in range(8))]


def test_what_others_have_is_not_in_the_pool_and_what_clients_have_keeps_its_name() -> None:
    both = node("a", 4), node("b", 2)
    assert terms(*both, taken=Taken({"a": 2})).devices == ("a:0", "a:1", "b:0", "b:1")
    assert terms(*both, taken=Taken({"a": 2}), held={"a:3", "b:1"}).devices == ("a:0", "a:3", "b:0", "b:1")
    assert terms(*both, taken=Taken({"a": 1}, frozenset({"a:0"}))).devices == ("a:1", "a:2", "a:3", "b:0", "b:1")
    assert terms(*both, taken=Taken({"a": 9, "b": 2})).devices == ()


def test_only_nodes_with_the_labels_serve_and_the_gpus_of_the_others_are_their_own() -> None:
    labelled = ServerPods(kind="server-pods", pod="server.yaml", port=1, nodes={"gpus": "shared"})
    found = terms(node("a", 2), node("b", 2, gpus="shared"), servers=labelled)
    assert found.devices == ("b:0", "b:1")
    assert found.machines.gpu == "nvidia.com/gpu"


def test_a_node_that_is_not_ready_serves_nothing() -> None:
    closed = node("a", 2)
    closed = Node(closed.metadata, type(closed.spec)(unschedulable=True), closed.status)
    assert terms(closed, node("b", 1)).devices == ("b:0",)
