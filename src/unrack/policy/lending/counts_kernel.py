"""Compiled: a plan of the future in numbers: by time, how many nodes of each class may compute and how much is free.

Row i of a plan (int64[steps, classes + 2]) is about the time from its first column to that of the next row: in column
1 + k how many nodes of class k may compute, in the last column the MB free on all nodes together. Of running jobs it is
exact: a node that lends counts from the end of its last loan. A reservation is of numbers, not of nodes: so many nodes
of each class to compute, so many that must lend instead, so many MB.

Everything is in few arrays because each array that is handed to a function is seven numbers to hand on.
"""

from __future__ import annotations

import numpy as np

from unrack.jit import inlined
from unrack.kernels.arrays import Ints
from unrack.ledger.columns import CPU, ENDS_US, FIRST_ROW, MEM, OF_JOB, ROW_COUNT
from unrack.ledger.lease import CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES
from unrack.ledger.memory.use import AT, FOR, MB, NEXT_OF, MemoryUse
from unrack.policy.columns import LedgerColumns
from unrack.policy.lending.borrowing import may_compute, tasks_by_cores
from unrack.policy.lending.lease_kernel import Asker, Leases, LeaseSpan
from unrack.policy.placement.node_kernel import tasks_on
from unrack.units import NEVER_US

NOT, LOCALLY, BORROWING = range(3)
"""How a job fits into a step."""
CLASS_CORES, CLASS_MB, RANK, BY_MEMORY = range(4)
"""Rows of ``kinds``: cores and MB of a node of each class; classes in the order of their first node, and those with
most memory first."""
LOW, TAKES, QUOTA = range(3)
"""Rows of ``scratch``: the least that is free throughout; what a job takes of it; the nodes on which it computes."""


@inlined
def levels_of(
    now: int, seen: LedgerColumns, uses: MemoryUse, threshold_mb: Ints, class_of: Ints, plan: Ints, from_us: Ints
) -> int:
    """Fill a plan of zeros from what is free and the booked ends of running jobs; how many steps.

    ``from_us`` gets when each node may compute.
    """
    free, total, running, pool, lease_at, use = (
        seen.free.copy(), seen.total, seen.running, seen.pool, seen.lease_at, uses.use,
    )  # fmt: skip
    last = plan.shape[1] - 1
    plan[0, 0] = now
    steps = 1
    for node in range(free.shape[1]):
        from_us[node] = NEVER_US
        plan[0, last] += free[MEM, node]
        if may_compute(free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]):
            from_us[node] = now
            plan[0, 1 + class_of[node]] += 1
    for i in range(seen.running_count):
        end, job = max(running[ENDS_US, i], now + 1), running[OF_JOB, i]
        step = steps - 1
        if end != plan[step, 0]:
            step = steps
            for column in range(1, last + 1):
                plan[step, column] = plan[step - 1, column]
            plan[step, 0] = end
            steps += 1
        for r in range(lease_at[FIRST_ROW, job], lease_at[FIRST_ROW, job] + lease_at[ROW_COUNT, job]):
            for node in range(pool[r, FIRST], pool[r, FIRST] + pool[r, NODES]):
                free[CPU, node] += pool[r, CORES]
                free[MEM, node] += pool[r, LOCAL_MB]
                plan[step, last] += pool[r, LOCAL_MB]
                if from_us[node] == NEVER_US and may_compute(
                    free[CPU, node], total[CPU, node], free[MEM, node], threshold_mb[node]
                ):
                    from_us[node] = end
                    plan[step, 1 + class_of[node]] += 1
        entry = uses.first_of[job]
        while entry >= 0:
            lender = use[AT, entry]
            if lender != use[FOR, entry]:
                free[MEM, lender] += use[MB, entry]
                plan[step, last] += use[MB, entry]
                if from_us[lender] == NEVER_US and may_compute(
                    free[CPU, lender], total[CPU, lender], free[MEM, lender], threshold_mb[lender]
                ):
                    from_us[lender] = end
                    plan[step, 1 + class_of[lender]] += 1
            entry = use[NEXT_OF, entry]
    return steps


