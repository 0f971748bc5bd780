"""Whether a pod would start now, and what its nodes lack, as kube-scheduler itself says at the same instant."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from k8s_bed import KubernetesBed

from unrack.cli.what_if import opened
from unrack.plan.what_if.answer import Answer, Question, answer

Content = dict[str, Any]
NAMES = {"cpu": "cores", "memory": "memory", "nvidia.com/gpu": "gpus", "x.y/nic": "counted.x_y_nic"}


@pytest.fixture(scope="module")
def scheduled(programs: Path) -> Iterator[KubernetesBed]:
    """A cluster with kube-scheduler."""
    with KubernetesBed(programs, scheduler=True, kubelets=False) as bed:
        yield bed


def some_pod(random: Random, number: int) -> Content:
    requests = {"cpu": f"{random.randrange(1, 60) * 100}m", "memory": f"{random.randrange(1, 40) * 256}Mi"}
    requests |= {"nvidia.com/gpu": str(random.randrange(1, 4))} if random.random() < 0.3 else {}
    requests |= {"x.y/nic": "1"} if random.random() < 0.3 else {}
    spec: Content = {"containers": [{"name": "c", "image": "none", "resources": {"requests": requests}}]}
    spec["containers"][0]["resources"]["limits"] = {key: value for key, value in requests.items() if "/" in key}
    if random.random() < 0.4:
        spec["nodeSelector"] = {"zone": random.choice("ab")}
    if random.random() < 0.5:
        spec["tolerations"] = [{"key": "only", "operator": "Exists"}]
    metadata = {"name": f"pod{number:02}", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def verdict(bed: KubernetesBed, name: str) -> tuple[bool, str]:
    """Whether kube-scheduler has bound a pod, and else what it says."""
    found: dict[str, Content] = {}

    def decided() -> bool:
        pod = bed.pod(name)
        assert pod is not None
        conditions = [one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"]
        found.update({"pod": pod, **({"said": conditions[0]} if conditions else {})})
        return bool(conditions)

    bed.wait_until(decided, 60, f"{name} was looked at")
    return bool(found["pod"]["spec"].get("nodeName")), found["said"].get("message", "")


def asked(bed: KubernetesBed, manifest: Content, folder: Path) -> Answer:
    items = [
        {**one, "kind": kind}
        for kind, plural in (("Node", "nodes"), ("Pod", "pods"))
        for one in bed.admin.get(f"/api/v1/{plural}")["items"]
    ]
    now, pod = folder / "now.json", folder / "pod.json"
    now.write_text(json.dumps({"kind": "List", "items": items}))
    pod.write_text(json.dumps(manifest))
    source, submit, notes = opened(now, pod, None, {})
    return answer(source, Question(submit), tries=0, notes=notes)


def test_a_pod_starts_now_where_kube_scheduler_binds_it_and_its_nodes_lack_the_same(
    scheduled: KubernetesBed, tmp_path: Path
) -> None:
    random = Random(3)
    for number in range(8):
        capacity = {"cpu": f"{random.randrange(4, 24)}", "memory": f"{random.randrange(4, 48)}Gi", "pods": "6"}
        capacity |= {"nvidia.com/gpu": "4"} if number % 3 == 0 else {}
        capacity |= {"x.y/nic": "2"} if number % 2 else {}
        taints = [{"key": "only", "value": "x", "effect": "NoSchedule"}] if number in (2, 5) else []
        scheduled.add_nodes([f"n{number}"], capacity, labels={"zone": "ab"[number % 2]}, taints=taints)
    fits, lacks = 0, set()
    for number in range(60):
        manifest = some_pod(random, number)
        found = asked(scheduled, manifest, tmp_path)
        manifest["spec"]["schedulerName"] = "default-scheduler"
        scheduled.admin.post("/api/v1/namespaces/default/pods", manifest)
        bound, message = verdict(scheduled, f"pod{number:02}")
        assert (found.start_s is not None and found.start_s < 1) == bound, (manifest, message, found.look)
        fits += bound
        if bound:
            continue
        assert found.look is not None
        room = found.look.room
        assert room is not None
        assert room.with_room == 0
        said = message.partition("preemption:")[0]
        short = {NAMES[what]: int(count) for count, what in re.findall(r"(\d+) Insufficient ([\w./-]+[\w])", said)}
        if many := re.search(r"(\d+) Too many pods", said):
            short["counted.pods"] = int(many[1])
        closed = sum(int(count) for count in re.findall(r"(\d+) node\(s\)", said))
        assert (room.nodes, room.closed, room.lacks) == (8, closed, short), message
        lacks |= short.keys()
        scheduled.admin.delete(f"/api/v1/namespaces/default/pods/pod{number:02}", gracePeriodSeconds=0)
    assert 10 < fits < 50
    assert {"cores", "memory", "gpus"} <= lacks
