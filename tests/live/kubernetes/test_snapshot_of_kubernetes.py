"""A running Kubernetes as a study: every pod in its place, and a run that begins there."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from k8s_bed import KubernetesBed

from unrack.errors import ClusterError, InputError
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.client.others import Other
from unrack.live.kubernetes.forecast import forecast_of
from unrack.live.kubernetes.machines import is_open
from unrack.live.kubernetes.manifest import reading_of_file, written
from unrack.live.kubernetes.places import may_run
from unrack.live.kubernetes.snapshot import Reading, Snapshot, snapshot_of
from unrack.live.kubernetes.volumes.claims import CLAIMS, VOLUMES, Volumes
from unrack.study.grid import load_study
from unrack.study.runner import simulated

AT_S = 1_800_000_000.0
Content = dict[str, Any]


def time(ago_s: float) -> str:
    return datetime.fromtimestamp(AT_S - ago_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, allocatable: Content, *, ready: str = "True", **spec: Any) -> Node:
    labels = {"kubernetes.io/hostname": name, **spec.pop("labels", {})}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}, Node)


def pod(name: str, requests: Content, *, on: str = "", ago_s: float = 100, **keys: Any) -> Pod:
    metadata = {"name": name, "namespace": "work", "uid": name, "creationTimestamp": time(ago_s)}
    metadata |= keys.pop("metadata", {})
    status = {"phase": "Running", "startTime": time(ago_s)} if on else {"phase": keys.pop("phase", "Pending")}
    spec = {"nodeName": on, "containers": [{"name": "c", "resources": {"requests": requests}}], **keys}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def taken(nodes: list[Node], pods: list[Pod], **options: Any) -> Snapshot:
    return snapshot_of(Reading(AT_S, nodes, pods), **options)


def rows(snapshot: Snapshot) -> dict[str, Content]:
    return {row["id"].removeprefix("work/"): row for row in snapshot.table.to_dicts()}


WHOLE = {"cpu": "8", "memory": "16Gi"}


def test_pods_that_run_are_on_their_nodes_and_those_that_wait_in_order() -> None:
    pods = [
        pod("later", {"cpu": "2"}, ago_s=10),
        pod("first", {"cpu": "2", "memory": "1Gi"}, ago_s=50, priority=7),
        pod("runs", {"cpu": "4"}, on="n2", ago_s=300, activeDeadlineSeconds=1000),
        pod("over", {"cpu": "4"}, phase="Succeeded"),
    ]
    found = taken([node("n1", WHOLE), node("n2", WHOLE)], pods, longest_us=3_600_000_000)
    assert found.table["id"].to_list() == ["work/runs", "work/first", "work/later"]
    listed = rows(found)
    assert [listed["runs"][key] for key in ("on", "ran", "run", "submit")] == ["n2", 300, 1000, 0]
    assert [listed["first"][key] for key in ("cores", "memory", "priority", "run", "waited_s")] == [
        2,
        1024,
        7,
        3600,
        50,
    ]
    assert listed["first"]["submit"] == listed["later"]["submit"]  # of one moment: their rows are in order
    assert found.cluster.names == ("n1", "n2")
    assert found.notes == ("No pod is preempted, though some wait with a priority above that of others that run.",)


def test_starts_of_pods_are_predicted_as_their_run_times_say(tmp_path: Path) -> None:
    says = {"metadata": {"annotations": {"unrack.io/run-time": "10 min"}}}
    pods = [
        pod("runs", {"cpu": "8"}, on="n1", ago_s=300, **says),
        pod("next", {"cpu": "8"}, ago_s=50, activeDeadlineSeconds=60),
        pod("then", {"cpu": "8"}, ago_s=40),
        pod("gated", {"cpu": "1"}, schedulingGates=[{"name": "g/1"}]),
    ]
    found = forecast_of(Reading(AT_S, [node("n1", WHOLE)], pods), ["fcfs"])
    assert [one.policy for one in found.predictions] == ["present (kube-scheduler)", "fcfs"]
    for one in found.predictions:
        assert {start.job: start.requested_s for start in one.starts} == {"work/next": 300.0, "work/then": 360.0}
    assert found.aside == (("work/gated", "its gates g/1"),)
    assert found.started == {"work/runs": AT_S - 300}
    assert found.facts["work/then"].waited_s == 40
    none = forecast_of(Reading(AT_S, [node("n1", WHOLE)], pods[:1]))
    assert none.predictions == ()


def test_a_run_time_that_is_none_is_refused_with_the_pod() -> None:
    odd = pod("odd", {"cpu": "1"}, metadata={"annotations": {"unrack.io/run-time": "soon"}})
    with pytest.raises(InputError, match=r"pod work/odd, unrack.io/run-time"):
        taken([node("n1", WHOLE)], [odd])


def test_cores_are_thousandths_where_anybody_has_or_asks_a_part_of_one() -> None:
    found = taken([node("n1", {"cpu": "3920m", "memory": "16Gi"})], [pod("a", {"cpu": "100m"}), pod("b", {})])
    assert found.table["cores"].to_list() == [100, 1]
    assert found.cluster.cores.tolist() == [3920]
    assert "Cores are counted in thousandths." in found.notes


def test_devices_are_gpus_or_counters_and_what_nobody_asks_for_is_not_counted() -> None:
    has = {
        **WHOLE,
        "pods": "110",
        "nvidia.com/gpu": "4",
        "x.y/nic": "2",
        "x.y/unused": "9",
        "ephemeral-storage": "10Gi",
    }
    pods = [pod("a", {"cpu": "1", "nvidia.com/gpu": "2", "x.y/nic": "1", "ephemeral-storage": "1500Ki"})]
    found = taken([node("n1", has), node("n2", WHOLE)], pods)
    (row,) = found.table.to_dicts()
    assert [row[f"counted.{name}"] for name in ("x_y_nic", "ephemeral_storage")] == [1, 2]
    assert row["gpus.count"] == 2
    assert {one["name"]: (one["amount"], one["nodes"]) for one in found.content["counted"]} == {
        "x_y_nic": (2, ["n1"]),
        "ephemeral_storage": (10_240, ["n1"]),
    }


def test_a_node_holds_no_more_pods_than_it_may() -> None:
    small = node("n1", {**WHOLE, "pods": "2"})
    found = taken([small], [pod(name, {"cpu": "1"}) for name in "abc"])
    assert found.table["counted.pods"].to_list() == [1, 1, 1]
    assert "counted.pods" not in taken([small], [pod("a", {"cpu": "1"})]).table.columns


def test_pods_that_may_run_nowhere_or_wait_for_more_are_not_in_the_queue() -> None:
    pods = [
        pod("gated", {"cpu": "1"}, schedulingGates=[{"name": "g/1"}]),
        pod("nowhere", {"cpu": "1"}, nodeSelector={"zone": "b"}),
        pod("absent", {"cpu": "1", "x.y/fpga": "1"}),
        pod("drained", {"cpu": "1"}, nodeSelector={"kubernetes.io/hostname": "n2"}),
        pod("ours", {"cpu": "1"}),
        pod("ending", {"cpu": "1"}, metadata={"deletionTimestamp": time(-30)}),
        pod("holds", {"cpu": "1"}, on="n2"),
    ]
    cordoned = node("n2", WHOLE, unschedulable=True)
    found = taken([node("n1", WHOLE), cordoned, node("n3", WHOLE, ready="False")], pods)
    assert {name: row["waits_for"] for name, row in rows(found).items()} == {
        "holds": None,
        "ours": None,
        "gated": "its gates g/1",
        "nowhere": "a node that it may run on",
        "absent": "x.y/fpga, which no node has",
        "drained": "a node that it may run on",
    }
    assert [name for name, row in rows(found).items() if row["submit"] is None] == sorted(
        ["absent", "drained", "gated", "nowhere"]
    )
    assert found.content["drained"] == "n2"
    assert "site" not in found.content
    assert any("cordoned or not ready" in note for note in found.notes)


def test_what_is_not_kept_is_said_once() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}}
    keys: Content = {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [{"maxSkew": 1}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "resourceClaims": [{"name": "r"}],
        "schedulingGroup": {"podGroupName": "g"},
    }
    pods = [pod(name, {"cpu": "1"}, **keys) for name in "ab"]
    ports = [{"name": "c", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "1"}}}]
    pods += [
        pod("port", {}, containers=ports),
        pod("high", {"cpu": "1"}, priority=9),
        pod("low", {"cpu": "1"}, on="n1"),
    ]
    notes = taken([node("n1", WHOLE)], pods).notes
    for what in ("anti-affinity to other pods", "topology spread", "volumes", "claims of devices", "its gang"):
        assert len([note for note in notes if what in note and note.endswith(": 2 pods.")]) == 1, what
    assert any("ports of its node: 1 pod." in note for note in notes)
    assert any("No pod is preempted" in note for note in notes)


def test_a_pod_that_is_being_ended_holds_its_node_until_then() -> None:
    ending = pod("a", {"cpu": "1"}, on="n1", ago_s=60, metadata={"deletionTimestamp": time(-30)})
    (row,) = taken([node("n1", WHOLE)], [ending]).table.to_dicts()
    assert (row["ran"], row["run"]) == (60, 90)


def test_what_a_node_cannot_hold_and_nodes_that_are_gone_are_left_out() -> None:
    pods = [pod(name, {"cpu": "3"}, on="n1", ago_s=age) for name, age in (("c", 1), ("a", 9), ("b", 5))]
    found = taken([node("n1", WHOLE)], [*pods, pod("lost", {"cpu": "1"}, on="gone")])
    assert found.table["id"].to_list() == ["work/a", "work/b"]
    assert sorted(note for note in found.notes if "left out" in note) == [
        "Runs beyond what its node has; left out: 1 pod.",
        "Runs on a node that is not there; left out: 1 pod.",
    ]


def test_only_waiting_pods_of_the_schedulers_that_are_named() -> None:
    pods = [pod("a", {"cpu": "1"}, schedulerName="mine"), pod("b", {"cpu": "1"}, schedulerName="theirs")]
    assert taken([node("n1", WHOLE)], pods, schedulers=["mine"]).table["id"].to_list() == ["work/a"]


def test_input_that_cannot_be_is_refused_and_says_where() -> None:
    with pytest.raises(ClusterError, match="none in use"):
        taken([node("n1", WHOLE, unschedulable=True)], [])
    with pytest.raises(ClusterError, match="allocatable"):
        taken([node("n1", {"cpu": "many", "memory": "1"})], [])
    with pytest.raises(InputError, match="pod work/a: got 'lots', wanted a quantity"):
        taken([node("n1", WHOLE)], [pod("a", {"cpu": "lots"})])


def random_cluster(random: Random) -> tuple[list[Node], list[Pod]]:
    """Nodes and pods of all kinds; some run, on nodes that may lack what they hold."""
    kinds: list[Content] = [
        {"cpu": "4", "memory": "8Gi", "pods": "6"},
        {"cpu": "7910m", "memory": "30Gi", "pods": "110", "nvidia.com/gpu": "4"},
        {"cpu": "16", "memory": "64Gi", "x.y/nic": "2", "amd.com/gpu": "1"},
    ]
    nodes = [
        node(
            random.choice(["n{}", "ip-10-0-0-{}.ec2.internal", "node0{}", "gke-a-{}-x1f", "{}.b"]).format(number),
            random.choice(kinds),
            ready=random.choice(["True"] * 9 + ["Unknown"]),
            unschedulable=random.random() < 0.1,
            labels={"zone": random.choice("ab")},
            taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}] if random.random() < 0.2 else [],
        )
        for number in range(random.randrange(1, 9))
    ]
    pods = []
    for number in range(random.randrange(60)):
        asked: Content = {"cpu": random.choice(["0", "100m", "1", "2500m", "8"]), "memory": f"{random.randrange(9)}Gi"}
        for device in ("nvidia.com/gpu", "x.y/nic", "amd.com/gpu", "x.y/absent"):
            asked |= {device: "1"} if random.random() < 0.12 else {}
        keys: Content = {"nodeSelector": {"zone": random.choice("abc")}} if random.random() < 0.4 else {}
        keys |= {"tolerations": [{"operator": "Exists"}]} if random.random() < 0.3 else {}
        keys |= {"activeDeadlineSeconds": random.randrange(1, 9000)} if random.random() < 0.5 else {}
        keys |= {"priority": random.choice([-5, 0, 0, 1000])}
        keys |= {"schedulingGates": [{"name": "g"}]} if random.random() < 0.1 else {}
        on = random.choice(nodes).metadata.name if random.random() < 0.5 else ""
        pods.append(pod(f"p{number}", asked, on=on, ago_s=random.randrange(4000), **keys))
    return nodes, pods


@pytest.mark.parametrize("seed", range(25))
def test_whatever_there_is_runs_as_a_study_and_nobody_starts_where_he_may_not(seed: int, tmp_path: Path) -> None:
    nodes, pods = random_cluster(Random(seed))
    if not any(one.status.conditions[0].status == "True" and not one.spec.unschedulable for one in nodes):
        return
    found = taken(nodes, pods)
    counts = len(found.table), int(found.table["submit"].null_count())
    if counts[0] == counts[1]:
        return
    found.write(tmp_path / "now.toml")
    (run,) = load_study(tmp_path / "now.toml").runs
    placed = simulated(run).placements.to_dicts()  # audited
    of, places = {f"work/{one.metadata.name}": one for one in pods}, {one.metadata.name: one for one in nodes}
    for row in placed:
        where, one = places[run.cluster.names[row["first_node"]]], of[row["job"]]
        assert one.spec.node_name == where.metadata.name or (may_run(one, where) and is_open(where))
    runs = set(found.table.filter(found.table["on"].is_not_null())["id"])
    queued = set(found.table.filter(found.table["submit"].is_not_null())["id"])
    assert runs <= {row["job"] for row in placed if row["start_s"] <= 0} <= queued


def test_the_command_takes_a_running_cluster_and_the_study_runs(kubernetes: KubernetesBed, tmp_path: Path) -> None:
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4"}, labels={"zone": "a"})
    kubernetes.add_pod("runs", {"cpu": "500m", "nvidia.com/gpu": "1"}, nodeName="n2")
    kubernetes.add_pod("waits", {"cpu": "8"}, activeDeadlineSeconds=60)
    kubernetes.add_pod("gated", {"cpu": "1"}, schedulingGates=[{"name": "a.b/c"}])
    kubernetes.wait_until(lambda: (kubernetes.pod("runs") or {})["status"]["phase"] == "Running")

    def unrack(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "unrack", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = unrack("kubernetes", "snapshot", "--kubeconfig", str(kubernetes.kubeconfig()), "--out", "now.toml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "now.jobs.csv: 1 pods run, 1 wait, 1 wait for something else" in done.stdout
    assert kubernetes.pod("waits")["spec"].get("nodeName") is None  # type: ignore[index]
    done = unrack("run", "now.toml", "--out", "out", "--quiet")
    assert done.returncode == 0, done.stderr
    assert "on node(s) 0" in unrack("explain", "out", "default/waits").stdout
    refused = unrack("kubernetes", "snapshot", "--kubeconfig", str(kubernetes.kubeconfig("nobody")), "--out", "b.toml")
    assert (refused.returncode, "403 Forbidden" in refused.stderr) == (1, True)
    wrong = unrack("kubernetes", "snapshot", "--kubeconfig", "nowhere", "--out", "b.toml")
    assert (wrong.returncode, "nowhere: got No such file" in wrong.stderr) == (2, True)
    kubernetes.kill("kube-apiserver")
    away = unrack("kubernetes", "snapshot", "--kubeconfig", str(kubernetes.kubeconfig()), "--out", "b.toml")
    kubernetes.start_server()
    assert (away.returncode, "Connect" in away.stderr) == (1, True), away.stderr


def test_a_pod_waits_for_nodes_that_its_volumes_are_for_also_from_a_file(tmp_path: Path) -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim: Content = {"metadata": {"name": "c", "namespace": "work", "annotations": bound}, "spec": {"volumeName": "v"}}
    volume = {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": required}}}
    volumes = Volumes()
    volumes.take(CLAIMS, [(None, msgspec.convert(claim, Other))], "")
    volumes.take(VOLUMES, [(None, msgspec.convert(volume, Other))], "")
    nodes = [node("n1", WHOLE, labels={"zone": "a"}), node("n2", WHOLE, labels={"zone": "b"})]
    claims = {name: [{"name": "v", "persistentVolumeClaim": {"claimName": name}}] for name in ("c", "new")}
    pods = [pod("a", {"cpu": "1"}, volumes=claims["c"]), pod("b", {"cpu": "1"}, volumes=claims["new"])]
    path = tmp_path / "now.json"
    path.write_bytes(written(Reading(AT_S, nodes, pods, volumes)))
    for reading in (Reading(AT_S, nodes, pods, volumes), reading_of_file(path, 0.0)):
        found = snapshot_of(reading)
        assert {name: row["exc_nodes"] for name, row in rows(found).items()} == {"a": "n2", "b": None}
        assert [note for note in found.notes if "volumes" in note] == [
            "Not kept of a pod: volumes that are not bound, not known or in use: 1 pod."
        ]
