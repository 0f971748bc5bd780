"""Servers asked for in one request: what each needs of cores and of tiers of memory, and where they then are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import AliasChoices, BeforeValidator, Field, PlainValidator, TypeAdapter

from unrack.cluster.spec import Cluster
from unrack.cluster.tiers.published_json import identity
from unrack.cluster.tiers.tier import scaled
from unrack.errors import InputError
from unrack.facts import counted, line
from unrack.kernels.arrays import Floats, Ints
from unrack.policy.placement.core_tiles import CoreSet
from unrack.resources.checked import Strict, validated
from unrack.solver.batch.running.moves import Step
from unrack.solver.servers.problem import Allocation, Asked, Supply
from unrack.units import memory_mb
from unrack.workload.tier_asks import NO_CEILING, first_fault, tier_asks

NAMES = {
    "cores": ("cores",),
    "mb": ("mem", "memory", "memory_mb"),
    "floor": ("local_SLA", "local", "local_mb", "slo_local"),
    "ceiling": ("remote_SLA", "ceiling", "ceiling_mb", "slo_remote"),
    "spread": ("spread",),
    "forbidden": ("forbidden",),
    "pinned": ("pinned", "cluster"),
}
"""What each amount may be called in a file; the first is the published name."""


def _demand_mb(value: object) -> int:
    if not isinstance(value, bool) and isinstance(value, int | float | str):
        with suppress(ValueError):
            return memory_mb(value)
    raise ValueError("an amount of memory from 0 to 4 EB: MB, or text such as '4 GB'")


def _weighted(value: object) -> float:
    if isinstance(value, str):
        with suppress(ValueError):
            return float(memory_mb(value, rounding="down"))
    elif not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < NO_CEILING:
        return value
    raise ValueError("weighted MB, 0 or more, or text such as '4 GB'")


def _cores(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise ValueError("1 core or more, a whole number")
    return value


Id = Annotated[int | str, BeforeValidator(identity)]
Mb = Annotated[int, PlainValidator(_demand_mb)]


class ServerAsk(Strict):
    """One of ``servers``."""

    id: Id | None = None  # its name; default: its number in the file, from 0
    # cores, mb: cores, and memory: MB or text such as ``"4 GB"``
    cores: Annotated[int, PlainValidator(_cores)]
    mb: Mb = Field(validation_alias=AliasChoices(*NAMES["mb"]))
    floor: Mb = Field(default=0, validation_alias=AliasChoices(*NAMES["floor"]))  # memory of it that must be local
    # the most remote memory, each MB counted with the cost of its tier; default: any
    ceiling: Annotated[float, PlainValidator(_weighted)] | None = Field(
        default=None, validation_alias=AliasChoices(*NAMES["ceiling"])
    )
    # group, spread: servers of one group share no failure domain of the level ``spread``
    group: str | None = None
    spread: str | None = None
    forbidden: list[str] = Field(default_factory=list)  # tiers that it must have no memory of
    # the only cluster that it may be in: its number from 0, or its name
    pinned: Id | None = Field(default=None, validation_alias=AliasChoices(*NAMES["pinned"]))


@dataclass(frozen=True, eq=False)
class Request:
    """Servers to be placed, in order."""

    where: str  # the file
    ids: tuple[int | str, ...]  # of the servers
    # cores, mb, floor: int64[servers]: cores, MB, and MB that must be local
    cores: Ints
    mb: Ints
    floor: Ints
    ceiling: Floats  # float64[servers]: the most weighted remote MB; infinite: any
    group: Ints  # int64[servers]: index into ``groups``; -1: none
    groups: tuple[str, ...]  # names of the groups
    # spread, pinned: per server: a level of failure domains, a cluster; ``None``: none
    spread: tuple[str | None, ...]
    pinned: tuple[int | str | None, ...]
    forbidden: tuple[tuple[str, ...], ...]  # per server: names of tiers
    most_clusters: int | None  # at most so many clusters may be in use; ``None``: any number
    fields: Sequence[Mapping[str, Any]]  # per server: what the file calls an amount, for messages

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, server: int, field: str) -> str:
        """Where a field of a server is, for messages."""
        called = next((name for name in NAMES[field] if name in self.fields[server]), NAMES[field][0])
        return f"{self.where}, servers.{server}.{called}"


def read_request(content: Mapping[str, Any], where: str) -> Request:
    """The servers of a file's content: ``servers``, and ``most_clusters``.

    What is missing or impossible is an InputError that names the server and its field.
    """
    raw = content.get("servers")
    if not isinstance(raw, list):
        raise InputError(f"{where}, servers", "nothing" if raw is None else repr(raw)[:60], "a list of servers")
    known = ("id", "group", *(names[0] for names in NAMES.values()))
    servers = validated(TypeAdapter(list[ServerAsk]).validate_python, raw, f"{where}, servers.", known, InputError)
    most = content.get("most_clusters")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
        raise InputError(f"{where}, most_clusters", repr(most), "a whole number, 0 or more")
    ids = tuple(index if server.id is None else server.id for index, server in enumerate(servers))
    first: dict[int | str, int] = {}
    for index, called in enumerate(ids):
        if first.setdefault(called, index) != index:
            raise InputError(f"{where}, servers.{index}.id", f"{called!r}, as servers.{first[called]}", "another id")
    groups = {server.group: None for server in servers if server.group is not None}
    number = {group: index for index, group in enumerate(groups)}
    request = Request(
        where=where,
        ids=ids,
        cores=np.array([server.cores for server in servers], np.int64),
        mb=np.array([server.mb for server in servers], np.int64),
        floor=np.array([server.floor for server in servers], np.int64),
        ceiling=np.array([np.inf if server.ceiling is None else server.ceiling for server in servers]),
        group=np.array([-1 if server.group is None else number[server.group] for server in servers], np.int64),
        groups=tuple(groups),
        spread=tuple(server.spread for server in servers),
        pinned=tuple(server.pinned for server in servers),
        forbidden=tuple(tuple(server.forbidden) for server in servers),
        most_clusters=most,
        fields=raw,
    )
    _check(request)
    return request


def _check(request: Request) -> None:
    """Refuse what no data centre could give."""
    group = pl.Series([None if code < 0 else request.groups[code] for code in request.group], dtype=pl.String)
    asks = tier_asks(request.floor, group=group, spread=pl.Series(request.spread, dtype=pl.String))
    if (fault := first_fault(asks, np.ones(len(request), np.int64), request.mb)) is not None:
        field = "floor" if fault.field == "local" else fault.field
        raise InputError(request.at(fault.row, field), fault.got, fault.want)


@dataclass(frozen=True, eq=False)
class PlacedServers:
    """Where the servers of a request are, and what that is worth.

    Attributes
    ----------
    policy
        The rule that placed them.
    cluster, request, asked, supply
        What was given.
    allocation
        Where each server is.
    reasons
        Server → why it has no place, or why it is where it is.
    bound
        No allocation of the placed servers that meets their SLOs costs less; in the unit of :attr:`price`.
    status
        ``"optimal"``: nothing places more servers, uses fewer clusters, or costs less in as many; ``"feasible"``: that
        is not proven; ``"one by one"``: not sought.
    bound_clusters
        As many servers need at least so many clusters; ``None``: not known.
    moves
        A repacking: servers that come (``before`` is -1), move, or have their memory split anew, in an order in which
        each step fits.
    copied_mb
        A repacking: memory that is copied.
    core_sets
        Server → which cores of its compute pool it has; ``None``: not asked for.
    cut
        Whether a time limit ended the search before its work was done: another run may have another answer.
    """

    policy: str
    cluster: Cluster
    request: Request
    asked: Asked
    supply: Supply
    allocation: Allocation
    reasons: Mapping[int, str]
    bound: int
    status: str = "one by one"
    bound_clusters: int | None = None
    moves: tuple[Step, ...] | None = None
    copied_mb: int = 0
    core_sets: Mapping[int, CoreSet] | None = None
    cut: bool = False

    def __repr__(self) -> str:
        servers, tiers = len(self.request), self.cluster.tiers
        words = [f"{counted(servers, 'server')} on {self.cluster.name!r}", f"{len(self.unplaced):,} without a place"]
        words += [f"{self.clusters_used:,} of {counted(tiers.clusters, 'cluster')} used"] if tiers is not None else []
        return line("PlacedServers", self.policy, [*words, self.status])

    @property
    def prices(self) -> Ints:
        """int64[servers]: price of each server's memory, MB times price of the tier, in units of the price scale."""
        return self.allocation.sums(self.supply, self.supply.price)

    @property
    def weights(self) -> Ints:
        """int64[servers]: weighted remote memory of each server, in units of the cost scale."""
        return self.allocation.sums(self.supply, self.supply.weight)

    @property
    def price(self) -> int:
        """Of all placed servers, in units of the price scale."""
        return int(self.prices.sum())

    @property
    def clusters_used(self) -> int:
        """Clusters that hold a server."""
        return len(np.unique(self.allocation.cluster[self.allocation.cluster >= 0]))

    @property
    def violations(self) -> dict[str, int]:
        """Placed servers with less local memory than their floor, and with more weighted memory than their ceiling."""
        there = self.allocation.cluster >= 0
        local = there & (self.allocation.mb[:, 0] < self.asked.floor)
        return {"local": int(local.sum()), "remote": int((there & (self.weights > self.asked.ceiling)).sum())}

    @property
    def unplaced(self) -> Ints:
        """int64[any]: servers without a place."""
        return np.flatnonzero(self.allocation.cluster < 0)

    def tier_mb(self) -> Ints:
        """int64[servers, tiers]: MB of each server in each tier."""
        tiers = self.cluster.tiers
        assert tiers is not None
        found = np.zeros((len(self.request), len(tiers.names)), np.int64)
        for servers, pools, mb in self.allocation.parts(self.supply):
            np.add.at(found, (servers, self.supply.tier[pools]), mb)
        return found

    def as_json(self) -> dict[str, Any]:
        """What ``unrack place --json`` prints; see ``docs/tiers.md``."""
        tiers = self.cluster.tiers
        assert tiers is not None
        names: tuple[str | int, ...] = tiers.cluster_names or tuple(range(tiers.clusters))
        ids = self.request.ids
        tier_mb = self.tier_mb().tolist()
        at, mb = self.allocation.cluster.tolist(), self.allocation.mb.tolist()
        lengths = np.diff(self.supply.first).tolist()
        prices = self.prices
        price = int(prices.sum())
        answer: dict[str, Any] = {
            "policy": self.policy,
            "price": scaled(price, tiers.price_scale),
            "price_per_hour": price / tiers.price_scale / 1024,
            "clusters_used": self.clusters_used,
            "clusters": tiers.clusters,
            "violations": self.violations,
            "unplaced": [ids[i] for i in self.unplaced],
            "bound": scaled(self.bound, tiers.price_scale),
            "bound_clusters": self.bound_clusters,
            "gap": (price - self.bound) / price if price > 0 else 0.0,
            "status": self.status,
            **({"cut": True} if self.cut else {}),
        }
        if self.moves is not None:
            answer["moves"] = [
                {
                    "id": ids[step.server],
                    "from": names[step.before] if step.before >= 0 else None,
                    "to": names[step.cluster],
                    "pools": np.asarray(step.mb)[: lengths[step.cluster]].tolist(),
                }
                for step in self.moves
            ]
            answer["copied_mb"] = self.copied_mb
        if self.core_sets is not None:
            sets = self.core_sets.values()
            answer["core_distance"] = sum(cores.distance for cores in sets)
            answer["core_distance_least"] = sum(cores.least for cores in sets)
            answer["cores_apart"] = sum(cores.apart for cores in sets)
        answer["servers"] = [
            {
                "id": ids[i],
                "cluster": names[at[i]] if at[i] >= 0 else None,
                "tiers": dict(zip(tiers.names, tier_mb[i], strict=True)),
                "pools": mb[i][: lengths[at[i]]] if at[i] >= 0 else [],
                "price": scaled(its_price, tiers.price_scale) if at[i] >= 0 else None,
                "reason": self.reasons.get(i),
            }
            for i, its_price in enumerate(prices.tolist())
        ]
        for i, cores in (self.core_sets or {}).items():
            answer["servers"][i]["cores"] = cores.as_json()
        return answer
