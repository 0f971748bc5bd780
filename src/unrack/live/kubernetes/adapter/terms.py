"""The nodes of a Kubernetes as a cluster that stays the same as long as they do, and what pods ask and hold of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import Lease
from unrack.live.additions import Additions
from unrack.live.asks.asks import Askable, AskError, Asks
from unrack.live.driver.contract import Problem
from unrack.live.driver.state.epoch import Beginning, Spec
from unrack.live.kubernetes.adapter.asks import Amounts, asked_of, beyond, devices_of, required, room_of
from unrack.live.kubernetes.adapter.picture import CLOSED, has_said
from unrack.live.kubernetes.adapter.tiers import Tier, keys_of, tier_of
from unrack.live.kubernetes.client.objects import Node, NodeSpec, Pod
from unrack.live.kubernetes.devices.devices import Devices
from unrack.live.kubernetes.devices.extended import extended_of, extended_on, fixed_in
from unrack.live.kubernetes.devices.store import AT_ONCE
from unrack.live.kubernetes.machines import Machines, amounts_of, machines_of
from unrack.live.kubernetes.places import asks_where, may_run
from unrack.live.kubernetes.remote.pool import NONE_TAKEN, Taken, pool_of, without_gpus
from unrack.live.kubernetes.remote.table import ServerPods
from unrack.live.kubernetes.run_time import limit_s
from unrack.live.printable import printable
from unrack.slowdown.model import Model
from unrack.slurm_text.hostlists import compress
from unrack.units import SECOND_US
from unrack.workload.job import Demand, Job

MOST_WHERE = 50_000
"""Characters in which a pod may say where it may run: all of them are looked at for each node."""
MOST_WAYS = 1000
"""In how many ways pods say that, as far as it is remembered where that is."""
MOST_ASKS = 2000
"""Characters of the annotation in which a pod asks for more."""
ASKS = "unrack.io/asks"
"""The annotation in which a pod asks for what Kubernetes does not know, such as ``links.mb_s=20 deadline=2h``."""
_OWN = "gpus", "site"
"""What pods say otherwise, or cannot say."""
_APP = "app.kubernetes.io/name", "app", "k8s-app"


class Added(NamedTuple):
    """What a site says of its pods and nodes beyond what Kubernetes does."""

    longest_us: int  # how long a pod that says nothing is expected to run
    additions: Additions = Additions({})
    models: tuple[Model, ...] = ()  # how fast pods run on the devices that they get
    servers: ServerPods | None = None  # by which GPUs of nodes are served to others; ``None``: they are not
    at_once: int = AT_ONCE  # devices that are attached at a time behind a switch


class Terms:
    """What pods ask of some nodes. Whatever any node has is counted, whether or not a pod asks for it.

    Parameters
    ----------
    nodes
        All of them, by name.
    added
        What a site adds to them, and how long a pod that says nothing is expected to run.
    tiers
        Which pods may preempt which; none: no pod is preempted.
    devices
        Those that pods may claim.
    taken, held
        Of the GPUs that are served those that are not for clients, and those that clients have.

    Attributes
    ----------
    is_mixed
        Some nodes have themselves what a device class stands for.

    Raises
    ------
    InputError
        There is none, one has an amount that is none, or they do not go with what the site adds.
    """

    def __init__(
        self, nodes: Mapping[str, Node], added: Added, tiers: frozenset[Tier] = frozenset(),
        devices: Devices | None = None, taken: Taken = NONE_TAKEN, held: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.tiers = tiers
        told, servers = nodes, added.servers
        if servers is not None:
            nodes = {name: without_gpus(servers, node) for name, node in nodes.items()}
        counted = [node for _, node in sorted(nodes.items()) if has_said(node)]
        everything = {resource: Fraction(1) for node in counted for resource in amounts_of(node)}
        names = [node.metadata.name for node in counted]
        self.machines: Machines = machines_of(
            counted, [{**everything, "cpu": Fraction(1, 1000)}], dict.fromkeys(names, 1)
        )
        content = {key: value for key, value in self.machines.content.items() if key != "drained"}
        content["site"] = {**content["site"], **keys_of(tiers)}
        self._claimable, by_name = devices, {node.metadata.name: node for node in counted}
        self.counters = None if devices is None else devices.counters(by_name)
        tables = () if self.counters is None else self.counters.tables()
        if tables:
            content["counted"] = [*content.get("counted", ()), *tables]
        number_of = Cluster.from_dict(content, "cluster").number_of
        self.names = tuple(sorted(names, key=number_of.__getitem__))
        self.content, self.added = added.additions.joined(content, self.names), added
        self.devices: tuple[str, ...] = ()
        if servers is not None and (pool := pool_of(servers, told, self.names, taken, held)) is not None:
            self.content["pools"], self.devices = [pool.table], pool.devices
        cluster = Cluster.from_dict(self.content, "cluster")
        self.names = tuple(sorted(names, key=cluster.number_of.__getitem__))
        own = {*self.machines.counters.values(), *(str(table["name"]) for table in tables)}
        askable = Askable.of(cluster).quantities.items()
        self._askable = Askable({word: key for word, key in askable if key[0] not in _OWN and key[1] not in own})
        self._nodes = {node.metadata.name: _without_closed(node) for node in counted}
        self._rooms = {name: room_of(node) for name, node in self._nodes.items()}
        mapped = () if devices is None else devices.store.mapped
        self.is_mixed = any(room.get(one) for one in mapped for room in self._rooms.values())
        self._where: dict[str, tuple[list[str], str]] = {}
        self._beyond: dict[tuple[str, tuple[tuple[str, int], ...]], str] = {}

    @property
    def adds(self) -> bool:
        """True if there is anything that pods may ask for in an annotation."""
        return bool(self._askable.quantities)

    def beginning(self, policy: Spec) -> Beginning:
        """The cluster, and a policy."""
        return Beginning(dict(self.content), self.names, policy, self.added.models, devices=self.devices)

    def asked(self, pod: Pod, key: str, off: Collection[str] = (), counted: set[str] | None = None) -> Job | Problem:
        """What a pod asks, submitted at 0; or why it is not to be started as it and the nodes are.

        A deadline is counted from when it was submitted. ``off``: nodes that the pods which are there keep it off.
        ``counted``: uids of claims that others of its gang ask for already, to which its own are added.
        """
        if pod.spec.scheduling_gates:
            gates = ", ".join(str(one.get("name")) for one in pod.spec.scheduling_gates)
            return Problem(printable(f"it is gated: {gates}", 300))
        if unkept := required(pod):
            return Problem(f"it asks for {unkept}: not kept by this scheduler", misread=True)
        try:
            asks, run_s = asked_of(pod), limit_s(pod)
            more = self.more(pod)
        except (ValueError, AskError) as error:
            return Problem(str(error)[:300], misread=True)
        where = asks_where(pod)
        if len(where) > MOST_WHERE:
            return Problem(
                f"it says in {len(where)} characters where it may run, of {MOST_WHERE} at most", misread=True
            )
        here, others = self._places(pod, where)
        if not here:
            return Problem(f"none of {len(self._nodes)} nodes is one that it may run on")
        found: Job | Problem | None = None
        for own, extended in self._ways(pod, here, off, asks):
            if not own:
                by = (
                    "its status, which names a claim,"
                    if extended
                    else "affinity, spread or ports of pods, or its volumes,"
                )
                return Problem(f"{by} keep it off all of {len(here)} nodes that it may run on")
            if own is not here:
                others = compress(sorted(self._nodes.keys() - set(own)))
            job = self._asked_of(pod, key, (asks, run_s, more), own, others, extended, counted)
            if isinstance(job, Job):
                return job
            found = found or job
        assert found is not None
        return found

    def _ways(
        self, pod: Pod, here: list[str], off: Collection[str], asks: Amounts
    ) -> list[tuple[list[str], frozenset[str]]]:
        """The nodes that a pod may have, by which of its extended resources are devices there: the best first.

        Nodes that have it themselves and free come first, then those where it is devices, then all others.
        """
        left = [name for name in here if name not in off] if off else here
        of_classes = extended_of(pod, self._claimable.store.mapped) if self._claimable is not None else ()
        if not of_classes or self._claimable is None or not left:
            return [(left, frozenset())]
        ways, fixed = dict[frozenset[str], list[str]](), fixed_in(pod)
        for name in left:
            way = frozenset(one for one in of_classes if not self._rooms[name].get(one))
            if way == (fixed or way):
                ways.setdefault(way, []).append(name)
        order = sorted(ways, key=lambda way: (len(way), sorted(way)))
        free = [
            way
            for way in order
            if any(
                self._claimable.is_free(name, {one: asks.get(one, 0) for one in of_classes if one not in way})
                for name in ways[way]
            )
        ]
        return [(ways[way], way) for way in (*free, *(one for one in order if one not in free))] or [([], fixed)]

    def _asked_of(
        self, pod: Pod, key: str, said: tuple[Amounts, int | None, Asks], own: list[str], without: str,
        extended: frozenset[str], counted: set[str] | None,
    ) -> Job | Problem:  # fmt: skip
        """What a pod asks of some nodes; ``without``: all others; ``extended``: what is devices there."""
        asks, run_s, more = said
        if extended:
            asks = {resource: amount for resource, amount in asks.items() if resource not in extended}
        if why := self._beyond_all(own, without, asks):
            return Problem(why)
        request_us = self.added.longest_us if run_s is None else max(run_s, 1) * SECOND_US
        job = self._job(pod, key, asks, request_us)
        if more.devices:
            devices = {kind: dict(of) for kind, of in job.demand.devices.items()}
            for (kind, quantity), amount in more.devices.items():
                if amount < devices.setdefault(kind, {}).get(quantity, 0):
                    return Problem(f"{ASKS}: less {kind}.{quantity} than its containers ask for", misread=True)
                devices[kind][quantity] = amount
            job = replace(job, demand=replace(job.demand, devices=devices))
        if pod.spec.resource_claims or extended:
            if self.counters is None or self._claimable is None:
                return Problem("it asks for claims of devices: not kept by this scheduler", misread=True)
            claimed = self._claimable.asked(pod, own, self._nodes, self.counters, counted, extended)
            if isinstance(claimed, str):
                return Problem(printable(claimed, 600))
            job = _with_counters(job, claimed.counters)
            without = compress(sorted((self._nodes.keys() - set(own)) | claimed.without))
        return replace(job, deadline_us=more.deadline_us, app=more.app or job.app, said={"exc_nodes": without})

    def more(self, pod: Pod) -> Asks:
        """What a pod asks for in an annotation.

        Raises
        ------
        AskError
            It cannot be understood.
        """
        text = pod.metadata.annotations.get(ASKS, "")
        if not text:
            return Asks()
        if len(text) > MOST_ASKS or {";", "\n"} & set(text):
            raise AskError(ASKS, f"{len(text)} characters", f"{MOST_ASKS} at most, on one line, without semicolons")
        found = self._askable.asks(f"unrack: {text}", ASKS)
        if found.memory_mb is not None or found.priority is not None:
            raise AskError(ASKS, "memory or a priority", "neither: the pod itself says so")
        return found

    def said(self, pods: tuple[Pod, ...]) -> dict[str, str]:
        """What a pod, or a gang, says of the pods that it may preempt."""
        tier = tier_of(pods) if self.tiers else None
        return {"qos": tier.name} if tier in self.tiers and tier is not None else {}

    def stands(self, pod: Pod, key: str, node: int, cluster: Cluster) -> tuple[Job, Lease]:
        """What a pod that is bound holds of its node, at most what that has; one that cannot be read: nothing much."""
        try:
            asks = asked_of(pod)
        except ValueError:
            asks = {}
        cores = min(max(asks.get("cpu", 0), 1), int(cluster.cores[node]))
        mb = min(asks.get("memory", 0), int(cluster.memory_mb[node]))
        lease = Lease.on(-1, [node], [1], [cores], [mb])
        if self._claimable is not None and (there := self._nodes.get(pod.spec.node_name)) is not None:
            devices = extended_on(pod, there, self._claimable.store.mapped)
            asks = {resource: amount for resource, amount in asks.items() if resource not in devices}
        job = self._job(pod, key, asks, self.added.longest_us)
        if self.counters is not None and self._claimable is not None and self._claimable.claims(pod):
            job = _with_counters(job, self._claimable.held(pod, self.counters))
        return replace(job, demand=replace(job.demand, cores=cores, memory_mb=0)), lease

    def _job(self, pod: Pod, key: str, asks: Amounts, request_us: int) -> Job:
        at = pod.metadata
        owner = next((one.name for one in at.owner_references if one.controller), "")
        app = next((at.labels[name] for name in _APP if name in at.labels), owner)
        demand = Demand(1, max(asks.get("cpu", 0), 1), asks.get("memory", 0), devices_of(asks, self.machines))
        return Job(0, key, 0, request_us, None, pod.spec.priority or 0, at.namespace, app, demand)

    def places(self, pod: Pod) -> list[str]:
        """The nodes on which a pod may run by what it says, and they do."""
        return self._places(pod, asks_where(pod))[0]

    def _places(self, pod: Pod, where: str) -> tuple[list[str], str]:
        """The nodes on which a pod may run, and a list of all others."""
        if where not in self._where:
            if len(self._where) >= MOST_WAYS:
                self._where.clear()
            here = [name for name, node in self._nodes.items() if may_run(pod, node)]
            others = self._nodes.keys() - set(here)
            self._where[where] = here, compress(sorted(others)) if others else ""
        return self._where[where]

    def _beyond_all(self, here: list[str], without: str, asks: Amounts) -> str:
        """Why none of some nodes could hold a pod if it were empty; ``""``: one could. ``without``: all others."""
        key = without, tuple(sorted(asks.items()))
        if key not in self._beyond:
            if len(self._beyond) >= MOST_WAYS:
                self._beyond.clear()
            said = dict[str, None]()
            for name in here:
                if not (why := beyond(asks, self._rooms[name])):
                    said.clear()
                    break
                said[why] = None
            of = "a node" if len(said) == 1 else f"any of {len(here)} nodes"
            self._beyond[key] = f"it asks for more than {of} that it may run on has: {next(iter(said))}" if said else ""
        return self._beyond[key]


def _with_counters(job: Job, counters: Mapping[str, int]) -> Job:
    """A job that holds of counters of devices too."""
    of = job.demand.devices
    devices = {**of, "counted": {**of.get("counted", {}), **counters}} if counters else of
    return replace(job, demand=replace(job.demand, devices=devices))


def _without_closed(node: Node) -> Node:
    """A node with taints that say nothing of whether it is in use, which the driver knows."""
    taints = [taint for taint in node.spec.taints if taint.key not in CLOSED]
    return Node(node.metadata, NodeSpec(False, taints), node.status)
