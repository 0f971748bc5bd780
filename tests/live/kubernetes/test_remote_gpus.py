"""Pods whose GPUs are in other nodes: server pods on a real API server, with TCP servers that really answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from driven_pods import DrivenPods, overbooked
from k8s_bed import KubernetesBed

from unrack.errors import InputError
from unrack.live.driver.state.replay import replay
from unrack.live.kubernetes.site import KubernetesSite

PORT = 17_000
SERVER = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"k8sbox/serves": str(PORT)}},
    "spec": {"containers": [{"name": "server", "image": "none"}]},
}  # fmt: skip
GPU = "nvidia.com/gpu"


def site(tmp_path: Path, fabric: dict[str, Any] | None = None, manifest: Any = SERVER, **keys: Any) -> KubernetesSite:
    """A site that serves its GPUs."""
    (tmp_path / "server.yaml").write_text(yaml.safe_dump(manifest))
    table = {
        "kind": "server-pods",
        "pod": str(tmp_path / "server.yaml"),
        "port": PORT,
        "ready": "20 s",
        **(fabric or {}),
    }
    return KubernetesSite.of({"policy": "easy", "longest": "1 h", "fabric": table, **keys})


def client(bed: KubernetesBed, name: str, gpus: int, cpu: str = "1", run_s: float | None = 0.5, **said: str) -> None:
    """A pod that asks for GPUs, wherever they are, and talks to them first of all."""
    path = "metadata.annotations['unrack.io/gpu-servers']"
    env = [{"name": "GPUS", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    container = {"name": "main", "image": "none", "env": env, "resources": {"requests": {"cpu": cpu}}}
    annotations = {"unrack.io/asks": f"remote_gpu.devices={gpus}", "k8sbox/talks-to": "GPUS", **said}
    bed.add_pod(name, run_s=run_s, metadata={"annotations": annotations}, containers=[container])


def servers(bed: KubernetesBed) -> list[dict[str, Any]]:
    """The server pods that there are."""
    selector = "unrack.io/server-of%3Dunrack"
    return list(bed.admin.get(f"/api/v1/pods?labelSelector={selector}")["items"])


def given_twice(bed: KubernetesBed) -> list[str]:
    """Devices that two clients have, by what server pods say; and nodes that serve more GPUs than they have."""
    held = Counter[str]()
    for operation in {pod["metadata"]["annotations"]["unrack.io/operation"] for pod in servers(bed)}:
        held.update(json.loads(operation)["devices"])
    return [device for device, count in held.items() if count > 1] + overbooked(bed)


def test_a_pod_gets_gpus_of_other_nodes(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    kubernetes.add_nodes(["c1"], {"cpu": "4", "memory": "8Gi"})
    kubernetes.add_nodes(["g1", "g2"], {"cpu": "1", "memory": "8Gi", GPU: "2"})
    with DrivenPods(kubernetes, added=site(tmp_path).added) as driven:
        client(kubernetes, "train", 3, cpu="3", run_s=2)
        driven.until(lambda: bool(driven.placed()))
        assert driven.placed() == {"train": "c1"}
        found = servers(kubernetes)
        nodes = Counter(
            {pod["spec"]["nodeName"]: int(pod["spec"]["containers"][0]["resources"]["limits"][GPU]) for pod in found}
        )
        assert nodes.total() == 3
        assert set(nodes) == {"g1", "g2"}
        told = driven.pods()["train"]["metadata"]["annotations"]
        assert told["unrack.io/gpus"] == "3"
        assert sorted(told["unrack.io/gpu-servers"].split(",")) == sorted(
            f"{pod['status']['podIP']}:{PORT}" for pod in found
        )
        assert given_twice(kubernetes) == []
        driven.until_all()
        driven.until(lambda: not servers(kubernetes))
        assert replay(driven.journal.records()).differences == []


@pytest.mark.long
def test_many_clients_share_all_gpus_in_turn(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    kubernetes.add_nodes(["c1", "c2"], {"cpu": "8", "memory": "8Gi"})
    kubernetes.add_nodes(["g1", "g2"], {"cpu": "2", "memory": "8Gi", GPU: "4"})
    kubernetes.add_nodes(["g3"], {"cpu": "2", "memory": "8Gi", GPU: "1"})
    random = Random(3)
    with DrivenPods(kubernetes, added=site(tmp_path).added) as driven:
        for i in range(24):
            client(kubernetes, f"p{i}", random.randint(1, 5), run_s=random.uniform(0.2, 1))
            driven.go()
            assert given_twice(kubernetes) == []
        driven.until_all(timeout_s=90)
        driven.until(lambda: not servers(kubernetes))


@pytest.mark.long
@pytest.mark.parametrize("policy", ["flow", {"name": "flow", "cost": "network"}, "conservative"])
def test_rounds_of_flow_over_links_place_clients_and_gpus(
    kubernetes: KubernetesBed, tmp_path: Path, policy: Any
) -> None:
    kubernetes.add_nodes(["c1", "c2"], {"cpu": "8", "memory": "8Gi"})
    kubernetes.add_nodes(["g1", "g2"], {"cpu": "2", "memory": "8Gi", GPU: "4"})
    found = site(tmp_path, policy=policy, cluster={"links": {"mb_s": "1 Gb/s"}})
    with DrivenPods(kubernetes, found.spec, added=found.added) as driven:
        for i in range(10):
            asks = f"remote_gpu.devices={1 + i % 3} links.remote_mb_s=30"
            client(kubernetes, f"p{i}", 0, run_s=0.5, **{"unrack.io/asks": asks})
        client(
            kubernetes, "alone", 0, **{"unrack.io/asks": "remote_gpu.devices=1 links.remote_mb_s=300"}
        )  # at home alone
        client(kubernetes, "never", 0, cpu="3", **{"unrack.io/asks": "remote_gpu.devices=1 links.remote_mb_s=300"})
        driven.until(lambda: len(driven.placed()) == 11, 60)
        assert driven.placed()["alone"] in ("g1", "g2")
        assert "never" not in driven.placed()
        assert given_twice(kubernetes) == []
        kubernetes.admin.delete("/api/v1/namespaces/default/pods/never")
        driven.until_all()
        assert replay(driven.journal.records()).differences == []


def test_gpus_that_pods_have_by_themselves_are_not_served(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    kubernetes.add_nodes(["g1", "g2"], {"cpu": "4", "memory": "8Gi", GPU: "2"})
    kubernetes.add_pod("theirs", {"cpu": "1", GPU: "1"}, schedulerName="other", nodeName="g1")
    with DrivenPods(kubernetes, added=site(tmp_path).added) as driven:
        client(kubernetes, "four", 4)
        client(kubernetes, "three", 3)
        driven.until(lambda: "three" in driven.placed())
        assert given_twice(kubernetes) == []
        assert "four" not in driven.placed()
        kubernetes.admin.delete("/api/v1/namespaces/default/pods/theirs")
        driven.until_all()


@pytest.mark.parametrize("way", ["fails", "deleted"])
@pytest.mark.parametrize("on_lost", ["tell", "stop"])
def test_a_server_is_lost_while_its_client_runs(
    kubernetes: KubernetesBed, tmp_path: Path, way: str, on_lost: str
) -> None:
    kubernetes.add_nodes(["g1"], {"cpu": "4", "memory": "8Gi", GPU: "2"})
    with DrivenPods(kubernetes, added=site(tmp_path, {"on_lost": on_lost}).added) as driven:
        client(kubernetes, "train", 2, run_s=None)
        driven.until(lambda: bool(driven.placed()))
        driven.until(lambda: driven.pods()["train"]["status"]["phase"] == "Running")
        (server,) = servers(kubernetes)
        path = f"/api/v1/namespaces/default/pods/{server['metadata']['name']}"
        if way == "fails":
            kubernetes.admin.patch(f"{path}/status", {"status": {"phase": "Failed", "reason": "Evicted"}})
        else:
            kubernetes.admin.delete(path)
        if on_lost == "stop":
            driven.until(lambda: not driven.pods())
            driven.until(lambda: not servers(kubernetes))
        else:
            driven.until(lambda: "LostGpus" in reasons(kubernetes))
            assert driven.pods()["train"]["status"]["phase"] == "Running"


def reasons(bed: KubernetesBed) -> set[str]:
    events = bed.admin.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return {event["reason"] for event in events}


def test_a_client_that_is_deleted_takes_its_servers_with_it(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    kubernetes.add_nodes(["g1"], {"cpu": "4", "memory": "8Gi", GPU: "2"})
    with DrivenPods(kubernetes, added=site(tmp_path).added) as driven:
        client(kubernetes, "train", 2, run_s=None)
        driven.until(lambda: bool(driven.placed()))
    kubernetes.admin.delete("/api/v1/namespaces/default/pods/train")  # while the driver is away
    kubernetes.wait_until(lambda: not servers(kubernetes), 30, "the servers are gone")


def test_a_server_that_never_is_ready_is_taken_back_and_tried_again(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    kubernetes.add_nodes(["g1"], {"cpu": "4", "memory": "8Gi", GPU: "1"})
    broken = {**SERVER, "metadata": {"annotations": {"k8sbox/fails": "Error", "k8sbox/seconds": "0"}}}
    with DrivenPods(kubernetes, added=site(tmp_path, {"ready": "1 s"}, broken).added) as driven:
        client(kubernetes, "train", 1)
        driven.until(lambda: any("could not be attached" in entry.why for entry in driven.driver.table))
        assert not driven.placed()
        assert given_twice(kubernetes) == []
        kubernetes.admin.delete("/api/v1/namespaces/default/pods/train")
        driven.until(lambda: not servers(kubernetes))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 12))])
def test_the_driver_is_killed_at_any_point_and_no_gpu_leaks(
    kubernetes: KubernetesBed, tmp_path: Path, seed: int
) -> None:
    kubernetes.add_nodes(["c1", "c2"], {"cpu": "8", "memory": "8Gi"})
    kubernetes.add_nodes(["g1", "g2"], {"cpu": "2", "memory": "8Gi", GPU: "3"})
    random = Random(seed)
    driven = DrivenPods(kubernetes, added=site(tmp_path).added)
    try:
        for i in range(12):
            client(kubernetes, f"p{i}", random.randint(1, 4), run_s=random.uniform(0.1, 0.6))
        for _ in range(6):
            for _ in range(random.randint(1, 12)):
                driven.go()
                assert given_twice(kubernetes) == []
            driven.stop()
            driven.begin()
        driven.until_all(timeout_s=90)
        driven.until(lambda: not servers(kubernetes))
    finally:
        driven.stop()


@pytest.mark.long
def test_a_driver_without_its_journal_leaves_running_clients_their_gpus(
    kubernetes: KubernetesBed, tmp_path: Path
) -> None:
    kubernetes.add_nodes(["g1"], {"cpu": "4", "memory": "8Gi", GPU: "2"})
    added = site(tmp_path).added
    with DrivenPods(kubernetes, added=added) as driven:
        client(kubernetes, "old", 1, run_s=4)
        driven.until(lambda: driven.placed() == {"old": "g1"} and driven.pods()["old"]["status"]["phase"] == "Running")
    with DrivenPods(kubernetes, added=added) as driven:
        client(kubernetes, "two", 2, run_s=0.2)
        client(kubernetes, "one", 1, run_s=0.2)
        driven.until(lambda: driven.pods()["one"]["status"]["phase"] == "Succeeded")
        assert driven.pods()["old"]["status"]["phase"] == "Running"
        assert given_twice(kubernetes) == []
        driven.until_all()
        driven.until(lambda: not servers(kubernetes))


def test_a_regular_manifest_is_told_where_its_gpus_are(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    group = "/apis/admissionregistration.k8s.io/v1/"
    shipped = Path(__file__).parents[3] / "docs" / "kubernetes-gpus-admission.yaml"
    policy, binding = yaml.safe_load_all(shipped.read_text())
    kubernetes.admin.post(f"{group}mutatingadmissionpolicies", policy)
    kubernetes.admin.post(f"{group}mutatingadmissionpolicybindings", binding)
    kubernetes.add_nodes(["g1"], {"cpu": "4", "memory": "8Gi", GPU: "2"})

    def add() -> dict[str, Any]:
        said = {"unrack.io/asks": "remote_gpu.devices=1", "k8sbox/talks-to": "UNRACK_GPU_SERVERS"}
        kubernetes.add_pod("regular", {"cpu": "1"}, run_s=0.1, metadata={"annotations": said})
        pod = kubernetes.pod("regular")
        assert pod is not None
        return pod

    try:
        while "env" not in add()["spec"]["containers"][0]:  # the server takes a policy up after a while
            kubernetes.admin.delete("/api/v1/namespaces/default/pods/regular", gracePeriodSeconds=0)
        with DrivenPods(kubernetes, added=site(tmp_path).added) as driven:
            driven.until_all()
    finally:
        kubernetes.admin.delete(f"{group}mutatingadmissionpolicybindings/unrack-remote-gpus")
        kubernetes.admin.delete(f"{group}mutatingadmissionpolicies/unrack-remote-gpus")


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_the_server_is_killed_while_gpus_are_attached(
    new_kubernetes: Callable[..., KubernetesBed], tmp_path: Path, seed: int
) -> None:
    bed = new_kubernetes()
    bed.add_nodes(["c1", "c2"], {"cpu": "8", "memory": "8Gi"})
    bed.add_nodes(["g1", "g2"], {"cpu": "2", "memory": "8Gi", GPU: "3"})
    random = Random(seed)
    with DrivenPods(bed, added=site(tmp_path).added) as driven:
        for i in range(12):
            client(bed, f"p{i}", random.randint(1, 4), run_s=random.uniform(0.1, 0.6))
        for _ in range(1 if seed == 0 else 4):
            for _ in range(random.randint(1, 25)):
                driven.go()
            bed.kill("kube-apiserver")
            for _ in range(random.randint(1, 10)):
                driven.go()
            bed.start_server()
            assert given_twice(bed) == []
        driven.until_all(timeout_s=90)
        driven.until(lambda: not servers(bed))


@pytest.mark.parametrize(
    ("asks", "why"),
    [
        ("remote_gpu.devices=1 memory=2GB", "memory or a priority"),
        ("remote_gpu.devices=x", "remote_gpu.devices"),
        ("remote_gpu.devices=1; rm", "semicolons"),
        ("gpus=1", "gpus"),
        ("remote_gpu.devices=1 " + "x" * 3000, "2000"),
        ("counted.pods=9", "counted.pods"),
        ("remote_gpu.devices=9", "gpu"),
    ],
)
def test_hostile_asks_are_refused_with_the_reason(
    kubernetes: KubernetesBed, tmp_path: Path, asks: str, why: str
) -> None:
    kubernetes.add_nodes(["g1"], {"cpu": "4", "memory": "8Gi", GPU: "2"})
    with DrivenPods(kubernetes, added=site(tmp_path).added) as driven:
        client(kubernetes, "bad", 1, **{"unrack.io/asks": asks})
        client(kubernetes, "good", 1)
        driven.until(lambda: driven.pods()["good"]["status"]["phase"] == "Succeeded")
        assert set(driven.placed()) == {"good"}
        assert any(
            why in entry.why or why in reason(driven, entry) for entry in driven.driver.table if "bad" in entry.key
        )


def reason(driven: DrivenPods, entry: Any) -> str:
    if entry.number is None or driven.driver.epoch is None:
        return ""
    return driven.driver.epoch.why(entry.number, driven.driver.clock.now())


@pytest.mark.parametrize(
    ("fabric", "manifest", "want"),
    [
        ({"port": 0}, SERVER, "port"),
        ({"client": "{host}"}, SERVER, "client"),
        ({"client": "{address},x"}, SERVER, "commas"),
        ({"pod": "/nowhere.yaml"}, SERVER, "manifest of a pod"),
        ({}, {"kind": "Job", "spec": {}}, "a Pod"),
        ({}, [1], "manifest of a pod"),
        ({}, {"kind": "Pod", "spec": {"containers": [{}], "nodeName": "n1"}}, "spec.nodeName"),
        ({"colour": 1}, SERVER, "colour"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, fabric: dict[str, Any], manifest: Any, want: str) -> None:
    with pytest.raises(InputError, match=want):
        site(tmp_path, fabric, manifest)


def test_the_words_for_clients(tmp_path: Path) -> None:
    found = site(tmp_path, {"client": "{address}@{port}/{gpu}", "each": "gpu"}).added.servers
    assert found is not None
    assert found.words([("10.0.0.1", 2), ("10.0.0.2", 1)]) == f"10.0.0.1@{PORT}/0,10.0.0.1@{PORT}/1,10.0.0.2@{PORT}/0"
