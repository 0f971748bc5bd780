"""Pods that the driver places on a real API server; what is right is what that server says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from driven_pods import Deadly, DrivenPods, Killed, overbooked
from k8s_bed import DRIVER, KubernetesBed

from unrack.errors import InputError
from unrack.live.driver.seen import UnreachableError
from unrack.live.driver.state.replay import replay
from unrack.live.kubernetes.adapter.adapter import KubernetesAdapter
from unrack.live.kubernetes.adapter.terms import Added
from unrack.live.kubernetes.client.access import Access, access_here


def test_pods_run_in_turn_and_nobody_is_overbooked(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "2", "memory": "4Gi"})
    with DrivenPods(kubernetes) as driven:
        for i in range(8):
            kubernetes.add_pod(f"p{i}", {"cpu": "1", "memory": "1Gi"}, run_s=0.5)
        driven.until(lambda: len(driven.placed()) >= 4)
        assert overbooked(kubernetes) == []
        driven.until_all()
        assert set(driven.placed().values()) == {"n1", "n2"}


@pytest.mark.parametrize(
    "policy", ["easy", {"name": "list", "order": "priority", "backfill": "any", "place": "worst-fit"}]
)
def test_many_pods_are_where_the_core_decided(kubernetes: KubernetesBed, policy: Any) -> None:
    names = [f"n{i}" for i in range(20)]
    kubernetes.add_nodes(names[:10], {"cpu": "4", "memory": "8Gi"}, labels={"zone": "a"})
    kubernetes.add_nodes(names[10:], {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"}, labels={"zone": "b"})
    random = Random(7)
    with DrivenPods(kubernetes, policy) as driven:
        for i in range(200):
            asks = {"cpu": f"{random.choice([250, 500, 1000, 3000])}m", "memory": f"{random.choice([256, 1024])}Mi"}
            asks |= {"nvidia.com/gpu": "1"} if random.random() < 0.15 else {}
            where = {"nodeSelector": {"zone": "a"}} if random.random() < 0.2 and len(asks) == 2 else {}
            times = {"unrack.io/run-time": "2 s", "k8sbox/seconds": f"{random.uniform(0.2, 1.5):.1f}"}
            kubernetes.add_pod(f"p{i}", asks, metadata={"annotations": times}, **where)
            if i % 10 == 0:
                driven.go()
                assert overbooked(kubernetes) == []
        driven.until_all(timeout_s=120)
        placed, pods = driven.placed(), driven.pods()
        assert placed == decided(driven)
        for name, pod in pods.items():
            if "zone" in pod["spec"].get("nodeSelector", {}):
                assert int(placed[name][1:]) < 10
            if "nvidia.com/gpu" in pod["spec"]["containers"][0]["resources"]["requests"]:
                assert int(placed[name][1:]) >= 10
        assert replay(driven.journal.records()).differences == []


def test_pods_that_somebody_else_binds_hold_their_room(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "2", "memory": "8Gi"})
    kubernetes.add_pod("foreign", {"cpu": "1500m"}, schedulerName="other", nodeName="n1")
    with DrivenPods(kubernetes) as driven:
        kubernetes.add_pod("first", {"cpu": "2"})
        driven.until(lambda: "first" in driven.placed())
        kubernetes.add_pod("theirs", {"cpu": "500m"})
        bind(kubernetes, "theirs", "n1")
        kubernetes.add_pod("waits", {"cpu": "500m"})
        for _ in range(20):
            driven.go()
        assert driven.placed() == {"first": "n2", "theirs": "n1"}
        assert overbooked(kubernetes) == []
        kubernetes.admin.delete("/api/v1/namespaces/default/pods/foreign", gracePeriodSeconds=0)
        driven.until(lambda: driven.placed().get("waits") == "n1")


def test_somebody_binds_between_the_decision_and_ours(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "2", "memory": "8Gi"})
    with DrivenPods(kubernetes) as driven:
        driven.until(lambda: driven.driver.epoch is not None)
        start, raced = driven.adapter._start, list[str]()

        async def after_them(key: str, pod: Any, node: str) -> Any:
            if not raced:
                raced.append(pod.metadata.name)
                bind(kubernetes, pod.metadata.name, "n2" if node == "n1" else "n1")
                raced.append(node)
            return await start(key, pod, node)

        driven.adapter._start = after_them  # type: ignore[method-assign]
        kubernetes.add_pod("p0", {"cpu": "1"})
        driven.until(lambda: len(driven.placed()) == 1)
        driven.until(lambda: [str(entry.phase) for entry in driven.driver.table] == ["foreign"])
        for i in range(1, 5):
            kubernetes.add_pod(f"p{i}", {"cpu": "1"})
        driven.until(lambda: len(driven.placed()) == 4)
        driven.until(lambda: {str(entry.phase) for entry in driven.driver.table} <= {"running", "foreign", "waiting"})
        assert driven.placed()[raced[0]] != raced[1]
        assert overbooked(kubernetes) == []
        held = Counter(node for entry in driven.driver.table for node in entry.nodes)
        assert held == {"n1": 2, "n2": 2}


def test_a_pod_made_again_under_its_name_is_another(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1"], {"cpu": "1", "memory": "8Gi"})
    with DrivenPods(kubernetes) as driven:
        kubernetes.add_pod("p", {"cpu": "1"})
        driven.until(lambda: "p" in driven.placed())
        kubernetes.wait_until(lambda: driven.pods()["p"]["status"]["phase"] == "Running")
        first = driven.pods()["p"]["metadata"]["uid"]
        kubernetes.admin.delete("/api/v1/namespaces/default/pods/p", gracePeriodSeconds=0)
        kubernetes.add_pod("p", {"cpu": "1"})
        driven.until(lambda: driven.placed() == {"p": "n1"} and driven.pods()["p"]["metadata"]["uid"] != first)
        driven.until(lambda: len(driven.driver.table) == 1)
        assert first not in next(iter(driven.driver.table)).key


def test_gates_taints_and_what_no_node_has(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["open"], {"cpu": "4", "memory": "8Gi"})
    kubernetes.add_nodes(
        ["kept"], {"cpu": "4", "memory": "8Gi"}, taints=[{"key": "team", "value": "a", "effect": "NoSchedule"}]
    )
    tolerates = [{"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}]
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["kept"]}]}]
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    with DrivenPods(kubernetes) as driven:
        kubernetes.add_pod("gated", {"cpu": "1"}, schedulingGates=[{"name": "example.com/quota"}])
        kubernetes.add_pod("there", {"cpu": "1"}, tolerations=tolerates, affinity=required)
        kubernetes.add_pod("nowhere", {"cpu": "1"}, affinity=required)
        kubernetes.add_pod("huge", {"cpu": "5"})
        kubernetes.add_pod("strange", {"cpu": "1", "example.com/fpga": "1"})
        kubernetes.add_pod("spread", {"cpu": "1"}, topologySpreadConstraints=[spread])
        kubernetes.add_pod("badly", {"cpu": "1"}, metadata={"annotations": {"unrack.io/run-time": "soon\n"}})
        for i in range(4):
            kubernetes.add_pod(f"p{i}", {"cpu": "1"})
        driven.until(lambda: len(driven.placed()) == 5)
        for _ in range(10):
            driven.go()
        assert driven.placed() == {"there": "kept", **{f"p{i}": "open" for i in range(4)}}
        driven.until(lambda: len(said_of(kubernetes)) == 5)
        said = said_of(kubernetes)
        assert said["nowhere"] == ["none of 2 nodes is one that it may run on"]
        assert said["huge"][0].startswith("it asks for more than ")
        assert "5000 thousandths of a core, of which there are 4000" in said["huge"][0]
        assert "1 example.com/fpga, of which there are 0" in said["strange"][0]
        assert said["spread"] == [
            "affinity, spread or ports of pods, or its volumes, keep it off all of 1 nodes that it may run on"
        ]
        assert "is not a time" in said["badly"][0]
        kubernetes.admin.delete("/api/v1/namespaces/default/pods/p0", gracePeriodSeconds=0)
        kubernetes.admin.patch("/api/v1/namespaces/default/pods/gated", {"spec": {"schedulingGates": []}})
        driven.until(lambda: driven.placed().get("gated") == "open")


def test_nodes_come_are_cordoned_and_go(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "2", "memory": "8Gi"})
    with DrivenPods(kubernetes) as driven:
        kubernetes.admin.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": True}})
        for i in range(3):
            kubernetes.add_pod(f"p{i}", {"cpu": "1"})
        driven.until(lambda: len(driven.placed()) == 2)
        for _ in range(10):
            driven.go()
        assert set(driven.placed().values()) == {"n2"}
        kubernetes.add_nodes(["n3"], {"cpu": "1", "memory": "8Gi"})
        driven.until(lambda: len(driven.placed()) == 3)
        kubernetes.add_pod("p3", {"cpu": "1"})
        kubernetes.admin.delete("/api/v1/nodes/n3")
        kubernetes.admin.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": None}})
        driven.until(lambda: driven.placed().get("p3") == "n1")


def test_the_server_is_killed_and_comes_back(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    bed = new_kubernetes()
    bed.add_nodes(["n1", "n2", "n3"], {"cpu": "4", "memory": "8Gi"})
    with DrivenPods(bed) as driven:
        for round_ in range(2):
            for i in range(20):
                bed.add_pod(f"p{round_}-{i}", {"cpu": "1"}, run_s=0.5)
            for _ in range(3):
                driven.go()
            bed.kill("kube-apiserver")
            for _ in range(5):
                driven.go()
            bed.start_server()
        driven.until_all(timeout_s=120)
        assert overbooked(bed) == []
        assert driven.placed() == decided(driven)
        driven.until(lambda: len(driven.driver.table) == 0)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_driver_is_killed_at_any_point_and_goes_on(kubernetes: KubernetesBed, seed: int) -> None:
    random = Random(seed)
    kubernetes.add_nodes(["n1", "n2", "n3"], {"cpu": "4", "memory": "8Gi"})
    for i in range(60):
        kubernetes.add_pod(f"p{i}", {"cpu": random.choice(["1", "500m", "2"])}, run_s=random.choice([0.2, 0.8]))
    driven = DrivenPods(kubernetes)
    kills = 0
    while kills < 12:
        deadly = Deadly(random.randrange(1, 30))
        driven.journal.danger = deadly.step
        driven.adapter._start = deadly.around(driven.adapter._start)  # type: ignore[method-assign]
        try:
            for _ in range(40):
                driven.go()
        except Killed:
            pass
        kills += 1
        driven.stop()
        assert overbooked(kubernetes) == []
        driven.journal.danger = lambda _: None
        driven.begin()
    driven.until_all(timeout_s=120)
    driven.until(lambda: len(driven.driver.table) == 0)
    assert overbooked(kubernetes) == []
    assert len(driven.placed()) == 60
    assert replay(driven.journal.records()).differences == []
    driven.stop()


def test_who_is_preempted_is_deleted_and_its_place_is_taken_once_it_has_gone(
    kubernetes: KubernetesBed, tmp_path: Path
) -> None:
    (tmp_path / "preempts.py").write_text(PREEMPTS)
    kubernetes.add_nodes(["n1"], {"cpu": "2", "memory": "8Gi"})
    with DrivenPods(kubernetes, {"file": f"{tmp_path}/preempts.py:Preempts"}) as driven:
        kubernetes.add_pod("first", {"cpu": "2"}, terminationGracePeriodSeconds=7)
        driven.until(lambda: driven.placed() == {"first": "n1"})
        kubernetes.add_pod("second", {"cpu": "2"})
        crowded = list[str]()

        def is_taken() -> bool:
            crowded.extend(overbooked(kubernetes))
            return driven.placed() == {"second": "n1"}

        driven.until(is_taken)
        assert crowded == []
        assert list(driven.pods()) == ["second"]
        driven.until(lambda: len(driven.driver.table) == 1)


def test_it_is_unreachable_or_forbids(kubernetes: KubernetesBed) -> None:
    kubernetes.add_nodes(["n1"], {"cpu": "2", "memory": "8Gi"})
    access = access_here(kubernetes.kubeconfig("nobody"), None)
    adapter = KubernetesAdapter(access, "unrack", "easy", added=Added(1_000_000), timeout_s=5)
    with pytest.raises(InputError, match="the rights to list and watch"):
        adapter.changed(0)
    adapter.close()
    adapter = KubernetesAdapter(Access("http://127.0.0.1:1"), "unrack", "easy", added=Added(1_000_000), timeout_s=0.3)
    with pytest.raises(UnreachableError):
        adapter.changed(0)
    adapter.close()


def site_file(bed: KubernetesBed, folder: Path, **keys: str) -> Path:
    path = folder / "site.toml"
    lines = {"policy": '"easy"', "state": '"state"', "kubeconfig": f'"{bed.kubeconfig(DRIVER)}"', **keys}
    text = "\n".join(f"{key} = {value}" for key, value in lines.items())
    path.write_text(f'{text}\n[metrics]\naddress = ""\n')
    return path


def test_the_command_schedules_until_it_is_told_to_end(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    kubernetes.add_nodes(["n1"], {"cpu": "2", "memory": "8Gi"})
    command = [sys.executable, "-m", "unrack", "kubernetes", "run", "--config", str(site_file(kubernetes, tmp_path))]
    status = [*command[:4], "status", *command[5:]]
    for i in range(4):
        kubernetes.add_pod(f"p{i}", {"cpu": "1"}, run_s=0.3)
    kubernetes.add_pod("huge", {"cpu": "64"})
    tried = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, timeout=120)
    assert tried.returncode == 0, tried.stderr
    assert "2 would start, 2 would wait, 1 are not to be started now" in tried.stdout
    assert all("nodeName" not in pod["spec"] for pod in kubernetes.admin.get("/api/v1/pods")["items"])
    assert said_of(kubernetes) == {}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            for i in range(4):
                kubernetes.wait_until(
                    lambda i=i: kubernetes.pod(f"p{i}")["status"]["phase"] == "Succeeded",
                    60,  # type: ignore[misc,index]
                )
            again = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert again.returncode == 2
        finally:
            process.terminate()
        assert process.wait(30) == 0
    told = subprocess.run([*status, "--json"], capture_output=True, text=True, timeout=60)
    assert [job["why"] for job in json.loads(told.stdout)["jobs"]] == [
        "it asks for more than a node that it may run on has: 64000 thousandths of a core, of which there are 2000"
    ]
    again = subprocess.run(
        [*command[:4], "replay", str(tmp_path / "state")], capture_output=True, text=True, timeout=60
    )
    assert again.stdout.endswith("all the same\n"), again.stderr
    compared = subprocess.run(
        [*command[:4], "compare", str(tmp_path / "state"), "--json"], capture_output=True, text=True, timeout=120
    )
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout)["jobs"] == 4


PREEMPTS = '''\
from unrack.live.driver.state.epoch import policy_of
from unrack.policy import Code, Reason, Requeue

inner = policy_of("easy")


class Preempts:
    """EASY, and whoever came first is stopped if somebody waits."""

    name = "preempts"
    traits = inner.traits

    def begin(self, view):
        return inner.begin(view)

    def decide(self, view, memory, now):
        found, memory = inner.decide(view, memory, now)
        running = view.running_jobs.tolist()
        if not found and running and view.waiting and min(running) < max(job.index for job in view.waiting_jobs()):
            return [Requeue(min(running), Reason(Code.PREEMPTED))], memory
        return found, memory
'''


def decided(driven: DrivenPods) -> dict[str, str]:
    """Name of each pod → the node that was decided last, by the journal."""
    found = {}
    for record in driven.journal.records():
        for key, entry in record.get("entries", {}).items():
            if entry is not None and entry.get("decided_us") is not None and entry.get("lease"):
                found[key.split("/")[1]] = entry["lease"]["rows"][0][0]
    return found


def bind(bed: KubernetesBed, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    bed.admin.post(path, {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target})


def said_of(bed: KubernetesBed) -> dict[str, list[str]]:
    """What pods that are there were told, in events."""
    there = {pod["metadata"]["uid"] for pod in bed.admin.get("/api/v1/pods")["items"]}
    found: dict[str, list[str]] = {}
    for event in bed.admin.get("/apis/events.k8s.io/v1/events")["items"]:
        if event["reason"] == "FailedScheduling" and event["regarding"]["uid"] in there:
            found.setdefault(event["regarding"]["name"], []).append(event["note"])
    return found
