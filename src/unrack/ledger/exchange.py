"""Many running jobs get other leases at once: all of them, or none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unrack.errors import RefusedError
from unrack.jit import compiled, inlined
from unrack.ledger.holding import MEETS, PROBLEMS, add_loans, add_rows, check_free, check_held
from unrack.ledger.lease import NODES, Lease, loans_of
from unrack.ledger.memory_use import AT, FOR, MB, NEXT_OF, MemoryUse, drop_uses, note_uses, with_room
from unrack.ledger.names import FIRST_ROW, MEM, ROW_COUNT
from unrack.ledger.state import NO_PEAKS, RUNNING, ClusterState, Extra
from unrack.sealed import sealed_columns

Ints = NDArray[np.int64]


def is_plain(state: ClusterState, lease: Lease) -> bool:
    """Whether a lease is of nodes and loans alone, of a job that runs on such a lease."""
    extra = state.extra.get(lease.job)
    beside = extra is not None and (bool(extra.shares) or len(extra.claims) > 0)
    return not beside and not lease.shares and not len(lease.claims)


def exchange_all(state: ClusterState, leases: Sequence[Lease], below: bool) -> None:
    """Give running jobs other leases of nodes and loans; who uses whose memory is kept in this run.

    Parameters
    ----------
    leases
        One a job, each :func:`is_plain`. Together they are free once all of these jobs have given back what they hold.
    below
        As of :meth:`unrack.ledger.state.ClusterState.apply`.

    Raises
    ------
    RefusedError
        A job is not running, or something is not free; nothing has changed.
    """
    assert state.memory is not None
    for lease in leases:
        if state.condition(lease.job) != RUNNING:
            raise RefusedError(f"resize job {lease.job}: it is not running")
    which_jobs = [lease.job for lease in leases]
    if len(set(which_jobs)) < len(which_jobs):
        raise RefusedError(f"resize jobs {which_jobs}: one of them twice")
    jobs = np.array(which_jobs, np.int64)
    borrowed = [loans_of(lease.borrowed) for lease in leases]
    rows = np.concatenate([lease.rows for lease in leases])
    loans = np.concatenate(borrowed)
    row_first = _starts([lease.rows.shape[0] for lease in leases])
    loan_first = _starts([len(own) for own in borrowed])
    gone = int(state.lease_at[ROW_COUNT, jobs].sum())
    state.make_room(len(rows), 0)
    room = with_room(state.memory, int(rows[:, NODES].sum()) + len(loans))
    if room is not state.memory:
        state.memory, state.seen.memory = room, sealed_columns(room)
    verdict, which, cores = _exchange(
        jobs, rows, row_first, loans, loan_first, below, state.group, state.asks, state.free, state.pool,
        state.pool_used, state.lease_at, state.memory,
    )  # fmt: skip
    if verdict < MEETS:
        raise RefusedError(f"resize job {jobs[which]}: {PROBLEMS[verdict]}")
    state.pool_used += len(rows)
    state.pool_dead += gone
    state.free_cores += cores
    state.releases += 1
    state.unforeseen += 1
    state.version += 1
    peaks = state.peaks
    for lease, own in zip(leases, borrowed, strict=True):
        job, extra = lease.job, state.extra.get(lease.job)
        if extra is not None:
            extra.borrowed = own
        elif len(own):
            state.extra[job] = Extra(own)
        drop_uses(state.memory, job)
        note_uses(state.memory, job, lease.rows, own, NO_PEAKS if peaks is None else peaks.of(job))


def _starts(counts: list[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.array(counts, np.int64))])


@inlined
def add_borrowed(free: Ints, m: MemoryUse, job: int, sign: int) -> None:
    """Give what a job borrows back to its lenders, or take it away from them again."""
    entry = m.first_of[job]
    while entry >= 0:
        if m.use[AT, entry] != m.use[FOR, entry]:
            free[MEM, m.use[AT, entry]] += sign * m.use[MB, entry]
        entry = m.use[NEXT_OF, entry]


@compiled
def _exchange(
    jobs: Ints, rows: Ints, row_first: Ints, loans: Ints, loan_first: Ints, below: bool, group: Ints, asks: Ints,
    free: Ints, pool: Ints, used: int, lease_at: Ints, m: MemoryUse,
) -> tuple[int, int, int]:  # fmt: skip
    """Take the new leases in place of the old ones; MEETS, or the key of a problem; which job has it; cores freed."""
    problem, which, freed = 0, 0, 0
    for i in range(jobs.shape[0]):
        own, lent = rows[row_first[i] : row_first[i + 1]], loans[loan_first[i] : loan_first[i + 1]]
        problem = check_held(jobs[i], own, lent, below, group, asks, free.shape[1])
        if problem < 0:
            return problem, i, 0
    for i in range(jobs.shape[0]):
        job = jobs[i]
        first = lease_at[FIRST_ROW, job]
        freed += add_rows(free, pool, first, first + lease_at[ROW_COUNT, job], 1)
        add_borrowed(free, m, job, 1)
        freed -= add_rows(free, rows, row_first[i], row_first[i + 1], -1)
        add_loans(free, loans, loan_first[i], loan_first[i + 1], -1)
    for i in range(jobs.shape[0]):
        own, lent = rows[row_first[i] : row_first[i + 1]], loans[loan_first[i] : loan_first[i + 1]]
        problem = check_free(free, own, lent)
        if problem < 0:
            which = i
            break
    if problem < 0:
        for i in range(jobs.shape[0]):
            job = jobs[i]
            first = lease_at[FIRST_ROW, job]
            add_rows(free, pool, first, first + lease_at[ROW_COUNT, job], -1)
            add_borrowed(free, m, job, -1)
            add_rows(free, rows, row_first[i], row_first[i + 1], 1)
            add_loans(free, loans, loan_first[i], loan_first[i + 1], 1)
        return problem, which, 0
    for i in range(jobs.shape[0]):
        lease_at[FIRST_ROW, jobs[i]] = used + row_first[i]
        lease_at[ROW_COUNT, jobs[i]] = row_first[i + 1] - row_first[i]
    for r in range(rows.shape[0]):
        for c in range(5):
            pool[used + r, c] = rows[r, c]
    return 0, 0, freed
