"""Parameters of the comprehensive batch model from a log, and how well what it draws agrees with the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from unrack.errors import InputError
from unrack.kernels.arrays import Bools, Floats, Ints
from unrack.units import SECOND_US
from unrack.workload.account import local_clock
from unrack.workload.generate.batch.curve import correlation_of, curve_of, distance
from unrack.workload.generate.batch.generator import generate_batch
from unrack.workload.generate.batch.model import (
    CANCELLED,
    COMPLETED,
    FAILED,
    BatchModel,
    BatchSpec,
    Ending,
    Sizes,
    links_of,
)
from unrack.workload.generate.distributions import DAY_S, WEEK_S, WeekCycle, gap_shape_of, rates_of
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


def _monday_s(workload: Workload) -> tuple[Floats, bool]:
    """float64[jobs]: submissions in s since a Monday at midnight, local time; whether weekdays are known.

    A log that gives no dates counts from its own zero.
    """
    clock = local_clock(workload.jobs.submit_us, workload.intake.header)
    if clock is None:
        return workload.jobs.submit_us / SECOND_US, False
    since = clock[0].dt.epoch("us").to_numpy() / SECOND_US + _THURSDAY_TO_MONDAY_S
    return since - np.floor(since.min() / WEEK_S) * WEEK_S, True


def marginals(log: Workload, drawn: Workload, asked: Bools) -> tuple[Marginal, ...]:
    """The properties of the jobs of a log and of those drawn; requests and accuracies of jobs that asked for a time."""
    (log_s, knows_weekday), (drawn_s, _) = _monday_s(log), _monday_s(drawn)
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


SIZE_KNOTS, REQUEST_KNOTS, ACCURACY_KNOTS = 20, 68, 36
FEWEST = 20
"""Jobs needed for a fit."""

_MOST_DRAWN = 30_000


@dataclass(frozen=True)
class ModelFit:
    """A model with what it was fitted to."""

    model: BatchModel  # the parameters
    jobs: int  # how many jobs they were fitted to
    # hour of day, weekday (where the log gives dates), size, run time, requested time, accuracy, work (size × run
    # time), gap
    marginals: tuple[Marginal, ...]
    # two properties → the correlation of their normal scores, in the log and as drawn
    together: Mapping[str, tuple[float, float]]


def fit(workload: Workload, nodes: int | None = None, seed: int = 0) -> ModelFit:
    """Fit the comprehensive batch model to a log of 20 jobs or more, of which one ran.

    A job's size is its tasks; in a log of one task a job it is the cores. The system has so many ``nodes``, by default
    MaxNodes or MaxProcs of the header where a size is so many tasks of one core, else the largest job. ``seed``: of the
    jobs drawn for comparison, as many as the log has up to 30 000.

    Examples
    --------
    >>> drawn = generate_batch({"model": "cirne", "nodes": 64, "jobs": 500, "parameters": "kth-sp2"}, seed=3)
    >>> sorted(marginal.name for marginal in fit(drawn).marginals)
    ['accuracy', 'gap', 'hour of day', 'requested time', 'run time', 'size', 'weekday', 'work']
    """
    jobs = workload.jobs
    size, run_s, request_s = columns(jobs)
    if len(jobs) < FEWEST or not (run_s > 0).any():
        raise InputError(workload.name, f"{int((run_s > 0).sum())} jobs that ran, of {len(jobs)}", f"{FEWEST} or more")
    largest = int(size.max())
    nodes = _nodes(workload, largest) if nodes is None else nodes
    if nodes < largest:
        raise InputError("nodes", str(nodes), f"{largest} or more: there is a job of that size")
    accuracy = np.clip(run_s / request_s, 0.0, 1.0)
    status = _status(jobs)
    first, last = jobs.submit_us[[0, -1]] / SECOND_US / DAY_S
    asked = _asked(workload, run_s, request_s)
    model = BatchModel(
        source=f"{workload.intake.source}, {len(workload)} jobs in {last - first:.1f} days",
        arrivals=_arrivals(workload),
        sizes=_sizes(size, nodes),
        request_s=_requests(request_s[asked], run_s),
        never_ran=_share(workload.intake.dropped.get("cancelled before start", 0), len(jobs)),
        links=links_of(size[asked], request_s[asked], accuracy[asked]),
        **_endings(status, accuracy, asked),
    )
    count = min(len(jobs), _MOST_DRAWN)
    drawn = generate_batch(
        BatchSpec(model="cirne", nodes=nodes, jobs=count, parameters=model.model_dump(mode="json")), seed
    )
    return ModelFit(model, len(jobs), marginals(workload, drawn, asked), together(workload, drawn, asked))


def _asked(workload: Workload, run_s: Floats, request_s: Floats) -> Bools:
    """Which jobs asked for a time.

    Where the log lacks some requests, those jobs have been given their run time; they are told from jobs that were
    ended at their limit by a run of no whole minutes. Where hardly any job asked, all count.
    """
    if not workload.intake.missing.get("request") and "request from run" not in workload.intake.changed:
        return np.ones(len(run_s), np.bool_)
    asked = (run_s != request_s) | (request_s % 60 == 0)
    return asked if asked.sum() >= max(FEWEST, 0.05 * len(asked)) else np.ones(len(run_s), np.bool_)


def _nodes(workload: Workload, largest: int) -> int:
    """Of the header, where a job's size counts what the header counts."""
    for key, of_tasks in (("MaxNodes", workload.jobs.cores.max() > 1), ("MaxProcs", workload.jobs.cores.max() == 1)):
        words = workload.intake.header.get(key, "").split()
        if of_tasks and words and words[0].isdecimal() and largest <= int(words[0]) < 10**9:
            return int(words[0])
    return largest


