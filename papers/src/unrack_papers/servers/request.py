"""Servers asked for in one request: what each needs of cores and of tiers of memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
from pydantic import AliasChoices, Field, PlainValidator, TypeAdapter

from unrack import Cluster
from unrack.cluster import names_of_clusters
from unrack.errors import InputError
from unrack.jit import Floats, Ints
from unrack.policy import check_products, supply_of
from unrack.solver import NOWHERE, Asked, asked
from unrack.units import memory_mb
from unrack.workload.generate import NO_CEILING, Strict, first_fault, tier_asks, validated
from unrack_papers.servers.published_json import Id

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


def asked_of(request: Request, cluster: Cluster) -> Asked:
    """What the servers of a request ask, in the numbers of a data centre.

    An InputError if a tier, level or cluster does not exist. (A floor or ceiling that no cluster can meet is none: that
    server has no place, and says why.)
    """
    supply = supply_of(cluster)
    tiers = cluster.tiers
    assert tiers is not None
    names = names_of_clusters(cluster)
    number = {name: index for index, name in enumerate(names)}
    forbidden = np.zeros((len(request), len(tiers.names)), np.bool_)
    level, pinned = (np.full(len(request), NOWHERE, np.int64) for _ in range(2))
    for i in range(len(request)):
        for tier in request.forbidden[i]:
            if tier not in tiers.names:
                raise InputError(request.at(i, "forbidden"), f"the unknown tier {tier!r}", _one_of(tiers.names))
            forbidden[i, tiers.names.index(tier)] = True
        spread = request.spread[i]
        if spread is not None:
            if spread not in cluster.levels:
                raise InputError(request.at(i, "spread"), repr(spread), _one_of(cluster.levels))
            level[i] = cluster.levels.index(spread)
        pin = request.pinned[i]
        if pin is not None:
            if str(pin) not in number:
                want = f"a cluster from 0 to {len(names) - 1}" if not tiers.cluster_names else _one_of(names)
                raise InputError(request.at(i, "pinned"), repr(pin)[:80], want)
            pinned[i] = number[str(pin)]
    asks = asked(
        request.cores,
        request.mb,
        request.floor,
        # rounded down, but for what a float64 may be off
        np.floor(np.minimum(request.ceiling * (tiers.cost_scale * (1 + 2**-51)), NO_CEILING)).astype(np.int64),
        tiers=len(tiers.names),
        forbidden=forbidden,
        group=np.where(level >= 0, request.group, NOWHERE),
        level=level,
        pinned=pinned,
        most_clusters=NOWHERE if request.most_clusters is None else min(request.most_clusters, tiers.clusters),
    )
    check_products(supply, int(asks.mb.max(initial=0)), request.where)
    return asks


def _one_of(names: tuple[str, ...]) -> str:
    return f"one of {', '.join(names[:20])}{' …' if len(names) > 20 else ''}"
