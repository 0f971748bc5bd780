"""A Kubernetes as the driver sees it and tells it what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unrack.ledger.lease import Lease
from unrack.live.driver.contract import Acknowledgement, Act, AskedJob, Order, Problem
from unrack.live.driver.portable import Names
from unrack.live.driver.seen import Seen, SeenJob, Shown, UnreachableError
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.epoch import Beginning, Spec
from unrack.live.driver.state.table import KnownJobs
from unrack.live.kubernetes.adapter.asking import Asking, pods_of
from unrack.live.kubernetes.adapter.evictions import Evictions
from unrack.live.kubernetes.adapter.nominations import Nominations
from unrack.live.kubernetes.adapter.picture import CUT_SHORT, Picture, key_of
from unrack.live.kubernetes.adapter.reading import Readings, ReadNodes, operations_of
from unrack.live.kubernetes.adapter.terms import Added, Terms
from unrack.live.kubernetes.adapter.tiers import preempts
from unrack.live.kubernetes.adapter.watching import Watching
from unrack.live.kubernetes.client import answers
from unrack.live.kubernetes.client.access import Access
from unrack.live.kubernetes.client.answers import DeniedError
from unrack.live.kubernetes.client.objects import Pod
from unrack.live.kubernetes.client.orders import bind
from unrack.live.kubernetes.client.others import NAMESPACES
from unrack.live.kubernetes.constraints.in_turn import WAITS
from unrack.live.kubernetes.devices.written import Lack
from unrack.live.kubernetes.gangs.asking import standing_together, with_nodes
from unrack.live.kubernetes.gangs.gathering import ANEW, OPEN, Begun, Gang, KeptPods, kept_of, members_of
from unrack.live.kubernetes.gangs.naming import KINDS
from unrack.live.kubernetes.gangs.starting import LATER, Members, cannot_go_on, evict_all, start_all, take_back
from unrack.live.kubernetes.remote.pool import Taken
from unrack.live.kubernetes.remote.servers import ServerFabric
from unrack.live.kubernetes.volumes.claims import KINDS as OF_VOLUMES
from unrack.live.kubernetes.volumes.limits import KINDS as OF_LIMITS
from unrack.units import SECOND_US
from unrack.workload.job import Job


class KubernetesAdapter:
    """The pods that name a scheduler: see :class:`unrack.live.driver.contract.Orchestrator`.

    Its own record of a job is the pod, or of a gang a :class:`Gang` or :class:`Begun`; of all it is :class:`ReadNodes`.
    With an entry it keeps which pods a gang is of: a :class:`KeptPods`.

    Parameters
    ----------
    access, scheduler, policy
        How the server is reached; the ``schedulerName`` of the pods that are ours; what decides.
    added, start_timeout_us
        What the site says beyond Kubernetes; how long it may take to see a pod as bound.
    timeout_s
        How long an answer may take, s.
    events
        Whether pods that cannot be started are told why.
    leads
        Whether this is the one that schedules; default: always.
    """

    name = "Kubernetes"
    cut_short = CUT_SHORT

    def __init__(
        self, access: Access, scheduler: str, policy: Spec, *, added: Added, start_timeout_us: int = 120 * SECOND_US,
        timeout_s: float = 30.0, events: bool = True, leads: Callable[[], bool] | None = None,
    ) -> None:  # fmt: skip
        self.policy, self.added, self.start_timeout_us, self.events = policy, added, start_timeout_us, events
        self.longest_us = added.longest_us
        self.picture = Picture(scheduler, preempts(policy))
        self.wake = self.watching = Watching(
            access, self.picture, timeout_s, (*KINDS, NAMESPACES, *OF_VOLUMES, *OF_LIMITS)
        )
        self.devices = self.watching.devices
        self.devices.store.at_once, self.devices.is_free = added.at_once, self.picture.is_free
        self.asking, self._leads = Asking(self.picture, self.devices), leads
        self.evictions = Evictions(self.picture, self.devices)
        self.nominations = Nominations(self.picture)
        self.servers: ServerFabric | None = None
        if added.servers is not None:
            self.servers = ServerFabric(added.servers, self.watching, self.picture, scheduler)
        self._now, self._at_s = 0, 0.0
        self._terms: tuple[tuple[int, int, Taken], Terms] | None = None
        self.readings = Readings(self.picture, self.devices, self.servers)
        self._late = set[str]()  # keys of those that could not have started before now, whatever was free
        self._told: dict[str, str] = {}

    def close(self) -> None:
        """Watch no longer."""
        self.watching.close()

    def changed(self, now: int) -> bool:
        """Whether anything has changed."""
        self.watching.check()
        return self.picture.version != self.picture.read_version

    def read(self, table: KnownJobs) -> Seen:
        """All that there is now; of pods that are over those that are in the table."""
        self.watching.check()
        return self.readings.read(table)

    def beginning(self, seen: Seen, origin_s: float) -> Beginning:
        """The cluster and the policy."""
        return self._terms_of(seen.own).beginning(self.policy)

    def _terms_of(self, nodes: ReadNodes) -> Terms:
        if self._terms is None or self._terms[0] != nodes.terms:
            self._terms = nodes.terms, Terms(nodes.of, self.added, nodes.tiers, self.devices, nodes.taken, nodes.held)
        return self._terms[1]

    def turn(self, seen: Seen, table: KnownJobs, now: int) -> None:
        """A turn begins."""
        self._now, self._at_s = now, seen.at_s
        jobs = [(key, seen.jobs.get(key)) for key in (seen.jobs if seen.changed is None else seen.changed)]
        for key, job in jobs:
            if job is None or job.shown == Shown.OVER:
                self.asking.forget(key)
                self.devices.forget(key)
                self._late.discard(key)
            if key not in self.picture.pods:
                self._told.pop(key, None)
        self.evictions.table = table
        self.asking.begin(self._terms_of(seen.own), seen, table)
        for key, job in jobs:  # which pods of a gang ask is another matter than what they ask
            entry = table.get(key) if job is not None and isinstance(job.own, Gang) else None
            if (
                job is not None
                and entry is not None
                and entry.phase in OPEN
                and (own := self.queued(entry, job)) != entry.own
            ):
                entry.own = own
                table.touch(entry)
        if self.servers is not None:
            self._look_after_clients(seen, table)

    def _look_after_clients(self, seen: Seen, table: KnownJobs) -> None:
        """Tell clients that their servers are gone, or stop them, as the site wants it."""
        assert self.servers is not None
        self.servers.clear(operations_of(table))
        running = [
            (job.own, entry.operations)
            for entry in table
            if entry.operations and (job := seen.jobs.get(entry.key)) is not None and job.shown == Shown.RUNS
        ]
        for client, why in self.servers.lost(running):
            stops = self.servers.options.on_lost == "stop"
            self._tell(client, "LostGpus", f"{why}: it is stopped" if stops else why)
            if stops and not client.metadata.deletion_timestamp:
                self.watching.do(evict_all(self.watching.connection, [client]))

    def asked(self, entry: Entry, job: SeenJob, names: Names) -> AskedJob | Problem:
        """What a pod asks that may be started now."""
        assert self._terms is not None
        if isinstance(job.own, Begun):
            return Problem(ANEW)
        if wait := self.asking.waits_for_devices(job.own, self._now, self.events):
            return wait
        found, own = self.asking.asks(entry.key, job.own)[0], job.own
        if (behind := self.picture.gangs.behind.get(entry.key)) is not None:
            self._late.add(entry.key)
            return Problem(behind, since_us=self._now)
        if isinstance(found, Problem):
            comes = own.comes if isinstance(own, Gang) else bool(own.spec.scheduling_gates)
            for pod in () if comes or found.why == WAITS else pods_of(own):
                self._tell(pod, "FailedScheduling", found.why)
            if comes:
                self._late.add(entry.key)
            return replace(found, since_us=self._now) if comes else found
        since_us, since_s = entry.known.since_us, own.since_s if isinstance(own, Gang) else job.submit_s
        if entry.key in self._late:
            self._late.discard(entry.key)
            since_us = self._now
        elif since_us is None:
            since_us = self._now - max(0, round((self._at_s - since_s) * SECOND_US)) if since_s else self._now
        said = self._terms[1].said(pods_of(own))
        due_us = None if found.deadline_us is None else since_us + found.deadline_us
        every = [replace(one, submit_us=since_us, deadline_us=due_us, said={**one.said, **said}) for one in found.every]
        return AskedJob(replace(every[0], components=tuple(every[1:])) if every[1:] else every[0])

    def _tell(self, pod: Pod, reason: str, note: str) -> None:
        """Tell a pod something in an event, once."""
        key = key_of(pod)
        if self.events and self._told.get(key) != note:
            self._told[key] = note
            self.watching.say(pod, reason, note)

    def takes(self, job: SeenJob, asked: Job) -> None:
        """No other has less room for that."""

    def wants_apart(self, job: SeenJob, names: Names) -> bool:
        """A pod is one task."""
        return False

    def stands(self, job: SeenJob, names: Names) -> tuple[Job, Lease] | None:
        """What pods that are bound hold."""
        assert self._terms is not None
        terms = self._terms[1]
        if isinstance(job.own, Begun):
            nodes = [names.node_of.get(pod.spec.node_name) for pod in job.own.pods]
            found = [
                terms.stands(pod, job.key, node, names.cluster)
                for pod, node in zip(job.own.pods, nodes, strict=True)
                if node is not None
            ]
            return standing_together(job.key, found)
        node = next((names.node_of[name] for name in job.nodes if name in names.node_of), None)
        return None if node is None else terms.stands(job.own, job.key, node, names.cluster)

    def asks_otherwise(self, entry: Entry, job: SeenJob, names: Names) -> bool:
        """What a pod asks for is fixed."""
        return False

    def holds_otherwise(self, entry: Entry, job: SeenJob, names: Names) -> tuple[Job, Lease] | None:
        """What a pod that is bound holds is what it asks for."""
        return None

    def own_of(self, record: Mapping[str, Any]) -> KeptPods | None:
        """The pods of a gang."""
        return kept_of(record)

    def queued(self, entry: Entry, job: SeenJob) -> KeptPods | None:
        """The pods of a gang, in the order of its tasks."""
        order = self.asking.asks(entry.key, job.own)[1] if isinstance(job.own, Gang) else ()
        return KeptPods(tuple((key, "") for key in order)) if order else None

    def placed(self, entry: Entry, lease: Lease | None, names: Names) -> KeptPods | None:
        """The pods of a gang with their nodes."""
        return (
            with_nodes(entry.own, lease, names) if isinstance(entry.own, KeptPods) and lease is not None else entry.own
        )

    def carry_out(self, orders: Sequence[Order]) -> Iterator[Sequence[Acknowledgement]]:
        """Bind and delete, all at once; what is not answered, or has no room yet, is ordered again."""
        found = self.watching.do(self._all(orders))
        yield [
            Acknowledgement(
                order,
                _WORDS[order.act],
                "" if one == LATER else one,
                one != LATER,
                stays=order.act == Act.STOP,
                excused=isinstance(one, Lack),
            )
            for order, one in zip(orders, found, strict=True)
            if isinstance(one, str)
        ]
        if (error := next((one for one in found if not isinstance(one, str)), None)) is not None:
            raise UnreachableError(str(error))

    async def _all(self, orders: Sequence[Order]) -> Sequence[str | Exception]:
        vain = self.evictions.look()
        return await asyncio.gather(*(self._carry_out(order, vain.get(order.entry.key, "")) for order in orders))

    async def _carry_out(self, order: Order, vain: str) -> str | Exception:
        if self._leads is not None and not self._leads():
            return UnreachableError("another replica may schedule by now")
        if order.act == Act.STOP and vain:
            return vain
        found = await self._done(order)
        if self.picture.preempts and order.act in (Act.START, Act.HOLD):
            waits = order.act == Act.START and found == LATER
            members = members_of(order.entry) or [(order.entry.key, node) for node in order.entry.nodes]
            await self.nominations.say(
                self.watching.connection, [(key, node if waits else "") for key, node in members]
            )
        return found

    async def _done(self, order: Order) -> str | Exception:
        """``""``: it is done; or why not, that there is no room yet, or that nothing is known of it."""
        pod, members = self.picture.pods.get(order.entry.key), members_of(order.entry)
        if order.act == Act.MORE:
            return "pods are given no more time"
        if members:
            picture = self.picture
            if order.act == Act.START:
                return await self._start_gang(order.entry.key, members)
            if order.act == Act.HOLD:
                return await self._take_back(order.entry.key, members)
            return await self._stop(order.entry.key, [picture.pods[key] for key, _ in members if key in picture.pods])
        if order.act == Act.HOLD:
            if pod is not None and not pod.spec.node_name and self.devices.claims(pod):
                return await self.devices.hold(order.entry.key, [pod])
            return "it is bound" if pod is not None and pod.spec.node_name else ""
        if order.act == Act.STOP:
            return "" if pod is None else await self._stop(order.entry.key, [pod])
        if pod is not None and self.devices.claims(pod) and not pod.spec.node_name:
            return await self._start_with_devices(order.entry, pod)
        return await self._start(order.entry.key, pod, *order.entry.nodes)

    async def _stop(self, key: str, pods: Sequence[Pod]) -> str | Exception:
        """Evict pods that have nodes; those that were being given devices for a start have none then."""
        waiting = [pod for pod in pods if self.devices.claims(pod) and not pod.spec.node_name]
        held = await self.devices.hold(key, waiting) if waiting else ""
        return held if isinstance(held, Exception) else await evict_all(self.watching.connection, pods)

    async def _start_with_devices(self, entry: Entry, pod: Pod) -> str | Exception:
        """The same once the pod has its devices, which goes on meanwhile if it takes long."""
        key, (name,), picture = entry.key, entry.nodes, self.picture
        if why := picture.cannot_start(key, name):
            return why
        pods = [(pod, picture.nodes[name])]
        said = await self.devices.start(
            key, pods, lambda: self._start(key, picture.pods.get(key), name), lambda: key in picture.pods
        )
        return LATER if said is None else said

    async def _start_gang(self, key: str, members: Members) -> str | Exception:
        """The same of a gang: no pod is bound before all have their devices."""
        picture, connection = self.picture, self.watching.connection
        with picture.lock:
            if why := cannot_go_on(picture, members):
                return why
            left = [(picture.pods[key], node) for key, node in members if not picture.pods[key].spec.node_name]
            pods = [(pod, picture.nodes[node]) for pod, node in left if self.devices.claims(pod)]
        if not pods:
            return await start_all(connection, picture, members)
        said = await self.devices.start(
            key, pods, lambda: start_all(connection, picture, members),
            lambda: all(key_of(pod) in picture.pods for pod, _ in pods),
        )  # fmt: skip
        return LATER if said is None else said

    async def _take_back(self, key: str, members: Members) -> str | Exception:
        """Let a gang have no nodes and no devices."""
        with self.picture.lock:
            there = [self.picture.pods[one] for one, _ in members if one in self.picture.pods]
            pods = [pod for pod in there if self.devices.claims(pod)]
        held = await self.devices.hold(key, [pod for pod in pods if not pod.spec.node_name]) if pods else ""
        return held or await take_back(self.watching.connection, self.picture, members)

    async def _start(self, key: str, pod: Pod | None, name: str) -> str | Exception:
        picture = self.picture
        if pod is None or (why := picture.cannot_start(key, name)):
            return "it is gone" if pod is None else why
        if pod.spec.node_name:
            return ""
        with picture.lock:
            picture.assume_not(key)
            if why := picture.keeps_off(key, name):
                return why
            if not picture.has_room(key, name):  # the pod that is to make room has not ended yet
                return LATER
            picture.assume(key, name)
        try:
            await bind(self.watching.connection, pod, name)
            return ""
        except answers.UnreachableError as error:
            found: str | Exception = error
        except DeniedError as error:
            found = str(error)
        with picture.lock:
            picture.assume_not(key)
        return found

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


_WORDS = {Act.START: "bind", Act.HOLD: "hold", Act.STOP: "evict", Act.MORE: "lengthen"}
