"""Where a running server could move to: kernels over what is free while everybody else stays.

A server holds its old place until its new one is filled, so a move must fit beside it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.jit import compiled, inlined
from unrack.kernels.arrays import Bools, Ints
from unrack.solver.batch.case import CEILING, CORES, FLOOR, MB, Crowd, Land
from unrack.solver.servers.split import cheapest

TIGHTEST, CHEAPEST = range(2)
"""Of the clusters that have room: the one with least left, or the one with the lowest price."""


class Running(NamedTuple):
    """Servers in their places."""

    at: Ints  # int64[servers]: the cluster of each; -1: nowhere
    mb: Ints  # int64[servers, width]: MB from each pool of it
    # free_cores, free_mb, int64[pools]
    free_cores: Ints
    free_mb: Ints
    opened: Bools  # bool[clusters]: where servers may move to
    moved: Bools  # bool[servers]: moved before, so not to be moved again


@inlined
def _taken(land: Land, crowd: Crowd, run: Running, i: int, pool: int) -> bool:
    """Whether another server of the group holds something in the failure domain of a pool."""
    level, group = crowd.level[i], crowd.group[i]
    if level < 0 or group < 0 or land.domain[level, pool] < 0:
        return False
    for k in range(crowd.mate[group], crowd.mate[group + 1]):
        j = crowd.mates[k]
        if j != i and run.at[j] >= 0:
            start = land.first[run.at[j]]
            for p in range(start, land.first[run.at[j] + 1]):
                if land.domain[level, land.member[p]] == land.domain[level, pool] and (
                    p == start or run.mb[j, p - start] > 0
                ):
                    return True
    return False


@compiled
def price_there(land: Land, crowd: Crowd, run: Running, i: int, c: int, gone: int, into: Ints) -> int:
    """The lowest price at which a server fits a cluster, and its split; -1: it does not fit.

    Parameters
    ----------
    i, c
        The server and the cluster.
    gone
        A server of that cluster that will have left it; -1: none.
    into : int64[width]
        Receives the MB from each pool.
    """
    start = land.first[c]
    width, compute = land.first[c + 1] - start, land.member[start]
    if not crowd.fits[i, crowd.kind[c]] or (crowd.pinned[i] >= 0 and crowd.pinned[i] != c):
        return -1
    need = crowd.need
    cores = run.free_cores[compute] + (need[CORES, gone] if gone >= 0 else 0)
    if cores < need[CORES, i]:
        return -1
    left, load = need[MB, i], 0
    for j in range(width):  # what is free to anybody: most clusters are too full, and that is soon seen
        pool = land.member[start + j]
        free = run.free_mb[pool] + (run.mb[gone, j] if gone >= 0 else 0)
        if j == 0 and free < need[FLOOR, i]:
            return -1
        mb = min(left, free)
        load += mb * land.weight[pool]
        left -= mb
    if left > 0 or load > need[CEILING, i] or _taken(land, crowd, run, i, compute):
        return -1
    offer = np.zeros((3, width), np.int64)
    for j in range(width):
        pool = land.member[start + j]
        offer[1, j], offer[2, j] = land.weight[pool], land.price[pool]
        if not (crowd.forbidden[i, land.tier[pool]] or _taken(land, crowd, run, i, pool)):
            offer[0, j] = run.free_mb[pool] + (run.mb[gone, j] if gone >= 0 else 0)
    into[:] = 0
    return cheapest(need[MB, i], need[FLOOR, i], need[CEILING, i], offer[0], offer[1], offer[2], width, into)


@compiled
def best_place(land: Land, crowd: Crowd, run: Running, i: int, rule: int, into: Ints) -> tuple[int, int]:
    """The open cluster, not its own, that a server should move to, and the price there; -1: none has room.

    Parameters
    ----------
    rule
        TIGHTEST or CHEAPEST; then the lowest id.
    into : int64[width]
        Receives the split there.
    """
    best, best_score, best_price = -1, 0, -1
    trial = np.zeros(run.mb.shape[1], np.int64)
    for c in range(len(run.opened)):
        if not run.opened[c] or c == run.at[i]:
            continue
        price = price_there(land, crowd, run, i, c, -1, trial)
        if price < 0:
            continue
        score = price
        if rule == TIGHTEST:
            score = 0
            for p in range(land.first[c], land.first[c + 1]):
                score += run.free_mb[land.member[p]]
        if best < 0 or score < best_score:
            best, best_score, best_price = c, score, price
            into[:] = trial
    return best, best_price


@compiled
def make_room(land: Land, crowd: Crowd, run: Running, i: int, order: Ints) -> tuple[int, int]:
    """A server that can move to another open cluster, and whose cluster then has room for server i; -1, -1: none.

    Parameters
    ----------
    order : int64[any]
        The servers to try, in order.
    """
    trial = np.zeros(run.mb.shape[1], np.int64)
    for k in range(len(order)):
        j = order[k]
        c = run.at[j]
        if j == i or c < 0 or c == run.at[i] or run.moved[j] or not run.opened[c]:
            continue
        if price_there(land, crowd, run, i, c, j, trial) >= 0:
            there, _ = best_place(land, crowd, run, j, TIGHTEST, trial)
            if there >= 0:
                return j, there
    return -1, -1


@compiled
def least_alone(land: Land, crowd: Crowd, run: Running, example: Ints, into: Ints) -> None:
    """The lowest price of each server with nobody else there; ``run``: nobody is anywhere.

    Parameters
    ----------
    example : int64[kinds]
        A cluster of each kind.
    into : int64[servers]
        Receives the prices; -1: a server fits nowhere.
    """
    trial = np.zeros(run.mb.shape[1], np.int64)
    for i in range(len(into)):
        into[i] = -1
        for k in range(len(example)):
            c = crowd.pinned[i] if crowd.pinned[i] >= 0 else example[k]
            price = price_there(land, crowd, run, i, c, -1, trial)
            if price >= 0 and (into[i] < 0 or price < into[i]):
                into[i] = price


@compiled
def best_saving(land: Land, crowd: Crowd, run: Running, paid: Ints) -> tuple[int, int]:
    """The server whose move to an open cluster saves most, and that cluster; -1, -1: none saves anything.

    Parameters
    ----------
    paid : int64[servers]
        The price of each where it is.
    """
    best, where, most = -1, -1, 0
    trial = np.zeros(run.mb.shape[1], np.int64)
    for i in range(len(run.at)):
        if run.at[i] >= 0 and not run.moved[i]:
            c, price = best_place(land, crowd, run, i, CHEAPEST, trial)
            if c >= 0 and paid[i] - price > most:
                best, where, most = i, c, paid[i] - price
    return best, where
