"""Where pods may run by the volumes that they claim: as kube-scheduler itself has it; and what the driver does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from driven_pods import DrivenPods
from k8s_bed import KubernetesBed
from test_constraints_of_pods import Extender, wait_for

from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.client.others import Other
from unrack.live.kubernetes.places import may_run
from unrack.live.kubernetes.volumes.claims import CLAIMS, VOLUMES

Content = dict[str, Any]
ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
PLACE = "/api/v1/namespaces/default/persistentvolumeclaims"
SIZE = {"storage": "1Gi"}


def add_volume(bed: KubernetesBed, name: str, claim: str, mode: str = "ReadWriteOnce", **keys: Any) -> None:
    """A volume that a claim has."""
    affinity = keys.get("nodes")
    spec: Content = {
        "capacity": SIZE, "accessModes": [mode], "hostPath": {"path": "/x"}, "storageClassName": "",
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": claim},
    }  # fmt: skip
    if affinity is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": affinity}}
    metadata = {"name": name, "labels": keys.get("labels", {})}
    bed.admin.post("/api/v1/persistentvolumes", {"metadata": metadata, "spec": spec})


def add_claim(bed: KubernetesBed, name: str, volume: str = "", mode: str = "ReadWriteOnce", **keys: Any) -> None:
    """A claim; what the controller of volumes would do is done."""
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if keys.get("completed", bool(volume)) else {}
    metadata = {"name": name, "annotations": bound, "ownerReferences": keys.get("owners", [])}
    spec = {"accessModes": [mode], "resources": {"requests": SIZE}, "storageClassName": keys.get("kind", "")}
    spec |= {"volumeName": volume} if volume else {}
    bed.admin.post(PLACE, {"metadata": metadata, "spec": spec})
    bed.admin.patch(
        f"{PLACE}/{name}/status", {"status": {"phase": keys.get("phase", "Bound" if volume else "Pending")}}
    )


def claiming(*claims: str) -> list[Content]:
    return [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": name}} for i, name in enumerate(claims)]


def some_terms(random: Random) -> list[Content] | None:
    label = random.choice([("kubernetes.io/hostname", [f"n{i}" for i in range(6)]), (ZONE, ["a", "b", "c"])])
    values = random.sample(label[1], random.choice([1, 2]))
    operator = random.choice(["In", "In", "NotIn"])
    one = {"matchExpressions": [{"key": label[0], "operator": operator, "values": values}]}
    return random.choice([None, [one], [one], [one, {"matchExpressions": [{"key": "fast", "operator": "Exists"}]}]])


def add_world(bed: KubernetesBed, random: Random) -> list[str]:
    """Nodes, volumes, and claims of all kinds; the names of these."""
    for i in range(6):
        labels = {key: random.choice("abc") for key in (ZONE, OLD_ZONE) if random.random() < 0.6}
        bed.add_nodes([f"n{i}"], {"cpu": "64", "memory": "64Gi"}, labels=labels | ({"fast": ""} if i < 2 else {}))
    for i in range(12):
        zones = (
            {random.choice([ZONE, OLD_ZONE]): random.choice(["a", "b", "a__b", "c"])} if random.random() < 0.4 else {}
        )
        mode = "ReadWriteOncePod" if i in (0, 1) else "ReadWriteOnce"
        add_volume(bed, f"pv{i}", f"c{i}", mode, nodes=some_terms(random), labels=zones)
        add_claim(bed, f"c{i}", f"pv{i}", mode)
    add_claim(bed, "unbound")
    add_claim(bed, "at-once", kind="at-once")
    add_claim(bed, "no-volume", "nowhere")
    add_claim(bed, "lost", "nowhere", phase="Lost")
    add_volume(bed, "half", "half")
    add_claim(bed, "half", "half", completed=False, phase="Pending")
    add_volume(bed, "going", "going")
    add_claim(bed, "going", "going")
    bed.admin.delete(f"{PLACE}/going")  # it stays, as its finalizer is there
    return [*(f"c{i}" for i in range(12)), "unbound", "at-once", "no-volume", "lost", "half", "going", "absent"]


def pictured(bed: KubernetesBed) -> Picture:
    """All that the server says."""
    picture = Picture("unrack")
    every = {plural: bed.admin.get(f"/api/v1/{plural}")["items"] for plural in ("nodes", "pods")}
    picture.take_nodes([(None, msgspec.convert(one, Node)) for one in every["nodes"]])
    picture.take_pods([(None, msgspec.convert(one, Pod)) for one in every["pods"]])
    for kind in (CLAIMS, VOLUMES):
        listed = bed.admin.get(kind.path())["items"]
        picture.take_others(kind, [(None, msgspec.convert(one, Other)) for one in listed], "")
    return picture


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_nodes_are_those_of_kube_scheduler(new_kubernetes: Callable[..., KubernetesBed], seed: int) -> None:
    extender, random = Extender(), Random(seed)
    at = f"http://127.0.0.1:{extender.server.server_port}"
    bed = new_kubernetes(scheduler={"urlPrefix": at, "filterVerb": "filter", "nodeCacheCapable": True}, kubelets=False)
    claims = add_world(bed, random)
    bed.add_pod("there", {"cpu": "1m"}, nodeName="n0", volumes=claiming("c0"))  # c0 is for one pod
    names = list[str]()
    for i in range(40):
        used = random.sample(claims, random.choice([1, 1, 1, 2])) if i >= len(claims) else [claims[i]]
        bed.add_pod(f"p{i}", {"cpu": "1m"}, volumes=claiming(*used), schedulerName="default-scheduler")
        names.append(f"p{i}")
    for i, owned in enumerate((True, False)):  # generic ephemeral volumes
        ephemeral = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": SIZE}, "storageClassName": "",
        }}}}  # fmt: skip
        pod = bed.add_pod(f"own{i}", {"cpu": "1m"}, volumes=[ephemeral], schedulerName="default-scheduler")
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": f"own{i}",
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
        add_volume(bed, f"own{i}", f"own{i}-v", nodes=some_terms(random))
        add_claim(bed, f"own{i}-v", f"own{i}", owners=[owner] if owned else [])
    decided, picture, sizes = wait_for(bed, extender, names), pictured(bed), Counter[str]()
    bed.wait_until(lambda: wait_for(bed, extender, ["own0", "own1"]) is not None, 60, "own volumes were looked at")
    bed.wait_until(lambda: "own0" in extender.found, 60, "its claim was seen")
    decided |= {"own0": extender.found["own0"], "own1": extender.found.get("own1", set())}
    for pod in picture.pods.values():
        if (name := pod.metadata.name) not in decided:
            continue
        off = picture.without_volumes(pod)
        fit = {} if isinstance(off, str) else picture.nodes
        ours = {node for node, of in fit.items() if may_run(pod, of) and node not in off}
        assert ours == decided[name], (pod.spec.volumes, off)
        sizes["none" if not ours else "all" if len(ours) == 6 else "some"] += 1
    assert sizes["some"] >= 5
    assert sizes["none"] >= 5
    extender.server.shutdown()


def test_pods_run_where_their_volumes_are_and_one_at_a_time_uses_one_for_one(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1", "n2", "n3"], {"cpu": "4", "memory": "8Gi"})
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n3"]}
    with DrivenPods(kubernetes) as driven:
        kubernetes.add_pod("local", {"cpu": "1"}, volumes=claiming("local"))
        for name in ("first", "second"):
            kubernetes.add_pod(name, {"cpu": "1"}, volumes=claiming("alone"), run_s=1)
        kubernetes.add_pod("plain", {"cpu": "1"})
        driven.until(lambda: "plain" in driven.placed())
        assert set(driven.placed()) == {"plain"}  # their claims are not there
        add_claim(kubernetes, "local")
        for _ in range(10):
            driven.go()
        assert set(driven.placed()) == {"plain"}
        kubernetes.admin.delete(f"{PLACE}/local")
        kubernetes.admin.patch(f"{PLACE}/local", {"metadata": {"finalizers": None}})
        add_volume(kubernetes, "pv-local", "local", nodes=[{"matchExpressions": [host]}])
        add_claim(kubernetes, "local", "pv-local")
        add_volume(kubernetes, "pv-alone", "alone", "ReadWriteOncePod")
        add_claim(kubernetes, "alone", "pv-alone", "ReadWriteOncePod")
        driven.until(lambda: "local" in driven.placed())
        assert driven.placed()["local"] == "n3"

        def alone() -> list[str]:
            pods = [driven.pods().get(name) for name in ("first", "second")]
            return [pod["status"]["phase"] for pod in pods if pod is not None and pod["spec"].get("nodeName")]

        driven.until(lambda: len(alone()) == 1)
        driven.until(lambda: len(alone()) == 2)
        assert "Succeeded" in alone()
    for kind in (PLACE, "/api/v1/persistentvolumes"):
        for one in kubernetes.admin.get(kind)["items"]:
            kubernetes.admin.delete(f"{kind}/{one['metadata']['name']}")
            kubernetes.admin.patch(f"{kind}/{one['metadata']['name']}", {"metadata": {"finalizers": None}})
