"""Devices, classes and claims as the server tells of them, and what of it is being written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from unrack.kubernetes_text import inside, quantity
from unrack.live.kubernetes.client.objects import Node, Pod
from unrack.live.kubernetes.devices.allocator import DeviceSearch, Given, HeldDevices, add_to
from unrack.live.kubernetes.devices.extended import Special, classes_of, extended_on, imagined, owner_of, special
from unrack.live.kubernetes.devices.objects import Allocation, Claim, DeviceClass, Slice, TaintRule, said_of
from unrack.live.kubernetes.devices.pools import DeviceId, Kinds, Pools, pools_of
from unrack.live.kubernetes.devices.selectors import Selectors
from unrack.live.kubernetes.devices.wanted import Wanted, WantedError, wanted
from unrack.live.kubernetes.places import selected

MOST_KEPT_APART = 64
"""How many sets of devices that requests select are counted beside classes."""
MOST_CONSUMERS = 256
"""Pods that may use a claim at a time."""
AT_ONCE = 4
"""Devices that are attached at a time behind a switch, as a composer has it that is not told otherwise."""
Key = tuple[str, str]
"""Namespace and name of a claim."""


class GivenDevice(NamedTuple):
    """A device that a claim has; ``consumed``: how much of it, or ``None``: the whole."""

    device: DeviceId
    consumed: Mapping[str, Fraction] | None


class Store:
    """What there is. A reader of more than one thing holds the lock of the picture that this belongs to.

    Attributes
    ----------
    why
        Why nothing can be known of devices; ``""``: all is known.
    wanted_by, at_once
        Of how many classes a device is; how many devices are attached at a time behind a switch.
    kept_apart
        Which selectors requests have beside those of their classes, as (class, expressions): as many as are counted.
    counts_requests
        Whether these are noted, since plans are to know which devices they mean.
    version, offer, freed
        Another number whenever anything has changed; whenever there are other devices, classes or rules; whenever
        devices may be free that were not.
    """

    def __init__(self) -> None:
        self.slices, self.classes = dict[str, Slice](), dict[str, DeviceClass]()
        self.claims, self.rules = dict[Key, Claim](), dict[str, TaintRule]()
        self.why = ""
        self.wanted_by: Mapping[DeviceId, int] = {}
        self.kept_apart, self.counts_requests = dict[tuple[str, tuple[str, ...]], None](), False
        self.at_once = AT_ONCE
        self.version = self.offer = self.freed = 0
        self.selectors, self.held = Selectors(), HeldDevices()
        self._tables = (Slice, self.slices), (DeviceClass, self.classes), (TaintRule, self.rules)
        self._kinds, self._pools = Kinds(), (-1, Pools({}, {}, {}))
        self._parts = dict[str, Sequence[GivenDevice]]()  # of claims, by uid
        self._special = dict[str, Key]()  # claims for extended resources, by the uid of their pod
        self._mapped: tuple[int, Mapping[str, str]] = -1, {}
        self._attaching = dict[str, Sequence[DeviceId]]()  # what waits for conditions, by the uid of its claim
        self._writing = dict[str, Sequence[GivenDevice]]()  # what is being written of claims, by uid
        self._promised = dict[str, Sequence[GivenDevice]]()  # what others are ending for, by uid of a pod that waits

    # --- what the server tells ------------------------------------------------------------------------------------

    def take(self, changes: Iterable[tuple[Any, Any]]) -> None:
        """Slices, classes, claims or rules came, changed or went: each as it was, and as it is."""
        for before, after in changes:
            self.version += 1
            one = before if after is None else after
            if isinstance(one, Claim):
                self._take_claim(before, after)
            elif before is None or after is None or before.spec != after.spec:
                of: dict[str, Any] = next(of for kind, of in self._tables if isinstance(one, kind))
                of.pop(one.metadata.name, None)
                if after is not None:
                    of[one.metadata.name] = after
                self.offer += 1
                self.freed += 1

    def _take_claim(self, before: Claim | None, after: Claim | None) -> None:
        one = before if after is None else after
        assert one is not None
        key, uid = (one.metadata.namespace, one.metadata.name), one.metadata.uid
        parts = () if after is None else parts_of(after.status.allocation)
        if after is None:
            self.claims.pop(key, None)
        else:
            self.claims[key] = after
        if pod := owner_of(one):
            self._special.pop(pod, None)
            if after is not None:
                self._special[pod] = key
        had = self._parts.get(uid, ())
        if parts or after is None:
            self._writing.pop(uid, None)
        if uid not in self._writing:
            self._attaching.pop(uid, None)
        if after is not None and (waiting := tuple(_waiting(after))):
            self._attaching[uid] = waiting
        self._set(uid, parts)
        self.freed += bool(had) and parts != had
        if after is not None and self.counts_requests:
            self._note_selectors(after)

    def _note_selectors(self, claim: Claim) -> None:
        for request in claim.spec.devices.requests:
            for one in (*filter(None, (request.exactly,)), *request.first_available):
                texts = tuple(str(inside(of, "cel", "expression")) for of in one.selectors)
                key = one.device_class_name, texts
                if texts and key not in self.kept_apart and len(self.kept_apart) < MOST_KEPT_APART:
                    self.kept_apart[key] = None
                    self.offer += 1

    def _set(self, uid: str, parts: Sequence[GivenDevice]) -> None:
        """Count what a claim has, or is being given."""
        count(self.held, self._parts.pop(uid, ()), -1)
        parts = parts or self._writing.get(uid, ())
        if parts:
            self._parts[uid] = parts
            count(self.held, parts, 1)

    # --- what is being written ------------------------------------------------------------------------------------

    def write(self, given: Sequence[Given]) -> None:
        """Claims are being given devices: these are not free any more."""
        by_claim = dict[str, list[GivenDevice]]()
        for one in given:
            by_claim.setdefault(one.claim, []).append(GivenDevice(one.device.id, one.consumed))
            if one.device.conditions:
                self._attaching[one.claim] = (*self._attaching.get(one.claim, ()), one.device.id)
        for uid, parts in by_claim.items():
            self._writing[uid] = tuple(parts)
            self._set(uid, ())

    def write_not(self, uid: str) -> None:
        """A claim was not given devices."""
        if self._writing.pop(uid, None) is None:
            return
        self._attaching.pop(uid, None)
        known = next((one for one in self.claims.values() if one.metadata.uid == uid), None)
        self._set(uid, () if known is None else parts_of(known.status.allocation))
        self.freed += 1

    def is_written(self, uid: str) -> bool:
        """Whether what is being written of a claim has not been seen yet."""
        return uid in self._writing

    def promise(self, uid: str, given: Sequence[Given]) -> None:
        """A pod waits until others have given back devices, which no other pod is given meanwhile; none: not any more.

        That counts in searches alone: what a promise covers is still held by those that end.
        """
        if given:
            self._promised[uid] = [GivenDevice(one.device.id, one.consumed) for one in given]
        elif self._promised.pop(uid, None):
            self.freed += 1

    # --- what follows from it -------------------------------------------------------------------------------------

    @property
    def mapped(self) -> Mapping[str, str]:
        """Extended resource → the device class that stands for it."""
        if self._mapped[0] != self.offer:
            self._mapped = self.offer, classes_of(self.classes)
        return self._mapped[1]

    def special_of(self, pod: Pod) -> Claim | None:
        """The claim that was made for the extended resources of a pod."""
        key = self._special.get(pod.metadata.uid)
        return None if key is None or key[0] != pod.metadata.namespace else self.claims.get(key)

    @property
    def pools(self) -> Pools:
        """The devices that there are."""
        if self._pools[0] != self.offer:
            self._pools = self.offer, pools_of(self.slices.values(), self._kinds, self.rules.values())
        return self._pools[1]

    def search(self, live: Container[str] | None = None) -> DeviceSearch:
        """What fits now; with the uids of pods that are not over: what fits once claims of all others are free."""
        as_it_is = live is None and not self._promised
        return self.search_on(self.held if as_it_is else self.held_by(live))

    def search_on(self, held: HeldDevices) -> DeviceSearch:
        """What fits if that is held."""
        return DeviceSearch(self.pools, held, self.selectors, wanted_by=self.wanted_by, waits=self._waits())

    def _waits(self) -> dict[Hashable, int]:
        """After how many others, as far as attaching goes in turns, a device behind a switch is attached."""
        there = self.pools.devices
        busy = Counter(there[one].switch for of in self._attaching.values() for one in of if one in there)
        return {switch: count // self.at_once for switch, count in busy.items() if switch is not None}

    def held_by(
        self, live: Container[str] | None = None, *, mine: Container[str] = (),
        but: Callable[[Claim], bool] = lambda _: False,
    ) -> HeldDevices:  # fmt: skip
        """A copy of what is held and promised; without claims that only pods use which are not among those alive.

        ``mine``: uids of pods; what they were promised is free. ``but``: claims that are left out, too.
        """
        of = self.held
        held = HeldDevices(
            of.whole.copy(), of.parts.copy(), {name: dict(amounts) for name, amounts in of.consumed.items()}
        )
        for uid, parts in self._promised.items():
            count(held, parts, int(uid not in mine))
        for claim in self.claims.values():
            users = claim.status.reserved_for
            ends = live is not None and bool(users) and not any(one.uid in live for one in users)
            if ends or but(claim):
                count(held, self._parts.get(claim.metadata.uid, ()), -1)
        return held

    def empty(self) -> DeviceSearch:
        """What would fit if no claim had anything."""
        return DeviceSearch(self.pools, HeldDevices(), self.selectors)

    def wanted(self, claim: Claim) -> Wanted:
        """What a claim asks for; errors are those of :func:`…wanted.wanted`."""
        return wanted(claim, self.classes)

    def of_pod(self, pod: Pod) -> list[Claim]:
        """The claims of a pod.

        Raises
        ------
        WantedError
            One is not there, or is not for this pod.
        """
        found, made = list[Claim](), {one.get("name"): one for one in pod.status.resource_claim_statuses}
        for said in pod.spec.resource_claims:
            name, template = said.get("resourceClaimName"), said.get("resourceClaimTemplateName")
            if template:
                told = made.get(said.get("name"))
                if told is None:
                    raise WantedError(f"its claim {said.get('name')} has not been made from template {template} yet")
                name = told.get("resourceClaimName")
                if name is None:  # it needs none
                    continue
            claim = self.claims.get((pod.metadata.namespace, str(name)))
            if claim is None:
                raise WantedError(f"its claim {name} is not there")
            if template and all(one.uid != pod.metadata.uid for one in claim.metadata.owner_references):
                raise WantedError(f"its claim {name} was made for another pod")
            found.append(claim)
        if (special := self.special_of(pod)) is not None:
            found.append(special)
        if gone := next((one.metadata.name for one in found if one.metadata.deletion_timestamp), ""):
            raise WantedError(f"its claim {gone} is being deleted")
        return found

    def special_on(self, pod: Pod, node: Node) -> Special | None:
        """What a pod needs a claim for, of its own, on a node: its extended resources; ``None``: it needs none."""
        resources = extended_on(pod, node, self.mapped)
        return special(pod, resources, self.mapped) if resources else None

    def claims_on(self, pod: Pod, node: Node) -> list[Claim]:
        """The claims of a pod if it is on a node, with one that is still to be made; errors as of :meth:`of_pod`."""
        found = self.of_pod(pod)
        if self.special_of(pod) is None and (of := self.special_on(pod, node)) is not None:
            found.append(imagined(pod, of))
        return found

    def _named(self, pod: Pod) -> list[Claim | None]:
        said = (*pod.spec.resource_claims, *pod.status.resource_claim_statuses)
        return [self.special_of(pod)] + [
            self.claims.get((pod.metadata.namespace, str(one.get("resourceClaimName")))) for one in said
        ]

    def versions_for(self, pod: Pod) -> tuple[str, ...]:
        """The versions of the claims that a pod names."""
        return tuple("" if one is None else one.metadata.resource_version for one in self._named(pod))

    def parts_for(self, pod: Pod) -> list[GivenDevice]:
        """The devices that a pod holds: those of claims of which it is the first that may use them."""
        found = list[GivenDevice]()
        for claim in self._named(pod):
            if claim is not None and [one.uid for one in claim.status.reserved_for[:1]] == [pod.metadata.uid]:
                found += self._parts.get(claim.metadata.uid, ())
        return found

    def others_with(self, claim: Claim) -> str:
        """What else has, or has too much of, a device that a claim has, or that it is gone; ``""``: nothing."""
        for device, consumed in parts_of(claim.status.allocation):
            held, there = self.held, self.pools.devices.get(device)
            if there is None:
                return f"{device.device} of pool {device.pool} is not there any more"
            others = held.whole[device] + held.parts[device] - 1
            if consumed is None and others:
                return f"{device.device} of pool {device.pool} was given to another claim at the same time"
            if consumed is not None:
                of = held.consumed[device]
                if held.whole[device] or any(of.get(name, 0) > one.value for name, one in there.capacity.items()):
                    return f"more of {device.device} of pool {device.pool} was given than there is"
            if there.consumes and self._is_beyond(there.consumes):
                return f"{device.device} of pool {device.pool} was given with what it is a part of"
        return ""

    def _is_beyond(self, counters: Iterable[Any]) -> bool:
        search = self.search_on(self.held)
        return any(search.counted(name) < 0 for name in counters)


def _waiting(claim: Claim) -> Iterator[DeviceId]:
    """The devices of a claim of which conditions do not hold yet."""
    for one in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
        if not said_of(claim.status.devices, one).issuperset(one.binding_conditions):
            yield DeviceId(one.driver, one.pool, one.device)


def count(held: HeldDevices, parts: Iterable[GivenDevice], sign: int) -> None:
    """Count parts as held, or not any more."""
    for device, consumed in parts:
        if consumed is None:
            held.whole[device] += sign
        else:
            held.parts[device] += sign
            add_to(held.consumed.setdefault(device, {}), consumed, sign)


def parts_of(allocation: Allocation | None) -> tuple[GivenDevice, ...]:
    """The devices of an allocation; those that an administrator looks at are of no pod."""
    return tuple(
        GivenDevice(
            DeviceId(one.driver, one.pool, one.device),
            {name: _amount(text) for name, text in one.consumed_capacity.items()} if one.share_id else None,
        )
        for one in (allocation.devices.results if allocation is not None else ())
        if not one.admin_access
    )


def is_made(pod: Pod) -> bool:
    """Whether all claims that are made for a pod from templates have been made."""
    made = {one.get("name") for one in pod.status.resource_claim_statuses}
    return all(one.get("name") in made for one in pod.spec.resource_claims if one.get("resourceClaimTemplateName"))


def is_for(claim: Claim, node: Node) -> bool:
    """Whether a claim that has devices may be used on a node."""
    of = claim.status.allocation
    return of is not None and (of.node_selector is None or selected(of.node_selector, node))


def is_reserved(claim: Claim, pod: Pod) -> bool:
    """Whether a pod may use a claim."""
    return any(one.uid == pod.metadata.uid for one in claim.status.reserved_for)


def _amount(text: str) -> Fraction:
    try:
        return quantity(text)
    except ValueError:
        return Fraction(0)
