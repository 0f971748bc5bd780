"""Extended resources that device classes stand for: the claim that a scheduler makes for a pod that asks for some.

A container asks for ``example.com/gpu: 2`` as it would of a node. Where the node has none of it and a device class is
called so (``extendedResourceName``), or by its own name (``deviceclass.resource.kubernetes.io/NAME``), the pod gets
devices of the class: by one claim for all of that, which is the pod's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from unrack.kubernetes_text import quantity
from unrack.live.kubernetes.client.objects import Container, Metadata, Node, Pod
from unrack.live.kubernetes.devices.objects import Claim, ClaimDevices, ClaimSpec, DeviceClass, DeviceRequest, Request

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IMPLICIT = "deviceclass.resource.kubernetes.io/"
_MOST_NAME = 200


class Special(NamedTuple):
    """What a claim for extended resources asks for, and which container uses which of its requests."""

    requests: tuple[Request, ...]
    mappings: tuple[Mapping[str, str], ...]  # as the pod's status has it


def classes_of(classes: Mapping[str, DeviceClass]) -> dict[str, str]:
    """Extended resource → its class: of several the newest, and of those the one with the first name."""
    found = {f"{IMPLICIT}{name}": name for name in classes}
    names = sorted(classes, reverse=True)
    for name in sorted(names, key=lambda name: classes[name].metadata.creation_timestamp or ""):
        if resource := classes[name].spec.extended_resource_name:
            found[resource] = name
    return found


def owner_of(claim: Claim) -> str:
    """The uid of the pod for which a claim for extended resources was made; ``""``: it is another claim."""
    if claim.metadata.annotations.get(ANNOTATION) != "true":
        return ""
    return next((one.uid for one in claim.metadata.owner_references if one.controller and one.kind == "Pod"), "")


def extended_of(pod: Pod, classes: Mapping[str, str]) -> list[str]:
    """Of what a pod asks that for which a class stands."""
    if not classes:
        return []
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return sorted({key for one in containers for key in one.resources.requests if key in classes and _amount(one, key)})


def extended_on(pod: Pod, node: Node, classes: Mapping[str, str]) -> list[str]:
    """Of what a pod asks that for which a class stands on a node, which has none of it itself."""
    there = node.status.allocatable or node.status.capacity
    return [key for key in extended_of(pod, classes) if not _number(there.get(key, "0"))]


def fixed_in(pod: Pod) -> frozenset[str]:
    """What a pod's status says to be devices of a claim, since a start that failed: its kubelet looks for that claim.

    The API server keeps that for good, so the pod can run only where the same is devices.
    """
    said = (pod.status.extended_resource_claim_status or {}).get("requestMappings") or ()
    return frozenset(str(one.get("resourceName")) for one in said)


def special(pod: Pod, resources: Collection[str], classes: Mapping[str, str]) -> Special:
    """What the claim of a pod asks for, with the names that kube-scheduler gives.

    Containers that go on, and sidecars, have devices each. One that begins first and ends takes those of containers
    after it, and more only if these are too few; of these additions the largest serves all.

    Parameters
    ----------
    pod
        The pod.
    resources
        Of what it asks that which devices stand for.
    classes
        Extended resource → its class.
    """
    requests, mappings, first = list[Request](), list[Mapping[str, str]](), len(pod.spec.init_containers)
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    ends = [place < first and one.restart_policy != "Always" for place, one in enumerate(containers)]
    for resource in sorted(resources):
        own, later = dict[int, Request](), list[tuple[Container, list[str], Request | None]]()
        for place, one in enumerate(containers):
            if not ends[place] and (amount := _amount(one, resource)):
                own[place] = _request(place, one, resource, classes[resource], amount)
                mappings.append(_mapping(one, resource, own[place].name))
        for place, one in enumerate(containers):
            amount, used = _amount(one, resource) if ends[place] else 0, list[str]()
            for other in own:
                if amount > 0 and other > place:
                    used.append(own[other].name)
                    amount -= _count(own[other])
            more = _request(place, one, resource, classes[resource], amount) if amount > 0 else None
            later.append((one, used, more))
        most = max((more for *_, more in later if more is not None), key=_count, default=None)
        for one, used, more in later:
            used += [most.name] if more is not None and most is not None else []
            mappings += [_mapping(one, resource, name) for name in used]
        requests += [*own.values(), *([most] if most is not None else [])]
    return Special(tuple(sorted(requests, key=lambda one: one.name)), tuple(mappings))


def imagined(pod: Pod, of: Special) -> Claim:
    """The claim of a pod before it has been made."""
    at = Metadata(name="<extended-resources>", namespace=pod.metadata.namespace, uid=f"extended {pod.metadata.uid}")
    return Claim(at, ClaimSpec(ClaimDevices(list(of.requests))))


def content_of(pod: Pod, of: Special) -> dict[str, Any]:
    """The claim of a pod as it is made; it has one name, so that it is made once."""
    at = pod.metadata
    owner = {"apiVersion": "v1", "kind": "Pod", "name": at.name, "uid": at.uid, "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {
            "name": f"{at.name[:_MOST_NAME].rstrip('.-')}-extended-resources-{at.uid[:8].rstrip('-')}",
            "annotations": {ANNOTATION: "true"}, "ownerReferences": [owner],
        },
        "spec": {"devices": {"requests": msgspec.to_builtins(of.requests)}},
    }  # fmt: skip


def asks_alike(claim: Claim, of: Special) -> bool:
    """Whether a claim that is there asks for that."""
    there = claim.spec.devices.requests
    return [_asked(one) for one in there] == [_asked(one) for one in of.requests]


def _asked(one: Request) -> tuple[str, str, int]:
    return one.name, one.exactly.device_class_name if one.exactly is not None else "", _count(one)


def _count(one: Request) -> int:
    return one.exactly.count if one.exactly is not None else 0


def _amount(one: Container, resource: str) -> int:
    return _number(one.resources.requests.get(resource, "0"))


def _number(text: str) -> int:
    """A whole number of devices; 0 if it is none."""
    try:
        amount = quantity(text)
    except ValueError:
        return 0
    return int(amount) if amount.denominator == 1 else 0


def _request(place: int, one: Container, resource: str, device_class: str, count: int) -> Request:
    name = f"container-{place}-request-{sorted(one.resources.requests).index(resource)}"
    exactly = DeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=count)
    return Request(name, exactly)


def _mapping(one: Container, resource: str, request: str) -> dict[str, str]:
    return {"containerName": one.name, "resourceName": resource, "requestName": request}
