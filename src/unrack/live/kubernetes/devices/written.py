"""What is written in a claim that is given devices, and what these say of themselves then."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import msgspec

from unrack.live.kubernetes.client.objects import Node
from unrack.live.kubernetes.devices.allocator import Given
from unrack.live.kubernetes.devices.objects import Claim, DeviceClass, said_of
from unrack.live.kubernetes.devices.wanted import configuration


class GivingError(Exception):
    """A pod cannot have its devices now: why."""


class LackError(GivingError):
    """Of the devices that it asks for too few are free now."""


class Lack(str):
    """Why pods do not start, which may be another matter as soon as devices come free."""

    __slots__ = ()


def allocation_of(
    claim: Claim, node: Node, given: Sequence[Given], classes: Mapping[str, DeviceClass]
) -> dict[str, Any]:
    """The allocation of a claim that is given devices, for a pod on a node."""
    results = []
    for place, (_, alternative, device, consumed) in enumerate(given):
        driver, pool, name = device.id
        result: dict[str, Any] = {"request": alternative.name, "driver": driver, "pool": pool, "device": name}
        if alternative.tolerations:
            result["tolerations"] = msgspec.to_builtins(alternative.tolerations)
        if device.conditions:
            result |= {"bindingConditions": device.conditions, "bindingFailureConditions": device.failures}
        if consumed is not None:
            result["shareID"] = str(
                uuid.uuid5(uuid.UUID(claim.metadata.uid), f"{place} {claim.metadata.resource_version}")
            )
            result["consumedCapacity"] = {key: _text(amount) for key, amount in consumed.items()}
        results.append(result)
    chosen = list(dict.fromkeys(one.alternative for one in given))
    found: dict[str, Any] = {"devices": {"results": results, "config": configuration(claim, chosen, classes)}}
    found["allocationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if (selector := _nodes_of(node, given)) is not None:
        found["nodeSelector"] = selector
    return found


def is_ready(claim: Claim) -> bool:
    """Whether all devices of a claim are ready; a GivingError if one says that it will not be."""
    of = claim.status.allocation
    if of is None:
        return False
    ready = True
    for one in of.devices.results:
        if not one.binding_conditions:
            continue
        said = said_of(claim.status.devices, one)
        if failed := sorted(said.intersection(one.binding_failure_conditions)):
            raise GivingError(f"{one.device} of pool {one.pool} says {', '.join(failed)}")
        ready &= said.issuperset(one.binding_conditions)
    return ready


def _nodes_of(node: Node, given: Sequence[Given]) -> dict[str, Any] | None:
    """From which nodes all devices can be used; ``None``: from all."""
    term: dict[str, list[Any]] = {}
    for one in given:
        name, selector, _ = one.device.reach
        if name or one.device.binds:
            said = {"key": "metadata.name", "operator": "In", "values": [node.metadata.name]}
            return {"nodeSelectorTerms": [{"matchFields": [said]}]}
        for part in (selector or {}).get("nodeSelectorTerms", [{}])[:1]:
            for key in ("matchExpressions", "matchFields"):
                of = term.setdefault(key, [])
                of += [said for said in part.get(key) or () if said not in of]
    term = {key: of for key, of in term.items() if of}
    return {"nodeSelectorTerms": [term]} if term else None


def _text(amount: Fraction) -> str:
    """An amount as Kubernetes writes it."""
    return str(amount.numerator) if amount.denominator == 1 else f"{-(-amount * 1000 // 1)}m"
