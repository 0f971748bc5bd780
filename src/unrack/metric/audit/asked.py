"""What jobs hold is what they asked for, where they run and as long: cores, memory, devices, and claims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.kernels.arrays import Bools, Ints
from unrack.ledger.lease import Share, attached
from unrack.metric.audit.tables import Spans, Tables, Violation, whole
from unrack.steps import each_of, levels

Sum = tuple[str, Ints, Ints]
"""What is held, how much of it in each loan or share, and how much each placement must have on each of its nodes."""
NOTHING: Ints = np.zeros(0, np.int64)


def asked_violation(t: Tables) -> Violation | None:
    """The first attempt that began with less than its job asked, or with loans or devices that are not where it runs.

    A lease may shrink later: only first spans must hold all that was asked.
    """
    p, own = t["placements"], t.held
    tasks, known = whole(p["tasks_per_node"]), own.job >= 0
    begins = known & (own.span == 1)
    few = begins & (p["cores_per_node"].to_numpy() < tasks * whole(t["jobs"]["cores_per_task"])[own.job])
    if (few := few | (known & (tasks < 1))).any():
        return first_of(t, own, few, "holds fewer cores than its tasks ask")
    needs = tasks * whole(t["jobs"]["memory_mb_per_task"])[own.job] - whole(p["memory_mb_per_node"])
    borrower, lender, mb = (whole(t["loans"][name]) for name in ("node", "lender", "mb"))
    if (wrong := (lender == borrower) | (mb < 1)).any():
        return first_of(t, t.lent, wrong, "borrows of the node itself, or nothing")
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


def first_of(t: Tables, own: Spans, wrong: Bools, what: str) -> Violation:
    """What is wrong with the first of some rows."""
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
        return first_of(t, own, stray, f"{words[0]} on which it has no task")
    there = np.flatnonzero(of >= 0)
    different = np.zeros(len(of), np.bool_)
    for mine, its in ((own.start, held.start), (own.end, held.end)):
        different[there] |= mine[there] != its[row[of[there]]]
    if different.any():
        return first_of(t, own, different, f"has {words[1]} that lasts for another time than its span")
    for what, amount, asked in sums:
        has = np.zeros(len(row), np.int64)
        np.add.at(has, of[there], amount[there])
        if (lacking := has < asked[row]).any():
            short = np.zeros(len(held.job), np.bool_)
            short[row[lacking]] = True
            return first_of(t, held, short, f"holds less {what} than its tasks ask")
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


def claim_violation(t: Tables) -> Violation | None:
    """The first claim that cannot be, or that is missing."""
    places = t.cluster.places
    if not places.parts:
        return None
    c, own = t["claims"], t.claimed
    keys = list(zip(c["resource"].to_list(), c["place"].to_list(), strict=True))
    number = {key: places.number(*key) for key in dict.fromkeys(keys)}
    at = np.array([number[key] for key in keys], np.int64)
    amount = whole(c["amount"])
    if (at < 0).any():
        return Violation("a claim is on a place that does not exist", int(own.start[np.flatnonzero(at < 0)[0]]))
    return _more_than_installed(t, own, at, amount) or _not_as_asked(t, own, at, amount)


def _more_than_installed(t: Tables, own: Spans, at: Ints, amount: Ints) -> Violation | None:
    lasts = own.end > own.start
    place, when, level = levels(at[lasts], own.start[lasts], own.end[lasts], amount[lasts])
    over = np.flatnonzero(level > t.cluster.places.total[place])
    if not over.size:
        return None
    resource, what = t.cluster.places.at(int(place[over[0]]))
    held = f"{level[over[0]]} of {resource} {what.name} are held, and {what.amount} installed"
    return Violation(held, int(when[over[0]]))


def _not_as_asked(t: Tables, own: Spans, at: Ints, amount: Ints) -> Violation | None:
    """Every span claims what its job asks on the nodes of its placements, for just as long."""
    places, p, held = t.cluster.places, t["placements"], t.held
    count = t["jobs"].height
    columns = {key: whole(t["jobs"][".".join(key)]) for key in places.quantities if ".".join(key) in t["jobs"].columns}
    asked = places.asked(columns, count)
    stray = np.flatnonzero((own.job >= 0) & ~np.isin(own.key, held.key))
    if len(stray):
        i = int(stray[0])
        return Violation(f"{t.name(own.job[i])} claims something for a span that it does not have", int(own.start[i]))
    asks = np.asarray(asked.any(axis=0))
    rows = np.flatnonzero((held.job >= 0) & (asks[held.job] | np.isin(held.key, own.key)))
    claims, spans = _by_key(own.key, np.arange(len(at))), _by_key(held.key[rows], rows)
    first, nodes, tasks = (whole(p[name]) for name in ("first_node", "nodes", "tasks_per_node"))
    shares = _shares(t)
    for key, of in spans.items():
        job, start, end = int(held.job[of[0]]), int(held.start[of[0]]), held.end[of[0]]
        run, where = each_of(first[of], nodes[of])
        mine = claims.get(key, NOTHING)
        there = np.stack([at[mine], amount[mine]], axis=1)
        there = there[np.lexsort(there.T[::-1])]
        devices = attached(shares.get(key, ()), t.cluster.devices.home)
        if not places.agree(asked[:, job], where, tasks[of][run], there, devices):
            return Violation(f"{t.name(job)} claims something else than it asks where it runs", start)
        if (own.start[mine] != start).any() or (own.end[mine] != end).any():
            return Violation(f"{t.name(job)} has a claim that lasts for another time than its span", start)
    return None


def _by_key(keys: Ints, rows: Ints) -> dict[int, Ints]:
    """The rows of every key, in order."""
    order = np.argsort(keys, kind="stable")
    found, first = np.unique(keys[order], return_index=True)
    return dict(zip(found.tolist(), np.split(rows[order], first[1:]), strict=bool(len(found))))


def _shares(t: Tables) -> dict[int, list[Share]]:
    """The devices of every span, by its key; those that do not exist are another rule's to find."""
    found: dict[int, list[Share]] = {}
    rows = zip(t.shared.key.tolist(), t["shares"]["node"].to_list(), t["shares"]["devices"].to_list(), strict=True)
    for key, node, devices in rows:
        known = tuple(device for device in devices if 0 <= device < len(t.cluster.devices))
        found.setdefault(key, []).append(Share(node, known, ()))
    return found
