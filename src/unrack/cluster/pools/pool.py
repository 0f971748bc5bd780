"""Pools of devices: what each device has, which nodes may attach it, how it may be shared, composed and split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BeforeValidator, Field, FiniteFloat, model_validator

from unrack.errors import ClusterError
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.resources.checked import Strict
from unrack.sealed import Sealed, sealed
from unrack.units import quantity, time_us

MOST_DEVICES = 1_000_000
UNLIMITED = 2**31
NAME = r"^[A-Za-z][\w-]*$"
WHOLE = "devices"
"""The quantity that counts devices: each has 1 of it, and a job that asks for n of it gets n whole ones."""


class Pace(NamedTuple):
    """How fast jobs run on shared, composed and split devices; the fields are those of the columns of the ledger."""

    model: Ints
    speeds: Floats
    governed: Bools
    frozen: Bools


def no_pace(devices: Devices, jobs: int) -> Pace:
    """No job has a model: every job runs its base time."""
    kinds, quantities = len(devices.kinds), devices.capacity.shape[0]
    model = np.full((kinds, jobs), -1, np.int64)
    return Pace(model, np.ones((1, 2, 2)), np.zeros((1, quantities), np.bool_), np.zeros(1, np.bool_))


def _time(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("a time: seconds, or text such as '2 s'")
    return time_us(value)


Latency = Annotated[int, BeforeValidator(_time)]
Count = Annotated[int, Field(ge=1, le=MOST_DEVICES, strict=True)]


class PoolFile(Strict):
    """A ``[[pools]]`` table: devices that are alike and reachable from the same nodes."""

    # What reports call the pool; default: its kind. Pools of each rack or node add the name of theirs: ``nvme-rack0``.
    name: str = ""
    kind: str = Field(pattern=NAME)  # what the devices are: ``"nvme"``, ``"gpu"``, or any word; jobs ask for a kind
    count: Count  # how many devices; with ``per``, in each of the pools
    # ``"rack"``: a pool of its own in each rack, which only that rack's nodes reach. ``"node"``: one built into each
    # node with cores, which is its home. With ``reach``, in those racks or nodes alone. Default: one pool.
    per: Literal["rack", "node"] | None = None
    # What each device has: name → amount. A name that ends in ``_mb_s`` is a bandwidth (``"2 GB/s"``), one that ends
    # in ``_mb`` a size (``"600 GB"``), any other a plain number. All pools of a kind have the same names. The name
    # ``devices`` counts the device itself, and is always 1. Default: ``devices`` alone.
    quantities: dict[Annotated[str, Field(pattern=r"^[A-Za-z]\w*$")], int | float | str] = Field(
        default={WHOLE: 1}, min_length=1
    )
    # ``"single"``: a device, or a composition, is attached to one node at a time. ``"multi"``: to several.
    attach: Literal["single", "multi"] = "single"
    # most devices that may be seen as one; default: all of the pool (1 where devices are split or multi-attached)
    compose: Count | None = None
    # Most jobs on one device or composition; default: as many as fit. 1: devices are exclusive.
    share: Count | None = None
    # Most equal parts (vGPUs) that a device may be split into; 1: it is never split. A part serves one job.
    split: Annotated[int, Field(ge=1, le=64, strict=True)] = 1
    # attach_latency, detach_latency: how long it takes to attach a free device to a node before its job can begin,
    # and to get it back
    attach_latency: Latency = 0
    detach_latency: Latency = 0
    # how much longer a job takes on a device that is not at home on its node: 0.05 = 5 %
    overhead: Annotated[FiniteFloat, Field(ge=0, le=1000)] = 0.0
    # which nodes may attach: node ids (``"0-3"``), racks or domains; default: all
    reach: list[str] | None = Field(default=None, min_length=1)
    # Nodes in which the devices sit, dealt out evenly in order; a node that is named twice has twice as many. A device
    # fails with its home. Default: none, or the only node in reach.
    home: list[str] | None = Field(default=None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and isinstance(value.get("quantities"), Mapping):
            for name, amount in value["quantities"].items():
                if isinstance(amount, bool) or not isinstance(amount, int | float | str):
                    raise ValueError(f"an amount for the quantity {name!r}")
                quantity(str(name), amount, "down")
                if name == WHOLE and amount != 1:
                    raise ValueError(f"{WHOLE} = 1: each device counts as one")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> PoolFile:
        if self.split > 1 and self.compose not in (None, 1):
            raise ValueError("either split or compose above 1, not both")
        if self.attach == "multi" and self.compose not in (None, 1):
            raise ValueError("compose = 1 where attach = 'multi': a composition is attached to one node")
        if self.per == "node" and self.home is not None:
            raise ValueError("no home where per = 'node': the devices sit in their node")
        return self


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as the engine sees it; see :class:`PoolFile` for what the fields mean."""

    name: str
    kind: str
    # first, count: its devices are ``first … first + count - 1``
    first: int
    count: int
    single: bool  # whether a device is attached to one node at a time
    compose: int
    share: int
    split: int
    attach_us: int
    detach_us: int
    overhead: float


