"""Devices that the allocator finds, or not, where kube-scheduler does, for the same claims, slices and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from dra_bed import API, CLAIMS, DRIVER, add_claim, add_claiming, add_class, add_rule, audit, clear
from k8s_bed import KubernetesBed
from test_allocator import random_claim, random_world, take

from unrack.live.kubernetes.client.objects import Node
from unrack.live.kubernetes.devices.allocator import DeviceSearch, HeldDevices
from unrack.live.kubernetes.devices.objects import Claim, DeviceClass, Slice, TaintRule
from unrack.live.kubernetes.devices.pools import Kinds, pools_of
from unrack.live.kubernetes.devices.selectors import Selectors
from unrack.live.kubernetes.devices.store import parts_of
from unrack.live.kubernetes.devices.wanted import WantedError, wanted

WORLDS = 12
CLASSES = {"any": f'device.driver == "{DRIVER}"', "red": f'device.attributes["{DRIVER}"].colour == "red"',
           "fast": f'device.attributes["{DRIVER}"].speed >= 2'}  # fmt: skip


def test_what_fits_fits_there_too(new_kubernetes: Callable[..., KubernetesBed]) -> None:
    bed, found = new_kubernetes(scheduler=True), Counter[bool]()
    for seed in range(WORLDS):
        random = Random(seed)
        clear(bed)
        bed.add_nodes(["n1", "n2"], {"cpu": "8", "memory": "8Gi"})
        ruling = Random(seed + 1000)
        for i in range(ruling.randrange(3)):
            add_rule(bed, f"r{i}", **random_rule(ruling))
        for name, text in CLASSES.items():
            add_class(bed, name, text)
        for one in random_world(random):
            spec = msgspec.to_builtins(one.spec)
            if not spec.get("devices"):
                spec.pop("perDeviceNodeSelection", None)
                spec["allNodes"] = True
            else:
                spec.pop("allNodes", None)
            body = {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": one.metadata.name},
            }
            bed.admin.post(f"{API}/resourceslices", {**body, "spec": _valid(spec)})
        for i in range(4):
            claim = random_claim(random, f"c{i}")
            spec = msgspec.to_builtins(claim.spec.devices)
            add_claim(bed, f"c{i}", *_requests(spec), constraints=spec.get("constraints", []))
            ours = _fits(bed, f"c{i}")
            add_claiming(bed, f"p{i}", claim=f"c{i}", schedulerName="default-scheduler")
            theirs = _scheduled(bed, f"p{i}")
            assert ours == theirs, (seed, i, spec)
            found[ours] += 1
            assert audit(bed) == []
    assert min(found.values()) >= 5


def random_rule(random: Random) -> dict[str, Any]:
    """A rule for a device, a few, or none: of another driver, or with an effect that keeps nothing off."""
    selector: dict[str, str] = random.choice([{"device": f"d{random.randrange(4)}"}, {"driver": "other"}, {}])
    taint = {"key": random.choice(["broken", "old"]), "effect": random.choice(["NoSchedule", "NoExecute", "None"])}
    return {"taint": taint, "pool": "p", **selector}


def _valid(spec: dict[str, Any]) -> dict[str, Any]:
    """Without what is only there where devices are not shared."""
    for device in spec.get("devices", ()):
        device.pop("allNodes", None) if device.get("nodeName") else None
        if not device.get("allowMultipleAllocations"):
            for capacity in device.get("capacity", {}).values():
                capacity.pop("requestPolicy", None)
        for capacity in device.get("capacity", {}).values():
            value = int(capacity["value"])
            policy = capacity.get("requestPolicy")
            if policy and "validRange" in policy:  # the last step has to be reached
                policy["validRange"]["max"] = str(max(1 + (min(5, value) - 1) // 2 * 2, 1))
    return spec


def _requests(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return spec["requests"]


def _fits(bed: KubernetesBed, name: str) -> bool:
    """Whether the allocator finds devices on a node, for all that the server says now."""
    slices = [msgspec.convert(one, Slice) for one in bed.admin.get(f"{API}/resourceslices")["items"]]
    rules = [msgspec.convert(one, TaintRule) for one in bed.admin.get(f"{API}/devicetaintrules")["items"]]
    listed = bed.admin.get(f"{API}/deviceclasses")["items"]
    classes = {one["metadata"]["name"]: msgspec.convert(one, DeviceClass) for one in listed}
    held = HeldDevices()
    for one in bed.admin.get(CLAIMS)["items"]:
        for device, consumed in parts_of(msgspec.convert(one, Claim).status.allocation):
            _hold(held, device, consumed)
    claim = msgspec.convert(bed.admin.get(f"{CLAIMS}/{name}"), Claim)
    search = DeviceSearch(pools_of(slices, Kinds(), rules), held, Selectors())
    nodes = [msgspec.convert(one, Node) for one in bed.admin.get("/api/v1/nodes")["items"]]
    try:
        return any(isinstance(search.allocate([wanted(claim, classes)], node), list) for node in nodes)
    except WantedError:
        return False


def _hold(held: HeldDevices, device: Any, consumed: Any) -> None:
    class One:
        pass

    one: Any = One()
    one.device, one.consumed = One(), consumed
    one.device.id = device
    take(held, [one])


def _scheduled(bed: KubernetesBed, name: str) -> bool:
    """Whether kube-scheduler has bound a pod, once it has decided."""
    said: list[bool] = []

    def decided() -> bool:
        pod = bed.pod(name)
        assert pod is not None
        conditions = {one["type"]: one for one in pod["status"].get("conditions", ())}
        said[:] = [bool(pod["spec"].get("nodeName"))]
        return said[0] or conditions.get("PodScheduled", {}).get("status") == "False"

    bed.wait_until(decided, 20, f"{name} is decided")
    return said[0]
