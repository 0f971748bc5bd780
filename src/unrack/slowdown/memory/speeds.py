"""Speeds where jobs use each other's memory: the slowdown of runs that lend memory between nodes.

References
----------
Vieira Zacarias 2023, sections 4.3.2 and 6.2; ``docs/contention.md`` says what is a reading of it.
"""

from __future__ import annotations

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import LOCAL_MB, Lease, loans_of
from unrack.slowdown.contention.columns import columns_of
from unrack.slowdown.memory.apps import applications_of
from unrack.slowdown.memory.board import FOUND, SPEED, make_board
from unrack.slowdown.memory.pressure import changed_by
from unrack.slowdown.memory.settings import MemoryContention
from unrack.view import View
from unrack.workload.job import JobTable

NOBODY: Ints = np.zeros(0, np.int64)


class MemorySpeeds:
    """The speeds of running jobs, kept up to date: every change of a lease goes through :meth:`touched`.

    Parameters
    ----------
    settings
        How speeds are predicted.
    cluster, jobs
        Of the run.

    Attributes
    ----------
    note
        What the profiles did not cover: a :class:`unrack.slowdown.memory.apps.ContentionNote`.
    """

    def __init__(self, settings: MemoryContention, cluster: Cluster, jobs: JobTable) -> None:
        self.settings = settings
        self.columns = columns_of(settings.model)
        apps, self.note = applications_of(settings, cluster, jobs)
        self.board = make_board(settings, cluster, apps)

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the running jobs whose speed is another now, by id; the lease's own always, if it runs."""
        state = view.columns
        if state.memory is None:
            return NOBODY
        self._make_room(state.memory.use.shape[1])
        count = changed_by(
            self.columns, self.board, state.memory, state.pool, state.lease_at, state.status, lease.job, lease.rows,
            loans_of(lease.borrowed),
        )  # fmt: skip
        return np.sort(self.board.jobs[FOUND, :count])

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds as of the last change of a lease."""
        speeds: Floats = self.board.load[SPEED, jobs]
        return speeds

    def feels(self, before: Lease, after: Lease) -> bool:
        """Whether it borrows, or has no memory of its own on a node."""
        if len(before.borrowed) or len(after.borrowed):
            return True
        return not bool((before.rows[:, LOCAL_MB] > 0).all() and (after.rows[:, LOCAL_MB] > 0).all())

    def _make_room(self, count: int) -> None:
        if count > self.board.uses.shape[1]:
            self.board = self.board._replace(uses=np.zeros((2, 2 * count), np.int64))
