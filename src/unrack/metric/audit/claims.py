"""Of every resource: jobs claim what they ask where they run, as long as they run, and never more than there is."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import Share, attached
from unrack.metric.audit.tables import Spans, Tables, Violation, whole
from unrack.steps import each_of, levels

NOTHING: Ints = np.zeros(0, np.int64)


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
