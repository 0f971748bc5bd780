"""Nodes for gangs whose pods are in each other's way, against a plain twin that tries every choice."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from test_allocator import CLASSES, claim_of, slices_of
from test_snapshot_of_kubernetes import node

from unrack.live.driver.contract import Problem
from unrack.live.kubernetes.adapter.asking import MOST_PODS, MOST_WAYS, Asking
from unrack.live.kubernetes.adapter.asks import Amounts, asked_of, room_of
from unrack.live.kubernetes.adapter.picture import Picture, key_of
from unrack.live.kubernetes.adapter.terms import Added, Terms
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.constraints.beside import Beside
from unrack.live.kubernetes.devices.allocator import HeldDevices
from unrack.live.kubernetes.devices.devices import Devices
from unrack.live.kubernetes.devices.store import Store
from unrack.live.kubernetes.devices.trial import DeviceTrial
from unrack.live.kubernetes.gangs.gathering import Gang
from unrack.live.kubernetes.gangs.placing import Free, Member, Placing
from unrack.workload.job import Job

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def member(name: str, cpu: str = "1", app: str = "a", **spec: Any) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}
    return msgspec.convert({"metadata": metadata, "spec": {"containers": [container], **spec}}, Pod)


def beside_term(key: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def to(key: str, app: str = "a") -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: [beside_term(key, app)]}}}


def away(key: str, app: str = "a") -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [beside_term(key, app)]}}}


def spread(key: str, most: int = 1, app: str = "a") -> dict[str, Any]:
    one = {"topologyKey": key, "maxSkew": most, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**one, "labelSelector": {"matchLabels": {"app": app}}}]}


def nodes_of(zones: str, cpu: str = "4") -> dict[str, Node]:
    """Nodes n0, n1, …, each in the zone of its letter."""
    size = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    found = [node(f"n{i}", size, labels={HOST: f"n{i}", "zone": zone}) for i, zone in enumerate(zones)]
    return {one.metadata.name: one for one in found}


def free_of(nodes: dict[str, Node], beside: Beside, there: dict[str, tuple[Pod, str]]) -> Free:
    rooms = {name: Counter(room_of(one)) for name, one in nodes.items()}
    for pod, at in there.values():
        rooms[at].subtract(asked_of(pod))
    return Free(rooms, DeviceTrial(Store(), HeldDevices()), lambda name, asks: False)


def placed(
    nodes: dict[str, Node], pods: Sequence[Pod], there: dict[str, tuple[Pod, str]] | None = None,
    alike: Sequence[str] = (),
) -> list[str] | str:  # fmt: skip
    beside = Beside(nodes)
    for key, (pod, at) in (there or {}).items():
        beside.put(key, pod, at)
    before = beside.version
    here = sorted(nodes)
    members = [Member(f"m{i}", pod, here, beside.required(f"m{i}", pod), ()) for i, pod in enumerate(pods)]
    found = Placing(nodes, beside, members, alike).found(free_of(nodes, beside, there or {}))
    assert before == beside.version
    return found


def is_right(
    nodes: dict[str, Node], pods: Sequence[Pod], chosen: Sequence[str], there: dict[str, tuple[Pod, str]]
) -> bool:
    """Whether kube-scheduler could have bound them so, one after the other."""
    beside, rooms = Beside(nodes), {name: Counter[str](room_of(one)) for name, one in nodes.items()}
    for key, (pod, at) in there.items():
        beside.put(key, pod, at)
        rooms[at].subtract(asked_of(pod))
    for i, (pod, at) in enumerate(zip(pods, chosen, strict=True)):
        asks: Amounts = asked_of(pod)
        required = beside.required(f"m{i}", pod)
        if at in beside.forbidden(pod, required) or any(rooms[at][key] < asks[key] for key in asks):
            return False
        beside.put(f"m{i}", pod, at)
        rooms[at].subtract(asks)
    return True


def test_eight_pods_that_keep_off_each_other_need_eight_nodes() -> None:
    pods = [member(f"p{i}", **away(HOST)) for i in range(8)]
    found = placed(nodes_of("a" * 9), pods)
    assert len(set(found)) == 8
    found = placed(nodes_of("a" * 7), pods)
    assert found == (
        "of the 8 pods of its gang 7 would have nodes: of 7 for pod p7 7 are kept from it by pods or labels, "
        "0 have no room"
    )


def test_a_gang_that_must_lie_in_one_zone_finds_the_zone_that_holds_all() -> None:
    pods = [member(f"p{i}", "2", **to("zone")) for i in range(6)]
    found = placed(nodes_of("aabbbcc"), pods)
    assert set(found) == {"n2", "n3", "n4"}
    assert "of the 6 pods of its gang 4 would" in str(placed(nodes_of("aabbcc"), pods))
    plain = [member(f"p{i}", "2") for i in range(6)]
    assert set(placed(nodes_of("aabbbcc"), plain, alike=["zone"])) == {"n2", "n3", "n4"}
    assert isinstance(placed(nodes_of("aabbbcc"), plain, alike=["rack"]), str)
    db = {"x": (member("db", app="db"), "n0"), "y": (member("db", app="db"), "n3")}
    near = [member(f"p{i}", "1", **to("zone", "db")) for i in range(10)]
    assert {"n0", "n1"} <= set(placed(nodes_of("aabbbcc"), near, db)) <= {"n0", "n1", "n2", "n3", "n4"}


def test_a_gang_is_spread_and_shares_no_port() -> None:
    found = placed(nodes_of("aaabbbccc"), [member(f"p{i}", **spread("zone")) for i in range(7)])
    zones = Counter(int(name[1:]) // 3 for name in found)
    assert sorted(zones.values()) == [2, 2, 3]
    port = [{"containerPort": 80, "hostPort": 80}]
    assert len(set(placed(nodes_of("abc"), [member(f"p{i}", ports=port) for i in range(3)]))) == 3
    there = {"theirs": (member("theirs", ports=port), "n1")}
    assert "2 would have nodes" in str(placed(nodes_of("abc"), [member(f"p{i}", ports=port) for i in range(3)], there))


KINDS = [lambda k, a: to(k, a), lambda k, a: away(k, a), lambda k, a: spread(k, 1, a), lambda k, a: {}]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_found_is_right_and_little_is_missed(seed: int) -> None:
    random, missed, met = Random(seed), 0, 0
    for _ in range(6):
        nodes = nodes_of("".join(random.choice("ab") for _ in range(random.randrange(2, 5))), random.choice("23"))
        there = dict[str, tuple[Pod, str]]()
        for i in range(random.randrange(3)):
            keys = random.choice(KINDS)(random.choice([HOST, "zone"]), "a")
            there[f"t{i}"] = member(f"t{i}", app=random.choice("ab"), **keys), random.choice(sorted(nodes))
        kinds = [random.choice(KINDS)(random.choice([HOST, "zone"]), random.choice("ab")) for _ in range(2)]
        pods = [
            member(f"p{i}", random.choice("12"), random.choice("ab"), **random.choice(kinds))
            for i in range(random.randrange(2, 5))
        ]
        found = placed(nodes, pods, there)
        every = itertools.product(sorted(nodes), repeat=len(pods))
        could = next((one for one in every if is_right(nodes, pods, one, there)), None)
        met += could is not None
        if isinstance(found, list):
            assert is_right(nodes, pods, found, there)
        else:
            missed += could is not None
            assert f"of the {len(pods)} pods of its gang" in found
    assert missed <= 2, (missed, met)


@pytest.mark.parametrize("seed", range(20))
def test_what_matters_to_no_pod_changes_nothing(seed: int) -> None:
    random = Random(seed)
    nodes = nodes_of("".join(random.choice("abc") for _ in range(6)))
    pods = [member(f"p{i}", **random.choice(KINDS)("zone", "a")) for i in range(4)]
    found = placed(nodes, pods)
    other = {"x": (member("x", "0", app="else", **away(HOST, "nothing")), "n0")}
    assert placed(nodes, pods, other) == found
    assert placed(nodes, list(pods)) == found
    more = nodes | {"z9": node("z9", {"cpu": "100m", "memory": "8Gi", "pods": "110"}, labels={HOST: "z9"})}
    again = placed(more, pods)
    assert again == found or (isinstance(again, str) and isinstance(found, str))  # which says how many nodes there are


def asked(*pods: Pod, nodes: dict[str, Node]) -> tuple[Asking, Gang]:
    """What asks for a gang of pods on nodes without others."""
    picture = Picture("unrack")
    picture.take_nodes([(None, one) for one in nodes.values()])
    picture.take_pods([(None, one) for one in pods])
    devices = Devices(picture.lock, lambda: pytest.fail("no server"), picture.live, lambda _: None)
    asking = Asking(picture, devices)
    asking._terms = Terms(picture.nodes, Added(3_600_000_000), devices=devices)
    return asking, Gang(tuple(map(key_of, pods)), pods, 0)


def test_a_gang_asks_for_its_nodes_until_something_changes() -> None:
    asking, gang = asked(*(member(f"p{i}", **away(HOST)) for i in range(3)), nodes=nodes_of("abcd"))
    job, order = asking.asks("gang", gang)
    assert isinstance(job, Job)
    assert order == gang.keys
    closed = [one.said["exc_nodes"] for one in job.every]
    assert closed == ["n[1-3]", "n[0,2-3]", "n[0-1,3]"]
    assert asking.asks("gang", gang)[0] is job
    here = member("x", nodeName="n0")
    asking._picture.take_pods([(None, here)])
    again, _ = asking.asks("gang", gang)
    assert isinstance(again, Job)
    assert [one.said["exc_nodes"] for one in again.every] == ["n[0,2-3]", "n[0-1,3]", "n[0-2]"]


@pytest.mark.parametrize("what", ["pods", "ways"])
def test_hostile_gangs_take_no_time_from_others(what: str) -> None:
    count = MOST_PODS + 1 if what == "pods" else MOST_WAYS + 1
    pods = [member(f"p{i}", "1m", **away(HOST, "a" if what == "pods" else f"a{i}")) for i in range(count)]
    found, _ = asked(*pods, nodes=nodes_of("abcd"))[0].asks("gang", Gang(tuple(map(key_of, pods)), tuple(pods), 0))
    assert isinstance(found, Problem)
    assert f"{count} " in found.why
    assert found.misread


def test_what_is_promised_is_free_for_no_other() -> None:
    store, claims = Store(), [claim_of(name, wants_any()) for name in ("mine", "theirs")]
    store.take([(None, one) for one in slices_of({"nodeName": "n1", "devices": [{"name": "d0"}]})])
    store.take([(None, CLASSES["any"]), *((None, one) for one in claims)])
    place = node("n1", {})
    found = store.search().allocate([store.wanted(claims[0])], place)
    assert isinstance(found, list)
    freed = store.freed
    store.promise("pod", found)
    assert isinstance(store.search().allocate([store.wanted(claims[1])], place), str)
    assert isinstance(store.search_on(store.held_by(mine={"pod"})).allocate([store.wanted(claims[0])], place), list)
    assert store.freed == freed
    store.promise("pod", ())
    assert store.freed == freed + 1
    assert isinstance(store.search().allocate([store.wanted(claims[1])], place), list)


def wants_any() -> dict[str, Any]:
    return {"name": "one", "exactly": {"deviceClassName": "any"}}


@pytest.mark.parametrize("seed", range(100))
def test_claims_of_several_pods_have_devices_together_or_none_has(seed: int) -> None:
    random, store = Random(seed), Store()
    names = ["n0", "n1", "n2"]
    counts = {name: random.randrange(1, 3) for name in names}
    slices = [
        {"nodeName": name, "devices": [{"name": f"d{i}"} for i in range(count)]} for name, count in counts.items()
    ]
    pooled = [{"name": f"p{i}"} for i in range(random.randrange(2))]
    claims = [claim_of(f"c{i}", wants_any()) for i in range(random.randrange(1, 6))]
    store.take([(None, one) for one in slices_of(*slices, *([{"devices": pooled}] if pooled else []))])
    store.take([(None, CLASSES["any"]), *((None, one) for one in claims)])
    pods = list[tuple[Pod, Node]]()
    for i in range(random.randrange(1, 6)):
        mine = random.sample(claims, random.choice([1, 1, min(2, len(claims))]))
        said = [{"name": f"r{k}", "resourceClaimName": one.metadata.name} for k, one in enumerate(mine)]
        content = {"metadata": {"name": f"p{i}", "uid": f"p{i}"}, "spec": {"resourceClaims": said}}
        pods.append((msgspec.convert(content, Pod), node(random.choice(names), {})))
    held = store.held_by()
    trial = DeviceTrial(store, held)
    short = trial.place(pods)
    users: dict[str, set[str]] = {}
    for pod, at in pods:
        for one in store.of_pod(pod):
            users.setdefault(one.metadata.uid, set()).add(at.metadata.name)
    devices = [(name, f"d{i}") for name, count in counts.items() for i in range(count)]
    devices += [("", one["name"]) for one in pooled]

    def fits(left: list[tuple[str, set[str]]], free: list[tuple[str, str]]) -> bool:
        if not left:
            return True
        (_, at), rest = left[0], left[1:]
        return any((not one[0] or at == {one[0]}) and fits(rest, [f for f in free if f is not one]) for one in free)

    could = fits(list(users.items()), devices)
    if short is None:
        assert could
        given = [one.device.id for of in trial.given.values() for one in of]
        assert len(set(given)) == len(given) == len(users)
    else:
        assert not could
    trial.give_back([one for one in claims if one.metadata.uid in trial.given])
    assert not held.whole.total()
