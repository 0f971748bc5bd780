"""Reservations over any resources: conservative backfill, and the plan of a Slurm-like scheduler.

Every job has a reservation, the earliest that disturbs no other, and never a later one; when something is given back
early, reservations move forward one by one, in order. O(waiting x moments) placements and drafts a round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from unrack.ledger.promises import Promise, Promises
from unrack.policy.contract import Decision, Start
from unrack.policy.discipline.future import Booking, Future
from unrack.policy.placement.contract import Placement
from unrack.reasons import Code, Reason
from unrack.units import SECOND_US
from unrack.view import Draft, View


@dataclass(slots=True)
class Book:
    """What is reserved."""

    notes: Any  # of the placement
    booked: dict[int, Booking] = field(default_factory=dict)  # waiting job to reservation

    def promised(self, freed: int) -> Promises:
        """What is promised after a round; ``freed``: as of :class:`Promises`."""
        made = {job: Promise(at.start_us, at.turn, 0, at.lease) for job, at in self.booked.items()}
        return Promises(made, freed, beyond=True)


@dataclass(frozen=True)
class Reservations:
    """A plan in which waiting jobs hold reservations."""

    placement: Placement  # where a job goes

    def begin(self, view: View) -> Book:
        """Nothing is reserved."""
        return Book(self.placement.begin(view))

    def resumed(self, view: View) -> Book:
        """What was promised before is reserved; a promise without a lease only as its time, which is made up for."""
        made, waiting = view.promises.by_job(), set(view.queue.tolist())
        booked = {
            job: Booking(at.start_us, at.turn, at.lease)
            for job, at in made.items() if job in waiting and at.lease is not None and at.turn >= 0
        }  # fmt: skip
        return Book(self.placement.begin(view), booked)

    def keep(self, view: View, book: Book, jobs: list[int], now: int, compress: bool) -> list[Decision]:
        """Keep reservations and make new ones, in the order of the jobs; start whose turn it is.

        ``compress``: reservations may move forward.
        """
        future = Future(self.placement, book.notes, view, now, trust=True)
        wait = set(jobs)
        future.keep({job: at for job, at in book.booked.items() if job in wait})
        for job in jobs:
            if job not in future.booked:
                future.reserve(job)
            elif compress and future.booked[job].start_us > now:
                future.advance(job)
        book.booked = future.booked
        return self._start(view, book, future, now)

    def anew(self, view: View, book: Book, jobs: list[int], now: int) -> list[Decision]:
        """Reserve for the jobs in order, as if nothing were reserved; start whose turn it is."""
        future = Future(self.placement, book.notes, view, now, trust=False)
        for job in jobs:
            future.reserve(job)
        book.booked = future.booked
        return self._start(view, book, future, now)

    def due_us(self, view: View, book: Book, now: int) -> int | None:
        """When the next reservation falls due after ``now``, µs; ``None`` while a job is overdue.

        That job is taken to end 1 µs from now, and the reservations that wait for it move on with the time.
        """
        if view.first_end_us <= now:
            return None
        return min((at.start_us for at in book.booked.values() if at.start_us > now), default=None)

    def why(self, view: View, book: Book, job: int, now: int) -> Reason:
        """What is missing now, or when it is to start."""
        missing = self.placement.why(view, book.notes, job, now)
        if missing is not None:
            return missing
        if job in book.booked:
            return Reason(Code.RESERVED, f"from {book.booked[job].start_us / SECOND_US:.0f} s")
        return Reason(Code.NOT_YET)

    def _start(self, view: View, book: Book, future: Future, now: int) -> list[Decision]:
        """Start whose reservation is now; who waits for an end that has not come yet keeps it."""
        decisions: list[Decision] = []
        draft = Draft(view, now) if future.trusted else None
        turns = sorted((at.turn, job) for job, at in book.booked.items() if at.start_us == now)
        for _, job in turns:
            lease = book.booked[job].lease
            if draft is not None and not future.starts(draft, book.booked[job]):
                continue
            decisions.append(Start(lease, self.placement.rule(book.notes)))
            del book.booked[job]
        return decisions
