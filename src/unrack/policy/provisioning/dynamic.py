"""Any policy that lends, with memory that follows use: the Monitor, Decider and Actuator of dynamic provisioning.

A job starts with what it asks (or less). From then on it gives back what it is not seen to use, and gets more when it
needs more: local memory before that of others, by the lender rule in force. If there is none, a job is stopped and
queued again; a job that was stopped a few times runs with the most that it was ever seen to need, and keeps it.

References
----------
Vieira Zacarias 2023, chapter 8. The guard band, ``keep``, ``pull``, predicted use and the choice of the job that is
stopped are not there.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import PolicyError
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import OF_JOB, grown
from unrack.ledger.lease import LOAN_MB, LOCAL_MB, NODES
from unrack.ledger.state import FINISHED
from unrack.policy.around import AroundAnother, anew, traits_of
from unrack.policy.contract import Ability, Decision, Hold, Policy, Requeue, Resize, Start, Traits, Used
from unrack.policy.lending.lender_cost import LendingRule, LendingTerms, Scratch, grouped, make_terms
from unrack.policy.parameters import Parameter, count, duration, number, one_of, yes
from unrack.policy.placement.node_kernel import columns_of
from unrack.policy.provisioning.resize_kernel import LACKS, Wanted, growth_of, resize
from unrack.reasons import Code, Reason
from unrack.sealed import shown
from unrack.units import SECOND_US
from unrack.view import View
from unrack.workload.job import TASKS

STOPS = ("grower", "youngest", "least-lost", "block")
RESTARTS = ("fail", "checkpoint")
FEWEST = 3
"""Ended jobs of a user from which on they say something of the next."""


@dataclass(slots=True)
class PastUse:
    """Shares of requests that users' past jobs used, learnt from jobs that have ended."""

    # jobs that were seen to run and had not ended when it was last looked
    open: dict[int, int] = field(default_factory=dict)
    # user → the shares of jobs that ended, in ascending order; -1: of all users
    shares: dict[int, list[float]] = field(default_factory=dict)

    def see(self, view: View, jobs: Ints, most_mb: Ints) -> None:
        """Jobs run, and have used so much at most so far."""
        for job in jobs.tolist():
            self.open[job] = int(most_mb[job])

    def quantile(self, view: View, job: int, share: float) -> float | None:
        """The quantile of the use of the same user's past jobs, over what they asked; ``None``: too few ended.

        Only jobs that have ended by themselves count: nothing of the future is known.
        """
        status = view.status
        for other in [one for one in self.open if status[one] == FINISHED]:
            asked = view.job(other).demand.memory_mb
            part = self.open.pop(other) / asked if asked else 1.0
            for key in (int(view.user[other]), -1):
                insort(self.shares.setdefault(key, []), part)
        known = self.shares.get(int(view.user[job]), [])
        if len(known) < FEWEST:
            known = self.shares.get(-1, [])
        if len(known) < FEWEST:
            return None
        return known[min(len(known) - 1, int(np.ceil(share * len(known))) - 1 if share > 0 else 0)]


@dataclass(slots=True)
class DynamicNotes:
    """What is remembered."""

    inner: Any  # of the policy that starts jobs
    terms: LendingTerms  # on what terms memory is lent
    most_mb: Ints  # int64[jobs]: the most that a task of each job was ever seen to use
    asked_mb: Ints  # int64[jobs]: what a task of each job asks; -1: not known yet
    stops: Ints  # int64[jobs]: how often each was stopped for memory
    past: PastUse  # what jobs that have ended used
    # running job → the use that it holds what it needs for: nothing changes for it while it uses the same
    settled: dict[int, bytes] = field(default_factory=dict)
    scratch: Scratch = field(default_factory=Scratch)
    grown: int = -1  # of which version of the ledger the view says what running jobs may still come to hold

    def make_room(self, jobs: int) -> None:
        """Make room for so many jobs."""
        if len(self.stops) < jobs:
            self.most_mb, self.stops = grown(self.most_mb, jobs), grown(self.stops, jobs)
            self.asked_mb = grown(self.asked_mb, jobs, -1)


