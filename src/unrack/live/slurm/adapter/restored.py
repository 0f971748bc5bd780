"""Whether Slurm still knows what the users of jobs want that were placed and are held again: a killed one may not.

What a controller was told is not lost as long as it runs, and what it says right after it has begun was written down.
So when it began, which it says, tells what a change of a job means: that it was forgotten, or that its user made it.
"""

from __future__ import annotations

from unrack.live.driver.seen import Seen, Shown
from unrack.live.driver.state.stage import NOT_HELD, Phase
from unrack.live.driver.state.table import KnownJobs
from unrack.live.slurm.adapter.asked import asked_before, is_as_asked, may_be_forgotten
from unrack.units import SECOND_US

AGAIN_US = 15 * SECOND_US
"""After how long Slurm is told again what it has not taken."""
HELD, TOLD = frozenset({Phase.WAITING, Phase.ASIDE}), NOT_HELD | {Phase.RECALLING}
"""A job is to be held as its user wants it; or is being told that."""


class Restored:
    """The held jobs that may have a place in them yet.

    Attributes
    ----------
    booted_s
        When the controller of the last reading began, s since 1970; 0: not known; ``None``: it began anew meanwhile.
    forgotten
        The jobs that are not as they were to be, by the last look.
    """

    def __init__(self) -> None:
        self.booted_s: int | None = 0
        self.forgotten: frozenset[str] = frozenset()
        self._told: dict[str, int] = {}  # when they were last found forgotten, µs
        self._due_us: int | None = None

    def due(self, now: int) -> bool:
        """Whether it is time to look at one of them."""
        return self._due_us is not None and now >= self._due_us

    @staticmethod
    def watches(table: KnownJobs) -> bool:
        """True if there are such jobs, so that it has to be known when the controller began."""
        return any(entry.phase in HELD and may_be_forgotten(asked_before(entry)) for entry in table.keeping.values())

    def look(self, seen: Seen, table: KnownJobs, now: int) -> None:
        """Look at each: what its user wants is in it, or is to be told to Slurm once more."""
        before, self._told, self._due_us, forgotten, booted_s = self._told, {}, None, set[str](), self.booted_s
        for entry in list(table.keeping.values()):
            job, own = seen.jobs.get(entry.key), asked_before(entry)
            if not may_be_forgotten(own) or job is None or entry.phase not in HELD | TOLD:
                continue
            told_us = before.get(entry.key, now - AGAIN_US if own.booted_s else now)
            if entry.phase in TOLD or booted_s is None:
                self._told[entry.key], self._due_us = told_us, now
                continue
            if job.shown != Shown.HELD:
                continue
            if is_as_asked(entry, job.own.job):
                kept = own._replace(booted_s=booted_s, pinned=own.booted_s in (0, booted_s))
            elif own.booted_s and own.booted_s == booted_s:  # its user has changed it since
                kept = own._replace(pinned=False)
            else:
                kept, again_us = own._replace(booted_s=0), told_us + AGAIN_US
                self._told[entry.key] = told_us
                if now >= again_us:
                    forgotten.add(entry.key)
                    self._told[entry.key], again_us = now, now + AGAIN_US
                self._due_us = again_us if self._due_us is None else min(self._due_us, again_us)
            if kept != own:
                entry.own = kept
                table.touch(entry)
        self.forgotten = frozenset(forgotten)
