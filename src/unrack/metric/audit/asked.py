"""What jobs hold is what they asked for: cores, memory on their nodes or borrowed for them, and devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.metric.audit.tables import Spans, Tables, Violation, whole
from unrack.steps import each_of

Sum = tuple[str, Ints, Ints]
"""What is held, how much of it in each loan or share, and how much each placement must have on each of its nodes."""


def asked_violation(t: Tables) -> Violation | None:
    """The first attempt that began with less than its job asked, or whose loans or devices are not where it runs.

    A lease may shrink later: only first spans must hold all that was asked.
    """
    p, own = t["placements"], t.held
    tasks, known = whole(p["tasks_per_node"]), own.job >= 0
    begins = known & (own.span == 1)
    few = begins & (p["cores_per_node"].to_numpy() < tasks * whole(t["jobs"]["cores_per_task"])[own.job])
    if (few := few | (known & (tasks < 1))).any():
        return _first(t, own, few, "holds fewer cores than its tasks ask")
    needs = tasks * whole(t["jobs"]["memory_mb_per_task"])[own.job] - whole(p["memory_mb_per_node"])
    borrower, lender, mb = (whole(t["loans"][name]) for name in ("node", "lender", "mb"))
    if (wrong := (lender == borrower) | (mb < 1)).any():
        return _first(t, t.lent, wrong, "borrows of the node itself, or nothing")
    memory: Sum = ("memory", mb, np.where(begins & (not t.provisions), needs, 0))
    found = _beside(t, t.lent, borrower, [memory], ("borrows for a node", "a loan"))
    if found is None and (devices := _devices(t, np.where(known, tasks, 0))):
        found = _beside(t, t.shared, whole(t["shares"]["node"]), devices, ("has a device on a node", "a device"))
    return found


def _devices(t: Tables, tasks: Ints) -> list[Sum]:
    """What shares hold of every quantity of devices that any job asks for."""
    devices, shares = t.cluster.devices, t["shares"]
    kind, sums = shares["kind"].to_numpy(), list[Sum]()
    for k, name in enumerate(devices.kinds):
        for q, quantity in enumerate(devices.quantities[k]):
            what = f"{name}.{quantity}"
            if what in t["jobs"].columns:
                amount = whole(shares["amounts"].list.get(q, null_on_oob=True).fill_null(0))
                sums.append((what, np.where(kind == name, amount, 0), tasks * whole(t["jobs"][what])[t.held.job]))
    return sums if any((asked > 0).any() for *_, asked in sums) else []


def _first(t: Tables, own: Spans, wrong: Bools, what: str) -> Violation:
    rows = np.flatnonzero(wrong)
    i = int(rows[np.argmin(own.start[rows])])
    return Violation(f"{t.name(own.job[i])}, attempt {own.attempt[i]}, {what}", int(own.start[i]))


def _beside(t: Tables, own: Spans, node: Ints, sums: Sequence[Sum], words: tuple[str, str]) -> Violation | None:
    """Loans, or shares, are for tasks that are on ``node``, for just as long; and tasks have enough of them."""
    held, needed = t.held, np.zeros(len(t.held.job), np.bool_)
    for *_, asked in sums:
        needed |= asked > 0
    if len(own.job):
        needed |= np.isin(held.key, own.key)
    row, of = _found(t, np.flatnonzero(needed), own, node)
    if (stray := (of < 0) & (own.job >= 0)).any():
        return _first(t, own, stray, f"{words[0]} on which it has no task")
    there = np.flatnonzero(of >= 0)
    different = np.zeros(len(of), np.bool_)
    for mine, its in ((own.start, held.start), (own.end, held.end)):
        different[there] |= mine[there] != its[row[of[there]]]
    if different.any():
        return _first(t, own, different, f"has {words[1]} that lasts for another time than its span")
    for what, amount, asked in sums:
        has = np.zeros(len(row), np.int64)
        np.add.at(has, of[there], amount[there])
        if (lacking := has < asked[row]).any():
            short = np.zeros(len(held.job), np.bool_)
            short[row[lacking]] = True
            return _first(t, held, short, f"holds less {what} than its tasks ask")
    return None


def _found(t: Tables, rows: Ints, own: Spans, node: Ints) -> tuple[Ints, Ints]:
    """Where loans or shares belong.

    ``row``: int64[k], the placement of every node of these ``rows``; ``of``: int64[loans], which of these nodes each
    loan or share is for; -1: none.
    """
    which, at = each_of(*(whole(t["placements"][name])[rows] for name in ("first_node", "nodes")))
    row = rows[which]
    if len(row) == 0:
        return row, np.full(len(node), -1)
    _, numbers = np.unique(np.concatenate([t.held.key[row], own.key]), return_inverse=True)
    place, wanted = numbers[: len(row)] * len(t.cluster) + at, numbers[len(row) :] * len(t.cluster) + node
    order = np.argsort(place, kind="stable")
    near = order[np.minimum(np.searchsorted(place[order], wanted), len(order) - 1)]
    return row, np.where(place[near] == wanted, near, -1)
