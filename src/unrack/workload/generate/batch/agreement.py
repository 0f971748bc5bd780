"""How well jobs that were drawn agree with the log that the model was fitted to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.units import SECOND_US
from unrack.workload.account import local_clock
from unrack.workload.generate.batch.curve import correlation_of, distance
from unrack.workload.generate.week_cycle import DAY_S, WEEK_S
from unrack.workload.job import JobTable, Workload

_THURSDAY_TO_MONDAY_S = 3 * DAY_S
"""1970-01-01 was a Thursday: seconds since the Monday before are so many more."""


@dataclass(frozen=True)
class Marginal:
    """One property of the jobs, in the log and as drawn."""

    # name, unit: what it is
    name: str
    unit: str
    # log, drawn: float64[jobs]: its values
    log: Floats
    drawn: Floats

    @property
    def distance(self) -> float:
        """The Kolmogorov-Smirnov distance of the two: the largest difference of their distribution functions."""
        return distance(self.log, self.drawn)


def columns(jobs: JobTable) -> tuple[Ints, Floats, Floats]:
    """Sizes; run and requested times in s, the latter 1 s or more and no shorter than the run."""
    size = jobs.cores if len(jobs) and jobs.tasks.max() == 1 else jobs.tasks
    run_s = jobs.work_us / SECOND_US
    return size, run_s, np.maximum(np.maximum(jobs.request_us / SECOND_US, 1.0), run_s)


def monday_s(workload: Workload) -> tuple[Floats, bool]:
    """``float64[jobs]``: submissions in s since a Monday at midnight, local time; whether weekdays are known.

    A log that gives no dates counts from its own zero.
    """
    clock = local_clock(workload.jobs, workload.intake.header)
    if clock is None:
        return workload.jobs.submit_us / SECOND_US, False
    since = clock[0].dt.epoch("us").to_numpy() / SECOND_US + _THURSDAY_TO_MONDAY_S
    return since - np.floor(since.min() / WEEK_S) * WEEK_S, True


def marginals(log: Workload, drawn: Workload, asked: Bools) -> tuple[Marginal, ...]:
    """The properties of the jobs of a log and of those drawn; requests and accuracies of jobs that asked for a time."""
    (log_s, knows_weekday), (drawn_s, _) = monday_s(log), monday_s(drawn)
    theirs, ours = columns(log.jobs), columns(drawn.jobs)
    found = [Marginal("hour of day", "h", *(one // 3600 % 24 for one in (log_s, drawn_s)))]
    if knows_weekday:
        found.append(Marginal("weekday", "", *(one // DAY_S % 7 for one in (log_s, drawn_s))))
    names = (("size", "nodes"), ("run time", "s"), ("requested time", "s"))
    for (name, unit), log_values, drawn_values in zip(names, theirs, ours, strict=True):
        values = log_values[asked] if name == "requested time" else log_values
        found.append(Marginal(name, unit, values.astype(np.float64), drawn_values.astype(np.float64)))
    found.append(Marginal("accuracy", "run / requested", (theirs[1] / theirs[2])[asked], ours[1] / ours[2]))
    found.append(Marginal("work", "node-hours", *(one[0] * one[1] / 3600 for one in (theirs, ours))))
    gaps = (np.diff(np.sort(one)) for one in (log_s, drawn_s))
    found.append(Marginal("gap", "s", *gaps))
    return tuple(found)


def together(log: Workload, drawn: Workload, asked: Bools) -> dict[str, tuple[float, float]]:
    """Two properties → the correlation of their normal scores, in the log and as drawn."""
    found: dict[str, list[float]] = {}
    for jobs, rows in ((log.jobs, asked), (drawn.jobs, np.ones(len(drawn), np.bool_))):
        size, run_s, request_s = (column[rows].astype(np.float64) for column in columns(jobs))
        accuracy = run_s / request_s
        pairs = {
            "size and request": (size, request_s),
            "size and run": (size, run_s),
            "request and accuracy": (request_s, accuracy),
            "run and accuracy": (run_s, accuracy),
        }
        for name, (one, other) in pairs.items():
            found.setdefault(name, []).append(correlation_of(one, other))
    return {name: (values[0], values[1]) for name, values in found.items()}
