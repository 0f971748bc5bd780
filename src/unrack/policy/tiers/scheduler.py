"""The allocators over tiers of memory as policies: servers come, stay and leave.

A server is a job of one task. Waiting servers are tried in order of arrival, each by the allocator's rule
(:mod:`unrack.solver.servers.one_by_one`), or with ``order = "slo-ratio"`` by the ratio of their SLOs
(:mod:`unrack.policy.tiers.scheduler`); one without a place waits, without holding up others, or is refused for good
(``full = "reject"``, as a cloud does). Servers are not moved once they are placed. Trying one is O(log clusters) but
for clusters that look open and are not; waiting ones are tried again only after something was given back.

What a job asks of tiers is in :attr:`unrack.workload.job.JobTable.slo`; without it there is no floor and no ceiling.
The expected run time plays no part.

In which order servers come where they come one after the other.

The paper takes them as they are in the request. The authors' program first sorts them by the ratio of their SLOs, the
floor over the ceiling in whole numbers, largest first; on their published servers every ratio is 0, so that nothing
changes, and the paper does not mention it.

References
----------
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, section 4.3: there no server leaves. What differs: after a server has left, its cluster stands in front
of those of its new utilisation, as in a stable sort.
Farshin, A., Roozbeh, A., Schulte, C., Maguire, G. Q., Kostić, D. (2021). Scheduling - a secret sauce for resource
disaggregation, section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.spec import Cluster
from unrack.errors import PolicyError, check_choice
from unrack.jit import compiled
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.columns import grown, room_for
from unrack.ledger.lease import FIRST, LENDER, LOAN_MB, LOCAL_MB, Lease
from unrack.ledger.state import RUNNING
from unrack.policy.contract import EVERYTHING, Ability, Decision, Need, Reject, Start, Traits
from unrack.policy.discipline.list_scheduler import ListNotes, ListScheduler
from unrack.policy.placement.any_resource import more_asked
from unrack.policy.placement.tiered_memory import TieredMemory
from unrack.policy.tiers.own_policy import lease_of, possible_servers
from unrack.policy.tiers.refusals import Refusals
from unrack.policy.tiers.supply import in_numbers, supply_of
from unrack.reasons import Code, Reason
from unrack.solver.servers.holdings import Servers
from unrack.solver.servers.one_by_one import OneByOne
from unrack.solver.servers.problem import NOWHERE, Allocation, Asked, Supply
from unrack.view import View
from unrack.workload.job import CORES, MEMORY, JobTable
from unrack.workload.tier_asks import NO_CEILING, scaled_ceiling

REQUEST, SLO_RATIO = "request", "slo-ratio"
ORDERS = (REQUEST, SLO_RATIO)


def check_order(order: str, where: str) -> None:
    """Refuse an unknown order with a :class:`PolicyError`."""
    check_choice(f"{where}order", order, ORDERS, PolicyError)


def slo_ratios(asks: Asked | Servers, cost_scale: int) -> Ints:
    """int64[servers]: floor in MB // ceiling in weighted MB; a ceiling of 0 is above all, no ceiling counts as 0.

    ``asks``: servers, ceilings in units of 1 / ``cost_scale``; ``cost_scale``: units of weight for each MB of a tier of
    cost 1.

    Examples
    --------
    >>> from unrack.solver.servers.problem import asked
    >>> ones = np.ones(4, np.int64)
    >>> servers = asked(ones, 90 * ones, np.array([0, 50, 40, 90]), np.array([9, 20, 100, 0]), tiers=2)
    >>> slo_ratios(servers, 1)[:3].tolist()
    [0, 2, 0]
    """
    ratios = asks.floor * cost_scale // np.maximum(asks.ceiling, 1)
    return np.where(asks.ceiling == 0, np.iinfo(np.int64).max, ratios)


def servers_in_order(which: Ints, asks: Asked | Servers, order: str, cost_scale: int) -> Ints:
    """int64[any]: some servers in an order of ``ORDERS``; those of one ratio stay as they were."""
    if order == REQUEST:
        return which
    return which[np.argsort(-slo_ratios(asks, cost_scale)[which], kind="stable")]


WAIT, REJECT = "wait", "reject"
FULL = (WAIT, REJECT)
"""What becomes of a server that has no place."""


@compiled
def _leavers(status: NDArray[np.int8], running: int, servers: Ints, count: int, gone: Ints) -> int:
    """How many of the first ``count`` servers do not run any more: they are written to ``gone``, the others move up."""
    stay = left = 0
    for i in range(count):
        server = servers[i]
        if status[server] == running:
            servers[stay] = server
            stay += 1
        else:
            gone[left] = server
            left += 1
    return left


@dataclass(slots=True)
class TierNotes:
    """What the policy remembers: its allocator, which servers run, and what the last round had seen."""

    allocator: OneByOne
    refusals: Refusals
    online: Bools
    running: Ints  # int64[room]: servers that were placed and had not left: the first `count` of it, in order of start
    count: int = 0
    # of the state, when the allocator was last brought up to date
    releases: int = 0
    capacity_version: int = 0
    tried: int = -1  # jobs that wait beyond this one have not been tried since something was given back
    beyond: ListNotes | None = None  # of the pass over the queue, once a job has asked for devices


@dataclass(frozen=True)
class TierPolicy:
    """Places servers on tiers of memory, one at a time."""

    rule: str = "slo"  # ``"slo"``, ``"first-fit"`` or ``"best-fit"``
    full: str = WAIT  # ``"wait"`` or ``"reject"``
    clusters: int | None = None  # at most so many clusters may be in use at a time; ``None``: any number
    order: str = REQUEST  # in which those that wait are tried: ``"request"``, as they came, or ``"slo-ratio"``
    label: str = "slo"  # what reports call it
    # which compute pools and devices are taken where servers ask for devices: a name in
    # :data:`unrack.policy.placement.mixed.PLACES`
    place: str = "first-fit"

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    @cached_property
    def traits(self) -> Traits:
        """It places devices and what is counted unless it rejects servers, counts clusters or has its own order."""
        more = EVERYTHING if self.full == WAIT and self.clusters is None and self.order == REQUEST else frozenset()
        return Traits(places=more | {Need.LOANS, Need.TIERS}, does=frozenset({Ability.POSSIBLE}))

    def possible(self, cluster: Cluster, jobs: JobTable) -> Bools:
        """bool[jobs]: which servers have a place in the empty data centre; it has tiers."""
        return possible_servers(cluster, jobs, self.rule != "first-fit")

    def begin(self, view: View) -> TierNotes:
        """Servers that run are where their leases say."""
        supply, tiers = supply_of(view.cluster), view.cluster.tiers
        assert tiers is not None
        cores, mb = view.asks[[CORES, MEMORY]]
        asks = in_numbers(cores, mb, view.slo, view.cluster, self.clusters)
        now = Allocation(np.full(len(asks), NOWHERE, np.int64), np.zeros((len(asks), supply.width), np.int64))
        running = view.running[1, : view.running_count].copy()
        for job in running.tolist():
            place_in(supply, now, view.lease(job))
        allocator = OneByOne(supply, asks, self.rule, now)
        for pool in np.flatnonzero(~view.online).tolist():
            allocator.set_pool(pool, False)
        return TierNotes(
            allocator,
            Refusals(allocator, tiers.cost_scale),
            view.online.copy(),
            running,
            len(running),
            view.releases,
            view.capacity_version,
        )

    def decide(self, view: View, memory: TierNotes, now: int) -> tuple[list[Decision], TierNotes]:
        """Start every waiting server that has a place."""
        if memory.beyond is None and more_asked(view):
            memory.beyond = self._beyond.begin(view)
        if memory.beyond is not None:
            return self._beyond.decide(view, memory.beyond, now)[0], memory
        allocator = memory.allocator
        for job in range(allocator.count, view.jobs):
            take_in(allocator, view, job)
        if view.releases != memory.releases or view.capacity_version != memory.capacity_version:
            self._follow(view, memory)
            memory.tried = -1
        waiting = view.queue
        waiting = waiting[waiting.searchsorted(memory.tried, "right") :].copy()
        if not len(waiting):
            return [], memory
        memory.tried = int(waiting[-1])
        if self.order != REQUEST:
            assert view.cluster.tiers is not None
            waiting = servers_in_order(waiting, allocator.servers, self.order, view.cluster.tiers.cost_scale)
        if not allocator.place(waiting) and self.full == WAIT:
            return [], memory
        placed = allocator.cluster[waiting] >= 0
        starting = waiting[placed]
        decisions: list[Decision] = [Start(self._lease(view, allocator, job)) for job in starting.tolist()]
        room = room_for(memory.count + len(starting), len(memory.running))
        if room > len(memory.running):
            memory.running = grown(memory.running, room)
        memory.running[memory.count : memory.count + len(starting)] = starting
        memory.count += len(starting)
        if self.full == REJECT:
            decisions += [Reject(job, self._why(memory, job)) for job in waiting[~placed].tolist()]
        return decisions, memory

    @cached_property
    def _beyond(self) -> ListScheduler:
        """Every server that has a place, in order of arrival, once a server asks for devices."""
        rule = TieredMemory("slo" if self.rule == "slo" else f"slo-{self.rule}")
        return ListScheduler("fcfs", self.place, "any", memory=rule)

    def next_round(self, view: View, memory: TierNotes, now: int) -> int | None:
        """Only on events, unless deadlines count."""
        return None if memory.beyond is None else self._beyond.next_round(view, memory.beyond, now)

    def why(self, view: View, memory: TierNotes, job: int, now: int) -> Reason:
        """What the clusters lack for it."""
        if memory.beyond is not None:
            return self._beyond.why(view, memory.beyond, job, now)
        return self._why(memory, job)

    def _why(self, memory: TierNotes, job: int) -> Reason:
        clusters = np.arange(memory.allocator.supply.clusters)
        return Reason(Code.NO_ROOM, memory.refusals.of(job).among(clusters))

    def _lease(self, view: View, allocator: OneByOne, job: int) -> Lease:
        pools = allocator.supply.pools(int(allocator.cluster[job]))
        return lease_of(job, int(view.asks[CORES, job]), pools, allocator.mb[job, : len(pools)])

    def _follow(self, view: View, memory: TierNotes) -> None:
        """Take out servers that have left, and pools that have failed; put back pools that are repaired."""
        allocator = memory.allocator
        gone = np.empty(memory.count, np.int64)
        left = _leavers(view.columns.status, int(RUNNING), memory.running, memory.count, gone)
        memory.count -= left
        for job in gone[:left].tolist():
            allocator.remove(job)
        if view.capacity_version != memory.capacity_version:
            for pool in np.flatnonzero(view.online != memory.online).tolist():
                allocator.set_pool(pool, bool(view.online[pool]))
            memory.online = view.online.copy()
        memory.releases, memory.capacity_version = view.releases, view.capacity_version


def take_in(allocator: OneByOne, view: View, job: int) -> None:
    """Tell the allocator of a server that has been submitted."""
    asks, slo, tiers = view.columns.asks, view.slo_of(job), view.cluster.tiers
    assert tiers is not None
    cores, mb = int(asks[CORES, job]), int(asks[MEMORY, job])
    forbidden = np.zeros(len(tiers.names), np.bool_)
    floor, ceiling, group, level = 0, NO_CEILING, NOWHERE, NOWHERE
    if slo is not None:
        forbidden[[tiers.names.index(name) for name in slo.forbidden]] = True
        floor, ceiling = slo.floor_mb, scaled_ceiling(slo.ceiling_mb, tiers.cost_scale)
        if slo.spread:
            group, level = slo.group, view.cluster.levels.index(slo.spread)
    allocator.take_in(cores, mb, floor, ceiling, forbidden, group, level)


def place_in(supply: Supply, now: Allocation, lease: Lease) -> None:
    """Note in ``now`` where a running server is: in the cluster of its compute pool, with its MB by place."""
    compute = int(lease.rows[0, FIRST])
    cluster = int(np.flatnonzero(supply.member[supply.first[:-1]] == compute)[0])
    pools = supply.pools(cluster).tolist()
    now.cluster[lease.job] = cluster
    now.mb[lease.job, 0] = lease.rows[0, LOCAL_MB]
    for lender, mb in lease.borrowed[:, [LENDER, LOAN_MB]].tolist():
        now.mb[lease.job, pools.index(lender)] += mb
