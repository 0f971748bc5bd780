"""Pods that ask for extended resources for which device classes stand, beside kube-scheduler on the same server."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from threading import RLock
from typing import Any

import msgspec
import pytest
from dra_bed import API, CLAIMS, add_class, add_slice, audit, clear, given
from driven_pods import Deadly, DrivenPods, Killed, overbooked
from k8s_bed import KubernetesBed, resources
from test_driver_of_pods import said_of

from unrack.live.driver.contract import Problem
from unrack.live.kubernetes.adapter.asks import OLD_LABEL
from unrack.live.kubernetes.adapter.terms import Added, Terms
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.devices import extended, giving
from unrack.live.kubernetes.devices.devices import Devices
from unrack.live.kubernetes.devices.extended import classes_of, extended_of, special
from unrack.live.kubernetes.devices.objects import DeviceClass
from unrack.workload.job import Job

GPU, BY_NAME = "example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"


def pod_of(*containers: dict[str, Any], first: list[dict[str, Any]] | None = None) -> Pod:
    return msgspec.convert({"spec": {"containers": list(containers), "initContainers": first or []}}, Pod)


def asking(name: str, amount: int = 0, resource: str = GPU, **keys: Any) -> dict[str, Any]:
    requests = {"cpu": "10m", "memory": "1Mi"} | ({resource: str(amount)} if amount else {})
    return {"name": name, "image": "none", "resources": resources(requests), **keys}


def shape(pod: Pod, *names: str) -> tuple[list[tuple[str, int]], list[tuple[str, str]]]:
    found = special(pod, names or [GPU], {GPU: "gpu", BY_NAME: "gpu"})
    requests = [(one.name, one.exactly.count) for one in found.requests if one.exactly is not None]
    return requests, [(one["containerName"], one["requestName"]) for one in found.mappings]


def test_containers_that_go_on_have_devices_each_and_those_before_them_take_theirs() -> None:
    assert shape(pod_of(asking("a", 2))) == ([("container-0-request-1", 2)], [("a", "container-0-request-1")])
    pod = pod_of(
        asking("a", 2), asking("none"), asking("b", 1),
        first=[asking("small", 2), asking("side", 1, restartPolicy="Always"), asking("big", 6), asking("bigger", 9)],
    )  # fmt: skip
    requests, mappings = shape(pod)
    # 2 + 1 go on beside 1 of the sidecar; "small" has 1 + 2 of these; "bigger" 3 and 6 more, of which "big" uses 3
    assert requests == [("container-1-request-1", 1), ("container-3-request-1", 6), ("container-4-request-1", 2),
                        ("container-6-request-1", 1)]  # fmt: skip
    assert mappings == [
        ("side", "container-1-request-1"), ("a", "container-4-request-1"), ("b", "container-6-request-1"),
        ("small", "container-1-request-1"), ("small", "container-4-request-1"),
        ("big", "container-4-request-1"), ("big", "container-6-request-1"), ("big", "container-3-request-1"),
        ("bigger", "container-4-request-1"), ("bigger", "container-6-request-1"), ("bigger", "container-3-request-1"),
    ]  # fmt: skip


def test_the_newest_class_stands_for_a_resource() -> None:
    def one(name: str, created: str, resource: str = GPU) -> DeviceClass:
        at = {"metadata": {"name": name, "creationTimestamp": created}, "spec": {"extendedResourceName": resource}}
        return msgspec.convert(at, DeviceClass)

    classes = [one("c", "2026-01-02T00:00:00Z"), one("b", "2026-01-02T00:00:00Z"), one("a", "2026-01-01T00:00:00Z")]
    found = classes_of({of.metadata.name: of for of in (*classes, one("plain", "", ""))})
    assert found[GPU] == "b"
    assert {name for name in found if name != GPU} == {
        f"deviceclass.resource.kubernetes.io/{name}" for name in ("a", "b", "c", "plain")
    }
    assert extended_of(pod_of(asking("a", 1)), {}) == []  # no class stands for it
    assert extended_of(pod_of(asking("a", 1), asking("b", 0, BY_NAME)), found) == [GPU]


def terms_of(classes: dict[str, str], nodes: dict[str, str]) -> Terms:
    """What pods ask of nodes with so many GPUs by a plugin, where classes stand for resources."""
    devices = Devices(RLock(), lambda: None, set, lambda work: None)  # type: ignore[arg-type, return-value]
    made = [
        msgspec.convert({"metadata": {"name": name}, "spec": {"extendedResourceName": resource}}, DeviceClass)
        for name, resource in classes.items()
    ]
    devices.take([(None, one) for one in made])
    there = {
        name: msgspec.convert(
            {
                "metadata": {"name": name},
                "status": {
                    "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"} | ({GPU: count} if count else {})
                },
            },
            Node,
        )
        for name, count in nodes.items()
    }
    return Terms(there, Added(1_000_000), devices=devices)


@pytest.mark.parametrize("nodes", [{"a": "2", "b": "4"}, {"a": "", "b": "4"}, {"a": "", "b": ""}])
@pytest.mark.parametrize("amount", [0, 1, 3])
def test_a_class_that_no_pod_asks_for_changes_nothing(nodes: dict[str, str], amount: int) -> None:
    pod = pod_of(asking("main", amount))
    plain = terms_of({}, nodes).asked(pod, "k")
    assert terms_of({"other": "example.com/other", "plain": ""}, nodes).asked(pod, "k") == plain
    if all(nodes.values()) or not amount:  # one that stands for what all nodes have themselves
        assert terms_of({"gpu": GPU}, nodes).asked(pod, "k") == plain
        assert isinstance(plain, Job)


def test_nodes_that_have_it_themselves_are_waited_for_where_classes_have_no_devices() -> None:
    found = terms_of({"gpu": GPU}, {"a": "", "b": "4"}).asked(pod_of(asking("main", 3)), "k")
    assert isinstance(found, Job)
    assert found.said["exc_nodes"] == "a"
    never = terms_of({"gpu": GPU}, {"a": "", "c": ""}).asked(pod_of(asking("main", 3)), "k")
    assert isinstance(never, Problem)
    assert "3 devices of class gpu for container-0-request-1, of 0 that match 0 free" in never.why


def add_gpus(bed: KubernetesBed, node: str, count: int) -> None:
    add_slice(bed, f"{node}-gpus", [{"name": f"gpu-{i}"} for i in range(count)], nodeName=node)


def furnish(bed: KubernetesBed, count: int = 4, **plugin: str) -> None:
    """Two nodes with devices of a class, and one of a device plugin."""
    clear(bed)
    bed.add_nodes(["n1", "n2"], {"cpu": "8", "memory": "8Gi"})
    if plugin:
        bed.add_nodes(["plugin"], {"cpu": "8", "memory": "8Gi", GPU: plugin["gpus"]})
    add_class(bed, "gpu", resource=GPU)
    for node in ("n1", "n2"):
        add_gpus(bed, node, count)


def claim_of(bed: KubernetesBed, name: str) -> dict[str, Any]:
    """The claim that the status of a pod names."""
    said = bed.pod(name)["status"]["extendedResourceClaimStatus"]  # type: ignore[index]
    found: dict[str, Any] = bed.admin.get(f"{CLAIMS}/{said['resourceClaimName']}")
    return found


def seen(bed: KubernetesBed, name: str) -> dict[str, Any]:
    """All of a pod's claim that does not depend on which scheduler made it."""
    pod, claim = bed.pod(name), claim_of(bed, name)
    assert pod is not None
    at, status = claim["metadata"], claim["status"]
    assert at["name"].startswith(f"{name}-extended-resources-")
    owner = {key: value for key, value in at["ownerReferences"][0].items() if key not in ("name", "uid")}
    assert at["ownerReferences"][0]["uid"] == pod["metadata"]["uid"] == status["reservedFor"][0]["uid"]
    return {
        "spec": claim["spec"], "annotations": at["annotations"], "owner": owner, "finalizers": at["finalizers"],
        "mappings": pod["status"]["extendedResourceClaimStatus"]["requestMappings"],
        "reserved": [one["resource"] for one in status["reservedFor"]],
        "devices": sorted((one["request"], one["driver"]) for one in status["allocation"]["devices"]["results"]),
        "keys": sorted(status["allocation"]), "of": len(status["allocation"]["nodeSelector"]["nodeSelectorTerms"]),
    }  # fmt: skip


