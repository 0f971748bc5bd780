"""How many tasks some nodes hold, where a limit says on how few of them a job may be."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.resources.contract import ANY_NUMBER, Place
from unrack.resources.site.features import Counts, Way, own_of


def nodes_bounds(counts: Counts, partition: str) -> list[int]:
    """The limits of nodes of a job in a partition, by place."""
    return [place for place, amount in own_of(counts, partition) if amount < 0]


def most_nodes(counts: Counts, partition: str, amounts: Sequence[int] | Ints) -> int:
    """On how many nodes a job may be in a partition that counts for so much; ``amounts``: what each place has."""
    return min((int(amounts[place]) for place in nodes_bounds(counts, partition)), default=ANY_NUMBER)


def room_in(way: Way, fit: Ints, most: int = ANY_NUMBER) -> int:
    """How many tasks the nodes of a way hold, on so many of them; ``fit``, int64[nodes]: how many each does."""
    if any(int((fit[way.nodes & mask] > 0).sum()) < count for count, mask in way.counts):
        return 0
    own = np.minimum(fit[way.nodes], ANY_NUMBER)
    return int((np.sort(own)[len(own) - most :] if most < len(own) else own).sum())


def short_of_nodes(
    ways: Sequence[Way], counts: Counts, places: Sequence[Place], fit: Ints, tasks: int
) -> tuple[str, int, int] | None:
    """The limit of nodes of a job that has room in a way but for that; how many it needs there, and how many it may."""
    for way in ways:
        if room_in(way, fit) >= tasks and (bounds := nodes_bounds(counts, way.partition)):
            held = np.cumsum(np.sort(np.minimum(fit[way.nodes], ANY_NUMBER))[::-1])
            place = min((places[one] for one in bounds), key=lambda place: place.amount)
            return place.name, int(np.searchsorted(held, tasks)) + 1, place.amount
    return None


def alike(counts: Sequence[Counts], places: Sequence[Place], but: Container[int]) -> Ints:
    """int64[counts + 1]: by number, the first by which a job has as much room on the empty cluster; 0: any room.

    ``but``: places of no limits.
    """
    first, found = dict[object, int]({(): 0}), [0]
    for number, row in enumerate(counts, 1):
        limits = ((places[p].amount, amount, inside) for p, amount, inside in row if p not in but)
        own = [(inside, abs(amount) > most, (amount < 0) * most) for most, amount, inside in limits]
        found.append(first.setdefault(tuple(one for one in own if any(one[1:])), number))
    return np.array(found, np.int64)


def first_over(
    counts: Counts, partition: str, places: Sequence[Place], but: Container[int]
) -> tuple[Place, int] | None:
    """The first limit that is less than a job counts for by itself, and what that is; ``but``: places of no limits."""
    own = ((places[place], abs(amount)) for place, amount in own_of(counts, partition) if place not in but)
    return next((one for one in own if one[0].amount < one[1]), None)


def fit_beside(kept: Mapping[int, int], fit: Ints, cores: int) -> Ints:
    """int64[nodes]: how many of the tasks that nodes hold have so many cores of those that are kept for the job."""
    some = np.array([*kept], np.int64)
    fit[some] = np.minimum(fit[some], np.array([*kept.values()], np.int64) // max(cores, 1))
    return fit
