"""When how many tasks will fit, by cores and memory alone, as running jobs end when they are booked to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.kernels.arrays import Ints
from unrack.ledger.lease import BORROWER, CORES, FIRST, LENDER, LOAN_MB, LOCAL_MB, NODES
from unrack.ledger.names import FIRST_ROW, ROW_COUNT
from unrack.view import View


class Shape(NamedTuple):
    """What jobs have in common of which as many tasks fit."""

    cores: int
    mb: int
    nodes: int  # the number of the set of nodes on which they may run


def fits_on(free: Ints, total: Ints, shape: Shape, whole: bool) -> Ints:
    """int64[nodes]: how many tasks fit on each; ``whole``: a node serves one job at a time."""
    usable = (total[0] > 0) & ((free[0] >= total[0]) if whole else True)
    fit = np.minimum(
        free[0] // shape.cores if shape.cores else np.int64(2**31), free[1] // shape.mb if shape.mb else np.int64(2**31)
    )
    return np.where(usable, np.maximum(fit, 0), 0)


class Openings:
    """At one moment; nothing is counted that starts later.

    ``view``: of the ledger; ``now``: the moment, µs; a job that is overdue is taken to end 1 µs later; ``whole``:
    whether a node serves one job at a time.
    """

    def __init__(self, view: View, now: int, whole: bool) -> None:
        self._view, self._now, self._whole = view, now, whole
        self._known: dict[Shape, tuple[Ints, Ints]] = {}

    def shape(self, job: int) -> Shape:
        """Of a job."""
        columns = self._view.columns
        _, cores, mb, _ = columns.asks[:, job].tolist()
        return Shape(cores, mb, int(columns.set_of[job]))

    def installed(self, shape: Shape) -> int:
        """How many tasks fit if no job runs."""
        total = self._view.columns.open_to[shape.nodes]
        return int(fits_on(total, total, shape, self._whole).sum())

    def starts_us(self, shape: Shape, tasks: Ints) -> Ints:
        """int64[k]: when so many tasks (int64[k]) fit at first; -1: not even when all that run have ended."""
        if shape not in self._known:
            self._known[shape] = self._levels(shape)
        times, room = self._known[shape]
        at = np.searchsorted(room, tasks)
        return np.where(at < len(room), times[np.minimum(at, len(room) - 1)], -1)

    def _levels(self, shape: Shape) -> tuple[Ints, Ints]:
        """The moments, and how many tasks fit from each on: rising."""
        view, total = self._view, self._view.columns.open_to[shape.nodes]
        free = np.where(total[0] > 0, view.free, 0)
        fit = fits_on(free, total, shape, self._whole)
        times, room, sum_ = [self._now], [int(fit.sum())], int(fit.sum())
        ends = np.maximum(view.running_end_us, self._now + 1).tolist()
        for end, job in zip(ends, view.running_jobs.tolist(), strict=True):
            nodes = self._give_back(free, job)
            nodes = nodes[total[0, nodes] > 0]
            more = fits_on(free[:, nodes], total[:, nodes], shape, self._whole)
            sum_ += int(more.sum() - fit[nodes].sum())
            fit[nodes] = more
            if end == times[-1]:
                room[-1] = sum_
            elif sum_ > room[-1]:
                times.append(end)
                room.append(sum_)
        return np.array(times, np.int64), np.array(room, np.int64)

    def _give_back(self, free: Ints, job: int) -> Ints:
        """Let a job's nodes and memory be free that are in service; the nodes."""
        view = self._view
        at, count = int(view.lease_at[FIRST_ROW, job]), int(view.lease_at[ROW_COUNT, job])
        rows = view.pool[at : at + count]
        nodes = np.concatenate([np.arange(row[FIRST], row[FIRST] + row[NODES]) for row in rows])
        for amount, column in enumerate((CORES, LOCAL_MB)):
            free[amount, nodes] += np.repeat(rows[:, column], rows[:, NODES])
        if view.columns.memory is not None:
            for _, lender, mb in view.lease(job).borrowed[:, (BORROWER, LENDER, LOAN_MB)].tolist():
                free[1, lender] += mb
                nodes = np.append(nodes, lender)
        nodes = np.unique(nodes)
        found: Ints = nodes[view.online[nodes]]
        return found
