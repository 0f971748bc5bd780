"""Where a pod fits, by what is seen and being bound; and which of these nodes the policy would rather have."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from unrack.errors import InputError
from unrack.events import Adopted, Drained, Repaired, Submitted, Withdrawn
from unrack.ledger.lease import Lease
from unrack.live.asks.asks import AskError
from unrack.live.driver.state.epoch import Epoch, Spec
from unrack.live.driver.turns.holding import with_claims
from unrack.live.kubernetes.adapter.asks import Amounts, asked_of, beyond, devices_of, room_of
from unrack.live.kubernetes.adapter.picture import Picture
from unrack.live.kubernetes.adapter.terms import ASKS, MOST_ASKS, MOST_WAYS, Added, Terms
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.extender.messages import BEST_SCORE
from unrack.live.printable import printable
from unrack.policy.around import AroundAnother
from unrack.policy.contract import Reject
from unrack.policy.placement.any_resource import AnyResource
from unrack.policy.placement.claiming import claiming
from unrack.policy.preemption.preempting import Preempting
from unrack.reasons import Code, Reason
from unrack.workload.job import Demand, Job

LONGEST_US = 7 * 86_400 * 1_000_000
"""How long all pods are taken to run: which is first is the business of kube-scheduler."""
ADDED = Added(LONGEST_US)
"""What a site says that says nothing."""
MOST_JOBS = 20_000
"""So many jobs a ledger takes before it is made anew: it forgets none."""
_GONE = Reason(Code.WITHDRAWN, "asked")
More = Mapping[tuple[str, str], int]
"""What pods ask for in an annotation, by kind and quantity."""


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
    added
        What a site says of its nodes beyond what Kubernetes does.
    """

    def __init__(self, picture: Picture, policy: Spec, added: Added = ADDED) -> None:
        self.picture, self._policy, self._added = picture, policy, added
        self._rooms = dict[str, tuple[Node, Amounts]]()
        self._ledger: tuple[int, _Ledger] | None = None

    def unfit(self, pod: Pod, names: Iterable[str]) -> Unfit:
        """The nodes among some on which a pod has no room. What no node has is left to kube-scheduler, and all else."""
        found, names = Unfit({}, {}), list(names)
        with self.picture.lock:
            try:
                asks = asked_of(pod)
                lacking = self._at_present().lacking(pod, names) if ASKS in pod.metadata.annotations else {}
            except (ValueError, AskError) as error:
                return Unfit({}, dict.fromkeys(names, printable(str(error), 300)))
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
                elif name in lacking:
                    found.later[name] = lacking[name]
        return found

    def _room(self, node: Node) -> tuple[Node, Amounts]:
        kept = self._rooms.get(node.metadata.name)
        return kept if kept is not None and kept[0] is node else (node, room_of(node))

    def ranked(self, pod: Pod, names: Sequence[str]) -> list[str]:
        """The nodes among some that the policy would take first, second and so on, as many as have scores."""
        with self.picture.lock:
            ledger, unfit = self._at_present(), self.unfit(pod, names)
            names = [name for name in names if name not in unfit.later and name not in unfit.never]
            return ledger.ranked(pod, names) if names else []

    def _at_present(self) -> _Ledger:
        """The ledger, with what pods hold now; of nodes that the site names and that have gone it keeps the books."""
        version, kept = self.picture.nodes_version, self._ledger
        if kept is None or kept[0] != version or kept[1].jobs > MOST_JOBS:
            try:
                made = _Ledger(self.picture.nodes, self._policy, self._added)
            except InputError:
                if kept is None:
                    raise
                made = kept[1]
            kept = self._ledger = version, made
        kept[1].hold(self.picture)
        return kept[1]


def _in_numbers(why: Reason | None) -> str:
    if why is None:
        return "what its annotation asks for"
    return f"it asks for {why.asked} of {why.what}, of which there are {why.free}"


