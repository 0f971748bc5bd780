"""The tables over time say what the placements and loans add up to, at every moment."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.metric.audit.tables import Spans, Sums, Tables, Violation, micro, whole
from unrack.steps import spells, summed_at


def usage_violation(t: Tables) -> Violation | None:
    """The first time at which the table of usage says something else than placements, loans and failures."""
    usage, lent = t["usage"], t.lent
    times = micro(usage["time_s"])
    if len(times) and (np.diff(times) <= 0).any():
        return Violation("the times of the table of usage do not rise")
    told_apart = bool((t.held.job >= 0).all())  # else jobs share ids, and rows are looked at in place of spans
    own: Spans | Sums = t.sums if told_apart else t.held
    held_at, lent_at = _places(times, own), _places(times, lent)
    for spans, at in ((own, held_at), (lent, lent_at)):
        for moments, found in zip((spans.start, spans.end), at, strict=True):
            known = times[np.minimum(found, len(times) - 1)] == moments
            if not known.all():
                what = "the table of usage has no row for a time at which something changed"
                return Violation(what, int(moments[~known].min()))
    loaned = whole(t["loans"]["mb"])
    held_cores, held_mb = (own.cores, own.mb) if isinstance(own, Sums) else _of_rows(t)
    cores, lent_mb = _level(times, held_at, held_cores), _level(times, lent_at, loaned)
    local_mb = _level(times, held_at, held_mb)
    one = np.ones(len(own.start), np.int64)
    wanted = {
        "cores_held": cores,
        "memory_mb_held": local_mb + lent_mb,
        "running_jobs": _level(times, held_at, one) if told_apart else whole(usage["running_jobs"]),
        "memory_mb_lent": lent_mb,
        "cores_online": t.cluster.total_cores - _down_cores(t, times),
    }
    for name, column in wanted.items():
        if name in usage.columns and (wrong := np.flatnonzero(whole(usage[name]) != column)).size:
            i = int(wrong[0])
            return Violation(f"usage says {name} {usage[name][i]}, placements say {column[i]}", int(times[i]))
    for name in ("queued_jobs", "queued_cores"):
        if (wrong := np.flatnonzero(whole(usage[name]) < 0)).size:
            return Violation(f"usage says {name} {usage[name][int(wrong[0])]}", int(times[wrong[0]]))
    over = np.flatnonzero(cores > wanted["cores_online"])
    if over.size:
        return Violation(
            f"{cores[over[0]]} cores are held, and {wanted['cores_online'][over[0]]} online", int(times[over[0]])
        )
    return _tiers(t)


def _of_rows(t: Tables) -> tuple[Ints, Ints]:
    """int64[rows], twice: cores and MB that each placement holds on all its nodes."""
    count = whole(t["placements"]["nodes"])
    return count * whole(t["placements"]["cores_per_node"]), count * whole(t["placements"]["memory_mb_per_node"])


def _tiers(t: Tables) -> Violation | None:
    """What the table of tiers says is used is what placements and loans add up to."""
    tiers = t.cluster.tiers
    if tiers is None or "tiers" not in t:
        return None
    times = micro(t["tiers"]["time_s"])
    held_at, lent_at = _places(times, t.held), _places(times, t.lent)
    rows = whole(t["placements"]["nodes"]) * whole(t["placements"]["memory_mb_per_node"])
    near = tiers.tier[whole(t["placements"]["first_node"])]
    lender, mb = tiers.tier[whole(t["loans"]["lender"])], whole(t["loans"]["mb"])
    for index, name in enumerate(tiers.names):
        held = _level(times, held_at, rows * (near == index)) + _level(times, lent_at, mb * (lender == index))
        if (wrong := np.flatnonzero(whole(t["tiers"][f"used_mb_{name}"]) != held)).size:
            i = int(wrong[0])
            said = t["tiers"][f"used_mb_{name}"][i]
            return Violation(f"tiers says used_mb_{name} {said}, placements and loans say {held[i]}", int(times[i]))
    return None


def _places(times: Ints, spans: Spans | Sums) -> tuple[Ints, Ints]:
    """int64[spans], twice: the places of starts and of ends among the times."""
    return np.searchsorted(times, spans.start), np.searchsorted(times, spans.end)


def _level(times: Ints, at: tuple[Ints, Ints], amount: Ints) -> Ints:
    """int64[times]: what the spans, at these places, hold together from each time on."""
    return summed_at(len(times), (at[0], amount), (at[1], -amount))


def _down_cores(t: Tables, times: Ints) -> Ints:
    """int64[times]: cores of the nodes that are down, each counted once however many failures keep it down."""
    node, at, until = t.down[:, t.down[2] > t.down[1]]
    node, when, turns = spells(node, at, until)
    return summed_at(len(times), (np.searchsorted(times, when), turns * t.cluster.cores[node]))
