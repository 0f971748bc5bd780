"""What jobs hold is what they asked for: cores, memory on their nodes or borrowed for them, and devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.metric.audit.tables import Spans, Tables, Violation, whole

Ints = NDArray[np.int64]


def asked_violation(t: Tables) -> Violation | None:
    """The first attempt that began with less than its job asked, or whose loans or devices are not where it runs.

    A lease may shrink later: only first spans must hold all that was asked.
    """
    p, own = t["placements"], t.held
    known = own.job >= 0
    tasks, cores = p["tasks_per_node"].to_numpy(), p["cores_per_node"].to_numpy()
    asked_cores, asked_mb = whole(t["jobs"]["cores_per_task"]), whole(t["jobs"]["memory_mb_per_task"])
    begins = known & (own.span == 1)
    wrong = begins & (cores < tasks * asked_cores[own.job])
    wrong |= known & (tasks < 1)
    if wrong.any():
        return _first(t, own, wrong, "holds fewer cores than its tasks ask")
    lacks = np.where(begins & (not t.provisions), tasks * asked_mb[own.job] - whole(p["memory_mb_per_node"]), 0)
    return _memory(t, lacks) or _devices(t)


def _first(t: Tables, own: Spans, wrong: NDArray[np.bool_], what: str) -> Violation:
    rows = np.flatnonzero(wrong)
    i = int(rows[np.argmin(own.start[rows])])
    return Violation(f"{t.name(own.job[i])}, attempt {own.attempt[i]}, {what}", int(own.start[i]))


def _expanded(t: Tables, rows: Ints) -> tuple[Ints, Ints]:
    """int64[nodes held], twice: every node of some placements, and the row that it is of."""
    count = whole(t["placements"]["nodes"])[rows]
    of = np.repeat(np.arange(len(rows)), count)
    within = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    return whole(t["placements"]["first_node"])[rows][of] + within, rows[of]


def _found(t: Tables, rows: Ints, own: Spans, node: Ints) -> tuple[Ints, Ints]:
    """Where loans or shares belong.

    Returns
    -------
    row : int64[k]
        The placement of every node of these ``rows``.
    of : int64[loans]
        Which of these nodes each loan or share is for; -1: none.
    """
    at, row = _expanded(t, rows)
    _, numbers = np.unique(np.concatenate([t.held.key[row], own.key]), return_inverse=True)
    place, wanted = numbers[: len(row)] * len(t.cluster) + at, numbers[len(row) :] * len(t.cluster) + node
    if len(row) == 0:
        return row, np.full(len(wanted), -1)
    order = np.argsort(place, kind="stable")
    near = order[np.minimum(np.searchsorted(place[order], wanted), len(order) - 1)]
    return row, np.where(place[near] == wanted, near, -1)


def _memory(t: Tables, lacks: Ints) -> Violation | None:
    """Every node's tasks have their memory, local or borrowed; loans are for tasks that are there, of another node."""
    own, lent = t.held, t.lent
    if t["loans"].height == 0:
        return _first(t, own, lacks > 0, "holds less memory than its tasks ask") if (lacks > 0).any() else None
    borrower, lender, mb = (whole(t["loans"][name]) for name in ("node", "lender", "mb"))
    if ((lender == borrower) | (mb < 1)).any():
        return _first(t, lent, (lender == borrower) | (mb < 1), "borrows of the node itself, or nothing")
    rows = np.flatnonzero((lacks > 0) | np.isin(own.key, lent.key))
    row, of = _found(t, rows, lent, borrower)
    if (of < 0).any():
        return _first(t, lent, of < 0, "borrows for a node on which it has no task")
    different = (lent.start != own.start[row[of]]) | (lent.end != own.end[row[of]])
    if different.any():
        return _first(t, lent, different, "has a loan that lasts for another time than its span")
    borrowed = np.zeros(len(row), np.int64)
    np.add.at(borrowed, of, mb)
    short = np.zeros(len(own.job), np.bool_)
    short[row[borrowed < lacks[row]]] = True
    return _first(t, own, short, "holds less memory than its tasks ask") if short.any() else None


def _devices(t: Tables) -> Violation | None:
    """Every task has, on its node, what it asks of every kind of device; shares are where tasks are."""
    devices, own = t.cluster.devices, t.held
    columns = [
        (k, q, whole(t["jobs"][f"{kind}.{name}"]))
        for k, kind in enumerate(devices.kinds)
        for q, name in enumerate(devices.quantities[k])
        if f"{kind}.{name}" in t["jobs"].columns
    ]
    asks = np.zeros(t["jobs"].height, np.bool_)
    for _, _, amounts in columns:
        asks |= amounts > 0
    if not asks.any():
        return None
    shares = t["shares"]
    shared, tasks = t.shared, whole(t["placements"]["tasks_per_node"])
    rows = np.flatnonzero((own.job >= 0) & (asks[own.job] | np.isin(own.key, shared.key)))
    row, of = _found(t, rows, shared, whole(shares["node"]))
    if ((of < 0) & (shared.job >= 0)).any():
        return _first(t, shared, (of < 0) & (shared.job >= 0), "has a device on a node on which it has no task")
    different = (of >= 0) & ((shared.start != own.start[row[of]]) | (shared.end != own.end[row[of]]))
    if different.any():
        return _first(t, shared, different, "has a device for another time than its span")
    kind = shares["kind"].to_numpy()
    for k, q, amounts in columns:
        mine = (kind == devices.kinds[k]) & (of >= 0)
        has = np.zeros(len(row), np.int64)
        np.add.at(has, of[mine], whole(shares["amounts"].list.get(q, null_on_oob=True).fill_null(0))[mine])
        short = has < tasks[row] * amounts[own.job[row]]
        if short.any():
            wrong = np.zeros(len(own.job), np.bool_)
            wrong[row[short]] = True
            return _first(t, own, wrong, f"holds less {devices.kinds[k]}.{devices.quantities[k][q]} than its tasks ask")
    return None
