"""Loans of one lender are compared with what is free together, and what was compared stays as it was."""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.policy.discipline.skyline.starting import must_wait
from unrack.policy.discipline.skyline.steps import RowSpan, Slots, fit_together
from unrack.view import PLENTY

TASKS_ON_0 = [0, 1, 2, 4, 10]
TWO_LOANS_OF_1 = [[1, 1, -1, 0, 6], [1, 1, -1, 0, 6]]
LEASE: Ints = np.array([TASKS_ON_0, *TWO_LOANS_OF_1], np.int64)


@compiled
def fit(free: Ints, rows: Ints) -> bool:
    """The kernel's, from Python."""
    return fit_together(free, RowSpan(rows, 0, rows.shape[0], rows[:0, :2].copy(), 0, 0))


@compiled
def waits(wait_for: Ints, rows: Ints, may_lend: Ints) -> bool:
    """The kernel's, from Python; no node lends anything yet."""
    none = np.full(2, -1)
    slots = Slots(none, none, np.full(2, PLENTY), 0)
    span = RowSpan(rows, 0, rows.shape[0], rows[:0, :2].copy(), 0, 0)
    return must_wait(wait_for, span, np.zeros((1, 1, 1), np.int64), slots, may_lend)


def test_two_loans_that_fit_one_by_one_need_not_fit_together() -> None:
    for free_mb, fits in ((11, False), (12, True)):
        free = np.array([[4, 4], [10, free_mb]], np.int64)
        before = free.copy()
        assert fit(free, LEASE) is fits
        assert (free == before).all()


def test_who_borrows_waits_for_others_on_a_lender_that_would_lend_too_much_to_start_them() -> None:
    """And not for itself; both loans together are 12 MB."""
    both, none = np.array([TASKS_ON_0, [1, 1, 2, 4, 0], *TWO_LOANS_OF_1], np.int64), np.array([0, 0])
    assert not waits(np.array([1, 0]), LEASE, none)
    assert not waits(np.array([1, 1]), both, none)
    for starting, rows in ((np.array([1, 1]), LEASE), (np.array([1, 2]), both)):
        for most, must in ((0, True), (11, True), (12, False)):
            assert waits(starting, rows, np.array([0, most])) is must
