"""Where devices of a kind are: the nodes in which they sit, and pools that are in no node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.pools.pool import Devices
from unrack.ledger.devices.columns import FREE, GROUP, Columns
from unrack.policy.flow.free_devices import FreeDevices

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Hosts(NamedTuple):
    """The hosts of one kind of devices: devices of one pool that sit in one node, or in none.

    Attributes
    ----------
    kind, name
        Of the devices.
    pool, home : int64[hosts]
        Their pool; the node in which they sit, -1: none (a pool of a rack, RN in the thesis).
    device, host : int64[devices]
        The devices of the kind by host, and the host of each.
    reach : int64[nodes]
        Which of the patterns says what a node may use.
    patterns : bool[patterns, hosts]
    local : int64[nodes]
        The host in each node, the first where there are several; -1: none.
    of
        Device to its host.
    built_in
        Whether every device serves one node only, so that it says where a task goes.
    """

    kind: int
    name: str
    pool: Ints
    home: Ints
    device: Ints
    host: Ints
    reach: Ints
    patterns: Bools
    local: Ints
    of: dict[int, int]
    built_in: bool

    def free(self, columns: Columns) -> FreeDevices:
        """The free devices of each host."""
        is_free = columns.device[GROUP, self.device] == FREE
        return FreeDevices(self.device[is_free], self.host[is_free], len(self.pool))


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
    of = dict(zip(devices_by_host.tolist(), host_by_host.tolist(), strict=True))
    name = devices.kinds[kind]
    return Hosts(kind, name, pool, home, devices_by_host, host_by_host, reach.ravel(), patterns, local, of, alone)
