"""Where a job with pooled devices goes by a rule, on what is free now; and when time alone gives it a place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from unrack.cluster.pools.pool import Pace, no_devices
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.devices.columns import FREE, GROUP, KIND, POOL, SHARE, DeviceColumns, make_columns
from unrack.ledger.devices.state import members
from unrack.ledger.lease import NO_LOANS, Lease, Share
from unrack.policy.discipline.walk import CLOSED
from unrack.policy.placement.claiming import Claiming, Taking, claiming, ways
from unrack.policy.pools.lookahead_kernel import Ahead, pass_over
from unrack.policy.pools.opening_kernel import closed_until, opening
from unrack.policy.pools.place_kernel import (
    FIRST_DEVICE,
    HARMFUL,
    NO_CORES,
    NO_DEVICES,
    RANDOM_FIT,
    PoolAnswer,
    PoolRule,
    place,
)
from unrack.reasons import Code, Reason
from unrack.sealed import sealed, sealed_columns
from unrack.units import NEVER_US, SECOND_US
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY, TASKS

RULES = {rule.name.lower().replace("_", "-"): int(rule) for rule in PoolRule}
"""Names of the placement rules."""
BY_LOAD = "disaggregation-aware"
"""One of two of them, by the load."""
NAMES = {int(rule): name for name, rule in RULES.items()}
TEXT, AUTHORS = READINGS = ("text", "authors")
"""How the papers' algorithms are read: as they are written, or as the authors' program has them."""
NO_OTHERS: Ints = np.zeros(0, np.int64)
NO_PACE = Pace(np.zeros((0, 0), np.int64), np.ones((1, 2, 2)), np.zeros((1, 0), np.bool_), np.zeros(1, np.bool_))


@dataclass(slots=True)
class PoolNotes:
    """Which waiting jobs ask the same, and what depends on the cluster and the rule alone.

    It grows with the jobs: of those that are not submitted yet nothing is known, and nothing depends on them.
    """

    answer: PoolAnswer
    draws: np.random.Generator
    plain: DeviceColumns  # columns without devices, for a cluster without pools
    loads: dict[str, tuple[int, int, int]]  # of the disaggregation-aware rule: quantity → kind, row, amount installed
    authors: bool  # as in `place`
    shapes: dict[bytes, int] = field(default_factory=dict)  # what is asked → a number that jobs share that ask the same
    rule: int = 0  # the one that is in force
    refused: int = 0  # why the job that was asked about last has no place; 0: that is not known
    patient: int = -1  # a job with an own deadline that does not count just now; -1: none
    late: bool = False  # whether an own deadline may have kept the job that was asked about last from a place

    def shape(self, view: View, job: int) -> int:
        """The shape of a job, by what it is to be given now: a job that runs again may be given more."""
        state = view.columns
        asked = state.asks[:ESTIMATE, job].tobytes()
        if state.devices is not None:
            c = state.devices.columns
            asked += c.wants[:, :, job].tobytes() + c.model[:, job].tobytes()
        if state.claimed is not None:
            asked += state.claimed.asked(job).tobytes()
        if view.cluster.places.windows:  # how long a job runs decides where it may
            asked += state.asks[ESTIMATE, job].tobytes()
        return self.shapes.setdefault(asked, len(self.shapes))


class PoolPlacement:
    """A rule for pools; see :class:`unrack.policy.pools.pool_policy.Pooled`."""

    rule: str
    low: float
    high: float
    bandwidth: str
    capacity: str
    seed: int
    reading: str

    @property
    def authors(self) -> bool:
        """Whether the algorithms are read as the authors' program has them."""
        return self.reading == AUTHORS

    def scratch(self, view: View) -> dict[str, Any]:
        """The fields of the notes that depend on the cluster and the policy alone."""
        devices, nodes = view.cluster.devices, view.free.shape[1]
        kinds, pools = len(devices.kinds), len(devices.pools)
        room = FIRST_DEVICE + max((pool.compose for pool in devices.pools), default=1)
        return {
            "answer": PoolAnswer(*(np.empty(n, np.int64) for n in ((kinds, nodes), (kinds, pools), (kinds, room), 1))),
            "draws": np.random.Generator(np.random.PCG64([self.seed, view.version] if view.version else self.seed)),
            "plain": sealed_columns(make_columns(no_devices(nodes), np.zeros((0, 0, 0), np.int64), NO_PACE)),
            "loads": self._loads(view),
            "rule": RULES.get(self.rule, -1),
            "authors": self.authors,
        }

    def rule_now(self, view: View, memory: PoolNotes) -> int:
        """The rule for this round: of the disaggregation-aware policy, by the loads of bandwidth and capacity."""
        if self.rule != BY_LOAD:
            return memory.rule
        bandwidth, capacity = self.load(view, memory, self.bandwidth), self.load(view, memory, self.capacity)
        relaxed = bandwidth <= self.low and capacity <= self.low
        fast = bandwidth >= self.high and (capacity < self.high or (capacity == self.high and not self.authors))
        return int(PoolRule.MAX_COMPOSITION if relaxed or fast else PoolRule.MIN_FRAGMENTATION)

    def load(self, view: View, memory: PoolNotes, quantity: str) -> float:
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

    def ahead(self, memory: PoolNotes) -> Ahead | None:
        """What look-ahead knows, for kernels."""
        return None

    def pass_over(self, view: View, memory: PoolNotes) -> Callable[..., int]:
        """A pass over the queue by this rule, as of :class:`unrack.policy.placement.contract.Placement`."""
        columns, total = self.columns(view, memory).kernel, view.columns.total
        rule = memory.rule, memory.authors, self.ahead(memory), memory.answer
        return partial(pass_over, columns, total, view.deadline_us, *rule)

    def found(self, view: View, memory: PoolNotes, job: int, node: int) -> Lease:
        """The lease of a job of one task that has its place in ``memory.answer``."""
        shares, (_, cores, mb, _) = self.shares(view, memory, job, node), view.columns.asks[:, job].tolist()
        return Lease(job, np.array([[node, 1, 1, cores, mb]], np.int64), NO_LOANS, shares or ())

    def find(self, view: View, memory: PoolNotes, job: int, rule: int, now: int) -> Lease | int:
        """A lease for a job; below 0: why there is none.

        A gang is placed task by task. One that has no place though nothing runs would wait forever for one where it is
        not late: its deadline is given up.
        """
        state = view.columns
        tasks, cores, mb, _ = state.asks[:, job].tolist()
        if tasks == 1:
            columns = self.columns(view, memory)
            for claims in ways(view, job):
                free = state.free if claims is None else claims.narrowed(state.free)
                node, shares = self.spot(view, memory, job, rule, now, columns, free, claims)
                if node >= 0:
                    break
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
        if isinstance(found, int) and found != NO_CORES:
            return HARMFUL  # another deadline would have led its first tasks elsewhere
        return found

    def _gang(self, view: View, memory: PoolNotes, job: int, rule: int, now: int) -> Lease | int:
        found: Lease | int = NO_CORES
        for claims in ways(view, job):
            found = self._gang_within(view, memory, job, rule, now, claims)
            if not isinstance(found, int):
                break
        return found

    def _gang_within(
        self, view: View, memory: PoolNotes, job: int, rule: int, now: int, claims: Claiming | None
    ) -> Lease | int:
        tasks, cores, mb = view.asks[[TASKS, CORES, MEMORY], job].tolist()
        nodes, left, taking = list[int](), view.columns.free.copy(), Taking(self, view, memory, job, rule, now, claims)
        free = sealed(left)
        while len(nodes) < tasks:
            node, shares = taking.spot(free if claims is None else claims.narrowed(left))
            if node < 0:
                return node
            nodes.append(node)
            left[:, node] -= cores, mb
            taking.hold(node, shares)
        at, count = np.unique(nodes, return_counts=True)
        lease = Lease.on(job, at.tolist(), count.tolist(), (count * cores).tolist(), (count * mb).tolist())
        lease = lease._replace(shares=tuple(taking.shares))
        return lease if claims is None else claims.with_claims(lease)

    def node(
        self, view: View, memory: PoolNotes, job: int, rule: int, now: int, columns: DeviceColumns, free: Ints
    ) -> int:
        """The node for one task, with ``memory.answer`` filled; below 0: why there is none."""
        state = view.columns
        if rule == RANDOM_FIT and int(state.asks[CORES, job]) > int(free[0].max(initial=0)):
            return NO_CORES  # without drawing
        draw, draw2 = memory.draws.random(2) if rule == RANDOM_FIT else (0.0, 0.0)
        deadline_us = view.deadline_us
        if job == memory.patient:
            deadline_us = np.where(np.arange(len(deadline_us)) == job, -1, deadline_us)
            deadline_us.flags.writeable = False  # as that of the view: one kernel for both
        node = place(
            columns.kernel, state.asks, free, state.total, deadline_us, job, rule, now, draw, draw2, memory.answer,
            memory.authors,
        )  # fmt: skip
        memory.late = memory.late or memory.authors or bool(memory.answer.earliest[0] < NEVER_US)
        return node

    def spot(
        self, view: View, memory: PoolNotes, job: int, rule: int, now: int, columns: DeviceColumns, free: Ints,
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

    def _reaching(self, c: DeviceColumns, job: int, claims: Claiming, nodes: int) -> Bools:
        """bool[nodes]: where the claims of one device after the other are free, of every kind that a task asks for."""
        found = np.ones(nodes, np.bool_)
        for kind in np.flatnonzero(c.needs[:, job]).tolist():
            may = (c.device[GROUP] == FREE) | (c.pool[SHARE, c.device[POOL]] > 1)
            devices = np.flatnonzero(may & (c.device[KIND] == kind))
            wanted = max(1, int(c.wants[kind, c.whole[kind], job])) if c.whole[kind] >= 0 else 1
            found &= claims.reaching(np.arange(nodes), devices, wanted)
        return found

    def shares(
        self, view: View, memory: PoolNotes, job: int, node: int, of: DeviceColumns | None = None,
        claims: Claiming | None = None,
    ) -> tuple[Share, ...] | None:  # fmt: skip
        """What ``memory.answer`` says, as shares; ``None``: what they make the job claim is not free."""
        devices, c = view.columns.devices, of or self.columns(view, memory)
        if devices is None or not devices.asks(job):
            return ()
        shares: list[Share] = []
        for kind, names in enumerate(devices.devices.quantities):
            if not c.needs[kind, job]:
                continue
            leader, size, parts, *new = memory.answer.rows[kind].tolist()
            amounts, new = c.wants[kind, : len(names), job].tolist(), new[:size]
            chosen = members(c, leader) if leader >= 0 else tuple(new)
            if claims is not None:
                others = NO_OTHERS if leader >= 0 else np.flatnonzero(like_free(c, new))
                near = claims.nearest(node, shares, chosen, others)
                if near is None:
                    return None
                chosen = near
            shares.append(Share(node, chosen, tuple(amounts), parts))
        return tuple(shares)

    def opens_us(self, view: View, memory: PoolNotes, jobs: Ints, rule: int, now: int, free: Ints | None = None) -> int:
        """The first moment after ``now`` at which one of the jobs, of one task each, has a place.

        ``free`` : int64[2, nodes], cores and MB that a task may count on; default: what is free.
        """
        state = view.columns
        late = np.array([self.late_from_us(view, memory, job) for job in jobs.tolist()], np.int64)
        return opening(
            self.columns(view, memory).kernel, state.asks, state.free if free is None else free, state.total,
            view.deadline_us, jobs, late, rule, now, memory.answer, memory.authors,
        )  # fmt: skip

    def refusal(self, memory: PoolNotes) -> tuple[int, int]:
        """As of :meth:`unrack.policy.placement.contract.Placement.refusal`, by a rule for which deadlines count."""
        return -memory.refused or CLOSED, int(memory.answer.earliest[0])

    def late_from_us(self, view: View, memory: PoolNotes, job: int) -> int:
        """From when on the deadline of a job counts no more, µs; NEVER_US: it always does."""
        deadline = int(view.deadline_us[job])
        return next_second(deadline) if self.authors and deadline >= 0 else NEVER_US

    def freest(self, view: View, memory: PoolNotes, jobs: list[int], now: int) -> list[int]:
        """Of jobs that ask the same and run equally long, those that time alone helps first.

        The first and the last by deadline; of gangs one for each deadline, as their tasks stand in each other's way.
        """
        ends: dict[tuple[int, int, bool, int], tuple[tuple[int, int], tuple[int, int]]] = {}
        for job in jobs:
            due, us = int(view.deadline_us[job]), int(view.asks[ESTIMATE, job])
            own = NEVER_US if due < 0 else due, job
            counts = self.late_from_us(view, memory, job) > now
            alike = memory.shape(view, job), us, counts, due if view.asks[TASKS, job] > 1 else -1
            first, last = ends.get(alike, (own, own))
            ends[alike] = min(first, own), max(last, own)
        return sorted({job for both in ends.values() for _, job in both})

    def gang_moments(self, view: View, memory: PoolNotes, job: int, now: int) -> list[int]:
        """When compositions open to one or more tasks of a gang, and when its own deadline counts no more."""
        columns, tasks = self.columns(view, memory), int(view.asks[TASKS, job])
        tasks = min(tasks, columns.speeds.shape[2])
        moments = np.empty(columns.device.shape[1] * tasks, np.int64)
        protected = self.rule == "lookahead"
        found = closed_until(columns.kernel, view.deadline_us, job, tasks, now, protected, moments)
        opened: list[int] = moments[:found].tolist()
        if self.authors:
            opened = [next_second(moment - 1) for moment in opened]
        late = self.late_from_us(view, memory, job)
        return [late, *opened] if late < NEVER_US else opened

    def why(self, view: View, memory: PoolNotes, job: int, now: int, free: Ints | None = None) -> Reason:
        """No cores, no device, or only compositions on which a deadline would be missed; ``free`` as of opens_us."""
        free = view.columns.free if free is None else free
        if (claims := claiming(view, job)) is not None:
            lacks = claims.lacks()
            if lacks is not None:
                return lacks
            free = claims.narrowed(free)
        rule, columns = self.rule_now(view, memory), self.columns(view, memory)
        if rule == RANDOM_FIT:  # asking must not draw: it has a place or it has none
            rule = int(PoolRule.FIRST_FIT)
        found = self.node(view, memory, job, rule, now, columns, free)
        if found >= 0 and claims is not None:
            shares = self.shares(view, memory, job, found, columns) or ()
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

    def columns(self, view: View, memory: PoolNotes) -> DeviceColumns:
        """Devices as kernels take them."""
        devices = view.columns.devices
        return memory.plain if devices is None else devices.columns


def next_second(us: int) -> int:
    """The first whole second after a moment, µs."""
    return (us // SECOND_US + 1) * SECOND_US


def like_free(c: DeviceColumns, devices: list[int]) -> Bools:
    """bool[devices]: which others are free and of the pool of these."""
    found: Bools = (c.device[GROUP] == FREE) & (c.device[POOL] == c.device[POOL, devices[0]])
    found[devices] = False
    return found
