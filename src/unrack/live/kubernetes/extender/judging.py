"""Where a pod fits, by what is seen and being bound; and which of these nodes the policy would rather have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from unrack.events import Adopted, Drained, Repaired, Submitted, Withdrawn
from unrack.ledger.lease import Lease
from unrack.live.driver.state.epoch import Epoch, Spec
from unrack.live.driver.turns.holding import with_claims
from unrack.live.kubernetes.adapter.asks import Amounts, asked_of, beyond, devices_of, room_of
from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.adapter.terms import ASKS, Added, Terms
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.extender.messages import BEST_SCORE
from unrack.live.printable import printable
from unrack.policy.around.around import AroundAnother
from unrack.policy.placement.any_resource import AnyResource
from unrack.policy.preemption.preempting import Preempting
from unrack.reasons import Code, Reason
from unrack.workload.job import Demand, Job

LONGEST_US = 7 * 86_400 * 1_000_000
"""How long all pods are taken to run: which is first is the business of kube-scheduler."""
MOST_JOBS = 20_000
"""So many jobs a ledger takes before it is made anew: it forgets none."""
_GONE = Reason(Code.WITHDRAWN, "asked")


class Unfit(NamedTuple):
    """The nodes on which a pod does not fit, and why."""

    later: dict[str, str]  # as things are
    never: dict[str, str]  # whichever pods end


def placing_of(policy: Any) -> tuple[AnyResource | None, str]:
    """The part of a policy that chooses a place for a job by itself; or which policy is wanted instead."""
    while isinstance(policy, AroundAnother):
        if isinstance(policy, Preempting) and policy.on:
            return None, "one without preempt: kube-scheduler preempts"
        policy = policy.inner
    if not isinstance(policy, AnyResource):
        return None, "one that places job by job, such as list or easy"
    if policy.nodes == "whole":
        return None, "one of shared nodes: kube-scheduler knows no others"
    return (None, "one that lends no memory: a pod has that of its node alone") if policy.lends else (policy, "")


class Judge:
    """What kube-scheduler is told of pods and nodes.

    Parameters
    ----------
    picture, policy
        What is known; what places pods.
    """

    def __init__(self, picture: Picture, policy: Spec) -> None:
        self.picture, self._policy = picture, policy
        self._rooms = dict[str, tuple[Node, Amounts]]()
        self._ledger: tuple[int, _Ledger] | None = None

    def unfit(self, pod: Pod, names: Iterable[str]) -> Unfit:
        """The nodes among some on which a pod has no room. What no node has is left to kube-scheduler, and all else."""
        found, names = Unfit({}, {}), list(names)
        if ASKS in pod.metadata.annotations:
            return Unfit({}, dict.fromkeys(names, f"its annotation {ASKS} is kept by unrack kubernetes run alone"))
        try:
            asks = asked_of(pod)
        except ValueError as error:
            return Unfit({}, dict.fromkeys(names, printable(str(error), 300)))
        with self.picture.lock:
            self.picture.gone.clear()  # which a driver would be told
            self._rooms = {name: self._room(node) for name, node in self.picture.nodes.items()}
            rooms = {name: room for name, (_, room) in self._rooms.items()}
            counted = {resource for room in rooms.values() for resource in room}
            asks = {resource: amount for resource, amount in asks.items() if resource in counted}
            for name in names:
                room, held = rooms.get(name), self.picture.held(name)
                if room is None:
                    found.later[name] = "the extender does not know this node yet"
                elif why := beyond(asks, room):
                    found.never[name] = f"it asks for {why}"
                elif why := beyond(asks, {resource: room.get(resource, 0) - held[resource] for resource in asks}):
                    found.later[name] = f"too little is free: it asks for {why}"
        return found

    def _room(self, node: Node) -> tuple[Node, Amounts]:
        kept = self._rooms.get(node.metadata.name)
        return kept if kept is not None and kept[0] is node else (node, room_of(node))

    def ranked(self, pod: Pod, names: Sequence[str]) -> list[str]:
        """The nodes among some that the policy would take first, second and so on, as many as have scores."""
        unfit = self.unfit(pod, names)
        if not (names := [name for name in names if name not in unfit.later and name not in unfit.never]):
            return []
        with self.picture.lock:
            version, kept = self.picture.nodes_version, self._ledger
            if kept is None or kept[0] != version or kept[1].jobs > MOST_JOBS:
                kept = self._ledger = version, _Ledger(self.picture.nodes, self._policy)
            kept[1].hold(self.picture)
            return kept[1].ranked(pod, names)


class _Ledger:
    """Nodes as policies see them: what the pods of each hold together is one job."""

    def __init__(self, nodes: Mapping[str, Node], policy: Spec) -> None:
        terms = Terms(nodes, Added(LONGEST_US))
        self._epoch, self._machines = Epoch(terms.beginning(policy)), terms.machines
        placing, why = placing_of(self._epoch.policy)
        assert placing is not None, why
        self._placing = placing.placement
        self._rooms = {name: room_of(nodes[name]) for name in self._epoch.names.nodes}
        self._held = dict[str, Amounts]()
        self._jobs = dict[str, int]()  # node → the job that holds what its pods do
        self._closed = set[int]()

    @property
    def jobs(self) -> int:
        """How many it has seen."""
        return self._epoch.core.state.jobs

    def hold(self, picture: Picture) -> None:
        """Hold what pods hold now."""
        for name, room in self._rooms.items():
            held = {key: min(amount, room.get(key, 0)) for key, amount in picture.held(name).items() if amount > 0}
            if held != self._held.get(name, {}):
                self._held[name] = held
                if (job := self._jobs.pop(name, None)) is not None:
                    self._epoch.tell(Withdrawn(job, _GONE), 0)
                if held:
                    self._adopt(name, held)
        self._epoch.taken()

    def _adopt(self, name: str, held: Amounts) -> None:
        core, node = self._epoch.core, self._epoch.names.node_of[name]
        self._open(set(range(len(self._rooms))) - self._closed | {node})
        cores = min(max(held.get("cpu", 0), 1), int(core.view.total[0, node]))
        lease = Lease.on(-1, [node], [1], [cores], [held.get("memory", 0)])
        number, job = self.jobs, self._job({**held, "cpu": cores})
        self._epoch.tell(Adopted(job, with_claims(core, job, lease), LONGEST_US), 0)
        self._jobs[name] = number

    def _job(self, asks: Amounts) -> Job:
        devices = devices_of(asks, self._machines)
        return Job(
            0, "", 0, LONGEST_US, None, 0, "", "", Demand(1, max(asks.get("cpu", 0), 1), asks.get("memory", 0), devices)
        )

    def ranked(self, pod: Pod, names: Sequence[str]) -> list[str]:
        """As of :class:`Judge`."""
        epoch, job = self._epoch, self._job(asked_of(pod))
        wanted = {epoch.names.node_of[name] for name in names if name in epoch.names.node_of}
        self._open(wanted)
        number, refused = epoch.submit(Submitted(job), 0)
        ranked: list[str] = []
        if not refused:
            view = epoch.core.view
            notes = self._placing.begin(view)
            while len(ranked) < min(BEST_SCORE, len(names)):
                lease = self._placing.find(view, notes, number, 0)
                if lease is None:
                    break
                wanted -= set(lease.nodes.tolist())
                ranked.append(epoch.names.nodes[int(lease.nodes[0])])
                self._open(wanted)
            epoch.tell(Withdrawn(number, _GONE), 0)
        epoch.taken()
        return ranked

    def _open(self, wanted: set[int]) -> None:
        """Let pods go to these nodes, and no others."""
        closed = set(range(len(self._rooms))) - wanted
        if opened := sorted(self._closed - closed):
            self._epoch.tell(Repaired(tuple(opened)), 0)
        if shut := sorted(closed - self._closed):
            self._epoch.tell(Drained(tuple(shut)), 0)
        self._closed = closed
