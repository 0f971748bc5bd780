"""What the API server is told by a composer: conditions of the devices of claims, and slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from unrack.errors import InputError
from unrack.live.kubernetes.client.answers import AbsentError, ConflictError
from unrack.live.kubernetes.client.connection import Connection, decoded
from unrack.live.kubernetes.client.orders import create, delete, replace
from unrack.live.kubernetes.client.others import RESOURCE, SLICES, Other
from unrack.live.kubernetes.composer.catalogue import ATTACHED, FAILED, Catalogue
from unrack.live.kubernetes.composer.slices import Changes, Publisher
from unrack.live.kubernetes.composer.wanted import LOST, AttachProblem, Sight, WantedDevice, wanted_by
from unrack.live.kubernetes.devices.objects import CLAIMS, Claim
from unrack.live.printable import printable

Told = Sequence[tuple[WantedDevice, AttachProblem | None]]
_MOST_MESSAGE = 1000
API = RESOURCE.removeprefix("/apis/")
_NEEDED = {"bindsToNode", "bindingConditions", "bindingFailureConditions", "allowMultipleAllocations"}
"""Without these a pod would be bound before its devices are there, or nothing be shared."""


async def tell_claim(connection: Connection, told: Told, catalogue: Catalogue, driver: str, owner: str) -> bool:
    """Write the conditions of some devices of one claim; False: they are its devices no more, and nothing is written.

    The claim is read anew, so that what is written is about its allocation of now, and the entries of other drivers
    stay as they are; if it changes before it is written, that is refused.

    Raises
    ------
    ConflictError
        It was changed meanwhile.
    """
    namespace, name = told[0][0].claim
    path = CLAIMS.path(namespace, name)
    try:
        content = await connection.ask("GET", path)
    except AbsentError:
        return False
    claim: Claim = decoded(msgspec.json.Decoder(Claim), content, path)
    current = {one.operation: one for one in wanted_by(claim, catalogue, driver, owner)}
    whole = msgspec.json.decode(content)
    entries: list[dict[str, Any]] = whole["status"].get("devices") or []
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    is_changed = False
    for one, problem in told:
        fresh = current.get(one.operation)
        if fresh is None or fresh.sight == Sight.FAILED or (fresh.sight == Sight.ATTACHED and problem is None):
            continue
        is_lost = fresh.sight in (Sight.ATTACHED, Sight.LOST)  # pods may use it: never told as failed
        _enter(entries, one, _conditions(problem, is_lost, now))
        is_changed = True
    if is_changed:
        whole["status"]["devices"] = entries
        await replace(connection, CLAIMS, whole, name, namespace, "status")
    return is_changed


def _conditions(problem: AttachProblem | None, is_lost: bool, now: str) -> dict[str, dict[str, str]]:
    def condition(kind: str, status: bool, reason: str, message: str) -> dict[str, str]:
        return {
            "type": kind, "status": str(status), "reason": reason, "lastTransitionTime": now,
            "message": printable(message, _MOST_MESSAGE),
        }  # fmt: skip

    if problem is None:
        return {ATTACHED: condition(ATTACHED, True, "Attached", "the device is attached to the node")}
    if is_lost:
        return {ATTACHED: condition(ATTACHED, False, LOST, problem.message)}
    return {
        ATTACHED: condition(ATTACHED, False, problem.reason, problem.message),
        FAILED: condition(FAILED, True, problem.reason, problem.message),
    }


def _enter(entries: list[dict[str, Any]], one: WantedDevice, conditions: Mapping[str, dict[str, str]]) -> None:
    """Put the conditions into the entry of a device, which is made if there is none; others of its conditions stay."""
    result = one.result
    key = {"driver": result.driver, "pool": result.pool, "device": result.device}
    key |= {"shareID": result.share_id} if result.share_id else {}
    entry = next(
        (entry for entry in entries if all(entry.get(name) == key.get(name) for name in (*key, "shareID"))), None
    )
    if entry is None:
        entry = dict(key)
        entries.append(entry)
    others = [condition for condition in entry.get("conditions") or () if condition["type"] not in (ATTACHED, FAILED)]
    entry["conditions"] = [*others, *conditions.values()]
    if one.attachment is not None:  # for what prepares the device on the node
        node, devices = one.attachment.node, list(one.attachment.devices)
        entry["data"] = {"operation": one.operation, "node": node, "devices": devices}


def _keys(spec: Mapping[str, Any]) -> set[str]:
    return {key for device in spec.get("devices") or () for key in device}


async def publish(
    connection: Connection, changes: Changes, publisher: Publisher, there: dict[tuple[str, str], Other]
) -> None:
    """Write slices, and keep what is there up to date. If it is cut off, it is begun again from what is there.

    Raises
    ------
    InputError
        The API server does not keep what makes pods wait for their devices; then none are published.
    ConflictError
        One was changed, made or ended by another meanwhile.
    """
    for name, spec in changes.write:
        known = there.get(("", name))
        metadata = {"name": name} | ({} if known is None else {"resourceVersion": known.metadata.resource_version})
        content = {"apiVersion": API, "kind": "ResourceSlice", "metadata": metadata, "spec": spec}
        try:
            made = await (
                create(connection, SLICES, content) if known is None else replace(connection, SLICES, content, name)
            )
        except AbsentError as error:
            raise ConflictError(error.what, error.code, error.reason, error.message) from None
        publisher.took(name, spec, made)
        there["", name] = made
        if missing := sorted(_NEEDED & _keys(spec) - _keys(made.spec)):
            await delete(connection, SLICES, made)
            want = "Kubernetes 1.36 or newer, or the gates DRADeviceBindingConditions and DRAConsumableCapacity"
            raise InputError("the API server", f"devices without {', '.join(missing)}", want)
    for one in changes.end:
        with suppress(AbsentError):
            await delete(connection, SLICES, one)
        there.pop(("", one.metadata.name), None)
