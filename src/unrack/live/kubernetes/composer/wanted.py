"""What a claim wants of the fabric: one operation for each device of ours that it was given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from unrack.errors import InputError
from unrack.kubernetes_text import quantity
from unrack.live.fabric.contract import Attachment
from unrack.live.fabric.names import checked
from unrack.live.kubernetes.composer.catalogue import ATTACHED, FAILED, Catalogue
from unrack.live.kubernetes.devices.objects import AllocatedDevice, Allocation, Claim

LOST = "AttachmentLost"
"""The reason of a device that was there and is not any more."""


class Sight(StrEnum):
    """What a claim says of one of its devices."""

    NEW = "new"
    ATTACHED = "attached"
    LOST = "lost"
    FAILED = "failed"


class AttachProblem(NamedTuple):
    """Why a device cannot be attached: one word, and in words."""

    reason: str
    message: str


class WantedDevice(NamedTuple):
    """A device that a claim was given.

    ``attachment`` is what the fabric is asked for; ``None``: that cannot be, and ``problem`` says why.
    """

    operation: str
    claim: tuple[str, str]  # namespace and name
    result: AllocatedDevice
    rank: tuple[str, str, str]  # of two that want the same device, the least goes first
    sight: Sight
    switch: str = ""
    attachment: Attachment | None = None
    problem: AttachProblem | None = None


def owner_of(cluster_uid: str, driver: str) -> str:
    """How the operations of a driver of a Kubernetes begin; those of others in the same fabric begin otherwise."""
    return f"k8s.{_digest(cluster_uid, driver)}."


def wanted_by(claim: Claim, catalogue: Catalogue, driver: str, owner: str) -> Iterator[WantedDevice]:
    """What a claim wants of a driver.

    The name of an operation says which claim, device, node and allocation it is for: a claim that is allocated once
    more, be it the same device of the same node, is another operation.
    """
    allocation, at = claim.status.allocation, claim.metadata
    if allocation is None:
        return
    node, since = _node_of(allocation), allocation.allocation_timestamp or ""
    for result in allocation.devices.results:
        if result.driver != driver:
            continue
        consumed = "\n".join(f"{name} {amount}" for name, amount in sorted(result.consumed_capacity.items()))
        own = _digest(result.pool, result.device, result.share_id, node, since, consumed)
        found = WantedDevice(
            f"{owner}{at.uid}.{own}", (at.namespace, at.name), result, (since, at.namespace, at.name),
            _sight(claim, result), (device.switch if (device := catalogue.devices.get(_key(result))) else result.pool),
        )  # fmt: skip
        asked = _attachment(found.operation, at.uid, node, result, catalogue)
        yield found._replace(problem=asked) if isinstance(asked, AttachProblem) else found._replace(attachment=asked)


def _attachment(
    operation: str, uid: str, node: str, result: AllocatedDevice, catalogue: Catalogue
) -> Attachment | AttachProblem:
    device = catalogue.devices.get(_key(result))
    if result.admin_access:
        return AttachProblem("AdminAccess", "devices behind a fabric are attached for claims, not for administrators")
    if not node:
        return AttachProblem("NoNode", "the allocation is not for exactly one node, by metadata.name")
    if device is None:
        return AttachProblem("NoDevice", f"there is no device {result.device} in the pool {result.pool} any more")
    if bool(device.amounts) != bool(result.share_id):
        return AttachProblem("NotShared", "the device was given away as shared when it was not, or the other way round")
    amounts = dict[str, int]()
    try:
        for name, (quantity_name, unit) in device.amounts.items():
            amounts[quantity_name] = ceil(quantity(result.consumed_capacity.get(name, "0")) / unit)
        return checked(Attachment(operation, uid, node, (device.name,), amounts))
    except (InputError, ValueError) as error:
        return AttachProblem("NotAttachable", str(error))


def _node_of(allocation: Allocation) -> str:
    """The only node that an allocation is for; ``""``: it is for others, too."""
    terms = (allocation.node_selector or {}).get("nodeSelectorTerms") or []
    named = {
        values[0]
        for term in terms
        for field in term.get("matchFields") or ()
        if field.get("key") == "metadata.name" and field.get("operator") == "In" and len(values := field["values"]) == 1
    }
    is_named = all(any(one.get("key") == "metadata.name" for one in term.get("matchFields") or ()) for term in terms)
    return str(named.pop()) if len(named) == 1 and is_named else ""


def _sight(claim: Claim, result: AllocatedDevice) -> Sight:
    its = result.driver, result.pool, result.device, result.share_id
    for one in claim.status.devices:
        if (one.driver, one.pool, one.device, one.share_id) == its:
            said = {condition.type: condition for condition in one.conditions}
            if FAILED in said and said[FAILED].status == "True":
                return Sight.FAILED
            if ATTACHED in said and said[ATTACHED].status == "True":
                return Sight.ATTACHED
            if ATTACHED in said and said[ATTACHED].reason == LOST:
                return Sight.LOST
    return Sight.NEW


def _key(result: AllocatedDevice) -> tuple[str, str]:
    return result.pool, result.device


def _digest(*words: str) -> str:
    return hashlib.blake2b("\0".join(words).encode(), digest_size=6).hexdigest()