@dataclass(frozen=True, eq=False)
class Devices(Sealed):
    """All pooled devices as read-only columns; device i is row i everywhere in a run."""

    kinds: tuple[str, ...]  # names of the kinds, in order of first appearance
    quantities: tuple[tuple[str, ...], ...]  # per kind, the names of its quantities, in order of name
    pools: tuple[Pool, ...]  # the pools, in the order of the file
    # pool, kind, home: int64[devices]: indices into ``pools`` and ``kinds``; the node it sits in, -1 = none
    pool: Ints
    kind: Ints
    home: Ints
    capacity: Ints  # int64[quantities, devices]: row q is quantity q of the device's kind
    reach: Bools  # bool[pools, nodes]: which nodes may attach

    def __len__(self) -> int:
        return len(self.pool)

    @cached_property
    def named(self) -> frozenset[tuple[str, str]]:
        """Kinds and their quantities: what jobs may ask for."""
        return frozenset(
            (kind, name) for kind, names in zip(self.kinds, self.quantities, strict=True) for name in names
        )

    @cached_property
    def detach_us(self) -> int:
        """For how long devices stay held after their job at most, µs."""
        return max((pool.detach_us for pool in self.pools), default=0)

    @cached_property
    def pools_near(self) -> Ints:
        """int64[nodes + 1 + pairs]: the pools that each node reaches, ascending; see :func:`packed_lists`."""
        return sealed(packed_lists(self.reach.T))

    @cached_property
    def nodes_near(self) -> Ints:
        """int64[pools + 1 + pairs]: the nodes that reach each pool, ascending; see :func:`packed_lists`."""
        return sealed(packed_lists(self.reach))

    def of_kind(self, kind: str) -> Ints:
        """int64[k]: the devices of a kind."""
        return np.flatnonzero(self.kind == self.kinds.index(kind)) if kind in self.kinds else np.zeros(0, np.int64)

    def wanted(self, asked: Mapping[tuple[str, str], Ints], jobs: int) -> Ints:
        """int64[kinds, quantities, jobs]: what each task of some jobs asks of the kinds that there are.

        Parameters
        ----------
        asked
            Kind and quantity → int64[jobs].
        """
        wants = np.zeros((len(self.kinds), self.capacity.shape[0], jobs), np.int64)
        for k, kind in enumerate(self.kinds):
            for q, name in enumerate(self.quantities[k]):
                wants[k, q] = asked.get((kind, name), 0)
        return wants

    def installed(self, kind: str, name: str) -> int:
        """How much of a quantity all devices of a kind have together."""
        which = self.kinds.index(kind)
        row = self.quantities[which].index(name)
        return int(self.capacity[row, self.kind == which].sum())

    def countable(self, cores: Ints) -> tuple[tuple[str, int], ...]:
        """``KIND.devices`` and how many there are, of kinds of which some may be kept by number alone.

        So they may where nothing but whole devices is asked, of one pool that all nodes with cores (int64[nodes])
        reach: any that are left will do for any job that has a node.
        """
        found = []
        for kind, quantities in zip(self.kinds, self.quantities, strict=True):
            own = [p for p, pool in enumerate(self.pools) if pool.kind == kind]
            pool = self.pools[own[0]]
            if quantities == (WHOLE,) and len(own) == 1 and pool.split == 1 and self.reach[own[0]][cores > 0].all():
                found.append((f"{kind}.{WHOLE}", pool.count))
        return tuple(found)

    def identity(self) -> str:
        """A text that differs where schedules may differ."""
        columns = [column.tolist() for column in (self.pool, self.kind, self.home, self.capacity)]
        return repr((self.kinds, self.quantities, self.pools, columns, np.packbits(self.reach).tobytes()))


