"""Curves of sources given to jobs, scaled to what the jobs ask for or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from unrack.errors import InputError
from unrack.workload.job import MEMORY, JobTable, check_usage
from unrack.workload.usage.curves import Ints, UsageCurves, ranges, starts

Scale = Literal["request", "none", "cut"]

_MOST_POINTS = 200_000_000


def given(jobs: JobTable, curves: UsageCurves, source: Ints) -> UsageCurves:
    """The curves of all jobs, each those of its source: one for all tasks, or one a task.

    Parameters
    ----------
    jobs
        Who gets them.
    curves
        Of the sources.
    source : int64[jobs]
        The row of each job's source; -1 = none. A source of several curves gives a job of as many tasks all of them; a
        smaller job gets some, evenly spaced by their peaks and the highest first; a larger one all of them in turns.

    Raises
    ------
    InputError
        That would be over 200 million points.
    """
    has = source >= 0
    row = np.where(has, source, 0)
    theirs = np.where(has, curves.curves[row], 0) if len(curves) else np.zeros(len(jobs), np.int64)
    count = np.where(theirs > 1, jobs.tasks, theirs)
    job = np.repeat(np.arange(len(jobs)), count)
    task = np.arange(len(job)) - np.repeat(np.cumsum(count) - count, count)
    of_source, tasks = theirs[job], count[job]
    spaced = np.rint(task * (of_source - 1) / np.maximum(tasks - 1, 1)).astype(np.int64)
    rank = np.where(tasks <= of_source, spaced, task % np.maximum(of_source, 1))
    by_peak = np.lexsort((-curves.peaks(), np.repeat(np.arange(len(curves)), curves.curves)))
    one_each = of_source == 1
    chosen = np.where(one_each, curves.first[row[job]], by_peak[curves.first[row[job]] + rank])
    size = np.diff(curves.point)[chosen]
    if int(size.sum()) > _MOST_POINTS:
        raise InputError("usage", f"{int(size.sum())} points over all tasks", f"up to {_MOST_POINTS}: thin more")
    points = ranges(curves.point, chosen)
    return UsageCurves(starts(count), starts(size), curves.at[points], curves.mb[points])


def fitted(jobs: JobTable, usage: UsageCurves, scale: Scale, cap_mb: int | None = None) -> tuple[JobTable, str]:
    """The jobs with their curves brought in line with what they ask for, and what was done in words.

    Parameters
    ----------
    jobs
        What has curves.
    usage
        The curves of all of them.
    scale
        ``"request"``: the peak of each job becomes what it asks for. ``"none"``: MB stay, and the job asks for its
        peak. ``"cut"``: MB and requests stay; use above the request is cut there, and a job that asks for nothing asks
        for its peak.
    cap_mb
        The largest node: neither curves nor requests that follow from them are above it.

    Raises
    ------
    InputError
        The peaks are to be what jobs ask for, and no job asks for memory.
    """
    has = usage.curves > 0
    asked = jobs.memory_mb
    if scale == "request":
        if has.any() and not (asked[has] > 0).any():
            want = "jobs that ask for memory, or scale = 'none'"
            raise InputError("usage, scale = 'request'", "jobs that ask for no memory", want)
        made = replace(jobs, usage=usage.scaled(asked))
        words = "peaks scaled to what jobs ask for"
    else:
        limit = np.full(len(jobs), 2**62, np.int64) if cap_mb is None else np.full(len(jobs), cap_mb, np.int64)
        if scale == "cut":
            limit = np.where(asked > 0, np.minimum(limit, asked), limit)
        above = int((has & (usage.job_peaks(asked) > limit)).sum())
        usage = capped(usage, limit)
        peak = usage.job_peaks(asked)
        kept = (asked > 0) if scale == "cut" else np.zeros(len(jobs), np.bool_)
        made = replace(jobs, usage=usage, asks=_asking(jobs, np.where(has & ~kept, peak, asked)))
        words = "MB as measured, " + ("requests kept" if scale == "cut" else "requests set to peaks")
        words += f"; {above} jobs cut at the {'request' if scale == 'cut' else 'largest node'}" if above else ""
    check_usage(usage, made.tasks)
    return made, words


def capped(usage: UsageCurves, limit_mb: Ints) -> UsageCurves:
    """The curves cut at a limit for each job (int64[jobs], MB)."""
    job = np.repeat(np.repeat(np.arange(len(usage)), usage.curves), np.diff(usage.point))
    return UsageCurves(usage.first, usage.point, usage.at, np.minimum(usage.mb, limit_mb[job]))


def constant(jobs: JobTable, mb: Ints, has: np.ndarray) -> UsageCurves:
    """One curve of one point for each job of ``has``: always ``mb`` (int64[jobs])."""
    rows = np.flatnonzero(has)
    return UsageCurves(starts(has.astype(np.int64)), np.arange(len(rows) + 1), np.zeros(len(rows), np.int64), mb[rows])


def with_constants(jobs: JobTable, mb: Ints, has: np.ndarray) -> UsageCurves:
    """The curves of the jobs; those of ``has`` that had none get a constant one."""
    flat = constant(jobs, mb, np.asarray(has, np.bool_))
    old = jobs.usage
    if old is None:
        return flat
    both = UsageCurves(
        np.concatenate([old.first, old.first[-1] + flat.first[1:]]),
        np.concatenate([old.point, old.point[-1] + flat.point[1:]]),
        np.concatenate([old.at, flat.at]),
        np.concatenate([old.mb, flat.mb]),
    )
    return both.take(np.arange(len(jobs)) + np.where(old.curves > 0, 0, len(jobs)))


def _asking(jobs: JobTable, memory_mb: Ints) -> Ints:
    asks = jobs.asks.copy()
    asks[MEMORY] = memory_mb
    return asks
