"""What one turn of the driver brings to light, and what all that take part in it look at."""

from __future__ import annotations

from typing import Any

from unrack.live.driver.contract import AskedJob, Orchestrator
from unrack.live.driver.seen import SeenJob
from unrack.live.driver.state.epoch import Epoch
from unrack.live.driver.state.table import KnownJobs


class TurnNotes:
    """One turn: what is told, what is known, where the jobs are, and what happened.

    Parameters
    ----------
    epoch, table, orchestrator
        The core that is told, what is known, where the jobs are.
    now
        The driver's time, µs.
    missed
        The jobs that were not in the reading before: one that is missing twice is gone.

    Attributes
    ----------
    counts
        What happened, for operators that watch: words → how often.
    over
        Records of the jobs that are over, as they were last known.
    missing
        The jobs that are not in this reading.
    troubles
        Jobs with a start that did not come about, and why.
    steps
        Of jobs after their first start was acknowledged: when they came, were decided, released and seen to run, µs.
    changed
        The jobs of the core's queue that ask for something else now, as they are seen, and for what.
    look_again
        True: what a job has left may be another's, at the next look.
    keep_apart
        True: a job has tasks that the present epoch cannot keep apart.
    wall_s
        When all was read, s since 1970.
    """

    def __init__(
        self, epoch: Epoch, table: KnownJobs, orchestrator: Orchestrator, now: int, missed: frozenset[str] = frozenset()
    ) -> None:
        self.epoch, self.table, self.orchestrator, self.now, self.missed = epoch, table, orchestrator, now, missed
        self.counts: dict[str, int] = {}
        self.over: list[dict[str, Any]] = []
        self.missing: set[str] = set()
        self.troubles: list[tuple[str, str]] = []
        self.steps: list[tuple[int, int, int, int]] = []
        self.changed: dict[str, tuple[SeenJob, AskedJob]] = {}
        self.keep_apart = self.look_again = False
        self.wall_s = 0.0

    def refusal(self, reason: str) -> str:
        """How a job is told that its start is not allowed."""
        return f"{self.orchestrator.name} refuses to start it: {reason}"[:300]

    def count(self, what: str) -> None:
        """Something happened."""
        self.counts[what] = self.counts.get(what, 0) + 1


class Participant:
    """One of those that take part in a turn."""

    def __init__(self, notes: TurnNotes) -> None:
        self.notes = notes
        self.epoch, self.table, self.orchestrator, self.now = notes.epoch, notes.table, notes.orchestrator, notes.now
