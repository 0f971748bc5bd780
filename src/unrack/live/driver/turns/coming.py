"""Jobs that come, and what they ask; which are to be started now, and which are left aside, with the reason."""

from __future__ import annotations

from dataclasses import replace

from unrack.errors import RefusedError
from unrack.events import Submitted
from unrack.live.driver.contract import AskedJob, Problem
from unrack.live.driver.seen import SeenJob, Shown
from unrack.live.driver.state.entry import Entry, Said
from unrack.live.driver.state.epoch import APART
from unrack.live.driver.state.promises import tell_promise
from unrack.live.driver.state.stage import ASIDE, WAITING, Idle, Phase, Recalling, Stage
from unrack.live.driver.turns.deciding import Deciding
from unrack.live.driver.turns.holding import Holding
from unrack.live.driver.turns.notes import Participant, TurnNotes
from unrack.live.records import job_of_record, job_record

FORGOTTEN = "it has run and ended, by the journal,", "it was over before it ran, by the journal,"
"""How the reason begins if a job that is over is left aside: the orchestrator forgot that, and brings it back."""

FAILED = "its start failed"
"""How the reason begins if a job is left aside for a while, as its starts have failed."""


class Coming(Participant):
    """Jobs that come."""

    def __init__(self, notes: TurnNotes, holding: Holding, deciding: Deciding) -> None:
        super().__init__(notes)
        self.holding, self.deciding = holding, deciding

    def come(self, job: SeenJob) -> None:
        """A job that was not known."""
        if job.left:
            return
        entry = Entry(job.key, self.now, ASIDE, True, Said(job.submit_s, job.restarts))
        self.holding.recall(entry, job)
        self.table.add(entry)
        if forgotten := self._forgotten(job):
            self.notes.count("forgotten")
            self.table.move(entry, Idle(Phase.ASIDE, forgotten))
            return
        self.notes.count("came")
        self.submit(entry, job)

    def come_back(self, job: SeenJob) -> None:
        """A job of ours that was over waits again, not held: it would start without its devices."""
        if job.ours:
            why = self._forgotten(job) or f"queued again by {self.orchestrator.name}"
            said = Said(job.submit_s, job.restarts)
            entry = Entry(job.key, self.now, Recalling(None, why), True, said)
            self.holding.recall(entry, job)
            self.table.add(entry)
            self.notes.count("came-back")

    def _forgotten(self, job: SeenJob) -> str:
        """How a job that waits was over, where it has not been queued again since; ``""``: it was not."""
        ended = self.table.ended_as(job)
        if ended is None or ended.how == "gone" or job.restarts > ended.restarts:
            return ""
        again = f"and {self.orchestrator.name} forgot that: cancel it, and submit it again if it is to run"
        return f"{FORGOTTEN[ended.how != 'ran']} {again}"

    def until(self, entry: Entry, problem: Problem) -> None:
        """Look at a job again when its time has come, which no event tells."""
        if problem.again_us is not None:
            self.table.look_again(entry, problem.again_us)

    def admitted(self, entry: Entry, job: SeenJob) -> AskedJob | Problem:
        """What a job asks that may be given to the core now; or why it may not."""
        asked = self.orchestrator.asked(entry, job, self.epoch.names)
        since_us = asked.job.submit_us if isinstance(asked, AskedJob) else asked.since_us
        if since_us is not None:
            entry.known = entry.known._replace(since_us=since_us)
        return self._kept_apart(entry, asked) if isinstance(asked, AskedJob) and asked.apart else asked

    def _kept_apart(self, entry: Entry, asked: AskedJob) -> AskedJob | Problem:
        """A job with tasks that could share a node, and must not, has a group of its own."""
        groups = int(self.epoch.beginning.cluster.get(APART, {}).get("groups", 0))
        if not groups:
            self.notes.keep_apart = True
            return Problem("its tasks are to be kept apart, for which the driver begins anew")
        if entry.known.group is None:
            mine = sum(one.known.group is not None and one.job.get("user") == asked.job.user for one in self.table)
            if mine <= groups * 3 // 4:  # the others are for others
                entry.known = entry.known._replace(group=self.table.free_group(groups))
            self.table.touch(entry)
        if entry.known.group is None:
            return Problem("as many jobs as may with tasks that have to be kept apart wait or run already")
        own = {APART: {"group": entry.known.group, "most": 1}}
        every = [
            replace(one, demand=replace(one.demand, devices={**one.demand.devices, **own})) for one in asked.job.every
        ]
        return asked._replace(job=replace(every[0], components=tuple(every[1:])))

    def submit(self, entry: Entry, job: SeenJob) -> None:
        """Put a job in the queue of the core, if it is one that may be scheduled now."""
        found = self.admitted(entry, job)
        if isinstance(found, Problem):
            self._leave(entry, found)
            return
        self.asks(entry, job, found)
        self.table.move(entry, WAITING)
        self.enter(entry)
        if entry.number is not None:
            self.orchestrator.takes(job, found.job)
            entry.known = entry.known._replace(queued_us=self.now)

    def asks(self, entry: Entry, job: SeenJob, found: AskedJob) -> None:
        """Note what a job asks that the core is told of next."""
        group = entry.known.group if found.apart else None
        known = entry.known.with_limit(job.limit_s)
        entry.known = known._replace(job=job_record(found.job), lacking=False, group=group, promise=None)
        entry.said = entry.said._replace(restarts=job.restarts, limit_s=job.limit_s)
        entry.own = self.orchestrator.queued(entry, job)
        if found.again_us is not None:  # it may have no other place
            self.table.look_again(entry, found.again_us)

    def enter(self, entry: Entry) -> None:
        """Put a job at the end of the queue of the core, with what it was promised; or aside, if it is refused."""
        self.table.number(entry, None)
        try:
            number, decisions = self.epoch.submit(Submitted(job_of_record(entry.job)), self.now)
        except RefusedError as error:  # the policy does not place what it asks for on the cluster as it is
            why = f"rejected: {error}"[:300]
            self.table.move(entry, Idle(Phase.ASIDE, why) if entry.phase == Phase.WAITING else Recalling(None, why))
            return
        self.table.number(entry, number)
        self.deciding.decided(decisions)
        tell_promise(self.epoch, entry, self.now)

    def _leave(self, entry: Entry, problem: Problem) -> None:
        """Leave a job aside, with the reason, which may be another one than before."""
        if problem.why != entry.why:
            if problem.misread:
                self.notes.count("misread")
            self.table.move(entry, Idle(Phase.ASIDE, problem.why))
        self.until(entry, problem)

    def from_aside(self, entry: Entry, job: SeenJob) -> None:
        """A job that was not to be started may be now; or it was started elsewhere."""
        if self.goes_where_it_was_placed(entry, job, Recalling(None, entry.why)):
            return
        if job.shown != Shown.HELD or not job.ours:
            self.table.drop(entry)
            if job.shown == Shown.RUNS:
                self.holding.foreign(job)
            return
        if entry.why.startswith(FORGOTTEN) and job.restarts <= entry.said.restarts:
            return
        again_us = entry.trouble.again_us
        if entry.why.startswith(FAILED) and again_us is not None and self.now < again_us:
            return
        found = self.admitted(entry, job)
        if isinstance(found, Problem):
            self._leave(entry, found)
        elif job_record(found.job) != entry.job or not entry.why.startswith("rejected"):
            self.submit(entry, job)

    def goes_where_it_was_placed(self, entry: Entry, job: SeenJob, held: Stage) -> bool:
        """Whether a job that is to wait runs, or may start, where we had placed it: it holds that, or is held again.

        Such a job does not count as released: it was held by an order that takes its place away, too, which has been
        forgotten.

        Parameters
        ----------
        held
            The stage of a job that is to be held again.
        """
        if not entry.is_placed(job.told) or not job.ours:
            return False
        if job.shown == Shown.RUNS:
            self.holding.elsewhere(entry, job)
        elif entry.is_let_go(job):
            self.notes.count("hold-forgotten")
            self.table.move(entry, held)
        else:
            return False
        return True
