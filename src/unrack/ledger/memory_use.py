"""Which jobs use which node's memory: every use of a node's memory by a job as one entry, chained by node and by job.

Kept only in runs of policies that lend memory, or in which jobs slow each other down through memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from unrack.errors import RefusedError
from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.kernels.structs import InKernels
from unrack.ledger.columns import FIRST_ROW, OF_JOB, ROW_COUNT
from unrack.ledger.lease import BORROWER, CORES, FIRST, LOAN_MB, LOCAL_MB, NODES, TASKS, Lease, nodes_of

JOB, AT, FOR, MB, NEXT_AT, PREVIOUS_AT, NEXT_OF, IN_USE = range(8)
"""Rows of :attr:`MemoryUse.use`."""
UNUSED, COUNT = range(2)
"""Entries of :attr:`MemoryUse.counter`: the first unused entry (-1: none), how many entries are in use."""


class _MemoryUse(NamedTuple):
    """The fields of :class:`MemoryUse`."""

    # int64[8, room]: An entry for each job, node of the memory (AT) and node of the tasks that use it (FOR): JOB,
    # AT, FOR, MB; the next and the previous entry AT the same node, and the next of the same job; -1 = no more. AT ==
    # FOR: local. IN_USE: how many of these MB the tasks ever use; they fill what is local first, then loans in their
    # order. Replaced by a larger one when it is full: take it from the state anew each time.
    use: Ints
    first_at: Ints  # int64[nodes]: the entry on each node's memory that came last
    first_of: Ints  # int64[jobs]: the first entry of each job
    # lent, borrowed: int64[nodes]: MB of each node that tasks elsewhere use; MB of others that its tasks use
    lent: Ints
    borrowed: Ints
    counter: Ints  # int64[2]: UNUSED, COUNT


class MemoryUse(InKernels, _MemoryUse):
    """Arrays that the kernels read and write."""


class Peaks(NamedTuple):
    """The most that tasks ever use."""

    # int64[jobs + 1]: the entries of job i are ``mb[first[i]:first[i + 1]]``: none (all that it holds), one for all
    # its tasks, or one a task
    first: Ints
    mb: Ints  # int64[entries]

    def of(self, job: int) -> Ints:
        """int64[k]: the entries of a job."""
        return self.mb[self.first[job] : self.first[job + 1]] if job + 1 < len(self.first) else NO_PEAKS


NO_PEAKS: Ints = np.empty(0, np.int64)


def make_memory_use(nodes: int, jobs: int, room: int = 1024) -> MemoryUse:
    """No job uses anything."""
    use = np.full((8, room), -1, np.int64)
    use[NEXT_OF] = np.append(np.arange(1, room), -1)
    return MemoryUse(
        use,
        np.full(nodes, -1, np.int64),
        np.full(jobs, -1, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(2, np.int64),
    )


def with_room(memory: MemoryUse, more: int) -> MemoryUse:
    """The same, with room for ``more`` further entries."""
    room = memory.use.shape[1]
    count = int(memory.counter[COUNT])
    if count + more <= room:
        return memory
    size = room
    while size < 2 * (count + more):
        size *= 2
    use = np.full((8, size), -1, np.int64)
    use[:, :room] = memory.use
    use[NEXT_OF, room:] = np.append(np.arange(room + 1, size), memory.counter[UNUSED])
    memory.counter[UNUSED] = room
    return memory._replace(use=use)


@inlined
def add_use(m: MemoryUse, job: int, at: int, user: int, mb: int, in_use: int) -> None:
    """Note one use."""
    entry = m.counter[UNUSED]
    m.counter[UNUSED] = m.use[NEXT_OF, entry]
    m.counter[COUNT] += 1
    m.use[JOB, entry] = job
    m.use[AT, entry] = at
    m.use[FOR, entry] = user
    m.use[MB, entry] = mb
    m.use[IN_USE, entry] = in_use
    following = m.first_at[at]
    m.use[NEXT_AT, entry] = following
    m.use[PREVIOUS_AT, entry] = -1
    if following >= 0:
        m.use[PREVIOUS_AT, following] = entry
    m.first_at[at] = entry
    m.use[NEXT_OF, entry] = m.first_of[job]
    m.first_of[job] = entry
    if at != user:
        m.lent[at] += mb
        m.borrowed[user] += mb


@compiled
def note_uses(m: MemoryUse, job: int, rows: Ints, loans: Ints, peaks: Ints) -> None:
    """Note all that a lease uses; there must be room for an entry for each of its nodes and loans.

    ``peaks``: the most that the job's tasks ever use, one for all or one a task, in MB; none: all that they hold.
    """
    task = 0
    for r in range(rows.shape[0]):
        for node in range(rows[r, 0], rows[r, 0] + rows[r, 1]):
            left = rows[r, 4]
            if peaks.shape[0] > 0:
                left = peak_on(peaks, task, rows[r, 2])
                task += rows[r, 2]
            if rows[r, 4] > 0:
                add_use(m, job, node, node, rows[r, 4], min(left, rows[r, 4]))
            if peaks.shape[0] > 0:
                left = max(0, left - rows[r, 4])
                for i in range(loans.shape[0]):
                    if loans[i, 0] == node:
                        taken = min(left, loans[i, 2])
                        add_use(m, job, loans[i, 1], node, loans[i, 2], taken)
                        left -= taken
    if peaks.shape[0] == 0:
        for i in range(loans.shape[0]):
            add_use(m, job, loans[i, 1], loans[i, 0], loans[i, 2], loans[i, 2])


@inlined
def peak_on(peaks: Ints, task: int, tasks: int) -> int:
    """The most that tasks ``task`` to ``task + tasks - 1`` use together."""
    if peaks.shape[0] == 1:
        return int(tasks * peaks[0])
    total = 0
    for t in range(task, task + tasks):
        total += peaks[t]
    return total


@compiled
def drop_uses(m: MemoryUse, job: int) -> None:
    """Forget all uses of a job."""
    entry = m.first_of[job]
    while entry >= 0:
        at, user = m.use[AT, entry], m.use[FOR, entry]
        following, previous = m.use[NEXT_AT, entry], m.use[PREVIOUS_AT, entry]
        if previous >= 0:
            m.use[NEXT_AT, previous] = following
        else:
            m.first_at[at] = following
        if following >= 0:
            m.use[PREVIOUS_AT, following] = previous
        if at != user:
            m.lent[at] -= m.use[MB, entry]
            m.borrowed[user] -= m.use[MB, entry]
        after = m.use[NEXT_OF, entry]
        m.use[JOB, entry] = -1
        m.use[NEXT_OF, entry] = m.counter[UNUSED]
        m.counter[UNUSED] = entry
        m.counter[COUNT] -= 1
        entry = after
    m.first_of[job] = -1


@compiled
def lacking_mb(rows: Ints, loans: Ints, task_mb: Ints) -> int:
    """What the tasks of a lease use beyond what it holds where they run, MB; 0: it lacks nothing.

    ``task_mb``: int64[k], what a task uses: one for all, or one a task.
    """
    lacking = task = 0
    for r in range(rows.shape[0]):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            short = peak_on(task_mb, task, rows[r, TASKS]) - rows[r, LOCAL_MB]
            task += rows[r, TASKS]
            for i in range(loans.shape[0]):
                if loans[i, BORROWER] == node:
                    short -= loans[i, LOAN_MB]
            lacking += max(0, short)
    return lacking


@inlined
def loan_count(uses: MemoryUse, job: int) -> int:
    """How many loans a running job has."""
    count, entry = 0, uses.first_of[job]
    while entry >= 0:
        if uses.use[AT, entry] != uses.use[FOR, entry]:
            count += 1
        entry = uses.use[NEXT_OF, entry]
    return count


@compiled
def with_loans(
    running: Ints, count: int, pool: Ints, lease_at: Ints, claims: Ints, claimed_at: Ints, places: int, uses: MemoryUse,
    found: Ints, at: Ints, held: Ints, held_at: Ints,
) -> None:  # fmt: skip
    """Write what running jobs hold, with their loans.

    Those before ``found`` are as the ledger has them; ``count``: how many run; ``places``: how many of resources there
    are. Written: rows and claims, and the first and the number of each job that runs (``at``, ``held_at``).
    """
    use, first_of = uses.use, uses.first_of
    row = claim = 0
    for i in range(count):
        job = running[OF_JOB, i]
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


def smaller(lease: Lease, mb_by_node: Mapping[int, int]) -> Lease:
    """The lease with less memory on some of its nodes: what is borrowed goes back before what is local.

    Of several loans to a node the last goes back first. A :class:`unrack.policy.contract.Resize` with ``below``
    exchanges what a running job holds for it, also where that is less than the job asks.

    Parameters
    ----------
    lease
        What a job holds.
    mb_by_node
        Node → the MB that its tasks keep in all, local and borrowed. Nodes that are not named keep what they have.

    Raises
    ------
    RefusedError
        A node holds no task of the job, or less than it is to keep.

    Examples
    --------
    >>> from unrack.ledger.lease import Loan
    >>> held = Lease.on(0, nodes=[4], tasks=[1], cores=[8], mb=[100], borrowed=[Loan(4, 7, 30), Loan(4, 9, 20)])
    >>> less = smaller(held, {4: 120})
    >>> less.borrowed.tolist(), less.rows.tolist()
    ([[4, 7, 20]], [[4, 1, 1, 8, 100]])
    """
    rows = np.repeat(lease.rows, lease.rows[:, NODES], axis=0)
    rows[:, 0], rows[:, NODES] = nodes_of(lease.rows), 1
    loans = lease.borrowed.copy()
    for node, keep in sorted(mb_by_node.items()):
        here, its = np.flatnonzero(rows[:, 0] == node), np.flatnonzero(loans[:, BORROWER] == node)
        held = int(rows[here, LOCAL_MB].sum() + loans[its, LOAN_MB].sum())
        if not len(here):
            raise RefusedError(f"shrink job {lease.job}: it holds no task on node {node}")
        if not 0 <= keep <= held:
            raise RefusedError(f"shrink job {lease.job}: node {node} is to keep {keep} MB, and holds {held} MB")
        back = held - keep
        for places, amounts in ((its[::-1], loans[:, LOAN_MB]), (here[::-1], rows[:, LOCAL_MB])):
            for place in places.tolist():
                mb = min(back, int(amounts[place]))
                amounts[place] -= mb
                back -= mb
    return lease._replace(rows=rows, borrowed=loans[loans[:, LOAN_MB] > 0])
