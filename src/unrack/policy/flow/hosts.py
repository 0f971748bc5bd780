"""Where devices of a kind are, in nodes or in pools that are in no node, and which of them are free."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.cluster.pools.pool import Devices
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.devices.columns import FREE, GROUP, DeviceColumns


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
