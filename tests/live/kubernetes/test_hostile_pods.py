"""Pods that mean harm: others are scheduled all the same, in bounded time and memory."""

from __future__ import annotations

import gc
import http.client
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import msgspec
import pytest
from api_admin import AdminError
from dra_bed import add_claim, add_class, add_slice, wants
from hostile_pods import HOST, REQUIRED, hostile
from k8s_bed import DRIVER, KubernetesBed, resources
from test_snapshot_of_kubernetes import node

from unrack.kubernetes_text import asked_by
from unrack.live.driver.contract import Problem
from unrack.live.kubernetes.adapter.asks import required
from unrack.live.kubernetes.adapter.picture import Picture, key_of
from unrack.live.kubernetes.adapter.terms import Added, Terms
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.constraints.beside import MOST_TERMS, required_beside, says_too_much
from unrack.live.kubernetes.gangs.naming import gang_of
from unrack.workload.job import Job

CPU, NODES = 40, [f"n{i}" for i in range(4)]


class Running:
    """``unrack kubernetes run`` in a process of its own."""

    def __init__(self, bed: KubernetesBed, folder: Path) -> None:
        site = folder / "site.toml"
        site.write_text(
            f'policy = "easy"\nstate = "state"\nkubeconfig = "{bed.kubeconfig(DRIVER)}"\n'
            f'[metrics]\naddress = "127.0.0.1:{bed.free_port}"\n'
        )
        self._port, self.log = bed.free_port, folder / "log"
        with open(self.log, "ab") as log:
            words = [sys.executable, "-m", "unrack", "kubernetes", "run", "--config", str(site)]
            self.process = subprocess.Popen(words, stdout=log, stderr=log)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def most_mb(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024

    def is_well(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False


def throw(bed: KubernetesBed) -> Counter[bool]:
    """All that is hostile; how much of it the server took."""
    found = Counter[bool]()
    for number, (_, keys) in enumerate(hostile()):
        expression = keys.pop("claim", None)
        try:
            if expression is not None:
                add_claim(bed, f"c{number}", wants("any", selectors=[{"cel": {"expression": expression}}]))
                keys["resourceClaims"] = [{"name": "devices", "resourceClaimName": f"c{number}"}]
            metadata = {"name": f"hostile{number}", **keys.pop("metadata", {})}
            bed.add_pod(metadata["name"], keys.pop("requests", {"cpu": "1m"}), metadata=metadata, **keys)
            found[True] += 1
        except AdminError as error:
            if error.code != 422:
                raise
            found[False] += 1
    return found


def is_bound(bed: KubernetesBed, name: str) -> bool:
    pod = bed.pod(name)
    return pod is not None and bool(pod["spec"].get("nodeName"))


def as_pod(number: int, keys: dict[str, Any]) -> Pod:
    """A pod as a watch tells it."""
    keys.pop("claim", None)
    at = {"namespace": "default", "uid": f"u{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata = {"name": f"h{number}", **at, **keys.pop("metadata", {})}
    container = {"name": "main", "image": "none", "resources": resources(keys.pop("requests", {}))}
    spec = {"schedulerName": "unrack", "containers": [container], **keys}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}, Pod)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """In a process of thousands of tests a collection alone takes longer than what is timed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.long
@pytest.mark.usefixtures("uncollected")
def test_each_is_answered_in_little_time_also_beside_one_that_repels_others() -> None:
    picture, pods = Picture("unrack"), [as_pod(number, keys) for number, (_, keys) in enumerate(hostile())]
    size = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "x.y/nic": "4", "pods": "110"}
    picture.take_nodes([(None, node(name, size)) for name in NODES])
    repels = {"podAntiAffinity": {REQUIRED: [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"a": "b"}}}]}}
    bound = [as_pod(1000 + i, {"nodeName": NODES[i % 4], "affinity": repels}) for i in range(50)]
    picture.take_pods([(None, one) for one in (*pods, *bound)])
    terms, beside = Terms(dict(picture.nodes), Added(3_600_000_000)), picture.beside
    refused = 0
    for (what, _), pod in zip(hostile(), pods, strict=True):
        began = process_time()
        off = beside.forbidden(pod, beside.required(key_of(pod), pod))
        found = terms.asked(pod, key_of(pod), off)
        least = picture.gangs.groups.least(name, pod) if (name := gang_of(pod)) is not None else 1
        assert process_time() - began < 0.5, what
        refused += isinstance(found, Problem)
        assert isinstance(found, Job | Problem)
        assert isinstance(least, str) or least <= 100_000
        if isinstance(found, Problem):
            assert len(found.why) <= 600
    assert refused > 90


def test_what_many_containers_ask_is_summed_in_time_that_grows_with_them() -> None:
    def took_s(count: int) -> float:
        each = [{"resources": {"limits": {f"x{i}.y/z": "1"}}} for i in range(count)]
        pod = {"spec": {"containers": each, "initContainers": [{**one, "restartPolicy": "Always"} for one in each]}}
        began = process_time()
        assert len(asked_by(pod)) == count
        return process_time() - began

    assert min(took_s(4000) for _ in range(3)) < 12 * min(took_s(1000) for _ in range(5))


def test_a_pod_that_requires_too_much_of_others_is_refused_and_requires_nothing_of_them() -> None:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "a"}}}
    for count, much in ((MOST_TERMS, False), (MOST_TERMS + 1, True)):
        pod = as_pod(1, {"affinity": {"podAffinity": {REQUIRED: [term] * count}}})
        assert (says_too_much(pod), bool(required(pod)), any(required_beside(pod))) == (much, much, not much)
    wordy = {
        **term,
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["x" * 60] * 400}]},
    }
    assert says_too_much(as_pod(1, {"affinity": {"podAntiAffinity": {REQUIRED: [wordy]}}}))
    assert not says_too_much(as_pod(1, {"tolerations": [{"key": "k" * 60, "operator": "Exists"}] * 400}))


def test_others_are_scheduled_in_bounded_time_and_memory(
    new_kubernetes: Callable[..., KubernetesBed], tmp_path: Path
) -> None:
    bed = new_kubernetes(kubelets=False)
    bed.add_nodes(NODES, {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "8", "x.y/nic": "4", "pods": "110"})
    add_class(bed, "any")
    for name in NODES:
        add_slice(bed, name, [{"name": f"d{i}"} for i in range(16)], nodeName=name)
    running = Running(bed, tmp_path)
    try:
        for i in range(20):
            bed.add_pod(f"before{i}", {"cpu": "100m"})
        bed.wait_until(lambda: all(is_bound(bed, f"before{i}") for i in range(20)), 90, "pods are bound")
        calm_mb = running.most_mb()
        found = throw(bed)
        assert found[True] > 3 * found[False], found
        used_s = running.cpu_s()
        for i in range(20):
            bed.add_pod(f"after{i}", {"cpu": "100m"})
            bed.wait_until(lambda i=i: is_bound(bed, f"after{i}"), 60, "a pod among hostile ones is bound")
        used_s = running.cpu_s() - used_s
        assert running.is_well()
        assert running.process.poll() is None
        assert used_s < 12  # for 20 pods; it was above 60 before any of it was bounded
        assert running.most_mb() < calm_mb + 400
    finally:
        running.process.terminate()
        running.process.wait()
