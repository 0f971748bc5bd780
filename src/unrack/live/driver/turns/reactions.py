"""What a turn does with each job that it knows: one action for each phase and each way in which Slurm shows the job."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import Enum, auto

from unrack.live.driver.state.entry import Entry
from unrack.live.driver.state.stage import (
    WAITING,
    Detaching,
    Phase,
    Released,
    Stopped,
    Undone,
)
from unrack.live.driver.state.steps import begun, detaching, recalled
from unrack.live.driver.turns.ending import Ending
from unrack.live.driver.turns.notes import Notes, Part
from unrack.live.slurm.adapter.admission import bare
from unrack.live.slurm.adapter.refusals import said
from unrack.live.slurm.adapter.seen import Member, is_refused
from unrack.live.slurm.reading import Reading
from unrack.units import SECOND_US


class Sight(Enum):
    """How a reading shows a job. Exactly one of these holds; the columns of the tables are in this order."""

    RUNS = auto()
    HELD = auto()  # it waits, held
    BARRED = auto()  # it waits, held by Slurm, for a reason that forbids its start
    ASTRAY = auto()  # it waits, not held, where it was placed before and not where it is decided now
    REFUSED = auto()  # it waits, not held, for a reason that forbids its start
    LATE = auto()  # it waits, not held, for longer than Slurm may take to start it
    FREE = auto()  # it waits, not held, for anything else
    OVER = auto()  # it has ended, or was cancelled


def sight_of(entry: Entry, member: Member, now: int, start_timeout_us: int, usable: Collection[str] = ()) -> Sight:
    """How a reading shows a job; ``usable``: the nodes on which jobs may be started."""
    job = member.job
    if job.runs:
        return Sight.RUNS
    if not job.waits:
        return Sight.OVER
    if job.is_held:
        return Sight.BARRED if is_refused(job) else Sight.HELD
    told = entry.phase != Phase.ATTACHING and sorted(job.required_nodes) == entry.nodes
    if entry.is_let_go(job) and not told:
        return Sight.ASTRAY
    if is_refused(job, usable):
        return Sight.REFUSED
    stage = entry.stage
    late = isinstance(stage, Released) and now - stage.released_us > start_timeout_us
    return Sight.LATE if late else Sight.FREE


class Reactions(Part):
    """The actions, each for one job.

    They come in two passes over all jobs: first whatever gives something back or takes a job out of the queue
    (:data:`ENDS`), then starts that were acknowledged or are undone, limits, and jobs that may start now
    (:data:`GOES_ON`).
    """

    def __init__(self, notes: Notes, ending: Ending) -> None:
        super().__init__(notes)
        self.ending, self.coming, self.holding = ending, ending.coming, ending.holding
        self.usable: frozenset[str] = frozenset()

    def react(self, table: Table, entry: Entry, member: Member, reading: Reading) -> None:
        """Do with a job what a table says."""
        sight = sight_of(entry, member, self.now, self.terms.start_timeout_us, self.usable)
        table[entry.phase][sight.value - 1](self, entry, member, reading)

    def nothing(self, entry: Entry, member: Member, reading: Reading) -> None:
        """Leave it as it is."""

    def over(self, entry: Entry, member: Member, reading: Reading) -> None:
        """It has ended, or was cancelled."""
        job, said = member.job, entry.said
        entry.said = said._replace(state=job.state, end_s=job.end_s, start_s=job.start_s or said.start_s)
        self.ending.over(entry, job)

    def queued_again(self, entry: Entry, member: Member, reading: Reading) -> None:
        """It ran, and waits again."""
        self.ending.queued_again(entry, member.job)
        self.ending.aside_if_broken(entry, member.job)

    def recalled(self, entry: Entry, member: Member, reading: Reading) -> None:
        """It is held again, as it was to be."""
        self.ending.give_up(entry, entry.why or "not started in time")
        self.ending.aside_if_broken(entry, member.job)

    def still_wanted(self, entry: Entry, member: Member, reading: Reading) -> None:
        """It waits in the core, which may not be right any more."""
        self.ending.still_wanted(entry, member.job, member, reading)

    def started(self, entry: Entry, member: Member, reading: Reading) -> None:
        """Its start was decided, and it runs."""
        self.holding.acknowledge(entry, member.job)

    def astray(self, entry: Entry, member: Member, reading: Reading) -> None:
        """Slurm has forgotten what it was told, and may start it where it had been placed before."""
        self.notes.count("hold-forgotten")
        self.table.move(entry, recalled(entry.stage, "Slurm was about to start it where it had been placed before"))

    def refused(self, entry: Entry, member: Member, reading: Reading) -> None:
        """Slurm does not allow the start for which it was released."""
        job = member.job
        if job.restarts > entry.said.restarts:  # it ran, and was queued again before anybody saw it
            self.ending.queued_again(entry, job)
            return
        self.notes.count("refused")
        asked, tries = bare(entry.job), entry.trouble.tries
        self.notes.refusals.note(entry.key, entry.as_asked(job), asked, tries, self.now, entry.nodes)
        entry.trouble = entry.trouble._replace(refused=job.reason)
        self.table.move(entry, recalled(entry.stage, said(job.reason)[:300]))

    def held_again(self, entry: Entry, member: Member, reading: Reading) -> None:
        """Somebody holds it after it was released."""
        self.table.move(entry, recalled(entry.stage, f"held again ({member.job.reason})"[:300]))

    def timed_out(self, entry: Entry, member: Member, reading: Reading) -> None:
        """Slurm has taken too long to start it."""
        self.notes.count("timed-out")
        why = f"Slurm did not start it in {self.terms.start_timeout_us // SECOND_US} s ({member.job.reason})"
        self.table.move(entry, recalled(entry.stage, why))

    def runs(self, entry: Entry, member: Member, reading: Reading) -> None:
        """It goes on running."""
        self.holding.runs(entry, member.job)

    def stopped(self, entry: Entry, member: Member, reading: Reading) -> None:
        """A job of the core's queue is held in Slurm, too; the policy may have decided its next start already."""
        entry.said = entry.said._replace(restarts=member.job.restarts)
        stage = entry.stage
        assert isinstance(stage, Stopped)
        if stage.attached is not None:
            self.table.move(entry, detaching(stage, Undone("by the policy", failed=False)))
        else:
            self.table.move(entry, WAITING if stage.next is None else begun(stage.next))

    def hold(self, entry: Entry, member: Member, reading: Reading) -> None:
        """The policy stopped it, and Slurm has queued it again without holding it."""
        assert isinstance(entry.stage, Stopped)
        self.table.move(entry, replace(entry.stage, phase=Phase.HOLDING, why="queued again by Slurm"))

    def elsewhere(self, entry: Entry, member: Member, reading: Reading) -> None:
        """It was to be held, and runs."""
        self.holding.elsewhere(entry, member.job)

    def detaches(self, entry: Entry, member: Member, reading: Reading) -> None:
        """Its devices are being detached, and until they are it must not start."""
        stage, free = entry.stage, entry.is_let_go(member.job)
        assert isinstance(stage, Detaching)
        if free and not stage.free:
            self.notes.count("hold-forgotten")
        if free != stage.free:
            self.table.move(entry, replace(stage, free=free))

    def aside(self, entry: Entry, member: Member, reading: Reading) -> None:
        """It was not to be started, and may be now."""
        self.coming.from_aside(entry, member, reading)


