"""The nearest source of each job, by the properties that are known of both."""

from __future__ import annotations

import numpy as np

from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints

_ALIKE = 1e-9


def nearest(jobs: list[Floats], sources: list[Floats]) -> Ints:
    """``int64[jobs]``: the nearest source of each; equally near ones of one place are taken in turns.

    Parameters
    ----------
    jobs, sources : list of float64[jobs], list of float64[sources]
        A column for each property. Each is divided by its standard deviation among the sources.

    Examples
    --------
    >>> nearest([np.array([0.0, 0.1, 9.0, 0.2])], [np.array([0.0, 5.0, 0.0])]).tolist()
    [0, 2, 1, 0]
    """
    spread = [by if (by := float(column.std())) > _ALIKE else 1.0 for column in sources]
    mine, theirs = (
        np.stack([column / by for column, by in zip(columns, spread, strict=True)], axis=1)
        for columns in (jobs, sources)
    )
    telling = np.argsort([-len(np.unique(column)) for column in theirs.T], kind="stable")
    places, of_source = np.unique(theirs[:, telling], axis=0, return_inverse=True)
    order = np.argsort(of_source.ravel(), kind="stable")
    count = np.bincount(of_source.ravel(), minlength=len(places))
    begin = np.cumsum(count) - count
    place = _nearest_place(mine[:, telling], places)
    found: Ints = order[begin[place] + _turn(place) % count[place]]
    return found


@compiled
def _nearest_place(mine: Floats, places: Floats) -> Ints:
    """``int64[jobs]``: the nearest row of places, which ascend by their first column; of equally near ones the first.

    From where a job would stand, both ways, until the first column alone is further away than the best: O(places) a job
    at worst, and a small part of them where that column tells places apart.
    """
    found = np.empty(len(mine), np.int64)
    for i in range(len(mine)):
        right = np.searchsorted(places[:, 0], mine[i, 0])
        left, best = right - 1, np.inf
        while left >= 0 or right < len(places):
            if left >= 0 and (right == len(places) or mine[i, 0] - places[left, 0] <= places[right, 0] - mine[i, 0]):
                at, left = left, left - 1
            else:
                at, right = right, right + 1
            away = (mine[i, 0] - places[at, 0]) ** 2
            if away > best:
                break
            for k in range(1, places.shape[1]):
                away += (mine[i, k] - places[at, k]) ** 2
            if away < best or (away == best and at < found[i]):
                best, found[i] = away, at
    return found


def _turn(place: Ints) -> Ints:
    """``int64[n]``: how many entries before each have the same value."""
    order = np.argsort(place, kind="stable")
    among = place[order]
    begins = np.flatnonzero(np.diff(among, prepend=among[:1] - 1))
    turn = np.empty(len(place), np.int64)
    turn[order] = np.arange(len(place)) - np.repeat(begins, np.diff(np.append(begins, len(place))))
    return turn
