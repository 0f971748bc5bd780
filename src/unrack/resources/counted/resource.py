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
from unrack.resources.checked import Strict, validated
from unrack.resources.contract import NONE_ATTACHED, Gangs, Installed, Nodes, Place, Usual, UsualResource, no_room
from unrack.resources.telling import Kept, Table, Told
from unrack.resources.use import use_of, use_tables
from unrack.units import quantity

Number = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
MEASURES = (
    Told("used_counted_QUANTITY", "", "", "share of a counter that jobs held", "∫ held dt / (installed x window)"),
    Told(
        "peak_counted_QUANTITY", "", "", "share of a counter that was held at most, in one rack where it is per rack",
        "max held / installed",
    ),
    Told(
        "full_counted_QUANTITY", "", "low", "share of the time in which nothing was left of a counter, in some rack",
        "time with held = installed / window",
    ),
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
        names = [file.name for file in files]
        for place, name in enumerate(names):
            if name in names[:place]:
                raise ClusterError(f"{where}.{place}.name", repr(name), "a name that no other counter has")
        return Counters(files, nodes, where)

    def measure(
        self,
        installed: Installed,
        claims: pl.DataFrame,
        jobs: pl.DataFrame,
        start_s: float,
        end_s: float,
        placements: pl.DataFrame | None = None,
    ) -> dict[str, float | None]:
        """How much of every counter was used."""
        return measures(installed.places, claims, start_s, end_s)

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """A table of every counter."""
        return tuple(
            table
            for file in (runs[0].written if runs else ())
            for table in use_tables(
                runs, f"counted.{file['name']}", file["name"], _words(file),
                {head: f"{stem}_counted_{file['name']}" for head, stem in HEADS.items()},
            )
        )  # fmt: skip


def _words(file: dict[str, object]) -> str:
    where, some = ("in each rack", " in some rack") if file["per"] == "rack" else ("on the cluster", "")
    return (
        f"Installed: {file['amount']} {where}. In use: the mean over time; peak: the most at any time"
        f"{', in one rack' if some else ''}; all out: the share of the time in which nothing was left{some}."
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
    # How much there is of it: of the whole cluster, or in each rack. Rounded down to a whole number.
    amount: Number | str
    # ``"cluster"``, the default: one counter for all nodes. ``"rack"``: one in each rack, for tasks there.
    per: Literal["cluster", "rack"] = "cluster"
    # Who asks for the amount of the job's column: the whole ``"job"``, once (of a counter per rack: once in each rack
    # where it runs), or every ``"task"``. Default: ``"job"`` per cluster, ``"task"`` per rack.
    asked_by: Literal["job", "task"] | None = None

    @model_validator(mode="after")
    def _an_amount(self) -> CounterFile:
        if self.units < 1:
            raise ValueError(f"an amount of 1 or more, not {self.amount!r}")
        return self

    @property
    def units(self) -> int:
        """The amount in whole units."""
        return quantity(self.name, self.amount, "down")

    @property
    def by_task(self) -> bool:
        """Whether every task asks for the amount."""
        return self.per == "rack" if self.asked_by is None else self.asked_by == "task"


COUNTERS: TypeAdapter[list[CounterFile]] = TypeAdapter(list[CounterFile])


class Counter(NamedTuple):
    """One counter, and the number of its first place; one per rack has a place in each rack with cores."""

    file: CounterFile
    first: int
    size: int

    @property
    def places(self) -> slice:
        """Which places are its own."""
        return slice(self.first, self.first + self.size)


class Counters(Usual):
    """What is counted on a cluster; see :class:`unrack.resources.contract.Installed`."""

    def __init__(self, files: Sequence[CounterFile], nodes: Nodes, where: str) -> None:
        self._nodes = nodes
        self._racks = np.unique(nodes.rack[nodes.cores > 0])
        self._rack = np.searchsorted(self._racks, nodes.rack).clip(max=len(self._racks) - 1)  # the place of each node
        self._counters: list[Counter] = []
        places: list[Place] = []
        for i, file in enumerate(files):
            if file.per == "rack" and len(nodes.rack_names) < 2:
                want = "racks: nodes_per_rack, or rack of each class of nodes"
                raise ClusterError(f"{where}.{i}.per", f"'rack', and all nodes are in {nodes.rack_names[0]}", want)
            racks = [nodes.rack_names[rack] for rack in self._racks.tolist()] if file.per == "rack" else []
            names = [f"{file.name} of {rack}" for rack in racks] or [file.name]
            self._counters.append(Counter(file, len(places), len(names)))
            places += [Place(name, file.name, file.units) for name in names]
        self.places = tuple(places)
        self.quantities = tuple(file.name for file in files)
        self.once = frozenset(file.name for file in files if not file.by_task)  # those that a whole job asks for

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: of every counter that is asked for, at its place or in each rack where tasks run."""
        rows: list[tuple[int, int]] = []
        for counter, amount in zip(self._counters, asked.tolist(), strict=True):
            if not amount:
                continue
            at = self._rack[nodes] if counter.file.per == "rack" else np.zeros(len(nodes), np.int64)
            held = np.bincount(at, tasks, counter.size).astype(np.int64)
            where = np.flatnonzero(held)
            each = held[where] * amount if counter.file.by_task else np.full(len(where), amount)
            rows += zip((counter.first + where).tolist(), each.tolist(), strict=True)
        return np.array(rows, np.int64).reshape(-1, 2)

    def anywhere(self, asked: Ints, tasks: int) -> Ints | None:
        """int64[claims, 2]: of the counters of the cluster; ``None`` if a counter per rack is asked for."""
        if any(amount and counter.file.per == "rack" for counter, amount in zip(self._counters, asked, strict=True)):
            return None
        nobody = np.zeros(1, np.int64)
        return self.claims(asked, nobody, np.array([tasks]), nobody)

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes]: where one more task finds enough of all counters."""
        found = np.ones(len(self._rack), np.bool_)
        for counter, amount in zip(self._counters, asked.tolist(), strict=True):
            if not amount:
                continue
            of_rack = counter.file.per == "rack"
            at = self._rack[nodes] if of_rack else np.zeros(len(nodes), np.int64)
            needs = np.full(counter.size, amount)
            if counter.file.by_task:
                needs = amount * (np.bincount(at, tasks, counter.size).astype(np.int64) + 1)
            enough = free[counter.places] >= needs
            found &= enough[self._rack] if of_rack else bool(enough[0])
        return found

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: more than is installed; per rack and task, no racks have nodes and enough of it for all tasks."""
        file = self._counters[quantity].file
        if not file.by_task:
            return asked > file.units
        if file.per == "cluster":
            return asked * gangs.tasks > file.units
        return no_room(asked, gangs, lambda *kind: self._room(file.units, *kind))

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """The counter, and how much is installed of it."""
        file, what = self._counters[quantity].file, f"counted.{self.quantities[quantity]}"
        tasks = int(gangs.tasks[0])
        if file.per == "cluster":
            return Reason(Code.TOO_BIG, what, asked * tasks if file.by_task else asked, file.units)
        if asked > file.units:
            return Reason(Code.TOO_BIG, f"{what} in one rack", asked, file.units)
        mb = 0 if gangs.elsewhere else int(gangs.memory_mb[0])
        room = self._room(file.units, asked, int(gangs.cores[0]), mb)
        return Reason(Code.TOO_BIG, f"places for tasks with {asked} {what} in their racks", tasks, room)

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """The first counter of which too little is free, in the rack that has most of it or everywhere."""
        for counter, amount in zip(self._counters, asked.tolist(), strict=True):
            if not amount:
                continue
            own, what = free[counter.places], f"counted.{counter.file.name}"
            if counter.file.per == "cluster":
                needs = amount * tasks if counter.file.by_task else amount
                if needs > own[0]:
                    return Reason(Code.NO_ROOM, what, needs, int(own[0]))
            elif amount > own.max():
                return Reason(Code.NO_ROOM, f"{what} in one rack", amount, int(own.max()))
            elif counter.file.by_task and (room := int((own // amount).sum())) < tasks:
                return Reason(Code.NO_ROOM, f"places for tasks with {amount} {what} in their racks", tasks, room)
        return None

    def written(self) -> list[dict[str, Any]]:
        """The keys of the cluster file."""
        return [counter.file.model_dump() for counter in self._counters]

    def _room(self, units: int, amount: int, cores: int, mb: int) -> int:
        fit = np.bincount(self._rack, self._nodes.room_for(cores, mb), len(self._racks))
        return int(np.minimum(fit, units // amount).sum())
