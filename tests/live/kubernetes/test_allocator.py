"""Which devices claims get, against a plain twin that tries everything, over random worlds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
import pytest

from unrack.live.kubernetes.client.objects import Metadata, Node
from unrack.live.kubernetes.devices.allocator import DeviceSearch, Given, HeldDevices
from unrack.live.kubernetes.devices.counters import Counters
from unrack.live.kubernetes.devices.objects import Claim, DeviceClass, Slice, TaintRule
from unrack.live.kubernetes.devices.pools import DeviceId, Kinds, Pools, pools_of
from unrack.live.kubernetes.devices.selectors import Selectors
from unrack.live.kubernetes.devices.store import GivenDevice, Store
from unrack.live.kubernetes.devices.wanted import Wanted, WantedError, wanted
from unrack.slurm_text.hostlists import expand

DRIVER = "dra.example.com"
NODE = Node(Metadata(name="n1", labels={"zone": "a"}))
CLASSES = {
    name: msgspec.convert(
        {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": text}}] * bool(text)}}, DeviceClass
    )
    for name, text in {
        "any": "", "red": f'device.attributes["{DRIVER}"].colour == "red"',
        "fast": f'device.attributes["{DRIVER}"].speed >= 2',
    }.items()
}  # fmt: skip


def slices_of(*specs: dict[str, Any]) -> list[Slice]:
    made = []
    for place, spec in enumerate(map(dict, specs)):
        pool = {"name": spec.pop("pool", f"p{place}"), "generation": 1, "resourceSliceCount": spec.pop("count", 1)}
        pool["generation"] = spec.pop("generation", 1)
        whole = {"metadata": {"name": f"s{place}"}, "spec": {"driver": DRIVER, "pool": pool, "allNodes": True, **spec}}
        made.append(msgspec.convert(whole, Slice))
    return made


def claim_of(uid: str, *requests: dict[str, Any], **keys: Any) -> Claim:
    return msgspec.convert(
        {"metadata": {"name": uid, "uid": uid}, "spec": {"devices": {"requests": list(requests), **keys}}}, Claim
    )


def random_world(random: Random) -> list[Slice]:
    """Devices of a few sorts: whole, shared, and parts of one thing."""
    devices: list[dict[str, Any]] = []
    for i in range(random.randrange(1, 6)):
        one: dict[str, Any] = {"name": f"d{i}"}
        one["attributes"] = {
            "colour": {"string": random.choice(["red", "blue"])}, "speed": {"int": random.randrange(1, 4)},
        }  # fmt: skip
        if random.random() < 0.6:
            one["attributes"]["switch"] = {"string": random.choice(["x", "y"])}
        if random.random() < 0.4:
            policy = random.choice([
                None, {"default": "2", "validValues": ["2", "4"]},
                {"default": "1", "validRange": {"min": "1", "max": "5", "step": "2"}},
            ])  # fmt: skip
            one["capacity"] = {"memory": {"value": str(random.choice([4, 6, 8]))}}
            if policy:
                one["capacity"]["memory"]["requestPolicy"] = policy
            one["allowMultipleAllocations"] = random.random() < 0.7
        if random.random() < 0.2:
            one["taints"] = [{"key": "broken", "value": "", "effect": "NoSchedule"}]
        if random.random() < 0.4:
            one["consumesCounters"] = [
                {"counterSet": random.choice("st"), "counters": {"slots": {"value": str(random.randrange(1, 4))}}}
            ]
        if random.random() < 0.2:
            one |= {"nodeName": random.choice(["n1", "n2"])}
        devices.append(one)
    for one in devices:
        if "nodeName" not in one:
            one["allNodes"] = True
    counters = [{"name": name, "counters": {"slots": {"value": str(random.randrange(2, 5))}}} for name in "st"]
    return slices_of(
        {"pool": "p", "count": 2, "allNodes": False, "perDeviceNodeSelection": True, "devices": devices},
        {"pool": "p", "count": 2, "sharedCounters": counters},
    )


def random_request(random: Random, name: str, sub: bool = False) -> dict[str, Any]:
    own: dict[str, Any] = {"deviceClassName": random.choice(list(CLASSES))}
    if random.random() < 0.15:
        own["allocationMode"] = "All"
    else:
        own["count"] = random.choice([1, 1, 2, 3])
    if random.random() < 0.3:
        own["capacity"] = {"requests": {"memory": str(random.randrange(1, 6))}}
    if random.random() < 0.3:
        own["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    if sub:
        return {"name": name, **own}
    if random.random() < 0.25:
        return {"name": name, "firstAvailable": [random_request(random, f"s{i}", True) for i in range(2)]}
    return {"name": name, "exactly": own}


def random_claim(random: Random, uid: str) -> Claim:
    requests = [random_request(random, f"r{i}") for i in range(random.choice([1, 1, 2]))]
    constraints = []
    if random.random() < 0.35:
        kind, attribute = random.choice(["matchAttribute", "distinctAttribute"]), random.choice(["switch", "colour"])
        constraints = [{kind: f"{DRIVER}/{attribute}"} | ({"requests": ["r0"]} if random.random() < 0.3 else {})]
    return claim_of(uid, *requests, constraints=constraints)


# --- the twin: every way to choose, each looked at as a whole ------------------------------------------------------


def ways(pools: Pools, claims: Sequence[Wanted], selectors: Selectors) -> Iterator[list[Given]]:
    flat = [(claim, request) for claim in claims for request in claim.requests]
    for alternatives in itertools.product(*(request for _, request in flat)):
        choices = []
        for one in alternatives:
            may = [
                device for device in pools.devices.values()
                if device.is_reached(NODE)
                and all(selectors.holds(text, device.kind, device.described) for text in one.selectors)
            ]  # fmt: skip
            if not one.count:
                may = [device for device in may if takes(one, device) is not None]
            choices.append(itertools.combinations(may, one.count or len(may) or 1))
        for chosen in itertools.product(*(list(choice) for choice in choices)):
            yield [
                Given(claim.claim, one, device, takes(one, device))
                for (claim, _), one, devices in zip(flat, alternatives, chosen, strict=True)
                for device in devices
            ]


def takes(one: Any, device: Any) -> dict[str, Fraction] | None:
    """By the text of the specification: the default or all, rounded up to what is allowed."""
    asked, found = dict(one.capacity), {}
    if set(asked) - set(device.capacity):
        return None
    for name, of in device.capacity.items():
        amount = asked.get(name, of.value if of.default is None else of.default)
        if name in asked and of.values:
            amount = min((value for value in of.values if value >= amount), default=None)
        elif name in asked and of.least is not None:
            steps = 0
            while of.step and of.least + steps * of.step < amount:
                steps += 1
            amount = of.least + steps * of.step if of.step else max(of.least, amount)
            if amount > of.most:
                amount = None
        if amount is None or amount > of.value:
            return None
        found[name] = amount
    return found


def is_possible(pools: Pools, held: HeldDevices, given: list[Given], claims: Sequence[Wanted]) -> bool:
    whole, consumed = Counter(held.whole), {name: dict(of) for name, of in held.consumed.items()}
    counters, used = dict(pools.counters), {device for device in pools.devices if held.is_used(device)}
    for _, one, device, _ in given:
        amounts = takes(one, device)
        if amounts is None or any(not one.tolerates(taint) for taint in device.taints):
            return False
        if device.multiple:
            of = consumed.setdefault(device.id, {})
            for name, amount in amounts.items():
                of[name] = of.get(name, 0) + amount
            if whole[device.id] or any(of[name] > device.capacity[name].value for name in of):
                return False
        else:
            whole[device.id] += 1
        used.add(device.id)
    if any(count > 1 for device, count in whole.items()):
        return False
    for name in used:
        for counter, amount in pools.devices[name].consumes.items():
            counters[counter] -= amount
    if any(amount < 0 for amount in counters.values()):
        return False
    for claim in claims:
        for said in claim.shared:
            values = [
                one.device.attributes.get(said.attribute)
                for one in given
                if one.claim == claim.claim
                and (not said.requests or one.alternative.name.split("/")[0] in said.requests)
            ]
            if None in values or len(set(values)) != (min(1, len(values)) if said.alike else len(values)):
                return False
    return all(sum(one.claim == claim.claim for one in given) <= 32 for claim in claims)


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_it_finds_devices_exactly_where_there_are_some(first: int) -> None:
    found = Counter[bool]()
    for seed in range(first, first + 100):
        random = Random(seed)
        pools, selectors = pools_of(random_world(random), Kinds()), Selectors()
        assert not pools.problems
        held, claims = HeldDevices(), list[Wanted]()
        for i in range(random.randrange(4)):  # what others have by now
            other = wanted(random_claim(random, f"o{i}"), CLASSES)
            got = DeviceSearch(pools, held, selectors).allocate([other], NODE)
            if isinstance(got, list):
                assert is_possible(pools, held, got, [other])
                take(held, got)
        claims = [wanted(random_claim(random, f"c{i}"), CLASSES) for i in range(random.choice([1, 1, 2]))]
        answer = DeviceSearch(pools, held, selectors).allocate(claims, NODE)
        there_is = any(is_possible(pools, held, way, claims) for way in ways(pools, claims, selectors))
        assert isinstance(answer, list) == there_is, (seed, answer)
        if isinstance(answer, list):
            assert is_possible(pools, held, answer, claims), seed
        else:
            assert answer
        found[there_is] += 1
    assert min(found.values()) > 10  # the worlds are neither too rich nor too poor


def take(held: HeldDevices, given: list[Given]) -> None:
    for one in given:
        if one.consumed is None:
            held.whole[one.device.id] += 1
            continue
        held.parts[one.device.id] += 1
        of = held.consumed.setdefault(one.device.id, {})
        for name, amount in one.consumed.items():
            of[name] = of.get(name, Fraction(0)) + amount


def alike(count: int, **keys: Any) -> list[dict[str, Any]]:
    return [{"name": f"d{i:03}", "attributes": {"colour": {"string": "red"}}, **keys} for i in range(count)]


def exactly(device_class: str = "any", name: str = "r0", **keys: Any) -> dict[str, Any]:
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": 1, **keys}}


def test_the_smallest_place_is_taken_and_what_few_want_first() -> None:
    rooms = [
        {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": {"value": size}}}
        for name, size in (("big", "100"), ("small", "40"), ("tiny", "10"))
    ]
    pools = pools_of(slices_of({"devices": rooms}), Kinds())
    got = DeviceSearch(pools, HeldDevices(), Selectors()).allocate(
        [wanted(claim_of("c", exactly(capacity={"requests": {"memory": "30"}})), CLASSES)], NODE
    )
    assert [one.device.id.device for one in got] == ["small"]  # type: ignore[union-attr]
    pools = pools_of(slices_of({"devices": alike(3)}), Kinds())
    wanted_by = {
        DeviceId(DRIVER, "p0", "d000"): 2,
        DeviceId(DRIVER, "p0", "d001"): 2,
        DeviceId(DRIVER, "p0", "d002"): 1,
    }
    search = DeviceSearch(pools, HeldDevices(), Selectors(), wanted_by=wanted_by)
    got = search.allocate([wanted(claim_of("c", exactly()), CLASSES)], NODE)
    assert [one.device.id.device for one in got] == ["d002"]  # type: ignore[union-attr]


def test_many_devices_that_are_alike_cost_no_more_than_few() -> None:
    switches = [
        {"name": f"d{i:03}", "attributes": {"switch": {"string": f"s{i % 64}"}, "speed": {"int": i}}}
        for i in range(512)
    ]
    pools, selectors = pools_of(slices_of({"devices": switches}), Kinds()), Selectors()
    on_one = claim_of("c", exactly(count=8), constraints=[{"matchAttribute": f"{DRIVER}/switch"}])
    search = DeviceSearch(pools, HeldDevices(), selectors)
    assert isinstance(search.allocate([wanted(on_one, CLASSES)], NODE), list)
    never = claim_of("c", exactly(count=9), constraints=[{"matchAttribute": f"{DRIVER}/switch"}])
    assert isinstance(search.allocate([wanted(never, CLASSES)], NODE), str)


def test_a_search_that_takes_too_long_says_so() -> None:
    parts = [
        {
            "name": f"d{i:03}", "attributes": {"n": {"int": i}},
            "consumesCounters": [{"counterSet": "s", "counters": {"slots": {"value": str(97 + 2 * i)}}}],
        }
        for i in range(40)
    ]  # fmt: skip
    counters = [{"name": "s", "counters": {"slots": {"value": "1000"}}}]
    worlds = slices_of(
        {"pool": "p", "count": 2, "devices": parts}, {"pool": "p", "count": 2, "sharedCounters": counters}
    )
    search = DeviceSearch(pools_of(worlds, Kinds()), HeldDevices(), Selectors(), most_steps=2000)
    answer = search.allocate([wanted(claim_of("c", exactly(count=12)), CLASSES)], NODE)
    assert answer == "no answer after 2000 steps"
    assert search.steps == 2001


def test_refusals_are_in_numbers() -> None:
    pools = pools_of(slices_of({"devices": alike(3)}), Kinds())
    held = HeldDevices(whole=Counter({DeviceId(DRIVER, "p0", "d000"): 1}))
    answer = DeviceSearch(pools, held, Selectors()).allocate(
        [wanted(claim_of("c", exactly("red", count=3)), CLASSES)], NODE
    )
    assert answer == "3 devices of class red for r0, of 3 that match 2 free"


def test_only_whole_pools_of_the_newest_generation_count() -> None:
    old, new = {"pool": "p", "generation": 1, "devices": alike(4)}, {"pool": "p", "generation": 2, "count": 2}
    pools = pools_of(slices_of(old, {**new, "devices": alike(1)}), Kinds())
    assert not pools.devices
    assert pools.problems == {(DRIVER, "p"): f"1 of 2 slices of pool p of {DRIVER} are there"}
    other = [{**one, "name": f"e{i}"} for i, one in enumerate(alike(2))]
    pools = pools_of(slices_of(old, {**new, "devices": alike(1)}, {**new, "devices": other}), Kinds())
    assert sorted(one.device for one in pools.devices) == ["d000", "e0", "e1"]
    everything = claim_of("c", exactly(allocationMode="All"))
    twice = pools_of(slices_of({**new, "devices": alike(1)}), Kinds())
    with pytest.raises(WantedError, match="asks for all devices, and 1 of 2 slices"):
        DeviceSearch(twice, HeldDevices(), Selectors()).allocate([wanted(everything, CLASSES)], NODE)


def test_devices_that_are_attached_at_once_go_before_those_that_wait() -> None:
    def slices(pool: str) -> dict[str, Any]:
        on = {"attributes": {"switch": {"string": f"switch of {pool}"}}}
        return {"pool": pool, "devices": alike(2, **on, bindingConditions=["Attached"])}

    store = Store()
    plain = {"pool": "q", "devices": alike(1)}  # without attaching: no switch keeps it
    store.take([(None, one) for one in slices_of(slices("p"), slices("r"), plain)])
    store.at_once = 1
    got = list[str]()
    for uid in "abcde":
        claim = claim_of(uid, exactly())
        store.take([(None, claim)])
        given = store.search().allocate([wanted(claim, CLASSES)], NODE)
        assert isinstance(given, list)
        store.write(given)
        got.append(given[0].device.id.pool)
        if uid == "c":
            store.write_not("b")  # its device is free again, and its switch idle
    assert got == ["q", "p", "r", "p", "p"]
    # what is told counts as what is written, until it is told as attached
    result = {"request": "r0", "driver": DRIVER, "pool": "p", "device": "d000", "bindingConditions": ["Attached"]}
    told = {**{key: result[key] for key in ("driver", "pool", "device")}, "conditions": []}
    for conditions, pool in ([], "r"), ([{"type": "Attached", "status": "True"}], "p"):
        other = Store()
        other.take([(None, one) for one in slices_of(slices("p"), slices("r"))])
        other.at_once = 1
        status = {"allocation": {"devices": {"results": [result]}}, "devices": [{**told, "conditions": conditions}]}
        claim = msgspec.convert({"metadata": {"name": "c", "uid": "c"}, "status": status}, Claim)
        other.take([(None, claim)])
        given = other.search().allocate([wanted(claim_of("d", exactly()), CLASSES)], NODE)
        assert isinstance(given, list)
        assert given[0].device.id.pool == pool


def rule(name: str, effect: str = "NoSchedule", **selector: str) -> TaintRule:
    taint = {"key": "broken", "value": name, "effect": effect}
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}, TaintRule
    )


@pytest.mark.parametrize(
    ("rules", "tainted"),
    [
        ([], ""),
        ([rule("a", driver=DRIVER)], "p/d000 p/d001 q/d000 q/d001"),
        ([rule("a")], "p/d000 p/d001 q/d000 q/d001"),  # a selector that selects by nothing
        ([rule("a", pool="q")], "q/d000 q/d001"),
        ([rule("a", "NoExecute", device="d001")], "p/d001 q/d001"),
        ([rule("a", driver=DRIVER, pool="p", device="d000"), rule("b", pool="none")], "p/d000"),
        ([rule("a", driver="other"), rule("b", "None", pool="p"), rule("c", "Later")], ""),
        ([msgspec.convert({"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}, TaintRule)], ""),  # for none
    ],
)
def test_rules_taint_devices_as_slices_do(rules: list[TaintRule], tainted: str) -> None:
    store = Store()
    slices = slices_of({"pool": "p", "devices": alike(2)}, {"pool": "q", "devices": alike(2)})
    store.take([(None, one) for one in (*slices, *rules)])
    found = {f"{one.id.pool}/{one.id.device}" for one in store.pools.devices.values() if one.taints}
    assert found == set(tainted.split())
    free = 4 - len(found)
    for tolerations, most in ([], free), ([{"key": "broken", "operator": "Exists"}], 4):
        for count in range(1, 5):
            claim = wanted(claim_of("c", exactly(count=count, tolerations=tolerations)), CLASSES)
            assert isinstance(store.search().allocate([claim], NODE), list) == (count <= most)
    offer = store.offer
    store.take([(one, None) for one in rules])
    assert not any(one.taints for one in store.pools.devices.values())
    assert (store.offer != offer) == bool(rules)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (exactly(adminAccess=True), "access as an administrator"),
        (exactly("none"), "there is no device class none"),
        (exactly(derivedAttributes=[{"name": "a", "expression": "1"}]), "derives attributes"),
        (exactly(capacity={"requests": {"memory": "much"}}), "not a quantity"),
        (exactly(count=33), "33 devices, of 32 at most"),
        (exactly(selectors=[{"js": "x"}]), "a selector that is not in CEL"),
        ({"name": "r0"}, "nothing that is understood"),
    ],
)
def test_what_is_not_given_is_refused(request_: dict[str, Any], says: str) -> None:
    with pytest.raises(WantedError, match=says):
        wanted(claim_of("c", request_), CLASSES)


def test_claims_apart_do_not_share_constraints() -> None:
    sorts = [{"name": f"d{i}", "attributes": {"switch": {"string": s}}} for i, s in enumerate("xy")]
    pools = pools_of(slices_of({"devices": sorts}), Kinds())
    one = claim_of("c", exactly(), constraints=[{"matchAttribute": f"{DRIVER}/switch"}])
    claims = [wanted(one, CLASSES), replace(wanted(one, CLASSES), claim="d")]
    assert isinstance(DeviceSearch(pools, HeldDevices(), Selectors()).allocate(claims, NODE), list)


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_counters_never_keep_back_what_fits(first: int) -> None:
    """What is given in turn, as long as anything fits, is never more than the counters of the plan have."""
    told = 0
    for seed in range(first, first + 100):
        random, store = Random(seed), Store()
        store.take([(None, one) for one in random_world(random)] + [(None, one) for one in CLASSES.values()])
        names = {name: Node(Metadata(name=name)) for name in ("n1", "n2")}
        counters = Counters(store, names)
        room = Counter[tuple[str, str]]()
        for table in counters.tables():
            for name in expand(table["nodes"][0]) if "nodes" in table else ["n1"]:
                room[table["name"], name if "nodes" in table else ""] += table["amount"]
        for i in range(8):
            claim, node = random_claim(random, f"c{i}"), random.choice(["n1", "n2"])
            asked = wanted(claim, CLASSES)
            got = store.search().allocate([asked], names[node])
            if isinstance(got, str):
                continue
            assert not counters.not_met([asked], [node])
            for name, amount in counters.asked([asked]).items():
                where = (name, node) if (name, node) in room else (name, "")
                room[where] -= amount
                told += amount > 0
                assert room[where] >= 0, (seed, i, where)
            held = counters.held([GivenDevice(one.device.id, one.consumed) for one in got])
            assert all(amount <= held.get(name, 0) for name, amount in counters.asked([asked]).items())
            store.write(got)
    assert told > 50
