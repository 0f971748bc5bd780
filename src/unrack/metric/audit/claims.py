"""Of every resource: jobs claim what they ask where they run, as long as they run, and never more than there is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.ledger.lease import Share, attached
from unrack.metric.audit.tables import Spans, Tables, Violation, whole

Ints = NDArray[np.int64]


def claim_violation(t: Tables) -> Violation | None:
    """The first claim that cannot be, or that is missing."""
    places = t.cluster.places
    if not len(places):
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
    places = t.cluster.places
    lasting = np.flatnonzero(own.end > own.start)
    lasting = lasting[np.argsort(at[lasting], kind="stable")]
    claimed, first = np.unique(at[lasting], return_index=True)
    for place, rows in zip(claimed.tolist(), np.split(lasting, first[1:]), strict=bool(len(claimed))):
        resource, what = places.at(place)
        when = np.concatenate([own.start[rows], own.end[rows]])
        change = np.concatenate([amount[rows], -amount[rows]])
        order = np.lexsort((change, when))  # who ends gives back before another starts
        level = np.cumsum(change[order])
        over = np.flatnonzero(level > what.amount)
        if over.size:
            held = f"{level[over[0]]} of {resource} {what.name} are held, and {what.amount} installed"
            return Violation(held, int(when[order][over[0]]))
    return None


def _not_as_asked(t: Tables, own: Spans, at: Ints, amount: Ints) -> Violation | None:
    """Every span claims what its job asks on the nodes of its placements, for just as long."""
    places, p, held = t.cluster.places, t["placements"], t.held
    count = t["jobs"].height
    columns = {key: whole(t["jobs"][".".join(key)]) for key in places.quantities if ".".join(key) in t["jobs"].columns}
    asked = places.asked(columns, count)
    claims: dict[int, list[int]] = {}
    for row, key in enumerate(own.key.tolist()):
        claims.setdefault(key, []).append(row)
    asks = np.asarray(asked.any(axis=0))
    known = held.job >= 0
    rows = np.flatnonzero(known & (asks[held.job] | np.isin(held.key, own.key)))
    spans: dict[int, list[int]] = {}
    for row, key in zip(rows.tolist(), held.key[rows].tolist(), strict=True):
        spans.setdefault(key, []).append(row)
    stray = np.flatnonzero((own.job >= 0) & ~np.isin(own.key, held.key))
    if len(stray):
        i = int(stray[0])
        return Violation(f"{t.name(own.job[i])} claims something for a span that it does not have", int(own.start[i]))
    first, nodes, tasks = (whole(p[name]) for name in ("first_node", "nodes", "tasks_per_node"))
    shares = _shares(t)
    for key, of in spans.items():
        job, start = int(held.job[of[0]]), int(held.start[of[0]])
        where = np.concatenate([np.arange(first[row], first[row] + nodes[row]) for row in of])
        on_each = np.concatenate([np.repeat(tasks[row], nodes[row]) for row in of])
        mine = claims.get(key, [])
        held_there = np.array(sorted([int(at[row]), int(amount[row])] for row in mine), np.int64).reshape(-1, 2)
        devices = attached(shares.get(key, ()), t.cluster.devices.home)
        if not places.agree(asked[:, job], where, on_each, held_there, devices):
            return Violation(f"{t.name(job)} claims something else than it asks where it runs", start)
        if any(own.start[row] != start or own.end[row] != held.end[of[0]] for row in mine):
            return Violation(f"{t.name(job)} has a claim that lasts for another time than its span", start)
    return None


def _shares(t: Tables) -> dict[int, list[Share]]:
    """The devices of every span, by its key; those that do not exist are another rule's to find."""
    found: dict[int, list[Share]] = {}
    rows = zip(t.shared.key.tolist(), t["shares"]["node"].to_list(), t["shares"]["devices"].to_list(), strict=True)
    for key, node, devices in rows:
        known = tuple(device for device in devices if 0 <= device < len(t.cluster.devices))
        found.setdefault(key, []).append(Share(node, known, ()))
    return found
