"""Jobs that come, and what they ask; which are to be started now, and which are left aside, with the reason."""

from __future__ import annotations

from dataclasses import replace

from unrack.errors import RefusedError
from unrack.events import Submitted
from unrack.live.driver.state.entry import Entry, Said
from unrack.live.driver.state.stage import ASIDE, WAITING, Idle, Phase, Recalling, Stage
from unrack.live.driver.turns.apart import APART, asks_of, could_share
from unrack.live.driver.turns.deciding import Deciding
from unrack.live.driver.turns.holding import Holding
from unrack.live.driver.turns.notes import Notes, Part
from unrack.live.records import job_record
from unrack.live.slurm.adapter.admission import Admission
from unrack.live.slurm.adapter.seen import Member, Take, is_in, not_now
from unrack.live.slurm.adapter.terms import Problem
from unrack.live.slurm.adapter.together import broken
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.units import SECOND_US
from unrack.workload.job import Job

_AGAIN = "and Slurm's controller forgot that: cancel it, and submit it again if it is to run"
FORGOTTEN = (
    f"it has run and ended, by the journal, {_AGAIN}",
    f"it was over before it ran, by the journal, {_AGAIN}",
)
"""Why a job that is over, and that a controller which was killed brings back, is left aside."""


class Coming(Part):
    """Jobs that come."""

    def __init__(self, notes: Notes, holding: Holding, deciding: Deciding, admission: Admission) -> None:
        super().__init__(notes)
        self.holding, self.deciding, self.admission = holding, deciding, admission

    def come(self, member: Member, reading: Reading) -> None:
        """A job that was not known."""
        job = member.job
        entry = Entry(str(member.key), self.now, ASIDE, True, Said(job.submit_s, job.restarts))
        if job.required_nodes and self.table.ended_as(entry.key, job):  # it came back after its end, placed by us
            entry.place(job.required_nodes)
        by_admin = self.terms.take == Take.BY_ADMIN and job.reason != "JobHeldAdmin"
        if by_admin and not_now(job, self.terms.take, reading.at_s):
            return  # not ours as long as its user holds it
        self.table.add(entry)
        if forgotten := self._forgotten(member):
            self.notes.count("forgotten")
            self.table.move(entry, Idle(Phase.ASIDE, forgotten))
            return
        self.notes.count("came")
        self.submit(entry, member, reading)

    def come_back(self, member: Member) -> None:
        """A job of ours that was over waits again, not held: Slurm would start it without its devices."""
        if is_in(member.job, self.terms.partitions):
            why = self._forgotten(member) or "queued again by Slurm"
            said = Said(member.job.submit_s, member.job.restarts)
            self.table.add(Entry(str(member.key), self.now, Recalling(None, why), True, said))
            self.notes.count("came-back")

    def _forgotten(self, member: Member) -> str:
        """How a job that waits was over, where it has not been queued again since; ``""``: it was not."""
        ended = self.table.ended_as(str(member.key), member.job)
        if ended is None or ended.how == "gone" or member.job.restarts > ended.restarts:
            return ""
        return FORGOTTEN[ended.how != "ran"]

    def until(self, entry: Entry, job: SlurmJob, reading: Reading) -> None:
        """Look at a job again when its time, or its reservation's, has come, which Slurm does not tell of."""
        begins_s = max(job.eligible_s, self.admission.unreserved(job)[1])
        if begins_s > reading.at_s:
            again_us = self.now + round((begins_s - reading.at_s) * SECOND_US)
            entry.trouble = entry.trouble._replace(again_us=again_us)

    def admitted(self, entry: Entry, member: Member, reading: Reading) -> Job | Problem:
        """What a job asks that may be given to the core now; or why it may not."""
        not_yet = not_now(member.job, self.terms.take, reading.at_s)
        if why := not_yet or broken(member.job) or self.admission.beyond_array(member.key):
            return Problem(why)
        job = self.admission.limited(entry.as_asked(member.job))
        if why := self.admission.unreserved(job)[0]:
            return Problem(why)
        asked = asks_of(job, member.key, self.terms, self.epoch.names, entry.seen_us)
        if isinstance(asked, Problem) or isinstance(asked := self.admission.allowed(job, asked), Problem):
            return asked
        if why := self.admission.why_not(entry, job, asked):
            return Problem(why)
        asked = self.notes.refusals.elsewhere(entry.key, job, asked, self.now)
        if why := self.admission.unlike_others(asked):
            return Problem(why)
        return self._kept_apart(entry, asked)

    def _kept_apart(self, entry: Entry, asked: Job) -> Job | Problem:
        """The tasks of a job that could share a node are kept apart: each stands for a node of Slurm."""
        if not could_share(asked, self.epoch.names.cluster):
            return asked
        groups = int(self.epoch.beginning.cluster.get(APART, {}).get("groups", 0))
        if not groups:
            self.notes.keep_apart = True
            return Problem("its tasks are to be kept apart, for which the driver begins anew")
        if entry.known.group is None:
            mine = sum(one.known.group is not None and one.job.get("user") == asked.user for one in self.table)
            if mine <= groups * 3 // 4:  # the others are for others
                entry.known = entry.known._replace(group=self.table.free_group(groups))
            self.table.touch(entry)
        if entry.known.group is None:
            return Problem("as many jobs as may whose tasks have to be kept apart wait or run already")
        own = {APART: {"group": entry.known.group, "most": 1}}
        every = [replace(one, demand=replace(one.demand, devices={**one.demand.devices, **own})) for one in asked.every]
        return replace(every[0], components=tuple(every[1:]))

    def submit(self, entry: Entry, member: Member, reading: Reading) -> None:
        """Put a job in the queue of the core, if it is one that may be scheduled now."""
        asked = self.admitted(entry, member, reading)
        if isinstance(asked, Problem):
            self._leave(entry, member, asked, reading)
            return
        self.admission.take(member.key, asked)
        entry.known = entry.known._replace(job=job_record(asked))
        entry.said = entry.said._replace(restarts=member.job.restarts)
        entry.note_asked(entry.as_asked(member.job))
        if (lapses_us := self.notes.refusals.lapses_us(entry.key, self.now)) is not None:  # it may have no other place
            entry.trouble = entry.trouble._replace(again_us=lapses_us)
        try:
            number, decisions = self.epoch.submit(Submitted(asked), self.now)
        except RefusedError as error:
            self.table.move(entry, Idle(Phase.ASIDE, f"rejected: {error}"[:300]))
            return
        entry.known = entry.known._replace(queued_us=self.now)
        self.table.number(entry, number)
        self.table.move(entry, WAITING)
        self.deciding.decided(decisions)

    def _leave(self, entry: Entry, member: Member, problem: Problem, reading: Reading) -> None:
        """Leave a job aside, with the reason, which may be another one than before."""
        if problem.why != entry.why:
            if problem.misread:
                self.notes.count("misread")
            self.table.move(entry, Idle(Phase.ASIDE, problem.why))
        self.until(entry, member.job, reading)

    def from_aside(self, entry: Entry, member: Member, reading: Reading) -> None:
        """A job that was not to be started may be now; or somebody else has started it."""
        job = member.job
        if self.goes_where_it_was_placed(entry, job, Recalling(None, entry.why)):
            return
        if job.runs or not job.is_held or not is_in(job, self.terms.partitions):
            self.table.drop(entry)
            if job.runs:
                self.holding.foreign(member)
            return
        if entry.why in FORGOTTEN and job.restarts <= entry.said.restarts:
            return
        trouble = entry.trouble
        is_early = trouble.again_us is not None and self.now < trouble.again_us
        if trouble.tries and not trouble.refused and is_early:
            return
        asked = self.admitted(entry, member, reading)
        if isinstance(asked, Problem):
            self._leave(entry, member, asked, reading)
        elif job_record(asked) != entry.job or not entry.why.startswith("rejected"):
            self.submit(entry, member, reading)

    def goes_where_it_was_placed(self, entry: Entry, job: SlurmJob, held: Stage) -> bool:
        """Whether a job that is to wait runs, or may start, where we had placed it: it holds that, or is held again.

        Such a job counts as released by nobody: it was held by an order that takes its place away, too, which a
        controller that was killed has forgotten.

        Parameters
        ----------
        held
            The stage of a job that is to be held again.
        """
        if not entry.is_placed(job.required_nodes) or not is_in(job, self.terms.partitions):
            return False
        if job.runs:
            self.holding.elsewhere(entry, job)
        elif entry.is_let_go(job):
            self.notes.count("hold-forgotten")
            self.table.move(entry, held)
        else:
            return False
        return True
