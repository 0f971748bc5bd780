"""Nodes and pods as the server tells of them: what each pod is to the driver, and what room there is."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from unrack.live.driver.seen import SeenJob, SeenNode, Shown
from unrack.live.kubernetes.adapter.asks import OVER, Amounts, asked_of, beyond, moment, room_of
from unrack.live.kubernetes.adapter.tiers import MOST, Tier, tier_of
from unrack.live.kubernetes.client.objects import Kind, Node, Pod
from unrack.live.kubernetes.client.others import NAMESPACES, Other
from unrack.live.kubernetes.constraints.beside import Beside
from unrack.live.kubernetes.devices.extended import extended_of
from unrack.live.kubernetes.gangs.gathering import Gathering
from unrack.live.kubernetes.gangs.naming import gang_of
from unrack.live.kubernetes.machines import is_open
from unrack.live.kubernetes.run_time import limit_s
from unrack.live.kubernetes.volumes.claims import KINDS as OF_VOLUMES
from unrack.live.kubernetes.volumes.claims import Volumes, claimed_by, uses
from unrack.live.kubernetes.volumes.limits import KINDS as OF_LIMITS

CLOSED = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of nodes on which nothing is started, whichever pods tolerate them."""
CUT_SHORT = frozenset({"Deleted", "Evicted"})
"""How pods end that do not end by themselves."""
_EVICTED = ("Evicted", "Preempting", "NodeShutdown", "Terminated", "DeletionByTaintManager", "TerminationByKubelet")


