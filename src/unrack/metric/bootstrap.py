"""Intervals of a single log: a block bootstrap over time, the same blocks for every policy.

The time between the first and the last submission is closed to a circle. A draw covers it with blocks that begin
anywhere (the circular block bootstrap of Politis and Romano, 1992), the last one cut so that a draw is as long as the
log; the jobs submitted in a block come with the waits that the simulation of the whole log gave them. Every policy is
measured on the same draws, so that differences are paired. See ``docs/decisions/0038-intervals-of-one-log.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.errors import InputError
from unrack.kernels.arrays import Floats, Ints
from unrack.metric.estimate import LEVEL, Estimate, student_t
from unrack.metric.table import OF_JOBS
from unrack.units import DAY_US, SECOND_US, seconds_text, time_us

DRAWS, SEED = 1000, 1
FEWEST = 5
"""Blocks with jobs, below which no interval is told."""
BY_RULE = 0.0
"""In place of the length of a block."""
COLUMNS = ("job", "submit_s", "state", *OF_JOBS, "deadline_s", "missed", "priority")
"""Of the frame of jobs, what is needed of it."""
_RANKS = {"median": 0.5, "p95": 0.95}
_NEAR = 0.05
"""Of the jobs, the share on each side of the log's quantile among which a draw's is looked for first."""


@dataclass(frozen=True)
class Blocks:
    """How time is cut: the length of a block, how many cover the log, and how often they are drawn."""

    length_us: int
    span_us: int
    count: int
    draws: int = DRAWS
    seed: int = SEED

    @property
    def words(self) -> str:
        """What an interval is called wherever one is shown."""
        length = seconds_text(self.length_us / SECOND_US)
        level = f"{100 * LEVEL:g} %"
        return f"{level} block bootstrap over time, blocks of {length}, {self.draws} draws, seed {self.seed}"


class Resampled(NamedTuple):
    """What a policy gives in every draw: metric → float64[draws]."""

    blocks: Blocks
    values: Mapping[str, Floats]

    def estimate(self, metric: str, value: float, level: float = LEVEL) -> Estimate:
        """The value of the log with its interval; without one where the metric is none of jobs."""
        drawn = self.values.get(metric)
        return Estimate(value, 0.0, 1) if drawn is None else spread(value, drawn, self.blocks.count, level)

    def difference(self, other: Resampled, metric: str, gap: float, level: float = LEVEL) -> Estimate:
        """The difference to another policy, draw by draw; without an interval where the metric is none of jobs."""
        more, less = self.values.get(metric), other.values.get(metric)
        if more is None or less is None:
            return Estimate(gap, 0.0, 1)
        return spread(gap, more - less, self.blocks.count, level)


def spread(value: float, drawn: Floats, count: int, level: float = LEVEL) -> Estimate:
    """A value with the symmetric interval that its draws give (Hall, 1988), widened as there are few blocks.

    Half its width is how far draws are from the value, at most, in a share ``level`` of them, times what Student's t
    has over the normal distribution and √(k / (k - 1)) for k blocks (Hesterberg's expanded interval, 2015).

    Examples
    --------
    >>> found = spread(2.0, np.array([1.0, 2.0, 3.0, 2.0]), 50)
    >>> found.mean, round(found.half, 2), found.count
    (2.0, 1.04, 50)
    """
    wider = student_t(count - 1, level) / NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(count / (count - 1))
    return Estimate(value, float(np.quantile(np.abs(drawn - value), level)) * wider, count)


def read_length(text: str) -> float:
    """What ``--bootstrap`` was given: ``auto``, or how long a block is; in s. Anything else is an InputError.

    Examples
    --------
    >>> read_length("auto") == BY_RULE, read_length("7 d")
    (True, 604800.0)
    """
    if text.strip().lower() == "auto":
        return BY_RULE
    want = "auto, or the length of a block of time such as '7 d' or '12 h'"
    try:
        length_us = time_us(text)
    except ValueError:
        raise InputError("--bootstrap", repr(text), want) from None
    if length_us <= 0:
        raise InputError("--bootstrap", repr(text), want)
    return length_us / SECOND_US


def blocks_of(times_us: Ints, length_s: float = BY_RULE) -> Blocks:
    """How the time of a log is cut; an InputError if fewer than ``FEWEST`` blocks are, or have a job in them.

    ``times_us``: int64[jobs], when they were submitted, ascending. ``length_s``: of a block; ``BY_RULE``: of a log of n
    days n^(1/3) days (the order of Hall, Horowitz and Jing, 1995), rounded to whole days, so that a block has nights as
    the log has; one at least, and no more than ``FEWEST`` allows.
    """
    want = f"jobs submitted in {FEWEST} blocks of time at least"
    if len(times_us) < 2 or times_us[-1] == times_us[0]:
        raise InputError("--bootstrap", "a log without two jobs submitted at different times", want)
    span = int(times_us[-1] - times_us[0]) + 1
    days = max(1, min(round((span / DAY_US) ** (1 / 3)), span // (FEWEST * DAY_US)))
    length = days * DAY_US if length_s == BY_RULE else round(length_s * SECOND_US)
    cut, whole = seconds_text(length / SECOND_US), seconds_text(span / SECOND_US)
    if span < FEWEST * length:
        got = f"blocks of {cut} in a log of {whole}: {span / length:.3g} of them"
        raise InputError("--bootstrap", got, f"{want}: give shorter ones, or a longer log")
    filled = len(np.unique((times_us - times_us[0]) // length))
    if filled < FEWEST:
        raise InputError("--bootstrap", f"blocks of {cut} in a log of {whole}: jobs in {filled} of them", want)
    return Blocks(length, span, -(-span // length))


def pieces(blocks: Blocks, times_us: Ints) -> tuple[Ints, Ints]:
    """Where the blocks of every draw begin and end among the jobs, written twice in a row as time is a circle.

    ``times_us``: int64[jobs], ascending. Returns int64[draws, count], twice.
    """
    shape = (blocks.draws, blocks.count)
    begins = np.random.Generator(np.random.PCG64(blocks.seed)).integers(0, blocks.span_us, shape)
    lengths = np.full(blocks.count, blocks.length_us)
    lengths[-1] = blocks.span_us - (blocks.count - 1) * blocks.length_us
    times = times_us - times_us[0]
    twice = np.concatenate([times, times + blocks.span_us])
    return np.searchsorted(twice, begins), np.searchsorted(twice, begins + lengths)


def resampled(jobs: Mapping[str, pl.DataFrame], length_s: float = BY_RULE) -> dict[str, Resampled]:
    """Policy → what it gives in every draw, given the jobs that its metrics are over, with ``COLUMNS``.

    Means, medians and 95th percentiles over jobs, and the shares of missed deadlines; what is no average over jobs,
    such as a maximum, the makespan or utilisation, is left out. So is a metric that some draw has no job for. The
    blocks, of :func:`blocks_of`, are the same for all; an InputError if there are too few, or the policies had
    different jobs.
    """
    ordered = {policy: frame.sort("submit_s", "job") for policy, frame in jobs.items()}
    first = next(iter(ordered.values()))
    if any(not frame.select("job", "submit_s").equals(first.select("job", "submit_s")) for frame in ordered.values()):
        raise InputError("--bootstrap", "policies with different jobs", "the same jobs under every policy")
    times = np.rint(first["submit_s"].to_numpy() * SECOND_US).astype(np.int64)
    blocks = blocks_of(times, length_s)
    begin, end = pieces(blocks, times)
    found = {policy: _shares(frame, begin, end) for policy, frame in ordered.items()}
    windows = {}
    for policy, frame in ordered.items():
        finished = (frame["state"] == "finished").to_numpy()
        for name in OF_JOBS:
            values = frame[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
            values = np.where(finished, values, np.nan)
            found[policy][f"{name}_mean"] = _means(values, begin, end)
            for statistic, share in _RANKS.items():
                windows[policy, f"{name}_{statistic}"] = _window(values, share, begin, end)
                found[policy][f"{name}_{statistic}"] = np.full(blocks.draws, np.nan)
    for draw in range(blocks.draws):
        often = _times_drawn(begin[draw], end[draw], len(times))
        for (policy, metric), window in windows.items():
            found[policy][metric][draw] = window.at(draw, often)
    return {
        policy: Resampled(blocks, {name: values for name, values in own.items() if np.isfinite(values).all()})
        for policy, own in found.items()
    }


def _shares(jobs: pl.DataFrame, begin: Ints, end: Ints) -> dict[str, Floats]:
    """The shares of missed deadlines in every draw."""
    found: dict[str, Floats] = {}
    if "deadline_s" in jobs.columns and bool(jobs["deadline_s"].is_not_null().any()):
        missed = jobs["missed"].fill_null(value=False).to_numpy()
        found["missed_deadlines"] = _means(missed.astype(np.float64), begin, end)
        high = missed & (jobs["priority"] > 0).fill_null(value=False).to_numpy()
        found["missed_deadlines_high"] = _means(high.astype(np.float64), begin, end)
    return found


def _means(values: Floats, begin: Ints, end: Ints) -> Floats:
    """The mean of the values that are there, in every draw; NaN without any."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(_sums(np.where(there, values, 0.0), begin, end) / _sums(there, begin, end))


def _sums(values: NDArray[Any], begin: Ints, end: Ints) -> NDArray[Any]:
    """The sum over the jobs of every draw."""
    up_to = np.cumsum(np.concatenate([[0], values, values]))
    return np.asarray((up_to[end] - up_to[begin]).sum(axis=1))


class _Window(NamedTuple):
    """Where a quantile of a column is looked for: almost every draw has it near where the log has it."""

    share: float
    ascending: Floats
    places: Ints
    low: int
    high: int
    below: Ints  # of every draw, how many of its jobs are below the window
    drawn: Ints  # of every draw, how many jobs it has

    def at(self, draw: int, times: NDArray[np.int32]) -> float:
        """The quantile in a draw that has each job so many times; NaN in one without jobs."""
        rank = self.share * (int(self.drawn[draw]) - 1)
        if rank < 0:
            return math.nan
        first, last = math.floor(rank), math.ceil(rank)
        low, up_to = self.low, self.below[draw] + np.cumsum(times[self.places[self.low : self.high]])
        if self.below[draw] > first or not len(up_to) or up_to[-1] <= last:
            low, up_to = 0, np.cumsum(times[self.places])
        before, after = self.ascending[low + np.searchsorted(up_to, [first, last], side="right")]
        return float(before + (after - before) * (rank - first))


def _window(values: Floats, share: float, begin: Ints, end: Ints) -> _Window:
    there = ~np.isnan(values)
    places = np.argsort(values, kind="stable")[: int(there.sum())]
    low, high = (round(len(places) * min(max(share + way, 0), 1)) for way in (-_NEAR, _NEAR))
    is_below = np.zeros(len(values), bool)
    is_below[places[:low]] = True
    below, drawn = _sums(is_below, begin, end), _sums(there, begin, end)
    return _Window(share, values[places], places, low, high, below, drawn)


def _times_drawn(begin: Ints, end: Ints, jobs: int) -> NDArray[np.int32]:
    """How often a draw has each job."""
    change = np.bincount(begin, minlength=2 * jobs + 1) - np.bincount(end, minlength=2 * jobs + 1)
    times = np.cumsum(change[:-1], dtype=np.int32)
    return np.asarray(times[:jobs] + times[jobs:], dtype=np.int32)
