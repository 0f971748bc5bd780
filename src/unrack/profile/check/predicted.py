"""What unrack predicts of a mix, by each of some models of a drive that is shared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.ledger.lease import Lease
from unrack.profile.check.mixes import Job, Mix, alone_s
from unrack.profile.models.drives import drive_demand, drive_times
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.slowdown.combined import Together, combined
from unrack.slowdown.contract import Slowdown
from unrack.units import SECOND_US
from unrack.view import View
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

DEMAND = "demand"
MODELS = {
    Together.ADD.value: "tables by sharers, delays add up",
    Together.MIN.value: "tables by sharers, the largest delay counts",
    Together.PRODUCT.value: "tables by sharers, speeds multiply",
    DEMAND: "shares of the drive by what each asks for",
}
"""Model → what it is; of two that are equally near the first is offered."""


def predict(mix: Mix, model: str) -> tuple[float, ...]:
    """Seconds from beginning to end of each job, simulated: jobs that begin at once, and share one drive.

    Levels that hold for a job alone slow it down throughout.
    """
    submit = np.array([round(job.at_s * SECOND_US) for job in mix.jobs])
    order = np.argsort(submit, kind="stable")
    on = np.array([job.drives is not None for job in mix.jobs])[order]
    own = np.array([own_speed(job) for job in mix.jobs])
    alone = np.array([alone_s(job.profile) for job in mix.jobs])
    shared: Slowdown
    if model == DEMAND:
        alone /= own
        asked = own * [0.0 if job.drives is None else drive_demand(job.profile, job.drives) for job in mix.jobs]
        shared = DemandSpeeds(asked[order], on)
    else:
        speeds = [speeds_of(job, Together(model)) for job in mix.jobs]
        shared = SharerSpeeds([speeds[i] for i in order.tolist()], on)
    cores = np.array([job.profile.application.file.cores for job in mix.jobs])
    jobs = job_table(
        submit_us=submit,
        work_us=np.array([round(seconds * SECOND_US) for seconds in alone]),
        tasks=np.ones(len(alone), np.int64),
        cores=cores,
    )
    cluster = Cluster.homogeneous(nodes=1, cores=int(cores.sum()))
    workload = Workload(mix.name, jobs, Intake("", "", len(alone), len(alone)))
    rows = simulate(cluster, workload, "easy", world=World(slowdowns=shared)).jobs.sort("job")
    return tuple(end - begun for begun, end in rows.select("submit_s", "end_s").rows())


def own_speed(job: Job) -> float:
    """The speed of a job alone on the drive under its own levels; the delays of several add up."""
    return float(combined([np.ones(1), *_own(job, 1)], Together.ADD)[0])


def _own(job: Job, many: int) -> list[Floats]:
    return [np.full(many, job.profile.fit(axis).curve()(level)) for axis, level in job.levels]


def speeds_of(job: Job, how: Together) -> list[float]:
    """Speeds of a job alone on the drive, beside one more sharer, …, under its own levels."""
    times = {(1, 1): 1.0} if job.drives is None else drive_times(job.profile, job.drives)
    row = np.array([times[1, 1] / times[1, k] for k in range(1, 1 + max(k for d, k in times if d == 1))])
    return [float(speed) for speed in combined([row, *_own(job, len(row))], how)]


class _OnOneDrive:
    """What models of a drive have in common; see :class:`unrack.slowdown.contract.Slowdown`. ``on``: who uses it."""

    def __init__(self, on: Bools) -> None:
        self._on = on

    def _sharers(self, view: View) -> Ints:
        running = view.running[1, : view.running_count]
        return np.sort(running[self._on[running]])

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: all that use the drive, and the job of the lease if it runs."""
        running = view.running[1, : view.running_count]
        return np.sort(running[self._on[running] | (running == lease.job)])

    def feels(self, before: Lease, after: Lease) -> bool:
        """False: a job keeps the drive."""
        del before, after
        return False


class SharerSpeeds(_OnOneDrive):
    """By how many use the drive; each job has a row of its own (unlike the models of a study), whatever the others run.

    ``rows``: of each job by rows of the job table, speeds alone, with one more sharer, ….
    """

    def __init__(self, rows: Sequence[Sequence[float]], on: Bools) -> None:
        super().__init__(on)
        self._rows = rows

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        others = len(self._sharers(view)) - 1
        return np.array([self._rows[job][others if self._on[job] else 0] for job in jobs.tolist()])


class DemandSpeeds(_OnOneDrive):
    """By the share of the drive that each asks for: one that asks for less than its part leaves the rest to others."""

    def __init__(self, asked: Floats, on: Bools) -> None:
        super().__init__(on)
        self._asked = asked

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        sharers, speeds = self._sharers(view), np.ones(len(self._on))
        speeds[sharers] = max_min(self._asked[sharers]) / self._asked[sharers]
        return speeds[jobs]


def max_min(asked: Floats) -> Floats:
    """float64[k]: max-min fair shares of 1: nothing gets more than it asks for, and the least is as large as can be.

    Examples
    --------
    >>> max_min(np.array([0.9, 0.1, 0.8])).round(2).tolist()
    [0.45, 0.1, 0.45]
    """
    given, left = np.zeros(len(asked)), 1.0
    for rank, i in enumerate(np.argsort(asked, kind="stable").tolist()):
        given[i] = min(asked[i], left / (len(asked) - rank))
        left -= given[i]
    return given
