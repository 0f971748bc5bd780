"""Of policies that tell their rounds: as many jobs start at every time as the rounds of that time say."""

from __future__ import annotations

import numpy as np

from unrack.metric.audit.tables import Tables, Violation, micro, whole


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
