"""What a composer does next, from what is wanted, attached and under way: against what must hold whatever comes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.live.fabric.contract import Attachment
from unrack.live.kubernetes.client.objects import Condition, Metadata
from unrack.live.kubernetes.client.others import Other
from unrack.live.kubernetes.composer.catalogue import Catalogue, PoolKeys, catalogue_of
from unrack.live.kubernetes.composer.slices import Publisher, avoided_in
from unrack.live.kubernetes.composer.steps import Situation, next_steps
from unrack.live.kubernetes.composer.wanted import AttachProblem, Sight, WantedDevice, wanted_by
from unrack.live.kubernetes.devices.objects import (
    AllocatedDevice,
    AllocatedDevices,
    Allocation,
    Claim,
    ClaimStatus,
    DeviceStatus,
)

Given = AllocatedDevice
DRIVER, OWNER = "fabric.unrack.io", "k8s.x."
NODES = {"nodes": [{"count": 4, "cores": 8, "names": "n[0-3]"}], "nodes_per_rack": 2}
NVME = {"kind": "nvme", "count": 3, "quantities": {"bandwidth_mb_s": "2 GB/s", "capacity_mb": "600 GB"}}
BOX = {"kind": "memory", "name": "box", "count": 1, "attach": "multi", "quantities": {"capacity_mb": "1 TB"}}


def catalogue(*pools: dict[str, Any], said: dict[str, PoolKeys] | None = None) -> Catalogue:
    return catalogue_of(Cluster.from_dict({**NODES, "pools": list(pools)}), said or {}, "cluster.toml")


def node(name: str) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}


def several(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeSelectorTerms": [*node("n1")["nodeSelectorTerms"], *terms]}


def claim(result: AllocatedDevice, where: dict[str, Any] | None = None, since: str = "t", **more: Any) -> Claim:
    allocation = Allocation(AllocatedDevices([result]), node("n1") if where is None else where, since)
    return Claim(Metadata("c", "default", "u1"), status=ClaimStatus(allocation, **more))


def wanted(one: Claim, of: Catalogue | None = None) -> WantedDevice:
    (found,) = wanted_by(one, of or catalogue(NVME, BOX), DRIVER, OWNER)
    return found


# What is published


def test_what_one_node_alone_has_is_not_published() -> None:
    found = catalogue({**NVME, "per": "rack"}, {"kind": "gpu", "count": 2, "per": "node"})
    assert list(found.pools) == ["nvme-rack0", "nvme-rack1"]
    assert found.pools["nvme-rack1"].nodes == ("n2", "n3")


def test_a_shared_device_says_what_is_consumed_and_a_single_one_what_it_has() -> None:
    found = catalogue(NVME, {**BOX, "share": 3}, said={"nvme": PoolKeys("sw1", {"model": "X", "gen": 4, "fast": True})})
    drive, box = found.devices["nvme", "nvme-0"].content, found.devices["box", "box-0"].content
    assert drive["capacity"] == {"bandwidth": {"value": "2G"}, "capacity": {"value": "600Gi"}}
    assert drive["attributes"] == {
        "kind": {"string": "nvme"}, "pool": {"string": "nvme"}, "switch": {"string": "sw1"}, "model": {"string": "X"},
        "gen": {"int": 4}, "fast": {"bool": True},
    }  # fmt: skip
    assert "allowMultipleAllocations" not in drive
    assert box["allowMultipleAllocations"] is True
    assert box["capacity"]["shares"] == {"value": "3", "requestPolicy": {"default": "1", "validValues": ["1"]}}


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ([{**NVME, "name": "My drives"}], "lower-case letters"),
        ([{**NVME, "quantities": {"size_mb": 5, "size_mb_s": 5}}], "no two the same"),
        ([{**NVME, "quantities": {"shares": 5}}], "none of them shares"),
        ([{**NVME, "per": "node"}], "no pool of devices that several nodes reach"),
        ([], "no pool of devices"),
    ],
)
def test_what_cannot_be_published_is_refused(pools: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError, match=words):
        catalogue(*pools)


def test_a_pool_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match="a pool that there is not"):
        catalogue(NVME, said={"nvm": PoolKeys("sw1")})


def test_names_of_nodes_are_needed_where_not_all_reach_a_pool() -> None:
    bare = {"nodes": [{"count": 4, "cores": 8}], "nodes_per_rack": 2}
    with pytest.raises(InputError, match="nodes without names"):
        catalogue_of(Cluster.from_dict({**bare, "pools": [{**NVME, "per": "rack"}]}), {}, "f")
    assert catalogue_of(Cluster.from_dict({**bare, "pools": [NVME]}), {}, "f").pools["nvme"].nodes is None


def written(publisher: Publisher, of: Catalogue, there: list[Other], **avoided: str) -> list[Other]:
    """The slices that are there afterwards, as if the server took all as it came."""
    changes = publisher.changes(of, {("nvme", name.replace("_", "-")): since for name, since in avoided.items()}, there)
    kept = {one.metadata.name: one for one in there}
    kept |= {name: Other(Metadata(name), spec) for name, spec in changes.write}
    return [one for name, one in kept.items() if one not in changes.end]


def test_a_pool_that_changes_gets_a_new_generation_in_all_its_slices() -> None:
    publisher, many = Publisher(DRIVER, "kubernetes.io/hostname"), catalogue({**NVME, "count": 150}, BOX)
    first = written(publisher, many, [])
    sizes = sorted(len(one.spec["devices"]) for one in first)
    assert sizes == [1, 22, 64, 64]
    assert publisher.changes(many, {}, first) == ((), ())
    fewer = written(publisher, catalogue({**NVME, "count": 100}, BOX), first)
    nvme = [one.spec["pool"] for one in fewer if one.spec["pool"]["name"] == "nvme"]
    assert nvme == [{"name": "nvme", "generation": 2, "resourceSliceCount": 2}] * 2
    assert [one.spec["pool"]["generation"] for one in fewer if one.spec["pool"]["name"] == "box"] == [1]
    none = written(publisher, catalogue(BOX), fewer)
    assert [one.spec["pool"]["name"] for one in none] == ["box"]


def test_what_was_cut_off_is_begun_again_with_a_newer_generation() -> None:
    publisher, many = Publisher(DRIVER, "kubernetes.io/hostname"), catalogue({**NVME, "count": 150})
    first = written(publisher, many, [])
    fewer = catalogue({**NVME, "count": 140})
    half = [Other(Metadata(name), spec) for name, spec in publisher.changes(fewer, {}, first).write[:1]] + first[1:]
    again = written(Publisher(DRIVER, "kubernetes.io/hostname"), fewer, half)
    assert {one.spec["pool"]["generation"] for one in again} == {3}


def test_what_the_server_writes_otherwise_is_not_written_again_for_ever() -> None:
    publisher, of = Publisher(DRIVER, "kubernetes.io/hostname"), catalogue(NVME)
    ((name, spec),) = publisher.changes(of, {}, []).write
    made = Other(Metadata(name), {**spec, "new": "default"})
    assert publisher.changes(of, {}, [made]).write
    publisher.took(name, spec, made)
    assert not publisher.changes(of, {}, [made]).write


def test_a_device_that_is_avoided_is_so_after_a_restart() -> None:
    publisher, of = Publisher(DRIVER, "kubernetes.io/hostname"), catalogue(NVME)
    there = written(publisher, of, [], nvme_1="2026-01-01T00:00:00Z")
    assert avoided_in(there) == {("nvme", "nvme-1"): "2026-01-01T00:00:00Z"}
    assert avoided_in(written(publisher, of, there)) == {}


# What claims want


def test_a_claim_that_is_allocated_again_is_another_operation() -> None:
    result = Given("main", DRIVER, "nvme", "nvme-1")
    names = {wanted(claim(result)).operation, wanted(claim(result, since="u")).operation}
    names |= {
        wanted(claim(result, node("n2"))).operation,
        wanted(claim(Given("main", DRIVER, "nvme", "nvme-0"))).operation,
    }
    assert len(names) == 4
    assert wanted(claim(result)).attachment == Attachment(wanted(claim(result)).operation, "u1", "n1", ("nvme-1",), {})


def test_a_share_asks_for_what_it_consumes_rounded_up() -> None:
    share = Given(
        "m", DRIVER, "box", "box-0", share_id="s", consumed_capacity={"capacity": "1000000001", "shares": "1"}
    )
    found = wanted(claim(share)).attachment
    assert found is not None
    assert found.amounts == {"shares": 1, "capacity_mb": 954}


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (claim(Given("m", DRIVER, "nvme", "nvme-0"), {}), "NoNode"),
        (claim(Given("m", DRIVER, "nvme", "nvme-0"), several({})), "NoNode"),
        (claim(Given("m", DRIVER, "nvme", "nvme-0"), several(*node("n2")["nodeSelectorTerms"])), "NoNode"),
        (claim(Given("m", DRIVER, "nvme", "nvme-9")), "NoDevice"),
        (claim(Given("m", DRIVER, "gone", "nvme-0")), "NoDevice"),
        (claim(Given("m", DRIVER, "nvme", "nvme-0", admin_access=True)), "AdminAccess"),
        (claim(Given("m", DRIVER, "nvme", "nvme-0", share_id="share")), "NotShared"),
        (claim(Given("m", DRIVER, "box", "box-0")), "NotShared"),
        (claim(Given("m", DRIVER, "box", "box-0", share_id="s", consumed_capacity={"capacity": "x"})), "NotAttachable"),
        (claim(Given("m", DRIVER, "nvme", "nvme-0"), node("n" * 101)), "NotAttachable"),
    ],
)  # fmt: skip
def test_what_cannot_be_attached_says_why(one: Claim, reason: str) -> None:
    found = wanted(one)
    assert found.attachment is None
    assert found.problem is not None
    assert found.problem.reason == reason


def test_devices_of_others_are_not_ours() -> None:
    assert list(wanted_by(claim(Given("m", "gpu.example.com", "nvme", "nvme-0")), catalogue(NVME), DRIVER, OWNER)) == []
    assert list(wanted_by(Claim(), catalogue(NVME), DRIVER, OWNER)) == []


@pytest.mark.parametrize(
    ("conditions", "sight"),
    [
        ([], Sight.NEW),
        ([Condition("unrack.io/Attached", "True", "Attached")], Sight.ATTACHED),
        ([Condition("unrack.io/Attached", "False", "AttachmentLost")], Sight.LOST),
        ([Condition("unrack.io/Attached", "True"), Condition("unrack.io/AttachFailed", "True")], Sight.FAILED),
        ([Condition("example.com/Ready", "True")], Sight.NEW),
    ],
)
def test_what_a_claim_was_told_is_read_from_it(conditions: list[Condition], sight: Sight) -> None:
    status = DeviceStatus(DRIVER, "nvme", "nvme-0", "", conditions)
    other = DeviceStatus(DRIVER, "nvme", "nvme-1", "", [Condition("unrack.io/AttachFailed", "True")])
    assert wanted(claim(Given("m", DRIVER, "nvme", "nvme-0"), devices=[other, status])).sight == sight


# What is done


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A few operations on three devices, in any state at all."""
    wants, attached = dict[str, WantedDevice](), dict[str, Attachment]()
    names = [f"o{i}" for i in range(draw(st.integers(0, 6)))]
    for name in names:
        device = draw(st.sampled_from(["d0", "d1", "d2"]))
        one = Attachment(name, "u", "n", (device,), draw(st.sampled_from([{}, {"shares": 1}])))
        if draw(st.booleans()):
            attached[name] = one
        if draw(st.booleans()):
            sight = draw(st.sampled_from(Sight))
            problem = draw(st.sampled_from([None, None, AttachProblem("NoDevice", "gone")]))
            rank = draw(st.sampled_from("ab")), "", ""
            result = Given("m", DRIVER, "p", device)
            wants[name] = WantedDevice(
                name, ("", name), result, rank, sight, device[-1:], None if problem else one, problem
            )
    some = st.sets(st.sampled_from(names)) if names else st.just(set())
    whole = draw(some) & attached.keys()
    busy = dict.fromkeys(sorted(draw(some) - whole), "0")
    overdue = dict.fromkeys(sorted(draw(some)), AttachProblem("AttachFailed", "it broke"))
    return Situation(wants, attached, whole, busy, draw(some), overdue, {"d0": "0", "d1": "1", "d2": "2"})


