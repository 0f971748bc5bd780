"""Devices given to the claims of a pod, step by step, as the server must be told; and taken back.

What is given is written in the claim itself, so a driver that goes on after a fault finds it there: a pod that starts
goes on with what its claims have, and one that waits gives it back. Nothing is kept elsewhere.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from threading import RLock
from typing import Any

import msgspec

from unrack.kubernetes_text.objects import moment_s
from unrack.live.kubernetes.client.answers import AbsentError, ConflictError
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import PODS, Node, Pod
from unrack.live.kubernetes.client.orders import create, delete, patch
from unrack.live.kubernetes.devices.allocator import Given
from unrack.live.kubernetes.devices.extended import Special, asks_alike, content_of, extended_on, special
from unrack.live.kubernetes.devices.objects import CLAIMS, Claim, DeviceClass
from unrack.live.kubernetes.devices.store import MOST_CONSUMERS, Store, is_for, is_reserved, said_of
from unrack.live.kubernetes.devices.wanted import WantedError, configuration

FINALIZER = "resource.kubernetes.io/delete-protection"
LONGEST_S = 600.0
"""How long devices may take until a pod that is given them can be bound; kube-scheduler waits as long."""
_LOOK_S = 5.0
"""After how long it is looked again though no claim has changed: whether the pod is there still, and for how long."""
_TRIES = 5
SEEN_S = 30.0  # how long a claim may take to be seen once it was made


class GivingError(Exception):
    """A pod cannot have its devices now: why."""


class _EndingError(Exception):
    """A pod can have its devices as soon as claims of pods that are over have been freed."""


class Giving:
    """Gives devices, and takes them back.

    Parameters
    ----------
    store, lock
        What there is, and what guards it.
    connection
        The server.
    live
        The uids of the pods that are not over.
    longest_s
        How long devices may take until they are ready, s.
    """

    def __init__(
        self, store: Store, lock: RLock, connection: Callable[[], Connection], live: Callable[[], set[str]],
        longest_s: float = LONGEST_S,
    ) -> None:  # fmt: skip
        self._store, self._lock, self._connection, self._live = store, lock, connection, live
        self._longest_s = longest_s
        self._news = asyncio.Event()
        self._decided: dict[str, tuple[str, list[Given]]] = {}  # uid of a pod → the node, and what it is being given
        self._failed: dict[tuple[str, str], int] = {}  # uid of a pod and a node → what was free when it did not fit

    def told(self) -> None:
        """Something of claims has changed."""
        self._news.set()
        self._news = asyncio.Event()

    def failed_on(self, pod: Pod) -> list[str]:
        """The nodes on which the devices that are free did not do for a pod, and nothing came free since."""
        uid = pod.metadata.uid
        return [node for (of, node), freed in self._failed.items() if of == uid and freed == self._store.freed]

    def has_any(self, pod: Pod) -> bool:
        """Whether a pod that waits has devices, or may have: they are to be given back."""
        if pod.metadata.uid in self._decided or self._store.special_of(pod) is not None:
            return True
        return any(is_reserved(one, pod) for one in self._of(pod))

    def _of(self, pod: Pod) -> list[Claim]:
        try:
            return self._store.of_pod(pod)
        except WantedError:
            return []

    # --- giving -----------------------------------------------------------------------------------------------------

    async def give(self, pod: Pod, node: Node, is_there: Callable[[], bool]) -> None:
        """Give a pod its devices on a node, and wait until it may be bound; it may be asked for again at any point.

        Raises
        ------
        GivingError
            It cannot have them: nothing is left with it.
        UnreachableError, DeniedError
            As far as is known it was not done, or not wholly.
        """
        try:
            own = await self._make(pod, node, is_there)
            if own is None and not pod.spec.resource_claims:
                return  # the node has of it what it asks for
            await self._give(pod, node, is_there)
            if own is not None:
                await self._say(pod, own)
            await self._ready(pod, is_there, own is not None)
        except GivingError:
            await self.take_back(pod)
            raise

    async def _make(self, pod: Pod, node: Node, is_there: Callable[[], bool]) -> Special | None:
        """See that a pod has the claim that it needs for extended resources on a node; ``None``: it needs none."""
        with self._lock:
            resources, there = extended_on(pod, node, self._store.mapped), self._store.special_of(pod)
            found = special(pod, resources, self._store.mapped) if resources else None
        if there is not None and (found is None or not asks_alike(there, found)):
            raise GivingError("its claim for extended resources is for other nodes")
        if found is None or there is not None:
            return found
        content = content_of(pod, found)
        name, until_s = content["metadata"]["name"], time.monotonic() + SEEN_S
        with suppress(ConflictError):  # made before, and no answer came; or it is another's
            await create(self._connection(), CLAIMS, content, pod.metadata.namespace)
        while self._store.special_of(pod) is None:
            if (pod.metadata.namespace, name) in self._store.claims:
                raise GivingError(f"a claim {name} is there that was not made for it")
            if not is_there() or time.monotonic() > until_s:
                raise GivingError(f"it is gone, or its claim {name} is not seen")
            await _heard(self._news, 1.0)
        return found

    async def _say(self, pod: Pod, special: Special) -> None:
        """Write in a pod which of its containers use which requests of its claim for extended resources."""
        claim, at = self._store.special_of(pod), pod.metadata
        if claim is None:
            raise GivingError("its claim for extended resources is gone")
        said = {"resourceClaimName": claim.metadata.name, "requestMappings": list(special.mappings)}
        changes = {"metadata": {"uid": at.uid}, "status": {"extendedResourceClaimStatus": said}}
        try:
            await patch(self._connection(), PODS, changes, at.name, at.namespace, part="status")
        except (AbsentError, ConflictError):
            raise GivingError("it is gone") from None

    async def _give(self, pod: Pod, node: Node, is_there: Callable[[], bool]) -> None:
        uid, name = pod.metadata.uid, node.metadata.name
        while True:
            news = self._news
            with self._lock:
                if not is_there():
                    raise GivingError("it is gone")
                try:
                    claims = self._store.of_pod(pod)
                    given = self._decide(pod, claims, node)
                    break
                except WantedError as error:
                    raise GivingError(str(error)) from None
                except _EndingError:
                    pass
            freed = self._store.freed
            while freed == self._store.freed and is_there():
                await _heard(news, _LOOK_S)
                news = self._news
        for claim in claims:
            own = [one for one in given if one.claim == claim.metadata.uid]
            if claim.status.allocation is None or not is_reserved(claim, pod):
                await self._write(claim, pod, node, own)
        self._decided.pop(uid, None)
        self._failed.pop((uid, name), None)

    def _decide(self, pod: Pod, claims: Sequence[Claim], node: Node) -> list[Given]:
        """Devices for the claims that have none; what was decided before stays, as it may have been written."""
        uid, store = pod.metadata.uid, self._store
        for claim in claims:
            if claim.status.allocation is not None and not is_for(claim, node):
                raise GivingError(f"claim {claim.metadata.name} has devices that this node cannot use")
            if not is_reserved(claim, pod) and len(claim.status.reserved_for) >= MOST_CONSUMERS:
                raise GivingError(f"claim {claim.metadata.name} is used by {MOST_CONSUMERS} pods, which are all it may")
        if uid in self._decided:
            if self._decided[uid][0] != node.metadata.name:
                raise GivingError("its devices on another node are being given back")
            return self._decided[uid][1]
        todo = [claim for claim in claims if claim.status.allocation is None]
        if any(store.is_written(claim.metadata.uid) for claim in todo):
            raise GivingError("a claim that it shares is being given devices")
        if not todo:
            return []
        found = store.search().allocate([store.wanted(claim) for claim in todo], node)
        if isinstance(found, str):
            if isinstance(store.search(self._live()).allocate([store.wanted(claim) for claim in todo], node), list):
                raise _EndingError
            self._failed = {key: freed for key, freed in self._failed.items() if freed == store.freed}
            self._failed[uid, node.metadata.name] = store.freed
            raise GivingError(found)
        self._decided[uid] = node.metadata.name, found
        store.write(found)
        return found

    async def _write(self, claim: Claim, pod: Pod, node: Node, given: Sequence[Given]) -> None:
        """Write in a claim what it has, and that a pod may use it."""
        at, consumer = claim.metadata, {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
        allocation = _allocation(claim, node, given, self._store.classes) if given else None
        for _ in range(_TRIES):
            try:
                if allocation is not None and FINALIZER not in claim.metadata.finalizers:
                    claim = await self._patch(claim, {}, finalizers=[*claim.metadata.finalizers, FINALIZER])
                reserved = [*map(_plain, claim.status.reserved_for), consumer]
                status = {"reservedFor": reserved} | ({"allocation": allocation} if allocation is not None else {})
                await self._patch(claim, {"status": status}, part="status")
                return
            except AbsentError:
                raise GivingError(f"claim {at.name} is gone") from None
            except ConflictError:
                claim = await self._read(at.name, at.namespace, at.uid)
            if is_reserved(claim, pod):  # it was written before, and no answer came
                return
            if (claim.status.allocation is None) != (allocation is not None):
                raise GivingError(f"claim {at.name} was changed by another scheduler at the same time")
        raise GivingError(f"claim {at.name} changes all the time")

    async def _ready(self, pod: Pod, is_there: Callable[[], bool], has_own: bool) -> None:
        """Wait until what was written is seen, no other claim has the same, and devices say that they are ready."""
        checked = False
        while True:
            news = self._news
            with self._lock:
                if not is_there():
                    raise GivingError("it is gone")
                claims = self._of(pod)
                whole = claims and (not has_own or self._store.special_of(pod) is not None)
                seen = whole and all(one.status.allocation and is_reserved(one, pod) for one in claims)
                if seen and not checked:
                    if why := next((why for one in claims if (why := self._store.others_with(one))), ""):
                        raise GivingError(why)
                    checked = True
                if seen and all(map(_is_ready, claims)):
                    return
                left_s = min((self._left_s(one) for one in claims), default=self._longest_s)
            if checked and not seen:
                raise GivingError("its devices were taken back by another controller")
            if left_s <= 0:
                raise GivingError(f"its devices were not ready in {self._longest_s:g} s")
            await _heard(news, min(left_s, _LOOK_S))

    def _left_s(self, claim: Claim) -> float:
        of = claim.status.allocation
        began_s = moment_s(of.allocation_timestamp) if of is not None else None
        return self._longest_s - (time.time() - began_s) if began_s is not None else self._longest_s

    # --- taking back --------------------------------------------------------------------------------------------------

    async def take_back(self, pod: Pod) -> None:
        """Let a pod that is not bound have no devices; it may be asked for at any time, and again.

        Raises
        ------
        UnreachableError, DeniedError
            As far as is known it was not done, or not wholly.
        """
        uid = pod.metadata.uid
        with self._lock:
            _, given = self._decided.get(uid, ("", []))
            unsure = {one.claim for one in given}
            claims = [one for one in self._store.claims.values() if is_reserved(one, pod) or one.metadata.uid in unsure]
            own = self._store.special_of(pod)
        for claim in claims if own is None or own in claims else (*claims, own):
            await self._free(claim, pod)
        if own is not None:
            with suppress(AbsentError, ConflictError):
                await delete(self._connection(), CLAIMS, own)
        with self._lock:
            for one in unsure:
                self._store.write_not(one)
            self._decided.pop(uid, None)

    async def _free(self, claim: Claim, pod: Pod) -> None:
        """Take a pod out of a claim, and its devices if no other pod uses it.

        What was written without an answer may come later still. It cannot any more once the claim has another version:
        so the protection of an allocation goes with it, whether or not that came.
        """
        at = claim.metadata
        for _ in range(_TRIES):
            try:
                claim = await self._read(at.name, at.namespace, at.uid)
                rest = [one for one in claim.status.reserved_for if one.uid != pod.metadata.uid]
                if is_reserved(claim, pod):
                    status: dict[str, Any] = {"reservedFor": [_plain(one) for one in rest] or None}
                    if not rest:
                        status |= {"allocation": None, "devices": None}
                    claim = await self._patch(claim, {"status": status}, part="status")
                if claim.status.allocation is None and FINALIZER in claim.metadata.finalizers:
                    kept = [one for one in claim.metadata.finalizers if one != FINALIZER]
                    await self._patch(claim, {}, finalizers=kept)
                return
            except (AbsentError, GivingError):
                return
            except ConflictError:
                continue
        raise GivingError(f"claim {at.name} changes all the time")

    # --- the server -----------------------------------------------------------------------------------------------

    async def _read(self, name: str, namespace: str, uid: str) -> Claim:
        try:
            found = await self._connection().read(CLAIMS, name, namespace)
        except AbsentError:
            raise GivingError(f"claim {name} is gone") from None
        if found.metadata.uid != uid:
            raise GivingError(f"claim {name} is another one by now")
        return found

    async def _patch(
        self, claim: Claim, changes: dict[str, Any], *, part: str = "", finalizers: list[str] | None = None
    ) -> Claim:
        at = claim.metadata
        metadata: dict[str, Any] = {"uid": at.uid, "resourceVersion": at.resource_version}
        if finalizers is not None:
            metadata["finalizers"] = finalizers
        return await patch(
            self._connection(), CLAIMS, {"metadata": metadata, **changes}, at.name, at.namespace, part=part
        )


def _allocation(claim: Claim, node: Node, given: Sequence[Given], classes: Mapping[str, DeviceClass]) -> dict[str, Any]:
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


def _is_ready(claim: Claim) -> bool:
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


async def _heard(news: asyncio.Event, most_s: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(news.wait(), most_s)


def _plain(one: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(one)
    return found


def _text(amount: Fraction) -> str:
    """An amount as Kubernetes writes it."""
    return str(amount.numerator) if amount.denominator == 1 else f"{-(-amount * 1000 // 1)}m"
