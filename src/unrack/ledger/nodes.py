"""The nodes of a run: what is free on each, and which are in service.

A summary by blocks of nodes says the most free cores of any, so that a search skips nodes that are full: ``most`` is
int64[blocks + groups]: first one entry for every block of ``SIZE`` consecutive nodes, then one for every group of
``SIZE`` consecutive blocks. It always says exactly what the free cores say: code that changes ``free`` while a ``most``
of it is in use changes both, by :func:`take_rows` and :func:`give_rows`.
"""

from __future__ import annotations

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import RefusedError
from unrack.jit import compiled, inlined, plain
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import CPU, MEM
from unrack.ledger.devices.state import DeviceState
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES
from unrack.sealed import sealed


class NodeLedger:
    """The part of :class:`unrack.ledger.state.ClusterState` that is about nodes, whichever jobs hold them.

    Parameters
    ----------
    devices
        The pooled devices, which go out of service with the nodes that they sit in; ``None``: there are none.
    """

    def __init__(self, cluster: Cluster, devices: DeviceState | None) -> None:
        self.cluster = cluster
        self.devices = devices
        self.total = np.ascontiguousarray(np.stack([cluster.cores, cluster.memory_mb]))
        self.free = self.total.copy()
        self.free_cores = int(self.free[0].sum())
        self.online = np.ones(len(cluster), np.bool_)
        self.withheld: dict[int, Ints] = {}
        self.group = cluster.lending_group
        self.version = 0
        self.releases = 0
        self.unforeseen = 0
        self.local = sealed(np.zeros((2, 1 + len(cluster)), np.int64))
        self.capacity_version = 0

    def set_online(self, node: int, online: bool) -> None:
        """Take an idle node out of service, or bring it back.

        A RefusedError if the node still holds jobs, or is in that condition already.
        """
        self._check_exists(node)
        if bool(self.online[node]) == online:
            raise RefusedError(f"node {node} is {'online' if online else 'offline'} already")
        if not online and (self.free[:, node] != self.total[:, node]).any():
            raise RefusedError(f"node {node} still holds jobs")
        if self.devices is not None:
            if not online and self.devices.busy_at(node):
                raise RefusedError(f"node {node} still has a device in use")
            self.devices.set_online(node, online)
        self.online[node] = online
        self.free[:, node] = self.total[:, node] if online else 0
        self.free_cores += int(self.total[0, node]) * (1 if online else -1)
        self._capacity_changed(comes_back=online)

    def drain(self, node: int) -> None:
        """Take a node out of service: at once if it is idle, or else what comes free there is withheld until then.

        A node that is out of service or drains already stays so. A RefusedError if there is no such node.
        """
        self._check_exists(node)
        if self.online[node] and node not in self.withheld:
            self.withheld[node] = np.zeros(2, np.int64)
            self.version += 1
            self.capacity_version += 1
        self.withhold()

    def withhold(self) -> None:
        """Keep back what has come free on nodes that drain; those that are idle by now go out of service."""
        for node in sorted(self.withheld):
            kept, free = self.withheld[node], self.free[:, node]
            if free.any():
                self.free_cores -= int(free[0])
                kept += free
                free[:] = 0
                self.version += 1
            if (kept == self.total[:, node]).all() and not (self.devices is not None and self.devices.busy_at(node)):
                self._give_back(node)
                self.set_online(node, False)

    def resume(self, node: int) -> None:
        """Bring a node back into service, or let one that drains be used again.

        A RefusedError if there is no such node, or it is in service.
        """
        if node not in self.withheld:
            self.set_online(node, True)
            return
        self._give_back(node)
        self._capacity_changed(comes_back=True)

    def note_where(self, nodes: Ints, early: bool) -> None:
        """What was given back last, maybe ``early``, was on these nodes alone."""
        local = self.local.copy()
        local[1 - early :, nodes] = [[self.unforeseen], [self.releases]][1 - early :]
        local[:, -1] += early, 1
        self.local = sealed(local)

    def _check_exists(self, node: int) -> None:
        if not 0 <= node < len(self.online):
            raise RefusedError(f"node {node} does not exist")

    def _give_back(self, node: int) -> None:
        """Nothing of a node is withheld any more."""
        kept = self.withheld.pop(node)
        self.free[:, node] += kept
        self.free_cores += int(kept[0])

    def _capacity_changed(self, comes_back: bool) -> None:
        self.version += 1
        self.capacity_version += 1
        self.releases += 1
        self.unforeseen += comes_back


