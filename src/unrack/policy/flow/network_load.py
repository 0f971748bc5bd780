"""What a round knows of the network: how loaded the links of nodes are, and what jobs elsewhere are slowed by."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unrack.policy.flow.hosts import Hosts
from unrack.policy.flow.left import MOST, Left
from unrack.policy.flow.sorts import Sort
from unrack.view import View

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass
class NetworkLoad:
    """Of one cluster.

    Attributes
    ----------
    ran
        Application and node of jobs that have run.
    """

    ran: dict[int, set[int]] = field(default_factory=dict)

    def load(self, view: View, nodes: Ints | None = None) -> Floats:
        """float64[nodes]: the share of each node's link that is in use; 0 of what is in no node."""
        return np.zeros(len(view.cluster) if nodes is None else len(nodes))

    def sensitivity(self, sorts: list[Sort]) -> Floats:
        """float64[sorts]: how much longer jobs run beside a link that others use fully."""
        return np.zeros(len(sorts))

    def slowdown(self, view: View, sorts: list[Sort], hosts: Hosts) -> tuple[Floats, Floats]:
        """float64[sorts, hosts] and float64[sorts]: run times with devices elsewhere, and at home."""
        overhead = np.array([view.cluster.devices.pools[pool].overhead for pool in hosts.pool.tolist()])
        return np.tile(1 + overhead, (len(sorts), 1)), np.ones(len(sorts))

    def room_at(self, left: Left, sorts: list[Sort], nodes: Ints) -> Ints:
        """int64[sorts, hosts]: how many devices at a node others could use, by its link."""
        return np.full((len(sorts), len(nodes)), MOST)

    def room_away(self, left: Left, sorts: list[Sort], nodes: Ints) -> Bools:
        """bool[tasks]: whether a task at a node could use a device elsewhere, by the link of its node."""
        return np.ones(len(nodes), np.bool_)

    def seen(self, sorts: list[Sort], nodes: Ints) -> Bools:
        """bool[sorts, hosts]: where a job of the same application has run before."""
        found = np.zeros((len(sorts), len(nodes)), np.bool_)
        for row, sort in enumerate(sorts):
            ran = self.ran.get(sort.app)
            if ran:
                found[row] = np.isin(nodes, sorted(ran))
        return found
