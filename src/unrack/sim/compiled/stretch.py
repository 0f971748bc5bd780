"""Stretches of a run that the compiled loop can do by itself: when there is one, and the way in and out of it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

import numpy as np

from unrack.events import BOOKED, FINISH, LATE_FINISH
from unrack.kernels.arrays import Ints
from unrack.ledger.claims import Components
from unrack.ledger.copies.seen import Seen
from unrack.ledger.leases import Extra
from unrack.ledger.nodes import whole_summary
from unrack.policy.discipline.skyline.columns import KEPT, more_room
from unrack.policy.orders import ORDERS, Order, is_fixed
from unrack.resources.places import NO_CLAIMS
from unrack.sealed import sealed
from unrack.sim.compiled import columns as at
from unrack.sim.compiled.columns import Claims, Ledger, RunConstants, World
from unrack.sim.compiled.rounds import run_rounds
from unrack.units import NEVER_US

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel
    from unrack.view import View


ROUNDS = 1024
"""Rounds between two looks at whether the user wants to stop."""
TOLD = 4096
"""Submissions between two calls of ``progress``."""
LOG = 16_384
"""Attempts that the loop keeps before they go to the recorder."""
STATE = {
    "queue_start": at.QUEUE_START, "queue_end": at.QUEUE_END, "known": at.KNOWN, "free_cores": at.FREE_CORES,
    "running_count": at.RUNNING_COUNT, "pool_used": at.POOL_USED, "pool_dead": at.POOL_DEAD, "version": at.VERSION,
    "releases": at.RELEASES, "unforeseen": at.UNFORESEEN,
}  # fmt: skip
"""Numbers of the ledger, and their places among the marks."""
OWN_RANKS = (BOOKED, FINISH, LATE_FINISH)
_NONE = np.zeros(0, np.int64)
NO_CLAIMS_HELD = Claims(_NONE, _NONE.reshape(2, 0), NO_CLAIMS.copy(), _NONE.reshape(2, 0), np.zeros(0, np.uint8))
"""Where there is nothing to claim."""


class AllJobs(NamedTuple):
    """What orders look at, of all jobs of a run: columns of a view."""

    asks: Ints
    submit_us: Ints
    priority: Ints
    deadline_us: Ints
    columns: Seen
    components: Components


def ranks(order: str | Order | None, kernel: Kernel) -> Ints:
    """int64[jobs]: where each job stands among all in a fixed order; no jobs without an order."""
    if not isinstance(order, str):
        return np.empty(0, np.int64)
    jobs, count = kernel.jobs, len(kernel.jobs)
    state = kernel.core.state
    view = AllJobs(state.asks, jobs.submit_us, jobs.priority, jobs.deadline_us, state.seen, state.components)
    rank: Ints = np.empty(count, np.int64)
    rank[ORDERS[order].order(cast("View", view), np.arange(count), 0)] = np.arange(count)
    return rank


class Stretch:
    """The compiled loop beside a kernel's own: both work on the same ledger, by turns.

    It takes over where the policy is a list scheduler in a built-in order that time alone does not change, with a
    built-in placement on nodes, and nothing else is involved: no pools, loans, changing speeds or kept work, no hook
    that looks at rounds or handles events in place of the core. It hands back at the next event that is not an arrival
    or an end.
    """

    rounds: ClassVar[Any] = staticmethod(run_rounds)

    def __init__(self, kernel: Kernel, fixed: dict[str, Ints]) -> None:
        core, jobs = kernel.core, kernel.jobs
        self.kernel, self.fixed = kernel, fixed
        self.policy: Any = core.policy  # of the kind that it serves
        orders = self.orders()
        self.rank = ranks(orders[0], kernel), ranks(orders[1], kernel)
        self.ranked = np.empty_like(self.rank[0]), np.empty_like(self.rank[1])
        self.terms = self.terms_of(str(kernel.ties))
        self.submit_us, self.work_us = jobs.submit_us, kernel.work_us
        self.refused = core.refused()
        self.started_us = np.zeros(len(jobs), np.int64)
        self.ended = np.empty((3, LOG), np.int64)
        self.ended_count = np.empty((2, LOG), np.int64)
        self.ended_rows, self.ended_claims = np.empty((4 * LOG, 5), np.int64), np.empty((LOG, 2), np.int64)

    @staticmethod
    def serves(policy: Any) -> bool:
        """Whether the loop can do what a policy of its kind asks."""
        return policy.wait and is_fixed(policy.backfill_order or policy.order)

    # --- what is the policy's -----------------------------------------------------------------------------------

    def orders(self) -> tuple[str | Order | None, str | Order | None]:
        """The order of the queue, and that behind the head; ``None``: that of the queue itself."""
        first, second = self.policy.order, self.policy.backfill_order
        return (None, None) if first == "fcfs" and second is None else (first, second)

    def terms_of(self, ties: str) -> Any:
        """What does not change."""
        policy = self.policy
        return RunConstants(
            rule=policy.pass_rule,
            settles=policy.settles,
            together=ties == "together",
            submit_first=ties == "submit-first",
            first_unequal=self.kernel.core.state.first_unequal,
            by_arrival=policy.order == "fcfs",
        )

    def ready(self) -> bool:
        """Whether the policy's memory is as the loop can use it, whichever jobs come."""
        return True

    def take_notes(self, mark: Ints, memory: Any) -> None:
        """Let the marks say what the policy has noted."""
        mark[at.SEEN_RELEASES], mark[at.LAST_JOB] = memory.releases, memory.last_job
        mark[at.COMPLETE] = memory.complete

    def give_notes(self, mark: Ints, memory: Any) -> None:
        """Let the policy have noted what the marks say."""
        memory.releases, memory.last_job = int(mark[at.SEEN_RELEASES]), int(mark[at.LAST_JOB])
        memory.complete = bool(mark[at.COMPLETE])

    # --- when, and how ------------------------------------------------------------------------------------------

    def worthwhile(self, time: int, submitted: int) -> bool:
        """Whether enough happens from ``time`` on before something that is not for the compiled loop.

        To go in and out takes as long as some events for each running job.
        """
        kernel = self.kernel
        if not self.ready():
            return False
        beyond = any(extra.shares or len(extra.borrowed) for extra in kernel.core.state.extra.values())
        if kernel.kept_work or beyond or time == NEVER_US:
            return False
        until = self.until_us()
        if until == NEVER_US:
            return True
        coming = int(np.searchsorted(self.submit_us, until)) - submitted
        return time < until and coming > len(kernel.running)

    def until_us(self) -> int:
        """When the next event comes that is not an end or an arrival."""
        return min((entry[0] for entry in self.kernel.heap if entry[1] not in OWN_RANKS), default=NEVER_US)

    def run(
        self, submitted: int, now: int, wake: int, progress: Callable[[int, int], None] | None
    ) -> tuple[int, int, int]:
        """Let things happen until the next event that is not the loop's own.

        Returns
        -------
        int, int, int
            How many jobs have been submitted, the time, and when the policy wants to be asked at the latest (µs).
        """
        until, count = self.until_us(), len(self.submit_us)
        mark, ends = self.enter(submitted, now, wake)
        world, passing = self.world(mark, ends)
        while True:
            before = int(mark[at.NEXT])
            why = self.rounds(world, passing, self.terms, until, ROUNDS)
            self.follow(mark, before)
            for told in range(before // TOLD + 1, int(mark[at.NEXT]) // TOLD + 1):
                if progress is not None:
                    progress(told * TOLD, count)
            if why in (at.OVER, at.HELD):
                break
            if why == at.LOG_FULL:
                self.keep_log(mark)
                if mark[at.NEEDED] > min(len(self.ended_rows), len(self.ended_claims)):
                    room = 2 * int(mark[at.NEEDED])
                    self.ended_rows, self.ended_claims = np.empty((room, 5), np.int64), np.empty((room, 2), np.int64)
            elif why == at.NO_ROOM:
                ends = self.make_room(mark, ends)
            if why in (at.LOG_FULL, at.NO_ROOM):
                world, passing = self.world(mark, ends)
        self.leave(mark, ends)
        return int(mark[at.NEXT]), int(mark[at.NOW]), int(mark[at.WAKE])

    # --- the way in ---------------------------------------------------------------------------------------------

    def enter(self, submitted: int, now: int, wake: int) -> tuple[Ints, Ints]:
        """The marks and the planned ends, as the kernel has left them."""
        kernel, state, memory = self.kernel, self.kernel.core.state, self.kernel.core.memory
        for job, (start, _) in kernel.running.items():
            self.started_us[job] = start
        self.most = whole_summary(state.free)
        waiting = state.queue[state.queue_start : state.queue_end]
        for i in range(2):
            if len(self.rank[i]):
                self.ranked[i][: len(waiting)] = waiting[np.argsort(self.rank[i][waiting])]
        mark = np.zeros(at.MARKS, np.int64)
        for name, place in STATE.items():
            mark[place] = getattr(state, name)
        mark[at.NOW], mark[at.NEXT], mark[at.SEQUENCE] = now, submitted, kernel.sequence
        mark[at.WAKE], mark[at.PLANNED] = wake, -1
        self.take_notes(mark, memory)
        if state.claimed is not None:
            mark[at.CLAIMS_USED], mark[at.ASKING] = state.claimed.used, state.claimed.asking
        own = sorted(entry for entry in kernel.heap if entry[1] in OWN_RANKS)
        kernel.heap[:] = [entry for entry in kernel.heap if entry[1] not in OWN_RANKS]
        ends = np.empty((4, max(256, 2 * len(own))), np.int64)
        mark[at.ENDS] = len(own)
        for i, (time, rank, sequence, job, version) in enumerate(own):  # sorted is a heap
            about = version if version == at.ROUND_ONLY else at.VALID if kernel.version[job] == version else at.STALE
            ends[:, i] = time, (rank << at.RANK_SHIFT) + sequence, job, about
        return mark, ends

    def world(self, mark: Ints, ends: Ints) -> tuple[World, Any]:
        """The columns as they are now: the ledger replaces one when it is full."""
        state = self.kernel.core.state
        ledger = Ledger(
            state.asks, state.free, state.total, self.most, state.status, state.queue, state.running, state.pool,
            state.lease_at,
        )  # fmt: skip
        own = {name: sealed(getattr(ledger, name)) for name in ("asks", "running", "pool", "lease_at")}
        own |= {"set_of": sealed(state.set_of), "now": state.free, "most": self.most}
        claims = NO_CLAIMS_HELD
        if state.claimed is not None:
            claimed = state.claimed
            asks = np.frombuffer(claimed.asks, np.uint8)
            claims = Claims(claimed.free, claimed.holders, claimed.rows, claimed.held_at, asks)
        own |= {
            "free_places": sealed(claims.free),
            "claimed": sealed(claims.rows),
            "claimed_at": sealed(claims.held_at),
        }
        passing = self.kernel.core.memory.columns._replace(**self.fixed, **own).kernel
        world = World(
            ledger, claims, self.submit_us, self.work_us, self.refused, self.started_us, ends, self.ended,
            self.ended_rows, self.ended_claims, self.ended_count, self.rank, self.ranked, mark,
        )  # fmt: skip
        return world, passing

    # --- in between ---------------------------------------------------------------------------------------------

    def follow(self, mark: Ints, before: int) -> None:
        """Bring the ledger's and the policy's numbers up to date, and say why jobs were rejected."""
        core = self.kernel.core
        for name, place in STATE.items():
            setattr(core.state, name, int(mark[place]))
        if core.state.claimed is not None:
            core.state.claimed.used, core.state.claimed.asking = int(mark[at.CLAIMS_USED]), int(mark[at.ASKING])
        self.give_notes(mark, core.memory)
        for job in np.flatnonzero(self.refused[before : mark[at.NEXT]]).tolist():
            core.reasons[before + job] = core.admission.reason_of(before + job, core.store)

    def keep_log(self, mark: Ints) -> None:
        """Give the recorder the attempts that have ended."""
        count = int(mark[at.ENDED])
        if count:
            rows, claims = self.ended_rows[: mark[at.ENDED_ROWS]], self.ended_claims[: mark[at.ENDED_CLAIMS]]
            self.kernel.recorder.finished(self.ended[:, :count], self.ended_count[:, :count], rows, claims)
            mark[at.ENDED] = mark[at.ENDED_ROWS] = mark[at.ENDED_CLAIMS] = 0

    def make_room(self, mark: Ints, ends: Ints) -> Ints:
        """Make room for a pass, as the loop says; returns the planned ends."""
        needed, state, memory = int(mark[at.NEEDED]), self.kernel.core.state, self.kernel.core.memory
        if needed < 0:
            waiting = int(mark[at.QUEUE_END] - mark[at.QUEUE_START])
            memory.replace(**more_room(memory.columns, waiting, int(mark[at.RUNNING_COUNT])))
            memory.columns.cursor[KEPT] = 0
            return ends
        state.make_room(needed, needed)
        if state.claimed is not None:
            state.claimed.make_room(needed)
            mark[at.CLAIMS_USED] = state.claimed.used
        if int(mark[at.ENDS]) + needed > ends.shape[1]:
            ends = np.concatenate([ends, np.empty((4, ends.shape[1] + needed), np.int64)], axis=1)
        for name, place in STATE.items():
            mark[place] = getattr(state, name)
        return ends

    # --- the way out --------------------------------------------------------------------------------------------

    def leave(self, mark: Ints, ends: Ints) -> None:
        """Leave everything as the kernel's own loop would have."""
        kernel, state = self.kernel, self.kernel.core.state
        self.keep_log(mark)
        kernel.sequence = int(mark[at.SEQUENCE])
        kernel.running.clear()
        state.extra.clear()
        if state.claimed is not None:
            jobs = state.running[1, : state.running_count]
            for job, first, count in np.stack([jobs, *state.claimed.held_at[:, jobs]], axis=1).tolist():
                if count:
                    state.extra[job] = Extra(claims=state.claimed.rows[first : first + count].copy())
        for job in state.running[1, : state.running_count].tolist():
            lease = state.lease(job)
            lease.rows.flags.writeable = False
            kernel.running[job] = (int(self.started_us[job]), lease)
        for i in range(int(mark[at.ENDS])):
            time, key, job, about = ends[[at.AT, at.KEY, at.JOB, at.ABOUT], i].tolist()
            rank = key >> at.RANK_SHIFT
            version = about if about == at.ROUND_ONLY else kernel.version[job] - (about == at.STALE)
            kernel.heap.append((time, rank, key - (rank << at.RANK_SHIFT), job, version))
        heapify(kernel.heap)
