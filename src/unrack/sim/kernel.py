"""The simulated world: a heap of events, and jobs of which the speed may change while they run.

Events at one time come in the order of the tie rule. ``together`` (the default): ends, failures, repairs, submissions,
then one round. ``finish-first`` and ``submit-first``: every event gets a round of its own; ends before submissions, or
submissions before ends. Under ``submit-first`` a job that has run for exactly as long as the policy was told to expect
gives back what it holds before the submissions of that time, as in simulators that plan on booked ends, and gets its
round after them, in the order of the starts of all jobs that end then. Under a policy that learns run times, its own
prediction of the end counts, and it learns from the run in the round after the submissions.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil

from unrack import events
from unrack.core import Core
from unrack.errors import RunError
from unrack.ledger.columns import plain
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Estimates, Hold, Reject, Requeue, Resize, Resume, Start, Suspend
from unrack.reasons import Code
from unrack.sim.compiled.columns import ROUND_ONLY
from unrack.sim.compiled.kinds import stretch_of
from unrack.sim.faults import Outages, Windows
from unrack.sim.frames.power import Switched
from unrack.sim.graph import Graph
from unrack.sim.log import RunLog, log_of
from unrack.sim.recorder import Outcome, Recorder, Span
from unrack.sim.usage.following import Following, MemoryChanges
from unrack.sim.world import NOTHING_SPECIAL, Ties, Work, World
from unrack.slowdown.combined import Undisturbed
from unrack.units import NEVER_US
from unrack.workload.job import Job, JobTable
from unrack.workload.standing import standing_leases

FINISHED_OUTCOME = Outcome.FINISHED
OUTCOMES = {Code.NODE_FAILED: Outcome.NODE_FAILED, Code.OUT_OF_MEMORY: Outcome.OUT_OF_MEMORY}
"""Reason of a stop → how the attempt ended; others: preempted."""
Entry = tuple[int, int, int, int, int]
"""Time, rank, sequence; then a job and the version of its plan (ROUND_ONLY: it has given back what it held already), or
the number of a fault."""


class Kernel:
    """One run: drives a core with simulated events.

    Parameters
    ----------
    core
        What decides.
    world
        How fast jobs run, what fails, what changes cost.
    jobs
        What arrives, at a core that was made without jobs; ``None``: the rows of the core's own table.
    """

    def __init__(self, core: Core, world: World = NOTHING_SPECIAL, jobs: JobTable | None = None) -> None:
        self.core = core
        self.ties = world.ties
        self.jobs = core.jobs if jobs is None else jobs
        self.shown = jobs is None
        self.slowdown, self.memory_speeds = world.slowdown(core.state.cluster, self.jobs)
        core.view.contention = self.memory_speeds
        self.changes = world.changes or MemoryChanges()
        self.work_us = self.changes.whole_us(self.jobs.work_us)
        self.submit, self.work = plain(self.jobs.submit_us), plain(self.work_us)
        self.version = [0] * len(self.submit)
        self.running: dict[int, tuple[int, Lease]] = {}
        self.earlier: dict[int, list[Span]] = {}
        self.rule, self.groups = dict[int, str](), dict[int, tuple[int, ...]]()
        self.kept_work, self.standing = dict[int, float](), set[int]()
        self.works, self.recorder = Work(), Recorder()
        self.heap, self.sequence, self.leaving = list[Entry](), 0, list[tuple[int, ...]]()
        self.following: Following | None = None
        self.paused: dict[int, int] = {}  # suspended job → how much longer its devices were being attached, µs
        if (usage := self.jobs.usage) is not None and core.state.memory is not None:
            self.slowdown = self.slowdown or Undisturbed()
            self.following = Following(self, usage)
        self.graph, self.switched = Graph.of(self), Switched.of(self)
        self.outages, self.windows = Outages(self, world.faults), Windows(self)

    def push(self, time: int, rank: int, what: int, version: int) -> None:
        """Put an event on the heap."""
        self.sequence += 1
        heappush(self.heap, (time, rank, self.sequence, what, version))

    # --- the loop -----------------------------------------------------------------------------------------------

    def run(
        self, progress: Callable[[int, int], None] | None = None, after_round: Callable[[int], None] | None = None
    ) -> RunLog:
        """Run until every job has ended, or until nothing is left that could start one.

        ``progress``: told now and then how many jobs have been submitted, of how many; ``after_round``: told the time
        after every round.
        """
        heap, submit, state = self.heap, self.submit, self.core.state
        together = self.ties == Ties.TOGETHER
        count, i, now, wake, idle = len(submit), self.take_over(), 0, NEVER_US, 0
        plain_run = after_round is None and type(self) is Kernel and self.following is None and self.graph is None
        plain_run = plain_run and not state.components.of
        stretch = stretch_of(self) if plain_run else None
        while i < count or self.running or state.queue_start != state.queue_end or (self.graph and self.graph.due):
            next_submit = submit[i] if i < count else NEVER_US
            time = min(heap[0][0] if heap else NEVER_US, next_submit, wake)
            if stretch is not None and stretch.worthwhile(time, i):
                i, now, wake = stretch.run(i, now, wake, progress)
                continue
            if time == NEVER_US:
                break
            now = time
            something = False
            while heap and heap[0][0] == now and not (something and not together):
                if heap[0][1] > events.SUBMIT and next_submit == now:
                    break
                something = self.happen(heappop(heap), now) or something
            while next_submit == now and not (something and not together):
                self.arrive(i, now)
                i += 1
                something = True
                next_submit = submit[i] if i < count else NEVER_US
                if progress is not None and i % 4096 == 0:
                    progress(i, count)
            if self.following is not None and self.following.held:
                something = self.following.ask_again(now) or something
            if something or wake <= now:
                wake = self.round(now)
                idle = 0 if something or heap or self.running else idle + 1
                wake = wake if idle < 100_000 else NEVER_US  # no job runs or comes, and it decides nothing: forever
                if after_round is not None:
                    after_round(now)
        if progress is not None:
            progress(count, count)
        return self.log(now)

    def arrive(self, job: int, now: int) -> None:
        """A job is submitted."""
        graph = self.graph
        if job in self.core.waits_for_first:
            self.core.handle(events.Held(*self.told(job)), now)
        elif (
            (graph is None or graph.arrives(job, now))
            and self.core.handle(events.Submitted(*self.told(job)), now)
            and graph
        ):
            graph.ended(job, now, well=False)

    def told(self, job: int) -> tuple[Job | int, int | None]:
        """As of :class:`Submitted`."""
        return (job, None) if self.shown else (self.jobs.job(job), self.work[job])

    def take_over(self) -> int:
        """Hand over the jobs that run when the run begins, and the nodes that drain then; returns how many jobs."""
        leases = standing_leases(self.core.state.cluster, self.jobs)
        for job, lease in enumerate(leases):
            assert lease.job == job  # they are the first of the table
            now, ran_us = self.submit[job], int(self.jobs.standing.ran_us[job])
            told, work_us = self.told(job)
            self.core.handle(events.Adopted(told, lease, self.expected_us(job), work_us), now)
            self.kept_work[job] = self.work[job] - ran_us
            self.standing.add(job)
            if self.graph is not None:
                self.graph.started(job, now - ran_us)
            self.begin(lease, now)
        if drained := self.core.state.cluster.drained:
            self.core.handle(events.Drained(drained), self.submit[0] if len(self.submit) else 0)
        if leases:
            self.core.begin_anew()
        return len(leases)

    def expected_us(self, job: int) -> int:
        """How much longer a job that runs when the run begins is expected to run, µs: what is left of its request."""
        jobs = self.jobs
        whole_us = jobs.work_us if self.core.traits.estimates == Estimates.EXACT else jobs.request_us
        return max(0, int(whole_us[job]) - int(jobs.standing.ran_us[job]))

    def round(self, now: int) -> int:
        """Ask the policy and carry out what it decides; returns when it wants to be asked again."""
        self.windows.drop_late(now)
        decisions = self.core.handle(events.ROUND, now)
        if decisions:
            self.carry_out(decisions, now)
        wanted = self.core.next_round(now)
        return NEVER_US if wanted is None else wanted

    def happen(self, entry: Entry, now: int) -> bool:
        """Let an event from the heap happen; False if it is out of date or needs no round."""
        _, rank, sequence, what, version = entry
        if rank == events.RELEASE:
            return self.graph is not None and self.graph.release(what, now)
        if rank == events.CLOSE:
            return self.windows.change(what, version, now)
        if rank in (events.FAIL, events.REPAIR):
            return (self.outages.begin if rank == events.FAIL else self.outages.end)(what, now)
        if rank == events.DETACH:
            self.core.handle(events.Detached(self.leaving[what]), now)
            return True
        if rank in (events.LACK, events.MONITOR):
            assert self.following is not None
            return self.following.look(now) if rank == events.MONITOR else self.following.lack(what, version, now)
        if version == ROUND_ONLY:
            if self.core.learns:
                self.core.handle(events.Finished(what), now)
            return True
        if self.version[what] != version:
            return False
        early = rank == events.BOOKED and self.core.learns
        if early and not self.core.expects_end(what, now):
            heappush(self.heap, (now, events.LATE_FINISH, sequence, what, version))
            return False
        lease = self.end(what, now, FINISHED_OUTCOME)
        self.core.handle(events.Vacated(what) if early else events.Finished(what), now)
        if self.graph is not None:
            self.graph.ended(what, now)
        if self.slowdown is not None:
            self.update_speeds(lease, now)
        if lease.shares:
            self.detach()
        if rank == events.BOOKED:  # its round keeps its place among the ends of this moment
            heappush(self.heap, (now, events.LATE_FINISH, sequence, what, ROUND_ONLY))
            return False
        return True

    # --- jobs ---------------------------------------------------------------------------------------------------

    def carry_out(self, decisions: list[Decision], now: int) -> None:
        """Turn decisions into future events."""
        for decision in decisions:
            if type(decision) is Start:
                self.begin(decision.lease, now)
                if decision.rule:
                    self.rule[decision.lease.job] = decision.rule
            elif isinstance(decision, Requeue):
                self.stop(decision, now)
            elif isinstance(decision, Reject) and self.graph is not None:
                self.graph.ended(decision.job, now, well=False)
            elif isinstance(decision, Resize):
                self.exchange(decision.lease, now)
            elif isinstance(decision, Suspend | Resume):
                self.pause(decision, now)
            elif isinstance(decision, Hold):
                assert self.following is not None
                self.following.hold(decision.job, decision.keep_work, now)

    def begin(self, lease: Lease, now: int) -> None:
        """A job runs with a lease from now on."""
        lease.rows.flags.writeable = False  # the log keeps them
        job = lease.job
        self.running[job] = (now, lease)
        if self.graph is not None:
            self.graph.started(job, now)
        work = self.kept_work.get(job, self.work[job]) if self.kept_work else self.work[job]
        if lease.shares:
            self.groups[job] = self.core.state.groups(lease)
        if self.slowdown is None:
            self.plan_end(job, now + ceil(work), now)
        else:
            ready_us = now if self.switched is None else self.switched.ready_us(lease, now)
            self.works.start(job, work, max(ready_us, self.core.state.begins_us(job, now)))
            self.update_speeds(lease, now, job)
            if self.following is not None:
                self.following.plan(job, now)

    def exchange(self, lease: Lease, now: int) -> None:
        """A running job holds another lease from now on."""
        start, before = self.running[lease.job]
        spans = self.earlier.setdefault(lease.job, [])
        since = spans[-1].end_us if spans else start
        if since < now:  # what lasted no time was not held
            spans.append(Span(since, now, before))
        self.running[lease.job] = (start, lease)
        if self.following is None or self.slowdown is None or self.slowdown.feels(before, lease):
            self.update_speeds(before, now)
            self.update_speeds(lease, now)
        for part in (self.following, self.switched):
            if part is not None:
                part.exchanged(before, lease, now)

    def pause(self, decision: Suspend | Resume, now: int) -> None:
        """A job was suspended, or goes on."""
        raise RunError(f"job {decision.job} cannot be suspended: the site says nothing of that")

    def plan_end(self, job: int, time: int, now: int) -> None:
        """Plan the end of a running job."""
        rank = events.FINISH
        if self.ties == Ties.SUBMIT_FIRST:
            expected_us = self.expected_us(job) if job in self.standing else self.core.state.expected_us[job]
            booked = self.core.learns or time == self.running[job][0] + expected_us
            rank = events.BOOKED if booked and time > now else events.LATE_FINISH
        self.push(time, rank, job, self.version[job])

    def end(self, job: int, now: int, outcome: Outcome) -> Lease:
        """Note that an attempt has ended; returns what it held."""
        start, lease = self.running.pop(job)
        self.version[job] += 1
        if self.standing and job in self.standing:
            self.standing.remove(job)
            if outcome == FINISHED_OUTCOME:
                del self.kept_work[job]
        for part in (self.following, self.switched):
            if part is not None:
                part.ended(lease, now)
        if self.slowdown is not None:
            self.works.stop(job)
        if self.earlier and (spans := self.earlier.pop(job, [])):
            if spans[-1].end_us < now:
                spans.append(Span(spans[-1].end_us, now, lease))
            self.recorder.changed_attempt(job, now, outcome, spans, self.groups.pop(job, ()))
        else:
            self.recorder.ended(lease, start, now, outcome, self.groups.pop(job) if lease.shares else ())
        if self.rule:
            self.recorder.placed(job, self.rule.pop(job, ""))
        return lease

    def detach(self) -> None:
        """Plan the moments at which devices that are being detached are free again."""
        devices = self.core.state.devices
        if devices is not None and devices.leaving:
            for leaving in devices.leaving:
                self.leaving.append(leaving.devices)
                self.push(leaving.until_us, events.DETACH, len(self.leaving) - 1, 0)
            devices.leaving.clear()

    def stop(self, decision: Requeue, now: int) -> None:
        """A job was stopped; the core has queued it again already."""
        job = decision.job
        code, at_start = decision.reason.code, self.kept_work.get(job, float(self.work[job]))
        left = stopped_at = self.works.left(job, now) if self.slowdown else at_start - (now - self.running[job][0])
        if decision.keep_work:
            if self.changes.decide_what_is_kept(code):
                returned = job in self.kept_work and job not in self.standing
                left = self.changes.left_us(self.work[job], at_start, left, returned)
            self.kept_work[job] = left
            if self.slowdown or left > stopped_at:  # a checkpoint has kept less
                self.core.handle(events.Kept(job, int(at_start - left)), now)
        else:
            self.kept_work.pop(job, None)
        lost_us = max(0, int(self.kept_work.get(job, float(self.work[job])) - stopped_at))
        if code == Code.PREEMPTED:
            self.recorder.preemption(decision.reason, lost_us, len(self.running[job][1].parts))
        elif code == Code.OUT_OF_MEMORY and self.following is not None:
            self.following.note_stop(decision.reason, lost_us)
        self.update_speeds(self.end(job, now, OUTCOMES.get(code, Outcome.PREEMPTED)), now)
        self.detach()

    def update_speeds(self, lease: Lease, now: int, started: int = -1) -> None:
        """After a lease came, went or changed: new speeds, and new ends, for the jobs that this touches.

        ``started``: a job that has just started: its end is planned whatever its speed.
        """
        if self.slowdown is None:
            return
        held = self.paused if self.following is None else self.following.held
        jobs = self.slowdown.touched(self.core.view, lease)
        speeds = self.slowdown.speeds(self.core.view, jobs).tolist() if len(jobs) else ()
        for job, speed in zip(jobs.tolist(), speeds, strict=True):
            if job not in self.running:
                continue
            if not speed > 0:
                raise RunError(f"the slowdown model gives job {job} the speed {speed}, wanted a number above 0")
            if self.works.change_speed(job, speed, now) and job != started and job not in held:
                self.version[job] += 1
                self.plan_end(job, max(now, self.works.end_us(job)), now)
                if self.following is not None:
                    self.following.plan(job, now)
        if started >= 0:
            self.plan_end(started, max(now, self.works.end_us(started)), now)

    def log(self, now: int) -> RunLog:
        """What happened, with the reasons of those that never started."""
        return log_of(self, now)
