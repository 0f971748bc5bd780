"""At every moment, on every pooled device: who shares it may, holds no more of it than it has, and it is not down."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Bools, Ints
from unrack.metric.audit.nodes import END, FAIL, REPAIR, timeline
from unrack.metric.audit.tables import Tables, Violation, whole

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
    verdict = _sweep(
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
def _sweep(
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
