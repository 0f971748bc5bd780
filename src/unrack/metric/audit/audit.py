"""Every rule of the audit, one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unrack.metric.audit.asked import asked_violation, claim_violation
from unrack.metric.audit.capacity import device_violation, node_violation
from unrack.metric.audit.limits import limit_violation
from unrack.metric.audit.spans import span_violation, usage_violation
from unrack.metric.audit.suspended import suspension_violation
from unrack.metric.audit.tables import Tables, Violation, micro, whole
from unrack.metric.audit.windows import kept_violation, window_violation


def round_violation(t: Tables) -> Violation | None:
    """The first round that cannot be."""
    if "rounds" not in t:
        return None
    r = t["rounds"]
    at, jobs, tried, placed, left = (
        micro(r["time_s"]),
        *(whole(r[name]) for name in ("jobs", "tried", "placed", "left")),
    )
    wrong = np.flatnonzero((placed + left != jobs) | (placed > tried) | (tried > jobs) | (placed < 0))
    if wrong.size:
        i = int(wrong[0])
        words = f"a round of {jobs[i]} jobs tried {tried[i]}, placed {placed[i]} and left {left[i]}"
        return Violation(words, int(at[i]))
    if (np.diff(at) < 0).any():
        return Violation("the rounds are not in order of time", int(at[np.flatnonzero(np.diff(at) < 0)[0]]))
    begins = t.sums.start[t.sums.span == 1]
    times, of = np.unique(np.concatenate([at, begins]), return_inverse=True)
    said = np.bincount(of[: len(at)], placed, len(times))
    done = np.bincount(of[len(at) :], minlength=len(times))
    other = np.flatnonzero(said != done)
    if other.size and not t.repeated.any():
        i = int(other[0])
        return Violation(f"{done[i]} jobs start, and the rounds placed {said[i]:.0f}", int(times[i]))
    return None


RULES: tuple[Callable[[Tables], Violation | None], ...] = (
    span_violation,
    node_violation,
    device_violation,
    claim_violation,
    window_violation,
    kept_violation,
    asked_violation,
    suspension_violation,
    limit_violation,
    usage_violation,
    round_violation,
)


def violations(tables: Tables) -> list[Violation]:
    """What is wrong with the tables of a run: of every rule that is broken the first violation; none: nothing.

    It reads the tables and the cluster alone, nothing of what made them. O(n log n) in the rows of the tables, and
    O(nodes) for each row.
    """
    return [found for rule in RULES if (found := rule(tables)) is not None]
