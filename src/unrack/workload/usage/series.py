"""Measured memory of jobs over their progress, in columns, as files give it and before it is thinned.

References
----------
Vieira Zacarias 2023, section 5.2.2: each of n equal records stands for 1/n of the job's progress, and holds until the
next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from unrack.kernels.arrays import Floats, Ints
from unrack.sealed import Sealed
from unrack.workload.usage.curves import WHOLE, UsageCurves, ranges, starts


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

    def means(self) -> Floats:
        """float64[series]: the average of each series over the progress."""
        if not len(self.amount):
            return np.zeros(0)
        return np.add.reduceat(self.amount * self.spans(), self.point[:-1])

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
