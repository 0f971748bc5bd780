"""All places of all resources of a cluster, numbered through, and what jobs ask and claim of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.reasons import Code, Reason
from unrack.resources.contract import ANY_NUMBER, NONE_ATTACHED, Gangs, Installed, Nodes, NodeSets, Place, Usual, Window
from unrack.resources.counted.resource import Counters
from unrack.resources.grid import Grid
from unrack.resources.site.installed import Site
from unrack.resources.table import RESOURCES, resource_of

Asks = Mapping[tuple[str, str], Ints]
"""(resource, quantity) → int64[jobs]."""
PLACE, AMOUNT = range(2)
"""Columns of claims."""
NO_CLAIMS: Ints = np.empty((0, 2), np.int64)
"""Nothing claimed."""


class ResourcePart:
    """One resource of a cluster, and which of all places and quantities are its own."""

    def __init__(self, name: str, installed: Installed, place: int, quantity: int) -> None:
        self.name, self.installed, self.first = name, installed, place
        self.places = slice(place, place + len(installed.places))
        self.quantities = slice(quantity, quantity + len(installed.quantities))

    @cached_property
    def by_place(self) -> bool:
        """Whether what a job that asks for all of it claims depends on where it runs."""
        asked = np.ones(len(self.installed.quantities), np.int64)
        return len(asked) > 0 and self.installed.anywhere(asked, 1) is None

    @cached_property
    def amounts(self) -> dict[str, int]:
        """Quantity → all that is installed of it; those that say how others are asked have none."""
        places, found = self.installed.places, dict[str, int]()
        if isinstance(places, Grid):
            return {places.quantity: places.amount * len(places)}
        for place in places:
            found[place.quantity] = found.get(place.quantity, 0) + place.amount
        return found

    @cached_property
    def total(self) -> Ints:
        """int64[its places]: installed."""
        places = self.installed.places
        if isinstance(places, Grid):
            return np.full(len(places), places.amount, np.int64)
        return np.array([place.amount for place in places], np.int64)

    def own(self, claims: Ints) -> Ints:
        """int64[k, 2]: those of some claims that are of its places, which are counted from its first."""
        place = claims[:, PLACE]
        mine: Ints = claims[(place >= self.places.start) & (place < self.places.stop)] - np.array([self.first, 0])
        return mine

    def number(self, name: str) -> int:
        """The number of its place of this name among all; -1: there is none."""
        places = self.installed.places
        own = places.number(name) if isinstance(places, Grid) else self._numbers.get(name, -1)
        return own if own < 0 else self.first + own

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {place.name: i for i, place in enumerate(self.installed.places)}


@dataclass(frozen=True)
class Places:
    """What a cluster has of every resource; of most clusters nothing."""

    installed: Mapping[str, Installed]  # resource → what there is of it; of those that there are
    nodes: int  # how many nodes the cluster has

    def __len__(self) -> int:
        return self.parts[-1].places.stop if self.parts else 0

    @cached_property
    def parts(self) -> tuple[ResourcePart, ...]:
        """One for every resource."""
        found, place, quantity = [], 0, 0
        for name, installed in self.installed.items():
            found.append(ResourcePart(name, installed, place, quantity))
            place, quantity = found[-1].places.stop, found[-1].quantities.stop
        return tuple(found)

    def at(self, number: int) -> tuple[str, Place]:
        """The resource and the place behind a number from 0."""
        part = self.parts[bisect_right(self._firsts, number) - 1]
        return part.name, part.installed.places[number - part.first]

    def number(self, resource: str, name: str) -> int:
        """The number of a place; -1: there is none."""
        return next((part.number(name) for part in self.parts if part.name == resource), -1)

    @cached_property
    def _firsts(self) -> list[int]:
        return [part.first for part in self.parts]

    @cached_property
    def quantities(self) -> tuple[tuple[str, str], ...]:
        """(resource, quantity) of every row of what jobs ask."""
        return tuple((part.name, quantity) for part in self.parts for quantity in part.installed.quantities)

    @cached_property
    def claiming(self) -> Ints:
        """int64[k]: the rows of what jobs ask on which it hangs what they claim."""
        unclaimed = {(part.name, quantity) for part in self.parts for quantity in part.installed.unclaimed}
        return np.array([row for row, key in enumerate(self.quantities) if key not in unclaimed], np.int64)

    @cached_property
    def total(self) -> Ints:
        """int64[places]: installed."""
        return np.concatenate([part.total for part in self.parts]) if self.parts else np.zeros(0, np.int64)

    def asked(self, asks: Asks, jobs: int) -> Ints:
        """int64[quantities, jobs]: what jobs ask of what there is."""
        rows = [np.asarray(asks.get(key, np.zeros(jobs, np.int64)), np.int64) for key in self.quantities]
        return np.array(rows, np.int64).reshape(len(rows), jobs)

    def _asked_of(self, asked: Ints) -> Iterator[tuple[ResourcePart, Ints]]:
        """The parts of which a job asks something, or one of several does, and what."""
        for part in self.parts:
            own = asked[part.quantities]
            if own.any():
                yield part, own

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: what a job claims that asks so much (int64[quantities]) and runs there.

        ``free``, int64[places], is what no job holds: where there is a choice, it is made among that. ``devices``:
        its pooled devices, as in :meth:`unrack.resources.contract.Installed.claims`.
        """
        order = np.argsort(nodes, kind="stable")
        found = []
        for part, own in self._asked_of(asked):
            rows = part.installed.claims(own, nodes[order], tasks[order], free[part.places], devices)
            found.append(rows + np.array([part.first, 0]))
        return np.ascontiguousarray(np.concatenate(found)) if found else NO_CLAIMS

    def anywhere(
        self, asked: Ints, tasks: int, on: int = 0, full: Ints | None = None, least: bool = False
    ) -> Ints | None:
        """int64[claims, 2]: what a job of so many tasks claims wherever it runs; ``None``: that matters.

        ``on``: how many nodes it has, whichever they are; 0: not known. ``full``: int64[nodes], how many such tasks
        there are at most on each: then claims are left out of which so many find enough. ``least``: and others count
        as little as they can.
        """
        found = [NO_CLAIMS]
        for part, own in self._asked_of(asked):
            rows = part.installed.anywhere(own, tasks)
            if rows is None and on and isinstance(part.installed, Site):
                rows = part.installed.anywhere(own, tasks, on)
            if rows is None and full is not None and part.installed.ample(own, full, part.total):
                rows = part.installed.certain(own, tasks)
            if rows is None and least:
                rows = part.installed.at_least(own) if isinstance(part.installed, Site) else NO_CLAIMS
            if rows is None:
                return None
            found.append(rows + np.array([part.first, 0]))
        return np.ascontiguousarray(np.concatenate(found)) if len(found) > 1 else NO_CLAIMS

    @cached_property
    def by_node(self) -> Ints:
        """int64[groups, nodes]: places of single nodes in which jobs claim the cores of their tasks there; -1: none."""
        sites = ((part.first, part.installed) for part in self.parts if isinstance(part.installed, Site))
        rows = [np.where(at >= 0, at + first, -1) for first, site in sites for at in site.by_node.values()]
        return np.array(rows, np.int64).reshape(-1, self.nodes)

    def by_cores(self, asked: Ints, tasks: int, full: Ints | None = None) -> list[int] | None:
        """The rows of :attr:`by_node` in which a job claims; ``None``: what else it claims depends on where it runs.

        ``full``: as of :meth:`anywhere`.
        """
        found = list[int]()
        for part, own in self._asked_of(asked):
            site = part.installed
            if site.anywhere(own, tasks) is not None or (full is not None and site.ample(own, full, part.total)):
                continue
            if not isinstance(site, Site) or (more := site.by_cores(own)) is None:
                return None
            found += [list(site.by_node).index(place) for place in more]
        return found

    def device_costs(self, asked: Ints, free: Ints, nodes: Ints, homes: Ints) -> Ints:
        """int64[nodes, homes]: how much one more device there makes a task here claim; -1: more than is free."""
        total = np.zeros((len(nodes), len(homes)), np.int64)
        open_homes = np.ones(total.shape, np.bool_)
        for part, own in self._asked_of(asked):
            costs = part.installed.device_costs(own, free[part.places], nodes, homes)
            open_homes &= costs >= 0
            total += costs
        return np.where(open_homes, total, -1)

    def agree(self, asked: Ints, nodes: Ints, tasks: Ints, claims: Ints, devices: Ints = NONE_ATTACHED) -> bool:
        """Whether a job that asks so much and runs there may claim this of all resources, if it is free."""
        place = claims[:, PLACE]
        if (place[1:] <= place[:-1]).any():
            return False
        if len(nodes) > 1:
            order = np.argsort(nodes, kind="stable")
            nodes, tasks = nodes[order], tasks[order]
        seen = place.searchsorted([*self._firsts, len(self)]).tolist()
        for part, first, last in zip(self.parts, seen[:-1], seen[1:], strict=True):
            own, mine = asked[part.quantities], claims[first:last].copy()
            if not own.any():
                if first < last:
                    return False
                continue
            mine[:, PLACE] -= part.first
            if not part.installed.agrees(own, nodes, tasks, mine, devices):
                return False
        return bool(seen[0] == 0 and seen[-1] == len(claims))

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes]: where one more task of a job finds enough of every resource."""
        found = np.ones(self.nodes, np.bool_)
        for part, own in self._asked_of(asked):
            found &= part.installed.open_nodes(own, free[part.places], nodes, tasks, left, devices)
        return found

    def sets(self, asked: Ints) -> NodeSets | None:
        """Outside of which nodes no task of a job goes; ``asked``: int64[quantities, jobs]; ``None``: of none."""
        found = None
        for part, own in self._asked_of(asked):
            more = part.installed.sets(own)
            if found is None or more is None:
                found = found or more
                continue
            pairs, of = np.unique(np.stack([found.of, more.of]), axis=1, return_inverse=True)
            masks, owner = found.masks[pairs[0]] & more.masks[pairs[1]], found.owner[pairs[0]] + more.owner[pairs[1]]
            found = NodeSets(masks, of.ravel().astype(np.int64), owner)
        return found

    @cached_property
    def windows(self) -> tuple[Window, ...]:
        """When nodes, or places, are kept for some jobs; places by their number among all."""
        return tuple(
            window if window.place < 0 else window._replace(place=part.first + window.place)
            for part in self.parts
            for window in part.installed.windows
        )

    @cached_property
    def kept(self) -> dict[int, list[Window]]:
        """By place of which an amount is kept at times, when."""
        found: dict[int, list[Window]] = {}
        for window in self.windows:
            if window.place >= 0:
                found.setdefault(window.place, []).append(window)
        return found

    @cached_property
    def keeping(self) -> Ints:
        """int64[4, k]: windows that keep an amount: when they begin and end, µs, of which place, and how much."""
        rows = [(one.start_us, one.end_us, one.place, one.amount) for some in self.kept.values() for one in some]
        return np.array(rows, np.int64).reshape(-1, 4).T

    def kept_claims(self, asked: Ints) -> Ints:
        """int64[claims, 2]: what a job claims of places of which windows keep an amount, wherever it runs."""
        none, found = np.zeros(0, np.int64), [NO_CLAIMS]
        for part, own in self._asked_of(asked):
            if any(part.places.start <= place < part.places.stop for place in self.kept):
                found.append(part.installed.claims(own, none, none, part.total) + np.array([part.first, 0]))
        every = np.concatenate(found)
        return every[np.isin(every[:, PLACE], list(self.kept))]

    @property
    def delay_us(self) -> int:
        """How much longer than it runs a job may hold what it holds, µs."""
        return max((part.installed.delay_us for part in self.parts), default=0)

    def choices(self, asked: Ints) -> list[Bools]:
        """Sets of nodes, bool[nodes] each, of which all tasks of a job must be in one; one of all nodes: no choice."""
        found: list[Bools] = [np.ones(self.nodes, np.bool_)]
        for part, own in self._asked_of(asked):
            found = [first & second for first in found for second in part.installed.choices(own)] or found
        return found

    def most_nodes(self, asked: Ints, free: Ints, among: Bools | None) -> int:
        """On how many nodes a job may be now at most, if all are ``among`` some (``None``: any)."""
        if not self._bound_nodes:
            return ANY_NUMBER
        among = np.ones(self.nodes, np.bool_) if among is None else among
        each = ((part, asked[part.quantities]) for part in self._bound_nodes)
        most = (part.installed.most_nodes(own, free[part.places], among) for part, own in each if own.any())
        return min(most, default=ANY_NUMBER)

    @cached_property
    def _bound_nodes(self) -> list[ResourcePart]:
        """The parts that may say on how few nodes a job is to be."""
        usual: Any = Usual.most_nodes
        return [part for part in self.parts if type(part.installed).most_nodes is not usual]

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """What there is too little of now."""
        reasons = (part.installed.lacks(own, free[part.places], tasks) for part, own in self._asked_of(asked))
        return next((reason for reason in reasons if reason is not None), None)

    def never(self, key: tuple[str, str], asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: which jobs the empty cluster could not give what they ask of a quantity."""
        name, quantity = key
        installed = self.installed.get(name)
        if installed is None or quantity not in installed.quantities:
            return asked > 0
        return (asked > 0) & installed.never(installed.quantities.index(quantity), asked, gangs)

    def too_big(self, key: tuple[str, str], asked: int, gangs: Gangs) -> Reason:
        """What there is too little of, of a job of which :meth:`never` says so."""
        name, quantity = key
        installed = self.installed.get(name)
        if installed is None or quantity not in installed.quantities:
            return Reason(Code.TOO_BIG, f"{name}.{quantity}, which the cluster does not have", asked, 0)
        return installed.too_big(installed.quantities.index(quantity), asked, gangs)

    def identity(self) -> str:
        """Everything that can change a schedule."""
        return repr(self.written())

    def written(self) -> dict[str, Any]:
        """The keys of a cluster file again."""
        return {name: installed.written() for name, installed in self.installed.items()}


def built(content: Mapping[str, Any], nodes: Nodes, where: str) -> Places:
    """The places of a cluster, from those keys of a cluster file that are resources'.

    A ClusterError if a resource refuses its key.
    """
    found = dict[str, Installed]()
    for name in sorted(content, key="site".__eq__):  # a site keeps some of what the others have
        if isinstance(counters := found.get("counted"), Counters) and name == "site":
            nodes = nodes._replace(counters=(*nodes.counters, *counters.whole.items()))
        found[name] = resource_of(name).installed(content[name], nodes, f"{where}, {name}")
    return Places({name: found[name] for name in (*RESOURCES.own, *found) if name in found}, len(nodes.cores))


def no_places(nodes: int) -> Places:
    """Of a cluster without any."""
    return Places({}, nodes)


def is_resource(kind: str) -> bool:
    """Whether what jobs ask as ``KIND.QUANTITY`` is of a resource, and not of a kind of device."""
    return kind in RESOURCES
