"""Events in, decisions out: no clock, no socket, no heap.

The simulated and the live worlds both drive this, through :meth:`Core.handle` only.
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unrack.admission import Admission, check, check_asks
from unrack.cluster.pools.pool import Pace, no_pace
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError, RefusedError
from unrack.events import (
    Adopted,
    Detached,
    Drained,
    Event,
    Expected,
    Failed,
    Finished,
    Kept,
    Promised,
    Repaired,
    Round,
    Started,
    StartFailed,
    Stuck,
    Submitted,
    Vacated,
    Withdrawn,
)  # fmt: skip
from unrack.ledger.affected import struck
from unrack.ledger.devices.columns import SERIAL, SINCE_US
from unrack.ledger.exchange import exchange_all, is_plain
from unrack.ledger.lacking import lacks
from unrack.ledger.lease import Lease
from unrack.ledger.start_many import MANY, on_nodes_alone, start_many
from unrack.ledger.state import QUEUED, REJECTED, RUNNING, UNKNOWN, ClusterState
from unrack.ledger.undo import Undo
from unrack.policy.contract import Ability, Decision, Estimates, Hold, Policy, Reject, Requeue, Resize, Start, Used
from unrack.policy.members import traits_of
from unrack.reasons import Code, Reason
from unrack.view import View
from unrack.workload.job import ESTIMATE, MEMORY, Job, JobTable, job_table, plain
from unrack.workload.store import JobStore, one_row

Ints = NDArray[np.int64]


NOTHING: list[Decision] = []
NO_JOBS = job_table(submit_us=np.zeros(0, np.int64), work_us=np.zeros(0, np.int64), tasks=np.zeros(0, np.int64))


class Core:
    """A cluster, its jobs and a policy.

    Parameters
    ----------
    cluster
        What there is.
    jobs
        The rows that :class:`Submitted` will show by number, one after the other; ``None``: none, and it brings jobs.
    policy
        Who decides.
    pace
        How given jobs run on shared and composed devices, for the ledger; ``None``: all run their base times.
    keeps_memory
        Whether it is kept who uses whose memory; of policies that lend it always is.

    Raises
    ------
    PolicyError
        The policy needs something that the jobs do not have, or does not place the devices that they ask for.
    """

    def __init__(
        self,
        cluster: Cluster,
        jobs: JobTable | None,
        policy: Policy[Any],
        pace: Callable[[JobTable], Pace] | None = None,
        keeps_memory: bool = False,
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
        claims = cluster.places.asked(jobs.devices, len(jobs))
        told, lends = self._told(jobs), traits.lends or keeps_memory
        self.state = ClusterState(cluster, told, wants, own_pace, lends, claims, self.learns)
        self.view = View(self.state, self.store)
        self._expected_us: MutableSequence[int] = plain(self.state.asks[ESTIMATE])
        self._whole_us: dict[int, int] = {}
        self._before_us: dict[int, int] = {}
        self.memory: Any = policy.begin(self.view)
        self.reasons: dict[int, Reason] = {}
        self._admission = Admission(cluster, policy, self._pace, jobs, own_pace)
        does = traits.does
        asked: Any = policy  # for methods beyond the contract, which its traits declare
        self._promised = asked.promised if Ability.PROMISED in does else None
        self._adjusts = asked.adjust if Ability.ADJUST in does else None
        self._reserves = asked.reserves_mb if Ability.RESERVES_MB in does else None
        self._foresees = asked.expected_end_us if Ability.EXPECTED_END_US in does else None

    def _told(self, jobs: JobTable) -> Ints:
        """int64[4, jobs]: what the policy is told that jobs ask."""
        asks = jobs.asks.copy()
        if self._exact:
            asks[ESTIMATE] = jobs.work_us
        return np.ascontiguousarray(asks)

    def handle(self, event: Event, now: int) -> list[Decision]:
        """Take note of an event at time ``now`` (µs); returns what was decided and done.

        Only :class:`Round` asks the policy. A failure answers with the requeues it caused, and the submission of a job
        that the whole cluster, empty, could not hold with its rejection.

        Raises
        ------
        RefusedError
            The event or one of the policy's decisions contradicts the state; nothing of that plan was done.
        """
        state = self.state
        kind = type(event)
        self.view.now = now
        if kind is Round:
            decisions = self._decide(now)
            if self._stepwise:
                step = decisions
                while step:
                    step = self._decide(now)
                    decisions = decisions + step
            return decisions
        if kind is Finished:
            job: Any = event.job  # type: ignore[union-attr]  # the line above says so
            if self._vacated and job in self._vacated:
                self._vacated.remove(job)
                state.note_end(job, now)
            else:
                state.release(job, now)
            return NOTHING
        if isinstance(event, Submitted):
            return self._submit(event)
        if isinstance(event, Vacated):
            state.release(event.job, now, noted=False)
            self._vacated.add(event.job)
            return NOTHING
        if isinstance(event, Kept):
            if event.job in self._before_us and state.condition(event.job) == QUEUED:
                self._expect(event.job, max(0, self._before_us[event.job] - event.done_us))
            return NOTHING
        if isinstance(event, Used):
            return self._provision(event, now)
        if isinstance(event, Failed):
            return self._fail(event, now)
        if isinstance(event, Stuck):
            why = Reason(Code.OUT_OF_MEMORY, "MB: all that run wait for each other")
            stopped: list[Decision] = [Requeue(event.jobs[0], why)]
            self._do(stopped[0], now)
            return self._reserved(stopped)
        if isinstance(event, Detached):
            state.detached(event.devices, now)
            return NOTHING
        if isinstance(event, Repaired):
            for node in event.nodes:
                state.resume(node)
            return NOTHING
        return self._outside(event, now)

    def _outside(self, event: Event, now: int) -> list[Decision]:
        """What others did, or what became of what was decided: events of worlds in which a start is an intention."""
        state = self.state
        if isinstance(event, Adopted):
            self._adopt(event, now)
        elif isinstance(event, Started):
            state.rebook(event.job, now + self.booked_us(event.job))
        elif isinstance(event, StartFailed):
            stopped: list[Decision] = [Requeue(event.job, event.reason)]
            self._do(stopped[0], now)
            return self._reserved(stopped)
        elif isinstance(event, Withdrawn):
            if state.condition(event.job) == RUNNING:
                state.release(event.job, now, noted=False)
            elif state.condition(event.job) == QUEUED:
                state.reject(event.job)
                self.reasons[event.job] = event.reason
            else:
                raise RefusedError(f"withdraw job {event.job}: it neither waits nor runs")
        elif isinstance(event, Expected):
            state.rebook(event.job, max(event.end_us, now))
        elif isinstance(event, Promised):
            if state.condition(event.job) != QUEUED:
                raise RefusedError(f"promise to job {event.job}: it does not wait")
            state.promises = state.promises.and_one(event.job, event.promise)
        else:
            assert isinstance(event, Drained)
            for node in event.nodes:
                state.drain(node)
        return NOTHING

    def _adopt(self, event: Adopted, now: int) -> None:
        """Note a job that runs already."""
        state = self.state
        job = self._receive(event.job, event.work_us, False) if isinstance(event.job, Job) else event.job
        if job != state.known:
            state.condition(job)
            raise RefusedError(f"adopt job {job}: the next one is job {state.known}; jobs come in order")
        state.submit(job)
        try:
            state.start(event.lease._replace(job=job), event.left_us, now, below=True)
        except RefusedError:
            state.reject(job)
            raise
        self._before_us[job] = self._whole_us[job] = self._expected_us[job]
        self._expect(job, event.left_us)

    def _submit(self, event: Submitted) -> list[Decision]:
        state = self.state
        job = self._receive(event.job, event.work_us) if isinstance(event.job, Job) else event.job
        if job > state.known:
            state.condition(job)
            raise RefusedError(f"submit job {job}: the next one is job {state.known}; jobs come in order")
        if state.condition(job) == UNKNOWN and self._admission.never(job):
            reason = self.too_big(job)
            state.reject(job)
            self.reasons[job] = reason
            return [Reject(job, reason)]
        state.submit(job)
        if self._reserves is not None:
            self._reserve(job)
        return NOTHING

    def _receive(self, job: Job, work_us: int | None, to_be_placed: bool = True) -> int:
        """Take in a job that nobody knew, which the policy is to place or somebody else has; returns its number.

        Raises
        ------
        RefusedError
            Rows of the table that the core was made with are still to come; the policy does not place what the job
            asks for; or it must know how long the job runs and nobody says.
        """
        state, cluster = self.state, self.state.cluster
        if state.known < state.jobs:
            raise RefusedError(f"submit job {job.id}: row {state.known} of the table comes first")
        if self._exact and work_us is None and to_be_placed:
            raise RefusedError(
                f"submit job {job.id}: {self.policy.name} plans on exact run times, and nobody gives its"
            )
        row = one_row(job, work_us)
        try:
            if to_be_placed:
                check_asks(self.policy, cluster, row)
        except (PolicyError, InputError) as error:
            raise RefusedError(f"submit job {job.id}: {error}") from None
        self.store.add(job, row)
        wants, pace = cluster.devices.wanted(row.devices, 1), self._pace(row)
        asks = self._told(row)[:, 0]
        number = state.add_job(asks, wants[:, :, 0], pace.model[:, 0], cluster.places.asked(row.devices, 1)[:, 0])
        self._expected_us.append(int(asks[ESTIMATE]))
        self._admission.add(row, pace)
        return number

    def _decide(self, now: int) -> list[Decision]:
        """Ask the policy once, and do what it decides."""
        self.state.withhold()
        decisions, self.memory = self.policy.decide(self.view, self.memory, now)
        self._commit(decisions, now)
        if self._promised is not None:
            self.state.promises = self._promised(self.view, self.memory)
        return decisions

    def _commit(self, decisions: list[Decision], now: int) -> None:
        """Do all that a plan says, in order; if one decision is refused, nothing was done."""
        if len(decisions) <= 1:
            for decision in decisions:
                self._do(decision, now)
            return
        if (leases := self._exchanges(decisions)) is not None:
            exchange_all(self.state, leases, below=True)
            return
        undo = Undo(self.state, self.state.devices is not None)
        told = {d.job: self._told_of(d.job) for d in decisions if isinstance(d, Requeue)}
        decisions, together = self._parted(decisions)
        done = 0
        try:
            for decision in decisions:
                if isinstance(decision, Resize | Requeue):
                    undo.note(decision.lease.job if isinstance(decision, Resize) else decision.job)
                self._do(decision, now)
                done += 1
            if together and not self._start_many(together, now):
                decisions = decisions + together
                for decision in together:
                    self._do(decision, now)
                    done += 1
        except RefusedError:
            for decision in reversed(decisions[:done]):
                if isinstance(decision, Start):
                    undo.start(decision.lease.job)
                elif isinstance(decision, Resize):
                    undo.exchange(decision.lease.job)
                elif isinstance(decision, Requeue):
                    undo.requeue(decision.job)
                    self._tell_again(decision.job, told[decision.job])
                elif isinstance(decision, Reject):
                    undo.reject(decision.job)
                    del self.reasons[decision.job]
            undo.finish()
            raise

    def _parted(self, decisions: list[Decision]) -> tuple[list[Decision], list[Decision]]:
        """Of a plan that only starts jobs those that hold more than nodes, and the others if they are many."""
        if len(decisions) < MANY or any(type(decision) is not Start for decision in decisions):
            return decisions, []
        plain = [on_nodes_alone(decision.lease) for decision in decisions if type(decision) is Start]
        if sum(plain) < MANY:
            return decisions, []
        others = [decision for decision, alone in zip(decisions, plain, strict=True) if not alone]
        return others, [decision for decision, alone in zip(decisions, plain, strict=True) if alone]

    def _start_many(self, decisions: list[Decision], now: int) -> bool:
        """Start jobs on nodes alone, all at once; whether that was done."""
        leases = [decision.lease for decision in decisions if type(decision) is Start]
        known = len(self._expected_us)
        if not all(0 <= lease.job < known for lease in leases):
            return False
        return start_many(self.state, leases, [self._expected_us[lease.job] for lease in leases], now)

    def _exchanges(self, decisions: list[Decision]) -> list[Lease] | None:
        """The leases of a plan that only exchanges leases of nodes and loans; ``None``: it does something else."""
        leases = []
        for decision in decisions:
            if type(decision) is not Resize or not decision.below or not is_plain(self.state, decision.lease):
                return None
            leases.append(decision.lease)
        return leases if self.state.memory is not None else None

    # --- memory that changes --------------------------------------------------------------------------------------

    def _provision(self, used: Used, now: int) -> list[Decision]:
        """Ask the policy what to change, as long as jobs lack memory and it decides something; stop those that do."""
        for job in used.jobs.tolist():
            if self.state.condition(job) != RUNNING:
                raise RefusedError(f"use of job {job}: it is not running")
        done: list[Decision] = []
        self.state.withhold()
        while self._adjusts is not None:
            step, self.memory = self._adjusts(self.view, self.memory, used, now)
            self._commit(step, now)
            done += self._reserved(step)
            held = {decision.job for decision in step if isinstance(decision, Hold)}
            left = [i for i in self._lacking(used) if int(used.jobs[i]) not in held] if used.lacking else []
            if not left:
                return done
            used = used if len(left) == len(used.jobs) else used.of(left)
            if not any(isinstance(decision, Requeue | Hold) for decision in step):
                break
        for job in used.jobs[self._lacking(used)].tolist() if used.lacking else ():
            reason = Reason(Code.OUT_OF_MEMORY, "MB" if self._adjusts else "MB: more than it asked for")
            stopped: list[Decision] = [Requeue(job, reason)]
            if self._adjusts is None:
                stopped.append(Reject(job, reason))  # it would need as much again
            for decision in stopped:
                self._do(decision, now)
            done += self._reserved(stopped)
        return done

    def _lacking(self, used: Used) -> list[int]:
        """Which of these jobs run and lack memory, by their places."""
        state, found = self.state, []
        for i, job in enumerate(used.jobs.tolist()):
            if state.condition(job) == RUNNING and lacks(state.lease(job), used.mb[used.first[i] : used.first[i + 1]]):
                found.append(i)
        return found

    def _reserved(self, decisions: list[Decision]) -> list[Decision]:
        """The same; who was stopped and waits again is to be given as much as the policy now says."""
        for decision in decisions if self._reserves is not None else ():
            if isinstance(decision, Requeue) and self.state.condition(decision.job) == QUEUED:
                self._reserve(decision.job)
        return decisions

    def _reserve(self, job: int) -> None:
        """A waiting job is to be given as much memory as the policy says."""
        asked = self.jobs.memory_mb[job] if job < len(self.jobs) else self.store.job(job).demand.memory_mb
        self.state.asks[MEMORY, job] = self._reserves(self.view, self.memory, job, int(asked))  # type: ignore[misc]

    def _told_of(self, job: int) -> tuple[int | None, ...]:
        """What is kept of a job's expected run time."""
        expected = self._expected_us[job] if 0 <= job < len(self._expected_us) else None
        return expected, self._whole_us.get(job), self._before_us.get(job)

    def _tell_again(self, job: int, told: tuple[int | None, ...]) -> None:
        """Restore what :meth:`_told_of` gave."""
        expected, *others = told
        if expected is not None:
            self._expected_us[job] = expected
        for kept, value in zip((self._whole_us, self._before_us), others, strict=True):
            if value is None:
                kept.pop(job, None)
            else:
                kept[job] = value

    def _do(self, decision: Decision, now: int) -> None:
        """Do what one decision says, or nothing."""
        if type(decision) is not Start:
            self._apply(decision, now)
            return
        lease = decision.lease
        job = lease.job
        # of a number that no job has the state says so
        self.state.start(lease, self._expected_us[job] if 0 <= job < len(self._expected_us) else 0, now)

    def begin_anew(self) -> None:
        """Let the policy make its memory again, from the jobs that run and wait now."""
        self.memory = self.policy.begin(self.view)

    def refused(self) -> NDArray[np.bool_]:
        """bool[jobs]: of the rows of its table, which are rejected when they are submitted."""
        return self._admission.all_never()

    def booked_us(self, job: int) -> int:
        """How long a job is expected to run when nothing slows it down, as the policy was told, µs."""
        return self._expected_us[job]

    def expects_end(self, job: int, now: int) -> bool:
        """Whether the policy expects a running job to end right now; asked of policies that learn run times."""
        foresee = self._foresees
        expected = self.state.booked_end(job) if foresee is None else foresee(self.view, self.memory, job, now)
        return bool(expected == now)

    def next_round(self, now: int) -> int | None:
        """When the policy wants a :class:`Round` next even if nothing happens, µs; ``None``: only on events.

        Raises
        ------
        RefusedError
            It asks for a time that is not after ``now``, or for what is no time.
        """
        wanted: Any = self.policy.next_round(self.view, self.memory, now)
        if wanted is None:
            return None
        if type(wanted) is not int:
            if not isinstance(wanted, np.integer):
                got = f"{wanted!r:.100} ({type(wanted).__name__})"
                raise RefusedError(f"policy {self.policy.name} asks for a round at {got}, which is no time in whole µs")
            wanted = int(wanted)
        if wanted <= now:
            raise RefusedError(f"policy {self.policy.name} asks for a round at {wanted} µs, and it is {now} µs")
        return int(wanted)

    def why(self, job: int, now: int) -> Reason:
        """Why a job is not running: asked after a round."""
        if job in self.reasons and self.state.conditions[job] == REJECTED:
            return self.reasons[job]
        return self.policy.why(self.view, self.memory, job, now)

    def begins_us(self, job: int, now: int) -> int:
        """When a job that has just started begins to work: later than ``now`` while its devices are being attached."""
        devices = self.state.devices
        if devices is None or not devices.asking[job]:
            return now
        return max(now, int(devices.columns.clock[SINCE_US, job]))

    def groups(self, lease: Lease) -> tuple[int, ...]:
        """The number, its own in the run, of the composition or split device behind each share of a running lease."""
        devices = self.state.devices
        assert devices is not None
        return tuple(int(devices.columns.group[SERIAL, min(share.devices)]) for share in lease.shares)

    def too_big(self, job: int) -> Reason:
        """In what a job is bigger than the whole cluster."""
        return self._admission.reason(job, one_row(self.store.job(job), None))

    def _apply(self, decision: Decision, now: int) -> None:
        state = self.state
        if isinstance(decision, Resize):
            job = decision.lease.job
            if state.condition(job) != RUNNING:
                raise RefusedError(f"resize job {job}: it is not running")
            state.apply(decision.lease, 0, now, decision.below)
        elif isinstance(decision, Requeue):
            self._requeue(decision, now)
        elif isinstance(decision, Reject):
            if state.condition(decision.job) != QUEUED:
                raise RefusedError(f"reject job {decision.job}: it is not queued")
            state.reject(decision.job)
            self.reasons[decision.job] = decision.reason
        elif isinstance(decision, Hold):
            if state.condition(decision.job) != RUNNING:
                raise RefusedError(f"hold job {decision.job}: it is not running")
        else:
            raise RefusedError(f"policy {self.policy.name} decided {decision!r}, which is not a decision")

    def _requeue(self, decision: Requeue, now: int) -> None:
        """Queue a running job again: whole, or with the work that is left of it."""
        job, state = decision.job, self.state
        left_us = state.left_us(job, now)
        state.release(job, now, UNKNOWN)
        state.submit(job)
        if decision.keep_work:
            self._before_us[job] = self._expected_us[job]
            self._whole_us.setdefault(job, self._expected_us[job])
            self._expect(job, left_us)
        elif job in self._whole_us:
            del self._before_us[job]
            self._expect(job, self._whole_us.pop(job))

    def _expect(self, job: int, time_us: int) -> None:
        """Change how long a job is expected to run when nothing slows it down."""
        self._expected_us[job] = time_us
        self.state.asks[ESTIMATE, job] = time_us

    def _fail(self, event: Failed, now: int) -> list[Decision]:
        decisions: list[Decision] = []
        nodes = sorted(event.nodes)
        found = struck(self.state, nodes)
        for node in nodes:
            what = f"node {node}" + (f" with {event.domain}" if event.domain not in ("", f"node{node}") else "")
            for job in found.get(node, ()):
                decision = Requeue(job, Reason(Code.NODE_FAILED, what))
                self._requeue(decision, now)
                decisions.append(decision)
            self.state.drain(node)
        return decisions
