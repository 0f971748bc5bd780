"""At every moment, on every node: no more held than installed, nothing held of what is down."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Ints
from unrack.metric.audit.tables import Tables, Violation, whole

END, REPAIR, FAIL, START = range(4)
"""What happens first at one time; what lasts no time is left out."""
NOTHING, CORES, MEMORY, OFFLINE = range(4)
MANY = 2**31 - 1
"""More cores than any node has."""


class _Held(NamedTuple):
    start: Ints  # of placements and loans, µs
    end: Ints
    by_start: NDArray[np.int32]  # the rows in these orders
    by_end: NDArray[np.int32]
    first: NDArray[np.int32]
    nodes: NDArray[np.int32]
    cores: NDArray[np.int32]  # on each of the nodes
    mb: Ints


def narrow(placed: NDArray[Any], lent: Ints) -> NDArray[np.int32]:
    """int32[rows]: a column of the placements, which have it so narrow, and behind it that of the loans."""
    return np.concatenate([placed.astype(np.int32, copy=False), lent.astype(np.int32)])


def narrow_order(values: Ints) -> NDArray[np.int32]:
    """int32[rows]: the rows in ascending order of a column."""
    return np.argsort(values, kind="stable").astype(np.int32)


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
    p, loans, nodes = t["placements"], t["loans"], len(t.cluster)
    first, count, cores = (p[name].to_numpy() for name in ("first_node", "nodes", "cores_per_node"))
    wrong = np.flatnonzero((first < 0) | (count < 1) | (first > nodes - count))
    if len(wrong):
        return Violation(f"{t.name(t.held.job[wrong[0]])} is on nodes that do not exist", int(t.held.start[wrong[0]]))
    mb = whole(p["memory_mb_per_node"])
    lender, lent = whole(loans["lender"]), whole(loans["mb"])
    wrong = np.flatnonzero((lender < 0) | (lender >= nodes))
    if len(wrong):
        return Violation(
            f"{t.name(t.lent.job[wrong[0]])} borrows of a node that does not exist", int(t.lent.start[wrong[0]])
        )
    wrong = np.flatnonzero((cores < 0) | (mb < 0))
    if len(wrong):
        return Violation(f"{t.name(t.held.job[wrong[0]])} holds less than nothing", int(t.held.start[wrong[0]]))
    job, start, end = t.held.job, t.held.start, t.held.end
    if len(lender):  # a loan holds memory of one node, and no cores
        job, start, end = (
            np.concatenate(both)
            for both in ((job, t.lent.job), (start, t.lent.start), (end, t.lent.end))
        )  # fmt: skip
    held = _Held(
        start=start,
        end=end,
        by_start=narrow_order(start),
        by_end=narrow_order(end),
        first=narrow(first, lender),
        nodes=narrow(count, np.ones_like(lender)),
        cores=narrow(np.minimum(cores, MANY), np.zeros_like(lender)),
        mb=np.concatenate([mb, lent]),
    )
    del first, count, cores, mb
    free = np.stack([t.cluster.cores, t.cluster.memory_mb])
    found = np.zeros(3, np.int64)
    no_time = np.zeros(0, np.int64)
    kind = _sweep(timeline(no_time, no_time, t.down), held, t.down[0], free, found)
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


@inlined
def _change(held: _Held, row: int, step: int, free: Ints, used: Ints, down: Ints, found: Ints) -> int:
    """Take (step -1) a row or give it back (1); the kind of violation, with the node in ``found``."""
    for node in range(held.first[row], held.first[row] + held.nodes[row]):
        free[0, node] += step * held.cores[row]
        free[1, node] += step * held.mb[row]
        used[node] -= step
        if step < 0 and (down[node] > 0 or free[0, node] < 0 or free[1, node] < 0):
            found[1] = node
            return OFFLINE if down[node] > 0 else CORES if free[0, node] < 0 else MEMORY
    return NOTHING


@compiled
def _sweep(downs: Ints, held: _Held, down_node: Ints, free: Ints, found: Ints) -> int:
    """Go through the events in order; the kind of the first violation, with time, node and row in ``found``.

    ``downs``: the failures and repairs, as :func:`timeline` gives them.
    """
    down = np.zeros(free.shape[1], np.int64)
    used = np.zeros(free.shape[1], np.int64)
    rows, last = len(held.start), downs.shape[1]
    s, e, d = 0, 0, 0
    while s < rows or d < last:
        row: int = held.by_start[s] if s < rows else -1
        if row >= 0 and held.end[row] <= held.start[row]:
            s += 1
            continue
        now = downs[0, d] if d < last else held.start[row]
        if row >= 0:
            now = min(now, held.start[row])
        while e < rows and held.end[held.by_end[e]] <= now:
            ended = held.by_end[e]
            if held.end[ended] > held.start[ended]:
                _change(held, ended, 1, free, used, down, found)
            e += 1
        if d < last and downs[0, d] == now:
            node = down_node[downs[2, d]]
            if downs[1, d] == FAIL and used[node] > 0:
                found[0], found[1], found[2] = now, node, -1
                return OFFLINE
            down[node] += 1 if downs[1, d] == FAIL else -1
            d += 1
            continue
        kind = _change(held, row, -1, free, used, down, found)
        if kind != NOTHING:
            found[0], found[2] = now, row
            return kind
        s += 1
    return NOTHING
