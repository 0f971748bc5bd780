"""One turn: what a reading shows, told to the core as events in one total order, and what the policy then decides.

The order is: nodes that are back; jobs that ended, stopped or went away; starts that were acknowledged; jobs that
others started; nodes that drain; jobs that came. Within each, in the order in which the driver came to know the jobs,
and of new ones by submission, number and member.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.errors import RefusedError
from unrack.events import (
    Adopted,
    Drained,
    Expected,
    Finished,
    Repaired,
    Started,
    StartFailed,
    Submitted,
    Withdrawn,
)
from unrack.ledger.lease import CORES, FIRST, LOCAL_MB, NODES, TASKS, Lease
from unrack.ledger.state import QUEUED, RUNNING
from unrack.live.records import job_of_record, job_record
from unrack.live.slurm.driver.entry import HOLDS, INTENDED, Entry, Phase
from unrack.live.slurm.driver.epoch import Epoch, Round
from unrack.live.slurm.driver.seen import Member, Take, is_in, members, not_now
from unrack.live.slurm.driver.table import Table
from unrack.live.slurm.driver.terms import Problem, Terms
from unrack.live.slurm.portable import Names
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.policy.contract import Decision, Reject, Requeue, Resize, Start
from unrack.reasons import Code, Reason
from unrack.resources.places import NO_CLAIMS
from unrack.units import SECOND_US
from unrack.workload.job import Job

LATER_US = 30 * SECOND_US
"""How much longer a job that runs beyond its expected end is expected to run, again and again."""
FORGOTTEN = (
    "it has run and ended, by the journal, and Slurm's controller forgot that: cancel it, or requeue it to run again"
)
SLOWEST_RETRY_US = 300 * SECOND_US
APART = "spread"
"""The resource that keeps tasks of a group apart; a job's own group makes that one task a node."""


