"""Devices given to the claims of a pod, or of all pods of a gang, as the server must be told; and taken back.

What is given is written in the claim itself, so a driver that goes on after a fault finds it there: a pod that starts
goes on with what its claims have, and one that waits gives it back. Nothing is kept elsewhere.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from threading import RLock
from typing import Any

import msgspec

from unrack.kubernetes_text import moment_s
from unrack.live.kubernetes.client.answers import AbsentError, ConflictError
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import PODS, Node, Pod
from unrack.live.kubernetes.client.orders import create, delete, patch
from unrack.live.kubernetes.devices.allocator import Given
from unrack.live.kubernetes.devices.extended import Special, asks_alike, content_of
from unrack.live.kubernetes.devices.objects import CLAIMS, Claim
from unrack.live.kubernetes.devices.store import MOST_CONSUMERS, Store, is_for, is_reserved
from unrack.live.kubernetes.devices.trial import DeviceTrial, Placed
from unrack.live.kubernetes.devices.wanted import WantedError
from unrack.live.kubernetes.devices.written import GivingError, LackError, allocation_of, is_ready

FINALIZER = "resource.kubernetes.io/delete-protection"
LONGEST_S = 600.0
"""How long devices may take until a pod that is given them can be bound; kube-scheduler waits as long."""
SEEN_S = 30.0
"""How long it may take until what was written is seen."""
_LOOK_S = 5.0
"""After how long it is looked again though no claim has changed: whether the pod is there still, and for how long."""
_TRIES = 5


class _EndingError(Exception):
    """Pods can have their devices as soon as claims of pods that are over, or are being evicted, have been freed."""


_Write = tuple[Claim, list[Pod], Node, list[Given]]
"""A claim, pods that may use it from now on, a node of theirs, and its devices; none: it has them."""


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

    Attributes
    ----------
    ending
        The uids of pods that are being evicted, and count as over.
    """

    def __init__(
        self, store: Store, lock: RLock, connection: Callable[[], Connection], live: Callable[[], set[str]],
        longest_s: float = LONGEST_S,
    ) -> None:  # fmt: skip
        self._store, self._lock, self._connection, self._live = store, lock, connection, live
        self._longest_s, self.ending, self._news = longest_s, frozenset[str](), asyncio.Event()
        self._decided: dict[str, tuple[str, list[Given]]] = {}  # uid of a pod → the node, and what it is being given
        self._failed: dict[tuple[str, str], int] = {}  # uid of a pod and a node → what was free when it did not fit

    def told(self) -> None:
        """Something of claims has changed."""
        self._news.set()
        self._news = asyncio.Event()

    def end(self, ending: frozenset[str]) -> None:
        """These pods are being evicted now, by uid; those that wait for it look again."""
        if ending != self.ending:
            self.ending = ending
            self.told()

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

    async def give(self, pods: Placed, is_there: Callable[[], bool]) -> None:
        """Give pods their devices, all of them or none, and wait until they may be bound; it may be asked for again.

        Raises
        ------
        GivingError
            They cannot have them: nothing is left with any.
        UnreachableError, DeniedError
            As far as is known it was not done, or not wholly.
        """
        try:
            own = {pod.metadata.uid: one for pod, node in pods if (one := self._special(pod, node)) is not None}
            if not own and not any(pod.spec.resource_claims for pod, _ in pods):
                return  # the nodes have of it what they ask for
            extended = [pod for pod, _ in pods if pod.metadata.uid in own]
            await _all(self._make(pod, own[pod.metadata.uid], is_there) for pod in extended)
            todo = await self._decided_for(pods, is_there)
            await _all(self._write(*one) for one in todo)
            for pod, node in pods:
                self._decided.pop(pod.metadata.uid, None)
                self._failed.pop((pod.metadata.uid, node.metadata.name), None)
            await self._ready([pod for pod, _ in pods], is_there, extended)
            await _all(self._say(pod, own[pod.metadata.uid]) for pod in extended)
        except GivingError:
            await self.take_back([pod for pod, _ in pods])
            raise
        finally:
            with self._lock:
                self._store.promise(pods[0][0].metadata.uid, ())

    def _special(self, pod: Pod, node: Node) -> Special | None:
        """What a pod needs a claim for, of its own, on a node; ``None``: nothing."""
        with self._lock:
            found, there = self._store.special_on(pod, node), self._store.special_of(pod)
        if there is not None and (found is None or not asks_alike(there, found)):
            raise GivingError("its claim for extended resources is for other nodes")
        return found

    async def _make(self, pod: Pod, special: Special, is_there: Callable[[], bool]) -> None:
        """See that a pod has the claim that it needs for extended resources."""
        if self._store.special_of(pod) is not None:
            return
        content = content_of(pod, special)
        name, until_s = content["metadata"]["name"], time.monotonic() + SEEN_S
        with suppress(ConflictError):  # made before, and no answer came; or it is another's
            await create(self._connection(), CLAIMS, content, pod.metadata.namespace)
        while self._store.special_of(pod) is None:
            if (pod.metadata.namespace, name) in self._store.claims:
                raise GivingError(f"a claim {name} is there that was not made for it")
            if not is_there() or time.monotonic() > until_s:
                raise GivingError(f"it is gone, or its claim {name} is not seen")
            await _heard(self._news, 1.0)

    async def _say(self, pod: Pod, special: Special) -> None:
        """Write in a pod which of its containers use which requests of its claim; the server never takes that back."""
        claim, at = self._store.special_of(pod), pod.metadata
        if claim is None:
            raise GivingError("its claim for extended resources is gone")
        said = {"resourceClaimName": claim.metadata.name, "requestMappings": list(special.mappings)}
        changes = {"metadata": {"uid": at.uid}, "status": {"extendedResourceClaimStatus": said}}
        try:
            await patch(self._connection(), PODS, changes, at.name, at.namespace, part="status")
        except (AbsentError, ConflictError):
            raise GivingError("it is gone") from None

    async def _decided_for(self, pods: Placed, is_there: Callable[[], bool]) -> list[_Write]:
        """What is to be written, once devices are free that are only being given back."""
        while True:
            news = self._news
            with self._lock:
                if not is_there():
                    raise GivingError("it is gone")
                try:
                    return self._decide(pods)
                except WantedError as error:
                    raise GivingError(str(error)) from None
                except _EndingError:
                    pass
            freed, ending = self._store.freed, self.ending
            while freed == self._store.freed and ending == self.ending and is_there():
                await _heard(news, _LOOK_S)
                news = self._news

    def _decide(self, pods: Placed) -> list[_Write]:
        """What is to be written.

        What was decided before stays, as it may have been written.
        """
        store, users = self._store, dict[str, tuple[Claim, list[Pod], Node]]()
        for pod, node in pods:
            if self._decided.get(pod.metadata.uid, (node.metadata.name,))[0] != node.metadata.name:
                raise GivingError("its devices on another node are being given back")
            for claim in store.of_pod(pod):
                if claim.status.allocation is not None and not is_for(claim, node):
                    raise GivingError(f"claim {claim.metadata.name} has devices that this node cannot use")
                if claim.status.allocation is None or not is_reserved(claim, pod):
                    users.setdefault(claim.metadata.uid, (claim, [], node))[1].append(pod)
        for claim, some, _ in users.values():
            if len(claim.status.reserved_for) + len(some) > MOST_CONSUMERS:
                raise GivingError(f"claim {claim.metadata.name} is used by {MOST_CONSUMERS} pods, which are all it may")
        before = [self._decided[uid][1] for pod, _ in pods if (uid := pod.metadata.uid) in self._decided]
        if before and len(before) < len(pods):
            raise GivingError("others of its gang had devices before")
        given = {one.claim: [other for other in of if other.claim == one.claim] for of in before for one in of}
        new = [claim for claim, _, _ in users.values() if claim.status.allocation is None]
        if new and not before:
            if any(store.is_written(claim.metadata.uid) for claim in new):
                raise GivingError("a claim that it shares is being given devices")
            given = self._found(pods)
            store.write([one for of in given.values() for one in of])
            for pod, node in pods:
                own = [one for claim in store.of_pod(pod) for one in given.get(claim.metadata.uid, ())]
                self._decided[pod.metadata.uid] = node.metadata.name, own
        return [(claim, some, node, given.get(uid, [])) for uid, (claim, some, node) in users.items()]

    def _found(self, pods: Placed) -> dict[str, list[Given]]:
        """Devices for all claims of some pods that have none, by claim."""
        store, first = self._store, pods[0][0].metadata.uid
        trial = DeviceTrial(store, store.held_by(mine={first}))
        if (short := trial.place(pods)) is None:
            return trial.given
        later = DeviceTrial(store, store.held_by(self._live() - self.ending, mine={first}))
        if later.place(pods) is None:
            store.promise(first, [one for of in later.given.values() for one in of])
            raise _EndingError
        pod, node, why = short
        self._failed = {key: freed for key, freed in self._failed.items() if freed == store.freed}
        self._failed[pod.metadata.uid, node.metadata.name] = store.freed
        raise LackError(why if len(pods) == 1 else f"pod {pod.metadata.name}: {why}")

    def in_vain(self, pods: Sequence[Placed], ending: Collection[str]) -> list[str]:
        """Of pods that others are to be evicted for, one start after the other, why they could not start even then.

        ``ending``: the uids of those others.
        """
        store, firsts = self._store, {some[0][0].metadata.uid for some in pods}
        with self._lock:
            return DeviceTrial(store, store.held_by(self._live().difference(ending), mine=firsts)).whys(pods)

    async def _write(self, claim: Claim, pods: Sequence[Pod], node: Node, given: Sequence[Given]) -> None:
        """Write in a claim what it has, and that pods may use it."""
        at, of = claim.metadata, [pod.metadata for pod in pods]
        consumers = [{"resource": "pods", "name": one.name, "uid": one.uid} for one in of]
        allocation = allocation_of(claim, node, given, self._store.classes) if given else None
        for _ in range(_TRIES):
            try:
                if allocation is not None and FINALIZER not in claim.metadata.finalizers:
                    claim = await self._patch(claim, {}, finalizers=[*claim.metadata.finalizers, FINALIZER])
                there = {one.uid for one in claim.status.reserved_for}
                more = [one for one in consumers if one["uid"] not in there]
                reserved = [*map(_plain, claim.status.reserved_for), *more]
                status = {"reservedFor": reserved} | ({"allocation": allocation} if allocation is not None else {})
                await self._patch(claim, {"status": status}, part="status")
                return
            except AbsentError:
                raise GivingError(f"claim {at.name} is gone") from None
            except ConflictError:
                claim = await self._read(at.name, at.namespace, at.uid)
            if all(is_reserved(claim, pod) for pod in pods):  # it was written before, and no answer came
                return
            if (claim.status.allocation is None) != (allocation is not None):
                raise GivingError(f"claim {at.name} was changed by another scheduler at the same time")
        raise GivingError(f"claim {at.name} changes all the time")

    async def _ready(self, pods: Sequence[Pod], is_there: Callable[[], bool], extended: Sequence[Pod]) -> None:
        """Wait until what was written is seen, no other claim has the same, and devices say that they are ready."""
        checked, seen_until = False, time.monotonic() + SEEN_S
        while True:
            news = self._news
            with self._lock:
                if not is_there():
                    raise GivingError("it is gone")
                try:
                    own = [(one, pod) for pod in pods for one in self._store.of_pod(pod)]
                except WantedError as error:
                    raise GivingError(str(error)) from None
                claims = list({one.metadata.uid: one for one, _ in own}.values())
                seen = all(one.status.allocation and is_reserved(one, pod) for one, pod in own)
                seen &= all(self._store.special_of(pod) is not None for pod in extended)
                if seen and not checked:
                    if why := next((why for one in claims if (why := self._store.others_with(one))), ""):
                        raise GivingError(why)
                    checked = True
                if seen and all(map(is_ready, claims)):
                    return
                left_s = min((self._left_s(one) for one in claims), default=self._longest_s)
            if not seen and (checked or time.monotonic() > seen_until):
                raise GivingError("its devices were taken back by another controller")
            if left_s <= 0:
                raise GivingError(f"its devices were not ready in {self._longest_s:g} s")
            await _heard(news, min(left_s, _LOOK_S))

    def _left_s(self, claim: Claim) -> float:
        of = claim.status.allocation
        began_s = moment_s(of.allocation_timestamp) if of is not None else None
        return self._longest_s - (time.time() - began_s) if began_s is not None else self._longest_s

    # --- taking back --------------------------------------------------------------------------------------------------

    async def take_back(self, pods: Sequence[Pod]) -> None:
        """Let pods that are not bound have no devices; it may be asked for at any time, and again.

        Raises
        ------
        UnreachableError, DeniedError
            As far as is known it was not done, or not wholly.
        """
        with self._lock:
            unsure = {one.claim for pod in pods for one in self._decided.get(pod.metadata.uid, ("", []))[1]}
            own = [claim for pod in pods if (claim := self._store.special_of(pod)) is not None]
            uids = unsure.union(one.metadata.uid for one in own)
            every = self._store.claims.values()
            claims = [one for one in every if one.metadata.uid in uids or any(is_reserved(one, pod) for pod in pods)]
        await _all(self._free(claim, pods) for claim in claims)
        await _all(self._delete(claim) for claim in own)
        with self._lock:
            for one in unsure:
                self._store.write_not(one)
            for pod in pods:
                self._decided.pop(pod.metadata.uid, None)

    async def _delete(self, claim: Claim) -> None:
        with suppress(AbsentError, ConflictError):
            await delete(self._connection(), CLAIMS, claim)

    async def _free(self, claim: Claim, pods: Sequence[Pod]) -> None:
        """Take pods out of a claim, and its devices if no other pod uses it.

        What was written without an answer may come later still. It cannot any more once the claim has another version:
        so the protection of an allocation goes with it, whether or not that came.
        """
        at, own = claim.metadata, {pod.metadata.uid for pod in pods}
        for _ in range(_TRIES):
            try:
                claim = await self._read(at.name, at.namespace, at.uid)
                rest = [one for one in claim.status.reserved_for if one.uid not in own]
                if len(rest) < len(claim.status.reserved_for):
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


async def _all(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all, and fail as the worst of them: one that cannot be says less than one of which nothing is known."""
    found = [one for one in await asyncio.gather(*works, return_exceptions=True) if one is not None]
    for one in sorted(found, key=lambda one: isinstance(one, GivingError)):
        raise one


async def _heard(news: asyncio.Event, most_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):  # wait_for loses that it is cancelled if the news come at the same time
            await news.wait()


def _plain(one: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(one)
    return found
