"""What is left during a round: of nodes, of devices by host, of the places of resources; and which jobs take part."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from unrack.cluster.pools.pool import WHOLE, Devices
from unrack.jit import compiled
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.columns import grown, room_for
from unrack.ledger.devices.columns import FREE, GROUP, DeviceColumns
from unrack.ledger.lease import LENDER, LOAN_MB, NO_LOANS, Lease
from unrack.resources.places import AMOUNT, PLACE
from unrack.view import View
from unrack.view.windows import beside_kept, kept_from
from unrack.workload.job import CORES, MEMORY, TASKS


class Hosts(NamedTuple):
    """The hosts of one kind of devices: devices of one pool that sit in one node, or in none."""

    # kind, name: of the devices
    kind: int
    name: str
    # pool, home, int64[hosts]: their pool; the node in which they sit, -1: none (a pool of a rack, RN in the thesis)
    pool: Ints
    home: Ints
    # device, host, int64[devices]: the devices of the kind by host, and the host of each
    device: Ints
    host: Ints
    reach: Ints  # int64[nodes]: which of the patterns says what a node may use
    patterns: Bools  # bool[patterns, hosts]
    local: Ints  # int64[nodes]: the host in each node, the first where there are several; -1: none
    at: dict[int, int]  # device to its place in the columns by device
    built_in: bool  # whether every device serves one node only, so that it says where a task goes

    def free(self, columns: DeviceColumns) -> FreeDevices:
        """The free devices of each host."""
        return FreeDevices(self, columns.device[GROUP, self.device] == FREE)


class FreeDevices:
    """Those of the devices of some hosts that are free: bool[devices], and int64[hosts], how many each host has."""

    def __init__(self, hosts: Hosts, free: Bools) -> None:
        self.hosts, self.free = hosts, free
        self.counts: Ints = np.bincount(hosts.host[free], minlength=len(hosts.pool)).astype(np.int64)

    def pop(self, host: int) -> int | None:
        """Take the first free device of a host: its place; ``None``: it has none."""
        if not self.counts[host]:
            return None
        first = int(np.searchsorted(self.hosts.host, host))
        at = first + int(np.argmax(self.free[first:]))
        self.set(at, False)
        return at

    def set(self, at: int, free: bool) -> None:
        """Note that a device is free, or is not any more."""
        self.counts[self.hosts.host[at]] += int(free) - int(self.free[at])
        self.free[at] = free

    def meet(self, other: FreeDevices) -> FreeDevices:
        """Those that are free in both."""
        return FreeDevices(self.hosts, self.free & other.free)


def hosts_of(devices: Devices, kind: int, at_home: bool = False) -> Hosts:
    """The hosts of a kind; ``at_home``: only the node in which a device sits may use it."""
    own = np.flatnonzero(devices.kind == kind)
    pairs = np.stack([devices.pool[own], devices.home[own]])
    hosts, host = np.unique(pairs, axis=1, return_inverse=True)
    host = host.ravel()
    order = np.lexsort((own, host))
    pool, home = hosts
    nodes = devices.reach.shape[1]
    near = devices.reach[pool]
    if at_home:
        near = near & (home[:, None] == np.arange(nodes)[None])
    patterns, reach = np.unique(near.T, axis=0, return_inverse=True)
    local = np.full(nodes, -1, np.int64)
    for one in range(len(home) - 1, -1, -1):
        if home[one] >= 0:
            local[home[one]] = one
    alone = bool((near.sum(axis=1) <= 1).all())
    devices_by_host, host_by_host = own[order], host[order]
    at = {device: place for place, device in enumerate(devices_by_host.tolist())}
    name = devices.kinds[kind]
    return Hosts(kind, name, pool, home, devices_by_host, host_by_host, reach.ravel(), patterns, local, at, alone)


NOT_KNOWN = -1


@dataclass(frozen=True, eq=False)
class Sort:
    """What jobs of one sort ask."""

    job: int  # the first of them
    # tasks, cores, mb: how many tasks, and of each task its cores and MB
    tasks: int
    cores: int
    mb: int
    wants: Ints  # int64[kinds, quantities]: what a task asks of pooled devices
    claims: Ints  # int64[quantities]: what it asks of resources
    names: tuple[tuple[str, ...], ...]  # kind to its quantities
    app: int  # the number of its application; -1: not known

    @cached_property
    def devices(self) -> dict[int, int] | None:
        """Kind to how many whole devices a task asks; ``None``: it asks for shares or parts of devices."""
        found: dict[int, int] = {}
        for kind, names in enumerate(self.names):
            amounts = dict(zip(names, self.wants[kind].tolist(), strict=False))
            count = amounts.pop(WHOLE, 0)
            if any(amounts.values()):
                return None
            if count:
                found[kind] = count
        return found


@dataclass(slots=True)
class Sorts:
    """The sorts of the jobs seen so far."""

    every: list[Sort] = field(default_factory=list)  # the sorts, in the order in which they were first seen
    of: Ints = field(default_factory=lambda: np.full(64, NOT_KNOWN, np.int64))  # int64[room]: job to sort
    # int64[room]: in how many rounds each job was left waiting
    rounds: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    # int64[room]: how many jobs behind it have started before it
    passed: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    _mb: Ints = field(default_factory=lambda: np.zeros(64, np.int64))
    _numbers: dict[bytes, int] = field(default_factory=dict)

    def learn(self, view: View, jobs: Ints, told_apart: Ints) -> None:
        """Number those of the jobs (int64[k]) that are new, or ask for other memory than they did.

        ``told_apart``, int64[n, all jobs], is what costs depend on beside what jobs ask.
        """
        if view.jobs > len(self.of):
            room = room_for(view.jobs, view.jobs)
            self.of = grown(self.of, room, NOT_KNOWN)
            self.rounds, self.passed, self._mb = (grown(one, room) for one in (self.rounds, self.passed, self._mb))
        new = jobs[(self.of[jobs] == NOT_KNOWN) | (self._mb[jobs] != view.asks[MEMORY, jobs])]
        if not len(new):
            return
        rows = np.ascontiguousarray(np.concatenate([asked(view, new), told_apart[:, new]]).T)
        kinds, at, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        ids = np.empty(len(kinds), np.int64)
        for kind in np.argsort(at).tolist():
            key = kinds[kind].tobytes()
            if key not in self._numbers:
                self._numbers[key] = len(self.every)
                self.every.append(sort_of(view, int(new[at[kind]])))
            ids[kind] = self._numbers[key]
        self.of[new], self._mb[new] = ids[number.ravel()], view.asks[MEMORY, new]


def asked(view: View, jobs: Ints) -> Ints:
    """int64[demands, jobs]: all that these jobs ask."""
    rows = [view.asks[[TASKS, CORES, MEMORY]][:, jobs]]
    devices, claimed = view.columns.devices, view.columns.claimed
    if devices is not None:
        wants = devices.columns.wants[:, :, jobs]
        rows += [wants.reshape(-1, len(jobs)), devices.columns.model[:, jobs]]
    if claimed is not None:
        rows.append(claimed.asked_by(jobs))
        if claimed.places.windows:  # how long a job runs decides where it may
            rows.append(view.estimate_us[jobs][None])
    return np.concatenate(rows)


def sort_of(view: View, job: int) -> Sort:
    """What a job asks, as a sort."""
    tasks, cores, mb = view.asks[[TASKS, CORES, MEMORY], job].tolist()
    devices, claimed = view.columns.devices, view.columns.claimed
    wants = NO_LOANS if devices is None else devices.columns.wants[:, :, job].copy()
    claims = np.empty(0, np.int64) if claimed is None else claimed.asked(job)
    names = () if view.devices is None else view.devices.installed.quantities
    return Sort(job, tasks, cores, mb, wants, claims, names, int(view.app[job]))


MOST = 1 << 40


@dataclass
class Left:
    """What no job holds, less what the round has given away."""

    view: View
    now: int
    hosts: dict[int, Hosts]
    whole: bool
    # cores, mb, int64[nodes]: of each node; cores are -1 where no task may go
    cores: Ints
    mb: Ints
    devices: dict[int, FreeDevices]  # kind to the free devices of each of its hosts
    claims: Ints  # int64[places]: of the places of resources
    kept: frozenset[int] = frozenset()  # devices that are free and not to be used
    # how many tasks of a sort each node could take, as long as nothing is taken
    known: dict[Sort, Ints] = field(default_factory=dict)

    @staticmethod
    def of(view: View, hosts: dict[int, Hosts], whole: bool, open_nodes: Bools, now: int) -> Left:
        """At the start of a round, or as a draft is then."""
        usable = view.online & (view.total[0] > 0) & open_nodes
        if whole:
            usable &= view.free[0] == view.total[0]
        seen = view.columns.devices
        devices = {} if seen is None else {kind: own.free(seen.columns) for kind, own in hosts.items()}
        claimed = view.columns.claimed
        claims = np.empty(0, np.int64) if claimed is None else claimed.free.copy()
        cores = np.where(usable, view.free[0], -1)
        return Left(view, now, hosts, whole, cores, view.free[1].copy(), devices, claims)

    def counts(self, kind: int) -> Ints:
        """int64[hosts]: how many devices of a kind each host has left."""
        return self.devices[kind].counts.copy()

    def near(self, kind: int) -> Ints:
        """int64[nodes]: how many devices of a kind each node could use."""
        hosts = self.hosts[kind]
        return (hosts.patterns @ self.counts(kind))[hosts.reach]

    def fits(self, sort: Sort, open_nodes: Bools, local: bool = True) -> Ints:
        """int64[nodes]: how many tasks of a sort each node could take, by cores, memory and what it can reach.

        ``local``: whether their memory is that of their node.
        """
        if (known := self.known.get(sort)) is not None:
            return known
        found = self.tasks_on(sort.cores, sort.mb * local)
        for kind, count in (sort.devices or {}).items():
            near = self.near(kind)
            found = np.minimum(found, near // count if self.hosts[kind].built_in else MOST * (near >= count))
        claimed = self.view.columns.claimed
        if claimed is not None and sort.claims.any():
            none = np.empty(0, np.int64)
            left = beside_kept(self.view, sort.job, self.claims)
            open_nodes = open_nodes & claimed.places.open_nodes(sort.claims, left, none, none, sort.tasks)
        if claimed is not None and claimed.places.windows:
            open_nodes = open_nodes & self.view.outside_windows(sort.job)
            open_nodes = open_nodes & (kept_from(self.view, sort.job, self.claims) is None)
        found = np.minimum(np.where(open_nodes, found, 0), MOST)
        self.known[sort] = found
        return found

    def tasks_on(self, cores: int, mb: int) -> Ints:
        """int64[nodes]: how many tasks of so many cores and MB each node could take that ask for nothing else."""
        found = np.where(self.cores >= 0, MOST, 0)
        if cores:
            found = np.minimum(found, np.maximum(self.cores, 0) // cores)
        if mb:
            found = np.minimum(found, self.mb // mb)
        return found

    def take(self, lease: Lease) -> None:
        """What a lease holds is gone."""
        self.take_nodes(lease)
        self._set_free(lease, False)

    def take_nodes(self, lease: Lease) -> None:
        """What a lease holds of nodes, and of the places of resources, is gone."""
        self.known.clear()
        for node, nodes, _, cores, mb in lease.rows.tolist():
            own = slice(node, node + nodes)
            self.cores[own] = -1 if self.whole else self.cores[own] - cores
            self.mb[own] -= mb
        for _, lender, mb in lease.borrowed.tolist():
            self.mb[lender] -= mb
        if len(lease.claims):
            self.claims[lease.claims[:, PLACE]] -= lease.claims[:, AMOUNT]

    def give(self, lease: Lease) -> None:
        """What a lease holds of nodes, places and devices is left."""
        self.known.clear()
        for node, nodes, _, cores, mb in lease.rows.tolist():
            own = slice(node, node + nodes)
            self.cores[own] = np.where(self.cores[own] >= 0, self.cores[own] + cores, self.cores[own])
            self.mb[own] += mb
        if len(lease.claims):
            self.claims[lease.claims[:, PLACE]] += lease.claims[:, AMOUNT]
        self._set_free(lease, True)

    def _set_free(self, lease: Lease, free: bool) -> None:
        for device in [device for share in lease.shares for device in share.devices]:
            for kind, hosts in self.hosts.items():
                if (at := hosts.at.get(device)) is not None:
                    self.devices[kind].set(at, free)

    def meet(self, other: Left) -> Left:
        """What is left of both."""
        devices = {kind: own.meet(other.devices[kind]) for kind, own in self.devices.items()}
        cores, mb = np.minimum(self.cores, other.cores), np.minimum(self.mb, other.mb)
        claims = np.minimum(self.claims, other.claims)
        kept = {
            device
            for kind, own in self.devices.items()
            for device in self.hosts[kind].device[own.free & ~devices[kind].free].tolist()
        }
        return Left(self.view, self.now, self.hosts, self.whole, cores, mb, devices, claims, self.kept | kept)

    def holds(self, lease: Lease) -> bool:
        """Whether all that a lease takes is left."""
        cores, mb = np.zeros(len(self.mb), np.int64), np.zeros(len(self.mb), np.int64)
        for node, nodes, _, own_cores, own_mb in lease.rows.tolist():
            cores[node : node + nodes] += own_cores
            mb[node : node + nodes] += own_mb
        np.add.at(mb, lease.borrowed[:, LENDER], lease.borrowed[:, LOAN_MB])
        place, amount = lease.claims.T
        return (
            bool((cores <= np.maximum(self.cores, 0)).all() and (self.cores[lease.nodes] >= 0).all())
            and bool((mb[mb > 0] <= self.mb[mb > 0]).all() and (amount <= self.claims[place]).all())
            and not any(device in self.kept for share in lease.shares for device in share.devices)
            and kept_from(self.view, lease.job, self.claims, lease.claims) is None
        )


def batch_of(left: Left, sorts: Sorts, jobs: Ints, local: bool) -> Bools:
    """bool[jobs]: which of the jobs, in their order, take part (Amaral 2019, section 5.3.3); others may pass by.

    ``local``: whether memory is that of the node where a task runs.
    """
    of = sorts.of[jobs]
    kinds, number = np.unique(of, return_inverse=True)
    rows = []
    for kind in kinds.tolist():
        sort = sorts.every[kind]
        devices = sort.devices or {}
        own = [sort.cores, sort.mb * local, *(devices.get(kind, 0) for kind in left.hosts)]
        rows.append([sort.tasks * amount for amount in own])
    demands = np.array(rows, np.int64).reshape(len(kinds), -1)
    usable = left.cores >= 0
    free = [int(left.cores[usable].sum()), int(left.mb[usable].sum())]
    free += [int(left.counts(kind).sum()) for kind in left.hosts]
    return together(demands, number.ravel(), np.array(free, np.int64))


@compiled
def together(demands: Ints, of: Ints, free: Ints) -> Bools:
    """bool[jobs]: those that find enough beside the ones before them; demands are row ``of`` of int64[sorts, amounts].

    Examples
    --------
    >>> together(np.array([[3], [1]]), np.array([0, 0, 1]), np.array([4])).tolist()
    [True, False, True]
    """
    left, taken = free.copy(), np.zeros(len(of), np.bool_)
    for at in range(len(of)):
        own = demands[of[at]]
        fits = True
        for amount in range(len(left)):
            fits = fits and own[amount] <= left[amount]
        if fits:
            taken[at] = True
            for amount in range(len(left)):
                left[amount] -= own[amount]
    return taken