def _share(some: int, others: int) -> float:
    return float(f"{some / (some + others):.4g}") if some else 0.0


def _arrivals(workload: Workload) -> WeekCycle:
    clock_s, knows_weekday = _monday_s(workload)
    hour, weekday = rates_of(clock_s, knows_weekday)
    cycle = WeekCycle(jobs_per_day=1.0, hour=hour, weekday=weekday)
    paced = np.sort(cycle.paced_s(clock_s))
    days = max((paced[-1] - paced[0]) / DAY_S, 1e-6)
    return WeekCycle(
        jobs_per_day=float(f"{(len(paced) - 1) / days:.6g}"), hour=hour, weekday=weekday, gap_shape=gap_shape_of(paced)
    )


def _sizes(size: Ints, nodes: int) -> Sizes:
    parallel = size[size > 1]
    is_power = (parallel & (parallel - 1)) == 0
    power, other = parallel[is_power].astype(np.float64), parallel[~is_power].astype(np.float64)
    plain = (min(2.0, float(nodes)), float(max(nodes, 2)))
    return Sizes(
        nodes=nodes,
        serial_share=_share(len(size) - len(parallel), len(parallel)),
        power_share=_share(len(power), len(other)),
        power=curve_of(power, SIZE_KNOTS) if len(power) else plain,
        other=curve_of(other, SIZE_KNOTS) if len(other) else plain,
    )


def _requests(request_s: Floats, run_s: Floats) -> tuple[float, ...]:
    """Their curve, which ends at the longest run or at 99.5 % of the requests: beyond are the 'forever' of a few."""
    most = max(float(run_s.max()), float(np.quantile(request_s, 0.995, method="inverted_cdf")), 1.0)
    return curve_of(np.minimum(request_s, most), REQUEST_KNOTS)


def _status(jobs: JobTable) -> Ints:
    """How each job ended: as the log says, if it does; completed where it does not."""
    if "status" not in jobs.extra.columns or not jobs.extra["status"].dtype.is_integer():
        return np.full(len(jobs), COMPLETED, np.int64)
    status = jobs.extra["status"].fill_null(COMPLETED).to_numpy()
    return np.where(np.isin(status, (FAILED, CANCELLED)), status, COMPLETED)


def _endings(status: Ints, accuracy: Floats, asked: Bools) -> dict[str, Ending]:
    found = {}
    for name, code in (("completed", COMPLETED), ("failed", FAILED), ("cancelled", CANCELLED)):
        share = round(float((status == code).mean()), 6)
        rows = accuracy[(status == code) & asked]
        between = rows[(rows > 0) & (rows < 1)]
        if share or code == COMPLETED:
            found[name] = Ending(
                share=share,
                no_run=_share(int((rows == 0).sum()), int((rows > 0).sum())),
                at_limit=_share(int((rows == 1).sum()), int((rows < 1).sum())),
                accuracy=curve_of(between, ACCURACY_KNOTS) if len(between) else (1.0, 1.0),
            )
    return found
