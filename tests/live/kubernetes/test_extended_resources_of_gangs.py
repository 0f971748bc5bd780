"""Extended resources of device classes beside gangs and preemption, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from dra_bed import CLAIMS, add_class, add_slice, audit, clear, given
from driven_pods import Deadly, DrivenPods, Killed
from k8s_bed import KubernetesBed
from test_claims_of_devices import gpus
from test_constraints_of_pods import anti
from test_driver_of_pods import said_of
from test_extended_resources import GPU, asking
from test_gangs import add_group, add_member, bound, steps
from test_gangs import bed as of_gangs  # noqa: F401
from test_many_gangs import halves
from test_preemption_of_pods import POLICY, running
from test_preemption_of_pods import bed as of_classes  # noqa: F401

from unrack.live.driver.state.replay import replay
from unrack.live.kubernetes.devices import giving
from unrack.live.kubernetes.devices.written import GivingError

SIZE = {"cpu": "8", "memory": "8Gi"}


@pytest.fixture
def bed(of_gangs: KubernetesBed, of_classes: KubernetesBed) -> Iterator[KubernetesBed]:  # noqa: F811
    clear(of_gangs)
    of_gangs.add_nodes(["n1", "n2"], SIZE)
    add_class(of_gangs, "gpu", resource=GPU)
    yield of_gangs
    clear(of_gangs)


def add_members(bed: KubernetesBed, gang: str, count: int, each: int = 1, **keys: Any) -> None:
    add_group(bed, gang, count)
    for i in range(count):
        add_member(bed, gang, i, {}, containers=[asking("main", each)], metadata={"labels": {"app": "a"}}, **keys)


def claims(bed: KubernetesBed) -> list[str]:
    return [one["metadata"]["name"] for one in bed.admin.get(CLAIMS)["items"]]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_a_gang_has_the_devices_of_all_its_pods_or_no_claim_is_made(
    bed: KubernetesBed, apart: bool, mixed: bool
) -> None:
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(1 if apart else 2), nodeName=node)
    if mixed:
        bed.add_nodes(["plugin"], SIZE | {GPU: "1"})
    short = 2 if apart else 4  # as many as have devices
    with DrivenPods(bed) as driven:
        add_members(bed, "gang", short + mixed + 1, **({"affinity": anti("a")} if apart else {}))
        driven.until(lambda: "gang-0" in said_of(bed) or not apart)
        steps(driven, 20)
        assert bound(driven)["gang"] == 0
        assert claims(bed) == []
        bed.add_nodes(["n3"], SIZE)
        add_slice(bed, "n3-gpus", gpus(1), nodeName="n3")
        driven.until(lambda: bound(driven)["gang"] == short + mixed + 1)
        assert audit(bed) == []
        assert len(given(bed)) == short + 1
        for name, node in driven.placed().items():
            assert ("extendedResourceClaimStatus" in bed.pod(name)["status"]) == (node != "plugin")  # type: ignore[index]
        assert not apart or len(set(driven.placed().values())) == short + mixed + 1
        driven.until(lambda: {str(entry.phase) for entry in driven.driver.table} == {"running"})
        assert replay(driven.journal.records()).differences == []


def test_what_one_pod_cannot_have_leaves_no_claim_of_the_others(bed: KubernetesBed) -> None:
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(2), nodeName=node)
    with DrivenPods(bed) as driven:
        add_group(bed, "gang", 2)
        pods = [{"containers": [asking("main", 1)]} for _ in range(2)]
        add_member(bed, "gang", 0, {}, **pods[0])
        add_member(bed, "gang", 1, {}, **pods[1], schedulingGates=[{"name": "later"}])
        uid = bed.pod("gang-1")["metadata"]["uid"]  # type: ignore[index]
        squats = f"gang-1-extended-resources-{uid[:8]}"
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}]
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": squats}}
        bed.admin.post(CLAIMS, {**body, "spec": {"devices": {"requests": requests}}})
        bed.admin.patch("/api/v1/namespaces/default/pods/gang-1", {"spec": {"schedulingGates": []}})
        driven.until(lambda: any("was not made for it" in entry.why for entry in driven.driver.table))
        driven.until(lambda: claims(bed) == [squats])
        assert bound(driven)["gang"] == 0
        bed.admin.delete(f"{CLAIMS}/{squats}")
        driven.until(lambda: bound(driven)["gang"] == 2)
        assert audit(bed) == []


@pytest.mark.parametrize("apart", [False, True])
def test_pods_whose_status_names_a_claim_start_only_where_they_need_one(
    bed: KubernetesBed, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    add_slice(bed, "n1-gpus", gpus(1), nodeName="n1")
    add_slice(bed, "n2-gpus", gpus(1), nodeName="n2")
    with DrivenPods(bed) as driven:
        driven.until(lambda: driven.driver.epoch is not None)
        of, say, failed = driven.adapter.devices.giving, driven.adapter.devices.giving._say, list[str]()

        async def said_and_failed(*args: Any) -> None:
            await say(*args)
            if len(failed) < 2:
                failed.append("once")
                bed.add_nodes([f"plugin{len(failed)}"], SIZE | {GPU: "1"})
                raise GivingError("it cannot be bound")

        monkeypatch.setattr(of, "_say", said_and_failed)
        add_members(bed, "gang", 2, **({"affinity": anti("a")} if apart else {}))
        driven.until(lambda: bound(driven)["gang"] == 2)
        assert len(failed) == 2
        assert set(driven.placed().values()) == {"n1", "n2"}  # though other nodes have it themselves by now
        assert audit(bed) == []


@pytest.mark.parametrize("gang", [False, True])
def test_pods_are_evicted_for_it_and_never_in_vain(bed: KubernetesBed, gang: bool) -> None:
    add_slice(bed, "n1-gpus", gpus(2), nodeName="n1")
    add_slice(bed, "n2-gpus", gpus(1), nodeName="n2")
    with DrivenPods(bed, POLICY) as driven:
        for i in range(3):
            bed.add_pod(f"low{i}", containers=[asking("main", 1)], priorityClassName="low")
            driven.until(lambda: running(bed, f"low{i}"))  # noqa: B023
        bed.add_pod("vain", containers=[asking("main", 3)], priorityClassName="high")
        steps(driven, 30)
        assert set(driven.placed()) == {"low0", "low1", "low2"}
        if gang:
            add_members(bed, "gang", 2, priorityClassName="high")
        else:
            bed.add_pod("gang-0", containers=[asking("main", 2)], priorityClassName="high")
        driven.until(lambda: bound(driven)["gang"] == 1 + gang)
        assert audit(bed) == []
        assert len([name for name in driven.placed() if name.startswith("low")]) == 1
        steps(driven, 20)
        assert len([name for name in driven.placed() if name.startswith("low")]) == 1
        assert replay(driven.journal.records()).differences == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_a_driver_is_killed_at_any_point_and_no_gang_is_half_there(
    bed: KubernetesBed, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(2), nodeName=node)
    for number in range(3):
        add_members(bed, f"gang{number}", random.choice([2, 3]), run_s=0.3)
    driven = DrivenPods(bed)
    for _ in range(6):
        deadly = Deadly(random.randrange(1, 16))
        with monkeypatch.context() as patched:
            for name in ("create", "patch", "delete"):
                patched.setattr(giving, name, deadly.around(getattr(giving, name)))
            with suppress(Killed):
                steps(driven, 25)
            driven.stop()
        assert [one for one in audit(bed) if "runs without" in one or "times" in one] == []
        driven.begin()
    driven.until_all(timeout_s=120)
    assert halves(bed) == {}
    driven.until(lambda: given(bed) == {})
    assert audit(bed) == []
    driven.stop()
