"""Emptying the clusters of a running system, and lowering its price, move by move.

A cluster is emptied server by server, the largest first, into the fullest open cluster that has room. If none has, a
server elsewhere (the smallest that helps) moves on to make room. A cluster that cannot be emptied keeps all its
servers.
"""

from __future__ import annotations

import numpy as np

from unrack.solver.batch.case import MB, split_together
from unrack.solver.batch.running.moves import TIGHTEST, Books, best_place, best_saving, make_room
from unrack.solver.batch.solution import prices

LOOKS_FOR_ROOM = 50
"""Looks that it takes for each server whether its leaving would make room."""


def empty_clusters(books: Books, fewest: int, draws: np.random.Generator | None) -> None:
    """Empty clusters while moves remain and more than ``fewest`` are in use.

    Parameters
    ----------
    draws
        Clusters with fewest servers come first; with draws, in an order that only leans to that.
    """
    case, run = books.case, books.run
    while True:
        opened = books.opened()
        at = books.run.at
        counts = np.bincount(at[at >= 0], minlength=case.supply.clusters)[opened]
        weight = counts * (draws.random(len(opened)) + 0.5 if draws is not None else 1.0)
        held = case.asked.pinned[run.at >= 0]
        for k in np.argsort(weight, kind="stable").tolist():
            victim = int(opened[k])
            if books.budget.over:
                return
            may = counts[k] <= books.left and len(opened) > fewest and not (held == victim).any()
            if may and _clear(books, victim):
                break
        else:
            return


def cheapen_places(books: Books, *, resplit: bool) -> None:
    """Make the moves that remain, the one that saves most first; then split again those that stay, if allowed."""
    case = books.case
    books.run.opened[:] = False
    books.run.opened[books.opened()] = True
    into = np.zeros(books.run.mb.shape[1], np.int64)
    while books.left and not books.budget.over:
        paid = prices(case.supply, books.allocation)
        books.budget.looks -= len(paid) * case.supply.clusters
        server, cluster = best_saving(case.land, case.crowd, books.run, paid)
        if server < 0:
            break
        books.price_at(server, cluster, into)
        books.move(server, cluster, into)
    if not resplit:
        return
    for part in np.unique(case.part[books.opened()]).tolist():
        which = np.flatnonzero((books.run.at >= 0) & (case.part[books.run.at] == part))
        if books.budget.over:
            return
        if (case.asked.level[which] < 0).all():
            split = split_together(case.supply, case.asked, which, books.run.at[which])
            if split is not None:
                books.split_again(which, split)


def _clear(books: Books, victim: int) -> bool:
    """Move every server of a cluster elsewhere; if that fails, nothing has changed."""
    before = books.copy()
    books.run.opened[victim] = False
    case, size = books.case, books.case.need[MB]
    movers = np.flatnonzero(books.run.at == victim)
    order = np.argsort(size, kind="stable")
    into = np.zeros(books.run.mb.shape[1], np.int64)
    waiting = len(movers)
    for i in movers[np.argsort(-size[movers], kind="stable")].tolist():
        if books.run.moved[i] or books.left < waiting or books.budget.over:
            return books.restore(before)
        books.budget.looks -= case.supply.clusters
        cluster, _ = best_place(case.land, case.crowd, books.run, i, TIGHTEST, into)
        if cluster < 0 and books.left > waiting:
            books.budget.looks -= LOOKS_FOR_ROOM * len(order)
            other, away = make_room(case.land, case.crowd, books.run, i, order)
            if other >= 0:
                books.price_at(other, away, into)
                books.move(other, away, into)
                cluster, _ = best_place(case.land, case.crowd, books.run, i, TIGHTEST, into)
        if cluster < 0:
            return books.restore(before)
        books.move(i, cluster, into)
        waiting -= 1
    return True
