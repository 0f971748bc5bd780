"""What a round knows of the network: how loaded the links of nodes are, and what jobs elsewhere are slowed by."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.policy.flow.hosts import Hosts
from unrack.policy.flow.left import MOST, Left, Sort
from unrack.resources.links.links import MB_S, REMOTE_MB_S, Links
from unrack.view import View


@dataclass
class NetworkLoad:
    """Of one cluster."""

    links: Links | None  # its links; ``None``: they are not modelled, and nothing is known of load
    # places, quantities: where they are among places and among what jobs ask
    places: slice
    quantities: slice
    carried: Ints  # int64[nodes]: what may be claimed of the link of each node, MB/s
    ran: dict[int, set[int]] = field(default_factory=dict)  # application to the nodes where jobs of it have run

    @staticmethod
    def of(view: View) -> NetworkLoad:
        """Of the cluster of a view."""
        none = np.zeros(len(view.cluster), np.int64)
        for part in view.cluster.places.parts:
            if isinstance(part.installed, Links):
                at = slice(part.places.start, part.places.start + part.installed.count)
                return NetworkLoad(part.installed, at, part.quantities, view.cluster.places.total[at])
        return NetworkLoad(None, slice(0, 0), slice(0, 0), none)

    def load(self, view: View) -> Floats:
        """float64[nodes]: the share of what the link of each node carries that is in use."""
        seen = view.columns.claimed
        if self.links is None or seen is None:
            return np.zeros(len(view.cluster))
        return (self.carried - seen.free[self.places]) / self.links.capacity[: self.links.count]

    def sensitivity(self, view: View, sorts: list[Sort]) -> Floats:
        """float64[sorts]: how much longer jobs run beside a link that others use fully, 0.6: 60 %."""
        if self.links is None:
            return np.zeros(len(sorts))
        return np.array([self.links.profiles.full_factor(view.job(sort.job).app) - 1 for sort in sorts])

    def on_nodes(self, view: View, sorts: list[Sort]) -> Floats:
        """float64[sorts, nodes]: run times of tasks that send something wherever they run."""
        sends = np.array([self._asked(sort, MB_S) > 0 for sort in sorts])
        found: Floats = 1 + (self.sensitivity(view, sorts) * sends)[:, None] * self.load(view)[None]
        return found

    def elsewhere(self, view: View, sorts: list[Sort], hosts: Hosts) -> tuple[Floats, Floats]:
        """float64[sorts, hosts] and float64[sorts]: run times with a device elsewhere, and with one at home."""
        overhead = np.array([view.cluster.devices.pools[pool].overhead for pool in hosts.pool.tolist()])
        load = load_at(self.load(view), hosts.home)
        slowed = 1 + self.sensitivity(view, sorts)[:, None] * load[None]
        return slowed * (1 + overhead)[None], np.ones(len(sorts))

    def room_at(self, left: Left, sorts: list[Sort], hosts: Hosts) -> Ints:
        """int64[sorts, hosts]: how many devices of each host other nodes could use, by its link."""
        found = np.full((len(sorts), len(hosts.home)), MOST)
        for row, sort in enumerate(sorts):
            if each := self._asked(sort, REMOTE_MB_S):
                found[row] = np.where(hosts.home >= 0, (left.claims[self.places] // each)[hosts.home], MOST)
        return found

    def room_away(self, left: Left, sorts: list[Sort], nodes: Ints) -> Bools:
        """bool[tasks]: whether a task of a sort at a node could use a device elsewhere, by the link of its node."""
        if self.links is None:
            return np.ones(len(nodes), np.bool_)
        each = np.array([self._asked(sort, REMOTE_MB_S) for sort in sorts], np.int64)
        return left.claims[self.places][nodes] >= each

    def seen(self, sorts: list[Sort], nodes: Ints) -> Bools:
        """bool[sorts, hosts]: where a job of the same application has run before."""
        found = np.zeros((len(sorts), len(nodes)), np.bool_)
        for row, sort in enumerate(sorts):
            if ran := self.ran.get(sort.app):
                found[row] = np.isin(nodes, sorted(ran))
        return found

    def _asked(self, sort: Sort, quantity: int) -> int:
        return 0 if self.links is None else int(sort.claims[self.quantities][quantity])


def load_at(load: Floats, homes: Ints) -> Floats:
    """float64[hosts]: the load of links of nodes (float64[nodes]), for hosts at nodes; 0 of a host that is in none."""
    return np.where(homes >= 0, load[homes], 0.0)
