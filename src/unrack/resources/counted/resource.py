"""The resource ``counted``: its keys, metrics and section, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import Field, TypeAdapter, model_validator

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints
from unrack.reasons import Code, Reason
from unrack.resources.checked import Names, Strict, ranges, validated
from unrack.resources.contract import NONE_ATTACHED, Gangs, Installed, Nodes, Place, Usual, UsualResource, no_room
from unrack.resources.use import Kept, Measured, Metric, Table, use_of, use_tables
from unrack.units import quantity

Number = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
MEASURES = (
    Metric("used_counted_QUANTITY", "", "", "share of a counter that jobs held", "∫ held dt / (installed x window)"),
    Metric("peak_counted_QUANTITY", "", "",
           "share of a counter that was held at most, in one rack where it is per rack",
           "max held / installed"),
    Metric("full_counted_QUANTITY", "", "low", "share of the time in which nothing was left of a counter, in some rack",
           "time with held = installed / window"),
)  # fmt: skip
HEADS = {"in use": "used", "peak": "peak", "all out": "full"}


class Counted(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "counted"
    title = "Licences and other counters"
    metrics = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The counters of a cluster file."""
        files = validated(COUNTERS.validate_python, table, f"{where}.", CounterFile.model_fields)
        for place, file in enumerate(files):
            same = next((one for one in files[:place] if one.name == file.name), None)
            if same is not None and not same.per == file.per == "node":
                raise ClusterError(f"{where}.{place}.name", repr(file.name), "a name that no other counter has")
        return Counters(files, nodes, where)

    def measure(self, run: Measured) -> dict[str, float | None]:
        """How much of every counter was used."""
        return measures(run.installed.places, run.claims, run.start_s, run.end_s)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """A table of every counter."""
        return tuple(
            table
            for file in {file["name"]: file for file in (runs[0].written if runs else ())}.values()
            for table in use_tables(
                runs, f"counted.{file['name']}", file["name"], _words(file),
                {head: f"{stem}_counted_{file['name']}" for head, stem in HEADS.items()},
            )
        )  # fmt: skip


def _words(file: dict[str, object]) -> str:
    per = file["per"]
    where, some = ("on the cluster", "") if per == "cluster" else (f"in each {per}", f" in some {per}")
    return (
        f"Installed: {file['amount']} {where}. In use: the mean over time; peak: the most at any time"
        f"{f', in one {per}' if some else ''}; all out: the share of the time in which nothing was left{some}."
    )


def measures(places: Sequence[Place], claims: pl.DataFrame, start_s: float, end_s: float) -> dict[str, float | None]:
    """Every metric of every counter; ``None`` over a window that lasts no time."""
    values: dict[str, float | None] = {}
    for name in dict.fromkeys(place.quantity for place in places):
        own = {place.name: place.amount for place in places if place.quantity == name}
        use = use_of(own, claims.filter(pl.col("place").is_in(list(own))), start_s, end_s)
        values |= {f"{stem}_counted_{name}": value for stem, value in use._asdict().items()}
    return values


class CounterFile(Strict):
    """A ``[[counted]]`` table: one thing that is counted."""

    # What jobs ask for as ``counted.NAME``. One that ends in ``_mb_s`` is a bandwidth (``"12.5 GB/s"``), one that
    # ends in ``_mb`` a size (``"2 TB"``), any other a plain number.
    name: str = Field(pattern=r"^[A-Za-z]\w*$")
    # How much there is of it: of the whole cluster, or in each rack or node. Rounded down to a whole number.
    amount: Number | str
    # ``"cluster"``, the default: one counter for all nodes. ``"rack"``, ``"node"``: one in each, for tasks there.
    per: Literal["cluster", "rack", "node"] = "cluster"
    # Per node: those that have it, as of partitions; default: all with cores. Several tables of a name are of nodes
    # with unlike amounts.
    nodes: Names | None = None
    # What asks for the amount of the job's column: the whole ``"job"``, once (of a counter per rack or node: once in
    # each where it runs), or every ``"task"``. Default: ``"job"`` per cluster, else ``"task"``.
    asked_by: Literal["job", "task"] | None = None

    @model_validator(mode="after")
    def _an_amount(self) -> CounterFile:
        if self.units < 1:
            raise ValueError(f"an amount of 1 or more, not {self.amount!r}")
        if self.nodes is not None and self.per != "node":
            raise ValueError("nodes with per = 'node' alone")
        return self

    @property
    def units(self) -> int:
        """The amount in whole units."""
        return quantity(self.name, self.amount, "down")

    @property
    def by_task(self) -> bool:
        """Whether every task asks for the amount."""
        return self.per != "cluster" if self.asked_by is None else self.asked_by == "task"


