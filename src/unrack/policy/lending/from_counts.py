"""From reservations that count nodes to ones that name them: when the first job comes that may have to borrow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.policy.discipline.node_plan import Plan
from unrack.view import View
from unrack.workload.job import CORES, ESTIMATE, MEMORY

Ints = NDArray[np.int64]


def named_leases(plan: Plan, view: View, jobs: Ints, now: int) -> dict[int, Ints]:
    """Job → the rows of its lease (int64[rows, 5]) at its reserved start, of the jobs that have a reservation.

    Each keeps its start and how many nodes of each kind it has. In order of start there are always as many: a node that
    is free when a reservation begins is not promised to anyone who begins later, for whom no node was named yet. A job
    that nothing can be named for (its reservation has slipped meanwhile) is left out, and gets a new one.

    Parameters
    ----------
    plan
        Counted in nodes of each kind.
    jobs
        Those that wait, in order.
    """
    seen = view.columns
    busy_until = np.where(view.online, now, np.iinfo(np.int64).max)
    for end, job in seen.running[:, : seen.running_count].T.tolist():
        first, count = seen.lease_at[:, job].tolist()
        for node, nodes in seen.pool[first : first + count, :2].tolist():
            held = busy_until[node : node + nodes]
            np.maximum(held, now if end == now else max(end, now + 1), out=held)
    found: dict[int, Ints] = {}
    for job in plan.by_start(jobs).tolist():
        start = plan.reserved(job)
        if start < now:
            continue
        first, count = plan.where[:, job].tolist()
        rows = _named(plan, plan.rows[first : first + count], busy_until <= start, view, job)
        if rows is not None:
            busy_until[rows[:, 0]] = start + max(1, int(seen.asks[ESTIMATE, job]))
            found[job] = rows
    return found


def _named(plan: Plan, counted: Ints, free: NDArray[np.bool_], view: View, job: int) -> Ints | None:
    """Rows of single nodes for rows that count nodes of each kind; ``None``: too few are free."""
    cores, mb = (int(view.columns.asks[row, job]) for row in (CORES, MEMORY))
    rows: list[tuple[int, int, int, int, int]] = []
    for first, kinds, tasks, nodes, _ in counted.tolist():
        for kind in range(first, first + kinds):
            there = np.flatnonzero(free & (plan.groups.of == kind))[:nodes]
            if len(there) < nodes:
                return None
            left = tasks
            for node in there.tolist():
                node_cores, node_mb = view.total[:, node].tolist()
                room = left if cores == 0 else node_cores // cores
                here = min(left, room, node_mb // mb if mb else room)
                rows.append((node, 1, here, node_cores, here * mb))
                left -= here
    return np.array(sorted(rows), np.int64)
