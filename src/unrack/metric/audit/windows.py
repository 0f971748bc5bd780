"""Nobody uses what is kept for others: nodes, and amounts of places such as licences."""

from __future__ import annotations

import numpy as np
import polars as pl

from unrack.kernels.arrays import Ints
from unrack.metric.audit.asked import first_of
from unrack.metric.audit.tables import Tables, Violation, micro, whole
from unrack.steps import each_of


def window_violation(t: Tables) -> Violation | None:
    """The first job that starts where and when nodes are kept for others, or when none of its windows is open."""
    places, p, held = t.cluster.places, t["placements"], t.held
    begins = np.flatnonzero((held.job >= 0) & (held.span == 1)) if places.windows else np.zeros(0, np.int64)
    if not len(begins):
        return None
    columns = {key: whole(t["jobs"][".".join(key)]) for key in places.quantities if ".".join(key) in t["jobs"].columns}
    sets = places.sets(places.asked(columns, t["jobs"].height))
    owner = np.zeros(t["jobs"].height, np.int64) if sets is None else sets.owner[sets.of]
    which, node = each_of(*(whole(p[name])[begins] for name in ("first_node", "nodes")))
    row = begins[which]
    start, whose = held.start[row], owner[held.job[row]]
    outside = whose != 0
    for window in places.windows:
        mine = np.abs(whose) == window.owner
        outside &= ~mine | ((start < window.start_us) & (whose > 0)) | (start >= window.end_us)
        inside = (start >= window.start_us) & (start < window.end_us) & window.nodes[node] & ~mine
        if inside.any():
            return first_of(t, held, np.isin(np.arange(len(held.job)), row[inside]), "starts on a node kept for others")
    if outside.any():
        return first_of(t, held, np.isin(np.arange(len(held.job)), row[outside]), "starts when it may not run")
    return None


def kept_violation(t: Tables) -> Violation | None:
    """The first moment at which somebody takes what is kept of a place for others, or will have it when it is."""
    places, own, claims = t.cluster.places, t.claimed, t["claims"]
    if not places.kept or not len(own.job):
        return None
    amount, asked, began = whole(claims["amount"]), t["jobs"]["request_s"], (own.span == 1) & (own.attempt == 1)
    if "limit_s" in t["jobs"].columns:  # of the last start
        asked = pl.select(pl.min_horizontal(t["jobs"]["limit_s"], asked)).to_series()
        began &= ~np.isin(own.job, own.job[own.attempt > 1])
    request = micro(asked)
    keys = zip(claims["resource"].to_list(), claims["place"].to_list(), strict=True)
    of = np.array([places.number(*key) for key in keys], np.int64)
    # when who began without having run before is to have ended, as it asks
    until = np.where(began, own.start + request[own.job], 0)
    for place, windows in places.kept.items():
        mine = np.flatnonzero((of == place) & (own.job >= 0))
        begins = own.start[mine[own.span[mine] == 1]]
        for window in windows:
            most = int(places.total[place]) - window.amount
            there = begins[(begins >= window.start_us) & (begins < window.end_us)]
            late = mine[until[mine] > window.start_us]
            early = own.start[late][own.start[late] < window.start_us]
            over = [
                *_over(most, own.start[mine], own.end[mine], amount[mine], there),
                *_over(most, own.start[late], own.end[late], amount[late], early),
            ]
            if over:
                (at, held), (_, what) = min(over), places.at(place)
                said = f"{held} of {what.name} are taken, where {most} are left beside what is kept for others"
                return Violation(said, at)
    return None


def _over(most: int, start: Ints, end: Ints, amount: Ints, begins: Ints) -> list[tuple[int, int]]:
    """The moments, of some, at which more is held than a window leaves, and how much."""
    held = np.zeros(len(begins), np.int64)
    for times, sign in ((start, 1), (end, -1)):
        order = np.argsort(times, kind="stable")
        sums = np.concatenate([[0], np.cumsum(amount[order])])
        held += sign * sums[np.searchsorted(times[order], begins, "right")]
    over = np.flatnonzero(held > most)
    return list(zip(begins[over].tolist(), held[over].tolist(), strict=True))
