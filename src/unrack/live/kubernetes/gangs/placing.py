"""Nodes for the pods of a gang that are in each other's way, or have to be together: one after the other.

Each pod gets a node as kube-scheduler would find it beside those that are there and those of the gang that were placed
before it; of those that have room the fullest. Where the first pod of those that belong together opens a place (its
zone, its rack, the node of the claim that they share), all such places are tried, one after the other, until all pods
have a node: kube-scheduler goes by the first. Nothing here asks a server, a clock or chance.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from heapq import merge
from typing import NamedTuple

from unrack.live.kubernetes.adapter.asks import Amounts, asked_of, beyond
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.constraints.beside import Beside, PodTerms
from unrack.live.kubernetes.devices.objects import Claim
from unrack.live.kubernetes.devices.trial import DeviceTrial

MOST_STEPS = 20_000
"""Nodes that are tried for the pods of a gang before it is given up, which is said."""


class Member(NamedTuple):
    """A pod of a gang, and the nodes on which it may run if only these are looked at, in order.

    ``special``: of nodes where extended resources are devices what it asks for beside these, and its claim for them.
    """

    key: str
    pod: Pod
    here: Sequence[str]
    required: PodTerms
    claims: Sequence[Claim]
    special: Mapping[str, tuple[Amounts, Claim]] = {}

    def on(self, name: str, asks: Amounts) -> tuple[Amounts, Sequence[Claim]]:
        """What it asks for on a node, and its claims there; ``asks``: what on all others."""
        if name not in self.special:
            return asks, self.claims
        beside, claim = self.special[name]
        return beside, (*self.claims, claim)


class Free(NamedTuple):
    """What is free: of each node; and of devices. ``lacking``: what of a node is not free now, though it may be."""

    rooms: Mapping[str, Amounts]
    devices: DeviceTrial
    lacking: Callable[[str, Amounts], bool]


class _Taken(NamedTuple):
    """A node that was tried."""

    node: str
    claims: list[Claim]


class Placing:
    """Places the pods of a gang.

    Parameters
    ----------
    nodes, beside
        All nodes; the pods that are there.
    members
        The pods, in order.
    alike
        Labels of which the nodes of all of them must have the same values.
    """

    def __init__(
        self, nodes: Mapping[str, Node], beside: Beside, members: Sequence[Member], alike: Sequence[str] = ()
    ) -> None:
        self._nodes, self._members, self._alike = nodes, members, alike
        self._beside = beside.about((one.pod, one.required) for one in members)
        shared = [one.metadata.uid for member in members for one in member.claims]
        self._shared = {uid for uid in shared if shared.count(uid) > 1}
        self._rooms = dict[str, dict[str, int]]()  # of nodes that pods of the gang were put on
        self._sorted = dict[Hashable, tuple[list[str], frozenset[str]]]()
        self._steps, self._taken = 0, list[_Taken]()
        self._best = 0, ""

    def found(self, free: Free) -> list[str] | str:
        """The node of each pod, or how far that went, in numbers."""
        self._steps, self._best, self._rooms, self._sorted = 0, (0, ""), {}, {}
        ways = list[Generator[bool]]()
        ways.append(self._nodes_of(0, free))
        while ways:
            if not next(ways[-1], False):
                ways.pop()
            elif len(ways) == len(self._members):
                found = [one.node for one in self._taken]
                for way in reversed(ways):
                    way.close()
                return found
            else:
                ways.append(self._nodes_of(len(ways), free))
        count, why = self._best
        gave_up = f", given up after {MOST_STEPS} steps" if self._steps > MOST_STEPS else ""
        return f"of the {len(self._members)} pods of its gang {count} would have nodes{gave_up}: {why}"

    def _nodes_of(self, number: int, free: Free) -> Generator[bool]:
        """Take one node after the other for a pod, as long as that may matter to those after it."""
        member = self._members[number]
        asks, key = asked_of(member.pod), member.key
        off, seen = self._beside.forbidden(member.pod, member.required), set[Hashable]()
        opens, lacked = self._opens(number, free), 0
        for name in self._with_room(member, asks, free):
            place = self._place(member, name) if opens else None
            if name in off or not self._is_alike(name) or place in seen or self._steps > MOST_STEPS:
                continue
            self._steps += 1
            claims = self._devices_on(member, name, free)
            if claims is None:
                lacked += 1
                continue
            seen.add(place)
            self._taken.append(_Taken(name, claims))
            self._add(name, member.on(name, asks)[0], 1, free)
            self._beside.put(key, member.pod, name)
            try:
                yield True
            finally:
                self._beside.put(key, None, "")
                self._add(name, member.on(name, asks)[0], -1, free)
                self._taken.pop()
                free.devices.give_back(claims)
            if not opens:
                break
        if number >= self._best[0]:
            left = [name for name in member.here if name not in off and self._is_alike(name)]
            full = sum(bool(beyond(member.on(name, asks)[0], self._room(name, free))) for name in left)
            away = len(member.here) - len(left)
            without = f", {lacked} have no devices for it" if lacked else ""
            why = f"of {len(member.here)} for pod {member.pod.metadata.name} {away} are kept from it by pods or labels"
            self._best = number, f"{why}, {full} have no room{without}"

    def _with_room(self, member: Member, asks: Amounts, free: Free) -> list[str]:
        """The nodes of a pod that have room for it: what has it now first, then the fullest, then by name."""

        def cost(name: str) -> tuple[object, ...]:
            room, lacking = self._room(name, free), free.lacking(name, member.on(name, asks)[0])
            fullness = (room.get(resource, 0) for resource in ("cpu", "memory"))
            return lacking, name in member.special, *fullness, name

        alike = id(member.here), tuple(sorted(asks.items()))
        if alike not in self._sorted:  # as if no other pod of the gang had a node yet
            whole = [name for name in member.here if not beyond(member.on(name, asks)[0], free.rooms[name])]
            rooms, self._rooms = self._rooms, {}
            self._sorted[alike] = sorted(whole, key=cost), frozenset(whole)
            self._rooms = rooms
        order, every = self._sorted[alike]
        mine = [
            name for name, room in self._rooms.items() if name in every and not beyond(member.on(name, asks)[0], room)
        ]
        return list(merge([name for name in order if name not in self._rooms], sorted(mine, key=cost), key=cost))

    def _opens(self, number: int, free: Free) -> bool:
        """Whether where a pod is decides where others may be: it is the first of those that belong together."""
        member, before = self._members[number], self._members[:number]
        if (self._alike and not number) or any(
            one.metadata.uid in self._shared for one in free.devices.lacking(member.claims)
        ):
            return True
        to = repr(member.required.to)
        return bool(member.required.to) and all(repr(one.required.to) != to for one in before)

    def _place(self, member: Member, name: str) -> Hashable:
        """The same for nodes of which one is as good as another to those that belong together with a pod."""
        labels = self._nodes[name].metadata.labels
        shares = any(one.metadata.uid in self._shared for one in member.claims)
        keys = [*self._alike, *(term.key for term in member.required.to)]
        return *(labels.get(key) for key in keys), name if shares else ""

    def _is_alike(self, name: str) -> bool:
        labels = self._nodes[name].metadata.labels
        first = self._nodes[self._taken[0].node].metadata.labels if self._taken else labels
        return all(key in labels and labels[key] == first.get(key) for key in self._alike)

    def _devices_on(self, member: Member, name: str, free: Free) -> list[Claim] | None:
        """The claims that are given devices if a pod is on a node; ``None``: they cannot be, or have others."""
        every = member.on(name, {})[1]
        if not every:
            return []
        node, trial = self._nodes[name], free.devices
        claims = trial.lacking(every)
        if not trial.reaches(every, node) or trial.give(claims, node):
            return None
        return claims

    def _room(self, name: str, free: Free) -> Mapping[str, int]:
        return self._rooms.get(name, free.rooms[name])

    def _add(self, name: str, asks: Amounts, sign: int, free: Free) -> None:
        room = self._rooms.setdefault(name, dict(free.rooms[name]))
        for resource, amount in asks.items():
            room[resource] = room.get(resource, 0) - sign * amount
