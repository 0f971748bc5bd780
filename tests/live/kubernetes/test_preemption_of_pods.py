"""Pods that are stopped for those of a higher priority, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from driven_pods import DrivenPods, overbooked
from k8s_bed import KubernetesBed
from test_gangs import add_group, add_member, bound, steps

from unrack.live.driver.state.replay import replay

POLICY = {"name": "list", "order": "priority", "backfill": "any", "preempt": True}
CLASSES = {"low": (10, "PreemptLowerPriority"), "high": (1000, "PreemptLowerPriority"), "calm": (1000, "Never")}


@pytest.fixture
def bed(kubernetes: KubernetesBed) -> Iterator[KubernetesBed]:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    there = {one["metadata"]["name"] for one in kubernetes.admin.get(classes)["items"]}
    for name, (value, policy) in CLASSES.items():
        if name not in there:
            content = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
            kubernetes.admin.post(classes, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **content})
    yield kubernetes
    kubernetes.admin.delete_all("/apis/policy/v1/poddisruptionbudgets")


def running(bed: KubernetesBed, name: str) -> bool:
    found = bed.pod(name)
    return found is not None and found["status"]["phase"] == "Running"


def test_the_lowest_priority_is_stopped_and_no_pod_of_others(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "2", "memory": "8Gi"})
    bed.add_pod("theirs", {"cpu": "2"}, schedulerName="other", nodeName="n2", priorityClassName="low")
    with DrivenPods(bed, POLICY) as driven:
        bed.add_pod("low", {"cpu": "1"}, priorityClassName="low", terminationGracePeriodSeconds=5)
        bed.add_pod("none", {"cpu": "1"})
        driven.until(lambda: running(bed, "low") and running(bed, "none"))
        bed.add_pod("calm", {"cpu": "1"}, priorityClassName="calm")
        steps(driven, 20)
        assert set(driven.placed()) == {"low", "none"}
        crowded, nominated = list[str](), set[str]()
        bed.kubelets.slow_s = 1.0  # type: ignore[union-attr]
        bed.add_pod("high", {"cpu": "1"}, priorityClassName="high")

        def is_taken() -> bool:
            crowded.extend(overbooked(bed))
            nominated.add((bed.pod("high") or {})["status"].get("nominatedNodeName", ""))
            return "high" in driven.placed()

        driven.until(is_taken)
        bed.kubelets.slow_s = 0.0  # type: ignore[union-attr]
        assert crowded == []
        assert nominated >= {"n1"}
        assert set(driven.placed()) == {"low", "high"}  # no priority is 0
        assert running(bed, "theirs")
        bed.add_pod("higher", {"cpu": "1"}, priorityClassName="high")
        driven.until(lambda: "higher" in driven.placed())
        assert set(driven.placed()) == {"high", "higher"}
        steps(driven, 20)
        assert set(driven.placed()) == {"high", "higher"}
        assert running(bed, "theirs")
        assert replay(driven.journal.records()).differences == []


def test_a_budget_of_disruptions_keeps_its_pods(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "1", "memory": "8Gi"})
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    bed.admin.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {**budget, "spec": spec})
    with DrivenPods(bed, POLICY) as driven:
        bed.add_pod("free", {"cpu": "1"}, priorityClassName="low")
        driven.until(lambda: running(bed, "free"))
        bed.add_pod("kept", {"cpu": "1"}, priorityClassName="low", metadata={"labels": {"app": "kept"}})
        driven.until(lambda: running(bed, "kept"))
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/kept"
        bed.wait_until(lambda: bed.admin.get(path).get("status", {}).get("currentHealthy") == 1)
        bed.add_pod("high", {"cpu": "1"}, priorityClassName="high")  # the youngest would be stopped first
        driven.until(lambda: "high" in driven.placed())
        assert set(driven.placed()) == {"kept", "high"}
        bed.add_pod("higher", {"cpu": "1"}, priorityClassName="high")
        steps(driven, 30)
        assert set(driven.placed()) == {"kept", "high"}
        assert overbooked(bed) == []
        assert replay(driven.journal.records()).differences == []


def test_a_gang_is_stopped_whole_and_stops_others(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "2", "memory": "8Gi"})
    for name in ("small", "large"):
        add_group(bed, name, 2 if name == "small" else 4) if (name not in _groups(bed)) else None
    with DrivenPods(bed, POLICY) as driven:
        for i in range(2):
            add_member(bed, "small", i, {"cpu": "1"}, priorityClassName="low")
        bed.add_pod("single-0", {"cpu": "1"}, priorityClassName="low")
        driven.until(lambda: bound(driven) == {"small": 2, "single": 1})
        driven.until(lambda: {str(entry.phase) for entry in driven.driver.table} == {"running"})
        for i in range(4):
            add_member(bed, "large", i, {"cpu": "1"}, priorityClassName="high")
        driven.until(lambda: bound(driven) == {"large": 4})
        assert overbooked(bed) == []
        assert replay(driven.journal.records()).differences == []


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_preempted_no_node_is_overbooked_and_the_highest_run(bed: KubernetesBed, seed: int) -> None:
    random = Random(seed)
    bed.add_nodes([f"n{i}" for i in range(4)], {"cpu": "4", "memory": "8Gi"})
    with DrivenPods(bed, POLICY) as driven:
        for i in range(60):
            cpu = random.choice(["1", "2", "500m"])
            bed.add_pod(f"p{i}", {"cpu": cpu}, priorityClassName=random.choice([*CLASSES]), run_s=random.choice([1, 3]))
            driven.go()
            if i % 5 == 0:
                assert overbooked(bed) == []
            if i == 30:
                driven.stop()
                driven.begin()
        driven.until_all(timeout_s=90)
        assert replay(driven.journal.records()).differences == []


def _groups(bed: KubernetesBed) -> set[Any]:
    listed = bed.admin.get("/apis/scheduling.k8s.io/v1beta1/podgroups")["items"]
    return {group["metadata"]["name"] for group in listed}