COUNTERS: TypeAdapter[list[CounterFile]] = TypeAdapter(list[CounterFile])


class Counter(NamedTuple):
    """One counter; one per rack or node has a place in each with cores."""

    file: CounterFile
    places: slice  # which are its own
    amounts: Ints  # int64[its places]: installed
    at: Ints  # int64[nodes]: which of its places tasks there claim; -1: none, as the node has nothing of it
    by_task: bool  # whether every task asks for the amount


class Counters(Usual):
    """What is counted on a cluster; see :class:`unrack.resources.contract.Installed`."""

    def __init__(self, files: Sequence[CounterFile], nodes: Nodes, where: str) -> None:
        self._nodes, self._files = nodes, tuple(files)
        self._counters: list[Counter] = []
        places: list[Place] = []
        for i, file in enumerate(files):
            if any(one.file.name == file.name for one in self._counters):
                continue
            names, amounts, at = self._parted(file, f"{where}.{i}")
            own = slice(len(places), len(places) + len(names))
            self._counters.append(Counter(file, own, amounts, at, file.by_task))
            places += [Place(*place) for place in zip(names, [file.name] * len(names), amounts.tolist(), strict=True)]
        self.places = tuple(places)
        self.quantities = tuple(counter.file.name for counter in self._counters)
        self.once = frozenset(file.name for file in files if not file.by_task)  # those that a whole job asks for

    @property
    def whole(self) -> dict[str, int]:
        """``counted.NAME`` and how much there is of it, of each counter of the whole cluster."""
        return {f"counted.{one.file.name}": one.file.units for one in self._counters if one.file.per == "cluster"}

    def _parted(self, file: CounterFile, where: str) -> tuple[list[str], Ints, Ints]:
        """The names of a counter's places, what is installed there, and the place of each node."""
        nodes = self._nodes
        if file.per == "cluster":
            return [file.name], np.array([file.units]), np.zeros(len(nodes.cores), np.int64)
        if file.per == "rack":
            if len(nodes.rack_names) < 2:
                want = "racks: nodes_per_rack, or rack of each class of nodes"
                raise ClusterError(f"{where}.per", f"'rack', and all nodes are in {nodes.rack_names[0]}", want)
            racks = np.unique(nodes.rack[nodes.cores > 0])
            names = [f"{file.name} of {nodes.rack_names[rack]}" for rack in racks.tolist()]
            at = np.searchsorted(racks, nodes.rack).clip(max=len(racks) - 1)
            return names, np.full(len(racks), file.units), at
        amounts = np.zeros(len(nodes.cores), np.int64)
        for one in self._files:
            if one.name == file.name:
                there = slice(None) if one.nodes is None else nodes.named(one.nodes, f"{where}.nodes")
                amounts[there] = one.units
        some = (amounts > 0) & (nodes.cores > 0)
        if not some.any():
            raise ClusterError(f"{where}.nodes", "no node with cores", "one or more")
        own = np.flatnonzero(some)
        return (
            [f"{file.name} of node {node}" for node in own.tolist()],
            amounts[own],
            np.where(some, some.cumsum() - 1, -1),
        )

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: of every counter that is asked for, at its place or in each rack where tasks run."""
        rows: list[tuple[int, int]] = []
        for counter, amount in zip(self._counters, asked.tolist(), strict=True):
            if not amount:
                continue
            at = counter.at[nodes]
            held = np.bincount(at[at >= 0], tasks[at >= 0], len(counter.amounts)).astype(np.int64)
            where = np.flatnonzero(held)
            each = held[where] * amount if counter.by_task else np.full(len(where), amount)
            rows += zip((counter.places.start + where).tolist(), each.tolist(), strict=True)
        return np.array(rows, np.int64).reshape(-1, 2)

    def anywhere(self, asked: Ints, tasks: int) -> Ints | None:
        """int64[claims, 2]: of the counters of the cluster; ``None`` if one per rack or node is asked for."""
        if any(amount and counter.file.per != "cluster" for counter, amount in zip(self._counters, asked, strict=True)):
            return None
        zero = np.zeros(1, np.int64)
        return self.claims(asked, zero, np.array([tasks]), zero)

    def ample(self, asked: Ints, full: Ints, total: Ints) -> bool:
        """Whether there is enough per rack and node, of what jobs ask for if every task is a job of its own."""
        for counter, amount in zip(self._counters, asked.tolist(), strict=True):
            if amount and counter.file.per != "cluster":
                at, tasks = counter.at[full > 0], full[full > 0]
                held = np.bincount(at.clip(0), tasks, len(counter.amounts)).astype(np.int64)
                if (at < 0).any() or (amount * held > total[counter.places]).any():
                    return False
        return True

    def certain(self, asked: Ints, tasks: int) -> Ints:
        """Of the counters of the cluster."""
        whole = [counter.file.per == "cluster" for counter in self._counters]
        found = self.anywhere(np.where(whole, asked, 0), tasks)
        assert found is not None
        return found

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes]: where one more task finds enough of all counters."""
        found = np.ones(len(self._nodes.cores), np.bool_)
        for counter, amount in zip(self._counters, asked.tolist(), strict=True):
            if not amount:
                continue
            needs: int | Ints = amount
            if counter.by_task and len(nodes):
                at = counter.at[nodes]
                needs = amount * (np.bincount(at[at >= 0], tasks[at >= 0], len(counter.amounts)).astype(np.int64) + 1)
            found &= (counter.at >= 0) & (free[counter.places] >= needs)[counter.at]
        return found

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: more than is installed; per rack or node, too few have nodes and enough of it for all tasks."""
        counter = self._counters[quantity]
        if counter.file.per == "node" or (counter.file.per == "rack" and counter.by_task):
            return no_room(asked, gangs, lambda *kind: self._room(counter, *kind))
        most = int(counter.amounts.max())
        return asked * gangs.tasks > most if counter.by_task else asked > most

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """The counter, and how much is installed of it."""
        counter, what = self._counters[quantity], f"counted.{self.quantities[quantity]}"
        file, tasks, most = counter.file, int(gangs.tasks[0]), int(counter.amounts.max())
        if file.per == "cluster":
            return Reason(Code.TOO_BIG, what, asked * tasks if file.by_task else asked, most)
        if asked > most:
            return Reason(Code.TOO_BIG, f"{what} in one {file.per}", asked, most)
        room = self._room(counter, asked, int(gangs.cores[0]), int(gangs.mb_on_nodes[0]))
        return Reason(Code.TOO_BIG, f"places for tasks with {asked} {what} in their {file.per}s", tasks, room)

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """The first counter of which too little is free, in the rack or node that has most of it or everywhere."""
        for counter, amount in zip(self._counters, asked.tolist(), strict=True):
            if not amount:
                continue
            own, what = free[counter.places], f"counted.{counter.file.name}"
            if counter.file.per == "cluster":
                needs = amount * tasks if counter.by_task else amount
                if needs > own[0]:
                    return Reason(Code.NO_ROOM, what, needs, int(own[0]))
            elif amount > own.max():
                return Reason(Code.NO_ROOM, f"{what} in one {counter.file.per}", amount, int(own.max()))
            elif counter.by_task and (room := int((own // amount).sum())) < tasks:
                where = f"in their {counter.file.per}s"
                return Reason(Code.NO_ROOM, f"places for tasks with {amount} {what} {where}", tasks, room)
        return None

    def written(self) -> list[dict[str, Any]]:
        """The keys of the cluster file; nodes by number."""
        made = [file.model_dump(exclude={"nodes"}) for file in self._files]
        for one, file in zip(made, self._files, strict=True):
            if file.nodes is not None:
                one["nodes"] = ranges(sorted(set(self._nodes.named(file.nodes, "counted"))))
        return made

    def _room(self, counter: Counter, amount: int, cores: int, mb: int) -> int:
        """How many tasks the places of a counter hold on their nodes when all is free."""
        fit, some = self._nodes.room_for(cores, mb), counter.at >= 0
        room = np.bincount(counter.at[some], fit[some], len(counter.amounts)).astype(np.int64)
        if not counter.by_task:
            return int(room[counter.amounts >= amount].sum())
        return int(np.minimum(room, counter.amounts // amount).sum())