def key_of(pod: Pod) -> str:
    """What the driver calls a pod: one that is made again under its name is another job."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}/{pod.metadata.uid}"


def is_usable(node: Node) -> bool:
    """True if pods may be started on it."""
    keeps = any(taint.key in CLOSED and taint.effect != "PreferNoSchedule" for taint in node.spec.taints)
    return is_open(node) and not keeps and has_said(node)


def has_said(node: Node) -> bool:
    """True if it says what it has: a node that has just come does not."""
    return {"cpu", "memory"} <= (node.status.allocatable or node.status.capacity).keys()


class Picture:
    """Nodes and pods as they are known now. A reader of more than one thing holds :attr:`lock`.

    Parameters
    ----------
    scheduler
        Pods that name it are ours.
    preempts
        Whether it matters which pods may preempt which.

    Attributes
    ----------
    nodes, pods
        By name; by key.
    shown
        The pods that are jobs or hold something, by key; those that are gone are in :attr:`gone` until they are told.
    version, nodes_version, read_version
        Another number whenever anything has changed; and whenever something of nodes has that matters; and the version
        that was read last.
    tiers
        The tiers of the pods that are ours, and were.
    changed, claiming
        Keys of the pods that changed since it was cleared; of those that claim devices or volumes and have no node.
    """

    def __init__(self, scheduler: str, preempts: bool = False) -> None:
        self.scheduler, self.preempts, self.lock = scheduler, preempts, threading.RLock()
        self.nodes, self.pods = dict[str, Node](), dict[str, Pod]()
        self.shown, self.gone = dict[str, SeenJob](), dict[str, SeenJob]()
        self.version = self.nodes_version = 0
        self.read_version = -1
        self.changed, self.claiming = set[str](), set[str]()
        self.unreadable: dict[str, str] = {}
        self._assumed: dict[str, str] = {}  # key → the node to which it is being bound, or is, which was not told yet
        self._holds: dict[str, tuple[str, Amounts]] = {}
        self._held: dict[str, Counter[str]] = {}
        self._rooms: dict[str, Amounts] = {}
        self._ranks: dict[str, int] = {}
        self._came = 0
        self._nodes: tuple[int, tuple[SeenNode, ...]] = -1, ()  # as of this version
        self.gangs = Gathering(self.shown)
        self.tiers = frozenset[Tier]()
        self.beside, self.volumes = Beside(self.nodes), Volumes()
        self.of_classes: Mapping[str, str] = {}  # extended resources for which device classes stand

    # --- what the server tells ------------------------------------------------------------------------------------

    def take_nodes(self, changes: Iterable[tuple[Node | None, Node | None]]) -> None:
        """Nodes came, changed or went: each as it was, and as it is."""
        for before, after in changes:
            if before is not None and after is not None and _matters(before) == _matters(after):
                self.nodes[after.metadata.name] = after
                continue
            if after is None and before is not None:
                self.nodes.pop(before.metadata.name, None)
            elif after is not None:
                self.nodes[after.metadata.name] = after
            self.beside.version += 1
            self._rooms.clear()
            self.nodes_version += 1
            self.version += 1

    def take_pods(self, changes: Iterable[tuple[Pod | None, Pod | None]]) -> None:
        """Pods came, changed or went."""
        for before, after in changes:
            if after is not None:
                if before is None and (gang := gang_of(after)) is not None:
                    self.gangs.keys.setdefault(gang, {})[key_of(after)] = None
                self._note_tier(after)
                self.pods[key_of(after)] = after
                self._show(key_of(after))
            elif before is not None:
                self._go(key_of(before))
            self.version += 1

    def _note_tier(self, pod: Pod) -> None:
        """Note a new priority: the nodes count as others then, as they say which pods preempt which."""
        if self.preempts and pod.spec.scheduler_name == self.scheduler:
            tier = tier_of((pod,))
            if tier not in self.tiers and len(self.tiers) < MOST:
                self.tiers |= {tier}
                self.nodes_version += 1

    def take_others(self, kind: Kind[Other], changes: list[tuple[Other | None, Other | None]], lacking: str) -> None:
        """Objects of another kind came, changed or went; or why those that there may be are not known."""
        if kind is NAMESPACES:
            for before, after in changes:
                name = (after or before or Other()).metadata.name
                self.beside.namespaces[name] = {} if after is None else after.metadata.labels
            self.beside.version += 1
        elif kind in OF_VOLUMES:
            self.volumes.take(kind, changes, lacking)
        elif kind in OF_LIMITS:
            self.volumes.limits.take(kind, changes)
        else:
            self.gangs.groups.take(kind, changes, lacking)
        self.version += 1

    def _go(self, key: str) -> None:
        self.changed.add(key)
        self.claiming.discard(key)
        self._hold(key, "", None)
        was = self.shown.pop(key, None)
        if was is not None:
            over = was.state if was.shown == Shown.OVER else "Deleted"
            self.gone[key] = was._replace(
                shown=Shown.OVER, state=over, ran=bool(was.nodes) or was.ran, nodes=frozenset()
            )
        if (pod := self.pods.get(key)) is not None and (gang := gang_of(pod)) is not None:
            self.gangs.forget(gang, key)
        self.beside.forget(key)
        for of in (self.pods, self._assumed, self._ranks, self.unreadable):
            of.pop(key, None)

    def _show(self, key: str) -> None:
        """Say anew what a pod is, and what it holds."""
        pod = self.pods[key]
        self.changed.add(key)
        at, ours = pod.metadata, pod.spec.scheduler_name == self.scheduler
        claims = pod.spec.resource_claims or claimed_by(pod) or extended_of(pod, self.of_classes)
        (self.claiming.add if claims and not pod.spec.node_name else self.claiming.discard)(key)
        over = pod.status.phase in OVER or (bool(at.deletion_timestamp) and not pod.spec.node_name)
        if pod.spec.node_name or over:
            self._assumed.pop(key, None)
        node = pod.spec.node_name or self._assumed.get(key, "")
        self.unreadable.pop(key, None)
        asks: Amounts = {}
        try:
            asks = asked_of(pod)
        except ValueError as error:
            self.unreadable[key] = f"pod {at.namespace}/{at.name}: {error}"
        self._hold(key, "" if over else node, asks)
        if not ours and not pod.spec.node_name:
            self.shown.pop(key, None)
            return
        shown = Shown.RUNS if pod.spec.node_name else Shown.FREE if node else Shown.HELD
        self._came += key not in self._ranks
        rank = self._ranks.setdefault(key, self._came)
        created_s = int(moment(at.creation_timestamp))
        evicted = pod.status.phase == "Failed" and pod.status.reason in _EVICTED
        phase = "Deleted" if over and pod.status.phase not in OVER else pod.status.phase
        self.shown[key] = SeenJob(
            key, Shown.OVER if over else shown, (created_s, rank), pod, ours, submit_s=created_s,
            start_s=int(moment(pod.status.start_time)), limit_s=_limit_s(pod), state="Evicted" if evicted else phase,
            reason=pod.status.reason, told=(node,) if node else (),
            nodes=frozenset({node} if shown == Shown.RUNS and not over else ()), ran=over and bool(pod.spec.node_name),
        )  # fmt: skip

    def _hold(self, key: str, node: str, asks: Amounts | None) -> None:
        """Count what a pod holds of a node; ``""``: nothing."""
        was, pod = self._holds.pop(key, None), self.pods.get(key)
        if was is not None or (node and pod is not None):
            with_volumes = pod if pod is not None and pod.spec.volumes and claimed_by(pod) else None
            self.volumes.limits.hold(key, with_volumes, node, was[0] if was is not None else "")
        if was is not None:
            self._held[was[0]].subtract(was[1])
        self.beside.put(key, pod, node)
        if node and asks is not None:
            self._holds[key] = node, asks
            self._held.setdefault(node, Counter()).update(asks)

    # --- what is being done ---------------------------------------------------------------------------------------

    def cannot_start(self, key: str, name: str) -> str:
        """Why a pod cannot have a node, whatever is free; ``""``: it can."""
        if key not in self.pods:
            return "it is gone"
        pod, node = self.pods[key], self.nodes.get(name)
        if pod.spec.node_name not in ("", name):
            return f"it is bound to node {pod.spec.node_name}"
        if pod.spec.scheduling_gates:
            return "it is gated"
        return "" if node is not None and is_usable(node) else f"node {name} is not there, not ready or cordoned"

    def held(self, name: str) -> Counter[str]:
        """What pods hold of a node, and those that are being bound to it: those that are being ended count, too."""
        return self._held.get(name, Counter[str]())

    def has_room(self, key: str, name: str) -> bool:
        """True if nothing that is seen on a node keeps a pod from fitting."""
        asks, room = asked_of(self.pods[key]), self._room(name)
        return self.is_free(
            name, {key: amount for key, amount in asks.items() if key in room or key not in self.of_classes}
        )

    def is_free(self, name: str, asks: Amounts) -> bool:
        """True if so much of a node is free."""
        held = self.held(name)
        return not beyond(asks, {resource: amount - held[resource] for resource, amount in self._room(name).items()})

    def _room(self, name: str) -> Amounts:
        if name not in self._rooms:
            self._rooms[name] = room_of(self.nodes[name])
        return self._rooms[name]

    def take_classes(self, of_classes: Mapping[str, str]) -> None:
        """Other device classes stand for extended resources: pods that wait may have to be looked at again."""
        if of_classes != self.of_classes:
            self.of_classes = dict(of_classes)
            for key in [key for key, pod in self.pods.items() if not pod.spec.node_name]:
                self._show(key)

    def keeps_off(self, key: str, name: str) -> str:
        """Why a pod may not run on a node beside the pods that are there or are being bound; ``""``: it may."""
        pod = self.pods[key]
        kept = self.without_volumes(pod)
        if kept and (isinstance(kept, str) or name in kept):
            return kept if isinstance(kept, str) else f"a volume that it claims cannot be had on node {name}"
        terms = self.beside.required(key, pod)
        if not self.beside.matters(terms) or name not in self.beside.forbidden(pod, terms):
            return ""
        return f"pods that are there by now keep it off node {name}"

    def without_volumes(self, pod: Pod) -> set[str] | str:
        """The nodes on which a pod has not the volumes that it claims; or why it has them nowhere now."""
        if not pod.spec.volumes or not claimed_by(pod):
            return set()
        at = pod.metadata

        def is_used(claim: str) -> bool:
            return any(uses(one, claim, at.namespace) for one, _, _ in self.holding() if one.metadata.uid != at.uid)

        return self.volumes.keep_off(pod, self.nodes, is_used)

    def assume(self, key: str, name: str) -> None:
        """A pod is being bound."""
        self._assumed[key] = name
        self._show(key)

    def assume_not(self, key: str) -> None:
        """A pod was not bound, or it is not known whether it was."""
        if self._assumed.pop(key, None) is not None and key in self.pods:
            self._show(key)

    def holding(self) -> Iterator[tuple[Pod, str, Amounts]]:
        """The pods that hold something of a node: which node, and what they ask of it."""
        return ((self.pods[key], node, asks) for key, (node, asks) in self._holds.items())

    def live(self) -> set[str]:
        """The uids of the pods that are not over."""
        return {pod.metadata.uid for pod in self.pods.values() if pod.status.phase not in OVER}

    def seen_nodes(self) -> tuple[SeenNode, ...]:
        """The nodes, by name; the same object as long as nothing of them has changed that matters."""
        if self._nodes[0] != self.nodes_version:
            found = tuple(SeenNode(name, is_usable(self.nodes[name])) for name in sorted(self.nodes))
            self._nodes = self.nodes_version, found
        return self._nodes[1]


def _matters(node: Node) -> Any:
    of = node.status.allocatable or node.status.capacity
    return node.metadata.uid, node.metadata.labels, node.spec.taints, of, is_usable(node)


def _limit_s(pod: Pod) -> int | None:
    try:
        return limit_s(pod)
    except ValueError:
        return pod.spec.active_deadline_seconds