def packed_lists(members: Bools) -> Ints:
    """Lists of places in one array: those of row i are ``packed[packed[i] : packed[i + 1]]``.

    Examples
    --------
    >>> packed_lists(np.array([[True, False, True], [False, True, False]])).tolist()
    [3, 5, 6, 0, 2, 1]
    """
    row, place = np.nonzero(members)
    ends = np.cumsum(np.bincount(row, minlength=len(members)))
    return np.concatenate([np.append(0, ends) + len(members) + 1, place]).astype(np.int64)


def no_devices(nodes: int) -> Devices:
    """The devices of a cluster without pools."""
    none = np.zeros(0, np.int64)
    return Devices((), (), (), none, none, none, np.zeros((0, 0), np.int64), np.zeros((0, nodes), np.bool_))


class PoolPlan(NamedTuple):
    """A pool that is to be built."""

    file: PoolFile  # what it is
    label: str  # its name
    # reach, homes: the nodes that may attach its devices, ascending; those in which they sit, none or dealt out in
    # order
    reach: Sequence[int]
    homes: Sequence[int]
    key: str  # where the file says it


def build_devices(plans: Sequence[PoolPlan], nodes: int, where: str) -> Devices:
    """Columns from pools.

    Parameters
    ----------
    nodes
        How many nodes there are.

    Raises
    ------
    ClusterError
        Two pools contradict each other, or there are too many devices.
    """
    if not plans:
        return no_devices(nodes)
    total = sum(plan.file.count for plan in plans)
    if total > MOST_DEVICES:
        raise ClusterError(f"{where}, pools", f"{total} devices", f"at most {MOST_DEVICES}")
    names: dict[str, tuple[str, ...]] = {}
    labels: set[str] = set()
    for file, label, _, _, key in plans:
        wanted = names.setdefault(file.kind, tuple(sorted(file.quantities)))
        if tuple(sorted(file.quantities)) != wanted:
            got = f"the quantities {', '.join(sorted(file.quantities))}"
            want = f"those of the other {file.kind} pools: {', '.join(wanted)}"
            raise ClusterError(
                f"{where}, {key}.quantities" if key.startswith("pools") else f"{where}, {key}", got, want
            )
        if label in labels:
            raise ClusterError(f"{where}, {key}.name", f"a second {label!r}", "a different name for each pool")
        labels.add(label)
    kinds = tuple(names)
    capacity = np.zeros((max(map(len, names.values())), total), np.int64)
    home = np.full(total, -1, np.int64)
    reach = np.zeros((len(plans), nodes), np.bool_)
    pools: list[Pool] = []
    first = 0
    for i, (file, label, reached, homes, _) in enumerate(plans):
        reach[i, list(reached)] = True
        here = slice(first, first + file.count)
        if homes:
            home[here] = [homes[d * len(homes) // file.count] for d in range(file.count)]
        for q, name in enumerate(names[file.kind]):
            capacity[q, here] = quantity(name, file.quantities[name], "down")
        alone = file.split > 1 or file.attach == "multi"
        compose = 1 if alone else min(file.compose or file.count, file.count)
        pools.append(
            Pool(
                label, file.kind, first, file.count, file.attach == "single", compose, file.share or UNLIMITED,
                file.split, file.attach_latency, file.detach_latency, file.overhead,
            )
        )  # fmt: skip
        first += file.count
    counts = [plan.file.count for plan in plans]
    pool = np.repeat(np.arange(len(plans), dtype=np.int64), counts)
    kind = np.repeat(np.array([kinds.index(plan.file.kind) for plan in plans], np.int64), counts)
    return Devices(kinds, tuple(names.values()), tuple(pools), pool, kind, home, capacity, reach)