def random_containers(random: Random) -> dict[str, Any]:
    """Containers, sidecars and containers that begin first, with whole devices by either name."""

    def some(kind: str, count: int) -> list[dict[str, Any]]:
        names = [f"{kind}{i}" for i in range(count)]
        return [asking(name, random.randrange(3), random.choice([GPU, GPU, BY_NAME])) for name in names]

    first = some("first", random.randrange(3))
    for one in first:
        if random.random() < 0.4:
            one["restartPolicy"] = "Always"
    return {"containers": [asking("main", 1), *some("other", random.randrange(2))], "initContainers": first}


def test_claims_are_those_of_kube_scheduler(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    bed = new_kubernetes(scheduler=True)
    furnish(bed, 20)
    with DrivenPods(bed) as driven:
        for seed in range(8):
            containers = random_containers(Random(seed))
            names = [f"{of}{seed}" for of in ("ours", "theirs")]
            for name in names:  # one by one: kube-scheduler may give what another gives at the same time
                which = {} if name.startswith("ours") else {"schedulerName": "default-scheduler"}
                bed.add_pod(name, **which, **containers)
                driven.until(lambda: bed.pod(name)["spec"].get("nodeName"))  # type: ignore[index]  # noqa: B023
            assert seen(bed, f"ours{seed}") == seen(bed, f"theirs{seed}"), containers
            assert audit(bed) == []
            for name in names:
                bed.admin.delete(f"/api/v1/namespaces/default/pods/{name}", gracePeriodSeconds=0)


def test_pods_run_in_turn_and_give_back(kubernetes: KubernetesBed) -> None:
    furnish(kubernetes, 2)
    with DrivenPods(kubernetes) as driven:
        for i in range(6):
            resource = BY_NAME if i % 2 else GPU
            kubernetes.add_pod(f"p{i}", run_s=0.5, containers=[asking("main", 2, resource)])
        kubernetes.add_pod("many", containers=[asking("main", 3)])
        driven.until(lambda: len(driven.placed()) >= 2)
        assert audit(kubernetes) == []
        driven.until(lambda: sum(one["status"]["phase"] == "Succeeded" for one in driven.pods().values()) == 6)
        assert audit(kubernetes) == [] == overbooked_but_for_devices(kubernetes)
        assert "of 2 that match 2 free" in said_of(kubernetes)["many"][0]
        assert "many" not in driven.placed()


def overbooked_but_for_devices(bed: KubernetesBed) -> list[str]:
    return [one for one in overbooked(bed) if GPU not in one and BY_NAME not in one]


def test_what_a_node_has_itself_comes_first_and_classes_after_it(kubernetes: KubernetesBed) -> None:
    furnish(kubernetes, 2, gpus="2")
    with DrivenPods(kubernetes) as driven:
        for i in range(6):
            kubernetes.add_pod(f"p{i}", containers=[asking("main", 1)])
        driven.until(lambda: len(driven.placed()) == 6)
        nodes = sorted(driven.placed().values())
        assert nodes == ["n1", "n1", "n2", "n2", "plugin", "plugin"]
        for name, node in driven.placed().items():
            status = kubernetes.pod(name)["status"]  # type: ignore[index]
            assert ("extendedResourceClaimStatus" in status) == (node != "plugin")
        kubernetes.add_pod("late", containers=[asking("main", 1)])
        for _ in range(20):
            driven.go()
        assert "late" not in driven.placed()
        first = next(name for name, node in driven.placed().items() if node == "n1")
        kubernetes.admin.delete(f"/api/v1/namespaces/default/pods/{first}", gracePeriodSeconds=0)
        driven.until(lambda: driven.placed().get("late") == "n1")
        assert audit(kubernetes) == []


def test_a_class_that_comes_later_starts_pods_that_wait_and_one_that_goes_keeps_what_runs(
    kubernetes: KubernetesBed,
) -> None:
    furnish(kubernetes, 1)
    kubernetes.admin.delete(f"{API}/deviceclasses/gpu")
    with DrivenPods(kubernetes) as driven:
        kubernetes.add_pod("p", containers=[asking("main", 1)])
        kubernetes.add_pod("plain", {"cpu": "1"})
        driven.until(lambda: "p" in said_of(kubernetes) and "plain" in driven.placed())
        add_class(kubernetes, "gpu", resource=GPU)
        driven.until(lambda: "p" in driven.placed())
        kubernetes.admin.delete(f"{API}/deviceclasses/gpu")
        for _ in range(10):
            driven.go()
            time.sleep(0.02)
        assert audit(kubernetes) == []
        assert {str(entry.phase) for entry in driven.driver.table} == {"running"}


def test_claims_that_others_make_in_its_name_do_no_harm(kubernetes: KubernetesBed) -> None:
    furnish(kubernetes, 1)
    kubernetes.admin.delete(f"{API}/deviceclasses/gpu")
    pods = {name: kubernetes.add_pod(name, containers=[asking("main", 1)]) for name in ("owned", "named")}
    kubernetes.add_pod("huge", containers=[asking("main", 2_000_000_000)])
    kubernetes.add_pod("gang", containers=[asking("main", 1)], metadata={"labels": {OLD_LABEL: "g"}})
    at = pods["owned"]["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "owned", "uid": at["uid"], "controller": True}
    metadata = {"name": "theirs", "annotations": {extended.ANNOTATION: "true"}, "ownerReferences": [owner]}
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 9}}]
    kubernetes.admin.post(CLAIMS, {**body, "metadata": metadata, "spec": {"devices": {"requests": requests}}})
    squats = f"named-extended-resources-{pods['named']['metadata']['uid'][:8]}"
    kubernetes.admin.post(CLAIMS, {**body, "metadata": {"name": squats}, "spec": {"devices": {"requests": requests}}})
    with DrivenPods(kubernetes) as driven:
        add_class(kubernetes, "gpu", resource=GPU)
        driven.until(lambda: "owned" in driven.placed() and {"huge", "gang"} <= said_of(kubernetes).keys())
        assert claim_of(kubernetes, "owned")["metadata"]["name"] != "theirs"
        assert "devices, of 32 at most" in said_of(kubernetes)["huge"][0]
        for _ in range(20):
            driven.go()
            time.sleep(0.02)
        assert set(driven.placed()) == {"owned"}
        kubernetes.admin.delete(f"{CLAIMS}/{squats}")
        driven.until(lambda: "named" in driven.placed())
        assert audit(kubernetes) == []