class _Ledger:
    """Nodes as policies see them: what the pods of each hold together is one job."""

    def __init__(self, nodes: Mapping[str, Node], policy: Spec, added: Added) -> None:
        self._terms = terms = Terms(nodes, added)
        self._epoch, self._machines = Epoch(terms.beginning(policy)), terms.machines
        placing, why = placing_of(self._epoch.policy)
        assert placing is not None, why
        self._placing = placing.placement
        self._rooms = {name: room_of(nodes[name]) for name in self._epoch.names.nodes}
        self._held = dict[str, tuple[Amounts, More]]()
        self._said = dict[str, More]()  # annotation → what it asks for
        self._short = dict[str, None]()  # nodes of which pods say that they hold more than there is
        self._jobs = dict[str, int]()  # node → the job that holds what its pods do
        self._closed = set[int]()

    @property
    def jobs(self) -> int:
        """How many it has seen."""
        return self._epoch.core.state.jobs

    def hold(self, picture: Picture) -> None:
        """Hold what pods hold now."""
        more, changed = self._held_more(picture), self._short
        for name, room in self._rooms.items():
            held = {key: min(amount, room.get(key, 0)) for key, amount in picture.held(name).items() if amount > 0}
            its = held, more.get(name, {})
            if its != self._held.get(name, ({}, {})):
                self._held[name] = its
                changed[name] = None
        for name in changed:
            if (job := self._jobs.pop(name, None)) is not None:
                self._epoch.tell(Withdrawn(job, _GONE), 0)
        self._short = {name: None for name in changed if self._held[name][0] and not self._adopt(name)}
        self._epoch.taken()

    def _held_more(self, picture: Picture) -> dict[str, More]:
        """What the pods of each node hold by their annotations; of one that cannot be understood: nothing."""
        found = dict[str, Counter[tuple[str, str]]]()
        for pod, node, _ in picture.holding() if self._terms.adds else ():
            if text := pod.metadata.annotations.get(ASKS, ""):
                found.setdefault(node, Counter()).update(self._more(pod, text))
        return dict(found)

    def _more(self, pod: Pod, text: str) -> More:
        if len(text) > MOST_ASKS:  # which is refused, and not to be remembered
            return {}
        if text not in self._said:
            if len(self._said) >= MOST_WAYS:
                self._said.clear()
            try:
                self._said[text] = self._terms.more(pod).devices
            except AskError:
                self._said[text] = {}
        return self._said[text]

    def _adopt(self, name: str) -> bool:
        """Hold what the pods of a node do; False: less than they say."""
        held, more = self._held[name]
        core, node = self._epoch.core, self._epoch.names.node_of[name]
        self._open(set(range(len(self._rooms))) - self._closed | {node})
        cores = min(max(held.get("cpu", 0), 1), int(core.view.total[0, node]))
        lease = Lease.on(-1, [node], [1], [cores], [held.get("memory", 0)])
        for what in (dict(more), self._at_most(more, lease), {}):
            number, job = self.jobs, self._job({**held, "cpu": cores}, what)
            if self._epoch.attempt(Adopted(job, with_claims(core, job, lease), LONGEST_US), 0):
                self._jobs[name] = number
                return what == more
        return False

    def _at_most(self, more: More, lease: Lease) -> More:
        """What pods say that they hold, as far as it is free: what they say is not checked when others bind them."""
        found, core = dict[tuple[str, str], int](), self._epoch.core
        for key, amount in more.items():
            claims = with_claims(core, self._job({}, {key: amount}), lease).claims
            free = core.state.claimed.free if core.state.claimed is not None else ()
            shares = [Fraction(int(free[place]), need) for place, need in claims.tolist() if need > free[place]]
            found[key] = math.floor(amount * min(shares, default=Fraction(1)))
        return {key: amount for key, amount in found.items() if amount > 0}

    def _job(self, asks: Amounts, more: More) -> Job:
        devices = devices_of(asks, self._machines)
        for (kind, quantity), amount in more.items():
            devices.setdefault(kind, {})[quantity] = amount
        return Job(
            0, "", 0, LONGEST_US, None, 0, "", "", Demand(1, max(asks.get("cpu", 0), 1), asks.get("memory", 0), devices)
        )

    def ranked(self, pod: Pod, names: Sequence[str]) -> list[str]:
        """As of :class:`Judge`."""
        epoch, job = self._epoch, self._job(asked_of(pod), self._terms.more(pod).devices)
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

    def lacking(self, pod: Pod, names: Sequence[str]) -> dict[str, str]:
        """The nodes among some on which a pod lacks what its annotation asks for, and why.

        Raises
        ------
        AskError, ValueError
            It cannot be understood; an amount is no quantity.
        """
        epoch, job = self._epoch, self._job(asked_of(pod), self._terms.more(pod).devices)
        here = {name: epoch.names.node_of[name] for name in names if name in epoch.names.node_of}
        self._open(set(here.values()))
        number, refused = epoch.submit(Submitted(job), 0)
        if refused:
            epoch.taken()
            why = next((one.reason for one in refused if isinstance(one, Reject)), None)
            return dict.fromkeys(names, f"no node has as much: {_in_numbers(why)}")
        claims, found = claiming(epoch.core.view, number), dict[str, str]()
        if claims is not None:
            fits = claims.open_nodes(epoch.core.view.columns.free)
            for name in names:
                if name not in here:
                    found[name] = "the extender does not know this node yet"
                elif not fits[here[name]]:
                    found[name] = f"too little is free: {_in_numbers(claims.short(here[name], ()) or claims.lacks())}"
        epoch.tell(Withdrawn(number, _GONE), 0)
        epoch.taken()
        return found

    def _open(self, wanted: set[int]) -> None:
        """Let pods go to these nodes, and no others."""
        closed = set(range(len(self._rooms))) - wanted
        if opened := sorted(self._closed - closed):
            self._epoch.tell(Repaired(tuple(opened)), 0)
        if shut := sorted(closed - self._closed):
            self._epoch.tell(Drained(tuple(shut)), 0)
        self._closed = closed
