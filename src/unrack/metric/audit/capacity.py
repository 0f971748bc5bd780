"""At every moment, of every node and device: no more held than there is, nothing while down, shared as it may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Bools, Ints
from unrack.metric.audit.tables import Tables, Violation, first_of, whole
from unrack.steps import changed, each_of, levels, spells

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


def node_violation(t: Tables) -> Violation | None:
    """The first moment at which a node holds more cores or memory than it has, or something while it is down."""
    p, loans, nodes = t["placements"], t["loans"], len(t.cluster)
    first, count, cores = (p[name].to_numpy() for name in ("first_node", "nodes", "cores_per_node"))
    mb = whole(p["memory_mb_per_node"])
    lender, lent = whole(loans["lender"]), whole(loans["mb"])
    for own, wrong, what in (
        (t.held, (first < 0) | (count < 1) | (first > nodes - count), "is on nodes that do not exist"),
        (t.lent, (lender < 0) | (lender >= nodes), "borrows of a node that does not exist"),
        (t.held, (cores < 0) | (mb < 0), "holds less than nothing"),
    ):
        if wrong.any():
            return first_of(t, own, wrong, what)
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
    off, *ends = t.down[:, t.down[2] > t.down[1]]
    when, step = np.concatenate(ends), np.repeat([1, -1], len(off))
    order = np.lexsort((step, when))  # what is repaired and fails at one time is first up, then down
    downs = np.stack([when, step, np.tile(off, 2)])[:, order]
    kind = _sweep_nodes(downs, held, free, found)
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
def _sweep_nodes(downs: Ints, held: _Held, free: Ints, found: Ints) -> int:
    """Go through the events in order; the kind of the first violation, with time, node and row in ``found``.

    ``downs``: int64[3, events], time, 1 (fails) or -1 (is repaired) and node, in order.
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
            node = downs[2, d]
            if downs[1, d] > 0 and used[node] > 0:
                found[0], found[1], found[2] = now, node, -1
                return OFFLINE
            down[node] += downs[1, d]
            d += 1
            continue
        kind = _change(held, row, -1, free, used, down, found)
        if kind != NOTHING:
            found[0], found[2] = now, row
            return kind
        s += 1
    return NOTHING


def device_violation(t: Tables) -> Violation | None:
    """The first moment at which a device is held as it cannot be."""
    if t["shares"].height == 0:
        return None
    devices, s = t.cluster.devices, t["shares"]
    size, parts, node = whole(s["devices"].list.len()), whole(s["parts"]), whole(s["node"])
    held = whole(s["devices"].list.explode(keep_nulls=False, empty_as_null=False))
    first = np.concatenate([[0], size.cumsum()])
    if (size == 0).any() or ((held < 0) | (held >= len(devices))).any():
        return Violation("a share is of a device that does not exist")
    leader = held[first[:-1]]
    pool = devices.pool[leader]
    pools = np.array([(p.single, p.compose, p.share, p.split) for p in devices.pools], np.int64)
    allowed = np.stack([
        (node >= 0) & (node < len(t.cluster)),
        devices.reach[pool, np.clip(node, 0, len(t.cluster) - 1)],
        size <= pools[pool, 1],
        parts <= pools[pool, 3],
        np.logical_and.reduceat(devices.pool[held] == np.repeat(pool, size), first[:-1]),
    ])  # fmt: skip
    wrong = np.flatnonzero(~allowed.all(axis=0))
    if len(wrong):
        i = int(wrong[0])
        which = s["devices"][i].to_list()
        what = f"{t.name(t.shared.job[i])} holds devices {which} on node {node[i]}, as their pool forbids"
        return Violation(what, int(t.shared.start[i]))
    own, row = t.shared, np.repeat(np.arange(len(size)), size)
    row, held = (values[(own.end > own.start)[row]] for values in (row, held))
    span, alone = (own.start[row], own.end[row]), np.where(pools[pool, 0] > 0, node, -1)
    most = np.where(parts > 0, np.minimum(parts, pools[pool, 2]), pools[pool, 2])
    composition, ways = whole(s["composition"])[row], np.stack([size, parts])[:, row]
    found = {
        "device {device} is held although node {node}, in which it sits, is down": _down(t, held, span),
        "device {device} is in two compositions at once": _apart(held, composition, span),
        "the jobs that share device {device} see it split or composed in different ways": _apart(held, ways, span),
        "device {device} has more jobs than its pool or its split allows":
            _over(held, span, np.ones_like(held), most[row]),
        "jobs hold more of device {device} than it has": [*_too_much(t, leader, first)],
        "device {device} is attached to several nodes at once": _apart(held, alone[row], span),
    }  # fmt: skip
    moments = [(time, device, words) for words, wrong in found.items() for time, device in wrong]
    if not moments:
        return None
    time, device, words = min(moments, key=lambda one: one[0])
    return Violation(words.format(device=device, node=devices.home[device]), time)


