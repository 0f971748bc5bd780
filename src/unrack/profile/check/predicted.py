"""What unrack predicts of a mix, by each of some models of a drive that is shared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from unrack.cluster.spec import Cluster
from unrack.kernels.arrays import Floats, Ints
from unrack.ledger.lease import Lease
from unrack.profile.check.mixes import Job, Mix, alone_s
from unrack.profile.models.drives import drive_demand, drive_times
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.slowdown.combined import Together, combined
from unrack.units import SECOND_US
from unrack.view import View
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

DEMAND, STAGES = "demand", "stages"
MODELS = {
    Together.ADD.value: "tables by sharers, delays add up",
    Together.MIN.value: "tables by sharers, the largest delay counts",
    Together.PRODUCT.value: "tables by sharers, speeds multiply",
    DEMAND: "shares of the drive by what each asks for",
    STAGES: "first the drive, in equal shares, and then the rest without it",
}
"""Model → what it is; of two that are equally near the first is offered."""


class JobPart(NamedTuple):
    """A part of a job, which begins when the one before it has ended."""

    seconds: float  # that it takes at a speed of 1
    on: bool  # whether it uses the drive
    asked: float = 0.0  # the share of the drive that it asks for
    speeds: Sequence[float] = (1.0,)  # with no other on the drive, with one more, …


def predict(mix: Mix, model: str) -> tuple[float, ...]:
    """Seconds from beginning to end of each job, simulated: jobs that begin at once, and share one drive.

    Levels that hold for a job alone slow it down throughout.
    """
    parts = [(job, part) for job, one in enumerate(mix.jobs) for part in parts_of(one, model, len(mix.jobs))]
    submit = np.array([round(mix.jobs[job].at_s * SECOND_US) for job, _ in parts])
    order = np.lexsort((np.arange(len(parts)), submit)).tolist()
    rows = [parts[i][1] for i in order]
    first = [job != before for (before, _), (job, _) in pairwise([(-1, None), *parts])]
    cores = np.array([mix.jobs[job].profile.application.file.cores for job, _ in parts])
    jobs = job_table(
        submit_us=submit,
        work_us=np.array([max(1, round(part.seconds * SECOND_US)) for _, part in parts]),
        tasks=np.ones(len(parts), np.int64),
        cores=cores,
        extra=pl.DataFrame({"dependency": [None if new else f"afterok:{i}" for i, new in enumerate(first)]},
                           schema={"dependency": pl.String}),
    )  # fmt: skip
    cluster = Cluster.homogeneous(nodes=1, cores=int(cores.sum()))
    workload = Workload(mix.name, jobs, Intake("", "", len(parts), len(parts)))
    shared = DemandSpeeds(rows) if model == DEMAND else SharerSpeeds(rows)
    ends = simulate(cluster, workload, "easy", world=World(slowdowns=shared)).jobs.sort("job")["end_s"].to_list()
    last = dict(zip((job for job, _ in parts), ends, strict=True))
    return tuple(last[i] - round(job.at_s * SECOND_US) / SECOND_US for i, job in enumerate(mix.jobs))


def parts_of(job: Job, model: str, jobs: int) -> list[JobPart]:
    """What a job is for a model; ``jobs``: of how many."""
    alone, on = alone_s(job.profile), job.drives is not None
    demand = drive_demand(job.profile, job.drives) if job.drives else 0.0
    own = float(slowed(job, [1.0])[0])
    if model == DEMAND:
        return [JobPart(alone / own, on, demand * own)]
    if model == STAGES:
        reads = JobPart(demand * alone, True, 1.0, slowed(job, [1 / sharers for sharers in range(1, jobs + 1)]))
        return [reads] * on + [JobPart((1 - demand) * alone / own, False)]
    times = drive_times(job.profile, job.drives) if job.drives else {(1, 1): 1.0}
    speeds = [times[1, 1] / times[1, k] for k in range(1, 1 + max(k for d, k in times if d == 1))]
    return [JobPart(alone, on, demand, slowed(job, speeds, Together(model)))]


def slowed(job: Job, speeds: Sequence[float], how: Together = Together.ADD) -> Sequence[float]:
    """Speeds of a job under its own levels too."""
    own = [np.full(len(speeds), job.profile.fit(axis).curve()(level)) for axis, level in job.levels]
    return [float(speed) for speed in combined([np.array(speeds), *own], how)]


class SharerSpeeds:
    """By how many use the drive; see :class:`unrack.resources.contract.Slowdown`.

    Unlike the models of a study, each job has speeds of its own, whatever the others run. ``parts``: by rows of the
    job table.
    """

    def __init__(self, parts: Sequence[JobPart]) -> None:
        self._parts, self._on = parts, np.array([part.on for part in parts])

    def sharers(self, view: View) -> Ints:
        """int64[k]: those that use the drive now."""
        running = view.running[1, : view.running_count]
        return np.sort(running[self._on[running]])

    def touched(self, view: View, lease: Lease) -> Ints:
        """int64[k]: all that use the drive, and the job of the lease if it runs."""
        running = view.running[1, : view.running_count]
        return np.sort(running[self._on[running] | (running == lease.job)])

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        others = len(self.sharers(view)) - 1
        return np.array([self._parts[job].speeds[others if self._on[job] else 0] for job in jobs.tolist()])

    def feels(self, before: Lease, after: Lease) -> bool:
        """False: a job keeps the drive."""
        del before, after
        return False


class DemandSpeeds(SharerSpeeds):
    """By the share of the drive that each asks for: one that asks for less than its part leaves the rest to others."""

    def speeds(self, view: View, jobs: Ints) -> Floats:
        """float64[jobs]: their speeds now."""
        sharers, speeds = self.sharers(view), np.ones(len(self._parts))
        asked = np.array([self._parts[job].asked for job in sharers.tolist()])
        speeds[sharers] = max_min(asked) / asked
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
