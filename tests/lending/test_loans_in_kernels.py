"""Loans that a plan chose have the layout of all others: another one would be another kernel of all that takes them."""

from __future__ import annotations

import numpy as np

from unrack.ledger.lease import Lease, as_rows, from_rows


def test_loans_read_from_rows_are_in_c_order() -> None:
    lease = Lease(7, np.array([[4, 2, 2, 8, 3]]), np.array([[4, 0, 5], [5, 1, 6]]))
    again = from_rows(7, *as_rows(lease, places=2), places=2).borrowed
    assert again.tolist() == lease.borrowed.tolist()
    assert again.flags.c_contiguous
