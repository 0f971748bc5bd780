"""Manifests as pods that wait, and objects of Kubernetes as a moment to ask about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from test_snapshot_of_kubernetes import AT_S, WHOLE, node, pod
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError
from unrack.kubernetes_text import asked_by
from unrack.live.kubernetes.manifest import pods_of, reading_of_file, written
from unrack.live.kubernetes.snapshot import Reading

DEPLOYMENT = """
apiVersion: v1
kind: Service
metadata: {name: web}
---
# what runs
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
spec:
  replicas: 3
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: n9
      nodeSelector: {zone: a}
      containers:
      - name: c
        resources: {requests: {cpu: 2, memory: 1Gi}, limits: {x.y/nic: 1}}
---
"""
JOB = """
kind: Job
metadata: {generateName: train-}
spec:
  parallelism: 2
  activeDeadlineSeconds: 600
  template: {spec: {containers: [{name: c, resources: {requests: {cpu: 0.5}}}]}}
"""


def manifest(folder: Path, text: str, name: str = "pod.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_what_makes_pods_makes_as_many_as_it_would(tmp_path: Path) -> None:
    pods = pods_of(manifest(tmp_path, DEPLOYMENT))
    assert [(one.metadata.namespace, one.metadata.name) for one in pods] == [("shop", f"web-{n}") for n in range(3)]
    assert pods[0].spec.node_name == ""
    assert pods[0].spec.node_selector == {"zone": "a"}
    assert pods[0].spec.containers[0].resources.requests == {"cpu": "2", "memory": "1Gi"}
    jobs = pods_of(manifest(tmp_path, JOB))
    assert [one.metadata.name for one in jobs] == ["train--0", "train--1"]
    assert jobs[0].spec.active_deadline_seconds == 600
    assert jobs[0].spec.containers[0].resources.requests == {"cpu": "0.5"}
    import msgspec

    assert asked_by(msgspec.to_builtins(jobs[0]))["cpu"] == 0.5
    cron = {"kind": "CronJob", "metadata": {"name": "n"}, "spec": {"jobTemplate": {"spec": json.loads(
        '{"template": {"spec": {"containers": [{"name": "c"}]}}}'
    )}}}  # fmt: skip
    assert [one.metadata.name for one in pods_of(manifest(tmp_path, json.dumps(cron), "cron.json"))] == ["n-0"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Service\n", "no pod"),
        ("a: [", "wanted YAML or JSON"),
        ("- 1\n", "objects of Kubernetes"),
        ("spec: {}\n", "an object without a kind"),
        ("kind: DaemonSet\nspec: {}\n", "a DaemonSet"),
        ("kind: Pod\nmetadata: {name: p}\nspec: {}\n", "Pod p: got no containers"),
        ("kind: Job\nspec: {parallelism: -1, template: {spec: {containers: [{}]}}}\n", "spec.parallelism: got -1"),
        ("kind: Job\nspec: {parallelism: many, template: {spec: {containers: [{}]}}}\n", "got 'many'"),
        ("kind: Pod\nspec: {containers: [{name: 3}]}\n", "Expected `str`"),
    ],
)
def test_what_is_no_manifest_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        pods_of(manifest(tmp_path, text))
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["pod.yaml", "pod.json"])
def test_a_manifest_written_on_windows_is_read_as_any(tmp_path: Path, name: str) -> None:
    text = DEPLOYMENT if name == "pod.yaml" else json.dumps(msgspec.yaml.decode(JOB), indent=1)
    plain = pods_of(manifest(tmp_path, text, name))
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert pods_of(tmp_path / name) == plain


def test_objects_that_a_snapshot_wrote_are_read_again(tmp_path: Path) -> None:
    reading = Reading(AT_S, [node("n1", WHOLE, labels={"zone": "a"})], [pod("a", {"cpu": "2"}, on="n1")])
    path = tmp_path / "now.objects.json"
    path.write_bytes(written(reading))
    assert reading_of_file(path, 0.0) == reading
    with pytest.raises(InputError, match="no nodes"):
        reading_of_file(manifest(tmp_path, "{}", "now.json"), 0.0)


def asked(folder: Path, reading: Reading, text: str, *words: str) -> dict[str, Any]:
    now = folder / "now.json"
    now.write_bytes(written(reading))
    found = CliRunner().invoke(app, ["what-if", str(now), str(manifest(folder, text)), "--json", *words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    told: dict[str, Any] = json.loads(found.stdout)
    return told


def test_replicas_start_as_far_as_nodes_have_room_also_on_an_idle_system(tmp_path: Path) -> None:
    nodes = [
        node(name, {**WHOLE, "cpu": "4", "x.y/nic": "2"}, labels={"zone": zone})
        for name, zone in (("n1", "a"), ("n2", "b"))
    ]
    found = asked(tmp_path, Reading(AT_S, nodes, []), DEPLOYMENT)
    assert (found["running"], found["waiting"], len(found["asked"])) == (0, 0, 3)
    assert found["first_start_s"] < 1 < found["start_s"]
    assert found["nodes"] == {"all": 2, "with_room": 0, "closed": 1, "lack": {"cores": 1, "counted.x_y_nic": 1}}
    two = asked(tmp_path, Reading(AT_S, nodes, []), DEPLOYMENT.replace("replicas: 3", "replicas: 2"))
    assert two["starts_now"]


def test_a_pod_that_asks_for_what_no_node_has_never_starts_and_says_so(tmp_path: Path) -> None:
    found = asked(tmp_path, Reading(AT_S, [node("n1", WHOLE)], []), JOB.replace("cpu: 0.5", "x.y/fpga: 1"))
    assert found["start_s"] is None
    assert found["reason"]["what"] == "x.y/fpga, which no node has"


def test_a_pod_that_could_move_elsewhere_is_found_and_loses_little(tmp_path: Path) -> None:
    nodes = [node("n1", WHOLE), node("n2", {"cpu": "4", "memory": "16Gi"})]
    pods = [pod("small", {"cpu": "3"}, on="n1", ago_s=60), pod("other", {"cpu": "1"}, on="n2", ago_s=9000)]
    text = 'kind: Pod\nmetadata: {name: big}\nspec: {containers: [{name: c, resources: {requests: {cpu: "8"}}}]}'
    found = asked(tmp_path, Reading(AT_S, nodes, pods), text)
    best = next(one for one in found["advice"]["found"] if "--requeue" in one["options"])
    assert best["options"] == "--requeue work/small"
    assert best["start_s"] < 1
    assert best["later"] == 0  # it goes on at once on n2


def test_pods_of_names_that_are_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="work/a, which is there already"):
        asked(
            tmp_path,
            Reading(AT_S, [node("n1", WHOLE)], [pod("a", {"cpu": "1"})]),
            "kind: Pod\nmetadata: {name: a, namespace: work}\nspec: {containers: [{name: c}]}",
        )