@dataclass(frozen=True)
class Dynamic(AroundAnother):
    """Dynamic provisioning around a policy that lends."""

    monitor_us: int = 300 * SECOND_US  # how often use is looked at, µs
    band: float = 0.0  # a job keeps so much more than it is seen to use, as a share of that
    # the share of its request that a job never gives back: requests exceed memory ``1 / keep`` times at most
    keep: float = 0.0
    initial: float = 1.0  # the share of its request that a job starts with
    # start with the use predicted from the user's past jobs in place of the request: this quantile of them, 0 to 1;
    # ``None``: with the request
    admit: float | None = None
    pull: bool = False  # whether remote memory moves back where it is used when there is room
    # the share of the memory of all nodes that is left free for growth: jobs that would take of it do not start while
    # others run
    headroom: float = 0.0
    # the share of what running jobs may still grow by, to what they ask, that plans for later leave free
    growth: float = 0.0
    # which job is stopped when memory ends: the one that grows, the youngest attempt, or the one that loses least work;
    # ``"block"``: none, the one that grows stands still until there is memory, and may so wait forever
    stop: str = "grower"
    # ``"fail"``: from the beginning; ``"checkpoint"``: from the last of the study's ``checkpoints``
    restart: str = "fail"
    reserve_after: int = 3  # after so many stops a job keeps the most that it was ever seen to need
    label: str = "dynamic"

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    @cached_property
    def traits(self) -> Traits:
        """Those of the inner policy, but for components, which keep their leases; and it wants to know what is used."""
        own = traits_of(self.inner)
        does = (own.does - {Ability.HOLDS}) | {Ability.ADJUST, Ability.RESERVES_MB}
        return replace(own, monitor_us=self.monitor_us, does=does)

    def anew(self, memory: DynamicNotes, view: View) -> DynamicNotes:
        """What was learnt of the use of memory stays true."""
        memory.inner = anew(self.inner, memory.inner, view)
        memory.settled.clear()
        return memory

    def begin(self, view: View) -> DynamicNotes:
        """Nothing was seen yet."""
        room = view.columns.asks.shape[1]
        none, ask, zero = (np.full(room, fill, np.int64) for fill in (0, -1, 0))
        return DynamicNotes(self.inner.begin(view), terms_of(self.inner, view.cluster), none, ask, zero, PastUse())

    def decide(self, view: View, memory: DynamicNotes, now: int) -> tuple[list[Decision], DynamicNotes]:
        """As the inner policy decides."""
        if self.growth and (view.grows is None or memory.grown != view.version):
            memory.grown, view.grows = view.version, self._grows(view, memory)
        decisions, memory.inner = self.inner.decide(view, memory.inner, now)
        for decision in decisions:
            if isinstance(decision, Start):
                memory.settled.pop(decision.lease.job, None)
        return (self._within(view, decisions) if self.headroom else decisions), memory

    def _grows(self, view: View, memory: DynamicNotes) -> tuple[Ints, Ints]:
        """What running jobs may still come to hold: the part that counts of what they ask, or were seen to need."""
        seen, uses, count = view.columns, view.columns.memory, view.running_count
        memory.make_room(seen.asks.shape[1])
        assert uses is not None
        jobs = seen.running[OF_JOB, :count]
        for job in jobs[memory.asked_mb[jobs] < 0].tolist():
            memory.asked_mb[job] = view.job(job).demand.memory_mb
        most_mb = np.maximum(memory.asked_mb, memory.most_mb)
        found, at = growth_of(seen.running, count, seen.pool, seen.lease_at, uses.kernel, most_mb, self.growth)
        return shown(found), shown(at)

    def _within(self, view: View, decisions: list[Decision]) -> list[Decision]:
        """The decisions up to the first start that would take of the headroom."""
        left = int(view.free[1].sum()) - self.headroom * int(view.total[1, view.online].sum())
        for i, decision in enumerate(decisions):
            if isinstance(decision, Start):
                rows, loans = decision.lease.rows, decision.lease.borrowed
                left -= int(rows[:, NODES] @ rows[:, LOCAL_MB]) + int(loans[:, LOAN_MB].sum())
                if left < 0 and (i or view.running_count):
                    return decisions[:i]
        return decisions

    def inside(self, memory: DynamicNotes) -> tuple[object, Any] | None:
        """The inner policy and its memory; with headroom, some of what it decides is taken back."""
        return None if self.headroom else (self.inner, memory.inner)

    # --- memory ---------------------------------------------------------------------------------------------------

    def reserves_mb(self, view: View, memory: DynamicNotes, job: int, asked_mb: int) -> int:
        """What a job starts with: its request or a share of it, what is predicted, or the most that it ever needed."""
        memory.make_room(view.columns.asks.shape[1])
        most = int(memory.most_mb[job])
        if memory.stops[job] >= self.reserve_after:
            return max(asked_mb, most)
        start = -int(-asked_mb * self.initial // 1)
        if self.admit is not None:
            predicted = memory.past.quantile(view, job, self.admit)
            start = start if predicted is None else min(start, -int(-predicted * asked_mb // 1))
        return max(start, -int(-asked_mb * self.keep // 1), most)

    def adjust(self, view: View, memory: DynamicNotes, used: Used, now: int) -> tuple[list[Decision], DynamicNotes]:
        """Resize jobs with changed use; if memory ends, stop one."""
        if not len(used.jobs):
            return [], memory
        memory.make_room(view.columns.asks.shape[1])
        memory.most_mb[used.jobs] = np.maximum(memory.most_mb[used.jobs], np.maximum.reduceat(used.mb, used.first[:-1]))
        if self.admit is not None:
            memory.past.see(view, used.jobs, memory.most_mb)
        if not used.lacking and not self.pull:
            used = _changed(memory.settled, used)
            if not len(used.jobs):
                return [], memory
        decisions, lacking = self._resized(view, memory, used, now, self.band)
        if lacking and used.lacking and self.band:  # what is used, without the band
            decisions, lacking = self._resized(view, memory, used, now, 0.0)
        if lacking and used.lacking:
            decisions.append(self._stopped(view, memory, lacking[0], now))  # then it is asked again
        return decisions, memory

    def _resized(
        self, view: View, memory: DynamicNotes, used: Used, now: int, band: float
    ) -> tuple[list[Decision], list[int]]:  # fmt: skip
        """The leases that change, and the jobs for which there is too little."""
        jobs, seen, uses = used.jobs.tolist(), columns_of(view), view.columns.memory
        assert uses is not None
        asked = np.zeros(len(jobs), np.int64)
        if band or self.keep:
            asked[:] = [view.job(job).demand.memory_mb for job in jobs]
        aware = memory.scratch.aware(view, memory.terms.rule == LendingRule.AWARE)
        wanted = Wanted(used.mb, used.first, asked, memory.stops, self.reserve_after, band, self.keep)
        new = resize(memory.terms.kernel, seen, uses.kernel, used.jobs, wanted, now, self.pull, aware)
        decisions, lacking = list[Decision](), list[int]()
        use, row, loan = used.first.tolist(), new.row_first.tolist(), new.loan_first.tolist()
        for i, (job, verdict) in enumerate(zip(jobs, new.verdict.tolist(), strict=True)):
            if verdict % LACKS:
                rows, loans = new.rows[row[i] : row[i + 1]], new.loans[loan[i] : loan[i + 1]]
                decisions.append(Resize(view.lease(job)._replace(rows=rows, borrowed=loans), below=True))
            if verdict >= LACKS:
                lacking.append(job)
            elif band == self.band:
                memory.settled[job] = used.mb[use[i] : use[i + 1]].tobytes()
        return decisions, lacking

    def _stopped(self, view: View, memory: DynamicNotes, grower: int, now: int) -> Requeue | Hold:
        if self.stop == "block":
            return Hold(grower, Reason(Code.OUT_OF_MEMORY, "MB for it"), self.restart == "checkpoint")
        victim = grower
        if self.stop != "grower":
            running = view.running[1, : view.running_count].tolist()
            fair = [job for job in running if memory.stops[job] < self.reserve_after or job == grower]
            victim = min(fair, key=lambda job: (self._loses(view, job, now), -job))
        memory.stops[victim] += 1
        words = "MB for it" if victim == grower else f"MB for job {view.job(grower).id}"
        return Requeue(victim, Reason(Code.OUT_OF_MEMORY, words), keep_work=self.restart == "checkpoint")

    def _loses(self, view: View, job: int, now: int) -> int:
        """How long it has run (for the youngest), or node-time that is lost; by what is booked."""
        ends, jobs = view.running[:, : view.running_count]
        ran = now - (int(ends[np.flatnonzero(jobs == job)[0]]) - int(view.estimate_us[job]))
        return ran if self.stop == "youngest" else ran * int(view.asks[TASKS, job])


def _changed(settled: dict[int, bytes], used: Used) -> Used:
    """Of the jobs those that do not hold what they need for what they use."""
    jobs, first = used.jobs.tolist(), used.first.tolist()
    mb = used.mb.tobytes()
    size = used.mb.itemsize
    left = [i for i, job in enumerate(jobs) if settled.get(job) != mb[first[i] * size : first[i + 1] * size]]
    return used if len(left) == len(jobs) else used.of(left)


def terms_of(policy: object, cluster: Cluster) -> LendingTerms:
    """The terms on which a policy lends: its own, or its rule's for memory; of one that does not lend, to no node."""
    traits = traits_of(policy)
    if Ability.TERMS in traits.does:
        terms: LendingTerms = cast(Any, policy).terms(cluster)
        return terms
    alone, zeros = np.arange(len(cluster)), np.zeros(len(cluster), np.int64)
    if traits.lends:
        return make_terms(cluster, LendingRule.DISAGGREGATED, 1.0, "all", False)
    return grouped(LendingRule.DISAGGREGATED, alone, zeros, False, zeros, zeros)


PREFIX = "provisioning."
"""Begins the fields of these parameters: they are not the policy's own."""
STATIC, DYNAMIC = "static", "dynamic"


part = number(0, 1, "a share from 0 to 1")
band = number(0, 10, "a share of what is used, from 0 to 10, such as 0.1")


def _own(field: str, read: Any, default: str, words: str) -> Parameter:
    return Parameter(PREFIX + field, read, default, words)


PROVISIONING = {
    "provisioning": _own(
        "how", one_of((STATIC, DYNAMIC)), STATIC,
        "static: a job holds the memory that it asks until it ends; dynamic: its memory follows what it uses",
    ),
    "monitor": _own("monitor_us", duration, "5 min", "of dynamic: how often use is looked at"),
    "band": _own("band", band, "0", "of dynamic: a job keeps so much more than it uses, as a share of that"),
    "keep": _own(
        "keep", part, "0",
        "of dynamic: the share of its request that a job never gives back; requests exceed memory 1/keep times at most",
    ),
    "initial": _own("initial", part, "1", "of dynamic: the share of its request that a job starts with"),
    "admit": _own(
        "admit", part, "request",
        "of dynamic: start with this quantile of what the user's past jobs used of their requests, such as 0.9",
    ),
    "pull": _own("pull", yes, "no", "of dynamic: remote memory moves back where it is used as soon as there is room"),
    "headroom": _own(
        "headroom", part, "0", "of dynamic: the share of all memory that starts leave free, for jobs that grow"
    ),
    "growth": _own(
        "growth", part, "0",
        "of dynamic: the share of what running jobs may still grow by, to what they ask, that reservations leave free",
    ),
    "stop": _own("stop", one_of(STOPS), "grower",
                 "of dynamic: which job is stopped when memory ends: " + ", ".join(STOPS)),
    "restart": _own("restart", one_of(RESTARTS), "fail",
                    "of dynamic: fail: a stopped job begins again; checkpoint: it goes on from the last checkpoint"),
    "reserve_after": _own(
        "reserve_after", count, "3", "of dynamic: after so many stops a job keeps the most that it was seen to need"
    ),
}  # fmt: skip


def provisioned(policy: Policy[Any], values: Mapping[str, object], where: str, label: str) -> Policy[Any]:
    """The policy with memory that follows use, if the values (field → value) say so.

    A PolicyError if they say how, and that memory does not follow use; or memory is on tiers.
    """
    own: dict[str, Any] = {field.removeprefix(PREFIX): value for field, value in values.items()}
    if own.pop("how", STATIC) == DYNAMIC:
        if traits_of(policy).tiers:
            raise PolicyError(f"{where}, provisioning", "dynamic on tiers of memory", "static, or memory=own or lent")
        return Dynamic(policy, label=label, **own)
    if own:
        key = next(key for key, one in PROVISIONING.items() if one.field == PREFIX + next(iter(own)))
        raise PolicyError(f"{where}, {key}", f"it beside provisioning={STATIC}", f"provisioning={DYNAMIC}")
    return policy
