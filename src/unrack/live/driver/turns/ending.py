"""Whatever gives something back: jobs that end or go away, starts that did not come about."""

from __future__ import annotations

from unrack.events import Finished, StartFailed, Withdrawn
from unrack.ledger.state import QUEUED, RUNNING
from unrack.live.driver.contract import Problem
from unrack.live.driver.seen import SeenJob, Shown
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import Detaching, Foreign, Idle, Over, Phase, Running, Stopped, Undone
from unrack.live.driver.state.steps import begun, detaching, granted, recalled
from unrack.live.driver.turns.coming import FAILED, Coming
from unrack.live.driver.turns.holding import Holding
from unrack.live.driver.turns.notes import Participant, TurnNotes
from unrack.live.records import job_record
from unrack.reasons import Code, Reason
from unrack.units import SECOND_US

SLOWEST_RETRY_US = 300 * SECOND_US
"""The longest time after which a start that failed is tried again."""
FEW, EACH_US = 50, 20_000
"""Of so many jobs the places are told anew at any time; of more only so long for each after the time before."""


class Ending(Participant):
    """Jobs that end, stop or go away."""

    def __init__(self, notes: TurnNotes, holding: Holding, coming: Coming) -> None:
        super().__init__(notes)
        self.holding, self.coming = holding, coming

    def over(self, entry: Entry, job: SeenJob | None) -> None:
        """A job has ended, was cancelled, or is not known any more."""
        if entry.phase in (Phase.RELEASED, Phase.ORDERING, Phase.RECALLING) and job is not None and job.ran:
            self.holding.acknowledge(entry, job)
        if entry.phase == Phase.DETACHING:
            return
        if entry.operations:
            self.table.move(entry, detaching(entry.stage, Over(self.now, ran=isinstance(entry.stage, Running))))
            return
        self.close(entry)

    def close(self, entry: Entry) -> None:
        """Tell the core that a job is over, and forget it."""
        stage, state, over = entry.stage, entry.said.state, Over(self.now, ran=False)
        if isinstance(stage, Detaching) and isinstance(stage.then, Over):
            over = stage.then
        if entry.number is not None:
            status = self.epoch.core.state.conditions[entry.number]
            ran = isinstance(stage, Running | Foreign) or over.ran
            if status == RUNNING and ran and state not in self.orchestrator.cut_short | {"GONE"}:
                self.epoch.tell(Finished(entry.number), self.now)
            elif status in (RUNNING, QUEUED):
                self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, state.lower())), self.now)
        self.notes.count("foreign-ended" if isinstance(stage, Foreign) else "ended")
        record = entry.record() | {"ended_us": over.ended_us, "freed_us": self.now}
        self.notes.over.append({name: value for name, value in record.items() if name not in ("operations", "leaving")})
        self.table.end(entry)

    def queued_again(self, entry: Entry, job: SeenJob) -> None:
        """A running job waits again: it was requeued, its node failed, or its start was forgotten."""
        if isinstance(entry.stage, Foreign):
            self.holding.withdraw(entry, "requeued")
            entry.stage = granted(entry.stage, None)
            if not entry.ours:
                self.table.drop(entry)
                return
        self.notes.count("requeued")
        forgotten = f"{self.orchestrator.name} has forgotten that it ran"
        why = "requeued" if job.restarts > entry.said.restarts else forgotten
        entry.said = entry.said._replace(state="", restarts=job.restarts)
        entry.known = entry.known.with_limit(job.limit_s)
        if job.shown == Shown.HELD:
            self.give_up(entry, why, failed=False)
        else:
            self.table.move(entry, recalled(entry.stage, why, excused=True))

    def give_up(self, entry: Entry, why: str, failed: bool = True) -> None:
        """A start that was decided did not come about, or was undone: the job waits again."""
        if entry.operations:
            entry.said = entry.said._replace(state="")
            self.table.move(entry, detaching(entry.stage, Undone(why, failed)))
            return
        self.back(entry, why, failed)

    def detached(self, entry: Entry) -> bool:
        """The devices of a job are detached, so that it is over, or waits, or starts anew; True if it is not over."""
        stage = entry.stage
        assert isinstance(stage, Detaching)
        if isinstance(stage.then, Over):
            self.close(entry)
            return False
        if isinstance(stage.was, Stopped) and stage.was.next is not None:  # decided meanwhile
            intent = stage.was.next
            self.table.move(entry, Stopped(Phase.HOLDING, "", next=intent) if stage.free else begun(intent))
        else:
            self.back(entry, stage.then.why, stage.then.failed)
        return True

    def back(self, entry: Entry, why: str, failed: bool = True) -> None:
        """The job waits again, at its old place; after several failures not at once."""
        if entry.number is not None and self.epoch.core.state.conditions[entry.number] == RUNNING:
            self.epoch.tell(StartFailed(entry.number, Reason(Code.START_FAILED, why[:200])), self.now)
        entry.said = entry.said._replace(start_s=0)
        if entry.number is None:  # it came back after its end: the core does not know it
            self.table.move(entry, Idle(Phase.ASIDE, why[:300]))
            return
        trouble = entry.trouble._replace(tries=entry.trouble.tries + 1 if failed else 0)
        if failed:
            self.notes.count("start-failed")
            self.notes.troubles.append((entry.key, why))
        if trouble.refused:
            trouble = trouble._replace(again_us=self.orchestrator.refused_until_us(entry.key, self.now))
            self.aside(entry, self.notes.refusal(trouble.refused))
        elif trouble.tries >= 2:
            wait_us = min(2 ** min(trouble.tries, 20) * SECOND_US, SLOWEST_RETRY_US)
            trouble = trouble._replace(again_us=self.now + wait_us)
            self.aside(entry, f"{FAILED} {trouble.tries} times: {why}"[:300])
        elif entry.known.lacking:  # it is asked again what it asks for
            self.aside(entry, why[:300])
        else:
            self.table.move(entry, Idle(Phase.WAITING, why[:300]))
        entry.trouble = trouble
        self.table.look_again(entry, trouble.again_us)

    def aside(self, entry: Entry, why: str) -> None:
        """Take a waiting job out of the queue."""
        self._withdraw(entry, why)
        self.table.number(entry, None)
        self.table.move(entry, Idle(Phase.ASIDE, why))
        entry.known = entry.known._replace(group=None)
        self.notes.look_again = True

    def _withdraw(self, entry: Entry, why: str) -> None:
        """Tell the core that a job does not wait, if it does."""
        if entry.number is not None and self.epoch.core.state.conditions[entry.number] == QUEUED:
            self.epoch.tell(Withdrawn(entry.number, Reason(Code.WITHDRAWN, why[:200])), self.now)

    def aside_if_broken(self, entry: Entry, job: SeenJob) -> None:
        """A job of which a part has ended waits again, and is not to be started."""
        if entry.phase == Phase.WAITING and job.broken:
            self.aside(entry, job.broken)

    def still_wanted(self, entry: Entry, job: SeenJob) -> None:
        """A job that waits in the core: it may be held by its user, changed, or started elsewhere."""
        held = Stopped(Phase.HOLDING, f"{self.orchestrator.name} has forgotten that it is held")
        if self.coming.goes_where_it_was_placed(entry, job, held):
            return
        if job.shown != Shown.HELD:
            self.notes.count("taken-away")
            self.aside(entry, "it was released by another")
            self.table.drop(entry)
            return
        if not job.ours:
            self.aside(entry, "moved away")
            self.table.drop(entry)
            return
        self.asked_anew(entry, job)

    def asked_anew(self, entry: Entry, job: SeenJob) -> None:
        """A job that waits in the core may ask for something else by now, or must not start."""
        asked = self.coming.admitted(entry, job)
        if isinstance(asked, Problem):
            if self.notes.keep_apart:  # it keeps its place, and is asked again once the driver has begun anew
                self._withdraw(entry, "changed")
                return
            self.aside(entry, asked.why)
            self.coming.until(entry, asked)
            return
        if job_record(asked.job) != entry.job:
            self.notes.changed[entry.key] = job, asked
        self.orchestrator.takes(job, asked.job)

    def tell_changes(self) -> None:
        """Tell the core what jobs of its queue ask now: they keep their places before those that came later.

        But for those that have been promised a start, which others that ask for more are not to take from them. The
        queue of the core goes by numbers, so that all behind get others; where that were many, again and again, those
        that are changed go behind them, so that the driver is not kept busy.
        """
        state, changed = self.epoch.core.state, self.notes.changed
        numbers = state.queue[state.queue_start : state.queue_end].tolist() if changed else ()
        queued = [self.table.of_number(number) for number in numbers if state.conditions[number] == QUEUED]
        first = next((place for place, entry in enumerate(queued) if entry.key in changed), 0)
        promised = [place for place, entry in enumerate(queued) if entry.known.promise and entry.key not in changed]
        last = max([first, *promised[-1:]])
        again = [entry for place, entry in enumerate(queued) if entry.key in changed or place > last]
        if len(again) > FEW and self.now < self.epoch.renumbered_us + len(again) * EACH_US:
            again = [entry for entry in again if entry.key in changed]
        elif len(again) > FEW:
            self.epoch.renumbered_us = self.now
        for entry in again:
            self._withdraw(entry, "changed")
        for entry in again:
            if entry.key in changed:
                self.coming.asks(entry, *changed[entry.key])
            self.coming.enter(entry)
