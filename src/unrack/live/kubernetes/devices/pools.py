"""The devices that there are: slices of pools that have their whole newest generation."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from unrack.kubernetes_text import quantity
from unrack.live.kubernetes.client.objects import Node
from unrack.live.kubernetes.devices.objects import (
    Attribute,
    DeviceCapacity,
    DeviceTaint,
    ListedDevice,
    Slice,
    TaintRule,
)
from unrack.live.kubernetes.devices.selectors import described, version
from unrack.live.kubernetes.places import selected


class DeviceId(NamedTuple):
    """What a device is called."""

    driver: str
    pool: str
    device: str


class CounterId(NamedTuple):
    """An amount that devices of a pool consume together."""

    driver: str
    pool: str
    set: str
    counter: str


@dataclass(frozen=True, slots=True, eq=False)
class Capacity:
    """How much of something a device has, and how much of it may be consumed at a time."""

    value: Fraction
    default: Fraction | None
    values: tuple[Fraction, ...]
    least: Fraction | None
    most: Fraction | None
    step: Fraction | None

    def consumed(self, asked: Fraction | None) -> Fraction | None:
        """What a request takes, rounded up to what may be taken; ``None``: it may not have it."""
        if asked is None:
            return self.value if self.default is None else self.default
        found = asked
        if self.values:
            found = next((one for one in self.values if one >= asked), asked)
            return found if found in self.values or found == self.default else None
        if self.least is not None:
            found = max(asked, self.least)
            if self.step:
                found = self.least + -((self.least - found) // self.step) * self.step
        return None if self.most is not None and found > self.most and found != self.default else found


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A device of a pool that is there as a whole."""

    id: DeviceId
    kind: int  # the same for devices that are described alike
    described: Mapping[str, Any]  # as selectors see it
    attributes: Mapping[str, Any]  # by full name: what constraints compare
    multiple: bool  # several claims may have parts of it
    capacity: Mapping[str, Capacity]
    consumes: Mapping[CounterId, Fraction]
    taints: tuple[DeviceTaint, ...]
    conditions: tuple[str, ...]  # which are to hold before a pod is bound
    failures: tuple[str, ...]
    reach: tuple[str, Mapping[str, Any] | None, bool]  # the node, a selector of nodes, or all
    binds: bool  # once it is allocated, only one node reaches it

    @property
    def switch(self) -> Hashable:
        """What it hangs on, if it says so."""
        at = self.attributes.get(f"{self.id.driver}/switch")
        return None if at is None else (self.id.driver, at)

    def is_reached(self, node: Node) -> bool:
        """Whether a node may use it."""
        name, selector, everywhere = self.reach
        if name:
            return node.metadata.name == name
        return everywhere or (selector is not None and selected(selector, node))


@dataclass(frozen=True, eq=False)
class Pools:
    """All devices, by id, and in order.

    Attributes
    ----------
    devices, counters
        Those of pools that are there as a whole; the amounts that they share.
    problems
        Pools of which nothing is given, and why: ``(driver, pool)`` → a sentence.
    """

    devices: Mapping[DeviceId, Device]
    counters: Mapping[CounterId, Fraction]
    problems: Mapping[tuple[str, str], str]

    @cached_property
    def _local(self) -> Mapping[str, list[Device]]:
        """The devices of single nodes, by node; under ``""`` all others."""
        found: dict[str, list[Device]] = {}
        for one in self.devices.values():
            found.setdefault(one.reach[0], []).append(one)
        return found

    def reached(self, node: Node) -> list[Device]:
        """The devices that a node may use."""
        of = (*self._local.get(node.metadata.name, ()), *self._local.get("", ()))
        return [one for one in of if one.is_reached(node)]


class Kinds:
    """Numbers for devices that are described alike, which stay as long as this lives."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a description."""
        return self._of.setdefault(text, len(self._of))


