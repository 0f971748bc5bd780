"""What a turn does with each job that it knows: one action for each phase and each way in which it is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, auto

from unrack.live.driver.seen import SeenJob, Shown
from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import WAITING, Detaching, Phase, Recalling, Released, Stopped, Undone
from unrack.live.driver.state.steps import begun, detaching, recalled
from unrack.live.driver.turns.ending import Ending
from unrack.live.driver.turns.notes import Participant, TurnNotes
from unrack.units import SECOND_US

AT_ONCE_US = 2 * SECOND_US
"""A job that is held again so soon after its release was held because of it."""


class Sight(Enum):
    """How a reading shows a job. Exactly one of these holds; the columns of the tables are in this order."""

    RUNS = auto()
    HELD = auto()  # it waits, held
    BARRED = auto()  # it waits, held, for a reason that forbids its start
    ASTRAY = auto()  # it waits, not held, where it was placed before or others want it, not where it is decided now
    REFUSED = auto()  # it waits, not held, for a reason that forbids its start
    LATE = auto()  # it waits, not held, for longer than its start may take
    FREE = auto()  # it waits, not held, for anything else
    OVER = auto()  # it has ended, or was cancelled


def sight_of(entry: Entry, job: SeenJob, now: int, start_timeout_us: int) -> Sight:
    """How a reading shows a job."""
    if job.shown == Shown.RUNS:
        return Sight.RUNS
    if job.shown == Shown.OVER:
        return Sight.OVER
    if job.shown == Shown.HELD:
        return Sight.BARRED if job.refused else Sight.HELD
    told = entry.phase != Phase.ATTACHING and sorted(job.told) == entry.nodes
    if entry.is_let_go(job) and not told:
        return Sight.ASTRAY
    if job.refused:
        return Sight.REFUSED
    if entry.phase == Phase.RELEASED and job.told and not told:
        return Sight.ASTRAY
    stage = entry.stage
    late = isinstance(stage, Released) and now - stage.released_us > start_timeout_us
    return Sight.LATE if late else Sight.FREE


class Reactions(Participant):
    """The actions, each for one job.

    They come in two passes over all jobs: first whatever gives something back or takes a job out of the queue
    (:data:`ENDS`), then starts that were acknowledged or are undone, limits, and jobs that may start now
    (:data:`GOES_ON`).
    """

    def __init__(self, notes: TurnNotes, ending: Ending) -> None:
        super().__init__(notes)
        self.ending, self.coming, self.holding = ending, ending.coming, ending.holding

    def react(self, table: Table, entry: Entry, job: SeenJob) -> None:
        """Do with a job what a table says."""
        sight = sight_of(entry, job, self.now, self.orchestrator.start_timeout_us)
        table[entry.phase][sight.value - 1](self, entry, job)

    def nothing(self, entry: Entry, job: SeenJob) -> None:
        """Leave it as it is."""

    def over(self, entry: Entry, job: SeenJob) -> None:
        """It has ended, or was cancelled."""
        said = entry.said
        entry.said = said._replace(state=job.state, end_s=job.end_s, start_s=job.start_s or said.start_s)
        self.ending.over(entry, job)

    def queued_again(self, entry: Entry, job: SeenJob) -> None:
        """It ran, and waits again."""
        self.ending.queued_again(entry, job)
        self.ending.aside_if_broken(entry, job)

    def recalled(self, entry: Entry, job: SeenJob) -> None:
        """It is held again, as it was to be."""
        assert isinstance(entry.stage, Recalling)
        self.ending.give_up(entry, entry.why or "not started in time", failed=not entry.stage.excused)
        self.ending.aside_if_broken(entry, job)
        if entry.phase == Phase.WAITING:  # it may ask for something else than when its start was decided
            self.ending.asked_anew(entry, job)

    def still_wanted(self, entry: Entry, job: SeenJob) -> None:
        """It waits in the core, which may not be right any more."""
        self.ending.still_wanted(entry, job)

    def started(self, entry: Entry, job: SeenJob) -> None:
        """Its start was decided, and it runs."""
        self.holding.acknowledge(entry, job)

    def astray(self, entry: Entry, job: SeenJob) -> None:
        """What was told last is forgotten, and it may start where it had been placed before; or others changed that."""
        forgotten = entry.is_placed(job.told)
        self.notes.count("hold-forgotten" if forgotten else "moved")
        place = "it had been placed before" if forgotten else f"others want it, on {', '.join(job.told)}"
        why = f"{self.orchestrator.name} was about to start it where {place}"[:300]
        self.table.move(entry, recalled(entry.stage, why, excused=True))

    def refused(self, entry: Entry, job: SeenJob) -> None:
        """The start for which it was let go is not allowed."""
        if job.restarts > entry.said.restarts:  # it ran, and was queued again before anybody saw it
            self.ending.queued_again(entry, job)
            return
        self.notes.count("refused")
        self.orchestrator.refused(entry, job, self.now)
        entry.trouble = entry.trouble._replace(refused=job.reason)
        self.table.move(entry, recalled(entry.stage, self.notes.refusal(job.reason)))

    def held_again(self, entry: Entry, job: SeenJob) -> None:
        """It was held after it was released: its release was forgotten, or somebody holds it.

        One that is held as soon as it is released has failed, so that it is not released without end.
        """
        assert isinstance(entry.stage, Released)
        late = self.now - entry.stage.released_us >= AT_ONCE_US
        self.table.move(entry, recalled(entry.stage, f"held again ({job.reason})"[:300], excused=late))

    def let_go(self, entry: Entry, job: SeenJob) -> None:
        """It may start at any time, and perhaps not with what was decided for it."""
        if self.orchestrator.asks_otherwise(entry, job, self.epoch.names):
            self.notes.count("changed")
            why = "it asks for something else than when its start was decided"
            self.table.move(entry, recalled(entry.stage, why, excused=True))

    def timed_out(self, entry: Entry, job: SeenJob) -> None:
        """Its start has taken too long."""
        self.notes.count("timed-out")
        name, most_us = self.orchestrator.name, self.orchestrator.start_timeout_us
        why = f"{name} did not start it in {most_us // SECOND_US} s ({job.reason})"
        self.table.move(entry, recalled(entry.stage, why))

    def runs(self, entry: Entry, job: SeenJob) -> None:
        """It goes on running."""
        self.holding.runs(entry, job)

    def stopped(self, entry: Entry, job: SeenJob) -> None:
        """A job of the core's queue is held, too; the policy may have decided its next start already."""
        entry.said = entry.said._replace(restarts=job.restarts)
        stage = entry.stage
        assert isinstance(stage, Stopped)
        if stage.attached is not None:
            self.table.move(entry, detaching(stage, Undone("by the policy", failed=False)))
        else:
            self.table.move(entry, WAITING if stage.next is None else begun(stage.next))

    def hold(self, entry: Entry, job: SeenJob) -> None:
        """The policy stopped it, and it is queued again, not held."""
        assert isinstance(entry.stage, Stopped)
        why = f"queued again by {self.orchestrator.name}"
        self.table.move(entry, replace(entry.stage, phase=Phase.HOLDING, why=why))

    def elsewhere(self, entry: Entry, job: SeenJob) -> None:
        """It was to be held, and runs."""
        self.holding.elsewhere(entry, job)

    def detaches(self, entry: Entry, job: SeenJob) -> None:
        """Its devices are being detached, and until they are it must not start."""
        stage, free = entry.stage, entry.is_let_go(job)
        assert isinstance(stage, Detaching)
        if free and not stage.free:
            self.notes.count("hold-forgotten")
        if free != stage.free:
            self.table.move(entry, replace(stage, free=free))

    def waits(self, entry: Entry, job: SeenJob) -> None:
        """It is held, and what was told with that may be forgotten; one that is aside may be started now."""
        if job.ours and self.orchestrator.forgotten(entry.key):
            self.notes.count("hold-forgotten")
            why = f"{self.orchestrator.name} has forgotten what it asks for"
            is_aside = entry.phase == Phase.ASIDE
            self.table.move(entry, Recalling(None, entry.why) if is_aside else Stopped(Phase.HOLDING, why))
        elif entry.phase == Phase.ASIDE:
            self.coming.from_aside(entry, job)


