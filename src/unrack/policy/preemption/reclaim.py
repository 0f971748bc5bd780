"""Which jobs may be stopped so that a queue has its quota back.

A job that leaves its queue within its nominal quota (Kueue, ClusterQueue: preemption) may have jobs stopped of other
queues of the cohort, as long as these queues use more than theirs of what it asks for, and the cohorts between
such a queue and one that both are in more than what these have; and any job those of lower priority of its own queue.
One that leaves a cohort within what that has may have jobs stopped outside of it. So what is borrowed shrinks with
every job that is stopped for one of another queue, and nothing is borrowed from those that lose one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Lease
from unrack.resources.places import AMOUNT, PLACE
from unrack.resources.site.installed import Site
from unrack.resources.site.quotas import Part
from unrack.view import View


class Reclaim:
    """Which queue uses how much of which quota, as a ledger has it."""

    def __init__(self, view: View) -> None:
        claimed = view.columns.claimed
        assert claimed is not None
        part = next(part for part in view.cluster.places.parts if part.name == "site")
        site = part.installed
        assert isinstance(site, Site)
        self.view, self.part, self.site, self.claimed = view, part, site, claimed
        self.used: Ints = part.total - claimed.free[part.places]
        self.place_of = {quota.part: place for place, quota in site.nominal.items()}

    def victims(self, job: int, turn: Sequence[int]) -> list[int]:
        """Those of some running jobs, in their order, that may be stopped for a job once those before them are."""
        queue, used, found = self._queue(job), self.used.copy(), list[int]()
        levels = [(self._parts(claims), self._level(used, claims)) for claims in self._claims(job)]
        over = [part.upward[level:] for parts, level in levels if level is not None for part in parts]
        for other in turn:
            own = self.part.own(self.view.lease(other).claims)
            if self._queue(other) != queue:
                its = [_below(part, upward) for part in self._parts(own.tolist()) for upward in over]
                if not any(some and all(self._use(used, one) > one.has for one in some) for some in its):
                    continue
            used[own[:, PLACE]] -= own[:, AMOUNT]
            found.append(other)
        return found

    def has_quota(self, job: int) -> bool:
        """Whether a job lacks no quota now, or may have its quota back: what comes back is for it."""
        rows = [np.array(claims, np.int64).reshape(-1, 2) for claims in self._claims(job)]
        left = self.part.total - self.used
        return any(
            (row[:, 1] <= left[row[:, 0]]).all() or self._level(self.used, row.tolist()) is not None for row in rows
        )

    def borrowed(self, job: int, ahead: Sequence[int]) -> list[int]:
        """The places where a job would borrow in one flavour, if it would not in another; none of jobs ahead of it."""
        rows, nominal = self._claims(job), self.site.nominal
        inside = {place for claims in rows if self._level(self.used, claims) is not None for place, _ in claims}
        if not inside or self._queue(job) in map(self._queue, ahead):
            return []
        numbers = np.arange(len(self.claimed.free))[self.part.places]
        places = {place for claims in rows for place, _ in claims if place in nominal} - inside
        return [int(numbers[place]) for place in sorted(places)]

    def allows(self, job: int, lease: Lease, victims: Sequence[int]) -> bool:
        """Whether a job borrows nothing from others than its own queue that lose jobs where it starts."""
        queue, used, losers = self._queue(job), self.used.copy(), list[Part]()
        for other in victims:
            own = self.part.own(self.view.lease(other).claims)
            used[own[:, PLACE]] -= own[:, AMOUNT]
            losers += self._parts(own.tolist()) if self._queue(other) != queue else []
        if all(self._queue(other) == queue for other in victims):
            return True
        claims = self.part.own(lease.claims).tolist()
        level = self._level(used, claims)
        mine = [part.upward for part in self._parts(claims)]
        return level is not None and not any(
            one.upward[-1] in upward and not _below(one, upward[level:]) for one in losers for upward in mine
        )

    def _level(self, used: Ints, claims: Iterable[Sequence[int]]) -> int | None:
        """How far up a job leaves what its queue is in within what that has, 0: the queue; but not all of a tree."""
        nominal = self.site.nominal
        more = {nominal[place].part: amount for place, amount in claims if place in nominal}
        chains = [part.upward for part in more]
        heights = range(max(1, min(map(len, chains), default=1) - 1))
        fits = (at for at in heights if all(self._use(used, own[at], more) <= own[at].has for own in chains))
        return next(fits, None)

    def _use(self, used: Ints, part: Part, more: dict[Part, int] | None = None) -> int:
        """What counts as used of a part; ``more``: beside what is."""
        places, new = self.place_of, more or {}
        return part.used(lambda queue: (int(used[places[queue]]) if queue in places else 0) + new.get(queue, 0))

    def _parts(self, claims: Iterable[Sequence[int]]) -> list[Part]:
        nominal = self.site.nominal
        return [nominal[place].part for place, _ in claims if place in nominal]

    def _claims(self, job: int) -> list[list[tuple[int, int]]]:
        return self.site.quota_claims(self.claimed.asked(job)[self.part.quantities])

    def _queue(self, job: int) -> str:
        return self.site.queue_of(self.claimed.asked(job)[self.part.quantities])


def _below(part: Part, upward: Sequence[Part]) -> list[Part]:
    """A queue and the cohorts that it is in, up to one that is over the first of some; none: there is none over it."""
    own = part.upward
    at = next((at for at, one in enumerate(own) if one in upward), 0)
    return own[:at] if own[at] in upward[1:] else []
