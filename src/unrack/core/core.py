"""Events in, decisions out: no clock, no socket, no heap.

The simulated and the live worlds both drive this, through :meth:`Core.handle` only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unrack import events
from unrack.cluster.pools.pool import Pace, no_pace
from unrack.cluster.spec import Cluster
from unrack.core.admission import Admission, check, check_asks
from unrack.core.answers import Provisions, change, counting, exchanges, parted, struck, wanted_us
from unrack.errors import InputError, PolicyError, RefusedError
from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.changes import ask
from unrack.ledger.claims import join
from unrack.ledger.copies.before import all_or_nothing
from unrack.ledger.state import HELD, QUEUED, REJECTED, RUNNING, UNKNOWN, ClusterState
from unrack.policy.around import traits_of
from unrack.policy.contract import Ability, Decision, Estimates, InSteps, Policy, Reject, Requeue, Resting, Start, Used
from unrack.reasons import Code, Reason
from unrack.units import NEVER_US
from unrack.view import View
from unrack.workload.job import ESTIMATE, Job, JobTable, job_table
from unrack.workload.site.sessions import alike, components_of
from unrack.workload.site.settled import numbered
from unrack.workload.store import JobStore, one_row

NOTHING: list[Decision] = []
NO_JOBS = job_table(submit_us=np.zeros(0, np.int64), work_us=np.zeros(0, np.int64), tasks=np.zeros(0, np.int64))


class Core:
    """A cluster, its jobs and a policy.

    A PolicyError if the policy needs something that the jobs do not have, or does not place the devices that they ask
    for.

    Parameters
    ----------
    cluster
        What there is.
    jobs
        The rows that :class:`Submitted` will show by number, one after the other; ``None``: none, and it brings jobs.
    policy
        The policy that decides.
    pace
        How given jobs run on shared and composed devices, for the ledger; ``None``: all run their base times.
    keeps_memory
        Whether it is kept which job uses which node's memory; of policies that lend it always is.
    least
        The same jobs at the smallest sizes that the policy may give them: one that is too big then is turned away;
        ``None``: at their own.
    """

    def __init__(
        self,
        cluster: Cluster,
        jobs: JobTable | None,
        policy: Policy[Any],
        pace: Callable[[JobTable], Pace] | None = None,
        keeps_memory: bool = False,
        least: JobTable | None = None,
    ) -> None:
        jobs = NO_JOBS if jobs is None else jobs
        check(policy, cluster, jobs)
        self.traits = traits = traits_of(policy)
        self._exact = traits.estimates == Estimates.EXACT
        self.jobs = jobs
        self.store = JobStore(jobs)
        self.policy = policy
        self._pace = pace or (lambda rows: no_pace(cluster.devices, len(rows)))
        self._stepwise = traits.stepwise
        wants = cluster.devices.wanted(jobs.devices, len(jobs))
        own_pace = self._pace(jobs)
        self.learns = traits.learns
        self._vacated: set[int] = set()
        claims, self._delay_us = cluster.places.asked(jobs.devices, len(jobs)), cluster.places.delay_us
        told, lends = self._told(jobs), traits.lends or keeps_memory
        self.state = ClusterState(cluster, told, wants, own_pace, lends, claims, self.learns, components_of(jobs))
        self.waits_for_first = {row for rows in self.state.components.of.values() for row in rows[1:]}
        self.view = View(self.state, self.store)
        self.memory: Any = policy.begin(self.view)
        self._tells_steps = isinstance(self.memory, InSteps)
        self.reasons: dict[int, Reason] = {}
        empty, judged = self.view, jobs
        if least is not None:
            rows = self._told(least), wants, own_pace, lends, claims, self.learns, components_of(jobs)
            empty, judged = View(ClusterState(cluster, *rows), JobStore(least)), least
        self.admission = Admission(cluster, policy, self._pace, judged, own_pace)
        self.admission.join(empty, self.admission.joint(judged))
        does = traits.does
        asked: Any = policy  # for methods beyond the contract, which its traits declare
        self._promised = asked.promised if Ability.PROMISED in does else None
        self._memory = Provisions(self)
        self._foresees = asked.expected_end_us if Ability.EXPECTED_END_US in does else None
        self._rests = policy.rests_until if isinstance(policy, Resting) else None

    def _told(self, jobs: JobTable) -> Ints:
        """int64[4, jobs]: what the policy is told that jobs ask."""
        asks = jobs.asks.copy()
        if self._exact:
            asks[ESTIMATE] = jobs.work_us
        asks[ESTIMATE] += self._delay_us
        return np.ascontiguousarray(asks)

    def handle(self, event: events.Event, now: int) -> list[Decision]:
        """Take note of an event at time ``now`` (µs); returns what was decided and done.

        Only :class:`Round` asks the policy. A failure answers with the requeues it caused, and the submission of a job
        that the whole cluster, empty, could not hold with its rejection. A RefusedError if the event or one of the
        policy's decisions contradicts the state; nothing of that plan was done.
        """
        state = self.state
        kind = type(event)
        self.view.now = now
        if kind is events.Round:
            decisions = step = self._decide(now)
            while step and self._stepwise and self._goes_on(step):
                step = self._decide(now)
                decisions = decisions + step
            return decisions
        if kind is events.Finished:
            job: Any = event.job  # type: ignore[union-attr]  # the line above says so
            if self._vacated and job in self._vacated:
                self._vacated.remove(job)
                state.note_end(job, now)
            else:
                state.release(job, now)
            return NOTHING
        if isinstance(event, events.Submitted):
            return self._submit(event)
        if isinstance(event, events.Held):
            return self._hold(event)
        if isinstance(event, events.Vacated):
            state.release(event.job, now, noted=False)
            self._vacated.add(event.job)
            return NOTHING
        if isinstance(event, events.Kept):
            state.correct(event.job, event.done_us)
            return NOTHING
        if isinstance(event, Used | events.Expired):
            return self._memory.provision(event, now)
        if isinstance(event, events.Failed):
            return self._fail(event, now)
        if isinstance(event, events.Stuck):
            why = Reason(Code.OUT_OF_MEMORY, "MB: all that run wait for each other")
            return self._memory.stop([Requeue(event.jobs[0], why, event.keep_work)], now)
        if isinstance(event, events.Repaired):
            for node in event.nodes:
                state.resume(node)
            return NOTHING
        return self._outside(event, now)

    def _outside(self, event: events.Event, now: int) -> list[Decision]:
        """What others did, what became of what was decided, where a start is an intention, or what time has opened."""
        state = self.state
        if isinstance(event, events.Adopted):
            self._adopt(event, now)
        elif isinstance(event, events.Started):
            state.rebook(event.job, now + state.expected_us[event.job])
        elif isinstance(event, events.StartFailed):
            return self._memory.stop([Requeue(event.job, event.reason)], now)
        elif isinstance(event, events.Withdrawn):
            if state.condition(event.job) == RUNNING:
                state.release(event.job, now, noted=False)
            elif state.condition(event.job) in (QUEUED, HELD):
                state.reject(event.job)
                self.reasons[event.job] = event.reason
            else:
                raise RefusedError(f"withdraw job {event.job}: it neither waits nor runs")
        elif isinstance(event, events.Opened):
            state.opened(event.foreseen)
        elif isinstance(event, events.Detached):
            state.detached(event.devices)
        elif isinstance(event, events.Expected):
            state.rebook(event.job, max(event.end_us, now))
        elif isinstance(event, events.Asked):
            ask(state, event.job, event.tasks)
        elif isinstance(event, events.Promised):
            if state.condition(event.job) != QUEUED:
                raise RefusedError(f"promise to job {event.job}: it does not wait")
            state.promises = state.promises.and_one(event.job, event.promise)
        else:
            assert isinstance(event, events.Drained)
            for node in event.nodes:
                state.drain(node)
        return NOTHING

    def _adopt(self, event: events.Adopted, now: int) -> None:
        state = self.state
        job = self._receive(event.job, event.work_us, False) if isinstance(event.job, Job) else event.job
        if job != state.known and not isinstance(event.job, Job):
            state.condition(job)
            raise RefusedError(f"adopt job {job}: the next one is job {state.known}; jobs come in order")
        state.submit(job)
        try:
            lease = event.lease.numbered(job)
            lease = counting(state, lease) if isinstance(event.job, Job) else lease
            state.start(lease, event.left_us, now, below=True)
        except RefusedError:
            state.reject(job)
            raise
        state.carry_on(job, event.left_us, event.extended_us)

    def _hold(self, event: events.Held) -> list[Decision]:
        state = self.state
        job = self._in_order(event, "hold")
        if state.condition(job) == UNKNOWN and self.admission.never(job):
            return self._submit(events.Submitted(job))
        state.hold(job)
        return NOTHING

    def _submit(self, event: events.Submitted) -> list[Decision]:
        state = self.state
        job = self._in_order(event, "submit")
        if state.condition(job) == UNKNOWN and self.admission.never(job):
            reason = self.admission.reason_of(job, self.store)
            state.reject(job)
            self.reasons[job] = reason
            return [Reject(job, reason)]
        if state.condition(job) == HELD:
            state.note_release(job, self.view.now)
        state.submit(job)
        self._memory.reserve(job)
        return NOTHING

    def _in_order(self, event: events.Held | events.Submitted, what: str) -> int:
        """The number of the job of an event, which is known already or the next one."""
        job = self._receive(event.job, event.work_us) if isinstance(event.job, Job) else event.job
        if job > self.state.known:
            self.state.condition(job)
            raise RefusedError(f"{what} job {job}: the next one is job {self.state.known}; jobs come in order")
        return job

    def _receive(self, job: Job, work_us: int | None, to_be_placed: bool = True) -> int:
        """Take in a new job, which the policy is to place or which runs already; returns its number.

        The other components of a heterogeneous job have the numbers behind it, and are held. A RefusedError if rows of
        the table that the core was made with are still to come; the policy does not place what the job asks for; or it
        must know how long the job runs and is not told.
        """
        state, cluster = self.state, self.state.cluster
        if state.known < state.jobs:
            raise RefusedError(f"submit job {job.id}: row {state.known} of the table comes first")
        if self._exact and work_us is None and to_be_placed:
            raise RefusedError(
                f"submit job {job.id}: {self.policy.name} plans on exact run times, and is not given its"
            )
        every, number, together = alike(job), state.jobs, bool(job.components)
        rows = [one_row(one, work_us) for one in every]
        try:
            for place, row in enumerate(rows):
                rows[place] = row = numbered(cluster, row)
                if to_be_placed:
                    check_asks(self.policy, cluster, row, together)
        except (PolicyError, InputError) as error:
            raise RefusedError(f"submit job {job.id}: {error}") from None
        for row in rows:
            self.admission.add(row, self._pace(row))
        self._take_in(state, self.store, every, rows)
        joint = {} if together or not to_be_placed else self.admission.joint(rows[0])
        if (together and to_be_placed) or joint:
            lends, pace, store = state.memory is not None, self._pace(NO_JOBS), JobStore(NO_JOBS)
            empty = ClusterState(cluster, NO_JOBS.asks, pace=pace, lends=lends, learns=self.learns)
            self._take_in(empty, store, every, rows)
            self.admission.join(View(empty, store), joint, number)
        for other in range(number + 1, number + len(every)):
            state.hold(other)
        return number

    def _take_in(self, state: ClusterState, store: JobStore, every: Sequence[Job], rows: Sequence[JobTable]) -> None:
        """Add a job, or all components of one, to a ledger, with the rows that say what they ask."""
        first, places, devices = state.jobs, state.cluster.places, state.cluster.devices
        for one, row in zip(every, rows, strict=True):
            store.add(one, row)
            wants, model = devices.wanted(row.devices, 1)[:, :, 0], self._pace(row).model[:, 0]
            state.add_job(self._told(row)[:, 0], wants, model, places.asked(row.devices, 1)[:, 0])
        if len(rows) > 1:
            join(state, {first: tuple(range(first, first + len(rows)))})

    def _goes_on(self, step: list[Decision]) -> bool:
        """Whether the round does: a list tells it, which starts and rejects; what else was decided it has not seen."""
        tells = self._tells_steps and all(isinstance(one, Start | Reject) for one in step)
        return not tells or bool(self.memory.in_steps)

    def _decide(self, now: int) -> list[Decision]:
        if self.state.withheld:
            self.state.withhold()
        decisions, self.memory = self.policy.decide(self.view, self.memory, now)
        if decisions:
            self.commit(decisions, now)
            if self._memory.reserves is not None:
                self._memory.reserved(decisions)
        if self._promised is not None:
            self.state.promises = self._promised(self.view, self.memory)
        return decisions

    def commit(self, decisions: list[Decision], now: int) -> None:
        """Do all that a plan says, in order; if one decision is refused, nothing was done."""
        if len(decisions) < 2:
            for decision in decisions:
                self.carry_out(decision, now)
        elif (leases := exchanges(self.state, decisions)) is not None:
            self.state.exchange(leases, below=True)
        else:
            with all_or_nothing(self.state):
                first, many = parted(decisions)
                for decision in first:
                    self.carry_out(decision, now)
                if many and not self.state.start_many([start.lease for start in many], now):
                    for decision in many:
                        self.carry_out(decision, now)
        for decision in decisions:
            if type(decision) is Reject:
                self.reasons[decision.job] = decision.reason

    def carry_out(self, decision: Decision, now: int) -> None:
        """Do what one decision says. A RefusedError if it contradicts the state; nothing has changed."""
        state = self.state
        if type(decision) is not Start:
            change(state, decision, now, self.policy)
            return
        job = decision.lease.job
        # of a number that no job has the state says so
        expected_us = state.expected_us[job] if 0 <= job < state.jobs else 0
        limited = 0 < decision.limit_us < expected_us
        state.start(decision.lease, decision.limit_us if limited else expected_us, now)
        if limited:
            state.limit(job, decision.limit_us)

    def begin_anew(self) -> None:
        """Let the policy make its memory again, from the jobs that run and wait now."""
        self.memory = self.policy.begin(self.view)

    def refused(self) -> Bools:
        """bool[jobs]: of the rows of its table, which are rejected when they are submitted."""
        return self.admission.all_never()

    def expects_end(self, job: int, now: int) -> bool:
        """Whether the policy expects a running job to end right now; asked of policies that learn run times."""
        foresee = self._foresees
        expected = self.state.booked_end(job) if foresee is None else foresee(self.view, self.memory, job, now)
        return bool(expected == now)

    def next_round(self, now: int) -> int | None:
        """When the policy wants a :class:`Round` next even if nothing happens, µs; ``None``: only on events.

        A RefusedError if it asks for a time that is not after ``now``, or for what is no time.
        """
        wanted = self.policy.next_round(self.view, self.memory, now)
        if wanted is not None and self._rests is not None:
            wanted = max(wanted, self._rests(self.view, self.memory, now))
        return None if wanted in (None, NEVER_US) else wanted_us(wanted, self.policy.name, now)

    def why(self, job: int, now: int) -> Reason:
        """Why a job is not running: asked after a round."""
        if job in self.reasons and self.state.conditions[job] == REJECTED:
            return self.reasons[job]
        return self.policy.why(self.view, self.memory, job, now)

    def _fail(self, event: events.Failed, now: int) -> list[Decision]:
        decisions: list[Decision] = []
        nodes = sorted(event.nodes)
        found = struck(self.state, nodes)
        for node in nodes:
            what = f"node {node}" + (f" with {event.domain}" if event.domain not in ("", f"node{node}") else "")
            for job in found.get(node, ()):
                decisions += self._memory.stop([Requeue(job, Reason(Code.NODE_FAILED, what))], now)
            self.state.drain(node)
        return decisions
