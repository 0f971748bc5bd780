"""What a placement costs: four models by name, each O(sorts x hosts).

They ask how loaded the links of nodes are, and by what jobs elsewhere are slowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.policy.flow.left import MOST, Hosts, Left, Sort
from unrack.resources.links.resource import MB_S, REMOTE_MB_S, Links
from unrack.view import View


class Phase(NamedTuple):
    """One group of resources in one round: sub-tasks of several sorts, and hosts that could take them.

    Attributes
    ----------
    view, now
        The cluster, before this round, and the time, µs.
    group
        ``"nodes"`` (cores, memory, and what is built into nodes), or a kind of pooled devices.
    sorts
        What the sub-tasks ask; those of a sort are alike.
    node : int64[hosts]
        The node of each host; -1: a pool that is in no node.
    fits : int64[sorts, hosts]
        How many sub-tasks of each sort a host could take if it took no others.
    postponed : bool[sorts]
        Whether they have been left waiting in as many rounds as the model says (``postpones``), or more.
    chosen
        Whether an earlier phase has given the sub-tasks nodes.
    slowdown : float64[sorts, hosts]
        How many times as long a sub-task would run there as undisturbed, as far as devices elsewhere and the network
        say so.
    home : float64[sorts]
        The same of a sub-task on the node that an earlier phase gave it.
    load : float64[hosts]
        The share of the network link of the host's node that is in use now, before this round; 0 where links are not
        modelled.
    sensitivity : float64[sorts]
        By how much a run grows beside a link that others use fully: 0.6 = 60 %.
    seen : bool[sorts, hosts]
        Where a job of the same application has run before, so that its image is there.
    """

    view: View
    now: int
    group: str
    sorts: list[Sort]
    node: Ints
    fits: Ints
    postponed: Bools
    chosen: bool
    slowdown: Floats
    home: Floats
    load: Floats
    sensitivity: Floats
    seen: Bools


class Costs(NamedTuple):
    """What placements cost; 1 is the cost of what just meets its goal.

    Attributes
    ----------
    place : float64[sorts, hosts]
        Of a sub-task on a host; infinite: not there.
    waiting : float64[sorts]
        Of leaving a sub-task waiting for the first time; the rounds it has waited are added.
    preferred : float64[sorts]
        Of a sub-task at the host that is its node, where an earlier phase has given it one.
    """

    place: Floats
    waiting: Floats
    preferred: Floats


CostModel = Callable[[Phase], Costs]
"""A model is a function; its attribute ``postpones``, where it has one, is a number of rounds for ``postponed``."""


def postpones(model: CostModel) -> int:
    """After how many rounds of waiting a model treats a job otherwise; 0: it does not."""
    return int(getattr(model, "postpones", 0))


SLACK, IMPORTANCE = 1.5, 1.0
"""Of :func:`utility`."""
UTILITY_REMOTE = 2.0
"""P of :func:`lost_utility`, elsewhere than at the node that an earlier phase chose."""
FRAGMENTATION_REMOTE = 1.0
"""What :func:`least_left` adds there."""
PATIENCE = 2.0
"""What waiting costs under :func:`image_locality`."""
TOLERANCE, POSTPONED = 0.05, 10
"""Of :func:`network_load`: the SLO beyond the undisturbed run time, and rounds in which it is kept."""


def utility(slowdown: Floats, slack: float = SLACK, importance: float = IMPORTANCE) -> Floats:
    """Equation 11, of run times as multiples of the undisturbed one.

    Examples
    --------
    >>> utility(np.array([1.0, 1.5, 3.0])).round(3).tolist()
    [0.333, 0.0, -1.0]
    """
    spare = (slack - slowdown) / slack
    return np.where(slowdown <= slack, spare, spare * (10 - importance) / 9)


def lost_utility(phase: Phase) -> Costs:
    """Cost as lost utility (Amaral 2019, equations 11 to 13).

    With a goal τ for the run time and an expected run time φ, Ut = (τ - φ)/τ if φ is at most τ, else that times
    (10 - z)/9: z from 1 (an interference counts in full) to 10 (it does not count). A placement costs (1 - Ut) · P; P
    is 1 at the node that an earlier phase chose. To wait costs what a placement elsewhere that just meets its goal
    costs, so a job that meets its goal never waits for a better place, and one that does not waits until its rounds
    make up for it.

    What the thesis leaves open: τ is taken as ``SLACK`` times the undisturbed run time, as its goals are not given; P
    has no values there.
    """
    elsewhere = UTILITY_REMOTE if phase.chosen else 1.0
    sorts = len(phase.sorts)
    return Costs((1 - utility(phase.slowdown)) * elsewhere, np.full(sorts, elsewhere), 1 - utility(phase.home))


def least_left(phase: Phase) -> Costs:
    """Cost of what is left over: hosts that a placement leaves with least room cost least.

    A host costs the share of its own size that would stay free for sub-tasks of the same sort, (fits - 1)/size with the
    size of the largest host; so hosts that are nearly full are filled first, and whole hosts stay free for large
    demands.
    """
    largest = np.maximum(phase.fits.max(axis=1, initial=1), 1)[:, None]
    left = np.maximum(phase.fits - 1, 0) / largest
    remote = FRAGMENTATION_REMOTE if phase.chosen else 0.0
    sorts = len(phase.sorts)
    return Costs(left + remote, np.full(sorts, 1 + remote), np.zeros(sorts))


def image_locality(phase: Phase) -> Costs:
    """Cost of fetching (as of Quincy, Isard et al. 2009): a host that has the image of an application costs least.

    A sub-task costs nothing where a job of its application has run before, 1 where its image has to be fetched, and as
    much again where its devices are not at its node. A job that has its image somewhere waits for a place there for
    ``PATIENCE`` of a round's cost.
    """
    sorts = len(phase.sorts)
    if phase.group == "nodes":
        return Costs(np.where(phase.seen, 0.0, 1.0), np.full(sorts, PATIENCE), np.zeros(sorts))
    return Costs(np.ones(phase.fits.shape), np.full(sorts, PATIENCE), np.zeros(sorts))


def network_load(phase: Phase) -> Costs:
    """Network-aware cost (Amaral 2019, section 5.6.5.1): the load of the network times how much a job minds it.

    A placement costs the load of the host's link, relative to the most loaded one, times the job's sensitivity. A
    placement at which a job would run for longer than its SLO, its undisturbed run time and ``TOLERANCE`` of it, is not
    made before the job was postponed ``POSTPONED`` times.
    """
    most = max(float(phase.load.max(initial=0.0)), 1e-12)
    place = phase.sensitivity[:, None] * (phase.load / most)[None]
    broken = (phase.slowdown > 1 + TOLERANCE) & ~phase.postponed[:, None]
    worst = float(phase.sensitivity.max(initial=0.0)) + 1
    return Costs(np.where(broken, np.inf, place), np.full(len(phase.sorts), worst), np.zeros(len(phase.sorts)))


network_load.postpones = POSTPONED  # type: ignore[attr-defined]

COSTS: dict[str, CostModel] = {
    "utility": lost_utility,
    "network": network_load,
    "locality": image_locality,
    "fragmentation": least_left,
}
"""Name → model."""


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
