"""A Slurm-like scheduler on whole nodes that lend memory, with plans that count nodes and MB in place of naming them.

It is :class:`unrack.policy.discipline.slurm_like.SlurmLike` with a rule for lent memory, and another plan: while all
that wait could have at once what else they ask for, reservations are of numbers (``counts_kernel.py``), and only a job
that starts now is given nodes and lenders. Else plans name them, as those of any scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Lease
from unrack.policy.columns import columns_of
from unrack.policy.contract import Start
from unrack.policy.discipline.skyline.plan import Plan
from unrack.policy.discipline.slurm_like import SlurmLike
from unrack.policy.lending.backfill_kernel import Classes, plan_round
from unrack.policy.lending.lease_kernel import Leases, room_for_leases
from unrack.policy.lending.lender_cost import LendingTerms
from unrack.policy.placement.claiming import claims_anywhere
from unrack.resources.places import AMOUNT, PLACE
from unrack.view import View


@dataclass(slots=True)
class Plenty:
    """What waiting jobs claim in all."""

    known: int = 0  # of how many jobs it is noted what they claim
    most: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # int64[places]: at most so much

    def lasts(self, view: View) -> bool:
        """Whether all that wait could claim at once what they ask, wherever they run.

        None asks for devices, or has components.
        """
        seen, devices = view.columns.claimed, view.columns.devices
        if devices is not None and bool(devices.columns.asked.any()):
            return False
        if len(view.columns.open_to) > 1 or view.cluster.places.windows or view.columns.components.of:
            return False
        if seen is None or not seen.asking:
            return True
        first, self.known = self.known, view.jobs
        if not len(self.most):
            self.most = np.zeros(len(seen.free), np.int64)
        if not self._add(view, range(first, self.known)):
            return False
        if not (self.most > seen.free).any():
            return True
        self.most[:] = 0
        return self._add(view, view.queue.tolist()) and not bool((self.most > seen.free).any())

    def _add(self, view: View, jobs: Iterable[int]) -> bool:
        """Add what jobs claim; False: of one of them that is a choice."""
        for job in jobs:
            claims = claims_anywhere(view, job)
            if claims is None:
                self.known = 0
                return False
            self.most[claims[:, PLACE]] += claims[:, AMOUNT]
        return True


@dataclass(slots=True)
class CountedPlan(Plan):
    """A plan that counts while that does: what it counts, and room for its answers."""

    classes: Classes | None = None  # nodes that are alike, once something was counted
    answers: Leases = field(default_factory=lambda: room_for_leases(0, 0))
    answered: Ints = field(default_factory=lambda: np.empty((5, 64), np.int64))
    plenty: Plenty = field(default_factory=Plenty)

    def grow(self, needed: int) -> None:
        """Make room for ``needed`` jobs, rows and loans."""
        self.answered = np.empty((5, max(needed, self.answered.shape[1])), np.int64)
        self.answers = room_for_leases(max(needed, len(self.answers.rows)), max(needed, len(self.answers.loans)))

    def starts(self, view: View, count: int) -> list[Start]:
        """The first ``count`` answers."""
        found, out = list[Start](), self.answers
        for job, first, last, loan, end in self.answered[:, :count].T.tolist():
            claims = claims_anywhere(view, job)
            assert claims is not None, "it was counted"
            found.append(Start(Lease(job, out.rows[first:last].copy(), out.loans[loan:end].copy(), claims=claims)))
        return found


def classes_of(view: View, terms: LendingTerms) -> Classes:
    """Nodes that have as many cores and as much memory."""
    computes = np.flatnonzero(view.cluster.cores > 0)
    kinds, of = np.unique(view.total[:, computes], axis=1, return_inverse=True)
    class_of = np.full(len(view.cluster), -1, np.int64)
    class_of[computes] = of.ravel()
    first = np.array([int(np.flatnonzero(class_of == k)[0]) for k in range(kinds.shape[1])])
    rank = np.argsort(first).astype(np.int64)
    by_memory = rank[np.argsort(-kinds[1][rank], kind="stable")]
    strict = bool((terms.threshold_mb >= view.cluster.memory_mb).all())
    return Classes(class_of, np.stack([*kinds, rank, by_memory]), strict)


@dataclass(frozen=True)
class LentSlurm(SlurmLike):
    """A Slurm-like scheduler with lent memory; parameters as of :class:`SlurmLike`."""

    def new_plan(self, view: View) -> CountedPlan:
        """A plan in which nothing is reserved."""
        return CountedPlan.begin(view, *self.how(view))

    def plan(self, view: View, memory: Plan, jobs: Ints, now: int, brief: bool) -> list[Start]:
        """Counted, while that does."""
        assert isinstance(memory, CountedPlan)
        if not memory.plenty.lasts(view):
            return super().plan(view, memory, jobs, now, brief)
        if memory.classes is None:
            memory.classes = classes_of(view, self.terms(view.cluster))
        alone, uses = self.mixed.alone(view, self.notes(view, memory)), view.columns.memory
        assert uses is not None
        while True:
            count = plan_round(
                jobs, now, alone.terms, columns_of(view), uses.kernel, alone.aware, memory.classes,
                memory.columns.start, memory.answered, memory.answers,
            )  # fmt: skip
            if count >= 0:
                return memory.starts(view, count)
            memory.grow(-count)
