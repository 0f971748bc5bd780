"""At every moment, on every node: no more held than installed, nothing held of what is down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled
from unrack.metric.audit.tables import Tables, Violation, whole

Ints = NDArray[np.int64]

END, REPAIR, FAIL, START = range(4)
"""What happens first at one time; what lasts no time is left out."""
NOTHING, CORES, MEMORY, OFFLINE = range(4)


def timeline(start: Ints, end: Ints, down: Ints) -> Ints:
    """int64[3, events]: time, what happens, and to which row (or which of the downs), in order."""
    rows, downs = np.flatnonzero(end > start), np.flatnonzero(down[2] > down[1])
    time = np.concatenate([end[rows], down[2, downs], down[1, downs], start[rows]])
    what = np.repeat([END, REPAIR, FAIL, START], [len(rows), len(downs), len(downs), len(rows)])
    which = np.concatenate([rows, downs, downs, rows])
    order = np.argsort(time * 4 + what, kind="stable")
    return np.stack([time[order], what[order], which[order]])


def node_violation(t: Tables) -> Violation | None:
    """The first moment at which a node holds more cores or memory than it has, or something while it is down."""
    p, loans, nodes = t.placements, t.loans, len(t.cluster)
    first, count = whole(p["first_node"]), whole(p["nodes"])
    wrong = np.flatnonzero((first < 0) | (count < 1) | (first + count > nodes))
    if len(wrong):
        return Violation(f"{t.name(t.held.job[wrong[0]])} is on nodes that do not exist", int(t.held.start[wrong[0]]))
    cores, mb = whole(p["cores_per_node"]), whole(p["memory_mb_per_node"])
    lender, lent = (np.zeros(0, np.int64),) * 2 if loans is None else (whole(loans["lender"]), whole(loans["mb"]))
    wrong = np.flatnonzero((lender < 0) | (lender >= nodes))
    if len(wrong):
        return Violation(
            f"{t.name(t.lent.job[wrong[0]])} borrows of a node that does not exist", int(t.lent.start[wrong[0]])
        )
    wrong = np.flatnonzero((cores < 0) | (mb < 0))
    if len(wrong):
        return Violation(f"{t.name(t.held.job[wrong[0]])} holds less than nothing", int(t.held.start[wrong[0]]))
    rows = np.stack([  # a loan holds memory of one node, and no cores
        np.concatenate([first, lender]), np.concatenate([count, np.ones_like(lender)]),
        np.concatenate([cores, np.zeros_like(lender)]), np.concatenate([mb, lent]),
    ])  # fmt: skip
    job = np.concatenate([t.held.job, t.lent.job])
    events = timeline(np.concatenate([t.held.start, t.lent.start]), np.concatenate([t.held.end, t.lent.end]), t.down)
    free = np.stack([t.cluster.cores, t.cluster.memory_mb])
    found = np.zeros(3, np.int64)
    kind = _sweep(events, rows, t.down[0], free, found)
    if kind == NOTHING:
        return None
    time, node, row = found.tolist()
    if kind == OFFLINE:
        return Violation(f"{t.name(job[row])} holds something of node {node}, which is down", time)
    what, has = ("cores", t.cluster.cores) if kind == CORES else ("MB", t.cluster.memory_mb)
    over = int(has[node] - free[0 if kind == CORES else 1, node])
    return Violation(
        f"jobs hold {over} {what} of node {node}, which has {has[node]}; {t.name(job[row])} is the last", time
    )


@compiled
def _sweep(events: Ints, rows: Ints, down_node: Ints, free: Ints, found: Ints) -> int:
    """Go through the events in order; the kind of the first violation, with time, node and row in ``found``."""
    down = np.zeros(free.shape[1], np.int64)
    used = np.zeros(free.shape[1], np.int64)
    for e in range(events.shape[1]):
        what, which = events[1, e], events[2, e]
        found[0], found[2] = events[0, e], which
        if REPAIR <= what <= FAIL:
            down[down_node[which]] += 1 if what == FAIL else -1
            if what == FAIL and used[down_node[which]] > 0:
                found[1], found[2] = down_node[which], -1
                return OFFLINE
            continue
        step = -1 if what == START else 1
        for node in range(rows[0, which], rows[0, which] + rows[1, which]):
            free[0, node] += step * rows[2, which]
            free[1, node] += step * rows[3, which]
            used[node] -= step
            if what == START:
                found[1] = node
                if down[node] > 0:
                    return OFFLINE
                if free[0, node] < 0:
                    return CORES
                if free[1, node] < 0:
                    return MEMORY
    return NOTHING
