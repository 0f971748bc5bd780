"""Devices as the core plans them: counters that no allocation can go beyond, and what claims take of them at least.

A counter is of a device class: how many whole devices it has, how much of a capacity that is shared; or of a driver:
how much of what partitions consume together. It is of each node where all devices are of single nodes, else of the
whole cluster. What is counted is never less than what could be given, so plans are never too careful; whether devices
fit together is decided by :mod:`unrack.live.kubernetes.devices.allocator` when a pod starts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

from unrack.live.kubernetes.client.objects import Node
from unrack.live.kubernetes.devices.allocator import amounts_of
from unrack.live.kubernetes.devices.pools import CounterId, Device, DeviceId
from unrack.live.kubernetes.devices.selectors import SelectorError
from unrack.live.kubernetes.devices.store import GivenDevice, Store
from unrack.live.kubernetes.devices.wanted import Alternative, Wanted
from unrack.slurm_text.hostlists import compress

MOST_SHAPES = 1000
"""Of how many ways to ask it is remembered where they could be met."""


class Counted(NamedTuple):
    """What is counted: devices of a class, or an amount of them; or a counter that devices of a driver consume."""

    of: str  # the class, or a number of those of it that requests select; the driver
    what: str  # "": whole devices; else the name of a capacity, or of a counter
    consumed: bool  # whether it is such a counter


class Counters:
    """The counters of some devices on some nodes.

    Parameters
    ----------
    store
        The devices and classes.
    nodes
        The nodes of the cluster, by name.
    """

    def __init__(self, store: Store, nodes: Mapping[str, Node]) -> None:
        self.offer, self._nodes, self._store = store.offer, nodes, store
        self._search = store.empty()
        self._members = {name: self._of_class(name) for name in sorted(store.classes)}
        self.wanted_by = Counter(device for of in self._members.values() for device in of)
        self._keep_apart()
        self._amounts: dict[Counted, dict[str, int]] = {}
        for name, of in self._members.items():
            self._count(name, list(of.values()))
        self._count_consumed()
        self._names = {one: f"devices{place}_{_word(one)}_n" for place, one in enumerate(self._amounts)}
        self._met: dict[tuple[Wanted, ...], dict[str, str]] = {}
        self._asked: dict[tuple[Wanted, ...], dict[str, int]] = {}

    def tables(self) -> list[dict[str, Any]]:
        """The ``[[counted]]`` tables of a cluster file."""
        found = list[dict[str, Any]]()
        for one, amounts in self._amounts.items():
            if "" in amounts:
                found.append({"name": self._names[one], "amount": sum(amounts.values()), "per": "cluster"})
                continue
            by_amount: dict[int, list[str]] = {}
            for node, amount in sorted(amounts.items()):
                by_amount.setdefault(amount, []).append(node)
            found += [
                {"name": self._names[one], "amount": amount, "per": "node", "nodes": [compress(names)]}
                for amount, names in sorted(by_amount.items())
            ]
        return found

    def asked(self, claims: Sequence[Wanted]) -> dict[str, int]:
        """What claims take at least, by counter."""
        shape = shape_of(claims)
        if shape not in self._asked:
            if len(self._asked) >= MOST_SHAPES:
                self._asked.clear()
            total = Counter[Counted]()
            for claim in claims:
                for request in claim.requests:
                    each = [self._least(one) for one in request]
                    for counted in set(each[0]).intersection(*each[1:]):
                        total[counted] += min(one[counted] for one in each)
            self._asked[shape] = {self._names[one]: amount for one, amount in sorted(total.items()) if amount}
        return self._asked[shape]

    def held(self, parts: Iterable[GivenDevice]) -> dict[str, int]:
        """What devices that a pod has take, by counter."""
        total = Counter[Counted]()
        for device, consumed in parts:
            for name, of in self._members.items():
                if device not in of:
                    continue
                if consumed is None:
                    total[Counted(name, "", False)] += 1
                for what, amount in (consumed or {}).items():
                    total[Counted(name, what, False)] += int(amount)
            known = self._store.pools.devices.get(device)
            for counter, amount in known.consumes.items() if known is not None and not known.multiple else ():
                total[Counted(counter.driver, counter.counter, True)] += int(amount)
        most = {one: sum(amounts.values()) for one, amounts in self._amounts.items()}
        return {self._names[one]: min(amount, most[one]) for one, amount in total.items() if amount and one in most}

    def not_met(self, claims: Sequence[Wanted], names: Iterable[str]) -> dict[str, str]:
        """Of some nodes those on which claims could not be met were all devices free, each with the reason.

        Raises
        ------
        WantedError
            They cannot be met anywhere.
        """
        shape = shape_of(claims)
        if shape not in self._met:
            if len(self._met) >= MOST_SHAPES:
                self._met.clear()
            self._met[shape] = {}
        said = self._met[shape]
        for name in names:
            if name not in said:
                found = self._search.allocate(shape, self._nodes[name])
                said[name] = found if isinstance(found, str) else ""
        return {name: said[name] for name in names if said[name]}

    # --- behind it --------------------------------------------------------------------------------------------------

    def _keep_apart(self) -> None:
        """Count devices that requests select of a class, too, where these are others than are counted already."""
        there = {frozenset(of) for of in self._members.values()}
        for number, (name, more) in enumerate(self._store.kept_apart):
            of = self._of_class(name, more) if name in self._store.classes else {}
            if of and frozenset(of) not in there:
                there.add(frozenset(of))
                self._members[f"{name}+{number}"] = of

    def _of_class(self, name: str, more: Sequence[str] = ()) -> dict[DeviceId, Device]:
        """The devices of a class, and of more selectors; none where these cannot be evaluated."""
        try:
            selectors = [str(one["cel"]["expression"]) for one in self._store.classes[name].spec.selectors]
            selectors += more
            return {
                one.id: one
                for one in self._store.pools.devices.values()
                if all(self._store.selectors.holds(text, one.kind, one.described) for text in selectors)
            }
        except (SelectorError, KeyError, TypeError):
            return {}

    def _count(self, name: str, devices: Sequence[Device]) -> None:
        """Count what a class has, by node; ``""``: what several nodes reach."""
        for device in devices:
            node = device.reach[0]
            if node and node not in self._nodes:
                continue
            if not device.multiple:
                self._add(Counted(name, "", False), node, 1)
            for what, one in device.capacity.items() if device.multiple else ():
                self._add(Counted(name, what, False), node, int(one.value))

    def _count_consumed(self) -> None:
        """Count what devices consume, at the nodes of those that do."""
        at = dict[CounterId, set[str]]()
        for device in self._store.pools.devices.values():
            for counter in device.consumes:
                at.setdefault(counter, set()).add(device.reach[0])
        for counter, amount in self._store.pools.counters.items():
            nodes = at.get(counter, set())
            node = next(iter(nodes)) if len(nodes) == 1 else ""
            if nodes and (not node or node in self._nodes):
                self._add(Counted(counter.driver, counter.counter, True), node, int(amount))

    def _add(self, one: Counted, node: str, amount: int) -> None:
        if amount > 0:
            of = self._amounts.setdefault(one, {})
            of[node] = of.get(node, 0) + amount

    def _least(self, one: Alternative) -> dict[Counted, int]:
        """What an alternative takes at least of each counter."""
        may = [device for device in self._store.pools.devices.values() if self._search.matches(one, device)]
        amounts = [amounts_of(one, device) for device in may]
        may = [device for device, amount in zip(may, amounts, strict=True) if amount is not None]
        taken = [amount for amount in amounts if amount is not None]
        found, count, ids = dict[Counted, int](), one.count or 1, {device.id for device in may}
        for counted in self._amounts if may else ():
            if counted.consumed or ids <= self._members[counted.of].keys():
                each = [_taken(counted, device, amount) for device, amount in zip(may, taken, strict=True)]
                found[counted] = count * int(min(each))
        return found


def shape_of(claims: Sequence[Wanted]) -> tuple[Wanted, ...]:
    """The same for pods that ask for the same."""
    return tuple(replace(one, claim=str(place)) for place, one in enumerate(claims))


def _taken(counted: Counted, device: Device, amounts: Mapping[str, Fraction]) -> Fraction:
    """What a request takes of a counter if it is given that device."""
    if counted.consumed:  # of a device that is shared it is taken once, by the claim that comes first
        of = (amount for name, amount in device.consumes.items() if name[0::3] == counted[:2])
        return Fraction(0) if device.multiple else sum(of, Fraction(0))
    if not counted.what:
        return Fraction(not device.multiple)
    return amounts.get(counted.what, Fraction(0)) if device.multiple else Fraction(0)


def _word(one: Counted) -> str:
    return re.sub(r"\W+", "_", f"{one.of}_{one.what}" if one.what else one.of)
