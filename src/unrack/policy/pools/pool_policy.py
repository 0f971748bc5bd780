"""Scheduling on pooled devices: an order of the queue, and a rule for where a job and its devices go.

The queue is gone through once a round in its order; whoever has a place starts, nobody holds others up. Jobs that ask
alike are tried together: where one has no place, those like it that wait behind it are not tried. O(kinds of demand x
(devices + nodes)) a round, plus as much for every start.

References
----------
Call et al. 2022 ("Workload-aware placement"), Algorithms 1 and 2, equations 1 to 4; Call 2022 (thesis), Algorithms 3
and 4, equation 5.1. What differs: a composition in use whose bandwidth a model governs may be oversubscribed in MB/s
(the model says what that costs); quantities that are used up count as 1 in equation 2; a job that is not to be late is
one whose predicted end is at most its deadline.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.pools.pool import Pace, no_devices
from unrack.ledger.devices.columns import FREE, GROUP, KIND, POOL, SHARE, Columns, make_columns
from unrack.ledger.devices.reader import members
from unrack.ledger.devices.sharing import TAKEN
from unrack.ledger.lease import NO_LOANS, Lease, Share
from unrack.policy.contract import EVERYTHING, Ability, Decision, Estimates, Start, Traits
from unrack.policy.orders import reads_of
from unrack.policy.placement.claiming import Claiming, claiming
from unrack.policy.pools.opening_kernel import closed_until, opening
from unrack.policy.pools.place_kernel import (
    FIRST_DEVICE,
    LATE,
    LEADER,
    NO_CORES,
    NO_DEVICES,
    RANDOM_FIT,
    PoolRule,
    place,
)
from unrack.policy.pools.waiting_jobs import Queue
from unrack.reasons import Code, Reason
from unrack.sealed import sealed, sealed_columns
from unrack.units import NEVER_US, SECOND_US
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS

Ints = NDArray[np.int64]
RULES = {rule.name.lower().replace("_", "-"): int(rule) for rule in PoolRule}
"""Names of the placement rules."""
TEXT, AUTHORS = READINGS = ("text", "authors")
"""How the papers' algorithms are read: as they are written, or as the authors' program has them."""
NO_OTHERS: Ints = np.zeros(0, np.int64)
NO_PACE = Pace(np.zeros((0, 0), np.int64), np.ones((1, 2, 2)), np.zeros((1, 0), np.bool_), np.zeros(1, np.bool_))


@dataclass(frozen=True)
class Pooled:
    """Considers the queue in an order and starts every job that a rule finds a place for.

    Parameters
    ----------
    rule
        A name in ``RULES``, or ``"disaggregation-aware"``: max-composition or min-fragmentation, by load.
    order
        A name in ``ORDERS``.
    low, high
        Of the disaggregation-aware rule: max-composition where the loads of bandwidth and capacity are both at most
        ``low``, or bandwidth is at least ``high`` and capacity at most ``high`` (eq. 4).
    bandwidth, capacity
        Which quantities these are.
    estimates
        ``"requested"`` or ``"exact"`` run times.
    seed
        Of the random fit.
    label
        What reports call it.
    reading
        A name in ``READINGS``. ``"authors"``, for jobs of the class that a model is about beside others, differs from
        the text in this:

        * A job past its deadline has none: it may join others, which are protected as ever, and it gets as few devices
          as its demand needs.
        * The loads of eq. 4 are of running jobs, as they are when each job is tried; that of capacity has to be below
          ``high``.
        * A job that would join others is expected to run at the speed that they have without it, and under
          min-fragmentation for its base time.
        * Equation 2 divides whole numbers, where what is free of an oversubscribed composition is less than nothing;
          the cores count as 1.
        * Where a pool has fewer free devices than a composition should have, it composes none.
        * Time goes in whole seconds: it looks again at whole seconds, also at the next one after a start, and when a
          job is past its deadline. Run times are the model's (``whole_seconds``).
    """

    rule: str = "first-fit"
    order: str = "edf"
    low: float = 0.5
    high: float = 0.7
    bandwidth: str = "bandwidth_mb_s"
    capacity: str = "capacity_mb"
    estimates: Estimates = Estimates.REQUESTED
    seed: int = 0
    label: str = "pooled"
    reading: str = TEXT

    @cached_property
    def traits(self) -> Traits:
        """It places devices, one job a step."""
        does = frozenset({Ability.SEEDED} if self.rule == "random-fit" else ())
        return Traits(places=EVERYTHING, reads=reads_of(self.order), estimates=self.estimates, stepwise=True, does=does)

    @property
    def authors(self) -> bool:
        """Whether the algorithms are read as the authors' program has them."""
        return self.reading == AUTHORS

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    def seeded(self, seed: int) -> Pooled:
        """The same with the seed of the run; asked of random fit, which draws."""
        return replace(self, seed=seed)

    def begin(self, view: View) -> Queue:
        """Notes on a cluster as it is now; the jobs that wait are read in the first round."""
        return Queue(order=self.order, **self.scratch(view))

    def scratch(self, view: View) -> dict[str, Any]:
        """The fields of the notes that depend on the cluster and the policy alone."""
        devices, nodes = view.cluster.devices, view.free.shape[1]
        kinds, pools = len(devices.kinds), len(devices.pools)
        room = FIRST_DEVICE + max((pool.compose for pool in devices.pools), default=1)
        return {
            "at": np.empty((kinds, nodes), np.int64),
            "sizes": np.empty((kinds, pools), np.int64),
            "answer": np.empty((kinds, room), np.int64),
            "earliest": np.empty(1, np.int64),
            "draws": np.random.Generator(np.random.PCG64([self.seed, view.version] if view.version else self.seed)),
            "plain": sealed_columns(make_columns(no_devices(nodes), np.zeros((0, 0, 0), np.int64), NO_PACE)),
            "loads": self._loads(view),
            "authors": self.authors,
        }

    def decide(self, view: View, memory: Queue, now: int) -> tuple[list[Decision], Queue]:
        """Start the next job that has a place; asked again until there is none."""
        under_way = memory.going is not None and memory.going == (now, view.version)  # nothing but the start happened
        memory.going = None
        if not under_way:
            if not view.waiting:
                memory.closed.clear()
                return [], memory
            memory.read(view, now)
            memory.rule = self.rule_now(view, memory)
            memory.forget(view)
            memory.closed.clear()
            failed = memory.failed
            memory.heads = [(at[0][0], s, 0) for s, at in enumerate(memory.waiting) if at and s not in failed]
            heapify(memory.heads)
        elif self.authors:
            memory.rule = self.rule_now(view, memory)  # every start changes it
        heads, failed, waiting = memory.heads, memory.failed, memory.waiting
        most_free = int(np.maximum.reduce(view.columns.free[0], initial=0)) if heads else 0
        while heads:
            rank, shape, i = heappop(heads)
            listed = waiting[shape]
            job = listed[i][1]
            if shape in failed and not memory.may(view, shape, job):
                i = memory.after(view, shape, i + 1)
                if i < len(listed):
                    heappush(heads, (listed[i][0], shape, i))
                continue
            found: Lease | int = NO_CORES
            if memory.cores[shape] <= most_free:
                found = self.find(view, memory, job, memory.rule, now)
            if isinstance(found, int):
                if found <= LATE:
                    memory.closed.add(shape)
                failed[shape] = (found, int(view.columns.asks[ESTIMATE, job]), int(memory.earliest[0]))
                i = memory.after(view, shape, i + 1)
                if i < len(listed):
                    heappush(heads, (listed[i][0], shape, i))
                continue
            del listed[i]
            memory.known -= 1
            if i < len(listed):
                heappush(heads, (listed[i][0], shape, i))
            if failed and self._opens(view, memory, job):
                memory.try_again(rank)
            memory.going, memory.started_us = (now, view.version + 1), now
            return [Start(found, NAMES.get(memory.rule, self.rule))], memory
        return [], memory

    def rule_now(self, view: View, memory: Queue) -> int:
        """The rule for this round: of the disaggregation-aware policy, by the loads of bandwidth and capacity."""
        if self.rule != "disaggregation-aware":
            return RULES[self.rule]
        bandwidth, capacity = self.load(view, memory, self.bandwidth), self.load(view, memory, self.capacity)
        relaxed = bandwidth <= self.low and capacity <= self.low
        fast = bandwidth >= self.high and (capacity < self.high or (capacity == self.high and not self.authors))
        return int(PoolRule.MAX_COMPOSITION if relaxed or fast else PoolRule.MIN_FRAGMENTATION)

    def load(self, view: View, memory: Queue, quantity: str) -> float:
        """Demand over what is installed, of the first kind that has both quantities; by the authors of running jobs."""
        where = memory.loads.get(quantity)
        devices = view.columns.devices
        if where is None or devices is None:
            return 0.0
        kind, row, installed = where
        c = devices.columns
        if self.authors:
            in_use = (c.device[GROUP] == np.arange(c.device.shape[1])) & (c.device[KIND] == kind)
            return float(c.held[row, in_use].sum()) / installed
        return float(c.asked[kind, row]) / installed

    def _loads(self, view: View) -> dict[str, tuple[int, int, int]]:
        """Quantity → kind, its row, and how much is installed; of the first kind that has both quantities."""
        devices = view.cluster.devices
        for k, names in enumerate(devices.quantities):
            wanted = (self.bandwidth, self.capacity)
            if set(wanted) <= set(names):
                found = {name: devices.installed(devices.kinds[k], name) for name in wanted}
                return {name: (k, names.index(name), amount) for name, amount in found.items() if amount}
        return {}

    def find(self, view: View, memory: Queue, job: int, rule: int, now: int) -> Lease | int:
        """A lease for a job; below 0: why there is none.

        A gang is placed task by task. One that has no place though nothing runs would wait for ever for one where it is
        not late: its deadline is given up.
        """
        state = view.columns
        tasks, cores, mb, _ = state.asks[:, job].tolist()
        if tasks == 1:
            columns = self.columns(view, memory)
            claims = claiming(view, job)
            free = state.free if claims is None else claims.narrowed(state.free)
            node, shares = self.spot(view, memory, job, rule, now, columns, free, claims)
            if node < 0:
                return node
            row = np.array([[node, 1, 1, cores, mb]], np.int64)
            lease = Lease(job, row, NO_LOANS, shares)
            return lease if claims is None else claims.with_claims(lease)
        found = self._gang(view, memory, job, rule, now)
        if isinstance(found, int) and view.running_count == 0 and view.deadline_us[job] >= 0:
            memory.patient = job
            found = self._gang(view, memory, job, rule, now)
            memory.patient = -1
        if isinstance(found, int) and found != NO_CORES and not 0 <= rule <= RANDOM_FIT:
            memory.earliest[0] = 0  # another deadline would have led its first tasks elsewhere: try every gang like it
            return LATE
        return found

    def _gang(self, view: View, memory: Queue, job: int, rule: int, now: int) -> Lease | int:
        """A lease for a job of several tasks; below 0: why there is none."""
        tasks = int(view.asks[TASKS, job])
        state = view.columns
        cores, mb = int(view.asks[CORES, job]), int(view.asks[MEMORY, job])
        nodes: list[int] = []
        shares: list[Share] = []
        columns, free, left, draft = self.columns(view, memory), state.free, None, None
        claims = claiming(view, job)
        while len(nodes) < tasks:
            if claims is not None:
                free = claims.narrowed(state.free if left is None else left)
            node, of_task = self.spot(view, memory, job, rule, now, columns, free, claims)
            if node < 0:
                return node
            if left is None:  # the other tasks are placed on a draft, where this one holds its place
                left = state.free.copy()
                free = sealed(left)
                draft = None if state.devices is None else state.devices.draft(job, tasks)
            nodes.append(node)
            left[0, node] -= cores
            left[1, node] -= mb
            if claims is not None:
                claims.put(node, of_task)
            for share in of_task:
                assert draft is not None
                verdict = draft.try_share(share, now)
                assert verdict == TAKEN
                shares.append(share)
                columns = draft.columns
        at, count = np.unique(nodes, return_counts=True)
        lease = Lease.on(job, at.tolist(), count.tolist(), (count * cores).tolist(), (count * mb).tolist())
        lease = lease._replace(shares=tuple(shares))
        return lease if claims is None else claims.with_claims(lease)

    def node(self, view: View, memory: Queue, job: int, rule: int, now: int, columns: Columns, free: Ints) -> int:
        """The node for one task, with ``memory.answer`` filled; below 0: why there is none."""
        state = view.columns
        draw, draw2 = memory.draws.random(2) if rule == RANDOM_FIT else (0.0, 0.0)
        deadline_us = view.deadline_us
        if job == memory.patient:
            deadline_us = np.where(np.arange(len(deadline_us)) == job, -1, deadline_us)
            deadline_us.flags.writeable = False  # as that of the view: one kernel for both
        return place(
            columns, state.asks, free, state.total, deadline_us, job, rule,
            rule <= RANDOM_FIT, now, draw, draw2, memory.at, memory.sizes, memory.answer, memory.earliest,
            memory.authors,
        )  # fmt: skip

    def spot(
        self, view: View, memory: Queue, job: int, rule: int, now: int, columns: Columns, free: Ints,
        claims: Claiming | None,
    ) -> tuple[int, tuple[Share, ...]]:  # fmt: skip
        """The node for one task, and its devices; below 0: why there is none.

        Where devices make a job claim something, the rule says node and pool, and of the pool's free devices those are
        taken with which it claims least. Where that is not free, the rule is asked again without the node. What is not
        tried: another pool, or another composition in use, on the same node; and other places for the tasks before.
        """
        others = None
        while True:
            node = self.node(view, memory, job, rule, now, columns, free)
            shares = self.shares(view, memory, job, node, columns, claims) if node >= 0 else ()
            if shares is not None:
                return node, shares
            assert claims is not None
            if others is None:  # most nodes are ruled out at a look
                others = free.copy()
                others[0, ~self._reaching(columns, job, claims, free.shape[1])] = -1
            others[0, node] = -1
            free = sealed(others)

    def _reaching(self, c: Columns, job: int, claims: Claiming, nodes: int) -> NDArray[np.bool_]:
        """bool[nodes]: where the claims of one device after the other are free, of every kind that a task asks for."""
        found = np.ones(nodes, np.bool_)
        for kind in np.flatnonzero(c.needs[:, job]).tolist():
            may = (c.device[GROUP] == FREE) | (c.pool[SHARE, c.device[POOL]] > 1)
            devices = np.flatnonzero(may & (c.device[KIND] == kind))
            wanted = max(1, int(c.wants[kind, c.whole[kind], job])) if c.whole[kind] >= 0 else 1
            found &= claims.reaching(np.arange(nodes), devices, wanted)
        return found

    def shares(
        self, view: View, memory: Queue, job: int, node: int, c: Columns, claims: Claiming | None
    ) -> tuple[Share, ...] | None:
        """What ``memory.answer`` says, as shares; ``None``: what they make the job claim is not free."""
        devices = view.columns.devices
        if devices is None or not devices.asks(job):
            return ()
        shares: list[Share] = []
        for kind in np.flatnonzero(c.needs[:, job]).tolist():
            leader, size, parts = memory.answer[kind, :FIRST_DEVICE].tolist()
            amounts = c.wants[kind, : len(devices.devices.quantities[kind]), job].tolist()
            new = memory.answer[kind, FIRST_DEVICE : FIRST_DEVICE + size].tolist()
            chosen = members(c, leader) if leader >= 0 else tuple(new)
            if claims is not None:
                others = NO_OTHERS if leader >= 0 else np.flatnonzero(like_free(c, new))
                near = claims.nearest(node, shares, chosen, others)
                if near is None:
                    return None
                chosen = near
            shares.append(Share(node, chosen, tuple(amounts), parts))
        return tuple(shares)

    def next_round(self, view: View, memory: Queue, now: int) -> int | None:
        """The first moment at which a job that was refused because of deadlines has a place, if nothing happens.

        A job of several tasks is looked at again when a composition opens that was closed to some of them, if then
        there are places for all.
        """
        opens = self._opens_at(view, memory, now)
        if self.authors and memory.started_us == now and view.waiting:
            return min(opens, next_second(now))
        return opens if opens < NEVER_US else None

    def _opens_at(self, view: View, memory: Queue, now: int) -> int:
        if not memory.closed:
            return NEVER_US
        state = view.releases, view.running_count, memory.rule  # as long as they stay, nobody's answer changes
        if memory.looked != state or memory.opens <= now:
            memory.looked, memory.opens = state, NEVER_US
            memory.seen_to.clear()
        alone: list[int] = []
        for shape in sorted(memory.closed):
            jobs = memory.freest(view, shape) if memory.waiting[shape] else []
            new = [job for job in jobs if job not in memory.seen_to]
            memory.seen_to.update(new)
            if new and view.asks[TASKS, new[0]] == 1:
                alone += new
            elif new:
                memory.opens = self.gangs_open_us(view, memory, new, now, memory.opens)
        if alone:
            first = self.soonest(view, memory, alone, memory.rule, now)
            memory.opens = min(memory.opens, first)
        return memory.opens

    def opens_us(self, view: View, memory: Queue, jobs: Ints, rule: int, now: int, free: Ints | None = None) -> int:
        """The first moment after ``now`` at which one of the jobs, of one task each, has a place.

        ``free`` : int64[2, nodes], cores and MB that a task may count on; default: what is free.
        """
        state = view.columns
        return opening(
            self.columns(view, memory), state.asks, state.free if free is None else free, state.total,
            view.deadline_us, jobs, rule, now, memory.at, memory.sizes, memory.authors,
        )  # fmt: skip

    def soonest(self, view: View, memory: Queue, jobs: list[int], rule: int, now: int) -> int:
        """As :meth:`opens_us`, where some may ask for something of resources."""
        claims = {job: found for job in jobs if (found := claiming(view, job)) is not None}
        others = [job for job in jobs if job not in claims]
        first = self.opens_us(view, memory, np.array(others, np.int64), rule, now) if others else NEVER_US
        for job, claim in claims.items():
            free = claim.narrowed(view.columns.free)
            first = min(first, self.opens_us(view, memory, np.array([job]), rule, now, free))
        return first

    def gangs_open_us(self, view: View, memory: Queue, jobs: list[int], now: int, before: int) -> int:
        """The first moment at which one of several gangs has a place; ``before`` if there is none before it."""
        tried = set()
        for job in jobs:
            like = int(view.deadline_us[job]), int(view.asks[ESTIMATE, job])
            if like in tried:
                continue
            tried.add(like)
            for moment in sorted(set(self.gang_moments(view, memory, job, now))):
                if now < moment < before and not isinstance(self.find(view, memory, job, memory.rule, moment), int):
                    before = moment
        return before

    def gang_moments(self, view: View, memory: Queue, job: int, now: int) -> list[int]:
        """When compositions open to one or more tasks of a gang, and when its own deadline counts no more."""
        columns, tasks = self.columns(view, memory), int(view.asks[TASKS, job])
        tasks = min(tasks, columns.speeds.shape[2])
        moments = np.empty(columns.device.shape[1] * tasks, np.int64)
        protected = self.rule == "lookahead"
        found = closed_until(columns, view.deadline_us, job, tasks, now, protected, moments)
        opened: list[int] = moments[:found].tolist()
        if not self.authors:
            return opened
        deadline = int(view.deadline_us[job])
        late = [next_second(deadline)] if deadline >= 0 else []
        return [*late, *(next_second(moment - 1) for moment in opened)]

    def why(self, view: View, memory: Queue, job: int, now: int, free: Ints | None = None) -> Reason:
        """No cores, no device, or only compositions on which a deadline would be missed; ``free`` as of opens_us."""
        free = view.columns.free if free is None else free
        if (claims := claiming(view, job)) is not None:
            lacks = claims.lacks()
            if lacks is not None:
                return lacks
            free = claims.narrowed(free)
        rule, columns = self.rule_now(view, memory), self.columns(view, memory)
        rule = (
            int(PoolRule.FIRST_FIT) if rule == RANDOM_FIT else rule
        )  # asking must not draw: it has a place or it has none
        found = self.node(view, memory, job, rule, now, columns, free)
        if found >= 0 and claims is not None:
            shares = self.shares(view, memory, job, found, columns, None) or ()
            place, _ = self.spot(view, memory, job, rule, now, columns, free, claims)
            if place < 0 and (full := claims.short(found, shares)) is not None:
                return full
        if found >= 0 and int(view.asks[TASKS, job]) > 1:
            return Reason(Code.NO_ROOM, "places for all its tasks at once", int(view.asks[TASKS, job]))
        cores = int(view.asks[CORES, job])
        if found == NO_CORES:
            return Reason(Code.NO_ROOM, "cores on one node", cores, int(free[0].max(initial=0)))
        if found < 0:
            needed = np.flatnonzero(columns.needs[:, job])
            kinds = [view.cluster.devices.kinds[k] for k in needed]
            words = " and ".join(kinds)
            late = "" if found == NO_DEVICES else ", and on those in use a deadline would be missed"
            return Reason(Code.NO_ROOM, f"no free {words} in reach of a node with {cores} free cores{late}")
        return Reason(Code.NOT_YET)

    def _opens(self, view: View, memory: Queue, job: int) -> bool:
        """Whether starting a job makes a composition that others may join."""
        devices = view.columns.devices
        return devices is not None and bool((memory.answer[devices.columns.needs[:, job], LEADER] < 0).any())

    def columns(self, view: View, memory: Queue) -> Columns:
        """Devices as kernels take them."""
        devices = view.columns.devices
        return memory.plain if devices is None else devices.columns


def next_second(us: int) -> int:
    """The first whole second after a moment, µs."""
    return (us // SECOND_US + 1) * SECOND_US


def like_free(c: Columns, devices: list[int]) -> NDArray[np.bool_]:
    """bool[devices]: which others are free and of the pool of these."""
    found: NDArray[np.bool_] = (c.device[GROUP] == FREE) & (c.device[POOL] == c.device[POOL, devices[0]])
    found[devices] = False
    return found


NAMES = {int(rule): name for name, rule in RULES.items()}
