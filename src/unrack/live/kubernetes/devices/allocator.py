"""Which devices the claims of a pod get on a node, of those that are free: an exact search, with a bound on effort.

Nothing here asks a server, a clock or chance. Devices that no request and no constraint could tell apart count as one
where a choice has failed, which is what makes the search short; the order in which devices are tried is the wish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from unrack.live.kubernetes.client.objects import Node
from unrack.live.kubernetes.devices.pools import CounterId, Device, DeviceId, Pools
from unrack.live.kubernetes.devices.selectors import SelectorError, Selectors
from unrack.live.kubernetes.devices.wanted import MOST_DEVICES, Alternative, Wanted, WantedError

MOST_STEPS = 20_000
"""Devices that a search may look at before it gives up, which it says."""


@dataclass
class HeldDevices:
    """What claims have: whole devices, parts of shared ones, and how many claims have a part of each of these."""

    whole: Counter[DeviceId] = field(default_factory=Counter)
    parts: Counter[DeviceId] = field(default_factory=Counter)
    consumed: dict[DeviceId, dict[str, Fraction]] = field(default_factory=dict)

    def is_used(self, device: DeviceId) -> bool:
        """Whether any claim has it, or a part of it."""
        return bool(self.whole[device] or self.parts[device])


class Given(NamedTuple):
    """A device for a request, and how much of it; nothing: the whole device."""

    claim: str
    alternative: Alternative
    device: Device
    consumed: Mapping[str, Fraction] | None


class DeviceSearch:
    """What fits, for one state of pools and of what is held.

    Parameters
    ----------
    pools, held, selectors
        The devices, the claims that have them, and what was said of them.
    most_steps
        The bound on effort.
    wanted_by
        Of how many classes a device is: those of which fewer can make use are taken first.
    waits
        How many turns of attaching are before those of a device behind a switch.
    """

    def __init__(
        self, pools: Pools, held: HeldDevices, selectors: Selectors, most_steps: int = MOST_STEPS,
        wanted_by: Mapping[DeviceId, int] | None = None, waits: Mapping[Hashable, int] | None = None,
    ) -> None:  # fmt: skip
        self.pools, self.held, self.selectors, self._most_steps = pools, held, selectors, most_steps
        self.wanted_by, self.waits = wanted_by or {}, waits or {}
        used: Any = Counter[CounterId]()  # of fractions
        for device in pools.devices.values() if pools.counters else ():
            if device.consumes and held.is_used(device.id):
                used.update(device.consumes)
        self._left = {name: amount - used[name] for name, amount in pools.counters.items()}
        self.steps = 0

    def allocate(self, claims: Sequence[Wanted], *nodes: Node) -> list[Given] | str:
        """Devices for all claims, one after another, that all of some nodes reach; or why there are none, in numbers.

        Raises
        ------
        WantedError
            A selector cannot be evaluated, or all devices are asked for while a pool is not known as a whole.
        """
        self.steps = 0
        there = self.pools.reached(nodes[0])
        if nodes[1:]:
            there = [one for one in there if not one.binds and all(map(one.is_reached, nodes[1:]))]
        try:
            attempt = _Attempt(self, claims, there)
            if why := attempt.lacks():
                return why
            if attempt.goes_on(0, 0):
                return attempt.given
        except SelectorError as error:
            raise WantedError(str(error)) from None
        except _TooLongError:
            return f"no answer after {self._most_steps} steps"
        return f"{len(there)} devices, of which no choice fits together"

    def matches(self, one: Alternative, device: Device) -> bool:
        """Whether selectors take a device."""
        return all(self.selectors.holds(text, device.kind, device.described) for text in one.selectors)

    def step(self) -> None:
        """One more device is looked at."""
        self.steps += 1
        if self.steps > self._most_steps:
            raise _TooLongError

    def counted(self, name: CounterId) -> Fraction:
        """What is left of a counter."""
        left: Fraction = self._left[name]
        return left


class _TooLongError(Exception):
    """The bound on effort is reached."""


class _Attempt:
    """One search: what has been chosen so far."""

    def __init__(self, search: DeviceSearch, claims: Sequence[Wanted], there: Sequence[Device]) -> None:
        self._search, self._held, self._claims = search, search.held, claims
        self._flat = [(claim, request) for claim in claims for request in claim.requests]
        self.given: list[Given] = []
        self._taken = set[DeviceId]()
        self._consumed = dict[DeviceId, dict[str, Fraction]]()
        self._parts = Counter[DeviceId]()
        self._counters: Any = Counter[CounterId]()  # of fractions
        named = sorted({one.attribute for claim in claims for one in claim.shared})
        wanted = [one for _, request in self._flat for one in request]
        self._candidates: dict[Alternative, list[Device]] = {}
        for one in dict.fromkeys(wanted):
            of = [device for device in there if search.matches(one, device)]
            if not one.count:  # all: those that could not have it were they empty do not count
                of = [device for device in of if amounts_of(one, device) is not None]
                if problem := next(iter(search.pools.problems.values()), ""):
                    raise WantedError(f"request {one.name} asks for all devices, and {problem}")
            self._candidates[one] = of
        asked = Counter[DeviceId](device.id for of in self._candidates.values() for device in of)
        of_request = {one: {device.id for device in of} for one, of in self._candidates.items()}
        self._alike: dict[DeviceId, Hashable] = {
            device.id: (
                tuple(device.id in of_request[one] for one in of_request),
                tuple(repr(device.attributes.get(name)) for name in named),
                tuple(sorted(device.consumes.items())), device.multiple, device.taints,
                tuple((name, *_policy(one)) for name, one in sorted(device.capacity.items())),
            )
            for device in there if asked[device.id]
        }  # fmt: skip
        for of in self._candidates.values():
            of.sort(key=lambda device: (self._cost(device, asked), device.id))

    def lacks(self) -> str:
        """Where even one request alone finds too few devices, in numbers; ``""``: nowhere."""
        for _, request in self._flat:
            said = []
            for one in request:
                of = self._candidates[one]
                free = [device for device in of if self._amounts(one, device) is not None]
                if len(free) >= (one.count or len(of) or 1):
                    break
                of_class = f"devices of class {one.device_class}"
                said.append(f"{one.count or 'all'} {of_class} for {one.name}, of {len(of)} that match {len(free)} free")
            else:
                return "; ".join(said)
        return ""

    def goes_on(self, at: int, used: int) -> bool:
        """Whether all requests from one on are met; ``used``: how many devices its claim has by now."""
        if at == len(self._flat):
            return True
        claim, request = self._flat[at]
        if at and self._flat[at - 1][0] is not claim:
            used = 0
        for one in request:
            of = self._candidates[one]
            count = one.count or len(of)
            if count and used + count <= MOST_DEVICES and self._devices(at, one, 0, count, used + count):
                return True
        return False

    def _devices(self, at: int, one: Alternative, first: int, left: int, used: int) -> bool:
        """Whether so many more devices from one on meet a request, and those after it are met too."""
        if not left:
            return self.goes_on(at + 1, used)
        of, failed = self._candidates[one], set[Hashable]()
        for place in range(first, len(of) - left + 1):
            self._search.step()
            device = of[place]
            state = self._state(device)
            if state not in failed:
                if self._take(self._flat[at][0], one, device):
                    if self._devices(at, one, place + 1, left - 1, used):
                        return True
                    self._give_back()
                failed.add(state)
            if not one.count:  # all of them, or none
                return False
        return False

    # --- one device ---------------------------------------------------------------------------------------------

    def _take(self, claim: Wanted, one: Alternative, device: Device) -> bool:
        amounts = self._amounts(one, device)
        if amounts is None or not self._is_shared(claim, one, device):
            return False
        if not self._is_used(device.id):
            self._counters.update(device.consumes)
        if device.multiple:
            self._parts[device.id] += 1
            add_to(self._consumed.setdefault(device.id, {}), amounts, 1)
        else:
            self._taken.add(device.id)
        self.given.append(Given(claim.claim, one, device, amounts if device.multiple else None))
        return True

    def _give_back(self) -> None:
        _, _, device, amounts = self.given.pop()
        if device.multiple:
            self._parts[device.id] -= 1
            add_to(self._consumed[device.id], amounts or {}, -1)
        else:
            self._taken.remove(device.id)
        if not self._is_used(device.id):
            self._counters.subtract(device.consumes)

    def _is_used(self, device: DeviceId) -> bool:
        return device in self._taken or bool(self._parts[device]) or self._held.is_used(device)

    def _amounts(self, one: Alternative, device: Device) -> Mapping[str, Fraction] | None:
        """What a request would take of a device as it is now; ``None``: it cannot have it."""
        if device.id in self._taken or self._held.whole[device.id]:
            return None
        if any(not one.tolerates(taint) for taint in device.taints):
            return None
        found = amounts_of(one, device)
        if found is None or any(found[name] > left for name, left in self._room(device)):
            return None
        if not self._is_used(device.id):
            for name, amount in device.consumes.items():
                if amount > self._search.counted(name) - self._counters[name]:
                    return None
        return found

    def _room(self, device: Device) -> Iterator[tuple[str, Fraction]]:
        """What is left of each of its capacities."""
        nothing: Mapping[str, Fraction] = {}
        held, mine = self._held.consumed.get(device.id, nothing), self._consumed.get(device.id, nothing)
        for name, one in device.capacity.items():
            yield name, one.value - held.get(name, 0) - mine.get(name, 0)

    def _is_shared(self, claim: Wanted, one: Alternative, device: Device) -> bool:
        """Whether it is alike, or different, where its claim says so."""
        for said in claim.shared:
            if not said.binds(one.name):
                continue
            value = device.attributes.get(said.attribute)
            if value is None:
                return False
            others = (one for one in self.given if one.claim == claim.claim and said.binds(one.alternative.name))
            if any(_same(other.device.attributes[said.attribute], value) != said.alike for other in others):
                return False
        return True

    def _state(self, device: Device) -> Hashable:
        """The same for devices that nothing could tell apart now."""
        counters = tuple(self._search.counted(name) - self._counters[name] for name in sorted(device.consumes))
        return (
            self._alike[device.id], self._is_used(device.id), self._held.whole[device.id], device.id in self._taken,
            tuple(self._room(device)), counters,
        )  # fmt: skip

    def _cost(self, device: Device, asked: Counter[DeviceId]) -> tuple[int, int, int, int, Fraction, Fraction]:
        """What is lost if it is taken: attaching it, the wait for that; what all nodes reach, or more can use; room."""
        rest = sum((left for _, left in self._room(device)), Fraction(0)) if device.multiple else Fraction(0)
        counters = sum((self._search.counted(name) for name in device.consumes), Fraction(0))
        classes = self._search.wanted_by.get(device.id, 0)
        waits = self._search.waits.get(device.switch, 0) if device.conditions else 0
        return len(device.conditions), waits, not device.reach[0], asked[device.id] + classes, counters, rest


def amounts_of(one: Alternative, device: Device) -> Mapping[str, Fraction] | None:
    """What a request takes of an empty device; ``None``: it may not, or there is not as much."""
    asked, found = dict(one.capacity), dict[str, Fraction]()
    if not asked.keys() <= device.capacity.keys():
        return None
    for name, capacity in device.capacity.items():
        amount = capacity.consumed(asked.get(name))
        if amount is None or amount > capacity.value:
            return None
        found[name] = amount
    return found


def add_to(amounts: dict[str, Fraction], more: Mapping[str, Fraction], sign: int) -> None:
    """Count amounts, or count them no more."""
    for name, amount in more.items():
        amounts[name] = amounts.get(name, Fraction(0)) + sign * amount


def _policy(one: object) -> tuple[object, ...]:
    return tuple(getattr(one, name) for name in ("value", "default", "values", "least", "most", "step"))


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other
