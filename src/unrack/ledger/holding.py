"""Compiled: take what a lease names from the free columns, and give it back, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.ordering import zeros
from unrack.ledger.columns import ASKED_CORES, ASKED_MB, ASKED_TASKS, CPU, ENDS_US, FIRST_ROW, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.lease import BORROWER, CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES, TASKS

MEETS = 0
PROBLEMS = {
    -1: "its lease names a node that does not exist, or holds nothing there",
    -2: "its lease holds more cores or memory than is free on a node",
    -3: "its lease does not hold all its tasks",
    -4: "its lease holds fewer cores than its tasks ask",
    -5: "its lease holds less memory than its tasks ask",
    -6: "its lease borrows from or for a node that does not exist or holds no task of it, or from that node itself",
    -7: "its lease borrows more memory than a node has free",
    -8: "its lease borrows from a node of another lending group",
    -9: "its lease leaves a node's tasks less memory, local and borrowed, than they ask",
    -10: "its lease leaves a node's tasks no core",
}


@inlined
def add_rows(free: Ints, rows: Ints, first: int, last: int, sign: int) -> int:
    """Add (sign 1) or take (-1) the amounts of ``rows[first:last]``; returns the cores added or taken."""
    cores = 0
    for r in range(first, last):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            free[CPU, node] += sign * rows[r, CORES]
            free[MEM, node] += sign * rows[r, LOCAL_MB]
        cores += rows[r, NODES] * rows[r, CORES]
    return cores


@inlined
def add_loans(free: Ints, loans: Ints, first: int, last: int, sign: int) -> None:
    """Add (sign 1) or take (-1) the memory of ``loans[first:last]`` at its lenders."""
    for i in range(first, last):
        free[MEM, loans[i, LENDER]] += sign * loans[i, LOAN_MB]


@inlined
def add_lease(
    free: Ints, rows: Ints, first: int, last: int, loans: Ints, loan_first: int, loan_last: int, sign: int
) -> int:
    """Add (sign 1) or take (-1) all of a lease, rows and loans; returns the cores added or taken."""
    add_loans(free, loans, loan_first, loan_last, sign)
    return add_rows(free, rows, first, last, sign)


@inlined
def check_loans(rows: Ints, loans: Ints, group: Ints, mb: int, nodes: int) -> int:
    """MEETS, or the key of the problem that the loans of a lease have; ``mb`` is asked per task."""
    held, spare = zeros(nodes), zeros(nodes)
    for r in range(rows.shape[0]):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            held[node] = 1
            spare[node] += rows[r, LOCAL_MB] - rows[r, TASKS] * mb
    for i in range(loans.shape[0]):
        borrower, lender = loans[i, BORROWER], loans[i, LENDER]
        if min(borrower, lender) < 0 or max(borrower, lender) >= nodes or lender == borrower:
            return -6
        if held[borrower] == 0 or loans[i, LOAN_MB] < 1:
            return -6
        if group[lender] != group[borrower] and group[lender] != -1:
            return -8
        spare[borrower] += loans[i, LOAN_MB]
    for node in range(nodes):
        if spare[node] < 0:
            return -9
    return 0


@inlined
def first_at_least(values: Ints, low: int, high: int, value: int) -> int:
    """The first place in the ascending ``values[low:high]`` that holds ``value`` or more; ``high``: none does."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def place_of(running: Ints, count: int, end: int, job: int) -> int:
    """Where (end, job) is, or belongs, in the order of (booked end, job)."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if running[ENDS_US, middle] < end or (running[ENDS_US, middle] == end and running[OF_JOB, middle] < job):
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def insert_running(running: Ints, count: int, end: int, job: int) -> None:
    """Note a job as running, booked to end at ``end``; there is room."""
    at = place_of(running, count, end, job)
    for i in range(count, at, -1):
        running[ENDS_US, i] = running[ENDS_US, i - 1]
        running[OF_JOB, i] = running[OF_JOB, i - 1]
    running[ENDS_US, at] = end
    running[OF_JOB, at] = job


@inlined
def find_running(running: Ints, count: int, end: int, job: int) -> int:
    """Where a running job is; fast if it is booked to end at ``end``."""
    at = place_of(running, count, end, job)
    if at < count and running[OF_JOB, at] == job:
        return at
    at = 0
    while running[OF_JOB, at] != job:
        at += 1
    return at


@inlined
def remove_running(running: Ints, count: int, at: int) -> None:
    """Strike the running job at a place."""
    for i in range(at, count - 1):
        running[ENDS_US, i] = running[ENDS_US, i + 1]
        running[OF_JOB, i] = running[OF_JOB, i + 1]


@inlined
def check_held(job: int, rows: Ints, loans: Ints, below: bool, group: Ints, asks: Ints, nodes: int) -> int:
    """MEETS, or the key of the problem that a lease has with what its job asks; what is free does not count.

    ``below``: it may hold fewer cores and less memory than asked, but one core on every node where cores are asked.
    """
    least_cores, least_mb = asks[ASKED_CORES, job], asks[ASKED_MB, job]
    if below:
        least_mb = 0
    tasks, mb = 0, 0
    for r in range(rows.shape[0]):
        first, length = rows[r, FIRST], rows[r, NODES]
        if (
            first < 0
            or length < 1
            or first + length > nodes
            or rows[r, TASKS] < 1
            or rows[r, CORES] < 0
            or rows[r, LOCAL_MB] < 0
        ):
            return -1
        if not below and rows[r, CORES] < rows[r, TASKS] * least_cores:
            return -4
        if below and least_cores > 0 and rows[r, CORES] < 1:
            return -10
        tasks += length * rows[r, TASKS]
        mb += length * rows[r, LOCAL_MB]
    if tasks != asks[ASKED_TASKS, job]:
        return -3
    for i in range(loans.shape[0]):
        mb += loans[i, LOAN_MB]
    if mb < tasks * least_mb:
        return -5
    if loans.shape[0] == 0:
        for r in range(rows.shape[0]):
            if rows[r, LOCAL_MB] < rows[r, TASKS] * least_mb:
                return -5
        return 0
    return check_loans(rows, loans, group, least_mb, nodes)


@inlined
def check_free(free: Ints, rows: Ints, loans: Ints) -> int:
    """MEETS, or the key of the problem that a lease which has just been taken has with what was free."""
    for r in range(rows.shape[0]):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            if free[CPU, node] < 0 or free[MEM, node] < 0:
                return -2
    for i in range(loans.shape[0]):
        if free[MEM, loans[i, LENDER]] < 0:
            return -7
    return 0


@compiled
def hold_job(
    job: int, end: int, rows: Ints, loans: Ints, below: bool, group: Ints, asks: Ints, free: Ints, running: Ints,
    count: int, pool: Ints, used: int,
) -> int:  # fmt: skip
    """Check a lease against the job's demand and the free columns, then take it and note the job as running.

    Its rows are copied to ``pool[used:]``.

    ``below``: it may hold less than the job's tasks ask. Returns the cores taken, or a key of ``PROBLEMS``; then
    nothing has changed.
    """
    problem = check_held(job, rows, loans, below, group, asks, free.shape[1])
    if problem < 0:
        return problem
    cores = add_lease(free, rows, 0, rows.shape[0], loans, 0, loans.shape[0], -1)
    problem = check_free(free, rows, loans)
    if problem < 0:
        add_lease(free, rows, 0, rows.shape[0], loans, 0, loans.shape[0], 1)
        return problem
    insert_running(running, count, end, job)
    for r in range(rows.shape[0]):
        for c in range(5):
            pool[used + r, c] = rows[r, c]
    return cores


@compiled
def rebook_job(running: Ints, count: int, end: int, later: int, job: int) -> None:
    """Move a running job that is booked to end at ``end`` to another place in the order of booked ends."""
    remove_running(running, count, find_running(running, count, end, job))
    insert_running(running, count - 1, later, job)


@compiled
def hold_jobs(jobs: Ints, rows: Ints, starts: Ints, group: Ints, asks: Ints, free: Ints) -> int:
    """Check leases, rows ``starts[i]`` to ``starts[i + 1]`` each, one after the other, and take them.

    Returns the cores taken, or a number below ``MEETS``; then nothing has changed.
    """
    cores, loans = 0, np.empty((0, 3), np.int64)
    for i in range(jobs.shape[0]):
        own = rows[starts[i] : starts[i + 1]]
        problem = check_held(jobs[i], own, loans, False, group, asks, free.shape[1])
        if problem >= MEETS:
            taken = add_lease(free, own, 0, own.shape[0], loans, 0, 0, -1)
            problem = check_free(free, own, loans)
            if problem >= MEETS:
                cores += taken
                continue
            add_lease(free, own, 0, own.shape[0], loans, 0, 0, 1)
        for before in range(i):
            given = rows[starts[before] : starts[before + 1]]
            add_lease(free, given, 0, given.shape[0], loans, 0, 0, 1)
        return problem
    return cores


class Stack(NamedTuple):
    """The leases of several jobs, one after the other."""

    rows: Ints  # int64[rows, 5]
    row_first: Ints  # int64[jobs + 1]: the rows of job i are ``rows[row_first[i]:row_first[i + 1]]``
    loans: Ints  # int64[loans, 3]
    loan_first: Ints  # int64[jobs + 1]


@inlined
def add_stack(free: Ints, stack: Stack, sign: int) -> int:
    """Add (sign 1) or take (-1) all of several leases; returns the cores added or taken."""
    add_loans(free, stack.loans, 0, stack.loans.shape[0], sign)
    return add_rows(free, stack.rows, 0, stack.rows.shape[0], sign)


@compiled
def exchange_leases(
    jobs: Ints, new: Stack, old: Stack, below: bool, group: Ints, asks: Ints, free: Ints
) -> tuple[int, int, int]:
    """Take the new leases of running jobs in place of their old ones.

    Returns MEETS, or a key of ``PROBLEMS`` and nothing has changed; the place of the job that has it; the cores freed.
    """
    for i in range(jobs.shape[0]):
        rows, loans = own_rows(new, i), own_loans(new, i)
        problem = check_held(jobs[i], rows, loans, below, group, asks, free.shape[1])
        if problem < 0:
            return problem, i, 0
    freed = add_stack(free, old, 1) - add_stack(free, new, -1)
    for i in range(jobs.shape[0]):
        problem = check_free(free, own_rows(new, i), own_loans(new, i))
        if problem < 0:
            add_stack(free, new, 1)
            add_stack(free, old, -1)
            return problem, i, 0
    return 0, 0, freed


@inlined
def own_rows(stack: Stack, i: int) -> Ints:
    """The rows of one of several leases."""
    return stack.rows[stack.row_first[i] : stack.row_first[i + 1]]


@inlined
def own_loans(stack: Stack, i: int) -> Ints:
    """The loans of one of several leases."""
    return stack.loans[stack.loan_first[i] : stack.loan_first[i + 1]]


@compiled
def release_job(job: int, loans: Ints, free: Ints, running: Ints, count: int, pool: Ints, lease_at: Ints) -> int:
    """Give back what a running job holds and strike it from the running ones; returns the cores given back."""
    at = 0
    while running[OF_JOB, at] != job:
        at += 1
    remove_running(running, count, at)
    first = lease_at[FIRST_ROW, job]
    return add_lease(free, pool, first, first + lease_at[ROW_COUNT, job], loans, 0, loans.shape[0], 1)


@compiled
def strike(queue: Ints, start: int, end: int, job: int) -> bool:
    """Take a job out of the ascending ``queue[start:end]`` by moving the shorter side; True: the start moved up."""
    low = first_at_least(queue, start, end, job)
    if low - start < end - low:
        for i in range(low, start, -1):
            queue[i] = queue[i - 1]
        return True
    for i in range(low, end - 1):
        queue[i] = queue[i + 1]
    return False


def stacked(rows: Sequence[Ints], loans: Sequence[Ints]) -> Stack:
    """The rows and loans of several leases, one after the other."""
    row_first, loan_first = starts_of([len(own) for own in rows]), starts_of([len(own) for own in loans])
    return Stack(np.concatenate(rows), row_first, np.concatenate(loans), loan_first)


def starts_of(counts: Sequence[int]) -> Ints:
    """int64[k + 1]: where each of k parts begins, and where the last ends."""
    return np.array([0, *accumulate(counts)], np.int64)
