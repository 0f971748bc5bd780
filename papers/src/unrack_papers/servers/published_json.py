"""The published JSON of pools, clusters and servers: its pools and clusters as a data centre.

``pools`` have a ``type``, ``cores``, ``memory`` in MB and a ``penalty`` (the cost of the tier); ``clusters`` list pools
by number, from 1. Beyond the published fields a pool may have an ``id`` (then clusters name it by that), a ``price`` of
a GB for an hour, and failure domains: ``chassis``, ``rack``, ``feed`` or any others in ``domains``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import AliasChoices, BeforeValidator, Field, TypeAdapter

from unrack import Cluster
from unrack.cluster import NAMED, NODE, RACK, CapacityMb, Level, Number, make_tiers, number
from unrack.errors import ClusterError
from unrack.jit import Ints
from unrack.workload.generate import Strict, validated

PUBLISHED = {"CPU": ("local", 100.0), "LOCALMEM": ("local-remote", 50.0), "REMOTEMEM": ("distant-remote", 25.0)}
"""Type of pool in the published file → name of the tier, and its price (Table 1 of the paper)."""
SHORT = ("chassis", "rack", "feed")


KEYS = ("pools", "clusters")
"""What a file has of a data centre."""


def identity(value: object) -> object:
    """The value, unless it cannot be what something is called: a whole number, or text that can be printed."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).encode():
            raise ValueError
    except ValueError:  # also of half a pair of surrogates, and of a number with thousands of digits
        raise ValueError("a whole number or a name") from None
    return value


Id = Annotated[int | str, BeforeValidator(identity)]


class PublishedPool(Strict):
    """One of ``pools``."""

    type: str = Field(min_length=1, validation_alias=AliasChoices("type", "tier"))
    cores: Annotated[int, BeforeValidator(number), Field(ge=0, lt=2**31)] = 0
    memory: CapacityMb = Field(validation_alias=AliasChoices("memory", "mem", "memory_mb"))
    penalty: Number = Field(default=0, validation_alias=AliasChoices("penalty", "cost"))
    price: Number | None = None
    id: Id | None = None
    chassis: str | None = None
    rack: str | None = None
    feed: str | None = None
    domains: dict[str, str] = Field(default_factory=dict)


class PublishedCluster(Strict):
    """One of ``clusters``: its pools, by number from 1 or by their ids."""

    pools: list[Id] = Field(min_length=1)
    id: Id | None = Field(default=None, validation_alias=AliasChoices("id", "name"))


def is_published(content: Mapping[str, Any]) -> bool:
    """Whether a file's content has pools and clusters as the published JSON has them, right or wrong."""
    pools = content.get("pools")
    return "clusters" in content or (
        isinstance(pools, list) and any(isinstance(pool, dict) and {"type", "tier"} & set(pool) for pool in pools)
    )


def published_cluster(content: Mapping[str, Any], name: str, where: str) -> Cluster:
    """The data centre of the published JSON; pool i of the file is node i - 1 here.

    A ClusterError if it says something impossible; the error names the field.
    """
    for key in KEYS:
        if not isinstance(content.get(key), list):
            raise ClusterError(f"{where}, {key}", repr(content[key])[:80] if key in content else "nothing", "a list")
    read_pools = TypeAdapter(list[PublishedPool]).validate_python
    pools = validated(read_pools, content["pools"], f"{where}, pools.", PublishedPool.model_fields)
    read_clusters = TypeAdapter(list[PublishedCluster]).validate_python
    clusters = validated(read_clusters, content["clusters"], f"{where}, clusters.", PublishedCluster.model_fields)
    if not pools or not clusters:
        raise ClusterError(f"{where}, {'clusters' if pools else 'pools'}", "none", "one or more")
    cores = np.array([pool.cores for pool in pools], np.int64)
    tiers, tier = _tiers_of(pools, f"{where}, pools")
    for index, pool in enumerate(pools):
        if pool.cores == 0 and tiers[tier[index]][0] == "local":
            raise ClusterError(f"{where}, pools.{index}.type", repr(pool.type), "cores in a pool of this type")
    numbers = _numbers(pools, where)
    members = []
    for index, cluster in enumerate(clusters):
        for pool_id in cluster.pools:
            if pool_id not in numbers:
                known = "the id of a pool" if pools[0].id is not None else f"a number from 1 to {len(pools)}"
                raise ClusterError(f"{where}, clusters.{index}.pools", repr(pool_id)[:80], known)
        members.append([numbers[pool_id] for pool_id in cluster.pools])
    names = [str(index) if cluster.id is None else str(cluster.id) for index, cluster in enumerate(clusters)]
    if len(set(names)) < len(names):
        index = next(i for i, called in enumerate(names) if names.index(called) < i)
        raise ClusterError(f"{where}, clusters.{index}.id", repr(names[index]), "an id of its own")
    rack, rack_names, levels = _levels(pools, f"{where}, pools")
    return Cluster(
        name=name,
        cores=cores,
        memory_mb=np.array([pool.memory for pool in pools], np.int64),
        node_class=tier,
        class_names=tuple(called for called, _, _ in tiers),
        rack=rack,
        rack_names=rack_names,
        domains={},
        lending_group=np.where(cores > 0, 0, -1).astype(np.int64),
        failure_levels=levels,
        tiers=make_tiers(
            [called for called, _, _ in tiers],
            [cost for _, cost, _ in tiers],
            [price for _, _, price in tiers],
            tier,
            members,
            cores,
            f"{where}, clusters",
            tuple(names) if any(cluster.id is not None for cluster in clusters) else (),
        ),
    )


