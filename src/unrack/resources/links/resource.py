"""The resource ``links``: one of each node, one of each rack where racks have uplinks, and what jobs claim of them.

How an application feels the load of a link is said by the shares of its run time that it spends in the network. One
that spends the share a of its run time in the network when it is alone, and b beside a neighbour that fills the link,
computes for the same time in both. A run of length 1 alone is one of (1 - a) / (1 - b) there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import Field, FiniteFloat, model_validator

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Ints
from unrack.reasons import Code, Reason
from unrack.resources.checked import Strict, validated
from unrack.resources.contract import (
    DEVICES,
    HOME,
    NONE_ATTACHED,
    TASK_NODE,
    Gangs,
    Installed,
    Nodes,
    Place,
    Slowdown,
    Usual,
    UsualResource,
    no_room,
)
from unrack.resources.use import Kept, Measured, Metric, Table, csv_of, use_of, use_tables
from unrack.units import bandwidth_mb_s

COLUMNS = ("application", "alone", "beside")
"""Columns of a file of profiles: a name, and two shares of the run time in per cent."""
RODINIA: Mapping[str, tuple[float, float]] = {
    "b+tree": (0.2, 1), "nw": (17, 49), "backprop": (5, 6), "gaussian": (1, 9), "lavamd": (2, 3),
    "pathfinder": (2, 11), "srad": (3, 8),
}  # fmt: skip
"""Rodinia over remote GPUs, alone and beside Iperf (paper 001, §3.3.3, fig. 14); of hotspot it gives no numbers."""
BUILT_IN = {"rodinia": RODINIA}
"""Profiles that come with unrack, by name."""


@dataclass(frozen=True)
class Profiles:
    """Shares of applications by name: in per cent of the run time, alone and beside a full link."""

    shares: Mapping[str, tuple[float, float]]

    def full_factor(self, application: str) -> float:
        """How many times as long a run takes beside a full link; 1 for an application without a profile.

        Examples
        --------
        >>> profiles = Profiles(RODINIA)
        >>> round(profiles.full_factor("nw"), 3), profiles.full_factor("hotspot")
        (1.627, 1.0)
        """
        alone, beside = self.shares.get(application, (0.0, 0.0))
        return (100.0 - alone) / (100.0 - beside)


def read_profiles(given: str | Mapping[str, tuple[float, float]], where: str) -> Profiles:
    """Profiles by name, from a CSV file, or as a table says.

    A ClusterError if there is no such name or file, or it says something impossible.
    """
    if not isinstance(given, str):
        return Profiles({name: _checked(shares, f"{where}.{name}", "") for name, shares in given.items()})
    if given == "":
        return Profiles({})
    if given in BUILT_IN:
        return Profiles(BUILT_IN[given])
    table = csv_of(given, BUILT_IN, where, as_text=True)
    if set(table.columns) != set(COLUMNS):
        raise ClusterError(where, f"{given} with the columns {', '.join(table.columns)}", ", ".join(COLUMNS))
    found: dict[str, tuple[float, float]] = {}
    for number, (name, *texts) in enumerate(table.select(COLUMNS).rows()):
        row = f"{given}, row {number + 2}: "
        if not name or name in found:
            raise ClusterError(where, f"{row}{name!r}", "an application that no other row has")
        try:
            alone, beside = (float(text) for text in texts)
        except (TypeError, ValueError):
            raise ClusterError(where, f"{row}{texts[0]!r}, {texts[1]!r}", "two shares in per cent") from None
        found[name] = _checked((alone, beside), where, row)
    return Profiles(found)


def _checked(shares: tuple[float, float], where: str, row: str) -> tuple[float, float]:
    alone, beside = shares
    if not 0 <= alone <= beside < 100:
        want = "shares of the run time in per cent, from 0 to below 100, beside a full link no less than alone"
        raise ClusterError(where, f"{row}{alone:g}, {beside:g}", want)
    return alone, beside


Number = Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)]
QUANTITIES = ("mb_s", "remote_mb_s")
"""What jobs ask for as ``links.NAME``: what each task sends over the link of its node, and what each device that sits
in another node than its task sends over the links of both."""
MB_S, REMOTE_MB_S = range(2)
LINK, UPLINK = "mb_s", "uplink_mb_s"
"""Quantities of places."""


class Links(Usual):
    """Links of nodes and uplinks of racks; see :class:`unrack.resources.contract.Installed`.

    Place i is the link of node i; after the nodes come the uplinks of racks.

    Attributes
    ----------
    capacity : int64[places]
        What each carries, MB/s. Jobs may claim ``oversubscribe`` times as much.
    profiles
        How applications feel the load.
    """

    quantities = QUANTITIES

    def __init__(self, file: LinksFile, nodes: Nodes, where: str) -> None:
        self._file, self._nodes, self.count = file, nodes, len(nodes.cores)
        self.profiles = read_profiles(file.profiles, f"{where}.profiles")
        places = [Place(f"link of node {node}", LINK, file.held(file.units)) for node in range(self.count)]
        capacity = [file.units] * self.count
        if file.racks is not None:
            if len(nodes.rack_names) < 2:
                want = "racks: nodes_per_rack, or rack of each class of nodes"
                raise ClusterError(f"{where}.racks", f"uplinks, and all nodes are in {nodes.rack_names[0]}", want)
            units = file.racks.units
            places += [Place(f"uplink of {name}", UPLINK, file.held(units)) for name in nodes.rack_names]
            capacity += [units] * len(nodes.rack_names)
        self.places = tuple(places)
        self.capacity = np.array(capacity, np.int64)

    def claims(self, asked: Ints, nodes: Ints, tasks: Ints, free: Ints, devices: Ints = NONE_ATTACHED) -> Ints:
        """int64[claims, 2]: what its tasks send, and what its devices on other nodes send, at both ends.

        Between racks it passes the uplinks of both. A device that sits in no node has no link, and no rack.
        """
        load = self._load(asked, nodes, tasks, devices)
        where = np.flatnonzero(load)
        return np.stack([where, load[where]], axis=1)

    def adds_up(self, asked: Ints) -> bool:
        """What tasks send does; where devices sit is not known."""
        return not asked[REMOTE_MB_S]

    def device_costs(self, asked: Ints, free: Ints, nodes: Ints, homes: Ints) -> Ints:
        """int64[nodes, homes]: nothing at home; what it sends at both ends, and over two uplinks between racks."""
        each, at = int(asked[REMOTE_MB_S]), nodes[:, None]
        if not each:
            return np.zeros((len(nodes), len(homes)), np.int64)
        far, known = homes != at, homes >= 0
        room = free >= each
        costs = np.where(far, each * (1 + known), 0)
        fits = ~far | (room[at] & (~known | room[homes]))
        if self._file.racks is not None:
            up = self.count + self._nodes.rack
            across = far & known & (up[homes] != up[at])
            costs += 2 * each * across
            fits &= ~across | (room[up[at]] & room[up[homes]])
        return np.where(fits, costs, -1)

    def open_nodes(
        self, asked: Ints, free: Ints, nodes: Ints, tasks: Ints, left: int = 1, devices: Ints = NONE_ATTACHED
    ) -> Bools:
        """bool[nodes]: nodes with a link on which one more task finds enough for itself."""
        room = free - self._load(asked, nodes, tasks, devices)
        if (room < 0).any():
            return np.zeros(self.count, np.bool_)
        found: Bools = room[: self.count] >= asked[MB_S]
        return found

    def never(self, quantity: int, asked: Ints, gangs: Gangs) -> Bools:
        """bool[jobs]: those with tasks that find too few links, or remote devices that send more than one carries.

        Of devices only as many are looked at as no task can have at home.
        """
        most = self.places[0].amount
        if quantity == REMOTE_MB_S:
            return np.zeros(len(asked), np.bool_) if gangs.remote is None else asked * gangs.remote > most
        return no_room(asked, gangs, self._room)

    def too_big(self, quantity: int, asked: int, gangs: Gangs) -> Reason:
        """What a link carries, or how many tasks all links do."""
        what, most = f"links.{QUANTITIES[quantity]}", self.places[0].amount
        if quantity == REMOTE_MB_S:
            remote = 0 if gangs.remote is None else int(gangs.remote[0])
            return Reason(Code.TOO_BIG, f"{what} on one link, of {remote} devices of other nodes", asked * remote, most)
        if asked > most:
            return Reason(Code.TOO_BIG, f"{what} on one link", asked, most)
        room = self._room(asked, int(gangs.cores[0]), int(gangs.mb_on_nodes[0]))
        return Reason(Code.TOO_BIG, f"places for tasks with {asked} {what}", int(gangs.tasks[0]), room)

    def lacks(self, asked: Ints, free: Ints, tasks: int) -> Reason | None:
        """Too little on all links for what the tasks send; of devices nothing can be said before they are chosen."""
        each = int(asked[MB_S])
        if not each:
            return None
        left = np.where(self._nodes.cores > 0, free[: self.count], 0)
        if each > left.max():
            best = int(left.argmax())
            return Reason(Code.NO_ROOM, f"links: {self.places[best].name}, where most is left", each, int(left[best]))
        room = int((left // each).sum())
        if room < tasks:
            return Reason(Code.NO_ROOM, f"places for tasks with {each} links.mb_s", tasks, room)
        return None

    def written(self) -> dict[str, Any]:
        """The keys of the cluster file, with what a file of profiles says in place of its name."""
        keys = self._file.model_dump(exclude_none=True)
        keys["profiles"] = {name: [*map(float, shares)] for name, shares in self.profiles.shares.items()}
        return keys

    def _load(self, asked: Ints, nodes: Ints, tasks: Ints, devices: Ints) -> Ints:
        load = np.zeros(len(self.places), np.int64)
        np.add.at(load, nodes, tasks * asked[MB_S])
        if not asked[REMOTE_MB_S] or not len(devices):
            return load
        far = devices[devices[:, TASK_NODE] != devices[:, HOME]]
        at, home, sent = far[:, TASK_NODE], far[:, HOME], far[:, DEVICES] * asked[REMOTE_MB_S]
        known = home >= 0
        np.add.at(load, at, sent)
        np.add.at(load, home[known], sent[known])
        if self._file.racks is not None:
            rack = self._nodes.rack
            across = known & (rack[at] != rack[home])
            for end in (at, home):
                np.add.at(load, self.count + rack[end[across]], sent[across])
        return load

    def _room(self, each: int, cores: int, mb: int) -> int:
        return int(np.minimum(self._nodes.room_for(cores, mb), self.places[0].amount // each).sum())


class UplinkFile(Strict):
    """The key ``racks``: an uplink of each rack."""

    mb_s: Number | str  # what a link carries: MB/s, or text such as ``"10 Gb/s"``; rounded down

    @model_validator(mode="after")
    def _an_amount(self) -> UplinkFile:
        _units(self.mb_s)
        return self

    @property
    def units(self) -> int:
        """MB/s."""
        return _units(self.mb_s)


class LinksFile(UplinkFile):
    """The table ``links``: one link of each node, and where racks have uplinks, one of each rack."""

    # How many times as much jobs may claim of links and uplinks as these carry. Default: 1.
    oversubscribe: Annotated[FiniteFloat, Field(ge=1, le=1000)] = 1.0
    # How network load slows applications down: ``"rodinia"``, a CSV file, or a table of an application and two shares
    # of its run time in per cent: in the network alone, and beside a full link. Default: it slows no job down.
    profiles: str | dict[str, tuple[FiniteFloat, FiniteFloat]] = ""
    racks: UplinkFile | None = None  # Uplinks, which devices of another rack use as well. Default: none.

    def held(self, units: int) -> int:
        """How much of a link of so many MB/s jobs may hold."""
        return int(units * Decimal(str(self.oversubscribe)))


def _units(amount: float | str) -> int:
    found = bandwidth_mb_s(amount, "down")
    if found < 1:
        raise ValueError(f"1 MB/s or more, not {amount!r}")
    return found


def read_keys(table: Any, where: str) -> LinksFile:
    """The key ``links``. A ClusterError if a key or a value is wrong."""
    return validated(
        LinksFile.model_validate, table, f"{where}.",
        lambda path: (UplinkFile if path[:-1] == ("racks",) else LinksFile).model_fields,
    )  # fmt: skip


MEASURES = (
    Metric("used_links", "", "", "share of what the links of nodes carry that jobs claimed",
           "∫ claimed dt / (carried x window)"),
    Metric("peak_links", "", "low", "share of what a node's link carries that was claimed at most, of the fullest",
           "max claimed / carried"),
    Metric("used_uplinks", "", "", "share of what uplinks carry that jobs claimed",
           "∫ claimed dt / (carried x window)"),
    Metric("peak_uplinks", "", "low", "share of what an uplink carries that was claimed at most",
           "max claimed / carried"),
)  # fmt: skip
WORDS = (
    "In use: the mean share of what all of them carry that jobs claimed; fullest: the most at any time on one, above "
    "100 % where they are oversubscribed. GB sent: claimed MB/s x time; what passes between two nodes counts at both. "
    "The picture has what jobs claim of all together, in MB/s."
)


class LinkResource(UsualResource):
    """See :class:`unrack.resources.contract.Resource`."""

    name = "links"
    title = "Network links"
    metrics = MEASURES

    def installed(self, table: Any, nodes: Nodes, where: str) -> Installed:
        """The links of a cluster file."""
        return Links(read_keys(table, where), nodes, where)

    def measure(self, run: Measured) -> dict[str, float | None]:
        """How much of links and uplinks was claimed; ``None`` over a window of no time, or where there are none."""
        values: dict[str, float | None] = {}
        carries = [*zip(run.installed.places, run.installed.capacity.tolist(), strict=True)]
        for quantity, stem in ((LINK, "links"), (UPLINK, "uplinks")):
            own = {place.name: each for place, each in carries if place.quantity == quantity}
            use = use_of(own, run.claims.filter(pl.col("quantity") == quantity), run.start_s, run.end_s)
            values |= {f"used_{stem}": use.used, f"peak_{stem}": use.peak}
        return values

    def section(self, runs: Sequence[Kept]) -> tuple[Table, ...]:
        """Load by policy and over time, of links and of uplinks where there are any."""
        return tuple(
            table
            for quantity, stem, title in ((LINK, "links", "Load of the links"), (UPLINK, "uplinks", "Load of uplinks"))
            if any(run.metrics.get(f"used_{stem}") is not None for run in runs)
            for table in use_tables(
                runs, f"links.{quantity}", title, WORDS,
                {"in use": f"used_{stem}", "fullest": f"peak_{stem}"}, ("GB sent", 1000.0),
            )
        )  # fmt: skip

    def slowdown(self, cluster: Any, jobs: Any) -> Slowdown | None:
        """See :class:`unrack.resources.links.slowdown.LinkSpeeds`."""
        from unrack.resources.links.slowdown import LinkSpeeds

        return LinkSpeeds.of(cluster, jobs)
