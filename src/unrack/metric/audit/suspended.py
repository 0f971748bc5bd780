"""Suspended jobs give back their cores, keep all else, and run for as long as they would without."""

from __future__ import annotations

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.metric.audit.tables import Spans, Tables, Violation, whole


def suspension_violation(t: Tables) -> Violation | None:
    """The first job that holds other cores than it may while it is suspended or runs, or changes what else it holds."""
    jobs = t["jobs"]
    if "suspensions" not in jobs.columns or not len(t.sums.job):
        return None
    s, asked = t.sums, whole(jobs["tasks"]) * whole(jobs["cores_per_task"])
    stands = (s.cores == 0) & (asked[s.job] > 0)
    stood = np.bincount(s.job, np.where(stands, s.end - s.start, 0), jobs.height)
    said = jobs["suspended_s"].to_numpy() * 1e6
    if (wrong := np.flatnonzero((np.abs(stood - said) > 1 + 1e-9 * said) & ~t.repeated)).size:
        job = int(wrong[0])
        words = f"{t.name(job)} is suspended for {said[job] / 1e6:g} s, and holds no cores for {stood[job] / 1e6:g} s"
        return Violation(words)
    same = (np.diff(s.job) == 0) & (np.diff(s.attempt) == 0)
    key = (s.job << 40) + (s.attempt.astype(np.int64) << 20) + s.span
    mb = s.mb + _of_span(key, t.lent, whole(t["loans"]["mb"]))
    amounts = whole(t["claims"]["amount"]) if "claims" in t else np.zeros(0, np.int64)
    for what, held in (
        ("memory", mb), ("nodes", s.nodes), ("tasks", s.tasks),
        ("devices", _of_span(key, t.shared, np.ones(t["shares"].height, np.int64))),
        ("of licences, limits and the like", _of_span(key, t.claimed, amounts)),
    ):  # fmt: skip
        if (wrong := np.flatnonzero(same & (np.diff(held) != 0))).size:
            i = int(wrong[0]) + 1
            return Violation(f"{t.name(s.job[i])} holds other {what} once it is suspended or goes on", int(s.start[i]))
    return None


def _of_span(key: Ints, own: Spans, amount: Ints) -> Ints:
    """int64[spans]: how much the rows of a table say that each span, of these keys, holds."""
    known = np.flatnonzero(own.job >= 0)
    found, at = np.zeros(len(key), np.int64), np.searchsorted(key, own.key[known])
    np.add.at(found, at, amount[known])
    return found
