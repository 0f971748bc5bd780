"""Leases as rows and claims alone, as plans keep them: memory that is lent counts like what is held.

A loan is a row of its lender, with -1 less the borrower for tasks, and a claim of what the lender lends: behind the
places of resources each node has one.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Ints
from unrack.ledger.lease import BORROWER, CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS, Lease, nodes_of
from unrack.ledger.memory.use import AT, FOR, MB, NEXT_OF, MemoryUse
from unrack.ledger.names import FIRST_ROW, ROW_COUNT, WHO
from unrack.resources.places import PLACE


def as_rows(lease: Lease, places: int) -> tuple[Ints, Ints]:
    """The rows and claims of a lease, loans among them; ``places``: how many there are of resources."""
    loans = lease.borrowed
    if not len(loans):
        return lease.rows, lease.claims
    rows = np.zeros((len(loans), 5), np.int64)
    rows[:, FIRST], rows[:, NODES], rows[:, TASKS] = loans[:, LENDER], 1, -1 - loans[:, BORROWER]
    rows[:, LOCAL_MB] = loans[:, LOAN_MB]
    claims = np.stack([places + loans[:, LENDER], loans[:, LOAN_MB]], axis=1)
    return np.concatenate([lease.rows, rows]), np.concatenate([lease.claims, claims])


def from_rows(job: int, rows: Ints, claims: Ints, places: int) -> Lease:
    """The lease of which :func:`as_rows` makes these; private copies.

    Examples
    --------
    >>> lease = Lease(7, np.array([[4, 1, 2, 8, 3]]), np.array([[4, 0, 5], [4, 1, 5]]))
    >>> again = from_rows(7, *as_rows(lease, places=2), places=2)
    >>> again.rows.tolist(), again.borrowed.tolist(), again.claims.tolist()
    ([[4, 1, 2, 8, 3]], [[4, 0, 5], [4, 1, 5]], [])
    """
    lent = rows[:, TASKS] < 0
    if not lent.any():
        return Lease(job, rows.copy(), claims=claims.copy())
    loans = rows[lent]
    count = loans[:, NODES]
    borrowed = np.stack(
        [np.repeat(-1 - loans[:, TASKS], count), nodes_of(loans), np.repeat(loans[:, LOCAL_MB], count)], axis=1
    )
    return Lease(job, rows[~lent], borrowed, claims=claims[claims[:, PLACE] < places])


@compiled
def with_loans(
    running: Ints, count: int, pool: Ints, lease_at: Ints, claims: Ints, claimed_at: Ints, places: int, uses: MemoryUse
) -> tuple[Ints, Ints, Ints, Ints]:
    """What running jobs hold, with their loans.

    ``running``, ``count``, ``pool``, ``lease_at``, ``claims``, ``claimed_at``: as the ledger has them; how many run;
    ``places``: how many places there are of resources.

    Returns
    -------
    rows : int64[rows, 5]
    at : int64[2, jobs]
        The first row of each job that runs, and how many it has.
    claims : int64[claims, 2]
    at : int64[2, jobs]
    """
    use, first_of = uses.use, uses.first_of
    rows, more = 0, 0
    for i in range(count):
        job = running[WHO, i]
        rows, more = rows + lease_at[ROW_COUNT, job], more + claimed_at[ROW_COUNT, job]
        entry = first_of[job]
        while entry >= 0:
            lent = use[AT, entry] != use[FOR, entry]
            rows, more = rows + lent, more + lent
            entry = use[NEXT_OF, entry]
    found, at = np.empty((rows, 5), np.int64), np.zeros_like(lease_at)
    held, held_at = np.empty((more, 2), np.int64), np.zeros_like(lease_at)
    row = claim = 0
    for i in range(count):
        job = running[WHO, i]
        at[FIRST_ROW, job], held_at[FIRST_ROW, job] = row, claim
        for r in range(lease_at[FIRST_ROW, job], lease_at[FIRST_ROW, job] + lease_at[ROW_COUNT, job]):
            for c in range(5):
                found[row, c] = pool[r, c]
            row += 1
        for r in range(claimed_at[FIRST_ROW, job], claimed_at[FIRST_ROW, job] + claimed_at[ROW_COUNT, job]):
            held[claim, 0], held[claim, 1] = claims[r, 0], claims[r, 1]
            claim += 1
        entry = first_of[job]
        while entry >= 0:
            lender = use[AT, entry]
            if lender != use[FOR, entry]:
                found[row, FIRST], found[row, NODES], found[row, TASKS] = lender, 1, -1 - use[FOR, entry]
                found[row, CORES], found[row, LOCAL_MB] = 0, use[MB, entry]
                held[claim, 0], held[claim, 1] = places + lender, use[MB, entry]
                row, claim = row + 1, claim + 1
            entry = use[NEXT_OF, entry]
        at[ROW_COUNT, job], held_at[ROW_COUNT, job] = row - at[FIRST_ROW, job], claim - held_at[FIRST_ROW, job]
    return found, at, held, held_at
