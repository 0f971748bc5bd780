"""Gangs of pods on a real API server: all are bound, or none; an auditor reads only what that server says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from api_admin import AdminError
from driven_pods import DrivenPods, Killed, overbooked
from k8s_bed import KubernetesBed

from unrack.live.driver.state.replay import replay
from unrack.live.kubernetes.client.answers import UnreachableError
from unrack.live.kubernetes.gangs import starting
from unrack.live.kubernetes.gangs.gathering import members_of

GROUP = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


@pytest.fixture
def bed(kubernetes: KubernetesBed) -> KubernetesBed:
    for group in kubernetes.admin.get(GROUP)["items"]:  # the controller that lets them go does not run
        kubernetes.admin.patch(f"{GROUP}/{group['metadata']['name']}", {"metadata": {"finalizers": []}})
    kubernetes.admin.delete_all("/apis/scheduling.k8s.io/v1beta1/podgroups")
    return kubernetes


def add_group(bed: KubernetesBed, name: str, least: int | None) -> None:
    policy = {"basic": {}} if least is None else {"gang": {"minCount": least}}
    content = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
    bed.admin.post(GROUP, {**content, "spec": {"schedulingPolicy": policy}})


def add_member(bed: KubernetesBed, gang: str, number: int, asks: dict[str, str], **keys: Any) -> None:
    bed.add_pod(f"{gang}-{number}", asks, schedulingGroup={"podGroupName": gang}, **keys)


def bound(driven: DrivenPods) -> Counter[str]:
    """How many pods of each gang have a node, as the server says."""
    return Counter(name.rpartition("-")[0] for name in driven.placed())


def steps(driven: DrivenPods, count: int = 10) -> None:
    for _ in range(count):
        driven.go()


def test_a_gang_starts_whole_once_it_is_complete_and_has_room(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
    bed.add_pod("before", {"cpu": "1"}, nodeName="n1")
    add_group(bed, "gang", 8)
    with DrivenPods(bed) as driven:
        for i in range(7):
            add_member(bed, "gang", i, {"cpu": "1"})
        steps(driven)
        assert bound(driven)["gang"] == 0
        whys = {entry.why for entry in driven.driver.table if "gang-" in entry.key}
        assert whys == {"of the 8 pods that gang gang starts with 7 wait"}
        add_member(bed, "gang", 7, {"cpu": "1"})
        steps(driven)  # 7 of 8 would fit beside the pod that runs
        assert bound(driven)["gang"] == 0
        bed.admin.delete("/api/v1/namespaces/default/pods/before", gracePeriodSeconds=0)
        driven.until(lambda: bound(driven)["gang"] == 8)
        assert overbooked(bed) == []
        driven.until(lambda: "running" in {str(entry.phase) for entry in driven.driver.table})
        assert [str(e.phase) for e in driven.driver.table if "gang-" in e.key] == ["running"]


@pytest.mark.parametrize("beside", [False, True])
def test_a_gang_whose_claim_is_missing_is_told_so_once(bed: KubernetesBed, beside: bool) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"})
    terms = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "other"}}}]
    if beside:  # it keeps pods with a label off its node, those of the gang among them
        anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        bed.add_pod("keeps-off", {"cpu": "1"}, nodeName="n1", affinity=anti)
    add_group(bed, "gang", 2)
    claims = [{"name": "one", "resourceClaimName": "of-a-pod"}]
    with DrivenPods(bed) as driven:
        for i in range(2):
            labels = {"labels": {"app": "other"}} if beside else {}
            add_member(bed, "gang", i, {"cpu": "1"}, metadata=labels, resourceClaims=claims)
        steps(driven, 30)
        assert bound(driven)["gang"] == 0
        events = bed.admin.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        uids = {pod["metadata"]["uid"] for name, pod in driven.pods().items() if name.startswith("gang")}
        told = Counter(event["regarding"]["uid"] for event in events if event["regarding"].get("uid") in uids)
        assert told == dict.fromkeys(uids, 1)


def test_a_leader_and_workers_are_one_gang_and_end_one_by_one(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "4", "memory": "8Gi"}, labels={"zone": "a"})
    bed.add_nodes(["g1"], {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "4"}, labels={"zone": "b"})
    add_group(bed, "gang", 4)
    with DrivenPods(bed) as driven:
        add_member(bed, "gang", 0, {"cpu": "3"}, nodeSelector={"zone": "a"}, run_s=1)
        for i in range(1, 4):
            add_member(bed, "gang", i, {"cpu": "1", "nvidia.com/gpu": "1"}, run_s=4 if i == 1 else 1)
        driven.until(lambda: bound(driven)["gang"] == 4)
        placed = driven.placed()
        assert placed["gang-0"] in ("n1", "n2")
        assert {placed[f"gang-{i}"] for i in range(1, 4)} == {"g1"}
        bed.add_pod("next", {"cpu": "3"}, nodeSelector={"zone": "b"})  # fits as soon as two of the gang have ended
        driven.until(lambda: "next" in driven.placed())
        assert bed.pod("gang-1")["status"]["phase"] == "Running"  # type: ignore[index]
        assert overbooked(bed) == []
        driven.until(lambda: all("gang-" not in entry.key for entry in driven.driver.table))
        assert replay(driven.journal.records()).differences == []


def test_more_pods_than_it_starts_with_join_later_and_replacements_too(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1"], {"cpu": "8", "memory": "8Gi"})
    add_group(bed, "gang", 3)
    with DrivenPods(bed) as driven:
        for i in range(4):
            add_member(bed, "gang", i, {"cpu": "1"})
        driven.until(lambda: bound(driven)["gang"] == 4)
        bed.admin.delete("/api/v1/namespaces/default/pods/gang-1", gracePeriodSeconds=0)
        driven.until(lambda: bound(driven)["gang"] == 3)
        add_member(bed, "gang", 9, {"cpu": "1"})
        driven.until(lambda: bound(driven)["gang"] == 4)
        add_group(bed, "basic", None)
        add_member(bed, "basic", 0, {"cpu": "1"})
        driven.until(lambda: bound(driven)["basic"] == 1)


@pytest.mark.parametrize("after", [0, 1, 3, 7])
@pytest.mark.parametrize("what", ["killed", "silent", "conflict"])
def test_what_breaks_between_two_bindings_leaves_no_half_gang(
    bed: KubernetesBed, monkeypatch: pytest.MonkeyPatch, what: str, after: int
) -> None:
    bed.add_nodes([f"n{i}" for i in range(4)], {"cpu": "2", "memory": "8Gi"})
    add_group(bed, "gang", 8)
    for i in range(8):
        add_member(bed, "gang", i, {"cpu": "1"})
    bind, left = starting.bind, after

    async def breaks(connection: Any, pod: Any, node: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            await bind(connection, pod, node)
        elif what == "killed":
            raise Killed
        elif what == "silent":
            raise UnreachableError("it is silent")
        else:  # it was bound, and the answer is lost
            await bind(connection, pod, node)
            await bind(connection, pod, node)

    monkeypatch.setattr(starting, "bind", breaks)
    with DrivenPods(bed) as driven:
        try:
            driven.until(lambda: left < 0)
        except Killed:
            driven.stop()
            assert bound(driven)["gang"] <= after
            driven.begin()
        decided = {k: n for e in driven.driver.table for k, n in members_of(e)}
        monkeypatch.setattr(starting, "bind", bind)
        driven.until(lambda: bound(driven)["gang"] == 8)
        driven.until(lambda: [str(entry.phase) for entry in driven.driver.table] == ["running"])
        assert driven.placed() == {key.split("/")[1]: node for key, node in decided.items()}
        assert replay(driven.journal.records()).differences == []


@pytest.mark.parametrize("what", ["the node is gone", "the room is taken", "a pod is gone", "a pod is bound elsewhere"])
def test_a_start_that_cannot_be_finished_is_taken_back(
    bed: KubernetesBed, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    bed.add_nodes([f"n{i}" for i in range(4)], {"cpu": "2", "memory": "8Gi"})
    bed.add_nodes(["other"], {"cpu": "2", "memory": "8Gi"}, taints=[{"key": "kept", "effect": "NoSchedule"}])
    add_group(bed, "gang", 8)
    for i in range(8):
        add_member(bed, "gang", i, {"cpu": "1"})
    bind, left, missed = starting.bind, 4, list[tuple[str, str]]()

    async def breaks(connection: Any, pod: Any, node: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            missed.append((pod.metadata.name, node))
            raise UnreachableError("it is silent")
        await bind(connection, pod, node)

    monkeypatch.setattr(starting, "bind", breaks)
    with DrivenPods(bed) as driven:
        driven.until(lambda: bool(missed))
        assert bound(driven)["gang"] == 4
        pod, node = missed[0]
        if what == "the node is gone":
            bed.admin.delete(f"/api/v1/nodes/{node}")
        elif what == "the room is taken":
            bed.add_pod("theirs", {"cpu": "2"}, schedulerName="other", nodeName=node)
        elif what == "a pod is gone":
            bed.admin.delete(f"/api/v1/namespaces/default/pods/{pod}", gracePeriodSeconds=0)
        else:
            target = {"apiVersion": "v1", "kind": "Node", "name": "other"}
            content = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
            bed.admin.post(f"/api/v1/namespaces/default/pods/{pod}/binding", content)
        monkeypatch.setattr(starting, "bind", bind)
        elsewhere = int(what == "a pod is bound elsewhere")
        driven.until(lambda: bound(driven)["gang"] == elsewhere)
        there = len(driven.pods()) - int("theirs" in driven.pods())
        assert there == {"a pod is gone": 3}.get(what, 4)
        steps(driven, 20)
        assert bound(driven)["gang"] == elsewhere
        if what == "the node is gone":
            bed.add_nodes([node], {"cpu": "2", "memory": "8Gi"})
        if what == "the room is taken":
            bed.admin.delete("/api/v1/namespaces/default/pods/theirs", gracePeriodSeconds=0)
        for i in range(there, 8):
            add_member(bed, "gang", 20 + i, {"cpu": "1"})
        driven.until(lambda: bound(driven)["gang"] == 8)
        assert overbooked(bed) == []
        assert replay(driven.journal.records()).differences == []


def test_gangs_of_scheduler_plugins_and_kueue(bed: KubernetesBed) -> None:
    bed.add_nodes(["n1", "n2"], {"cpu": "2", "memory": "8Gi"})
    with DrivenPods(bed) as driven:
        for i in range(2):
            label = {"labels": {"scheduling.x-k8s.io/pod-group": "plug"}}
            bed.add_pod(f"plug-{i}", {"cpu": "1"}, metadata=label)
        driven.until(lambda: any("is not there" in entry.why for entry in driven.driver.table))
        steps(driven)
        assert bound(driven) == {}
        approved = "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"
        with bed.admin.defined("scheduling.x-k8s.io", "PodGroup", "v1alpha1", approved):
            served = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
            group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "plug"}}

            def made() -> bool:
                try:
                    return bool(bed.admin.post(served, {**group, "spec": {"minMember": 2}}))
                except AdminError:
                    return False

            bed.wait_until(made)
            driven.until(lambda: bound(driven)["plug"] == 2)
        for i in range(2):
            kueue = {
                "labels": {"kueue.x-k8s.io/pod-group-name": "queued"},
                "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
            }
            gate = [{"name": "kueue.x-k8s.io/admission"}]
            bed.add_pod(f"queued-{i}", {"cpu": "1"}, metadata=kueue, schedulingGates=gate)
        open_gate = {"spec": {"schedulingGates": []}}
        bed.admin.patch("/api/v1/namespaces/default/pods/queued-1", open_gate)
        steps(driven)
        assert bound(driven)["queued"] == 0
        assert any(entry.why.endswith("starts with 1 wait, 1 are gated") for entry in driven.driver.table)
        bed.admin.patch("/api/v1/namespaces/default/pods/queued-0", open_gate)
        driven.until(lambda: bound(driven)["queued"] == 2)
        bad = {"labels": {"kueue.x-k8s.io/pod-group-name": "bad"}}
        bed.add_pod("bad-0", {"cpu": "1"}, metadata=bad)
        driven.until(lambda: any("is 'None', not a number of pods" in entry.why for entry in driven.driver.table))