def _numbers(pools: Sequence[PublishedPool], where: str) -> dict[int | str, int]:
    if all(pool.id is None for pool in pools):
        return {index + 1: index for index in range(len(pools))}
    numbers: dict[int | str, int] = {}
    for index, pool in enumerate(pools):
        if pool.id is None or pool.id in numbers:
            got = "nothing" if pool.id is None else f"{pool.id!r}, as pools.{numbers[pool.id]}"
            raise ClusterError(f"{where}, pools.{index}.id", got, "an id of its own for every pool, or none for any")
        numbers[pool.id] = index
    return numbers


def _tiers_of(pools: Sequence[PublishedPool], where: str) -> tuple[list[tuple[str, float, float]], Ints]:
    """Name, cost and price of each tier, the local one first, and the tier of each pool."""
    kinds: dict[tuple[str, float, float | None], int] = {}
    for pool in pools:
        kinds.setdefault((pool.type, pool.penalty, pool.price), len(kinds))
    types = [kind for kind, _, _ in kinds]
    tiers = []
    for (kind, cost, price), index in kinds.items():
        called, usual = PUBLISHED.get(kind, (kind, None))
        if price is None and usual is None:
            at = next(i for i, pool in enumerate(pools) if pool.type == kind and pool.price is None)
            want = f"one of {', '.join(PUBLISHED)}, or a price beside it"
            raise ClusterError(f"{where}.{at}.type", f"the unknown tier {kind!r}", want)
        value = float(usual or 0) if price is None else price
        several = types.count(kind) > 1
        tiers.append((f"{called} (cost {cost:g}, price {value:g})" if several else called, cost, value, index))
    local = {kinds[pool.type, pool.penalty, pool.price] for pool in pools if pool.cores}
    tiers.sort(key=lambda each: (each[3] not in local, each[1], each[3]))
    place = {index: at for at, (*_, index) in enumerate(tiers)}
    of = np.array([place[kinds[pool.type, pool.penalty, pool.price]] for pool in pools], np.int64)
    return [(called, cost, price) for called, cost, price, _ in tiers], of


def _levels(pools: Sequence[PublishedPool], where: str) -> tuple[Ints, tuple[str, ...], tuple[Level, ...]]:
    """The rack of each pool, the racks' names, and the other levels of failure domains."""
    said: dict[str, list[str | None]] = {}
    for index, pool in enumerate(pools):
        both = {**pool.domains, **{key: getattr(pool, key) for key in SHORT if getattr(pool, key) is not None}}
        for level, domain in both.items():
            if not level or level in (NODE, NAMED):
                want = f"the name of a level other than {NODE}, {NAMED}"
                raise ClusterError(f"{where}.{index}.domains", repr(level), want)
            said.setdefault(level, [None] * len(pools))[index] = domain
    racks = said.pop(RACK, [RACK] * len(pools))
    named = [f"alone{index}" if domain is None else domain for index, domain in enumerate(racks)]
    rack_names = tuple(dict.fromkeys(named))
    place = {called: index for index, called in enumerate(rack_names)}
    rack = np.array([place[domain] for domain in named], np.int64)
    levels = []
    for level, domains in sorted(said.items()):
        names = tuple(dict.fromkeys(domain for domain in domains if domain is not None))
        index_of = {called: i for i, called in enumerate(names)}
        of_node = np.array([-1 if domain is None else index_of[domain] for domain in domains], np.int64)
        levels.append(Level(level, names, of_node))
    return rack, rack_names, tuple(levels)