Action = Callable[[Reactions, Entry, SeenJob], None]
Table = Mapping[Phase, tuple[Action, ...]]
"""One action for each way in which a job is seen in a phase, in the order of :class:`Sight`."""

_R = Reactions
_NO = _R.nothing
_AGAIN, _WANTED, _BACK = _R.queued_again, _R.still_wanted, _R.recalled
_START, _ASTRAY, _REFUSED, _STOPPED, _HOLD = _R.started, _R.astray, _R.refused, _R.stopped, _R.hold

ENDS: Table = {
    #                  RUNS     HELD     BARRED   ASTRAY   REFUSED  LATE     FREE     OVER
    Phase.WAITING:    (_WANTED, _WANTED, _WANTED, _WANTED, _WANTED, _WANTED, _WANTED, _R.over),
    Phase.ATTACHING:  (_NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _R.over),
    Phase.ORDERING:   (_NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _R.over),
    Phase.RELEASED:   (_NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _R.over),
    Phase.RECALLING:  (_NO,     _BACK,   _BACK,   _NO,     _NO,     _NO,     _NO,     _R.over),
    Phase.RUNNING:    (_NO,     _AGAIN,  _AGAIN,  _AGAIN,  _AGAIN,  _AGAIN,  _AGAIN,  _R.over),
    Phase.STOPPING:   (_NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _R.over),
    Phase.HOLDING:    (_NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _R.over),
    Phase.DETACHING:  (_NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _R.over),
    Phase.FOREIGN:    (_NO,     _AGAIN,  _AGAIN,  _AGAIN,  _AGAIN,  _AGAIN,  _AGAIN,  _R.over),
    Phase.ASIDE:      (_NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _NO,     _R.over),
}  # fmt: skip
"""What gives something back, or takes a job out of the queue."""