SIZE = 64
"""Nodes of a block, and blocks of a group."""


@inlined
def count_blocks(nodes: int) -> int:
    """How many blocks so many nodes have, or how many groups so many blocks."""
    return (nodes + SIZE - 1) // SIZE


@inlined
def refresh_groups(most: Ints, blocks: int, first: int, last: int) -> None:
    """Set the entries of the groups with the blocks ``first`` to ``last``."""
    for group in range(first // SIZE, last // SIZE + 1):
        top = 0
        for block in range(group * SIZE, min(group * SIZE + SIZE, blocks)):
            top = max(top, most[block])
        most[blocks + group] = top


@inlined
def refresh(free: Ints, most: Ints, first: int, last: int) -> None:
    """Set the entries of the blocks ``first`` to ``last``, and of their groups."""
    nodes = free.shape[1]
    for block in range(first, last + 1):
        top = 0
        for node in range(block * SIZE, min(block * SIZE + SIZE, nodes)):
            top = max(top, free[CPU, node])
        most[block] = top
    refresh_groups(most, count_blocks(nodes), first, last)


@inlined
def most_free(free: Ints) -> Ints:
    """int64[blocks + groups]: the summary of free cores and MB (int64[2, nodes])."""
    blocks = count_blocks(free.shape[1])
    most = np.zeros(blocks + count_blocks(blocks), np.int64)
    refresh(free, most, 0, blocks - 1)
    return most


@inlined
def add_everywhere(free: Ints, first: int, end: int, cores: int, mb: int) -> None:
    """Add cores and MB on the nodes ``first`` to ``end - 1``; two loops, as they run many nodes at once."""
    for node in range(first, end):
        free[CPU, node] += cores
    if mb != 0:
        for node in range(first, end):
            free[MEM, node] += mb


@inlined
def take_rows(free: Ints, most: Ints, rows: Ints, first: int, last: int) -> int:
    """Take ``rows[first:last]`` from ``free``; returns the cores taken. Fastest where rows go up by node."""
    cores = 0
    low, high = 0, -1
    for r in range(first, last):
        node, end = rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]
        add_everywhere(free, node, end, -rows[r, CORES], -rows[r, LOCAL_MB])
        cores += rows[r, NODES] * rows[r, CORES]
        a, b = node // SIZE, (end - 1) // SIZE
        if high < low:
            low, high = a, b
        elif low <= a <= high + 1:
            high = max(high, b)
        else:
            refresh(free, most, low, high)
            low, high = a, b
    if high >= low:
        refresh(free, most, low, high)
    return cores


@inlined
def give_rows(free: Ints, most: Ints, rows: Ints, first: int, last: int) -> int:
    """Give ``rows[first:last]`` back to ``free``; returns the cores given back."""
    cores = 0
    blocks = count_blocks(free.shape[1])
    for r in range(first, last):
        low, end = rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]
        add_everywhere(free, low, end, rows[r, CORES], rows[r, LOCAL_MB])
        cores += rows[r, NODES] * rows[r, CORES]
        while low < end:
            block = low // SIZE
            high = min(block * SIZE + SIZE, end)
            top = most[block]
            for node in range(low, high):
                top = max(top, free[CPU, node])
            most[block] = top
            group = blocks + block // SIZE
            most[group] = max(top, most[group])
            low = high
    return cores


whole_summary = compiled(plain(most_free))
"""The same from Python."""
