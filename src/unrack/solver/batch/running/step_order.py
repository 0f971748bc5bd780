"""From where servers are to where they should be, in steps that each fit beside all that is there.

As long as any can: a server moves to its new cluster with its new split; or one that is in the right cluster takes
its new split; or one moves to its new cluster with a split that fits for now. Where nothing can, the smallest server
that still has to move is parked in a cluster that has room for it, once. What cannot be reached so is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unrack.solver.batch.case import MB
from unrack.solver.batch.running.moves import TIGHTEST, best_place
from unrack.solver.batch.running.on_paper import Books
from unrack.solver.servers.problem import Allocation

Ints = NDArray[np.int64]


def go_towards(books: Books, target: Allocation) -> bool:
    """Make the steps towards an allocation; returns whether it was reached, but for splits.

    Parameters
    ----------
    target
        Where servers should be; those placed now are placed there too.
    """
    case, parked = books.case, np.zeros(len(target.cluster), np.bool_)
    free_to_split = case.asked.level < 0
    while True:
        run = books.run
        away = np.flatnonzero(run.at != target.cluster)
        other = np.flatnonzero((run.at == target.cluster) & (run.mb != target.mb).any(axis=1) & free_to_split)
        if not len(away) and not len(other):
            return True
        steps = len(books.plan)
        for i in away[free_to_split[away]].tolist():
            if books.takes(i, int(target.cluster[i]), target.mb[i]):
                books.move(i, int(target.cluster[i]), target.mb[i])
        if len(books.plan) == steps:
            books.split_again(other, target.mb[other])
        if len(books.plan) == steps and not (_for_now(books, target, away) or _park(books, target, away, parked)):
            return not len(away)


def _for_now(books: Books, target: Allocation, away: Ints) -> bool:
    """Move one server to its new cluster with any split that fits."""
    into = np.zeros(books.run.mb.shape[1], np.int64)
    for i in away.tolist():
        if books.price_at(i, int(target.cluster[i]), into) >= 0:
            books.move(i, int(target.cluster[i]), into)
            return True
    return False


def _park(books: Books, target: Allocation, away: Ints, parked: NDArray[np.bool_]) -> bool:
    """Move the smallest server that was not parked before out of its cluster, to any that has room."""
    case, into = books.case, np.zeros(books.run.mb.shape[1], np.int64)
    books.run.opened[:] = True
    waiting = away[~parked[away]]
    for i in waiting[np.argsort(case.need[MB, waiting], kind="stable")].tolist():
        cluster, _ = best_place(case.land, case.crowd, books.run, i, TIGHTEST, into)
        if cluster >= 0:
            parked[i] = True
            books.move(i, cluster, into)
            return True
    return False
