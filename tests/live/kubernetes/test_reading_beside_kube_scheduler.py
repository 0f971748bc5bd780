"""What a pod asks for and where it may run, as kube-scheduler itself sees it."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from k8s_bed import KubernetesBed

from unrack.kubernetes_text import asked_by
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.places import may_run

Content = dict[str, Any]


@pytest.fixture(scope="module")
def scheduled(programs: Path) -> Iterator[KubernetesBed]:
    """A cluster with kube-scheduler."""
    with KubernetesBed(programs, scheduler=True, kubelets=False) as bed:
        overhead = {"podFixed": {"cpu": "250m", "memory": "10Mi"}}
        content = {"apiVersion": "node.k8s.io/v1", "metadata": {"name": "vm"}, "handler": "vm", "overhead": overhead}
        bed.admin.post("/apis/node.k8s.io/v1/runtimeclasses", content)
        yield bed


def placed(bed: KubernetesBed, names: list[str]) -> dict[str, bool]:
    """Whether the scheduler has given each of these pods a node; waits until it has decided on all."""
    found: dict[str, bool] = {}

    def decided() -> bool:
        for pod in bed.admin.get("/api/v1/pods")["items"]:
            conditions = {one["type"]: one for one in pod["status"].get("conditions", ())}
            if "PodScheduled" in conditions:
                found[pod["metadata"]["name"]] = bool(pod["spec"].get("nodeName"))
        return set(names) <= set(found)

    bed.wait_until(decided, 60, "all pods were looked at")
    return {name: found[name] for name in names}


def on(name: str) -> Content:
    """An affinity to one node."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    return required([{"matchFields": [field]}])


def required(terms: list[Content]) -> Content:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def some_containers(random: Random, number: int) -> Content:
    """The part of a pod's specification that says what it asks."""

    def container(name: str, **keys: Any) -> Content:
        asked = {"cpu": f"{random.randrange(1, 30) * 50}m"} if random.random() < 0.8 else {}
        asked |= {"memory": f"{random.randrange(1, 64)}Mi"} if random.random() < 0.8 else {}
        kind = random.choice(["requests", "limits"])
        return {"name": name, "image": "none", "resources": {kind: asked}, **keys}

    first = [
        container(f"i{place}", **({"restartPolicy": "Always"} if random.random() < 0.5 else {}))
        for place in range(random.randrange(4))
    ]
    spec: Content = {"containers": [container(f"c{place}") for place in range(random.randrange(1, 4))]}
    spec |= {"initContainers": first} if first else {}
    spec |= {"runtimeClassName": "vm"} if random.random() < 0.4 else {}
    spec |= {"resources": {"requests": {"cpu": "20", "memory": "2Gi"}}} if number % 5 == 0 else {}
    return spec


def test_a_pod_fits_a_node_of_what_it_asks_and_none_of_less(scheduled: KubernetesBed) -> None:
    scheduled.clear()
    random = Random(1)
    wanted = {}
    for number in range(30):
        spec = some_containers(random, number)
        made = scheduled.add_pod(f"seen{number}", schedulerName="nobody", **spec)
        asked = asked_by(made)
        cpu, memory = asked.get("cpu", Fraction(0)), asked.get("memory", Fraction(0))
        kinds = {"all": (0, 0)} | ({"less-cpu": (1, 0)} if cpu else {}) | ({"less-memory": (0, 1)} if memory else {})
        for kind, (less_cpu, less_memory) in kinds.items():
            name = f"{kind}{number}"
            capacity = {"cpu": f"{int(cpu * 1000) - less_cpu}m", "memory": str(int(memory) - less_memory)}
            scheduled.add_nodes([name], capacity)
            scheduled.add_pod(name, schedulerName="default-scheduler", affinity=on(name), **spec)
            wanted[name] = kind == "all"
    assert placed(scheduled, list(wanted)) == wanted
    assert sum(wanted.values()) == 30


LABELS: dict[str, list[str]] = {"zone": ["a", "b"], "size": ["3", "10", "big"], "ssd": [""]}
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]


def some_where(random: Random) -> Content:
    """The part of a pod's specification that says where it may run."""

    def requirement() -> Content:
        key = random.choice([*LABELS, "absent"])
        operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        if operator in ("Gt", "Lt"):
            return {"key": key, "operator": operator, "values": [random.choice(["2", "5", "10"])]}
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        values = random.sample([*LABELS.get(key, []), "other"], random.randrange(1, 1 + len(LABELS.get(key, [1]))))
        return {"key": key, "operator": operator, "values": values}

    def toleration() -> Content:
        key, operator = random.choice(["k", "l"]), random.choice(["Exists", "Equal", None])
        found: Content = {} if operator == "Exists" and random.random() < 0.3 else {"key": key}
        found |= {"operator": operator} if operator else {}
        found |= {} if operator == "Exists" else {"value": random.choice(["", "x", "y"])}
        return found | ({"effect": random.choice(EFFECTS)} if random.random() < 0.6 else {})

    selector = {key: random.choice(of) for key, of in LABELS.items() if random.random() < 0.08}
    terms = [
        {"matchExpressions": [requirement() for _ in range(random.randrange(3))]} for _ in range(random.randrange(3))
    ]
    spec: Content = {"nodeSelector": selector, "tolerations": [toleration() for _ in range(random.randrange(3))]}
    return spec | ({"affinity": required(terms)} if terms else {})


def test_a_pod_may_run_where_kube_scheduler_lets_it(scheduled: KubernetesBed) -> None:
    scheduled.clear()
    random = Random(7)
    for number in range(6):
        labels = {key: random.choice(of) for key, of in LABELS.items() if random.random() < 0.7}
        taints = [
            {"key": key, "value": random.choice(["", "x"]), "effect": random.choice(EFFECTS)}
            for key in random.sample(["k", "l"], random.choice([0, 0, 0, 1, 2]))
        ]
        scheduled.add_nodes([f"n{number}"], {"cpu": "900", "memory": "900Gi"}, labels=labels, taints=taints)
    nodes = [msgspec.convert(one, Node) for one in scheduled.admin.get("/api/v1/nodes")["items"]]
    wanted: dict[str, bool] = {}
    for number in range(90):
        spec = some_where(random)
        pod = msgspec.convert(scheduled.add_pod(f"seen{number}", schedulerName="nobody", **spec), Pod)
        terms = spec.pop("affinity", required([]))["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        for node in nodes:
            only = on(node.metadata.name)["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            pinned = only["nodeSelectorTerms"][0]
            # A term that says nothing is for no node, and a name of a node would make it say something.
            kept = [one | pinned for one in terms["nodeSelectorTerms"] if one["matchExpressions"]]
            if terms["nodeSelectorTerms"] and not kept:
                assert not may_run(pod, node)
                continue
            name = f"p{number}-{node.metadata.name}"
            scheduled.add_pod(name, schedulerName="default-scheduler", affinity=required(kept or [pinned]), **spec)
            wanted[name] = may_run(pod, node)
    assert placed(scheduled, list(wanted)) == wanted
    assert 50 < sum(wanted.values()) < len(wanted) - 50
