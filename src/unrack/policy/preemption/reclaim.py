"""Jobs that are stopped so that a queue has its nominal quota (Kueue, ClusterQueue: preemption).

A job that leaves its queue within its nominal quota may have jobs stopped of other queues of the cohort, as long as
these queues use more than theirs of what it asks for; and any job those of lower priority of its own queue. So what is
borrowed shrinks with every job that is stopped for one of another queue, and that one borrows nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Lease
from unrack.resources.places import AMOUNT, PLACE
from unrack.resources.site.installed import Site
from unrack.view import View


class Reclaim:
    """Who uses how much of which quota, as a ledger has it."""

    def __init__(self, view: View) -> None:
        claimed = view.columns.claimed
        assert claimed is not None
        part = next(part for part in view.cluster.places.parts if part.name == "site")
        site = part.installed
        assert isinstance(site, Site)
        self.view, self.part, self.site, self.claimed = view, part, site, claimed
        self.used: Ints = part.total - claimed.free[part.places]

    def victims(self, job: int, turn: Sequence[int]) -> list[int]:
        """Those of some running jobs, in their order, that may be stopped for a job once those before them are."""
        nominal, used = self.site.nominal, self.used.copy()
        queue, wanted, found = self._queue(job), self._in_nominal(job), list[int]()
        for other in turn:
            own = self.part.own(self.view.lease(other).claims)
            if self._queue(other) != queue:
                mine = [place for place in own[:, PLACE].tolist() if place in nominal]
                if not any(used[p] > nominal[p].amount and nominal[p].of in wanted for p in mine):
                    continue
            used[own[:, PLACE]] -= own[:, AMOUNT]
            found.append(other)
        return found

    def allows(self, job: int, lease: Lease, victims: Sequence[int]) -> bool:
        """Whether a job borrows nothing where it starts, if others than its own queue's are stopped for it."""
        queue = self._queue(job)
        if all(self._queue(other) == queue for other in victims):
            return True
        used = self.used.copy()
        for other in victims:
            own = self.part.own(self.view.lease(other).claims)
            used[own[:, PLACE]] -= own[:, AMOUNT]
        return self._within(used, self.part.own(lease.claims).tolist())

    def _within(self, used: Ints, claims: Sequence[Sequence[int]]) -> bool:
        """Whether claims of a job leave its queue within its nominal quota."""
        nominal = self.site.nominal
        return all(used[place] + amount <= nominal[place].amount for place, amount in claims if place in nominal)

    def _in_nominal(self, job: int) -> set[tuple[str, str]]:
        """The flavours in which a job leaves its queue within its nominal quota, each with what it asks there."""
        nominal, found = self.site.nominal, set[tuple[str, str]]()
        for claims in self.site.quota_claims(self.claimed.asked(job)[self.part.quantities]):
            if self._within(self.used, claims):
                found |= {nominal[place].of for place, _ in claims if place in nominal}
        return found

    def _queue(self, job: int) -> str:
        return self.site.queue_of(self.claimed.asked(job)[self.part.quantities])
