"""What happened in a run: one line an attempt, and what each attempt held, span by span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unrack.cluster.spec import Cluster
from unrack.facts import counted, line
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import LOAN_MB, NO_LOANS, Share
from unrack.reasons import Code, Reason
from unrack.resources.places import NO_CLAIMS
from unrack.sim.faults import Failure
from unrack.sim.recorder import Extension, MemoryStop, Preemption, Recorder, Rows, Suspension
from unrack.units import NEVER_US
from unrack.workload.job import JobTable

if TYPE_CHECKING:
    from unrack.sim.kernel import Kernel


@dataclass(frozen=True, eq=False)
class RunLog:
    """A finished run."""

    # cluster, jobs: what there was and what was asked
    cluster: Cluster
    jobs: JobTable
    state: NDArray[np.int8]  # int8[jobs]: a ``Status`` each
    reasons: dict[int, Reason]  # job → why it was rejected, or is still queued
    # attempt_job, attempt_start_us, attempt_end_us, attempt_outcome: int64[attempts]: in the order in which attempts
    # ended
    attempt_job: Ints
    attempt_start_us: Ints
    attempt_end_us: Ints
    attempt_outcome: Ints
    # span_attempt, span_start_us, span_end_us: int64[spans]: Of which attempt each span is, and from when until when.
    # The spans of an attempt stand together, in order.
    span_attempt: Ints
    span_start_us: Ints
    span_end_us: Ints
    span_rows: Ints  # int64[spans + 1]: the rows of span i are ``rows[span_rows[i]:span_rows[i + 1]]``
    rows: Rows  # int32[rows, 5] or int64[rows, 5]: as in :class:`unrack.ledger.lease.Lease`
    # loans, span_loans: int64[loans, 3], int64[spans + 1]: what was borrowed in span i:
    # ``loans[span_loans[i]:span_loans[i + 1]]``, as in ``Lease.borrowed``
    loans: Ints
    span_loans: Ints
    capacity: Ints  # int64[changes, 2]: when nodes went down or came back (µs), and the cores online since
    end_us: int  # the last event
    shares: list[Share]  # the shares of devices of all spans, in the order of the spans
    # share_span, share_group: int64[shares]: of which span each is, and the number of the composition or split device
    # it is of
    share_span: Ints
    share_group: Ints
    # int64[claims, 2]: what was claimed of the places of resources in all spans, in their order; as in
    # ``Lease.claims``
    claims: Ints
    claim_span: Ints  # int64[claims]: of which span each is
    rules: dict[int, str]  # job → by which rule its policy placed it, where it says so
    failures: tuple[Failure, ...]  # the failures that happened, in order
    attempt_failure: Ints  # int64[attempts]: which of them stopped each attempt; -1: none
    # int64[samples, 4]: when use of memory was looked at (µs), and the MB that running jobs used, held and asked then
    memory: Ints = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    # attempt that ended for lack of memory → why, and what was lost with it
    memory_stops: dict[int, MemoryStop] = field(default_factory=dict)
    preempted: dict[int, Preemption] = field(default_factory=dict)  # attempt → why it was preempted, and what was lost
    suspended: dict[int, list[Suspension]] = field(default_factory=dict)  # job → its suspensions
    limits: dict[int, int] = field(default_factory=dict)  # job → the limit that it had last, if it asks another, µs
    # job → when it was given more time; ``None``: no job is stopped at a limit
    extensions: dict[int, list[Extension]] | None = None
    cut: frozenset[int] = frozenset()  # the jobs that ended at these with work left
    # job that stood still for lack of memory → nodes x time, µs
    held_node_us: dict[int, int] = field(default_factory=dict)
    deadlocks: tuple[int, ...] = ()  # when jobs that stood still waited for each other and one was stopped, µs
    # int64[jobs]: when each could first be started by its own word; ``None``: when it was submitted
    eligible_us: Ints | None = None

    @property
    def came_us(self) -> Ints:
        """int64[jobs]: when each came into the queue: submitted, and could be started by its own word."""
        return self.jobs.submit_us if self.eligible_us is None else np.maximum(self.jobs.submit_us, self.eligible_us)

    def __repr__(self) -> str:
        words = [counted(len(self.jobs), "job"), counted(len(self.attempt_job), "attempt")]
        return line("RunLog", self.cluster.name, words)

    @classmethod
    def of(
        cls,
        recorder: Recorder,
        cluster: Cluster,
        jobs: JobTable,
        state: NDArray[np.int8],
        reasons: dict[int, Reason],
        capacity: list[tuple[int, int]],
        end_us: int,
        memory: Ints | None = None,
        eligible_us: Ints | None = None,
        components: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
    ) -> RunLog:
        """Freeze what was recorded; ``components``: of jobs of which the first stood for all."""
        state = state.copy()
        for first, rows in components.items():
            state[list(rows)] = state[first]
            reasons |= dict.fromkeys(rows, reasons[first]) if first in reasons else {}
            recorder.suspended |= dict.fromkeys(rows, recorder.suspended[first]) if first in recorder.suspended else {}
            recorder.rules |= dict.fromkeys(rows, recorder.rules[first]) if first in recorder.rules else {}
            if eligible_us is not None:
                eligible_us[list(rows)] = eligible_us[first]
        span_attempt, span_start_us, span_end_us = recorder.spans()
        return cls(
            cluster=cluster,
            jobs=jobs,
            state=state,
            reasons=dict(reasons),
            attempt_job=np.array(recorder.job, np.int64),
            attempt_start_us=np.array(recorder.start_us, np.int64),
            attempt_end_us=np.array(recorder.end_us, np.int64),
            attempt_outcome=np.array(recorder.outcome, np.int64),
            span_attempt=span_attempt,
            span_start_us=span_start_us,
            span_end_us=span_end_us,
            span_rows=np.concatenate([[0], np.cumsum(np.array(recorder.row_count, np.int64))]),
            rows=recorder.take_rows(),
            loans=np.concatenate([NO_LOANS, *recorder.loans]),
            span_loans=np.concatenate([[0], np.cumsum(np.array(recorder.loan_count, np.int64))]),
            capacity=np.array(capacity, np.int64).reshape(-1, 2),
            end_us=end_us,
            shares=recorder.shares,
            share_span=np.array(recorder.share_span, np.int64),
            share_group=np.array(recorder.share_group, np.int64),
            claims=np.concatenate([NO_CLAIMS, *recorder.claims]),
            claim_span=np.array(recorder.claim_span, np.int64),
            rules=recorder.rules,
            failures=tuple(recorder.failures),
            attempt_failure=recorder.attempt_failures(),
            memory=np.zeros((0, 4), np.int64) if memory is None else memory,
            memory_stops=recorder.memory_stops,
            preempted=recorder.preempted,
            suspended=recorder.suspended,
            limits=recorder.limits,
            extensions=recorder.extensions,
            cut=frozenset(recorder.cut),
            held_node_us=recorder.held_node_us,
            deadlocks=tuple(recorder.deadlocks),
            eligible_us=eligible_us,
        )

    @cached_property
    def attempt_spans(self) -> Ints:
        """int64[attempts + 1]: the spans of attempt i are ``attempt_spans[i]`` to ``attempt_spans[i + 1] - 1``."""
        return np.searchsorted(self.span_attempt, np.arange(len(self.attempt_job) + 1))

    @property
    def attempt_rows(self) -> Ints:
        """int64[attempts + 1]: the rows of attempt i, of all its spans, are ``rows[attempt_rows[i]:…]``."""
        return self.span_rows[self.attempt_spans]

    @property
    def attempt_loans(self) -> Ints:
        """int64[attempts + 1]: the loans of attempt i, of all its spans, are ``loans[attempt_loans[i]:…]``."""
        return self.span_loans[self.attempt_spans]

    @property
    def share_attempt(self) -> Ints:
        """int64[shares]: of which attempt each share is."""
        return self.span_attempt[self.share_span]

    @property
    def span_job(self) -> Ints:
        """int64[spans]: the job of each."""
        return self.attempt_job[self.span_attempt]

    @property
    def changed(self) -> bool:
        """Whether the lease of any attempt changed while it ran."""
        return len(self.span_attempt) > len(self.attempt_job)

    def borrowed(self) -> Ints:
        """int64[spans]: MB of other nodes."""
        total = np.concatenate([[0], np.cumsum(self.loans[:, LOAN_MB])])
        mb: Ints = total[self.span_loans[1:]] - total[self.span_loans[:-1]]
        return mb

    @cached_property
    def amounts(self) -> tuple[Ints, Ints, Ints]:
        """int64[spans] each: nodes, cores and MB held, borrowed ones included."""
        if len(self.span_attempt) == 0:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty
        first = self.span_rows[:-1]
        count = self.rows[:, 1].astype(np.int64)
        nodes, cores, mb = (
            np.add.reduceat(amounts, first) for amounts in (count, count * self.rows[:, 3], count * self.rows[:, 4])
        )
        return nodes, cores, mb + self.borrowed()

    def stood_us(self, attempt: int) -> int:
        """For how long an attempt was suspended, µs."""
        start, end, own = self.attempt_start_us[attempt], self.attempt_end_us[attempt], self.attempt_job[attempt]
        return sum(max(0, min(one.until_us, end) - max(one.at_us, start)) for one in self.suspended.get(int(own), ()))

    @cached_property
    def ran_us(self) -> Ints:
        """int64[attempts]: how long each ran, without the time for which it was suspended."""
        ran: Ints = self.attempt_end_us - self.attempt_start_us
        if self.suspended:
            ran = ran - np.array([self.stood_us(i) for i in range(len(ran))], np.int64)
        return ran

    def over_time(self, values: Ints) -> Floats:
        """float64[attempts]: the integral over time of what is held in each span (int64[spans]); times in µs."""
        integral = np.zeros(len(self.attempt_job))
        np.add.at(integral, self.span_attempt, values * (self.span_end_us - self.span_start_us).astype(np.float64))
        return integral

    def most(self, values: Ints) -> Ints:
        """int64[attempts]: the largest of what is held in the spans of each (int64[spans])."""
        if not self.changed:
            return values
        return np.maximum.reduceat(values, self.attempt_spans[:-1])


def log_of(kernel: Kernel, now: int) -> RunLog:
    """What happened in a run, with the reasons of those that never started."""
    core = kernel.core
    state = core.state
    waiting = state.queue[state.queue_start : state.queue_end].tolist()
    why = {job: core.why(job, now) for job in waiting}
    beside = f", beside {counted(len(state.cluster.drained), 'drained node')}" if state.cluster.drained else ""
    never = {job: Reason(Code.NEVER_STARTED, f"{one}{beside * (one.code == Code.NO_ROOM)}") for job, one in why.items()}
    if kernel.graph is not None:
        never |= {job: Reason(Code.DEPENDENCY, "what it waits for has not come") for job in kernel.graph.waiting}
        kernel.graph.eligible_us[list(kernel.graph.waiting)] = NEVER_US
    return RunLog.of(
        kernel.recorder, state.cluster, kernel.jobs, state.status[: len(kernel.jobs)], {**core.reasons, **never},
        kernel.outages.capacity, now, None if kernel.following is None else kernel.following.use.table(),
        None if kernel.graph is None else kernel.graph.eligible_us, state.components.of,
    )  # fmt: skip
