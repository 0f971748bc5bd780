"""Speeds where jobs use each other's memory: the slowdown of runs that lend memory between nodes.

References
----------
Vieira Zacarias 2023, sections 4.3.2 and 6.2; ``docs/contention.md`` says what is a reading of it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import LOCAL_MB, Lease, loans_of
from unrack.slowdown.contention.predict import matched
from unrack.slowdown.contention.profile import ProfileSet
from unrack.slowdown.memory.pressure import FOUND, SPEED, changed_by, make_board
from unrack.slowdown.memory.settings import MemoryContention
from unrack.units import SECOND_US
from unrack.view import View
from unrack.workload.job import JobTable


class ContentionNote(NamedTuple):
    """What a run could not take from its profiles, for its report."""

    jobs: int  # how many jobs there are
    without_profile: int  # how many name no application that has a profile
    # How many of these are left out: they neither suffer nor disturb. The others run as the nearest application.
    left_out: int
    without_curves: int  # how many run as an application that has a profile and no curves
    borrowing: int  # how many of these run on the curves of another application; the others pay for distance only

    def __str__(self) -> str:
        parts = []
        if self.left_out:
            parts.append(f"{self.left_out} of {self.jobs} jobs have no profile and neither suffer nor disturb")
        if near := self.without_profile - self.left_out:
            parts.append(f"{near} of {self.jobs} jobs have no profile and run as the application nearest to them")
        if self.borrowing:
            parts.append(f"{self.borrowing} of {self.jobs} jobs have no curves and run on those of another application")
        if bare := self.without_curves - self.borrowing:
            parts.append(f"{bare} of {self.jobs} jobs have no curves and pay for distance only")
        return "; ".join(parts) or f"all {self.jobs} jobs have a profile and curves of their own"


def applications_of(settings: MemoryContention, cluster: Cluster, jobs: JobTable) -> tuple[Ints, ContentionNote]:
    """The place in ``profiles.applications`` of each job's application, int64[jobs], -1 = none; and what was missing.

    A job's application is the one with its ``app`` as id or name; text that is a whole number is an id.
    """
    profiles = settings.profiles
    ids = np.array([*(_id_of(name, profiles) for name in jobs.app_names), -1], np.int64)
    found = matched(
        profiles, ids[jobs.app], nodes_needed(cluster, jobs), jobs.work_us / SECOND_US, settings.missing
    )  # fmt: skip
    lent = {app for app in profiles.fallbacks if settings.model.families[app]}
    lends = np.array([app in lent for app in profiles], np.bool_)
    bare = found.curveless & (found.place >= 0)
    note = ContentionNote(
        len(jobs), int(found.missing.sum()), int((found.place < 0).sum()), int(bare.sum()),
        int((bare & lends[found.place]).sum()),
    )  # fmt: skip
    return found.place, note


def nodes_needed(cluster: Cluster, jobs: JobTable) -> Ints:
    """int64[jobs]: on how many of the smallest nodes a job's tasks fit by their cores; as many as tasks at most."""
    smallest = int(cluster.cores[cluster.cores > 0].min())
    together = np.maximum(smallest // np.maximum(jobs.cores, 1), 1)
    nodes: Ints = np.maximum(-(-jobs.tasks // together), 1)
    return nodes


def _id_of(name: str, profiles: ProfileSet) -> int:
    """The id that an ``app`` means; -1: no profile is called so."""
    if re.fullmatch(r"\d{1,18}", name):
        return int(name)
    return next((profile.app for profile in profiles.profiles if profile.name == name), -1)


NO_JOBS: Ints = np.zeros(0, np.int64)


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
        What the profiles did not cover: a :class:`unrack.slowdown.memory.speeds.ContentionNote`.
    """

    def __init__(self, settings: MemoryContention, cluster: Cluster, jobs: JobTable) -> None:
        self.settings = settings
        self.columns = settings.model.columns
        apps, self.note = applications_of(settings, cluster, jobs)
        self.board = make_board(settings, cluster, apps)

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: the running jobs with another speed now, by id; the lease's own always, if it runs."""
        state = view.columns
        if state.memory is None:
            return NO_JOBS
        room = state.memory.use.shape[1]
        if room > self.board.uses.shape[1]:
            self.board = self.board._replace(uses=np.zeros((2, 2 * room), np.int64))
        count = changed_by(
            self.columns.kernel, self.board.kernel, state.memory.kernel, state.pool, state.lease_at, state.status,
            lease.job, lease.rows, loans_of(lease.borrowed),
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
