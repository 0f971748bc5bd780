"""Pods that are evicted for those of a higher priority that lack only devices, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from dra_bed import DRIVER, add_claim, add_claiming, add_class, add_slice, add_template, audit, clear, given, wants
from driven_pods import DrivenPods, overbooked
from k8s_bed import KubernetesBed
from test_claims_of_devices import attached, gpus, tell
from test_gangs import add_group, add_member, bound, steps
from test_gangs import bed as of_gangs  # noqa: F401
from test_preemption_of_pods import CLASSES, POLICY, running
from test_preemption_of_pods import bed as of_classes  # noqa: F401

from unrack.live.driver.state.replay import replay


@pytest.fixture
def bed(of_gangs: KubernetesBed, of_classes: KubernetesBed) -> Iterator[KubernetesBed]:  # noqa: F811
    clear(of_gangs)
    of_gangs.add_nodes(["n1", "n2"], {"cpu": "8", "memory": "8Gi"})
    add_class(of_gangs, "gpu")
    add_template(of_gangs, "one", wants("gpu"))
    yield of_gangs
    clear(of_gangs)


def selecting(text: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].{text}'}}]}


def add(driven: DrivenPods, name: str, priority: str, template: str = "one", **keys: Any) -> None:
    """A pod with a claim, which is there once it runs."""
    add_claiming(driven.bed, name, template=template, priorityClassName=priority, **keys)
    driven.until(lambda: running(driven.bed, name))


def settled(driven: DrivenPods) -> None:
    driven.until(lambda: {str(entry.phase) for entry in driven.driver.table} <= {"running", "waiting", "aside"})


def test_the_youngest_of_the_lowest_is_evicted_and_what_it_had_goes_to_no_other(bed: KubernetesBed) -> None:
    add_slice(bed, "n1-gpus", gpus(3), nodeName="n1")
    with DrivenPods(bed, POLICY) as driven:
        add(driven, "none", "", run_s=None)
        add(driven, "low0", "low")
        add(driven, "low1", "low", terminationGracePeriodSeconds=5)
        settled(driven)
        bed.kubelets.slow_s = 1.0  # type: ignore[union-attr]
        add_claiming(bed, "calm", template="one", priorityClassName="calm")  # which never preempts
        add_claiming(bed, "waits", template="one")
        steps(driven, 20)
        assert {"none", "low0", "low1"} == set(driven.placed())
        add_claiming(bed, "high", template="one", priorityClassName="high")
        nominated, problems = set[str](), list[str]()

        def is_taken() -> bool:
            problems.extend(one for one in audit(bed) if "times" in one)
            nominated.add((bed.pod("high") or {})["status"].get("nominatedNodeName", ""))
            assert not {"waits", "calm"} & set(driven.placed())
            return "high" in driven.placed()

        driven.until(is_taken)
        bed.kubelets.slow_s = 0.0  # type: ignore[union-attr]
        assert "n1" in nominated
        assert problems == []
        assert set(driven.placed()) == {"low0", "low1", "high"}  # no priority is 0
        add_claiming(bed, "higher", template="one", priorityClassName="high")
        driven.until(lambda: "higher" in driven.placed())
        assert set(driven.placed()) == {"low0", "high", "higher"}
        steps(driven, 20)
        assert set(driven.placed()) == {"low0", "high", "higher"}
        assert audit(bed) == []
        assert replay(driven.journal.records()).differences == []


def test_those_are_evicted_that_have_such_devices(bed: KubernetesBed) -> None:
    small, large = gpus(2, "small"), [{**one, "name": f"large-{i}"} for i, one in enumerate(gpus(2, "large"))]
    add_slice(bed, "n1-gpus", [*small, *large], nodeName="n1")
    for model in ("small", "large"):
        add_template(bed, model, wants("gpu", **selecting(f'model == "{model}"')))
    with DrivenPods(bed, POLICY) as driven:
        for name, template in (("l0", "large"), ("l1", "large"), ("s0", "small"), ("s1", "small")):
            add(driven, name, "low", template)
        settled(driven)
        add_claiming(bed, "high", template="large", priorityClassName="high")
        driven.until(lambda: "high" in driven.placed())
        assert set(driven.placed()) == {"l0", "s0", "s1", "high"}
        assert audit(bed) == []


@pytest.mark.parametrize("why", ["others have them", "they are elsewhere", "they are not alike", "a budget"])
def test_no_pod_is_evicted_in_vain(bed: KubernetesBed, why: str) -> None:
    keys: dict[str, Any] = {}
    if why == "others have them":
        add_slice(bed, "n1-gpus", [*gpus(1, "small"), {**gpus(1, "large")[0], "name": "large"}], nodeName="n1")
        add_template(bed, "large", wants("gpu", **selecting('model == "large"')))
    elif why == "they are elsewhere":
        add_slice(bed, "n1-gpus", gpus(2), nodeName="n1")
        add_slice(bed, "box", [{"name": "pooled"}], nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]})  # fmt: skip
        keys = {"nodeSelector": {"kubernetes.io/hostname": "n2"}}
    elif why == "they are not alike":
        models = [{**one, "name": f"gpu-{model}"} for model in "ab" for one in gpus(1, model)]
        add_slice(bed, "n1-gpus", models, nodeName="n1")
        add_template(bed, "alike", wants("gpu", count=2), constraints=[{"matchAttribute": f"{DRIVER}/model"}])
    else:
        add_slice(bed, "n1-gpus", gpus(2), nodeName="n1")
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
        spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "kept"}}}
        bed.admin.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {**budget, "spec": spec})
    with DrivenPods(bed, POLICY) as driven:
        first = {"others have them": "large", "they are elsewhere": "one"}.get(why, "one")
        if why == "they are elsewhere":
            add(driven, "theirs", "high", **keys)
        elif why == "others have them":
            add(driven, "theirs", "high", first)
        labels = {"metadata": {"labels": {"app": "kept"}}}
        for i in range(1 if why == "others have them" else 2):
            add(driven, f"low{i}", "low", **labels)
        settled(driven)
        if why == "a budget":
            path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/kept"
            bed.wait_until(lambda: bed.admin.get(path).get("status", {}).get("currentHealthy") == 2)
        before = set(driven.placed())
        template = {"others have them": "large", "they are not alike": "alike"}.get(why, "one")
        add_claiming(bed, "high", template=template, priorityClassName="high", **keys)
        steps(driven, 100)
        assert {name for name, pod in driven.pods().items() if not pod["metadata"].get("deletionTimestamp")} == {
            *before,
            "high",
        }
        assert set(driven.placed()) == before
        assert audit(bed) == []
        assert replay(driven.journal.records()).differences == []
        if why == "they are not alike":  # and as soon as they could be had, they are
            more = [{**one, "name": f"new-{i}"} for i, one in enumerate(gpus(2, "c"))]
            add_slice(bed, "n2-gpus", more, nodeName="n2")
            driven.until(lambda: "high" in driven.placed())
            assert before < set(driven.placed())


def test_others_are_evicted_where_a_budget_keeps_the_first(bed: KubernetesBed) -> None:
    add_slice(bed, "n1-gpus", gpus(2), nodeName="n1")
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
    bed.admin.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {**budget, "spec": spec})
    with DrivenPods(bed, POLICY) as driven:
        add(driven, "free", "low")
        add(driven, "kept", "low", metadata={"labels": {"app": "kept"}})  # the youngest goes first
        settled(driven)
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/kept"
        bed.wait_until(lambda: bed.admin.get(path).get("status", {}).get("currentHealthy") == 1)
        add_claiming(bed, "high", template="one", priorityClassName="high")
        driven.until(lambda: "high" in driven.placed())
        assert set(driven.placed()) == {"kept", "high"}
        assert audit(bed) == []
        assert replay(driven.journal.records()).differences == []


def test_a_pod_whose_device_is_being_attached_gives_it_up(bed: KubernetesBed) -> None:
    add_slice(bed, "box", attached(1), allNodes=True)
    for name in ("low", "high"):
        add_claim(bed, name, wants("gpu"))
    with DrivenPods(bed, POLICY) as driven:
        add_claiming(bed, "low", claim="low", priorityClassName="low")
        driven.until(lambda: given(bed) == {"low": ["gpu-0"]})
        add_claiming(bed, "high", claim="high", priorityClassName="high")
        driven.until(lambda: given(bed) == {"high": ["gpu-0"]})
        assert driven.placed() == {}
        tell(bed, "high", "Attached")
        driven.until(lambda: set(driven.placed()) == {"high"})
        steps(driven, 40)
        assert set(driven.placed()) == {"high"}
        assert given(bed) == {"high": ["gpu-0"]}
        bed.admin.delete("/api/v1/namespaces/default/pods/high", gracePeriodSeconds=0)
        driven.until(lambda: given(bed) == {"low": ["gpu-0"]})
        tell(bed, "low", "Attached")
        driven.until(lambda: set(driven.placed()) == {"low"})
        assert replay(driven.journal.records()).differences == []


def test_a_gang_evicts_for_all_of_its_devices_and_is_evicted_whole(bed: KubernetesBed) -> None:
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(2), nodeName=node)
    claims = [{"name": "devices", "resourceClaimTemplateName": "one"}]
    add_group(bed, "small", 2)
    add_group(bed, "large", 4)
    with DrivenPods(bed, POLICY) as driven:
        for i in range(2):
            add_member(bed, "small", i, {"cpu": "1"}, priorityClassName="low", resourceClaims=claims)
        driven.until(lambda: bound(driven)["small"] == 2)
        add(driven, "single-0", "low")
        settled(driven)
        for i in range(4):
            add_member(bed, "large", i, {"cpu": "1"}, priorityClassName="high", resourceClaims=claims)
        driven.until(lambda: bound(driven) == {"large": 4})
        assert audit(bed) == [] == overbooked(bed)
        assert replay(driven.journal.records()).differences == []


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_evicted_no_device_is_given_twice_and_the_highest_run(bed: KubernetesBed, seed: int) -> None:
    random = Random(seed)
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(2, random.choice("ab")), nodeName=node)
    add_slice(bed, "box", [{"name": "pooled"}], allNodes=True)
    add_template(bed, "two", wants("gpu", count=2))
    add_template(bed, "a", wants("gpu", **selecting('model == "a"')))
    with DrivenPods(bed, POLICY) as driven:
        for i in range(40):
            priority, template = random.choice([*CLASSES]), random.choice(["one", "two", "one"])
            add_claiming(
                bed, f"p{i}", template=template, priorityClassName=priority, run_s=random.choice([0.3, 1.0]),
            )  # fmt: skip
            driven.go()
            if i % 5 == 0:
                assert [one for one in audit(bed) if "times" in one or "runs without" in one] == []
            if i == 20:
                driven.stop()
                driven.begin()
        driven.until_all(timeout_s=120)
        assert audit(bed) == []
        driven.until(lambda: given(bed) == {})
        assert replay(driven.journal.records()).differences == []
