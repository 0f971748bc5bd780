"""Devices for the claims of several pods, one after the other: what would be given, and nothing of it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.devices.allocator import Given, HeldDevices
from unrack.live.kubernetes.devices.objects import Claim
from unrack.live.kubernetes.devices.store import GivenDevice, Store, count, is_for
from unrack.live.kubernetes.devices.wanted import WantedError

Placed = Sequence[tuple[Pod, Node]]
"""Pods, each with the node that it is to have."""


class Short(NamedTuple):
    """Why some pods cannot all have their devices: the first that cannot beside those before it, its node, and why."""

    pod: Pod
    node: Node
    why: str


class DeviceTrial:
    """What claims would be given, of what is not held.

    Parameters
    ----------
    store
        What there is.
    held
        What is held, which changes with the trial.

    Attributes
    ----------
    given
        By uid of a claim, its devices.
    """

    def __init__(self, store: Store, held: HeldDevices) -> None:
        self.given = dict[str, list[Given]]()
        self._store, self._held = store, held
        self._binds = dict[str, str]()  # by uid of a claim, the only node that reaches its devices once it has them

    def give(self, claims: Sequence[Claim], *nodes: Node) -> str:
        """Devices for claims that have none, which all of some nodes reach; ``""``, or why not: then none has any.

        Raises
        ------
        WantedError
            They cannot be had anywhere.
        """
        wanted = [self._store.wanted(claim) for claim in claims]
        found = self._store.search_on(self._held).allocate(wanted, *nodes) if wanted else []
        if isinstance(found, str):
            return found
        self.given |= {claim.metadata.uid: [] for claim in claims}
        for one in found:
            self.given[one.claim].append(one)
            if one.device.binds:
                self._binds[one.claim] = nodes[0].metadata.name
        self._count(found, 1)
        return ""

    def give_back(self, claims: Iterable[Claim]) -> None:
        """Claims that were given devices here have none."""
        for claim in claims:
            self._count(self.given.pop(claim.metadata.uid), -1)
            self._binds.pop(claim.metadata.uid, None)

    def lacking(self, claims: Iterable[Claim]) -> list[Claim]:
        """Those of some claims that have no devices, neither here nor as the server says."""
        return [one for one in claims if one.status.allocation is None and one.metadata.uid not in self.given]

    def reaches(self, claims: Iterable[Claim], node: Node) -> bool:
        """Whether a node can use all devices that some claims have, here or as the server says."""
        for claim in claims:
            uid, name = claim.metadata.uid, node.metadata.name
            given = [one.device.is_reached(node) for one in self.given.get(uid, ())]
            here = self._binds.get(uid, name) == name and all(given)
            if not (here if claim.status.allocation is None else is_for(claim, node)):
                return False
        return True

    def place(self, pods: Placed) -> Short | None:
        """Devices for all claims of some pods that have none; or which pod comes short.

        A claim that pods of several nodes share comes first. Those of each node are looked for together: which device
        the first has may decide whether there is one for the last.

        Raises
        ------
        WantedError
            A claim is not there, or cannot be had anywhere.
        """
        users = dict[str, tuple[Claim, dict[str, tuple[Pod, Node]]]]()
        for pod, node in pods:
            for claim in self.lacking(self._store.claims_on(pod, node)):
                users.setdefault(claim.metadata.uid, (claim, {}))[1].setdefault(node.metadata.name, (pod, node))
        for claim, at in users.values():
            if len(at) > 1 and (why := self.give([claim], *(node for _, node in at.values()))):
                return Short(*next(iter(at.values())), f"{len(at)} nodes share claim {claim.metadata.name}: {why}")
        by_node = dict[str, list[tuple[Pod, Node]]]()
        for pod, node in pods:
            by_node.setdefault(node.metadata.name, []).append((pod, node))
        for some in by_node.values():
            if (short := self._place_on(some)) is not None:
                return short
        return None

    def whys(self, pods: Sequence[Placed]) -> list[str]:
        """Of pods that start one after the other why they would not get their devices; ``""``: they would."""
        found = list[str]()
        for some in pods:
            try:
                short = self.place(some)
                found.append("" if short is None else short.why)
            except WantedError as error:
                found.append(str(error))
        return found

    def _place_on(self, pods: Placed) -> Short | None:
        """The same for pods on one node."""
        node = pods[0][1]
        each = [self._store.claims_on(pod, node) for pod, _ in pods]
        if not self.give(self.lacking({one.metadata.uid: one for of in each for one in of}.values()), node):
            return None
        for number, (pod, _) in enumerate(pods):  # which of them is the first that is one too many?
            some = self.lacking({one.metadata.uid: one for of in each[: number + 1] for one in of}.values())
            if why := self.give(some, node):
                return Short(pod, node, why)
            self.give_back(some)
        return Short(*pods[-1], "its devices do not fit together with those of its gang")

    def _count(self, given: Iterable[Given], sign: int) -> None:
        count(self._held, [GivenDevice(one.device.id, one.consumed) for one in given], sign)
