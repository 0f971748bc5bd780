"""The devices of a cluster file as Kubernetes sees them: names, attributes, capacities, and which nodes reach them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from unrack.cluster.pools.pool import UNLIMITED, WHOLE, Devices, Pool
from unrack.cluster.spec import Cluster
from unrack.errors import InputError
from unrack.live.fabric.names import DEVICE

LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,48}[a-z0-9])?", re.ASCII)
"""A name of a pool: with a number behind it, it is one of a device (a DNS label, at most 63)."""
SHARES, PARTS = "shares", "parts"
MOST_SHARES = 10_000
"""Claims that may share a device of which no number is said."""
ATTACHED, FAILED = "unrack.io/Attached", "unrack.io/AttachFailed"
"""The conditions of a device of a claim: it is there; it cannot be brought there."""
TAINT = "unrack.io/attach-failed"
_BYTES = {"_mb_s": 10**6, "_mb": 2**20}
"""What names of quantities end in, and bytes in one of them: docs/decisions/0002-units.md."""
_UNITS = {1000: ("", "k", "M", "G", "T", "P", "E"), 1024: ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")}


class PoolKeys(NamedTuple):
    """What a site says of a pool."""

    switch: str = ""  # what its devices hang on; "": a switch of its own
    attributes: Mapping[str, str | int | bool] = {}


class Published(NamedTuple):
    """A device, as it is published and as the fabric knows it."""

    pool: str
    name: str
    switch: str
    amounts: Mapping[str, tuple[str, int]]  # name of each capacity that is consumed → the fabric's, and bytes in one
    content: Mapping[str, Any]  # as in a slice


class PublishedPool(NamedTuple):
    """The devices that are alike, and the nodes that reach them; ``None``: all."""

    name: str
    nodes: tuple[str, ...] | None
    devices: tuple[Published, ...]


class Catalogue(NamedTuple):
    """All that is published, by pool; each device by pool and name; the switch of each, by its name."""

    pools: Mapping[str, PublishedPool]
    devices: Mapping[tuple[str, str], Published]
    switches: Mapping[str, str]


def catalogue_of(cluster: Cluster, said: Mapping[str, PoolKeys], where: str) -> Catalogue:
    """The devices of a cluster that sit behind a fabric: not those that are built into the only node that has them.

    Parameters
    ----------
    cluster
        The cluster, its nodes with names.
    said
        What the site says of its pools, by name.
    where
        Its file, for errors.

    Raises
    ------
    InputError
        There is none, a name is not one of Kubernetes, or something is said of a pool that there is not.
    """
    computing = cluster.cores > 0
    pools = dict[str, PublishedPool]()
    for number, pool in enumerate(cluster.devices.pools):
        reached = cluster.devices.reach[number] & computing
        homes = set(cluster.devices.home[pool.first : pool.first + pool.count].tolist())
        ids = reached.nonzero()[0].tolist()
        if len(ids) == 1 and homes == set(ids):
            continue
        nodes = None if bool(reached[computing].all()) else _names(cluster, ids, pool, where)
        pools[pool.name] = PublishedPool(
            pool.name, nodes, tuple(_devices(cluster.devices, pool, said.get(pool.name, PoolKeys()), where))
        )
    if unknown := sorted(set(said) - set(pools)):
        want = f"one of {', '.join(sorted(pools)) or 'none'}: the pools of {where} that several nodes reach"
        raise InputError(f"pools.{unknown[0]}", "a pool that there is not", want)
    if not pools:
        raise InputError(where, "no pool of devices that several nodes reach", "one or more, to be published")
    devices = [one for pool in pools.values() for one in pool.devices]
    return Catalogue(pools, {(one.pool, one.name): one for one in devices}, {one.name: one.switch for one in devices})


def canonical(count: int, unit: int) -> str:
    """So many of a unit of 1, 10**6 or 2**20, as the API server writes it.

    Examples
    --------
    >>> canonical(600_000, 10**6), canonical(1536, 2**20), canonical(7, 1), canonical(0, 1)
    ('600G', '1536Mi', '7', '0')
    """
    base, power, amount = 1024 if unit == 2**20 else 1000, 0, count * unit
    while amount and amount % base == 0 and power < len(_UNITS[base]) - 1:
        amount, power = amount // base, power + 1
    return f"{amount}{_UNITS[base][power]}"


def _names(cluster: Cluster, ids: list[int], pool: Pool, where: str) -> tuple[str, ...]:
    if not cluster.names:
        want = 'names = "n[1-16]" beside nodes: the names that Kubernetes has for them'
        raise InputError(where, f"nodes without names, of which some reach {pool.name}", want)
    return tuple(cluster.names[node] for node in ids)


def _devices(devices: Devices, pool: Pool, said: PoolKeys, where: str) -> Iterator[Published]:
    if not LABEL.fullmatch(pool.name):
        want = "lower-case letters, digits and -, at most 50, a letter or digit first and last"
        raise InputError(f"{where}, pools", f"the name {pool.name!r}", want)
    kind = devices.kinds.index(pool.kind)
    quantities = [(row, name) for row, name in enumerate(devices.quantities[kind]) if name != WHOLE]
    short = {name: _short(name) for _, name in quantities}
    if len(set(short.values()) - {SHARES, PARTS}) < len(short) or any(len(name) > 32 for name in short.values()):
        want = "other names: without _mb and _mb_s no two the same, none of them shares or parts, at most 32 letters"
        raise InputError(f"{where}, pools", f"the quantities {', '.join(short)} of {pool.name}", want)
    shared = not pool.single and pool.share > 1
    switch = said.switch or pool.name
    own = {"kind": pool.kind, "pool": pool.name, "switch": switch, **said.attributes}
    for number in range(pool.count):
        has = {name: int(devices.capacity[row, pool.first + number]) for row, name in quantities}
        amounts, capacity = _capacity(pool, has, short, shared)
        attributes = dict(own)
        if shared and pool.split > 1:  # what a part has goes with the part
            attributes |= {short[name]: amount * _bytes_in(name) for name, amount in has.items()}
        name = f"{pool.name}-{number}"
        if not DEVICE.fullmatch(name):
            raise InputError(f"{where}, pools", f"the device {name}", "a name of at most 80 letters")
        content = {
            "name": name,
            "attributes": {key: _attribute(value) for key, value in attributes.items()},
            "bindsToNode": True,
            "bindingConditions": [ATTACHED],
            "bindingFailureConditions": [FAILED],
        }
        content |= {"capacity": capacity} if capacity else {}
        content |= {"allowMultipleAllocations": True} if shared else {}
        yield Published(pool.name, name, switch, amounts, content)


def _capacity(
    pool: Pool, has: Mapping[str, int], short: Mapping[str, str], shared: bool
) -> tuple[dict[str, tuple[str, int]], dict[str, Any]]:
    """What claims consume of a device, and its capacities."""
    if not shared:
        return {}, {short[name]: {"value": canonical(amount, _bytes_in(name))} for name, amount in has.items()}
    if pool.split > 1:
        return {PARTS: (PARTS, 1)}, {PARTS: _consumed(pool.split, 1, 1)}
    amounts, capacity = {SHARES: (SHARES, 1)}, dict[str, Any]()
    for name, amount in has.items():
        amounts[short[name]] = name, _bytes_in(name)
        capacity[short[name]] = _consumed(amount, _bytes_in(name), amount)
    most = MOST_SHARES if pool.share == UNLIMITED else pool.share
    one = {"value": canonical(most, 1), "requestPolicy": {"default": "1", "validValues": ["1"]}}
    return amounts, {**capacity, SHARES: one}


def _consumed(amount: int, unit: int, default: int) -> dict[str, Any]:
    """A capacity of which claims take whole units: what the fabric counts in."""
    whole, least = canonical(amount, unit), canonical(1, unit)
    if amount < 2:  # too little for a range
        policy: dict[str, Any] = {"default": whole, "validValues": [whole]}
    else:
        policy = {"default": canonical(default, unit), "validRange": {"min": least, "max": whole, "step": least}}
    return {"value": whole, "requestPolicy": policy}


def _short(quantity: str) -> str:
    return next((quantity.removesuffix(end) for end in _BYTES if quantity.endswith(end)), quantity)


def _bytes_in(quantity: str) -> int:
    return next((unit for end, unit in _BYTES.items() if quantity.endswith(end)), 1)


def _attribute(value: str | int | bool) -> dict[str, str | int | bool]:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}
