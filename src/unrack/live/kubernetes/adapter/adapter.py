"""A Kubernetes as the driver sees it and tells it what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from unrack.ledger.lease import Lease
from unrack.live.driver.contract import Act, Answer, Asked, Order, Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import Seen, SeenJob, Shown, UnreachableError
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import Beginning, Spec
from unrack.live.driver.state.table import Table
from unrack.live.kubernetes.adapter.picture import CUT_SHORT, Picture
from unrack.live.kubernetes.adapter.terms import Terms
from unrack.live.kubernetes.adapter.watching import Watching
from unrack.live.kubernetes.client import answers
from unrack.live.kubernetes.client.access import Access
from unrack.live.kubernetes.client.answers import AbsentError, ConflictError, DeniedError
from unrack.live.kubernetes.client.objects import PODS, Node, Pod
from unrack.live.kubernetes.client.orders import bind, delete
from unrack.live.kubernetes.devices.store import is_made
from unrack.units import SECOND_US
from unrack.workload.job import Job


class Nodes(NamedTuple):
    """The nodes of a reading, and a number for them that is another once they are others."""

    version: int
    of: Mapping[str, Node]
    offer: int  # the same of the devices that pods may claim


class KubernetesAdapter:
    """The pods that name a scheduler: see :class:`unrack.live.driver.contract.Orchestrator`.

    Its own record of a job is the pod, that of all :class:`Nodes`; it keeps nothing with an entry.

    Parameters
    ----------
    access, scheduler, policy
        How the server is reached; the ``schedulerName`` of the pods that are ours; what decides.
    longest_us, start_timeout_us
        How long a pod that says nothing is expected to run; how long it may take to see a pod as bound.
    timeout_s
        How long an answer may take, s.
    events
        Whether pods that cannot be started are told why.
    """

    name = "Kubernetes"
    cut_short = CUT_SHORT

    def __init__(
        self, access: Access, scheduler: str, policy: Spec, *, longest_us: int, start_timeout_us: int = 120 * SECOND_US,
        timeout_s: float = 30.0, events: bool = True,
    ) -> None:  # fmt: skip
        self.policy, self.longest_us, self.start_timeout_us, self.events = policy, longest_us, start_timeout_us, events
        self.picture = Picture(scheduler)
        self.watching = Watching(access, self.picture, timeout_s)
        self.devices = self.watching.devices
        self._version, self._now, self._at_s = -1, 0, 0.0
        self._terms: tuple[tuple[int, int], Terms] | None = None
        self._asked: dict[str, tuple[Pod, Terms, Hashable, Job | Problem]] = {}
        self._told: dict[str, str] = {}

    def close(self) -> None:
        """Watch no longer."""
        self.watching.close()

    def changed(self, now: int) -> bool:
        """Whether anything has changed."""
        self.watching.check()
        return self.picture.version != self._version

    def read(self, table: Table) -> Seen:
        """All that there is now; of pods that are over those that are in the table."""
        self.watching.check()
        picture = self.picture
        with picture.lock:
            self._version = picture.version
            picture.gone = {key: job for key, job in picture.gone.items() if table.get(key) is not None}
            found = {
                key: job for key, job in picture.shown.items() if job.shown != Shown.OVER or table.get(key) is not None
            }
            nodes = Nodes(picture.nodes_version, dict(picture.nodes), self.devices.store.offer)
            unreadable = tuple(picture.unreadable.values())
            return Seen(time.time(), picture.seen_nodes(), found | picture.gone, nodes, unreadable)

    def beginning(self, seen: Seen, origin_s: float) -> Beginning:
        """The cluster and the policy."""
        return self._terms_of(seen.own).beginning(self.policy)

    def _terms_of(self, nodes: Nodes) -> Terms:
        version = nodes.version, nodes.offer
        if self._terms is None or self._terms[0] != version:
            self._terms = version, Terms(nodes.of, self.longest_us, self.devices)
        return self._terms[1]

    def turn(self, seen: Seen, table: Table, now: int) -> None:
        """A turn begins."""
        self._now, self._at_s = now, seen.at_s
        for kept in (self._asked, self._told):
            for key in [key for key in kept if key not in seen.jobs]:
                del kept[key]

    def asked(self, entry: Entry, job: SeenJob, names: Names) -> Asked | Problem:
        """What a pod asks that may be started now."""
        assert self._terms is not None
        terms, kept = self._terms[1], self._asked.get(entry.key)
        known: Hashable = None
        if job.own.spec.resource_claims:
            if wait := self._waits_for_devices(job.own):
                return wait
            known = self.devices.known_of(job.own)
        if kept is None or kept[0] is not job.own or kept[1] is not terms or kept[2] != known:
            kept = self._asked[entry.key] = job.own, terms, known, terms.asked(job.own, entry.key)
        found = kept[3]
        if isinstance(found, Problem):
            gated = bool(job.own.spec.scheduling_gates)
            if self.events and not gated and self._told.get(entry.key) != found.why:
                self._told[entry.key] = found.why
                self.watching.say(job.own, "FailedScheduling", found.why)
            return replace(found, since_us=self._now) if gated else found
        since_us = entry.known.since_us
        if since_us is None:
            since_us = self._now - max(0, round((self._at_s - job.submit_s) * SECOND_US)) if job.submit_s else self._now
        return Asked(replace(found, submit_us=since_us))

    def _waits_for_devices(self, pod: Pod) -> Problem | None:
        """Why a pod with claims is not looked at now: they are being made, or what they had is taken back."""
        if not is_made(pod):
            return Problem("its claims are still to be made from their templates")
        if self.events and self.devices.gives_back(pod):
            return Problem("its devices are being taken back", again_us=self._now + SECOND_US)
        return None

    def takes(self, job: SeenJob, asked: Job) -> None:
        """Nobody has less room for that."""

    def wants_apart(self, job: SeenJob, names: Names) -> bool:
        """A pod is one task."""
        return False

    def stands(self, job: SeenJob, names: Names) -> tuple[Job, Lease] | None:
        """What a pod that is bound holds."""
        assert self._terms is not None
        node = next((names.node_of[name] for name in job.nodes if name in names.node_of), None)
        return None if node is None else self._terms[1].stands(job.own, job.key, node, names.cluster)

    def own_of(self, record: Mapping[str, Any]) -> None:
        """Nothing is kept."""

    def queued(self, entry: Entry, job: SeenJob) -> None:
        """Nothing is kept."""

    def placed(self, entry: Entry, lease: Lease | None, names: Names) -> None:
        """Nothing is kept."""

    def carry_out(self, orders: Sequence[Order]) -> Iterator[Sequence[Answer]]:
        """Bind and delete, all at once; what is not answered, or has no room yet, is ordered again."""
        found = self.watching.do(self._all(orders))
        yield [
            Answer(order, _WORDS[order.act], "" if one == _LATER else one, one != _LATER)
            for order, one in zip(orders, found, strict=True)
            if isinstance(one, str)
        ]
        if (error := next((one for one in found if not isinstance(one, str)), None)) is not None:
            raise UnreachableError(str(error))

    async def _all(self, orders: Sequence[Order]) -> Sequence[str | Exception]:
        return await asyncio.gather(*map(self._carry_out, orders))

    async def _carry_out(self, order: Order) -> str | Exception:
        """``""``: it is done; or why not, that there is no room yet, or that nothing is known of it."""
        pod = self.picture.pods.get(order.entry.key)
        if order.act == Act.MORE:
            return "pods are given no more time"
        if order.act == Act.HOLD:
            if pod is not None and not pod.spec.node_name and pod.spec.resource_claims:
                return await self.devices.hold(pod)
            return "it is bound" if pod is not None and pod.spec.node_name else ""
        if order.act == Act.STOP:
            return await self._stop(pod)
        if pod is not None and pod.spec.resource_claims and not pod.spec.node_name:
            return await self._start_with_devices(order.entry, pod)
        return await self._start(order.entry, pod)

    async def _start_with_devices(self, entry: Entry, pod: Pod) -> str | Exception:
        """The same once the pod has its devices, which goes on meanwhile if it takes long."""
        key, (name,), picture = entry.key, entry.nodes, self.picture
        if why := picture.cannot_start(key, name):
            return why
        said = await self.devices.start(
            pod, picture.nodes[name], lambda: self._start(entry, picture.pods.get(key)), lambda: key in picture.pods
        )  # fmt: skip
        return _LATER if said is None else said

    async def _start(self, entry: Entry, pod: Pod | None) -> str | Exception:
        (name,) = entry.nodes
        picture = self.picture
        if pod is None or (why := picture.cannot_start(entry.key, name)):
            return "it is gone" if pod is None else why
        if pod.spec.node_name:
            return ""
        with picture.lock:
            picture.assume_not(entry.key)
            if not picture.has_room(entry.key, name):  # who is to make room has not ended yet
                return _LATER
            picture.assume(entry.key, name)
        try:
            await bind(self.watching.connection, pod, name)
            return ""
        except answers.UnreachableError as error:
            found: str | Exception = error
        except DeniedError as error:
            found = str(error)
        with picture.lock:
            picture.assume_not(entry.key)
        return found

    async def _stop(self, pod: Pod | None) -> str | Exception:
        if pod is None or not pod.spec.node_name or pod.metadata.deletion_timestamp:
            return ""
        try:
            await delete(self.watching.connection, PODS, pod)
        except (AbsentError, ConflictError):
            return ""
        except answers.UnreachableError as error:
            return error
        except DeniedError as error:
            return str(error)
        return ""

    def forgotten(self, key: str) -> bool:
        """The API server forgets nothing."""
        return False

    def refused(self, entry: Entry, job: SeenJob, now: int) -> None:
        """A pod that is bound is never refused afterwards."""

    def refused_until_us(self, key: str, now: int) -> int:
        """At once."""
        return now

    def started(self, key: str) -> None:
        """A pod is bound."""


_WORDS = {Act.START: "bind", Act.HOLD: "hold", Act.STOP: "delete", Act.MORE: "lengthen"}
_LATER = "later"
