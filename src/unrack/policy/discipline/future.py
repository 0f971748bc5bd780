"""What is booked to happen, moment by moment: running jobs end, and waiting jobs start as reserved.

After every moment the ledger is kept as it will be then, as a draft. A job is given a reservation by carrying it out on
these drafts: it starts where the placement puts it, time moves on, and everyone who holds a reservation for later must
still be able to start on what it was promised, when it was promised. So reservations hold for whatever jobs hold.
Moments are looked at as far as somebody asks: to the last reservation, and on to the first place of the job at hand.
O(moments) drafts for a reservation, each O(nodes + jobs + devices).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unrack.errors import RefusedError
from unrack.ledger.lease import Lease
from unrack.policy.placement.contract import Placement
from unrack.view import Draft, View

TRIES = 20
"""How many earlier places that would disturb others are tried in a round for jobs that have reservations."""


class Booking(NamedTuple):
    """A reservation: when it starts (µs), which of those that start then goes first, and on what."""

    start_us: int
    turn: int
    lease: Lease


@dataclass(slots=True)
class Moment:
    """A moment at which something starts or ends."""

    draft: Draft  # the ledger as it is then, when all of it has happened; its `now` is the moment
    refused: set[object] = field(default_factory=set)  # kinds of jobs that have no place on it


class Future:
    """Moments to come, and the reservations among them.

    Parameters
    ----------
    trust
        Whether jobs that are booked to end now have ended: their end may come in this very moment. Others that are
        overdue are taken to end 1 µs from now.

    Attributes
    ----------
    booked
        Job to reservation.
    trusted
        Whether something is taken to have ended that has not yet.
    moments
        As far as they have been looked at; nothing starts after the last of them, and running jobs end.
    """

    def __init__(self, placement: Placement, notes: Any, view: View, now: int, trust: bool) -> None:
        self.placement, self.notes, self.view = placement, notes, view
        self.booked: dict[int, Booking] = {}
        self._turn, self._tries = 0, TRIES
        draft = Draft(view, now)
        self.trusted = trust and draft.settle()
        self.moments = [Moment(draft)]

    def keep(self, bookings: dict[int, Booking]) -> None:
        """Take over reservations made earlier.

        Whoever cannot start when it was promised, as somebody ran for longer than booked, starts as soon after that as
        it can, before those who come later. Who can never start on what it was promised has no reservation any more.
        """
        now = self.moments[0].draft.now
        due = sorted((at._replace(start_us=max(at.start_us, now)) for at in bookings.values()), key=_first)
        self._turn = max((booking.turn for booking in due), default=-1) + 1
        self.moments = self._played(self.moments[0].draft, due, slips=True) or self.moments

    def reserve(self, job: int, before_us: int | None = None) -> bool:
        """Give a job the first place that disturbs no reservation; whether there is one.

        With ``before_us`` only earlier places count, and of these only the first ``TRIES`` of a round.
        """
        kind, at = self.placement.kind(self.view, self.notes, job), 0
        while at < len(self.moments) or self._look_on():
            moment = self.moments[at]
            if before_us is not None and (moment.draft.now >= before_us or self._tries == 0):
                return False
            if kind not in moment.refused:
                lease = self.placement.find(moment.draft.view, self.notes, job, moment.draft.now)
                if lease is None:
                    moment.refused.add(kind)
                elif self._book(at, self._beside_others(at, lease)):
                    return True
                elif before_us is not None:
                    self._tries -= 1
            at += 1
        return False

    def advance(self, job: int) -> None:
        """Let a job have an earlier place than it has, if there is one."""
        old = self.booked[job]
        if self._tries == 0 or not self._might_start_before(job, old.start_us):
            return
        moments = self.moments
        first = bisect_left([moment.draft.now for moment in moments], old.start_us)
        del self.booked[job]
        if first > 0:
            after = self._played(moments[first - 1].draft, self._due(moments[first - 1].draft.now), moments[first:])
            if after is not None:
                self.moments = [*moments[:first], *after[1:]]
                if self.reserve(job, old.start_us):
                    return
        self.moments, self.booked[job] = moments, old

    def starts(self, draft: Draft, booking: Booking) -> bool:
        """Start a job as reserved, if that is possible."""
        if not self.placement.allows(self.view, self.notes, booking.lease, draft.lent):
            return False
        try:
            draft.start(booking.lease, again=True)
        except RefusedError:
            return False
        return True

    # --- inside -------------------------------------------------------------------------------------------------

    def _look_on(self) -> bool:
        last = self.moments[-1].draft
        ends = last.next_end_us()
        if ends is None:
            return False
        draft = last.copy()
        draft.move_on(ends)
        self.moments.append(Moment(draft))
        return True

    def _might_start_before(self, job: int, before_us: int) -> bool:
        kind = self.placement.kind(self.view, self.notes, job)
        for moment in self.moments:
            if moment.draft.now >= before_us:
                return False
            if kind in moment.refused:
                continue
            if self.placement.find(moment.draft.view, self.notes, job, moment.draft.now) is not None:
                return True
            moment.refused.add(kind)
        return False

    def _due(self, after_us: int) -> list[Booking]:
        return sorted((booking for booking in self.booked.values() if booking.start_us > after_us), key=_first)

    def _beside_others(self, at: int, lease: Lease) -> Lease | None:
        """A lease for the same job at the same moment, beside those who start while it runs, as if they had started.

        Of those who start one after the other on the same things the first counts.
        """
        draft, job = self.moments[at].draft.copy(), lease.job
        draft.start(lease)
        ends = draft.booked_end_us(job)
        others = [booking for booking in self._due(draft.now) if booking.start_us < ends]
        if not others:
            return lease
        draft = self.moments[at].draft.copy()
        for booking in others:
            self.starts(draft, booking)
        return self.placement.find(draft.view, self.notes, job, draft.now)

    def _book(self, at: int, lease: Lease | None) -> bool:
        """Start a lease at a moment, if everyone else can still start as reserved."""
        if lease is None:
            return False
        draft = self.moments[at].draft.copy()
        try:
            draft.start(lease)
        except RefusedError:
            return False
        after = self._played(draft, self._due(draft.now), self.moments[at + 1 :])
        if after is None:
            return False
        self.booked[lease.job] = Booking(draft.now, self._turn, lease)
        self._turn += 1
        self.moments[at:] = after
        return True

    def _played(
        self, draft: Draft, due: list[Booking], before: list[Moment] | None = None, slips: bool = False
    ) -> list[Moment] | None:
        """What follows: this moment, and those after it to the last start.

        ``None``: somebody cannot start as reserved; unless reservations may slip, which are then noted as they are.
        ``before``: what followed until now; as soon as all is as it was then, it goes on as it did.
        """
        moments, at, late = [Moment(draft)], 0, list[Booking]()
        known, then = before or [], 0
        while True:
            while at < len(due) and due[at].start_us == draft.now:
                late.append(due[at])
                at += 1
            waiting, late = late, []
            for booking in waiting:
                if not self.starts(draft, booking):
                    late.append(booking)
                elif slips:
                    self.booked[booking.lease.job] = booking._replace(start_us=draft.now)
            if late and not slips:
                return None
            while then < len(known) and known[then].draft.now < draft.now:
                then += 1
            if then == len(known) and at == len(due) and not late:
                return moments
            if then < len(known) and known[then].draft.now == draft.now and known[then].draft.goes_on_as(draft):
                return moments[:-1] + known[then:]
            ahead = [] if at == len(due) else [due[at].start_us]
            ends = draft.next_end_us()
            if ends is not None:
                ahead.append(ends)
            if not ahead:
                return moments
            draft = draft.copy()
            draft.move_on(min(ahead))
            moments.append(Moment(draft))


def _first(booking: Booking) -> tuple[int, int]:
    return booking.start_us, booking.turn
