"""At every moment, of every node and device: no more held than there is, nothing while down, shared as it may be."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Bools, Ints
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
    kind = _sweep_nodes(timeline(no_time, no_time, t.down), held, t.down[0], free, found)
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
def _sweep_nodes(downs: Ints, held: _Held, down_node: Ints, free: Ints, found: Ints) -> int:
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


PROBLEMS = (
    "",
    "device {device} is held although node {node}, in which it sits, is down",
    "device {device} is in two compositions at once",
    "the jobs that share device {device} see it split or composed in different ways",
    "device {device} has more jobs than its pool or its split allows",
    "jobs hold more of device {device} than it has",
    "device {device} is attached to several nodes at once",
)
DOWN, TWICE, DIFFERENT, CROWDED, FULL, SEVERAL = range(1, len(PROBLEMS))


class _Uses(NamedTuple):
    first: Ints  # the devices of share i are devices[first[i]:first[i + 1]]
    devices: Ints
    composition: Ints
    parts: Ints
    node: Ints
    amounts: Ints  # int64[quantities, shares]
    governed: Bools  # of the same shape: by the model of the share's job


def device_violation(t: Tables) -> Violation | None:
    """The first moment at which a device is held as it cannot be."""
    if t["shares"].height == 0:
        return None
    devices, s = t.cluster.devices, t["shares"]
    size = whole(s["devices"].list.len())
    held = whole(s["devices"].list.explode(keep_nulls=False, empty_as_null=False))
    first = np.concatenate([[0], size.cumsum()])
    if (size == 0).any() or ((held < 0) | (held >= len(devices))).any():
        return Violation("a share is of a device that does not exist")
    leader, node = held[first[:-1]], whole(s["node"])
    kind, pool = devices.kind[leader], devices.pool[leader]
    pools = np.array([(p.single, p.compose, p.share, p.split) for p in devices.pools], np.int64)
    allowed = np.stack([
        (node >= 0) & (node < len(t.cluster)),
        devices.reach[pool, np.clip(node, 0, len(t.cluster) - 1)],
        size <= pools[pool, 1],
        whole(s["parts"]) <= pools[pool, 3],
        np.logical_and.reduceat(devices.pool[held] == np.repeat(pool, size), first[:-1]),
    ])  # fmt: skip
    wrong = np.flatnonzero(~allowed.all(axis=0))
    if len(wrong):
        i = int(wrong[0])
        which = s["devices"][i].to_list()
        what = f"{t.name(t.shared.job[i])} holds devices {which} on node {node[i]}, as their pool forbids"
        return Violation(what, int(t.shared.start[i]))
    uses = _Uses(first, held, whole(s["composition"]), whole(s["parts"]), node, *_amounts(t, kind))
    events = timeline(t.shared.start, t.shared.end, t.down)
    found = np.zeros(3, np.int64)
    verdict = _sweep_devices(
        events, uses, t.down[0], devices.home, devices.pool, pools, devices.capacity, len(t.cluster), found
    )
    if not verdict:
        return None
    time, device, _ = found.tolist()
    return Violation(PROBLEMS[verdict].format(device=device, node=devices.home[device]), time)


def _amounts(t: Tables, kind: Ints) -> tuple[Ints, Bools]:
    """int64 and bool[quantities, shares]: what shares hold of each quantity, and what models govern."""
    most, count = t.cluster.devices.capacity.shape[0], t["shares"].height
    amounts, governed = np.zeros((most, count), np.int64), np.zeros((most, count), np.bool_)
    column = t["shares"]["amounts"]
    for q in range(most):
        amounts[q] = whole(column.list.get(q, null_on_oob=True).fill_null(0))
    if t.pace is not None:
        model = t.pace.model[kind, np.maximum(t.shared.job, 0)]
        governed = (model >= 0) & t.pace.governed[np.maximum(model, 0)].T
    return amounts, np.ascontiguousarray(governed)


@compiled
def _sweep_devices(
    events: Ints, u: _Uses, down_node: Ints, home: Ints, pool_of: Ints, pools: Ints, capacity: Ints, nodes: int,
    found: Ints,
) -> int:  # fmt: skip
    """Go through the events in order; the kind of the first violation, with time, device and share in ``found``."""
    count, quantities = len(home), capacity.shape[0]
    down, sharers = np.zeros(nodes, np.int64), np.zeros(count, np.int64)
    composition, size, parts, node = (
        np.full(count, -1, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)
    )  # fmt: skip
    held = np.zeros((quantities, count), np.int64)
    for e in range(events.shape[1]):
        what, which = events[1, e], events[2, e]
        found[0], found[2] = events[0, e], which
        if REPAIR <= what <= FAIL:
            down[down_node[which]] += 1 if what == FAIL else -1
            if what == FAIL:
                for device in range(count):
                    found[1] = device
                    if home[device] == down_node[which] and sharers[device] > 0:
                        return DOWN
            continue
        leader = u.devices[u.first[which]]
        pool = pool_of[leader]
        for k in range(u.first[which], u.first[which + 1]):
            device = u.devices[k]
            found[1] = device
            if what == END:
                sharers[device] -= 1
                continue
            if home[device] >= 0 and down[home[device]] > 0:
                return DOWN
            if sharers[device] == 0:
                composition[device], size[device] = u.composition[which], u.first[which + 1] - u.first[which]
                parts[device], node[device] = u.parts[which], u.node[which]
            if composition[device] != u.composition[which]:
                return TWICE
            if size[device] != u.first[which + 1] - u.first[which] or parts[device] != u.parts[which]:
                return DIFFERENT
            if pools[pool, 0] and node[device] != u.node[which]:
                return SEVERAL
            sharers[device] += 1
            if sharers[device] > pools[pool, 2] or (parts[device] > 0 and sharers[device] > parts[device]):
                return CROWDED
        found[1] = leader
        for q in range(quantities):
            held[q, leader] += -u.amounts[q, which] if what == END else u.amounts[q, which]
            installed = 0
            for k in range(u.first[which], u.first[which + 1]):
                installed += capacity[q, u.devices[k]]
            if what == END:
                continue
            if parts[leader] > 0:
                if u.amounts[q, which] > installed // parts[leader]:
                    return FULL
            elif held[q, leader] > installed and not u.governed[q, which]:
                return FULL
    return 0
