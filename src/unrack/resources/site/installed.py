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
from unrack.resources.checked import keys_of, ranges, validated
from unrack.resources.contract import NONE_ATTACHED, Gangs, Nodes, NodeSets, Place, Usual, no_room
from unrack.resources.site import features as ask
from unrack.resources.site.features import Counts, Way, Where, Whose
from unrack.resources.site.kept import INSIDE, OUTSIDE, amounts_of, keeps_of, windows_of
from unrack.resources.site.keys import SiteFile
from unrack.resources.site.quotas import Nominal, Quota, places_of, quotas_of
from unrack.resources.site.ranks import Ranks, ranks_of
from unrack.resources.site.reserved_cores import by_cores, by_node, claimed_of, cores_of, open_of, room_of

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
            self.quotas: list[Quota] = quotas_of(self.file.queues)
        except ValueError as error:
            got, want = str(error).rpartition(", not ")[::2][::-1]
            raise ClusterError(f"{where}.queues", got, want) from None
        self.features = {name: self._mask(some, f"features.{name}") for name, some in self.file.features.items()}
        # the number of the windows of a reservation; below 0: its jobs run outside of these, too
        self.owners = {one.name: -i if one.flex else i for i, one in enumerate(self.file.reservations, 1)}
        self.reserved = {
            one.name: self._mask(one.nodes, f"reservations.{i}.nodes")
            for i, one in enumerate(self.file.reservations)
            if one.nodes is not None
        }
        open_at = [one for one in self.file.partitions if one.hours]
        self.hours = {one.name: number for number, one in enumerate(open_at, len(self.owners) + 1)}
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
        self.windows = windows_of(self.file, self.owners, whole, self.hours, self.keeps, nodes)
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

    def _mask(self, members: Sequence[str], key: str) -> Bools:
        found = np.zeros(len(self.computing), np.bool_)
        found[self.cluster_nodes.named(members, f"{self.at}.{key}")] = True
        return found & self.computing

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
        return Site({**self.written(), "bound": made}, self.cluster_nodes, self.at)

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
            base = self.reserved.get(where.reservation, base) if self.owners[where.reservation] > 0 else base
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
        """The owner of the windows in which jobs run: of their reservation, or of their only partition."""
        if where.reservation:
            return self.owners[where.reservation]
        return self.hours.get((where.partitions or ("",))[0], 0)

    def choices(self, asked: Ints) -> tuple[Bools, ...]:
        """The ways, where there are several."""
        ways = self.ways(asked)
        return tuple(way.nodes for way in ways) if len(ways) > 1 else ()

    @cached_property
    def ranks(self) -> Ranks | None:
        """Which jobs may preempt which, by number of a :class:`Where`; ``None``: none."""
        return ranks_of(self.file, [((), "", ""), *((w.partitions or (), w.qos, w.queue) for w in self.wheres)])

    @cached_property
    def nominal(self) -> dict[int, Nominal]:
        """By the places where a queue's own jobs claim, what it has without borrowing."""
        known = {quota.places[0][0]: Nominal(quota.nominal, (quota.flavour, quota.measure)) for quota in self.quotas}
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
            full = any(amount < 0 and free[place] <= len(nodes) for place, amount in own)
            more = ask.open_next(way, nodes, left) & (there | (not full))
            for place, cores in own:
                more = more & open_of(by_node[place], cores, nodes, tasks, free) if place in by_node else more
            found |= more
        return found

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: too few nodes in every way, or more than a limit."""
        if quantity == COUNTS:
            over = np.array([self._over(number) is not None for number in range(len(self.counts) + 1)])
            return np.asarray(over[asked], np.bool_)
        found = np.zeros(len(asked), np.bool_)
        several = np.array([False, *(len(one.partitions or ()) > 1 for one in self.wheres)])
        kinds = np.stack([asked, gangs.asked.get("counts", found) * several[asked if quantity == WHERE else 0]])
        for number, counts in [] if quantity == WHOSE else np.unique(kinds, axis=1).T.tolist():
            own = (kinds == [[number], [counts]]).all(axis=0) & (asked > 0)
            if own.any():
                ways, gang = self._ways(number, counts), np.ones(int(own.sum()), np.int64)
                found[own] = no_room(gang, gangs.some(own), partial(self._room, ways, number))
                none, tasks = np.zeros(0, np.int64), gangs.tasks[own].tolist()
                found[own] |= [not any(ask.open_next(way, none, n).any() for way in ways) for n in tasks]
        return found

    def _room(self, ways: Sequence[Way], number: int, _: int, cores: int, mb: int) -> int:
        fit, where = self.cluster_nodes.room_for(cores, mb), self.wheres[number - 1]
        kept = self.cores_of[where.reservation] if self.owners.get(where.reservation, 0) > 0 and cores else {}
        for node, most in kept.items():
            fit[node] = min(fit[node], most // cores)
        return max(
            (
                int(np.minimum(fit[way.nodes], 2**31).sum())
                for way in ways
                if all(int((fit[way.nodes & mask] > 0).sum()) >= count for count, mask in way.counts)
            ),
            default=0,
        )

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """The nodes that are too few, or the limit."""
        counts, names = int(gangs.asked.get("counts", [0])[0]), [""]
        if quantity == WHERE and not self._ways(asked, counts):
            names = [way.partition for way in self.ways_of_wheres[asked]]
        over = [one for name in names if (one := self._over(counts, name)) is not None]
        if over:
            return Reason(Code.TOO_BIG, over[0][0].name, over[0][1], over[0][0].amount)
        where, mb = self.wheres[asked - 1], 0 if gangs.elsewhere else int(gangs.memory_mb[0])
        if where.why:
            return Reason(Code.TOO_BIG, where.why)
        room = self._room(self._ways(asked, counts), asked, 1, int(gangs.cores[0]), mb)
        return Reason(Code.TOO_BIG, f"places for tasks on nodes {ask.words(where)}", int(gangs.tasks[0]), room)

    def _ways(self, number: int, counts: int) -> tuple[Way, ...]:
        """The ways to have nodes of a :class:`Where` in which no limit is less than a job counts for by itself."""
        return tuple(way for way in self.ways_of_wheres[number] if self._over(counts, way.partition) is None)

    def _over(self, number: int, partition: str = "") -> tuple[Place, int] | None:
        """The first limit that is less than a job counts for by itself, wherever it runs, or in a partition."""
        own = ask.own_of(self.counts[number - 1] if number else (), partition)
        over = ((self.places[place], abs(amount)) for place, amount in own if place not in self.by_node)
        return next((one for one in over if one[0].amount < one[1]), None)

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """The first limit that leaves too little, wherever it runs."""
        counts, by_node = self._counts(asked), self.by_node
        short = [
            [(p, abs(a)) for p, a in ask.own_of(counts, name) if p not in by_node and abs(a) > free[p]]
            for name in dict.fromkeys(way.partition for way in self.ways(asked))
        ]
        if not short or not all(short):
            return self._lacks_cores(asked, free, tasks)
        place, amount = next((one for one in short[0] if one[0] >= len(self.keeps)), short[0][0])
        code = Code.NO_ROOM if place < len(self.keeps) else Code.LIMIT
        return Reason(code, self.places[place].name, amount, int(free[place]))

    def _lacks_cores(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """Too few cores beside what is kept of all nodes that it may use."""
        nodes = np.logical_or.reduce([way.nodes for way in self.ways(asked)] or [~self.computing])
        for place, cores, _ in self._counts(asked):
            at = self.by_node.get(place)
            room = None if at is None else room_of(at, cores, nodes, free)
            if room is not None and room < tasks:
                keep = self.keeps[place]
                where = f"{INSIDE if keep.inside else OUTSIDE} {' and '.join(keep.owners)}"
                return Reason(Code.NO_ROOM, f"places for tasks of {cores} cores{where}", tasks, room)
        return None

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

    def _counts(self, asked: Ints) -> Counts:
        number = int(asked[COUNTS])
        return self.counts[number - 1] if number else ()