Action = Callable[[Reactions, Entry, Member, Reading], None]
Table = Mapping[Phase, tuple[Action, ...]]
"""One action for each way in which Slurm shows a job in a phase, in the order of :class:`Sight`."""

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
    Phase.WAITING:    (_NO,    _NO,           _NO,      _NO,     _NO,      _NO,          _NO,   _NO),
    Phase.ATTACHING:  (_START, _NO,           _NO,      _ASTRAY, _NO,      _NO,          _NO,   _NO),
    Phase.ORDERING:   (_START, _NO,           _NO,      _ASTRAY, _NO,      _NO,          _NO,   _NO),
    Phase.RELEASED:   (_START, _R.held_again, _REFUSED, _ASTRAY, _REFUSED, _R.timed_out, _NO,   _NO),
    Phase.RECALLING:  (_START, _NO,           _NO,      _NO,     _NO,      _NO,          _NO,   _NO),
    Phase.RUNNING:    (_R.runs, _NO,          _NO,      _NO,     _NO,      _NO,          _NO,   _NO),
    Phase.STOPPING:   (_NO,    _STOPPED,      _STOPPED, _HOLD,   _HOLD,    _HOLD,        _HOLD, _NO),
    Phase.HOLDING:    (_R.elsewhere, _STOPPED, _STOPPED, _NO,    _NO,      _NO,          _NO,   _NO),
    Phase.DETACHING:  (_R.detaches,) * len(Sight),
    Phase.FOREIGN:    (_R.runs, _NO,          _NO,      _NO,     _NO,      _NO,          _NO,   _NO),
    Phase.ASIDE:      (_R.aside,) * len(Sight),
}  # fmt: skip
"""Starts that were acknowledged or come too late, limits that changed, jobs that may be started now."""
