"""Pods that claim devices, placed by the driver on a real API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from api_admin import AdminError
from dra_bed import (
    API,
    CLAIMS,
    DRIVER,
    add_claim,
    add_claiming,
    add_class,
    add_rule,
    add_slice,
    add_template,
    audit,
    clear,
    given,
    wants,
)
from driven_pods import ADDED, Deadly, DrivenPods, Killed, overbooked
from k8s_bed import KubernetesBed
from test_driver_of_pods import bind, said_of


@pytest.fixture
def bed(kubernetes: KubernetesBed) -> Iterator[KubernetesBed]:
    """A control plane with nodes and nothing else."""
    clear(kubernetes)
    kubernetes.add_nodes(["n1", "n2"], {"cpu": "8", "memory": "8Gi"})
    yield kubernetes
    clear(kubernetes)


def gpus(count: int, model: str = "a", **keys: Any) -> list[dict[str, Any]]:
    return [
        {"name": f"gpu-{i}", "attributes": {"model": {"string": model}, "index": {"int": i}}, **keys}
        for i in range(count)
    ]


def go(driven: DrivenPods, steps: int = 15) -> None:
    for _ in range(steps):
        driven.go()
        time.sleep(0.02)


def test_claims_of_templates_run_in_turn_and_give_back(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(2), nodeName=node)
    add_template(bed, "two", wants("gpu", count=2))
    with DrivenPods(bed) as driven:
        for i in range(6):
            add_claiming(bed, f"p{i}", template="two", run_s=0.5)
        driven.until(lambda: len(driven.placed()) >= 2)
        assert audit(bed) == []
        assert len(given(bed)) <= 2
        driven.until_all()
        assert audit(bed) == [] == overbooked(bed)
        driven.until(lambda: given(bed) == {})


def test_selectors_choices_constraints_and_what_cannot_be(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    old = gpus(2, "old")
    new = [
        {**one, "name": f"new-{i}", "capacity": {"memory": {"value": "80Gi"}}} for i, one in enumerate(gpus(2, "new"))
    ]
    add_slice(bed, "n1-gpus", [*old, *new], nodeName="n1")
    large = {"cel": {"expression": f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'}}
    has = f'has(device.capacity["{DRIVER}"].memory) && '
    large["cel"]["expression"] = has + large["cel"]["expression"]
    add_template(bed, "large", wants("gpu", selectors=[large]))
    add_template(bed, "either", {"name": "one", "firstAvailable": [
        {"name": "big", "deviceClassName": "gpu", "count": 3, "selectors": [large]},
        {"name": "old", "deviceClassName": "gpu", "count": 2},
    ]}, constraints=[{"matchAttribute": f"{DRIVER}/model"}])  # fmt: skip
    add_template(bed, "three", wants("gpu", selectors=[large], count=3))
    add_template(
        bed, "broken", wants("gpu", selectors=[{"cel": {"expression": f'device.attributes["{DRIVER}"].x == 1'}}])
    )
    with DrivenPods(bed) as driven:
        add_claiming(bed, "large", template="large")
        driven.until(lambda: "large" in driven.placed())
        add_claiming(bed, "either", template="either")
        driven.until(lambda: "either" in driven.placed())
        for name in ("three", "broken"):
            add_claiming(bed, name, template=name)
        driven.until(lambda: {"three", "broken"} <= said_of(bed).keys())
        said = {name: notes[-1] for name, notes in said_of(bed).items()}
        assert "none of 2 nodes" in said["three"]
        assert "3 devices of class gpu for one, of " in said["three"]
        assert "'x'" in said["broken"]
        claims = {claim["metadata"]["name"]: claim for claim in bed.admin.get(CLAIMS)["items"]}
        results = {name.split("-")[0]: claim["status"] for name, claim in claims.items() if claim.get("status")}
        assert [one["device"] for one in results["large"]["allocation"]["devices"]["results"]] in (["new-0"], ["new-1"])
        chosen = results["either"]["allocation"]["devices"]["results"]
        assert {(one["request"], one["device"]) for one in chosen} == {("one/old", "gpu-0"), ("one/old", "gpu-1")}
        assert audit(bed) == []


def test_a_claim_that_pods_share_keeps_them_where_it_is(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    add_slice(bed, "n2-gpus", gpus(1), nodeName="n2")
    add_claim(bed, "shared", wants("gpu"))
    with DrivenPods(bed) as driven:
        for i in range(5):
            add_claiming(bed, f"p{i}", claim="shared", run_s=1.0)
        add_claiming(bed, "lost", claim="missing")
        driven.until(lambda: len(driven.placed()) == 5)
        assert set(driven.placed().values()) == {"n2"}
        assert audit(bed) == []
        driven.until(lambda: said_of(bed).get("lost") == ["its claim missing is not there"])
        bed.admin.delete("/api/v1/namespaces/default/pods/lost", gracePeriodSeconds=0)
        driven.until_all()
        driven.until(lambda: given(bed) == {})


def test_drives_are_shared_and_gpus_are_parted(bed: KubernetesBed) -> None:
    add_class(bed, "drive", "device.allowMultipleAllocations")
    add_class(bed, "part", f'device.driver == "{DRIVER}" && !device.allowMultipleAllocations')
    policy = {"default": "100Gi", "validRange": {"min": "100Gi", "step": "100Gi", "max": "1000Gi"}}
    drives = [
        {
            "name": f"drive-{i}",
            "allowMultipleAllocations": True,
            "capacity": {"size": {"value": "1000Gi", "requestPolicy": policy}},
        }
        for i in range(2)
    ]
    add_slice(bed, "drives", drives, allNodes=True)
    sizes = {"small": 1, "half": 3, "whole": 7}
    parts = [
        {"name": f"{name}-{i}", "attributes": {"profile": {"string": name}},
         "consumesCounters": [{"counterSet": "gpu", "counters": {"slices": {"value": str(size)}}}]}
        for name, size in sizes.items() for i in range(7 // size)
    ]  # fmt: skip
    counters = [{"name": "gpu", "counters": {"slices": {"value": "7"}}}]
    add_slice(bed, "parts", parts, pool="n1", count=2, nodeName="n1")
    add_slice(bed, "counters", [], pool="n1", count=2, nodeName="n1", sharedCounters=counters)
    add_template(bed, "room", wants("drive", capacity={"requests": {"size": "250Gi"}}))
    profile = {"cel": {"expression": f'device.attributes["{DRIVER}"].profile == "half"'}}
    add_template(bed, "half", wants("part", selectors=[profile]))
    with DrivenPods(bed, "conservative") as driven:
        for i in range(9):
            add_claiming(bed, f"room{i}", template="room", run_s=1.0)
        for i in range(4):
            add_claiming(bed, f"half{i}", template="half", run_s=1.0)
        driven.until(lambda: sum(name.startswith("room") for name in driven.placed()) >= 6)
        assert audit(bed) == []
        assert len(driven.placed()) <= 6 + 2 or bool(given(bed))
        driven.until_all()
        assert audit(bed) == []
        driven.until(lambda: given(bed) == {})


def tell(bed: KubernetesBed, claim: str, kind: str) -> None:
    """What a driver says of the devices of a claim."""
    found = bed.admin.get(f"{CLAIMS}/{claim}")
    now = "2026-01-01T00:00:00Z"
    condition = {"type": kind, "status": "True", "reason": "Told", "message": "", "lastTransitionTime": now}
    devices = [
        {"driver": one["driver"], "pool": one["pool"], "device": one["device"], "conditions": [condition]}
        for one in found["status"]["allocation"]["devices"]["results"]
    ]
    bed.admin.patch(f"{CLAIMS}/{claim}/status", {"status": {"devices": devices}})


def results(bed: KubernetesBed, claim: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = bed.admin.get(f"{CLAIMS}/{claim}")["status"]["allocation"]["devices"]["results"]
    return found


def attached(count: int) -> list[dict[str, Any]]:
    return gpus(count, bindsToNode=True, bindingConditions=["Attached"], bindingFailureConditions=["Broken"])


def test_a_pod_is_bound_as_soon_as_its_device_is_attached(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    add_slice(bed, "box", attached(1), allNodes=True)
    add_claim(bed, "mine", wants("gpu"))
    with DrivenPods(bed) as driven:
        add_claiming(bed, "p", claim="mine")
        driven.until(lambda: given(bed) == {"mine": ["gpu-0"]})
        go(driven, 60)
        assert driven.placed() == {}
        term = bed.admin.get(f"{CLAIMS}/mine")["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]
        told = time.monotonic()
        tell(bed, "mine", "Attached")
        while driven.placed() == {}:  # the driver need do nothing for that
            assert time.monotonic() < told + 3
        assert time.monotonic() - told < 1
        driven.until(lambda: {str(entry.phase) for entry in driven.driver.table} == {"running"})
        assert term["matchFields"][0]["values"] == [driven.placed()["p"]]


def test_devices_behind_a_switch_that_is_not_busy_are_given_first(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    for pool in ("a", "b"):
        on = {"switch": {"string": f"switch-{pool}"}}
        add_slice(bed, pool, [{**one, "attributes": on} for one in attached(4)], allNodes=True)
    add_template(bed, "one", wants("gpu"))
    pools = list[str]()

    def next_one(driven: DrivenPods) -> None:
        add_claiming(bed, f"p{len(pools)}", template="one")
        driven.until(lambda: len(given(bed)) > len(pools))
        (claim,) = given(bed).keys() - {name for name, _ in seen}
        pools.append(results(bed, claim)[0]["pool"])
        seen.append((claim, pools[-1]))

    seen = list[tuple[str, str]]()
    with DrivenPods(bed, added=ADDED._replace(at_once=2)) as driven:
        for _ in range(5):
            next_one(driven)
        assert pools == ["a", "a", "b", "b", "a"]  # two at a time; then both are busy, and the first is as good
        for claim, _ in seen[2:4]:
            tell(bed, claim, "Attached")
        driven.until(lambda: len(driven.placed()) == 2)
        next_one(driven)
        assert pools[-1] == "b"  # which has nothing more to attach
        assert audit(bed) == []


def test_a_device_that_fails_is_given_back_and_tried_again(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    add_slice(bed, "box", attached(1), allNodes=True)
    add_claim(bed, "mine", wants("gpu"))
    with DrivenPods(bed) as driven:
        add_claiming(bed, "p", claim="mine")
        driven.until(lambda: given(bed) == {"mine": ["gpu-0"]})
        first = bed.admin.get(f"{CLAIMS}/mine")["status"]["allocation"]["allocationTimestamp"]
        tell(bed, "mine", "Broken")
        driven.until(lambda: given(bed) == {})
        time.sleep(1)
        driven.until(lambda: given(bed) == {"mine": ["gpu-0"]})
        assert bed.admin.get(f"{CLAIMS}/mine")["status"]["allocation"]["allocationTimestamp"] != first
        driven.adapter.devices.giving._longest_s = 0.0  # and one that says nothing
        driven.until(lambda: given(bed) == {})
        assert driven.placed() == {}


def test_devices_that_another_scheduler_gives_at_the_same_time_are_not_used(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    add_slice(bed, "n1-gpus", gpus(1), nodeName="n1")
    add_claim(bed, "mine", wants("gpu"))
    add_claim(bed, "theirs", wants("gpu"))
    with DrivenPods(bed) as driven:
        driven.until(lambda: driven.driver.epoch is not None)
        giving, raced = driven.adapter.devices.giving, list[str]()
        write = giving._write

        async def after_them(claim: Any, *rest: Any) -> None:
            if not raced:
                raced.append(claim.metadata.name)
                result = {"request": "one", "driver": DRIVER, "pool": "n1-gpus", "device": "gpu-0"}
                body = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
                bed.admin.patch(f"{CLAIMS}/theirs", body)
                bed.admin.patch(
                    f"{CLAIMS}/theirs/status", {"status": {"allocation": {"devices": {"results": [result]}}}}
                )
            await write(claim, *rest)

        giving._write = after_them  # type: ignore[method-assign]
        add_claiming(bed, "p", claim="mine")
        driven.until(lambda: bool(raced))
        go(driven, 40)
        assert driven.placed() == {}
        driven.until(lambda: given(bed) == {"theirs": ["gpu-0"]})
        bed.admin.patch(f"{CLAIMS}/theirs/status", {"status": {"allocation": None}})
        driven.until(lambda: driven.placed() == {"p": "n1"})
        assert audit(bed) == []


@pytest.mark.parametrize("seed", range(2))
def test_the_driver_is_killed_at_any_point_and_no_device_leaks(bed: KubernetesBed, seed: int) -> None:
    random = Random(seed)
    add_class(bed, "gpu")
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(3), nodeName=node)
    add_template(bed, "one", wants("gpu"))
    add_template(bed, "two", wants("gpu", count=2))
    for i in range(24):
        add_claiming(bed, f"p{i}", template=random.choice(["one", "two"]), run_s=random.choice([0.2, 0.6]))
    driven = DrivenPods(bed)
    for kill in range(10):
        giving = driven.adapter.devices.giving
        giving._patch = Deadly(random.randrange(1, 12)).around(giving._patch)  # type: ignore[method-assign]
        try:
            for _ in range(25):
                driven.go()
        except Killed:
            pass
        driven.stop()
        assert [one for one in audit(bed) if "runs without" in one or "times" in one] == []
        if kill % 3 == 2:
            driven.journal = type(driven.journal)()  # and what it knew is lost, too
        driven.begin()
    driven.until_all(timeout_s=120)
    assert audit(bed) == []
    driven.until(lambda: given(bed) == {})
    driven.stop()


def test_pods_that_another_binds_hold_their_devices(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    add_slice(bed, "n1-gpus", gpus(1), nodeName="n1")
    for name in ("theirs", "mine"):
        add_claim(bed, name, wants("gpu"))
    add_claiming(bed, "foreign", claim="theirs", schedulerName="other")
    uid = bed.pod("foreign")["metadata"]["uid"]  # type: ignore[index]
    result = {"request": "one", "driver": DRIVER, "pool": "n1-gpus", "device": "gpu-0"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "foreign", "uid": uid}],
    }
    bed.admin.patch(f"{CLAIMS}/theirs", {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}})
    bed.admin.patch(f"{CLAIMS}/theirs/status", {"status": status})
    bind(bed, "foreign", "n1")
    with DrivenPods(bed) as driven:
        add_claiming(bed, "p", claim="mine")
        go(driven, 40)
        assert driven.placed() == {}
        bed.admin.delete("/api/v1/namespaces/default/pods/foreign", gracePeriodSeconds=0)
        driven.until(lambda: driven.placed() == {"p": "n1"})
        assert audit(bed) == []


def test_hostile_claims_do_no_harm(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    add_slice(bed, "n1-gpus", gpus(8), nodeName="n1")
    items = ",".join(["1"] * 100)
    texts = [
        f"[{items}].all(a, [{items}].all(b, a + b > 0))", "device.driver == 1", "(" * 40 + "true" + ")" * 40,
        f'device.driver == "{"x" * 9000}"', 'device.driver.matches("(a{1,1000}){1,1000}")', "[1].map(x, x) == [1]",
        " || ".join(["device.driver == 'a'"] * 400),
    ]  # fmt: skip
    taken, refused = 0, list[int]()
    with DrivenPods(bed) as driven:
        add_template(bed, "plain", wants("gpu"))
        for i, text in enumerate(texts):
            try:
                add_template(bed, f"t{i}", wants("gpu", selectors=[{"cel": {"expression": text}}]))
                add_claiming(bed, f"hostile{i}", template=f"t{i}")
                taken += 1
            except AdminError as error:
                refused.append(error.code)
        assert taken >= 3
        assert set(refused) <= {422}  # what the server itself takes to be too dear
        began = time.monotonic()
        add_claiming(bed, "plain", template="plain")
        driven.until(lambda: "plain" in driven.placed())
        assert time.monotonic() - began < 10
        assert audit(bed) == []


def test_rules_keep_claims_off_devices_as_long_as_they_are_there(bed: KubernetesBed) -> None:
    add_class(bed, "gpu")
    add_slice(bed, "n1-gpus", gpus(2), nodeName="n1")
    tolerant = wants("gpu", tolerations=[{"key": "broken", "operator": "Exists", "effect": "NoSchedule"}])
    add_template(bed, "plain", wants("gpu"))
    add_template(bed, "tolerant", tolerant)
    add_rule(bed, "broken", {"key": "broken", "effect": "NoSchedule"}, driver=DRIVER, pool="n1-gpus")
    add_rule(bed, "elsewhere", {"key": "broken", "effect": "NoExecute"}, driver="other.example.com")
    with DrivenPods(bed) as driven:
        for name in ("plain", "tolerant"):
            add_claiming(bed, name, template=name)
        driven.until(lambda: "tolerant" in driven.placed() and "plain" in said_of(bed))
        assert "of 2 that match 0 free" in said_of(bed)["plain"][0]
        bed.admin.delete(f"{API}/devicetaintrules/broken")
        driven.until(lambda: "plain" in driven.placed())
        add_rule(bed, "broken", {"key": "broken", "effect": "NoExecute"}, driver=DRIVER)
        go(driven)  # evicting is for a controller of Kubernetes
        assert set(driven.placed()) == {"plain", "tolerant"}
        assert audit(bed) == []


def test_on_a_server_that_shows_no_rules_claims_are_given_devices(
    bed: KubernetesBed, caplog: pytest.LogCaptureFixture
) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/driver"
    rules = bed.admin.get(role)["rules"]
    without = [{**one, "resources": [of for of in one["resources"] if of != "devicetaintrules"]} for one in rules]
    add_class(bed, "gpu")
    add_slice(bed, "n1-gpus", gpus(1), nodeName="n1")
    add_claim(bed, "mine", wants("gpu"))
    bed.admin.patch(role, {"rules": without})
    try:
        with caplog.at_level("WARNING"), DrivenPods(bed) as driven:
            add_claiming(bed, "p", claim="mine")
            driven.until(lambda: "p" in driven.placed())
            said = [one for one in caplog.records if one.getMessage() == "devices are not wholly known"]
            assert len(said) == 1
    finally:
        bed.admin.patch(role, {"rules": rules})


def test_without_the_right_to_see_devices_such_pods_wait(bed: KubernetesBed) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/driver"
    rules = bed.admin.get(role)["rules"]
    bed.admin.patch(role, {"rules": [one for one in rules if "resource.k8s.io" not in one["apiGroups"]]})
    try:
        with DrivenPods(bed) as driven:
            add_claim(bed, "mine", wants("gpu"))
            add_claiming(bed, "p", claim="mine")
            bed.add_pod("plain", {"cpu": "1"})
            driven.until(lambda: "plain" in driven.placed() and "p" in said_of(bed))
            assert "the server does not show" in said_of(bed)["p"][0]
    finally:
        bed.admin.patch(role, {"rules": rules})