GOES_ON: Table = {
    #                  RUNS    HELD           BARRED    ASTRAY   REFUSED   LATE          FREE   OVER
    Phase.WAITING:    (_NO,    _R.waits,      _R.waits, _NO,     _NO,      _NO,          _NO,   _NO),
    Phase.ATTACHING:  (_START, _NO,           _NO,      _ASTRAY, _NO,      _NO,          _NO,   _NO),
    Phase.ORDERING:   (_START, _NO,           _NO,      _ASTRAY, _NO,      _NO,          _NO,   _NO),
    Phase.RELEASED:   (_START, _R.held_again, _REFUSED, _ASTRAY, _REFUSED, _R.timed_out, _R.let_go, _NO),
    Phase.RECALLING:  (_START, _NO,           _NO,      _NO,     _NO,      _NO,          _NO,   _NO),
    Phase.RUNNING:    (_R.runs, _NO,          _NO,      _NO,     _NO,      _NO,          _NO,   _NO),
    Phase.STOPPING:   (_NO,    _STOPPED,      _STOPPED, _HOLD,   _HOLD,    _HOLD,        _HOLD, _NO),
    Phase.HOLDING:    (_R.elsewhere, _STOPPED, _STOPPED, _NO,    _NO,      _NO,          _NO,   _NO),
    Phase.DETACHING:  (_R.detaches,) * len(Sight),
    Phase.FOREIGN:    (_R.runs, _NO,          _NO,      _NO,     _NO,      _NO,          _NO,   _NO),
    Phase.ASIDE:      (_R.waits,) * len(Sight),
}  # fmt: skip
"""Starts that were acknowledged or come too late, limits that changed, jobs that may be started now."""