def pools_of(slices: Iterable[Slice], kinds: Kinds, rules: Iterable[TaintRule] = ()) -> Pools:
    """The pools that slices make; what cannot be understood of one keeps the whole pool out, and is said.

    ``rules``: those that give taints to devices.
    """
    ruling = sorted(rules, key=lambda one: one.metadata.name)
    newest = dict[tuple[str, str], list[Slice]]()
    for one in sorted(slices, key=lambda one: one.metadata.name):
        key, generation = (one.spec.driver, one.spec.pool.name), one.spec.pool.generation
        found = newest.setdefault(key, [])
        if found and found[0].spec.pool.generation < generation:
            found.clear()
        if not found or found[0].spec.pool.generation == generation:
            found.append(one)
    devices, counters, problems = dict[DeviceId, Device](), dict[CounterId, Fraction](), dict[tuple[str, str], str]()
    for key, of in sorted(newest.items()):
        count = of[0].spec.pool.resource_slice_count
        if len(of) != count:
            problems[key] = f"{len(of)} of {count} slices of pool {key[1]} of {key[0]} are there"
            continue
        try:
            shared = _counters(of)
            made = [_device(one, listed, kinds, shared, ruling) for one in of for listed in one.spec.devices]
        except ValueError as error:
            problems[key] = f"pool {key[1]} of {key[0]}: {error}"
            continue
        if len({device.id for device in made}) < len(made):
            problems[key] = f"pool {key[1]} of {key[0]} has two devices of a name"
            continue
        devices |= {device.id: device for device in made}
        counters |= shared
    return Pools(devices, counters, problems)


def _counters(slices: Iterable[Slice]) -> dict[CounterId, Fraction]:
    return {
        CounterId(one.spec.driver, one.spec.pool.name, group.name, name): quantity(counter.value)
        for one in slices
        for group in one.spec.shared_counters
        for name, counter in group.counters.items()
    }


def _device(
    of: Slice, listed: ListedDevice, kinds: Kinds, counters: Mapping[CounterId, Fraction], rules: Sequence[TaintRule]
) -> Device:
    spec = of.spec
    if listed.node_allocatable_resources or any(one.compatibility_groups for one in listed.consumes_counters):
        raise ValueError(f"device {listed.name} uses what is not kept: node resources, or compatibility groups")
    values = {name: _value(one) for name, one in listed.attributes.items()}
    capacity = {name: _capacity(one) for name, one in listed.capacity.items()}
    consumes = {
        CounterId(spec.driver, spec.pool.name, one.counter_set, name): quantity(amount.value)
        for one in listed.consumes_counters
        for name, amount in one.counters.items()
    }
    if unknown := [one for one in consumes if one not in counters]:
        raise ValueError(f"device {listed.name} consumes counter {unknown[0].counter}, which its pool does not have")
    known = {name: value for name, value in values.items() if value is not None}
    seen = described(
        spec.driver, listed.allow_multiple_allocations, known, {name: one.value for name, one in capacity.items()}
    )
    at = listed if spec.per_device_node_selection else spec
    name = DeviceId(spec.driver, spec.pool.name, listed.name)
    taints = (*listed.taints, *(one.spec.taint for one in rules if _is_meant(one, name)))
    return Device(
        id=name,
        kind=kinds.number(repr(seen)),
        described=seen,
        attributes={name if "/" in name else f"{spec.driver}/{name}": value for name, value in known.items()},
        multiple=listed.allow_multiple_allocations,
        capacity=capacity,
        consumes=consumes,
        taints=tuple(one for one in taints if one.effect in ("NoSchedule", "NoExecute")),
        conditions=tuple(listed.binding_conditions),
        failures=tuple(listed.binding_failure_conditions),
        reach=(at.node_name, at.node_selector, at.all_nodes),
        binds=listed.binds_to_node,
    )


def _is_meant(rule: TaintRule, device: DeviceId) -> bool:
    """Whether a rule is for a device; one that does not say which is for none."""
    of = rule.spec.device_selector
    return of is not None and all(
        said in (None, name) for said, name in zip((of.driver, of.pool, of.device), device, strict=True)
    )


def _value(one: Attribute) -> Any:
    """A value; a list of values is ``None``, as if it were not there."""
    if one.version is not None:
        return version(one.version)
    return next((value for value in (one.truth, one.whole, one.string) if value is not None), None)


def _capacity(one: DeviceCapacity) -> Capacity:
    policy = one.request_policy
    if policy is None:
        return Capacity(quantity(one.value), None, (), None, None, None)
    spans = policy.valid_range
    least, most, step = (_or_none(text) for text in (spans.min, spans.max, spans.step)) if spans else (None, None, None)
    values = tuple(sorted(quantity(text) for text in policy.valid_values))
    return Capacity(quantity(one.value), _or_none(policy.default), values, least, most, step)


def _or_none(text: str) -> Fraction | None:
    return quantity(text) if text else None