@draws(500)
@given(situations(), st.integers(1, 3))
def test_whatever_there_is_what_is_done_is_safe_and_enough(now: Situation, at_once: int) -> None:
    steps = next_steps(now, at_once)
    attach, tell = [one.operation for one in steps.attach], {one.operation: problem for one, problem in steps.tell}
    begun = [*steps.detach, *attach]
    assert len(set(begun)) == len(begun)
    for operation in begun:
        assert operation not in now.busy
        assert operation not in now.resting
    for operation in steps.detach:
        assert operation in now.attached
        assert operation not in now.wanted or now.wanted[operation].sight == Sight.FAILED
    leaving = {
        device
        for operation, one in now.attached.items()
        if operation not in now.wanted or now.wanted[operation].sight == Sight.FAILED
        for device in one.devices
    }
    for one in steps.attach:
        assert one.attachment is not None
        assert not leaving & {*one.attachment.devices}
        assert one.operation not in now.whole
        assert one.sight != Sight.FAILED
    for operation, problem in tell.items():
        one = now.wanted[operation]
        assert one.sight != Sight.FAILED
        assert operation not in now.busy
        assert (problem is None) == (operation in now.whole)
        assert one.sight == Sight.NEW or problem is None or operation not in now.whole
    switches = list(now.busy.values()) + [now.switch_of[now.attached[one].devices[0]] for one in steps.detach]
    switches += [one.switch for one in steps.attach]
    for switch in {*switches} - {*now.busy.values()}:
        assert switches.count(switch) <= at_once
    for operation in steps.held_up:
        one = now.wanted[operation]
        assert one.attachment is not None
        assert leaving & {*one.attachment.devices}
        assert operation not in attach
    # enough: what could be done at a switch that has nothing to do is begun
    for operation, one in now.wanted.items():
        can = one.attachment is not None and not leaving & {*one.attachment.devices} and one.sight != Sight.FAILED
        idle = operation not in {*now.busy, *now.resting, *now.whole, *tell} and one.switch not in switches
        assert not (can and idle), operation
    for operation in now.attached:
        is_left = operation not in now.wanted or now.wanted[operation].sight == Sight.FAILED
        if is_left and operation not in {*now.busy, *now.resting, *steps.detach}:
            assert switches.count(now.switch_of[now.attached[operation].devices[0]]) >= at_once
