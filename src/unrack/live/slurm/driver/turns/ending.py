"""Whatever gives something back: jobs that end or go away, starts that did not come about."""

from __future__ import annotations

from unrack.events import Finished, StartFailed, Withdrawn
from unrack.ledger.state import QUEUED, RUNNING
from unrack.live.records import job_record
from unrack.live.slurm.driver.state.entry import Entry, Phase
from unrack.live.slurm.driver.state.seen import Member, is_in
from unrack.live.slurm.driver.terms import Problem
from unrack.live.slurm.driver.turns.coming import Coming
from unrack.live.slurm.driver.turns.holding import Holding
from unrack.live.slurm.driver.turns.notes import Notes, Part
from unrack.live.slurm.driver.turns.refusals import said
from unrack.live.slurm.reading import Reading, SlurmJob
from unrack.reasons import Code, Reason
from unrack.units import SECOND_US

SLOWEST_RETRY_US = 300 * SECOND_US
"""The longest time after which a start that failed is tried again."""


class Ending(Part):
    """Jobs that end, stop or go away."""

    def __init__(self, notes: Notes, holding: Holding, coming: Coming) -> None:
        super().__init__(notes)
        self.holding, self.coming = holding, coming

    def over(self, entry: Entry, job: SlurmJob | None) -> None:
        """A job has ended, was cancelled, or is not known to Slurm any more."""
        if entry.phase in (Phase.RELEASED, Phase.ORDERING, Phase.RECALLING) and job is not None and _ran(job):
            self.holding.acknowledge(entry, job)
        if entry.phase == Phase.DETACHING:
            return
        if entry.operations:
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
        self.notes.count("ended" if entry.phase != Phase.FOREIGN else "foreign-ended")
        self.table.touch(entry)
        self.notes.over.append(entry.record())
        self.table.end(entry)

    def queued_again(self, entry: Entry, job: SlurmJob) -> None:
        """A running job waits again: somebody requeued it, its node failed, or a killed controller forgot its start."""
        if entry.phase == Phase.FOREIGN:
            self.holding.withdraw(entry, "requeued")
            entry.lease = None
            if not entry.ours:
                self.table.drop(entry)
                return
        self.notes.count("requeued")
        why = "requeued" if job.restarts > entry.restarts else "Slurm has forgotten that it ran"
        entry.state, entry.restarts = "", job.restarts
        if job.is_held:
            self.give_up(entry, why, failed=False)
        else:
            self.table.move(entry, Phase.RECALLING, why)

    def give_up(self, entry: Entry, why: str, failed: bool = True) -> None:
        """A start that was decided did not come about, or was undone: the job waits again."""
        if entry.operations:
            entry.state = ""
            self.table.move(entry, Phase.DETACHING, f"failed: {why}" if failed else f"stopped: {why}")
            return
        self.back(entry, why, failed)

    def detached(self, entry: Entry) -> bool:
        """The devices of a job are detached, so that it is over, or waits, or starts anew; True if it is not over."""
        word, _, rest = entry.why.partition(": ")
        was_stopped, may_start = bool(entry.leaving), entry.free
        entry.operations, entry.leaving, entry.free = [], [], False
        if word not in ("failed", "stopped"):
            self.close(entry)
            return False
        if was_stopped and entry.decided_us >= 0:  # the policy has decided its next start meanwhile
            self.table.move(entry, Phase.HOLDING if may_start else self.coming.deciding.first_phase(entry))
        else:
            self.back(entry, rest, word == "failed")
        return True

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
            self.notes.count("start-failed")
            self.notes.troubles.append((entry.key, why))
        if entry.refused:
            entry.again_us = self.notes.refusals.until_us(entry.key, self.now)
            self.aside(entry, said(entry.refused)[:300])
        elif entry.tries >= 2:
            entry.again_us = self.now + min(2 ** min(entry.tries, 20) * SECOND_US, SLOWEST_RETRY_US)
            self.aside(entry, f"its start failed {entry.tries} times: {why}"[:300])
        else:
            self.table.move(entry, Phase.WAITING, why[:300])

    def aside(self, entry: Entry, why: str) -> None:
        """Take a waiting job out of the queue."""
        if entry.number >= 0 and self.epoch.core.state.conditions[entry.number] == QUEUED:
            self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, why[:200])), self.now)
        self.table.number(entry, -1)
        self.table.move(entry, Phase.ASIDE, why)
        entry.group = 0
        self.notes.look_again = True

    def still_wanted(self, entry: Entry, job: SlurmJob, member: Member | None, reading: Reading) -> None:
        """A job that waits in the core: it may be held by its user, changed, or started by somebody else."""
        assert member is not None
        if self.coming.goes_where_it_was_placed(entry, job, Phase.HOLDING, "Slurm has forgotten that it is held"):
            return
        if not job.waits or not job.is_held:
            self.notes.count("taken-away")
            self.aside(entry, "somebody else released it")
            self.table.drop(entry)
            return
        asked = self.coming.admitted(entry, member, reading)
        if not is_in(job, self.terms.partitions):
            self.aside(entry, "moved to another partition")
            self.table.drop(entry)
        elif isinstance(asked, Problem):
            self.aside(entry, asked.why)
            self.coming.until(entry, job, reading)
        elif job_record(asked) != entry.job:
            self.aside(entry, "changed")
            self.coming.submit(entry, member, reading)
        else:
            self.coming.admission.take(member.key)


def _ran(job: SlurmJob) -> bool:
    """True if a job that is over has run."""
    return job.start_s > 0 and job.end_s >= job.start_s and (job.state != "CANCELLED" or bool(job.holds))
