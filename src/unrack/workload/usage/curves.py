"""Memory that tasks use over the progress of their jobs, in columns: as curves, and as series that files give.

Progress, not time: a job that is slowed down uses its memory later. It counts in parts per billion of the job's work.

References
----------
Vieira Zacarias 2023, sections 5.2.2 and 8.2: the largest usage of each period, by the job's progress at its start;
each of n equal records stands for 1/n of the job's progress, and holds until the next one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.sealed import Sealed

WHOLE = 10**9
"""The progress of a job that has done all its work."""

SHARE_UNIT = 1_000_000
"""The integer amount that stands for the whole of a limit, or of a peak, where MB are not known."""


@dataclass(frozen=True, eq=False)
class UsageCurves(Sealed):
    """What the tasks of every job use, as step functions of the job's progress.

    Attributes
    ----------
    first : int64[jobs + 1]
        The curves of job i are ``first[i]`` to ``first[i + 1] - 1``: none (its tasks use what they ask), one (all its
        tasks alike), or one a task.
    point : int64[curves + 1]
        The points of curve c are ``point[c]`` to ``point[c + 1] - 1``: one or more.
    at : int64[points]
        The progress at which each step begins, 0 to ``WHOLE`` - 1: of every curve the first is 0, and they ascend.
    mb : int64[points]
        What a task uses from there to the next step: the largest of that stretch, 0 MB or more.
    """

    first: Ints
    point: Ints
    at: Ints
    mb: Ints

    def __len__(self) -> int:
        return len(self.first) - 1

    @property
    def curves(self) -> Ints:
        """int64[jobs]: how many curves each job has."""
        return np.diff(self.first)

    def peaks(self) -> Ints:
        """int64[curves]: the most that each curve reaches."""
        return np.maximum.reduceat(self.mb, self.point[:-1]) if len(self.mb) else np.zeros(0, np.int64)

    def job_peaks(self, asked_mb: Ints) -> Ints:
        """int64[jobs]: the most that any task of a job uses; of jobs without curves what they ask (``asked_mb``)."""
        found = asked_mb.copy()
        own = np.flatnonzero(self.curves)
        if len(own):
            found[own] = np.maximum.reduceat(self.peaks(), self.first[own])
        return found

    def points_of(self, curve: int) -> tuple[Ints, Ints]:
        """Progress and MB of the points of a curve."""
        here = slice(int(self.point[curve]), int(self.point[curve + 1]))
        return self.at[here], self.mb[here]

    def take(self, index: Ints) -> UsageCurves:
        """The curves of some jobs, in the order given."""
        curves = ranges(self.first, index)
        points = ranges(self.point, curves)
        return UsageCurves(
            starts(self.curves[index]), starts(np.diff(self.point)[curves]), self.at[points], self.mb[points]
        )

    def scaled(self, to_mb: Ints) -> UsageCurves:
        """The same shapes, with the peak of each job at ``to_mb`` (int64[jobs]); jobs that use nothing stay so."""
        peak = self.job_peaks(np.zeros(len(self), np.int64))
        of_point = np.repeat(np.repeat(np.arange(len(self)), self.curves), np.diff(self.point))
        whole, part = np.divmod(self.mb * to_mb[of_point], np.maximum(peak, 1)[of_point])
        return UsageCurves(self.first, self.point, self.at, whole + (part > 0))

    def add_to(self, total: hashlib._Hash) -> None:
        """Feed everything into a hash."""
        for column in (self.first, self.point, self.at, self.mb):
            total.update(np.ascontiguousarray(column).astype("<i8").tobytes())


def starts(counts: Ints) -> Ints:
    """int64[n + 1]: where each of n stretches begins, and where the last one ends."""
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return first


def ranges(first: Ints, index: Ints) -> Ints:
    """int64[k]: the members of some stretches of ``first`` (int64[n + 1]), one stretch after the other."""
    count = np.diff(first)[index]
    members: Ints = np.arange(count.sum()) + np.repeat(first[:-1][index] - np.cumsum(count) + count, count)
    return members


def check_curves(curves: UsageCurves) -> None:
    """Refuse columns that are no step functions of progress: an InputError names the job (from 0) and the fault."""
    of_curve = np.repeat(np.arange(len(curves)), curves.curves)

    def refuse(curve: int, got: str, want: str) -> None:
        raise InputError(f"usage of job {of_curve[curve]}", got, want)

    size = np.diff(curves.point)
    if len(short := np.flatnonzero(size < 1)):
        refuse(int(short[0]), "a curve without points", "one or more")
    begins = curves.at[curves.point[:-1]]
    if len(late := np.flatnonzero(begins != 0)):
        refuse(int(late[0]), f"a curve that begins at {begins[late[0]] / WHOLE:g}", "a first point at progress 0")
    owner = np.repeat(np.arange(len(size)), size)
    falls = (np.diff(curves.at) <= 0) & (np.diff(owner) == 0)
    if len(back := np.flatnonzero(falls | (curves.at[1:] >= WHOLE))):
        refuse(
            int(owner[back[0] + 1]), f"a point at {curves.at[back[0] + 1] / WHOLE:g}", "progress that rises, below 1"
        )
    if len(low := np.flatnonzero(curves.mb < 0)):
        refuse(int(owner[low[0]]), f"{curves.mb[low[0]]} MB", "0 MB or more")


def curves_frame(curves: UsageCurves) -> pl.DataFrame:
    """Every point as a row: job (its number), curve (of the job), at (parts per billion of its work), mb."""
    size = np.diff(curves.point)
    job = np.repeat(np.arange(len(curves)), curves.curves)
    number = np.arange(len(job)) - curves.first[:-1][job]
    return pl.DataFrame(
        {"job": np.repeat(job, size), "curve": np.repeat(number, size), "at": curves.at.copy(), "mb": curves.mb.copy()}
    )


def tidy_table(curves: UsageCurves, ids: pl.Series, run_s: Floats, shares: bool = False) -> pl.DataFrame:
    """The steps of all jobs, of which each has some, as rows that :func:`unrack.workload.usage.read.read_usage` reads.

    Columns ``job``, ``node`` (where a job has several curves), ``progress``, ``mb`` (of ``shares``, amounts in
    millionths of a limit, ``memory_share``) and ``run_s`` (empty where it is NaN; left out where all are).
    """
    rows = curves_frame(curves)
    job = rows["job"]
    columns = [ids.gather(job).alias("job")]
    if len(curves.point) - 1 > len(curves):
        columns.append(rows["curve"].alias("node"))
    columns.append(pl.Series("progress", curves.at / WHOLE))
    columns.append(pl.Series("memory_share", curves.mb / SHARE_UNIT) if shares else rows["mb"])
    if not np.isnan(run_s).all():
        columns.append(pl.Series("run_s", run_s[job.to_numpy()]).fill_nan(None))
    return pl.DataFrame(columns)


def curves_again(frame: pl.DataFrame, jobs: int) -> UsageCurves:
    """The curves that :func:`curves_frame` has made a table of."""
    job, curve, at, mb = (frame[name].to_numpy() for name in ("job", "curve", "at", "mb"))
    begins = np.flatnonzero((np.diff(job, prepend=-1) != 0) | (np.diff(curve, prepend=-1) != 0))
    per_job = np.bincount(job[begins], minlength=jobs).astype(np.int64)
    return UsageCurves(starts(per_job), np.append(begins, len(job)).astype(np.int64), at, mb)


def check_usage(usage: UsageCurves, tasks: Ints) -> None:
    """Refuse curves that are not one, or one a task, of each job that has any; and what is no curve."""
    if len(usage) != len(tasks):
        raise InputError("usage", f"curves of {len(usage)} jobs", f"of all {len(tasks)} jobs")
    wrong = np.flatnonzero((usage.curves > 1) & (usage.curves != tasks))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            f"usage of job {row}", f"{usage.curves[row]} curves", f"none, one, or one a task ({tasks[row]})"
        )
    check_curves(usage)


@dataclass(frozen=True, eq=False)
class UsageSeries(Sealed):
    """Samples of memory for each node of each job; a sample holds until the next one."""

    source: str  # the file they are from, for messages
    ids: pl.Series  # pl.Series, Int64 or String: the source's own name of each job
    # int64[jobs + 1]: the series of job i, one for each of its nodes, are ``first[i]`` to ``first[i + 1] - 1``
    first: Ints
    point: Ints  # int64[series + 1]: the samples of series s are ``point[s]`` to ``point[s + 1] - 1``: one or more
    at: Floats  # float64[samples]: progress of each sample, from 0 and below 1: 0 for the first of a series, and rising
    amount: Floats  # float64[samples]: MB, or where ``shares`` shares of a limit: 0 or more
    run_s: Floats  # float64[jobs]: how long each job ran; NaN = not known
    shares: bool = False  # whether amounts are shares of a limit that is not known
    sized: bool = False  # whether the source names the nodes of jobs, so that a job's series are as many as its nodes
    read: int = 0  # rows of the source
    interval_s: float = float("nan")  # the usual time between samples; NaN = not known
    # dropped, changed: rule → rows that were dropped or changed by it
    dropped: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def series(self) -> Ints:
        """int64[jobs]: how many series each job has."""
        return np.diff(self.first)

    def spans(self) -> Floats:
        """float64[samples]: the part of the job's progress for which each sample holds."""
        until = np.append(self.at[1:], 1.0)
        until[self.point[1:] - 1] = 1.0
        return until - self.at

    def peaks(self) -> Floats:
        """float64[series]: the most of each series."""
        return np.maximum.reduceat(self.amount, self.point[:-1]) if len(self.amount) else np.zeros(0)

    def job_peaks(self) -> Floats:
        """float64[jobs]: the most that any node of a job uses."""
        return np.maximum.reduceat(self.peaks(), self.first[:-1]) if len(self) else np.zeros(0)

    def job_of_series(self) -> Ints:
        """int64[series]: the job of each series."""
        return np.repeat(np.arange(len(self)), self.series)

    def over_peak(self) -> UsageSeries:
        """The same with amounts as shares of the job's peak; a job that uses nothing stays so."""
        peak = np.maximum(self.job_peaks(), 1e-300)
        samples = np.repeat(self.job_of_series(), np.diff(self.point))
        return replace(self, amount=self.amount / peak[samples], shares=True)

    def take(self, jobs: Ints) -> UsageSeries:
        """The series of some of the jobs, in the order given; what was dropped and changed stays that of the whole."""
        series = ranges(self.first, jobs)
        samples = ranges(self.point, series)
        return UsageSeries(
            self.source, self.ids.gather(jobs), starts(self.series[jobs]), starts(np.diff(self.point)[series]),
            self.at[samples], self.amount[samples], self.run_s[jobs], self.shares, self.sized,
            self.read, self.interval_s, self.dropped, self.changed,
        )  # fmt: skip


def series_of(
    curves: UsageCurves, run_s: Floats | None = None, ids: pl.Series | None = None, source: str = "curves"
) -> UsageSeries:
    """Curves of which every job has some, as series: each step is a sample.

    Parameters
    ----------
    curves
        Of jobs with one curve or more each.
    run_s : float64[jobs]
        How long each job runs; default: not known.
    ids
        Default: 1, 2, 3 …
    source
        For messages.
    """
    return UsageSeries(
        source,
        pl.Series("job", np.arange(1, len(curves) + 1)) if ids is None else ids,
        curves.first,
        curves.point,
        curves.at / WHOLE,
        curves.mb.astype(np.float64),
        np.full(len(curves), np.nan) if run_s is None else run_s,
        sized=bool((curves.curves > 1).any()),
        read=len(curves.mb),
    )