@inlined
def fit_in(plan: Ints, i: int, rule: int, strict: bool, kinds: Ints, asker: Asker, scratch: Ints) -> int:
    """How a job fits into a row (NOT, LOCALLY or BORROWING); the row TAKES gets the nodes and MB that it costs."""
    classes, tasks, cores, mb = kinds.shape[1], asker.tasks, asker.cores, asker.mb
    for g in range(classes):
        scratch[TAKES, 1 + g] = 0
    scratch[TAKES, 1 + classes] = tasks * mb
    if tasks * mb > plan[i, 1 + classes]:
        return NOT
    left = tasks
    if rule >= 4:
        for r in range(classes):
            g = kinds[RANK, r]
            there = plan[i, 1 + g]
            each = tasks_on(kinds[CLASS_CORES, g], kinds[CLASS_MB, g], kinds[CLASS_CORES, g], cores, mb, False)
            if each == 0 or there <= 0:
                continue
            here = min(left, each * there)
            scratch[TAKES, 1 + g] = (here + each - 1) // each
            left -= here
            if left == 0:
                return LOCALLY
        left = tasks
    lacking = 0
    for r in range(classes):
        g = kinds[BY_MEMORY if rule >= 4 else RANK, r]
        there, has = plan[i, 1 + g], kinds[CLASS_MB, g]
        scratch[TAKES, 1 + g] = 0
        each = tasks_by_cores(kinds[CLASS_CORES, g], cores)
        if left == 0 or each == 0 or there <= 0:
            continue
        here = min(left, each * there)
        full, rest = here // each, here % each
        scratch[TAKES, 1 + g] = full + (1 if rest > 0 else 0)
        lacking += full * max(0, each * mb - has) + max(0, rest * mb - has)
        left -= here
    if left > 0:
        return NOT
    for g in range(classes):
        scratch[QUOTA, g] = scratch[TAKES, 1 + g]
    if strict:  # nodes that could compute lend where the memory of those that cannot does not suffice
        for g in range(classes):
            lacking += max(0, plan[i, 1 + g]) * kinds[CLASS_MB, g]
        lacking -= plan[i, 1 + classes]
        for r in range(classes - 1, -1, -1):
            g = kinds[BY_MEMORY, r]
            has = kinds[CLASS_MB, g]
            if lacking > 0 and has > 0:
                lend = max(0, min(plan[i, 1 + g] - scratch[TAKES, 1 + g], (lacking + has - 1) // has))
                scratch[TAKES, 1 + g] += lend
                lacking -= lend * has
    return BORROWING


@inlined
def earliest(
    after: int, plan: Ints, steps: int, rule: int, strict: bool, kinds: Ints, asker: Asker, scratch: Ints
) -> tuple[int, int]:
    """The first step from ``after`` on at which a job fits for as long as it runs, and how; (-1, NOT): never."""
    classes, tasks, cores, mb = kinds.shape[1], asker.tasks, asker.cores, asker.mb
    most = 1  # tasks on a node of any class
    for g in range(classes):
        most = max(most, tasks_by_cores(kinds[CLASS_CORES, g], cores))
    least = (tasks + most - 1) // most  # nodes
    i = after
    while i < steps:
        nodes = 0  # a call costs more than to see here that there are too few
        for g in range(classes):
            nodes += max(0, plan[i, 1 + g])
        if nodes < least or tasks * mb > plan[i, 1 + classes]:
            i += 1
            continue
        how = fit_in(plan, i, rule, strict, kinds, asker, scratch)
        if how == NOT:
            i += 1
            continue
        for column in range(1, classes + 2):
            scratch[LOW, column] = plan[i, column]
        end = plan[i, 0] + asker.us
        k = i + 1
        following = -1
        while k < steps and plan[k, 0] < end:
            changed = False
            for column in range(1, classes + 2):
                if plan[k, column] < scratch[LOW, column]:
                    scratch[LOW, column] = plan[k, column]
                    changed = True
            if changed:
                how = fit_in(scratch, LOW, rule, strict, kinds, asker, scratch)
                if how == NOT:
                    alone = fit_in(plan, k, rule, strict, kinds, asker, scratch)
                    following = k + 1 if alone == NOT else i + 1
                    break
            k += 1
        if following < 0:
            return i, how
        i = following
    return -1, NOT


@inlined
def step_at(plan: Ints, steps: int, time: int) -> tuple[int, int]:
    """The step that starts at ``time``, split off if there is none; and the new number of steps."""
    low, high = 0, steps
    while low < high:
        middle = (low + high) // 2
        if plan[middle, 0] < time:
            low = middle + 1
        else:
            high = middle
    if low < steps and plan[low, 0] == time:
        return low, steps
    for k in range(steps, low, -1):
        for column in range(plan.shape[1]):
            plan[k, column] = plan[k - 1, column]
    for column in range(1, plan.shape[1]):
        plan[low, column] = plan[low - 1, column]
    plan[low, 0] = time
    return low, steps + 1


@inlined
def reserve(plan: Ints, steps: int, start: int, length: int, scratch: Ints) -> int:
    """Book what the row TAKES says from ``start`` for ``length`` µs; returns the new number of steps."""
    a, steps = step_at(plan, steps, start)
    b, steps = step_at(plan, steps, start + length)
    for k in range(a, b):
        for column in range(1, plan.shape[1]):
            plan[k, column] -= scratch[TAKES, column]
    return steps


@inlined
def hold(
    plan: Ints, steps: int, safe: Ints, safe_steps: int, end: int, class_of: Ints, free: Ints, threshold_mb: Ints,
    out: Leases, span: LeaseSpan, from_us: Ints,
) -> tuple[bool, int, int]:  # fmt: skip
    """Book a lease of named nodes and loans from now to ``end``; whether that is possible, and the steps.

    Its nodes and memory must leave every reservation what it has. That its lenders do not compute for longer must leave
    it to the first reservation only, in the plan ``safe`` that holds no other: nodes that are kept free for the later
    ones could rarely lend at all. ``free`` is what is free before the lease.
    """
    rows, loans, loan_first, loan_last = out.rows, out.loans, span.loan, span.loan_end
    b, steps = step_at(plan, steps, end)
    safe_b, safe_steps = step_at(safe, safe_steps, end)
    takes = np.zeros(plan.shape[1], np.int64)
    for r in range(span.row, span.row_end):
        for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
            takes[1 + class_of[node]] += 1
            takes[-1] += rows[r, LOCAL_MB]
    for i in range(loan_first, loan_last):
        takes[-1] += loans[i, LOAN_MB]
    for k in range(b):
        for column in range(1, plan.shape[1]):
            if takes[column] > 0 and plan[k, column] < takes[column]:
                return False, steps, safe_steps
    add_everywhere(plan, b, takes, -1)
    add_everywhere(safe, safe_b, takes, -1)
    lent = np.zeros(from_us.shape[0] if loan_last > loan_first else 0, np.int64)
    before = np.empty(loan_last - loan_first, np.int64)
    for i in range(loan_first, loan_last):
        lender = loans[i, LENDER]
        lent[lender] += loans[i, LOAN_MB]
        before[i - loan_first] = from_us[lender]
        if class_of[lender] >= 0 and from_us[lender] < end and free[MEM, lender] - lent[lender] < threshold_mb[lender]:
            if not holds(rows, span, lender):
                lend_level(plan, b, from_us[lender], class_of[lender], -1)
                lend_level(safe, safe_b, from_us[lender], class_of[lender], -1)
            from_us[lender] = end
    possible = True
    for k in range(safe_b):
        for column in range(1, safe.shape[1]):
            possible = possible and safe[k, column] >= 0
    if possible:
        for r in range(span.row, span.row_end):
            for node in range(rows[r, FIRST], rows[r, FIRST] + rows[r, NODES]):
                from_us[node] = end
        return True, steps, safe_steps
    for i in range(loan_last - 1, loan_first - 1, -1):
        lender = loans[i, LENDER]
        if from_us[lender] != before[i - loan_first]:
            from_us[lender] = before[i - loan_first]
            if not holds(rows, span, lender):
                lend_level(plan, b, from_us[lender], class_of[lender], 1)
                lend_level(safe, safe_b, from_us[lender], class_of[lender], 1)
    add_everywhere(plan, b, takes, 1)
    add_everywhere(safe, safe_b, takes, 1)
    return False, steps, safe_steps


@inlined
def add_everywhere(plan: Ints, last: int, takes: Ints, sign: int) -> None:
    """Add (sign 1) or take (-1) nodes of each class and memory in the steps up to ``last`` - 1."""
    for k in range(last):
        for column in range(1, plan.shape[1]):
            plan[k, column] += sign * takes[column]


@inlined
def holds(rows: Ints, span: LeaseSpan, node: int) -> bool:
    """Whether a node is among the rows of a lease."""
    for r in range(span.row, span.row_end):
        if rows[r, FIRST] <= node < rows[r, FIRST] + rows[r, NODES]:
            return True
    return False


@inlined
def lend_level(plan: Ints, last: int, since: int, node_class: int, sign: int) -> None:
    """Take (-1) or give back (1) a node of a class in the steps from ``since`` to ``last`` - 1."""
    for k in range(last):
        if plan[k, 0] >= since:
            plan[k, 1 + node_class] += sign
