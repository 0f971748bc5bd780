"""The site of a cluster: which nodes a job may run on, and what it counts for in limits.

Jobs ask for ``site.where``, the number of a :class:`Where`; ``site.counts``, the number of a row of what they count
for; and ``site.whose``, the number of a :class:`Whose`. 0: nothing. ``binding.py`` numbers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints
from unrack.reasons import Code, Reason
from unrack.resources.checked import keys_of, ranges, stretches, validated
from unrack.resources.contract import ANY_NUMBER, NONE_ATTACHED, Gangs, Nodes, NodeSets, Place, Usual, no_room
from unrack.resources.site import features as ask
from unrack.resources.site.features import Counts, Way, Where, Whose
from unrack.resources.site.kept import amounts_of, keeps_of, windows_of
from unrack.resources.site.keys import SiteFile
from unrack.resources.site.quotas import Quota, places_of, quotas_of
from unrack.resources.site.ranks import Ranks, ranks_of
from unrack.resources.site.reserved_cores import by_cores, by_node, claimed_of, cores_of, lacks_cores, open_of
from unrack.resources.site.room import alike, first_over, fit_beside, most_nodes, room_in, short_of_nodes

WHERE, COUNTS, WHOSE = range(3)
QUANTITIES = ("where", "counts", "whose")
NO_CLAIMS: Ints = np.empty((0, 2), np.int64)
NO_NODES: Ints = np.zeros(0, np.int64)


class Site(Usual):
    """See :class:`unrack.resources.contract.Installed`."""

    quantities = QUANTITIES
    unclaimed = ("whose",)

    def __init__(self, table: Any, nodes: Nodes, where: str) -> None:
        self.file = validated(SiteFile.model_validate, table, f"{where}.", keys_of(SiteFile))
        self.cluster_nodes, self.at = nodes, where
        self.computing: Bools = nodes.cores > 0
        self.partitions = {one.name: one for one in self.file.partitions}
        self.nodes_of = {
            one.name: self.computing if one.nodes is None else self._mask(one.nodes, f"partitions.{i}.nodes")
            for i, one in enumerate(self.file.partitions)
        }
        for name, mask in self.nodes_of.items():
            if not mask.any():
                raise ClusterError(f"{where}.partitions", f"partition {name!r} without nodes", "one or more with cores")
        for one in self.file.partitions:
            sizes = np.unique(nodes.cores[self.nodes_of[one.name]])
            if one.whole_nodes and len(sizes) > 1:
                got = f"nodes of {', '.join(map(str, sizes.tolist()))} cores in partition {one.name!r}"
                raise ClusterError(f"{where}.partitions", got, "nodes that have as many cores each, for whole_nodes")
        try:
            self.quotas: list[Quota] = quotas_of(self.file.queues, self.file.cohorts)
        except ValueError as error:
            got, want = str(error).rpartition(", not ")[::2][::-1]
            raise ClusterError(f"{where}.queues", got, want) from None
        self.features = {name: self._mask(some, f"features.{name}") for name, some in self.file.features.items()}
        # the number of the windows of a reservation; below 0: its jobs run outside of these, too
        self.owners = {one.name: -i if one.flex else i for i, one in enumerate(self.file.reservations, 1)}
        self.reserved = {
            one.name: self._mask(one.nodes, f"reservations.{i}.nodes", pools=True)
            for i, one in enumerate(self.file.reservations)
            if one.nodes is not None
        }
        self.open_us = {one.name: stretches(one.hours) for one in self.file.partitions if one.hours}
        self.hours = {name: number for number, name in enumerate(self.open_us, len(self.owners) + 1)}
        # reservation → how many cores it keeps of each of its nodes; none: all
        self.cores_of = {
            one.name: cores_of(one, nodes, f"{where}.reservations.{i}") for i, one in enumerate(self.file.reservations)
        }
        of_nodes = {node: int(nodes.cores[node]) for own in self.cores_of.values() for node in own}
        there = dict[str | int, int](nodes.counters)
        there.update(of_nodes.items())
        kept = {one.name: amounts_of(one) | dict(self.cores_of[one.name].items()) for one in self.file.reservations}
        try:
            self.keeps = keeps_of(self.file.reservations, kept, there)
        except ValueError as error:
            want, _, got = str(error).rpartition(", not ")
            raise ClusterError(f"{where}.reservations", got, want) from None
        self.by_node = by_node(self.keeps, len(nodes.cores))
        whole = {name: mask for name, mask in self.reserved.items() if not self.cores_of[name]}
        hours = {self.hours[name]: times for name, times in self.open_us.items()}
        self.windows = windows_of(self.file, self.owners, whole, hours, self.keeps, nodes)
        bound = self.file.bound or {}
        self.wheres = tuple(ask.where_of(one) for one in bound.get("where", ()))
        self.counts: tuple[Counts, ...] = tuple(
            tuple((p, a, in_) for p, a, in_ in row) for row in bound.get("counts", ())
        )
        self.open = bool(bound.get("open"))  # whether jobs that come one at a time count for limits
        known = [*(keep.place for keep in self.keeps), *(places_of(self.file) if self.open else ())]
        self.places: Sequence[Place] = tuple([Place(*one) for one in bound["places"]] if "places" in bound else known)
        self.limits = len(self.places) - len(self.keeps)  # what reservations keep comes first, and is none
        self.whose = (Whose(), *(Whose(*one) for one in bound.get("whose", ())))  # by number

    def _mask(self, members: Sequence[str], key: str, pools: bool = False) -> Bools:
        found = np.zeros(len(self.computing), np.bool_)
        found[self.cluster_nodes.named(members, f"{self.at}.{key}")] = True
        return found & (self.computing | pools)

    def bound(
        self, wheres: Sequence[Where], counts: Sequence[Counts], places: Sequence[Place], whose: Sequence[Whose]
    ) -> Site:
        """The same site, of jobs that ask for these."""
        made = {
            "where": [one._asdict() for one in wheres],
            "counts": [[list(one) for one in row] for row in counts],
            "places": [list(place) for place in places],
        }
        made |= {"whose": [list(one) for one in whose]} if whose else {}
        return Site({**self.file.model_dump(exclude_defaults=True), "bound": made}, self.cluster_nodes, self.at)

    # --- where ------------------------------------------------------------------------------------------------------

    def number(self, where: Where) -> int:
        """The number of a :class:`Where` of a new job; a new number comes behind those there are.

        0: it may run on any node, at any time. Nothing else that is known of the site changes by this.

        Raises
        ------
        ClusterError
            It names nodes that there are not.
        """
        if where not in self.wheres:
            ways = self.ways_there(where)
            if self.is_anywhere(ways):
                return 0
            self.ways_of_wheres = (*self.ways_of_wheres, ways)
            self.wheres = (*self.wheres, where)
            self.__dict__.pop("ranks", None)
        return self.wheres.index(where) + 1

    def owner(self, one: Whose) -> int:
        """The number of a :class:`Whose` of a new job; a new number comes behind those there are."""
        self.whose = self.whose if one in self.whose else (*self.whose, one)
        return self.whose.index(one)

    def is_anywhere(self, ways: Sequence[Way]) -> bool:
        """Whether ways to have nodes say nothing: any node will do, at any time, and no job is stopped for others."""
        return not self.windows and self.file.preempt is None and ask.any_will_do(ways, self.computing)

    def narrows(self, number: int) -> bool:
        """Whether a :class:`Where` says that some nodes will not do, or when, beside windows of others."""
        whole = ask.any_will_do(self.ways_of_wheres[number], self.computing)
        return not whole or (number > 0 and self.owner_of(self.wheres[number - 1]) != 0)

    @cached_property
    def ways_of_wheres(self) -> tuple[tuple[Way, ...], ...]:
        """The ways to have nodes, by number of a :class:`Where`; 0: any node."""
        return ((Way(self.computing),), *(self.ways_there(one) for one in self.wheres))

    def ways_there(self, where: Where) -> tuple[Way, ...]:
        """The ways to have nodes as a :class:`Where` says.

        Raises
        ------
        ClusterError
            It names nodes that there are not; or :class:`ValueError`, its features cannot be read.
        """
        if where.why:
            return ()
        base, counts = self.computing.copy(), dict[int, Bools]()
        if where.reservation:
            base = self.reserved.get(where.reservation, base) & base if self.owner_of(where) > 0 else base
        if where.without:
            base = base & ~self._mask([where.without], "without")
        needed: tuple[tuple[int, Bools], ...] = ()
        if where.nodes:
            listed = self._mask([where.nodes], "nodes")
            for node in np.flatnonzero(listed).tolist():
                counts[node] = np.arange(len(base)) == node
            needed = tuple((1, mask) for mask in counts.values())
        own = ask.ways_of(where.features, self.features, len(base)) if where.features else [Way(base)]
        names = [None] if where.partitions is None else where.partitions
        found = []
        for name in names:
            mask = base if name is None else base & self.nodes_of[name]
            found += [Way(mask & way.nodes, (*way.counts, *needed), name or "") for way in own]
        return tuple(way for way in found if way.nodes.any())

    def ways(self, asked: Ints) -> tuple[Way, ...]:
        """The ways in which a job may have nodes."""
        return self.ways_of_wheres[int(asked[WHERE])]

    def sets(self, asked: Ints) -> NodeSets:
        """The nodes of all ways of each job."""
        numbers, of = np.unique(asked[WHERE], return_inverse=True)
        none = np.zeros((1, len(self.computing)), np.bool_)
        masks = [
            np.logical_or.reduce([way.nodes for way in ways]) if (ways := self.ways_of_wheres[n]) else none[0]
            for n in numbers.tolist()
        ]
        owner = [self.owner_of(self.wheres[n - 1]) if n else 0 for n in numbers.tolist()]
        masks_of = np.stack(masks) if masks else none[:0]
        return NodeSets(masks_of, of.ravel().astype(np.int64), np.array(owner, np.int64))

    def owner_of(self, where: Where) -> int:
        """Of the windows in which jobs run: of their reservation, or hours, which keep them from running outside."""
        own, hours = self.owners.get(where.reservation, 0), self.hours.get((where.partitions or ("",))[0], 0)
        return abs(own) if own and hours else own or hours

    def choices(self, asked: Ints) -> tuple[Bools, ...]:
        """The ways, where there are several."""
        return tuple(way.nodes for way in self.ways(asked)) if len(self.ways(asked)) > 1 else ()

    @cached_property
    def ranks(self) -> Ranks | None:
        """Which jobs may preempt which, by number of a :class:`Where`; ``None``: none."""
        return ranks_of(self.file, [((), "", ""), *((w.partitions or (), w.qos, w.queue) for w in self.wheres)])

    @cached_property
    def nominal(self) -> dict[int, Quota]:
        """By the places where a queue's own jobs claim, its quota."""
        known = {quota.places[0][0]: quota for quota in self.quotas}
        return {number: known[place.name] for number, place in enumerate(self.places) if place.name in known}

    def quota_claims(self, asked: Ints) -> list[list[tuple[int, int]]]:
        """Places and amounts for which a job counts, by partition of its ways."""
        names = dict.fromkeys(way.partition for way in self.ways(asked))
        return [ask.own_of(self._counts(asked), name) for name in names]

    def queue_of(self, asked: Ints) -> str:
        """The queue of a job, where that says whom it may preempt."""
        number = int(asked[WHERE])
        return self.wheres[number - 1].queue if number else ""

    # --- see Installed ----------------------------------------------------------------------------------------------

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: what it counts for, in the first of its partitions in which limits leave room."""
        first = None
        for way in self.ways(asked):
            if way.nodes[nodes].all():
                found = self._claims(asked, way, nodes, tasks)
                if (found[:, 1] <= free[found[:, 0]]).all():
                    return found
                first = found if first is None else first
        return NO_CLAIMS if first is None else first

    def _claims(self, asked: Ints, way: Way, nodes: Ints, tasks: Ints) -> Ints:
        rows = list[tuple[int, int]]()
        for place, amount in ask.own_of(self._counts(asked), way.partition):
            if place in self.by_node:
                rows += claimed_of(self.by_node[place], amount, nodes, tasks)
            else:
                rows.append((place, len(nodes) if amount < 0 else amount))
        return np.array(sorted(row for row in rows if row[1]), np.int64).reshape(-1, 2)

    def anywhere(self, asked: Ints, tasks: int, on: int = 0) -> Ints | None:
        """int64[claims, 2]: what it counts for on so many nodes (0: not known); ``None`` if which matters."""
        ways, counts = self.ways(asked), self._counts(asked)
        if len(ways) > 1 or any(way.counts for way in ways):
            return None
        if any((amount < 0 and not on) or inside or place in self.by_node for place, amount, inside in counts):
            return None
        return self._claims(asked, Way(self.computing), np.zeros(on, np.int64), NO_NODES)

    def by_cores(self, asked: Ints) -> list[int] | None:
        """As of :func:`by_cores`, of a job."""
        return by_cores(self.ways(asked), self._counts(asked), self.by_node)

    def at_least(self, asked: Ints) -> Ints:
        """int64[claims, 2]: what it counts for wherever it runs; of nodes the fewest that it can have."""
        own = ask.own_of(self._counts(asked), "")
        rows = [(place, abs(amount)) for place, amount in own if place not in self.by_node]
        return np.array(rows, np.int64).reshape(-1, 2)

    def agrees(self, asked: Ints, nodes: Ints, tasks: Ints, claims: Ints, devices: Ints = NONE_ATTACHED) -> bool:
        """Whether the nodes are of one way, and the claims what it counts for there."""
        return any(
            way.nodes[nodes].all() and ask.still_wanted(way, nodes) == 0
            and np.array_equal(self._claims(asked, way, nodes, tasks), claims)
            for way in self.ways(asked)
        )  # fmt: skip

    def most_nodes(self, asked: Ints, free: Ints, among: Bools) -> int:
        """By the limits of the ways to which these nodes belong."""
        counts, ways = self._counts(asked), self.ways(asked)
        if all(amount >= 0 for _, amount, _ in counts):
            return ANY_NUMBER
        own = [way for way in ways if not (among & ~way.nodes).any()] or ways
        return max((most_nodes(counts, way.partition, free) for way in own), default=0)

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes]: those of a way that has all nodes so far, where its limits leave room."""
        counts, (found, there) = self._counts(asked), np.zeros((2, len(self.computing)), np.bool_)
        there[nodes] = True
        for way in self.ways(asked):
            own, by_node = ask.own_of(counts, way.partition), self.by_node
            short = any(amount > free[place] for place, amount in own if place not in by_node)
            if short or not way.nodes[nodes].all():
                continue
            further = most_nodes(counts, way.partition, free) - len(nodes)
            fresh = ask.open_next(way, nodes, min(left, further)) & (further > 0)
            more = np.where(there, ask.open_next(way, nodes, left), fresh)
            for place, cores in own:
                more = more & open_of(by_node[place], cores, nodes, tasks, free) if place in by_node else more
            found |= more
        return found

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: too few nodes in every way, or more than a limit."""
        found = np.zeros(len(asked), np.bool_)
        if quantity == WHOSE:
            return found
        where, counts = (gangs.asked.get(name, 0 * asked) for name in QUANTITIES[:WHOSE])
        kinds, looked = np.stack([where, alike(self.counts, self.places, self.by_node)[counts]]), where > 0
        if quantity == COUNTS:  # on how few nodes a job may be is looked at with where that is
            over = np.array([self._over(number) is not None for number in range(len(self.counts) + 1)])
            found, looked = over[counts], (where == 0) & (counts > 0)
        for number, row in np.unique(kinds[:, looked], axis=1).T.tolist():
            own = looked & (kinds == [[number], [row]]).all(axis=0)
            ways, gang = self._ways(number, row), np.ones(int(own.sum()), np.int64)
            found[own] |= no_room(gang, gangs.some(own), partial(self._room, ways, number, row))
            most = [(way, self._most(row, way)) for way in ways]
            tasks = gangs.tasks[own].tolist()
            found[own] |= [not any(ask.open_next(way, NO_NODES, min(n, on)).any() for way, on in most) for n in tasks]
        return found

    def _room(self, ways: Sequence[Way], number: int, counts: int, _: int, cores: int, mb: int) -> int:
        fit = self._fit(number, cores, mb)
        return max((room_in(way, fit, self._most(counts, way)) for way in ways), default=0)

    def _most(self, counts: int, way: Way) -> int:
        return most_nodes(self._row(counts), way.partition, [place.amount for place in self.places])

    def _fit(self, number: int, cores: int, mb: int) -> Ints:
        """int64[nodes]: how many tasks each holds when it is empty."""
        own = self.wheres[number - 1].reservation if number else ""
        kept = self.cores_of[own] if self.owners.get(own, 0) > 0 and cores else {}
        return fit_beside(kept, self.cluster_nodes.room_for(cores, mb), cores)

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """The nodes that are too few, or the limit."""
        number, counts = (int(gangs.asked.get(name, [0])[0]) for name in QUANTITIES[:WHOSE])
        ways, row = self._ways(number, counts), self._row(counts)
        names = [""] if ways else [way.partition for way in self.ways_of_wheres[number]]
        over = [one for name in names if (one := self._over(counts, name)) is not None]
        if over:
            return Reason(Code.TOO_BIG, over[0][0].name, over[0][1], over[0][0].amount)
        where, tasks = self.wheres[number - 1] if number else Where(), int(gangs.tasks[0])
        if where.why:
            return Reason(Code.TOO_BIG, where.why)
        fit = self._fit(number, int(gangs.cores[0]), int(gangs.mb_on_nodes[0]))
        if short := short_of_nodes(ways, row, self.places, fit, tasks):
            return Reason(Code.TOO_BIG, *short)
        room = max((room_in(way, fit) for way in ways), default=0)
        return Reason(Code.TOO_BIG, f"places for tasks on nodes {ask.words(where)}", tasks, room)

    def _ways(self, number: int, counts: int) -> tuple[Way, ...]:
        """The ways to have nodes of a :class:`Where` in which no limit is less than a job counts for by itself."""
        return tuple(way for way in self.ways_of_wheres[number] if self._over(counts, way.partition) is None)

    def _over(self, number: int, partition: str = "") -> tuple[Place, int] | None:
        """The first limit that is less than a job counts for by itself, wherever it runs, or in a partition."""
        return first_over(self._row(number), partition, self.places, self.by_node)

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """The first limit that leaves too little, wherever it runs."""
        counts, by_node = self._counts(asked), self.by_node
        short = [
            [(p, abs(a)) for p, a in ask.own_of(counts, name) if p not in by_node and abs(a) > free[p]]
            for name in dict.fromkeys(way.partition for way in self.ways(asked))
        ]
        if not short or not all(short):
            return lacks_cores(self.ways(asked), self._counts(asked), by_node, self.keeps, free, tasks)
        place, amount = next((one for one in short[0] if one[0] >= len(self.keeps)), short[0][0])
        code = Code.NO_ROOM if place < len(self.keeps) else Code.LIMIT
        return Reason(code, self.places[place].name, amount, int(free[place]))

    def written(self) -> dict[str, Any]:
        """The keys of the cluster file; nodes by number."""
        made = self.file.model_dump(exclude_defaults=True)
        for one in made.get("reservations", ()):
            if one["name"] in self.reserved:
                one["nodes"] = ranges(np.flatnonzero(self.reserved[one["name"]]).tolist())
            if own := self.cores_of[one["name"]]:
                some = {cores: ranges(node for node in own if own[node] == cores) for cores in own.values()}
                one["nodes"] = [name for names in some.values() for name in names]
                one["cores"] = [cores for cores, names in some.items() for _ in names]
        for one in made.get("partitions", ()):
            if "nodes" in one:
                one["nodes"] = ranges(np.flatnonzero(self.nodes_of[one["name"]]).tolist())
        if "features" in made:
            made["features"] = {name: ranges(np.flatnonzero(mask).tolist()) for name, mask in self.features.items()}
        return made

    def _row(self, number: int) -> Counts:
        return self.counts[number - 1] if number else ()

    def _counts(self, asked: Ints) -> Counts:
        return self._row(int(asked[COUNTS]))