@pytest.mark.parametrize("seed", [1, 2])
def test_the_driver_is_killed_at_any_point_and_no_claim_is_left(
    kubernetes: KubernetesBed, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    furnish(kubernetes, 3, gpus="1")
    random = Random(seed)
    for i in range(16):
        kubernetes.add_pod(f"p{i}", run_s=random.choice([0.2, 0.6]), containers=[asking("main", random.choice([1, 2]))])
    driven = DrivenPods(kubernetes)
    for kill in range(8):
        deadly = Deadly(random.randrange(1, 14))
        with monkeypatch.context() as patched:
            for name in ("create", "patch", "delete"):
                patched.setattr(giving, name, deadly.around(getattr(giving, name)))
            try:
                for _ in range(25):
                    driven.go()
            except Killed:
                pass
            driven.stop()
        assert [one for one in audit(kubernetes) if "runs without" in one or "times" in one] == []
        if kill % 3 == 2:
            driven.journal = type(driven.journal)()  # and what it knew is lost, too
        driven.begin()
    driven.until_all(timeout_s=120)
    assert audit(kubernetes) == []
    driven.until(lambda: given(kubernetes) == {})
    kubernetes.admin.delete_all("/api/v1/pods")
    driven.until(lambda: not kubernetes.admin.get(CLAIMS)["items"])
    driven.stop()