Moment = tuple[int, int]
"""When something is wrong, µs, and with which device."""
Span = tuple[Ints, Ints]
"""int64[uses], twice: from when until when."""


def _first(wrong: Bools, when: Ints, device: Ints) -> list[Moment]:
    rows = np.flatnonzero(wrong)
    at = rows[np.argmin(when[rows])] if len(rows) else 0
    return [(int(when[at]), int(device[at]))] if len(rows) else []


def _over(device: Ints, span: Span, amount: Ints, most: Ints) -> list[Moment]:
    """When the uses of a device sum to more than there may be; ``most``: int64[uses], the same for all at one time."""
    key, of = np.unique(np.stack([device, most]), axis=1, return_inverse=True)
    thing, when, level = levels(of.reshape(-1), *span, amount)
    return _first(level > key[1, thing], when, key[0, thing])


def _apart(device: Ints, value: Ints, span: Span) -> list[Moment]:
    """When a device is used in several ways at once, by a value, or several, that each use says."""
    key, of = np.unique(np.vstack([device, value]), axis=1, return_inverse=True)
    thing, when, change = spells(of.reshape(-1), *span)
    used, when, ways = changed(key[0, thing], when, change)
    return _first(ways > 1, when, used)


def _down(t: Tables, device: Ints, span: Span) -> list[Moment]:
    """When a device is held although the node in which it sits is down."""
    home = t.cluster.devices.home
    order = np.argsort(home, kind="stable")
    low, high = (np.searchsorted(home[order], t.down[0], side) for side in ("left", "right"))
    which, row = each_of(low, high - low)
    start, end = (np.concatenate([mine, off[which]]) for mine, off in zip(span, t.down[1:], strict=True))
    kind = np.repeat([1, 0], [len(device), len(row)])
    used, when, (holds, down) = levels(
        np.concatenate([device, order[row]]), start, end, np.stack([kind, 1 - kind])
    )  # fmt: skip
    return _first((holds > 0) & (down > 0), when, used)


def _too_much(t: Tables, leader: Ints, first: Ints) -> Iterator[Moment]:
    """When jobs hold more of a composition than its devices have, but for quantities that a model governs."""
    devices, s, own = t.cluster.devices, t["shares"], t.shared
    parts, lasts = whole(s["parts"]), own.end > own.start
    held = whole(s["devices"].list.explode(keep_nulls=False, empty_as_null=False))
    span, model = (own.start, own.end), None if t.pace is None else t.pace.model[devices.kind[leader], own.job.clip(0)]
    for q, capacity in enumerate(devices.capacity):
        amount = whole(s["amounts"].list.get(q, null_on_oob=True).fill_null(0))
        installed = np.add.reduceat(capacity[held], first[:-1])
        yield from _first(lasts & (parts > 0) & (amount > installed // parts.clip(1)), own.start, leader)
        if model is not None and t.pace is not None:
            amount = np.where((model >= 0) & t.pace.governed[model.clip(0), q], 0, amount)
        yield from _over(leader, span, np.where(lasts & (parts == 0), amount, 0), installed)
