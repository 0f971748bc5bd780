"""Gangs of pods that claim devices: all have theirs and are bound, or none has any, whatever breaks in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from dra_bed import CLAIMS, add_claim, add_class, add_slice, add_template, audit, clear, given, wants
from driven_pods import Deadly, DrivenPods, Killed, overbooked
from k8s_bed import KubernetesBed
from test_claims_of_devices import gpus
from test_gangs import add_group, add_member, bound
from test_gangs import bed as gang_bed  # noqa: F401
from test_many_gangs import halves

from unrack.live.driver.state.replay import replay
from unrack.live.kubernetes.devices import giving as module_of_giving
from unrack.live.kubernetes.devices.store import MOST_CONSUMERS


@pytest.fixture
def bed(gang_bed: KubernetesBed) -> Iterator[KubernetesBed]:  # noqa: F811
    clear(gang_bed)
    gang_bed.add_nodes(["n1", "n2", "n3"], {"cpu": "8", "memory": "8Gi"})
    add_class(gang_bed, "gpu")
    add_template(gang_bed, "one", wants("gpu"))
    yield gang_bed
    clear(gang_bed)


def add_claiming_members(bed: KubernetesBed, gang: str, count: int, *, first: int = 0, **keys: Any) -> None:
    of = {"resourceClaimName": claim} if (claim := keys.pop("claim", "")) else {"resourceClaimTemplateName": "one"}
    for i in range(first, first + count):
        add_member(bed, gang, i, {"cpu": "10m"}, resourceClaims=[{"name": "devices", **of}], **keys)


def steps(driven: DrivenPods, count: int = 30) -> None:
    for _ in range(count):
        driven.go()


def test_a_gang_has_all_of_its_devices_or_none(bed: KubernetesBed) -> None:
    for node in ("n1", "n2"):
        add_slice(bed, f"{node}-gpus", gpus(2), nodeName=node)
    add_group(bed, "gang", 5)
    with DrivenPods(bed) as driven:
        add_claiming_members(bed, "gang", 5)
        steps(driven, 60)
        assert given(bed) == {}
        assert bound(driven)["gang"] == 0
        add_slice(bed, "n3-gpus", gpus(1), nodeName="n3")
        driven.until(lambda: bound(driven)["gang"] == 5)
        assert audit(bed) == [] == overbooked(bed)
        assert len(given(bed)) == 5
        driven.until(lambda: {str(entry.phase) for entry in driven.driver.table} == {"running"})
        assert replay(driven.journal.records()).differences == []


def test_a_gang_shares_a_claim_where_its_device_is(bed: KubernetesBed) -> None:
    add_slice(bed, "n2-gpus", gpus(1), nodeName="n2")
    add_claim(bed, "shared", wants("gpu"))
    add_group(bed, "gang", 4)
    with DrivenPods(bed) as driven:
        add_claiming_members(bed, "gang", 4, claim="shared", run_s=1.0)
        driven.until(lambda: bound(driven)["gang"] == 4)
        assert set(driven.placed().values()) == {"n2"}
        users = bed.admin.get(f"{CLAIMS}/shared")["status"]["reservedFor"]
        assert sorted(one["name"] for one in users) == [f"gang-{i}" for i in range(4)]
        assert audit(bed) == []
        driven.until_all()
        driven.until(lambda: given(bed) == {})


def test_a_device_that_all_nodes_reach_is_shared_over_nodes(bed: KubernetesBed) -> None:
    add_slice(bed, "n1-gpus", gpus(1), nodeName="n1")
    add_slice(bed, "box", [{"name": "pooled"}], allNodes=True)
    add_claim(bed, "shared", wants("gpu"))
    add_group(bed, "gang", 3)
    with DrivenPods(bed) as driven:
        for i in range(3):
            claims = [{"name": "devices", "resourceClaimName": "shared"}]
            add_member(bed, "gang", i, {"cpu": "6"}, resourceClaims=claims)
        driven.until(lambda: bound(driven)["gang"] == 3)
        assert len(set(driven.placed().values())) == 3
        assert given(bed) == {"shared": ["pooled"]}
        assert audit(bed) == []


def test_a_claim_has_no_more_users_than_it_may(bed: KubernetesBed) -> None:
    add_slice(bed, "box", [{"name": "pooled"}], allNodes=True)
    add_claim(bed, "shared", wants("gpu"))
    bed.add_nodes([f"m{i}" for i in range(3)], {"cpu": "8", "memory": "8Gi"})
    add_group(bed, "gang", MOST_CONSUMERS + 1)
    with DrivenPods(bed, timeout_s=30) as driven:
        add_claiming_members(bed, "gang", MOST_CONSUMERS + 1, claim="shared")
        driven.until(lambda: any("which are all it may" in entry.why for entry in driven.driver.table), 60)
        assert given(bed) == {}
        assert bound(driven)["gang"] == 0


@pytest.mark.parametrize("what", ["the device is gone", "a claim is taken back", "it is deleted"])
def test_what_happens_between_giving_and_binding_leaves_nothing(
    bed: KubernetesBed, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    add_slice(bed, "n1-gpus", gpus(2), nodeName="n1")
    add_group(bed, "gang", 2)
    monkeypatch.setattr(module_of_giving, "SEEN_S", 1.0)
    with DrivenPods(bed) as driven:
        driven.until(lambda: driven.driver.epoch is not None)
        giving, raced = driven.adapter.devices.giving, list[str]()
        ready = giving._ready

        async def after_that(*args: Any) -> None:
            if not raced:
                raced.append(what)
                if what == "the device is gone":
                    bed.admin.delete("/apis/resource.k8s.io/v1/resourceslices/n1-gpus")
                    while "n1-gpus" in giving._store.slices:
                        await asyncio.sleep(0.01)
                elif what == "it is deleted":
                    bed.admin.delete("/api/v1/namespaces/default/pods/gang-1", gracePeriodSeconds=0)
                else:
                    name = next(iter(given(bed)))
                    bed.admin.patch(f"{CLAIMS}/{name}/status", {"status": {"allocation": None, "reservedFor": None}})
                    await asyncio.sleep(0.5)  # so that what was given is seen only as it is taken away
            await ready(*args)

        monkeypatch.setattr(giving, "_ready", after_that)
        add_claiming_members(bed, "gang", 2)
        driven.until(lambda: bool(raced))
        driven.until(lambda: given(bed) == {} or bound(driven)["gang"] == 2)
        assert not halves(bed)
        if what == "the device is gone":
            add_slice(bed, "n1-again", gpus(2), nodeName="n1")
        if what == "it is deleted":
            add_claiming_members(bed, "gang", 2 - len(driven.pods()), first=2)
        driven.until(lambda: bound(driven)["gang"] == 2)
        assert audit(bed) == []


def test_claims_that_others_write_at_the_same_time_are_written_again(
    bed: KubernetesBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_slice(bed, "n1-gpus", gpus(3), nodeName="n1")
    add_group(bed, "gang", 3)
    with DrivenPods(bed) as driven:
        driven.until(lambda: driven.driver.epoch is not None)
        giving, raced = driven.adapter.devices.giving, Counter[str]()
        patch = giving._patch

        async def after_them(claim: Any, *args: Any, **keys: Any) -> Any:
            raced[claim.metadata.name] += 1
            if raced[claim.metadata.name] <= 2:
                mark = {"metadata": {"annotations": {"marked": str(raced.total())}}}
                bed.admin.patch(f"{CLAIMS}/{claim.metadata.name}", mark)
            return await patch(claim, *args, **keys)

        monkeypatch.setattr(giving, "_patch", after_them)
        add_claiming_members(bed, "gang", 3)
        driven.until(lambda: bound(driven)["gang"] == 3)
        assert len(raced) == 3
        assert min(raced.values()) > 2
        assert audit(bed) == []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_the_driver_is_killed_at_any_point_and_no_gang_is_half_there(
    bed: KubernetesBed, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    from unrack.live.kubernetes.gangs import starting

    random, count = Random(seed), 8
    for node in ("n1", "n2", "n3"):
        add_slice(bed, f"{node}-gpus", gpus(3), nodeName=node)
    for number in range(count):
        add_group(bed, f"g{number}", 3)
        add_claiming_members(bed, f"g{number}", 3, run_s=random.choice([0.2, 0.6]))
    driven, bind, found = DrivenPods(bed), starting.bind, 0
    for kill in range(10):
        add_group(bed, f"k{kill}", 3)  # so that there is something to be killed at
        add_claiming_members(bed, f"k{kill}", 3, run_s=0.2)
        deadly, giving = Deadly(random.randrange(1, 13)), driven.adapter.devices.giving
        monkeypatch.setattr(giving, "_patch", deadly.around(giving._patch))
        monkeypatch.setattr(starting, "bind", deadly.around(bind))
        with suppress(Killed):
            steps(driven)
        found += deadly.left <= 0
        driven.stop()
        assert [one for one in audit(bed) if "runs without" in one or "times" in one] == []
        monkeypatch.setattr(starting, "bind", bind)
        if kill % 3 == 2:
            driven.journal = type(driven.journal)()  # and what it knew is lost, too
        driven.begin()
        driven.until(lambda: not halves(bed), 60)
    assert found > 2
    try:
        for gang in [f"g{number}" for number in range(count)] + [f"k{kill}" for kill in range(10)]:
            there = sum(name.startswith(f"{gang}-") for name in driven.pods())
            add_claiming_members(bed, gang, 3 - there, first=10, run_s=0.2)  # as the controller of those taken back
        driven.until_all(timeout_s=120)
        assert audit(bed) == []
        driven.until(lambda: given(bed) == {})
    finally:
        driven.stop()