class Turn:
    """One turn of the driver.

    Parameters
    ----------
    epoch, table, terms
        Who is told, what is known, what was agreed on.
    now
        The driver's time, µs.
    missed
        The jobs that were not in the reading before: one that is missing twice is gone.

    Attributes
    ----------
    counts
        What happened, for those who watch: words → how often.
    over
        Records of the jobs that are over, as they were last known.
    missing
        The jobs that are not in this reading.
    troubles
        Jobs whose start did not come about, and why.
    steps
        Of jobs whose first start was acknowledged: when they came, were decided, released and seen to run, µs.
    keep_apart
        True: a job has tasks that the present epoch cannot keep apart.
    """

    def __init__(
        self, epoch: Epoch, table: Table, terms: Terms, now: int, missed: frozenset[str] = frozenset()
    ) -> None:
        self.epoch, self.table, self.terms, self.now, self.missed = epoch, table, terms, now, missed
        self.counts: dict[str, int] = {}
        self.over: list[dict[str, Any]] = []
        self.missing: set[str] = set()
        self.troubles: list[tuple[str, str]] = []
        self.steps: list[tuple[int, int, int, int]] = []
        self.wall_s = 0.0
        self.keep_apart = False

    # --- a reading ------------------------------------------------------------------------------------------------

    def read(self, reading: Reading) -> None:
        """Tell the core what has changed since the reading before."""
        self.wall_s = reading.at_s
        found = {str(member.key): member for member in members(reading)}
        self._nodes_back(reading)
        known = self.table.in_phase(tuple(Phase))
        for entry in known:
            self._ended(entry, found.get(entry.key), reading)
        for entry in known:
            if self.table.get(entry.key) is entry:
                self._going_on(entry, found.get(entry.key), reading)
        new = [member for key, member in found.items() if self.table.get(key) is None]
        new.sort(key=lambda member: (member.job.submit_s, member.key.id, member.key.member))
        for member in new:
            if member.job.runs:
                self._foreign(member)
        self._nodes_that_drain(reading)
        for member in new:
            if member.job.waits and not member.job.is_held and str(member.key) in self.table.ended:
                self._come_back(member)
        for member in new:
            if member.job.waits and member.job.is_held and is_in(member.job, self.terms.partitions):
                self._come(member, reading)

    def _nodes_back(self, reading: Reading) -> None:
        state, names = self.epoch.core.state, self.epoch.names
        for node in reading.nodes:
            number = names.node_of.get(node.name, -1)
            if number >= 0 and node.usable and (not state.online[number] or number in state.withheld):
                self.epoch.tell(Repaired((number,)), self.now)
                self._count("node-back")

    def _nodes_that_drain(self, reading: Reading) -> None:
        state, names = self.epoch.core.state, self.epoch.names
        seen = {node.name: node for node in reading.nodes}
        for number, name in enumerate(names.nodes):
            gone = name not in seen or not seen[name].usable
            if gone and state.online[number] and number not in state.withheld:
                self.epoch.tell(Drained((number,)), self.now)
                self._count("node-drained")

    # --- jobs that end, stop or go away -----------------------------------------------------------------------------

    def _ended(self, entry: Entry, member: Member | None, reading: Reading) -> None:
        """Whatever gives something back, or takes a job out of the queue."""
        job = None if member is None else member.job
        if job is None and entry.key not in self.missed:
            self.missing.add(entry.key)
            return
        if job is not None and not job.waits and not job.runs:
            entry.state, entry.end_s, entry.start_s = job.state, job.end_s, job.start_s or entry.start_s
        elif job is None:
            entry.state = entry.state or "GONE"
        over = job is None or (not job.waits and not job.runs)
        if over:
            self._over(entry, job)
        elif job is not None and job.waits and entry.phase in (Phase.RUNNING, Phase.FOREIGN):
            self._queued_again(entry, job)
        elif job is not None and job.waits and entry.phase == Phase.RECALLING and job.is_held:
            self.give_up(entry, entry.why or "not started in time")
        elif job is not None and entry.phase == Phase.WAITING:
            self._still_wanted(entry, job, member, reading)

    def _over(self, entry: Entry, job: SlurmJob | None) -> None:
        """A job has ended, was cancelled, or is not known to Slurm any more."""
        if entry.phase in (Phase.RELEASED, Phase.ORDERING, Phase.RECALLING) and job is not None and _ran(job):
            self._acknowledge(entry, job)
        if entry.phase == Phase.DETACHING:
            return
        if entry.phase in HOLDS and entry.operations:
            entry.ended_us = self.now
            self.table.move(entry, Phase.DETACHING, "ended" if entry.phase == Phase.RUNNING else "withdrawn")
            return
        self.close(entry)

    def close(self, entry: Entry) -> None:
        """Tell the core that a job is over, and forget it."""
        if entry.number >= 0:
            status = self.epoch.core.state.conditions[entry.number]
            ran = entry.phase in (Phase.RUNNING, Phase.FOREIGN) or entry.why == "ended"
            if status == RUNNING and ran and entry.state not in ("CANCELLED", "NODE_FAIL", "GONE"):
                self.epoch.tell(Finished(entry.number), self.now)
            elif status in (RUNNING, QUEUED):
                self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, entry.state.lower())), self.now)
        entry.freed_us = self.now
        if entry.ended_us < 0:
            entry.ended_us = self.now
        self._count("ended" if entry.phase != Phase.FOREIGN else "foreign-ended")
        self.table.touch(entry)
        self.over.append(entry.record())
        self.table.end(entry)

    def _queued_again(self, entry: Entry, job: SlurmJob) -> None:
        """A running job waits again: somebody requeued it, or its node failed."""
        if entry.phase == Phase.FOREIGN:
            self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, "requeued")), self.now)
            self.table.number(entry, -1)
            entry.lease = None
            if not entry.ours:
                self.table.drop(entry)
                return
        self._count("requeued")
        entry.state, entry.restarts = "", job.restarts
        if job.is_held:
            self.give_up(entry, "requeued", failed=False)
        else:
            self.table.move(entry, Phase.RECALLING, "requeued by Slurm")

    def give_up(self, entry: Entry, why: str, failed: bool = True) -> None:
        """A start that was decided did not come about, or was undone: the job waits again."""
        if entry.operations:
            entry.state = ""
            self.table.move(entry, Phase.DETACHING, f"failed: {why}" if failed else f"stopped: {why}")
            return
        self.back(entry, why, failed)

    def back(self, entry: Entry, why: str, failed: bool = True) -> None:
        """The job waits again, at its old place; after several failures not at once."""
        if entry.number >= 0 and self.epoch.core.state.conditions[entry.number] == RUNNING:
            self.epoch.tell(StartFailed(entry.number, Reason(Code.START_FAILED, why[:200])), self.now)
        entry.lease, entry.decided_us, entry.released_us, entry.started_us, entry.start_s = None, -1, -1, -1, 0
        if entry.number < 0:  # it came back after its end: the core does not know it
            self.table.move(entry, Phase.ASIDE, why[:300])
            return
        entry.tries = entry.tries + 1 if failed else 0
        if failed:
            self._count("start-failed")
            self.troubles.append((entry.key, why))
        if entry.tries >= 2:
            entry.again_us = self.now + min(2 ** min(entry.tries, 20) * SECOND_US, SLOWEST_RETRY_US)
            self._aside(entry, f"its start failed {entry.tries} times: {why}"[:300])
        else:
            self.table.move(entry, Phase.WAITING, why[:300])

    def _aside(self, entry: Entry, why: str) -> None:
        """Take a waiting job out of the queue."""
        if entry.number >= 0 and self.epoch.core.state.conditions[entry.number] == QUEUED:
            self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, why[:200])), self.now)
        self.table.number(entry, -1)
        self.table.move(entry, Phase.ASIDE, why)

    def _still_wanted(self, entry: Entry, job: SlurmJob, member: Member | None, reading: Reading) -> None:
        """A job that waits in the core: it may be held by its user, changed, or started by somebody else."""
        assert member is not None
        if not job.waits or not job.is_held:
            self._count("taken-away")
            self._aside(entry, "somebody else released it")
            self.table.drop(entry)
            return
        asked = self._asks(entry, member)
        why = self._no(job, reading)
        if not is_in(job, self.terms.partitions):
            self._aside(entry, "moved to another partition")
            self.table.drop(entry)
        elif why or isinstance(asked, Problem):
            self._aside(entry, why or asked.why)  # type: ignore[union-attr]  # the line above says so
            self._until(entry, job, reading)
        elif job_record(asked) != entry.job:
            self._aside(entry, "changed")
            self._submit(entry, member)

    # --- jobs that go on ------------------------------------------------------------------------------------------

    def _going_on(self, entry: Entry, member: Member | None, reading: Reading) -> None:
        """Starts that were acknowledged or come too late, limits that changed, jobs that may be started now."""
        if member is None:
            return
        job = member.job
        if entry.phase in INTENDED and job.runs:
            self._acknowledge(entry, job)
        elif entry.phase == Phase.RELEASED and job.is_held:
            self.table.move(entry, Phase.RECALLING, f"held again ({job.reason})"[:300])
        elif entry.phase == Phase.RELEASED and self.now - entry.released_us > self.terms.start_timeout_us:
            self._count("timed-out")
            why = f"Slurm did not start it in {self.terms.start_timeout_us // SECOND_US} s ({job.reason})"
            self.table.move(entry, Phase.RECALLING, why)
        elif entry.phase in (Phase.RUNNING, Phase.FOREIGN) and job.runs:
            self._runs(entry, job)
        elif entry.phase == Phase.STOPPING and job.waits and job.is_held:
            self._stopped(entry)
        elif entry.phase == Phase.ASIDE:
            self._from_aside(entry, member, reading)

    def _stopped(self, entry: Entry) -> None:
        """A job that the policy stopped waits in Slurm, too; the policy may have decided its next start already."""
        if entry.operations:
            self.table.move(entry, Phase.DETACHING, "stopped: by the policy")
        elif entry.decided_us >= 0:
            self.table.move(entry, self._first_phase(entry))
        else:
            self.table.move(entry, Phase.WAITING)

    @staticmethod
    def _first_phase(entry: Entry) -> Phase:
        """What the start of a job begins with."""
        return Phase.ATTACHING if entry.lease is not None and entry.lease.get("shares") else Phase.ORDERING

    def _acknowledge(self, entry: Entry, job: SlurmJob) -> None:
        """Slurm reports the start of a job."""
        entry.start_s, entry.restarts, entry.state = job.start_s, job.restarts, ""
        planned, held = set(entry.nodes), set(job.holds)
        some_left = job.completing and held <= planned  # it has ended, and is seen for the first time
        if job.runs and held and planned != held and not some_left:
            self._elsewhere(entry, job)
            return
        entry.started_us, entry.tries = self.now, 0
        entry.limit_s = -1 if job.limit_s is None else job.limit_s
        self.epoch.tell(Started(entry.number), self.now)
        self.table.move(entry, Phase.RUNNING)
        self._count("started")
        if entry.restarts == 0 and entry.released_us >= 0:
            self.steps.append((entry.seen_us, entry.decided_us, entry.released_us, self.now))

    def _elsewhere(self, entry: Entry, job: SlurmJob) -> None:
        """Somebody made a job run on other nodes than those that were decided: it holds what it holds."""
        self._count("started-elsewhere")
        self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, "started elsewhere")), self.now)
        self.table.number(entry, -1)
        self._adopt(entry, job)
        entry.ours = True

    def _runs(self, entry: Entry, job: SlurmJob) -> None:
        """A running job: its limit may have changed, it may run beyond it, and more may be free for what it holds."""
        limit_s = -1 if job.limit_s is None else job.limit_s
        if limit_s != entry.limit_s:
            entry.limit_s = limit_s
            self.table.touch(entry)
            self.epoch.tell(Expected(entry.number, self.now + self._left_us(entry)), self.now)
        if entry.short and self._has_room(entry):
            self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, "counted anew")), self.now)
            self._adopt(entry, job)

    def _has_room(self, entry: Entry) -> bool:
        """True if something is free on the nodes of a job."""
        names, free = self.epoch.names.node_of, self.epoch.core.state.free
        return any(bool(free[:, names[node]].any()) for node in entry.nodes if node in names)

    def late(self) -> None:
        """Expect the ends of jobs that run beyond theirs a little later."""
        state = self.epoch.core.state
        count = state.running_count
        for number, end in zip(state.running[1, :count].tolist(), state.running[0, :count].tolist(), strict=True):
            if end > self.now:
                break
            self.epoch.tell(Expected(number, self.now + LATER_US), self.now)

    def _left_us(self, entry: Entry) -> int:
        """How much longer a job may run: by its limit, or, until its start is acknowledged, by what it asked."""
        if entry.started_us < 0 and "request" in entry.job:
            return int(entry.job["request"])
        limit = self.terms.longest_us if entry.limit_s < 0 else entry.limit_s * SECOND_US
        ran = self.now - entry.started_us if entry.started_us >= 0 else 0
        return max(limit - ran, SECOND_US)

    def _from_aside(self, entry: Entry, member: Member, reading: Reading) -> None:
        """A job that was not to be started may be now; or somebody else has started it."""
        job = member.job
        if job.runs or not job.is_held or not is_in(job, self.terms.partitions):
            self.table.drop(entry)
            if job.runs:
                self._foreign(member)
            return
        if entry.why == FORGOTTEN and job.restarts <= entry.restarts:
            return
        if self.now >= entry.again_us and not self._no(job, reading):
            asked = self._asks(entry, member)
            if isinstance(asked, Problem):
                if asked.why != entry.why:
                    self.table.move(entry, Phase.ASIDE, asked.why)
            elif job_record(asked) != entry.job or not entry.why.startswith("rejected"):
                self._submit(entry, member)

    def _no(self, job: SlurmJob, reading: Reading) -> str:
        return not_now(job, self.terms.take, reading.at_s)

    # --- jobs that come ---------------------------------------------------------------------------------------------

    def _come(self, member: Member, reading: Reading) -> None:
        """A job that was not known."""
        job = member.job
        entry = Entry(str(member.key), Phase.ASIDE, ours=True, seen_us=self.now, submit_s=job.submit_s)
        entry.restarts = job.restarts
        if job.required_nodes and entry.key in self.table.ended:  # it came back after its end, placed by us
            entry.place(job.required_nodes)
        if self.terms.take == Take.BY_ADMIN and job.reason != "JobHeldAdmin" and self._no(job, reading):
            return  # not ours as long as its user holds it
        self.table.add(entry)
        if self._is_forgotten(member):
            self._count("forgotten")
            self.table.move(entry, Phase.ASIDE, FORGOTTEN)
            return
        self._count("came")
        why = self._no(job, reading)
        if why:
            self.table.move(entry, Phase.ASIDE, why)
            self._until(entry, job, reading)
        else:
            self._submit(entry, member)

    def _is_forgotten(self, member: Member) -> bool:
        """True if a job that waits has run to its end, and nobody has had it queued again since."""
        return member.job.restarts <= self.table.ended.get(str(member.key), -1)

    def _come_back(self, member: Member) -> None:
        """A job of ours that was over waits again, not held: Slurm would start it without its devices."""
        if is_in(member.job, self.terms.partitions):
            why = FORGOTTEN if self._is_forgotten(member) else "queued again by Slurm"
            entry = Entry(str(member.key), Phase.RECALLING, ours=True, seen_us=self.now, why=why)
            entry.submit_s, entry.restarts = member.job.submit_s, member.job.restarts
            self.table.add(entry)
            self._count("came-back")

    def _until(self, entry: Entry, job: SlurmJob, reading: Reading) -> None:
        """Look at a job again when its begin time has come, which Slurm does not tell of."""
        if job.eligible_s > reading.at_s:
            entry.again_us = self.now + round((job.eligible_s - reading.at_s) * SECOND_US)

    def _asks(self, entry: Entry, member: Member) -> Job | Problem:
        """What a job asks; the tasks of one that could share a node are kept apart: each stands for a node of Slurm."""
        job = member.job
        if entry.is_placed(job.required_nodes):  # what we have asked for is not what it asks
            least, most = entry.nodes_min or job.nodes_min, entry.nodes_max
            job = replace(job, required_nodes=(), nodes_min=least, nodes_max=most)
        asked = self.terms.job(job, member.key, self.epoch.names, entry.seen_us)
        if isinstance(asked, Problem) or asked.demand.tasks == 1:
            return asked
        demand = asked.demand
        if not could_share(asked, self.epoch.names.cluster):
            return asked
        groups = int(self.epoch.beginning.cluster.get(APART, {}).get("groups", 0))
        if not groups:
            self.keep_apart = True
            return Problem("its tasks are to be kept apart, for which the driver begins anew")
        if not entry.group:
            entry.group = self.table.free_group(groups)
            self.table.touch(entry)
        if not entry.group:
            return Problem(f"{groups} jobs whose tasks have to be kept apart wait or run already")
        devices = {**demand.devices, APART: {"group": entry.group, "most": 1}}
        return replace(asked, demand=replace(demand, devices=devices))

    def _submit(self, entry: Entry, member: Member) -> None:
        """Put a job in the queue of the core, if it is one that can be scheduled."""
        asked = self._asks(entry, member)
        if isinstance(asked, Problem):
            if asked.misread:
                self._count("misread")
            self.table.move(entry, Phase.ASIDE, asked.why)
            return
        entry.job, entry.restarts = job_record(asked), member.job.restarts
        if not entry.placed:
            entry.nodes_min, entry.nodes_max = member.job.nodes_min, member.job.nodes_max
        try:
            number, decisions = self.epoch.submit(Submitted(asked), self.now)
        except RefusedError as error:
            self.table.move(entry, Phase.ASIDE, f"rejected: {error}"[:300])
            return
        entry.queued_us = self.now
        self.table.number(entry, number)
        self.table.move(entry, Phase.WAITING)
        self.decided(decisions)

    def _foreign(self, member: Member) -> None:
        """A job runs that we did not start: what it holds of our nodes is not free."""
        ours = str(member.key) in self.table.ended  # a controller that was killed has forgotten that it is over
        entry = Entry(str(member.key), Phase.FOREIGN, ours=ours, seen_us=self.now, submit_s=member.job.submit_s)
        if self._adopt(entry, member.job):
            self.table.add(entry)
            self._count("foreign")

    def _adopt(self, entry: Entry, job: SlurmJob) -> bool:
        """Tell the core what a job holds that others started; False: it holds nothing of our nodes."""
        stands = self.terms.stands(job, self.epoch.names)
        if stands is None:
            return False
        asked, lease = stands
        lease = self._with_claims(asked, lease)
        ran_us = 0 if not job.start_s else max(0, self.now - self._moment_us(job.start_s))
        entry.started_us, entry.start_s = self.now - ran_us, job.start_s
        entry.limit_s = -1 if job.limit_s is None else job.limit_s
        entry.restarts, entry.phase = job.restarts, Phase.FOREIGN
        self.adopt(entry, job_record(asked), lease)
        if entry.short:
            self._recall_from(entry)
        return True

    def _with_claims(self, asked: Job, lease: Lease) -> Lease:
        """A lease with what its job claims of GPUs and licences, wherever these are free."""
        claimed, places = self.epoch.core.state.claimed, self.epoch.names.cluster.places
        if claimed is None or not asked.demand.devices:
            return lease
        amounts = {
            (kind, name): np.array([amount], np.int64)
            for kind, of in asked.demand.devices.items()
            for name, amount in of.items()
        }
        claims = places.claims(places.asked(amounts, 1)[:, 0], lease.nodes, lease.rows[:, TASKS], claimed.free)
        return lease._replace(claims=claims)

    def _recall_from(self, entry: Entry) -> None:
        """Starts that were decided on what somebody else's job holds now will not come about."""
        taken = set(entry.nodes)
        for other in self.table.in_phase(INTENDED):
            if other is not entry and taken & set(other.nodes) and other.phase != Phase.RECALLING:
                self.table.move(other, Phase.RECALLING, f"job {entry.key} took its place")

    def _moment_us(self, at_s: int) -> int:
        """A time of Slurm by the driver's clock."""
        return self.now - max(0, round((self.wall_s - at_s) * SECOND_US))

    def adopt(self, entry: Entry, asked: dict[str, Any], lease: Lease) -> None:
        """Tell the core that a job runs on a lease, or on what is free of it."""
        core = self.epoch.core
        left = self._left_us(entry)
        for lease_now, record, short in self._down_to(asked, lease):
            number = core.state.jobs
            if self.epoch.attempt(Adopted(job_of_record(record), lease_now._replace(job=number), left), self.now):
                entry.short, entry.job = short, record
                entry.lease = self.epoch.names.portable(core.state.lease(number))
                self.table.number(entry, number)
                return
        self.table.number(entry, -1)

    def _down_to(self, asked: dict[str, Any], lease: Lease) -> Iterable[tuple[Lease, dict[str, Any], bool]]:
        """The lease; then what is free of its cores and memory alone."""
        yield lease, asked, False
        free = self.epoch.core.state.free
        rows = lease.rows.copy()
        rows = rows[(rows[:, NODES] == 1)]
        for row in rows:
            row[CORES] = max(0, min(int(row[CORES]), int(free[0, row[FIRST]])))
            row[LOCAL_MB] = max(0, min(int(row[LOCAL_MB]), int(free[1, row[FIRST]])))
        plain = {key: value for key, value in asked.items() if key != "devices"}
        plain |= {
            "tasks": int(rows[:, TASKS].sum()),
            "cores": 1 if len(rows) and rows[:, CORES].min() > 0 else 0,
            "mb": 0,
        }
        if len(rows):
            yield Lease(-1, rows, claims=NO_CLAIMS), plain, True

    # --- what is decided --------------------------------------------------------------------------------------------

    def round(self) -> Round:
        """Ask the policy, and note what it decides."""
        found = self.epoch.round(self.now)
        if found.fault:
            self._count("policy-fault")
        self.decided(found.decisions)
        return found

    def decided(self, decisions: list[Decision]) -> None:
        """Note how far jobs have come by what was decided."""
        for decision in decisions:
            if isinstance(decision, Start):
                self._starts(decision.lease)
            elif isinstance(decision, Requeue):
                self._stops(self.table.of_number(decision.job), decision)
            elif isinstance(decision, Resize):
                entry = self.table.of_number(decision.lease.job)
                entry.lease = self.epoch.names.portable(decision.lease)
                self.table.touch(entry)
            elif isinstance(decision, Reject):
                entry = self.table.of_number(decision.job)
                self.table.number(entry, -1)
                self.table.move(entry, Phase.ASIDE, f"rejected: {decision.reason}"[:300])
            self._count(f"decided-{type(decision).__name__.lower()}")

    def _starts(self, lease: Lease) -> None:
        entry = self.table.of_number(lease.job)
        entry.lease, entry.decided_us = self.epoch.names.portable(lease), self.now
        entry.place(entry.nodes)
        if entry.phase == Phase.STOPPING:  # once Slurm shows it held
            self.table.touch(entry)
        else:
            self.table.move(entry, self._first_phase(entry))

    def _stops(self, entry: Entry, decision: Requeue) -> None:
        if entry.phase != Phase.FOREIGN:
            entry.lease, entry.decided_us = None, -1
            self.table.move(entry, Phase.STOPPING, str(decision.reason))
            return
        self._count("not-ours")  # nobody else's job is touched, whatever the policy says
        self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, "not ours")), self.now)
        assert entry.lease is not None
        self.adopt(entry, entry.job, self.epoch.names.lease(entry.lease))

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


def could_share(job: Job, cluster: Cluster) -> bool:
    """True if a job has several tasks, and two of them could be on one node."""
    demand = job.demand
    two = (cluster.cores >= 2 * demand.cores) & (cluster.memory_mb >= 2 * demand.memory_mb)
    return demand.tasks > 1 and bool(two.any())


def wants_apart(reading: Reading, terms: Terms, names: Names) -> bool:
    """True if a job that waits has tasks that must be kept apart, as each stands for a node of Slurm."""
    for member in members(reading):
        job = member.job
        if job.waits and job.is_held and is_in(job, terms.partitions):
            asked = terms.job(job, member.key, names, 0)
            if not isinstance(asked, Problem) and could_share(asked, names.cluster):
                return True
    return False


def _ran(job: SlurmJob) -> bool:
    """True if a job that is over has run."""
    return job.start_s > 0 and job.end_s >= job.start_s and (job.state != "CANCELLED" or bool(job.holds))
