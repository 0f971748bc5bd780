"""How many volumes may be attached to a node, as kube-scheduler itself counts them; and what the driver does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from driven_pods import DrivenPods
from k8s_bed import KubernetesBed
from test_constraints_of_pods import Extender, wait_for
from test_volumes_of_pods import PLACE, add_claim, claiming, pictured

from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.client.objects import Kind, Metadata, Node, Pod
from unrack.live.kubernetes.client.others import Other
from unrack.live.kubernetes.volumes.claims import CLAIMS, VOLUMES
from unrack.live.kubernetes.volumes.limits import ATTACHMENTS, CSI_NODES, KINDS

CSI, PLAIN = "csi.example.com", "plain.example.com"
Content = dict[str, Any]


# --- in memory ------------------------------------------------------------------------------------------------------


def thing(name: str, spec: Content, namespace: str = "") -> Other:
    at = {"name": name, "namespace": namespace, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    return msgspec.convert({"metadata": at, "spec": spec}, Other)


def csi_node(name: str, **counts: int | None) -> Other:
    drivers = [
        {"name": key, "allocatable": {"count": count} if count is not None else None} for key, count in counts.items()
    ]
    return thing(name, {"drivers": drivers})


def attachment(name: str, node: str, volume: str, attacher: str = "csi") -> Other:
    return thing(name, {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}})


class World:
    """A picture with nodes and volumes v0, v1, …, each with a claim of its name."""

    def __init__(self, volumes: int = 8) -> None:
        self.picture = Picture("unrack")
        for name in ("n1", "n2"):
            self.picture.take_nodes([(None, Node(Metadata(name=name)))])
        for i in range(volumes):
            self.tell(VOLUMES, thing(f"v{i}", {"csi": {"driver": "csi", "volumeHandle": f"h{i}"}}))
            self.tell(CLAIMS, thing(f"v{i}", {"volumeName": f"v{i}"}, "default"))

    def tell(self, kind: Kind[Other], after: Other | None, before: Other | None = None) -> None:
        self.picture.take_others(kind, [(before, after)], "")

    def pod(self, name: str, *claims: str, node: str = "", phase: str = "Pending") -> Pod:
        volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
        spec = {"schedulerName": "unrack", "nodeName": node, "volumes": volumes}
        at = {"name": name, "namespace": "default", "uid": name}
        return msgspec.convert({"metadata": at, "spec": spec, "status": {"phase": phase}}, Pod)

    def add(self, *args: Any, **keys: Any) -> Pod:
        pod = self.pod(*args, **keys)
        before = self.picture.pods.get(f"default/{pod.metadata.name}/{pod.metadata.name}")
        self.picture.take_pods([(before, pod)])
        return pod

    def off(self, *claims: str) -> set[str]:
        found = self.picture.without_volumes(self.pod("asks", *claims))
        assert not isinstance(found, str)
        return found


def test_a_volume_counts_once_and_only_for_its_driver() -> None:
    world = World()
    assert world.off("v0", "v1", "v2") == set()  # no node says how many
    world.tell(CSI_NODES, csi_node("n1", csi=2, other=0))
    world.tell(CSI_NODES, csi_node("n2", csi=None))
    assert world.off("v0", "v1") == set()
    assert world.off("v0", "v1", "v2") == {"n1"}
    world.add("a", "v0", node="n1")
    world.add("b", "v0", node="n1")
    assert world.off("v0", "v1") == set()
    assert world.off("v1", "v2") == {"n1"}
    assert world.off() == set()
    world.add("b", "v1", node="n1")  # it is another by now
    assert world.off("v2") == {"n1"}
    world.add("b", "v1", node="n1", phase="Succeeded")
    assert world.off("v2") == set()


def test_what_is_attached_without_a_pod_counts_until_it_is_detached() -> None:
    world = World()
    world.tell(CSI_NODES, csi_node("n1", csi=2))
    world.add("a", "v0", node="n1")
    world.tell(ATTACHMENTS, attachment("of-a", "n1", "v0"))
    assert world.off("v1") == set()
    gone = attachment("late", "n1", "v5")
    world.tell(ATTACHMENTS, gone)
    world.tell(ATTACHMENTS, attachment("unknown", "n1", "no-volume"))
    world.tell(ATTACHMENTS, attachment("other", "n1", "v6", "other"))
    assert world.off("v1") == {"n1"}
    world.tell(ATTACHMENTS, attachment("late", "n2", "v5"), gone)  # it is elsewhere now
    assert world.off("v1") == set()
    world.tell(CSI_NODES, None, csi_node("n1", csi=2))
    assert world.off("v1", "v2", "v3") == set()


def test_a_pod_that_is_being_bound_counts_at_once() -> None:
    world = World()
    world.tell(CSI_NODES, csi_node("n1", csi=1))
    world.add("a", "v0")
    key = "default/a/a"
    assert world.picture.keeps_off(key, "n1") == ""
    world.picture.assume(key, "n1")
    assert world.off("v1") == {"n1"}
    world.picture.assume_not(key)
    assert world.off("v1") == set()


def test_limits_of_other_drivers_and_nodes_change_nothing() -> None:
    random = Random(1)
    world, plain = World(), World()
    for one in (world, plain):
        one.tell(CSI_NODES, csi_node("n1", csi=2))
        one.add("a", "v0", node="n1")
    world.tell(CSI_NODES, csi_node("n2", other=0))
    world.tell(CSI_NODES, csi_node("not-there", csi=9))
    world.tell(ATTACHMENTS, attachment("x", "n2", "v3"))
    for _ in range(30):
        claims = random.sample([f"v{i}" for i in range(8)], random.randrange(1, 4))
        assert world.off(*claims) == plain.off(*claims)


# --- on a server ----------------------------------------------------------------------------------------------------


def add_volume(bed: KubernetesBed, name: str, driver: str) -> None:
    """A volume of a CSI driver, and its claim."""
    spec = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "",
        "csi": {"driver": driver, "volumeHandle": f"handle-{name}"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
    }  # fmt: skip
    bed.admin.post("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    add_claim(bed, name, name, "ReadWriteMany")


def add_limit(bed: KubernetesBed, node: str, count: int, driver: str = CSI) -> None:
    drivers = [{"name": driver, "nodeID": node, "topologyKeys": [], "allocatable": {"count": count}}]
    uid = bed.admin.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
    body = {"metadata": {"name": node, "ownerReferences": [owner]}, "spec": {"drivers": drivers}}
    bed.admin.post(CSI_NODES.path(), body)


def attach(bed: KubernetesBed, volume: str, node: str) -> None:
    spec = {"attacher": CSI, "nodeName": node, "source": {"persistentVolumeName": volume}}
    bed.admin.post(ATTACHMENTS.path(), {"metadata": {"name": f"{volume}-{node}"}, "spec": spec})


def test_nodes_are_those_of_kube_scheduler(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    extender, random = Extender(), Random(3)
    at = f"http://127.0.0.1:{extender.server.server_port}"
    bed = new_kubernetes(scheduler={"urlPrefix": at, "filterVerb": "filter", "nodeCacheCapable": True}, kubelets=False)
    nodes = [f"n{i}" for i in range(6)]
    bed.add_nodes(nodes, {"cpu": "8", "memory": "8Gi"})
    volumes = [f"v{i}" for i in range(12)]
    for i, name in enumerate(volumes):
        add_volume(bed, name, PLAIN if i > 9 else CSI)
    for node in nodes[:5]:
        add_limit(bed, node, random.randrange(1, 5), CSI if node != "n4" else PLAIN)
    for i in range(14):
        used = random.sample(volumes, random.choice([1, 2]))
        bed.add_pod(f"there{i}", {"cpu": "1m"}, nodeName=random.choice(nodes), volumes=claiming(*used))
    for volume, node in {(random.choice(volumes), random.choice(nodes)) for _ in range(8)}:
        attach(bed, volume, node)
    names = [f"p{i}" for i in range(30)]
    for name in names:
        used = random.sample(volumes, random.choice([1, 2, 3]))
        bed.add_pod(name, {"cpu": "1m"}, volumes=claiming(*used), schedulerName="default-scheduler")
    decided, picture, sizes = wait_for(bed, extender, names), pictured(bed), Counter[str]()
    for kind in KINDS:
        listed = bed.admin.get(kind.path())["items"]
        picture.take_others(kind, [(None, msgspec.convert(one, Other)) for one in listed], "")
    for pod in picture.pods.values():
        if (name := pod.metadata.name) in decided:
            off = picture.without_volumes(pod)
            assert not isinstance(off, str)
            ours = set(nodes) - off
            assert ours == decided[name], (pod.spec.volumes, off)
            sizes["none" if not ours else "all" if len(ours) == 6 else "some"] += 1
    assert sizes["some"] >= 10
    extender.server.shutdown()


def test_pods_wait_until_their_volumes_can_be_attached(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
    for node, count in (("n1", 2), ("n2", 1)):
        add_limit(kubernetes, node, count)
    for i in range(5):
        add_volume(kubernetes, f"v{i}", CSI)
    with DrivenPods(kubernetes) as driven:
        for i in range(5):
            kubernetes.add_pod(f"p{i}", {"cpu": "1"}, volumes=claiming(f"v{i}"))
        kubernetes.add_pod("plain", {"cpu": "1"})
        driven.until(lambda: len(driven.placed()) == 4)
        for _ in range(20):
            driven.go()
        placed = driven.placed()
        assert Counter(node for name, node in placed.items() if name != "plain") == {"n1": 2, "n2": 1}
        there = next(name for name, node in placed.items() if node == "n1" and name != "plain")
        kubernetes.add_pod("shares", {"cpu": "1"}, volumes=claiming(f"v{there[1:]}"))
        driven.until(lambda: driven.placed().get("shares") == "n1")  # its volume is there, and counts once
        first = next(name for name, node in placed.items() if node == "n2" and name != "plain")
        kubernetes.admin.delete(f"/api/v1/namespaces/default/pods/{first}", gracePeriodSeconds=0)
        driven.until(lambda: len(driven.placed().keys() - {"shares"}) == 4)
    for kind in (PLACE, "/api/v1/persistentvolumes"):
        for one in kubernetes.admin.get(kind)["items"]:
            kubernetes.admin.delete(f"{kind}/{one['metadata']['name']}")
            kubernetes.admin.patch(f"{kind}/{one['metadata']['name']}", {"metadata": {"finalizers": None}})
    kubernetes.admin.delete_all(CSI_NODES.path())
