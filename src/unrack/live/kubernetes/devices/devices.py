"""What the adapter asks of devices: what a pod asks of the core, what it holds, and its start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Hashable, Mapping, Sequence
from threading import RLock
from typing import Any, NamedTuple

from unrack.errors import RunError
from unrack.live.kubernetes.client.answers import DeniedError, UnreachableError
from unrack.live.kubernetes.client.connection import Connection
from unrack.live.kubernetes.client.objects import Kind, Node, Pod
from unrack.live.kubernetes.devices.counters import Counters
from unrack.live.kubernetes.devices.extended import extended_of, imagined, special
from unrack.live.kubernetes.devices.giving import Giving
from unrack.live.kubernetes.devices.objects import CLAIMS, CLASSES, RULES, SLICES
from unrack.live.kubernetes.devices.store import Store, is_for
from unrack.live.kubernetes.devices.trial import Placed
from unrack.live.kubernetes.devices.written import GivingError, Lack, LackError

KINDS: Sequence[Kind[Any]] = (SLICES, CLASSES, CLAIMS, RULES)
NOT_NEEDED = (RULES,)
"""Kinds without which claims are given devices all the same, as on servers that do not have them."""
SOON_S = 0.05
"""How long the driver waits for a start; if devices take longer, they go on meanwhile."""
Said = str | Exception


class Claimed(NamedTuple):
    """What a pod's claims ask of the core: counters, and nodes on which it cannot have its devices."""

    counters: Mapping[str, int]
    without: frozenset[str]


class Devices:
    """Devices, claims, and starts of pods that have some.

    Parameters
    ----------
    lock
        What guards the picture of nodes and pods.
    connection
        The server.
    live
        The uids of the pods that are not over.
    in_loop
        Does something in the loop of the connection, and does not wait for it.
    """

    def __init__(
        self, lock: RLock, connection: Callable[[], Connection], live: Callable[[], set[str]],
        in_loop: Callable[[Coroutine[Any, Any, None]], Any],
    ) -> None:  # fmt: skip
        self.store = Store()
        self.giving = Giving(self.store, lock, connection, live)
        self._lock, self._in_loop = lock, in_loop
        self._starting: dict[str, asyncio.Task[Said]] = {}
        self._freeing = set[str]()
        self.is_free: Callable[[str, Mapping[str, int]], bool] = lambda name, amounts: True
        """Whether a node has so much of some resources to give."""

    def take(self, changes: Sequence[tuple[Any, Any]]) -> None:
        """Slices, classes, claims or rules came, changed or went."""
        self.store.take(changes)
        self.giving.told()

    def counters(self, nodes: Mapping[str, Node]) -> Counters:
        """What there is on some nodes, as the core counts it."""
        with self._lock:
            found = Counters(self.store, nodes)
            self.store.wanted_by = found.wanted_by
            return found

    def claims(self, pod: Pod) -> bool:
        """Whether a pod has claims, or may have one for its extended resources."""
        return bool(pod.spec.resource_claims or extended_of(pod, self.store.mapped) or self.store.special_of(pod))

    def asked(
        self, pod: Pod, here: Sequence[str], nodes: Mapping[str, Node], counters: Counters,
        counted: set[str] | None = None, extended: Collection[str] = (),
    ) -> Claimed | str:  # fmt: skip
        """What a pod asks that waits and may run on some nodes; or why it cannot be started.

        ``counted``: uids of claims that others ask for already, to which those of the pod are added. ``extended``: the
        extended resources that are devices on these nodes.
        """
        store = self.store
        if store.why:
            return f"it asks for claims of devices, and {store.why}"
        with self._lock:
            try:
                claims = store.of_pod(pod)
                fixed = [claim for claim in claims if claim.status.allocation is not None]
                todo = [claim for claim in claims if claim.status.allocation is None]
                if extended and store.special_of(pod) is None:
                    todo.append(imagined(pod, special(pod, extended, store.mapped)))
                wanted = [store.wanted(claim) for claim in todo]
                new = [one for one in wanted if counted is None or one.claim not in counted]
                other = {name for name in here if not all(is_for(claim, nodes[name]) for claim in fixed)}
                if len(other) == len(here):
                    return f"a claim that it shares has devices which none of {len(here)} nodes can use"
                reasons = counters.not_met(wanted, [name for name in here if name not in other]) if wanted else {}
                asks = counters.asked(new) if new else {}
            except ValueError as error:
                return str(error)
            never = other | reasons.keys()
            if len(never) == len(here):
                said = next(iter(reasons.values()))
                return f"none of {len(here)} nodes that it may run on could give it devices: {said}"
            now = never.union(self.giving.failed_on(pod))
            if now.issuperset(here):
                return "the devices that are free do not fit together for it on any node"
            if counted is not None:
                counted.update(one.claim for one in wanted)
            return Claimed(asks, frozenset(now))

    def known_of(self, pod: Pod) -> Hashable:
        """The same as long as :meth:`asked` says the same."""
        with self._lock:
            return self.store.offer, self.store.versions_for(pod), *sorted(self.giving.failed_on(pod))

    def held(self, pod: Pod, counters: Counters) -> Mapping[str, int]:
        """What a pod that is bound holds, by counter; of a claim that it shares the first pod holds all."""
        with self._lock:
            return counters.held(self.store.parts_for(pod))

    # --- starts -----------------------------------------------------------------------------------------------------

    def gives_back(self, pod: Pod) -> bool:
        """Whether a pod that waits had devices, which are being taken back."""
        uid = pod.metadata.uid
        with self._lock:
            if uid not in self._freeing and not self.giving.has_any(pod):
                return False
            if uid not in self._freeing:
                self._freeing.add(uid)
                self._in_loop(self._free(pod))
        return True

    async def _free(self, pod: Pod) -> None:
        try:
            await self.giving.take_back([pod])
        except (RunError, GivingError):
            pass  # it is seen again
        finally:
            self._freeing.discard(pod.metadata.uid)

    async def start(
        self, key: str, pods: Placed, bind: Callable[[], Coroutine[Any, Any, Said]], is_there: Callable[[], bool]
    ) -> Said | None:
        """Give pods their devices and bind them, as far as that takes no longer than a moment; ``key``: of which job.

        Returns what became of it; ``None``: it goes on, also if this is not asked again.
        """
        task = self._starting.get(key)
        if task is None:
            task = self._starting[key] = asyncio.create_task(self._start(pods, bind, is_there))
        await asyncio.wait({task}, timeout=SOON_S)
        if not task.done():
            return None
        self._starting.pop(key, None)
        return task.result()

    async def _start(
        self, pods: Placed, bind: Callable[[], Coroutine[Any, Any, Said]], is_there: Callable[[], bool]
    ) -> Said:
        try:
            await self.giving.give(pods, is_there)
        except UnreachableError as error:
            return error
        except LackError as error:
            return Lack(error)
        except (DeniedError, GivingError) as error:
            return str(error)
        return await bind()

    def forget(self, key: str) -> None:
        """A job is over: what became of its start is not asked any more."""
        if (task := self._starting.get(key)) is not None and task.done():
            del self._starting[key]

    async def hold(self, key: str, pods: Sequence[Pod]) -> Said:
        """Pods that are not bound do not start: they have no devices then."""
        task = self._starting.pop(key, None)
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
        try:
            if pods:
                await self.giving.take_back(pods)
        except UnreachableError as error:
            return error
        except (DeniedError, GivingError) as error:
            return str(error)
        return ""
