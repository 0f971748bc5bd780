"""What one turn of the driver brings to light, and what all that take part in it look at."""

from __future__ import annotations

from typing import Any

from unrack.live.driver.state.epoch import Epoch
from unrack.live.driver.state.table import Table
from unrack.live.slurm.adapter.refusals import Refusals
from unrack.live.slurm.adapter.terms import Terms


class Notes:
    """One turn: who is told, what is known, what was agreed on, and what happened.

    Parameters
    ----------
    epoch, table, terms
        Who is told, what is known, what was agreed on.
    now
        The driver's time, µs.
    missed
        The jobs that were not in the reading before: one that is missing twice is gone.
    refusals
        Starts that Slurm did not allow.

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
    look_again
        True: what a job has left may be another's, at the next look.
    keep_apart
        True: a job has tasks that the present epoch cannot keep apart.
    wall_s
        When Slurm was read, s since 1970.
    """

    def __init__(
        self, epoch: Epoch, table: Table, terms: Terms, now: int, missed: frozenset[str] = frozenset(),
        refusals: Refusals | None = None,
    ) -> None:  # fmt: skip
        self.epoch, self.table, self.terms, self.now, self.missed = epoch, table, terms, now, missed
        self.refusals = refusals or Refusals()
        self.counts: dict[str, int] = {}
        self.over: list[dict[str, Any]] = []
        self.missing: set[str] = set()
        self.troubles: list[tuple[str, str]] = []
        self.steps: list[tuple[int, int, int, int]] = []
        self.keep_apart = self.look_again = False
        self.wall_s = 0.0

    def count(self, what: str) -> None:
        """Something happened."""
        self.counts[what] = self.counts.get(what, 0) + 1


class Part:
    """One of those that take part in a turn."""

    def __init__(self, notes: Notes) -> None:
        self.notes = notes
        self.epoch, self.table, self.terms, self.now = notes.epoch, notes.table, notes.terms, notes.now
