"""What is left while a round goes on: of nodes, of devices by host, and of the places of resources."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.lease import LENDER, LOAN_MB, Lease
from unrack.policy.flow.free_devices import FreeDevices
from unrack.policy.flow.hosts import Hosts
from unrack.policy.flow.sorts import Sort
from unrack.resources.places import AMOUNT, PLACE
from unrack.view import View

Ints = NDArray[np.int64]
MOST = 1 << 40


@dataclass
class Left:
    """What nobody holds, less what the round has given away.

    Attributes
    ----------
    cores, mb : int64[nodes]
        Of each node; cores are -1 where no task may go.
    devices
        Kind to the free devices of each of its hosts.
    claims : int64[places]
        Of the places of resources.
    kept
        Devices that are free and not to be used.
    known
        How many tasks of a sort each node could take, as long as nothing is taken.
    """

    view: View
    now: int
    hosts: dict[int, Hosts]
    whole: bool
    cores: Ints
    mb: Ints
    devices: dict[int, FreeDevices]
    claims: Ints
    kept: frozenset[int] = frozenset()
    known: dict[Sort, Ints] = field(default_factory=dict)

    @staticmethod
    def of(view: View, hosts: dict[int, Hosts], whole: bool, open_nodes: NDArray[np.bool_], now: int) -> Left:
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
        found: Ints = (hosts.patterns @ self.counts(kind))[hosts.reach]
        return found

    def fits(self, sort: Sort, open_nodes: NDArray[np.bool_], local: bool = True) -> Ints:
        """int64[nodes]: how many tasks of a sort each node could take, by cores, memory and what it can reach.

        ``local``: whether their memory is that of their node.
        """
        if (known := self.known.get(sort)) is not None:
            return known
        found = np.where(self.cores >= 0, MOST, 0)
        if sort.cores:
            found = np.minimum(found, np.maximum(self.cores, 0) // sort.cores)
        if sort.mb and local:
            found = np.minimum(found, self.mb // sort.mb)
        if self.whole:
            total = self.view.total
            fits = total[0] // max(sort.cores, 1) if sort.cores else np.full(len(found), MOST)
            found = np.where(found > 0, np.minimum(fits, found), 0)
        for kind, count in (sort.devices or {}).items():
            near = self.near(kind)
            found = np.minimum(found, near // count if self.hosts[kind].built_in else MOST * (near >= count))
        claimed = self.view.columns.claimed
        if claimed is not None and sort.claims.any():
            none = np.empty(0, np.int64)
            open_nodes = open_nodes & claimed.places.open_nodes(sort.claims, self.claims, none, none, sort.tasks)
        found = np.minimum(np.where(open_nodes, found, 0), MOST)
        self.known[sort] = found
        return found

    def take(self, lease: Lease) -> None:
        """What a lease holds is gone."""
        self.take_nodes(lease)
        for share in lease.shares:
            for kind, hosts in self.hosts.items():
                for device in share.devices:
                    if (host := hosts.of.get(device)) is not None:
                        self.devices[kind].remove(host, device)

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
        for share in lease.shares:
            for kind, hosts in self.hosts.items():
                for device in share.devices:
                    if (host := hosts.of.get(device)) is not None:
                        self.devices[kind].put(host, device)

    def meet(self, other: Left) -> Left:
        """What is left of both."""
        devices = {kind: own.meet(other.devices[kind]) for kind, own in self.devices.items()}
        cores, mb = np.minimum(self.cores, other.cores), np.minimum(self.mb, other.mb)
        claims = np.minimum(self.claims, other.claims)
        kept = {
            device
            for kind, own in self.devices.items()
            for device in np.setdiff1d(own.every()[0], devices[kind].every()[0]).tolist()
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
        )
