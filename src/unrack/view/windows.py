"""What windows keep from a job that starts now: nodes, and amounts of places such as licences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import LENDER
from unrack.reasons import Code, Reason
from unrack.resources.places import AMOUNT, PLACE
from unrack.units import SECOND_US
from unrack.workload.job import ESTIMATE

if TYPE_CHECKING:
    from unrack.view.view import View


class Short(NamedTuple):
    """A place of which a window leaves a job too little."""

    place: int
    from_us: int  # when, µs
    asked: int
    left: int  # how much is left then

    def reason(self, view: View) -> Reason:
        """The same in words."""
        _, place = view.cluster.places.at(self.place)
        later = f", from {self.from_us / SECOND_US:.0f} s on" if self.from_us > view.now else ""
        return Reason(Code.NO_ROOM, f"{place.name}{later}", self.asked, max(0, self.left))


def outside_windows(view: View, job: int, until: int | None = None) -> Bools:
    """bool[nodes]: those not kept for others if a job runs from now until a time, µs; ``None``: as long as expected."""
    state, now = view._state, view.now
    mine = int(state.set_owner[state.set_of[job]])
    until = now + int(view.columns.asks[ESTIMATE, job]) if until is None else until
    found, inside = np.ones(len(view.cluster), np.bool_), mine == 0
    for window in view.cluster.places.windows:
        if window.owner == abs(mine):
            within = window.start_us <= now and until <= window.end_us
            inside = inside or within or (mine < 0 and now < window.end_us)
        elif now < window.end_us and window.start_us < max(until, now + 1):
            found &= ~window.nodes
    return np.asarray(found & inside)


def beside_kept(view: View, job: int, free: Ints) -> Ints:
    """int64[places]: the least of each that windows leave of what is free if a job starts now; as of :func:`kept_from`.

    Less than 0: more is held than they leave.
    """
    windows = view.cluster.places.keeping
    if view.knows_windows or not windows.size:
        return free
    now, until = view.now, view.now + max(1, int(view.columns.asks[ESTIMATE, job]))
    start, place, amount = windows[[0, 2, 3]][:, (now < windows[1]) & (windows[0] < until)]
    left, at = free.copy(), np.maximum(start, now)
    for time in np.unique(at).tolist():
        own, back = at == time, np.zeros(len(free), np.int64)
        if time > now:
            for claims in _back_by(view, time):
                np.add.at(back, claims[:, PLACE], claims[:, AMOUNT])
        left[place[own]] = np.minimum(left[place[own]], free[place[own]] + back[place[own]] - amount[own])
    return left


def kept_from(view: View, job: int, free: Ints | None = None, claims: Ints | None = None) -> Short | None:
    """The first place of which windows leave too little for a job if it starts now; ``None``: there is enough.

    What is free when a window begins is what is free now, and what running jobs give back by their booked ends.

    Parameters
    ----------
    free : int64[places]
        What is free now; ``None``: as the view says.
    claims : int64[claims, 2]
        What it is to claim; ``None``: wherever it runs.
    """
    places, claimed = view.cluster.places, view.columns.claimed
    if claimed is None or not places.kept or view.knows_windows:
        return None
    now, until = view.now, view.now + max(1, int(view.columns.asks[ESTIMATE, job]))
    free = claimed.free if free is None else free
    claims = places.kept_claims(claimed.asked(job)) if claims is None else claims
    for place, asked in claims.tolist():
        for window in places.kept.get(place, ()):
            if now < window.end_us and window.start_us < until:
                at = max(now, window.start_us)
                back = _back_by(view, at) if at > now else ()
                left = int(free[place]) - window.amount
                left += sum(int(own[own[:, PLACE] == place, AMOUNT].sum()) for own in back)
                if left < asked:
                    return Short(place, at, asked, left)
    return None


def may_go_on(view: View, job: int) -> bool:
    """Whether windows leave a running job what it holds for as long as it is expected to run from now on."""
    lease, claimed = view.lease(job), view.columns.claimed
    if not outside_windows(view, job)[np.concatenate([lease.nodes, lease.borrowed[:, LENDER]])].all():
        return False
    if claimed is None:
        return True
    free = claimed.free.copy()
    np.add.at(free, lease.claims[:, PLACE], lease.claims[:, AMOUNT])
    return kept_from(view, job, free, lease.claims) is None


def _back_by(view: View, time: int) -> list[Ints]:
    """What running jobs give back until a time, µs, as booked, whatever else is expected of them: claims of each."""
    ends, jobs = view.columns.running[:, : view.columns.running_count]
    return [view.lease(job).claims for job in jobs[np.maximum(ends, view.now + 1) <= time].tolist()]
