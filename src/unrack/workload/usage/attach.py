"""Curves of sources given to jobs, scaled to what the jobs ask for or not."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl

from unrack.errors import InputError, check_choice
from unrack.jit import compiled
from unrack.kernels.arrays import Floats, Ints
from unrack.units import SECOND_US
from unrack.workload.formats.quantities import amounts, memory_unit_mb, numbers
from unrack.workload.formats.source import Locator, Source, load
from unrack.workload.formats.swf import read_swf
from unrack.workload.job import MEMORY, JobTable
from unrack.workload.usage.curves import UsageCurves, UsageSeries, check_usage, ranges, starts

_ENOUGH = 20
Match = Literal["id", "nearest", "random"]
Part = Literal["all", "first half", "second half"]

_MATCH = 0x6D74  # beside the seed, so that these draws are no generator's
Scale = Literal["request", "none", "cut"]

_MOST_POINTS = 200_000_000


def given(jobs: JobTable, curves: UsageCurves, source: Ints) -> UsageCurves:
    """The curves of all jobs, each those of its source (int64[jobs], a row of ``curves``; -1 = none).

    A source of one curve gives it to all tasks. One of several gives a job of as many tasks all of them; a smaller job
    gets some, evenly spaced by their peaks and the highest first; a larger one all of them in turns. Over 200 million
    points are refused.
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

    ``"request"``: the peak of each job becomes what it asks for, which at least one job has to. ``"none"``: MB stay,
    and the job asks for its peak. ``"cut"``: MB and requests stay; use above the request is cut there, and a job that
    asks for nothing asks for its peak. With the latter two no curve, nor a request that follows from one, is above the
    largest node, ``cap_mb``.
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
        job = np.repeat(np.repeat(np.arange(len(usage)), usage.curves), np.diff(usage.point))
        usage = UsageCurves(usage.first, usage.point, usage.at, np.minimum(usage.mb, limit[job]))
        peak = usage.job_peaks(asked)
        kept = (asked > 0) if scale == "cut" else np.zeros(len(jobs), np.bool_)
        made = replace(jobs, usage=usage, asks=asking(jobs, np.where(has & ~kept, peak, asked)))
        words = "MB as measured, " + ("requests kept" if scale == "cut" else "requests set to peaks")
        words += f"; {above} jobs cut at the {'request' if scale == 'cut' else 'largest node'}" if above else ""
    check_usage(usage, made.tasks)
    return made, words


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


def asking(jobs: JobTable, memory_mb: Ints) -> Ints:
    """What jobs ask for, as :attr:`JobTable.asks`, with other MB (int64[jobs])."""
    asks = jobs.asks.copy()
    asks[MEMORY] = memory_mb
    return asks


def part_of(series: UsageSeries, part: Part) -> UsageSeries:
    """All jobs of a source, or one of its halves in the order of the file: the first has the odd one.

    A policy that learned from one half can be tested on the other.
    """
    half = (len(series) + 1) // 2
    rows = np.arange(len(series))
    return series if part == "all" else series.take(rows[:half] if part == "first half" else rows[half:])


def matched(jobs: JobTable, series: UsageSeries, how: Match, seed: int = 0) -> tuple[Ints, str]:
    """``int64[jobs]``: the row of each job's source, -1 = none; and how it was found, in words.

    ``"id"``: the source of the same id. ``"nearest"``: by size (where the source names nodes), run time (where it is
    known) and memory (where the source gives MB and jobs ask for any). ``"random"``: any, all alike, by the seed. The
    latter two leave out sources that never use anything. Where none of that can be, it is refused.
    """
    if how == "id":
        return _by_id(jobs, series), "by id"
    usable = np.flatnonzero(series.job_peaks() > 0)
    if not len(usable):
        raise InputError(series.source, "no job that uses memory", "some that do")
    if how == "random":
        rng = np.random.default_rng([_MATCH, seed])
        return usable[rng.integers(0, len(usable), len(jobs))], f"at random, seed {seed}"
    features = _features(jobs, series.take(usable))
    if not features:
        raise InputError(
            f"usage, match = 'nearest' with {series.source}", "neither sizes nor run times nor MB that jobs ask for",
            "one of these, or match = 'random'"
        )  # fmt: skip
    found = nearest([mine for mine, _ in features.values()], [theirs for _, theirs in features.values()])
    return usable[found], f"nearest by {', '.join(features)}"


def _by_id(jobs: JobTable, series: UsageSeries) -> Ints:
    sources = pl.DataFrame({"id": series.ids.cast(pl.String), "row": np.arange(len(series))})
    wanted = pl.DataFrame({"id": jobs.ids.cast(pl.String)})
    rows: Ints = wanted.join(sources, on="id", how="left", maintain_order="left")["row"].fill_null(-1).to_numpy()
    if len(jobs) and (rows < 0).all():
        raise InputError(
            f"usage, match = 'id' with {series.source}", f"ids such as {series.ids[0]!r}",
            f"ids of the trace's jobs, such as {jobs.ids[0]!r}"
        )  # fmt: skip
    return rows.astype(np.int64)


def _features(jobs: JobTable, series: UsageSeries) -> dict[str, tuple[Floats, Floats]]:
    """Name → logarithms for jobs and for sources, of what is known of both."""
    found: dict[str, tuple[Floats, Floats]] = {}
    if series.sized:
        found["size"] = np.log(jobs.tasks.astype(np.float64)), np.log(series.series.astype(np.float64))
    if not np.isnan(series.run_s).any():
        found["run time"] = np.log(np.maximum(jobs.work_us / SECOND_US, 1.0)), np.log(np.maximum(series.run_s, 1.0))
    if not series.shares and (jobs.memory_mb > 0).any():
        mine = np.maximum(jobs.memory_mb.astype(np.float64), 1.0)
        found["memory"] = np.log(mine), np.log(np.maximum(series.job_peaks(), 1.0))
    return found


def used_column(jobs: JobTable, column: str, memory_unit: str = "MB") -> UsageCurves:
    """Constant curves from a column that the trace carries: what a task of each job used, rounded up to MB.

    Where the column is empty or negative the job gets no curve; one that is not there, or not of numbers, is refused.
    """
    if column not in jobs.extra.columns:
        known = ", ".join(jobs.extra.columns) or "none is carried"
        raise InputError("usage, column", repr(column), f"a column that the trace carries: {known}")
    at = Locator(Source(f"column {column}", b""), lambda row: None)
    used = numbers(jobs.extra[column], column, at, nan_is_missing=True)
    mb = amounts(used, column, at, memory_unit_mb(memory_unit)).fill_null(-1).to_numpy().astype(np.int64)
    return constant(jobs, mb, mb >= 0)


def is_swf(path: str | os.PathLike[str]) -> bool:
    """Whether a file is called a log in Standard Workload Format."""
    return re.search(r"\.swf(\.gz)?$", os.fspath(path), re.IGNORECASE) is not None


def used_of_swf(path: str | os.PathLike[str], **options: Any) -> UsageSeries:
    """The used memory (column 7) of the jobs of a log in Standard Workload Format, one sample each.

    The options are some of :func:`unrack.workload.formats.swf.read_swf`, as for the trace that is to get the usage. A
    log without used memory is refused; also one that has the same for all of 20 jobs or more, since that stands for
    something that was not measured.
    """
    known = ("memory_unit", "memory_per", "procs_per_task", "node_spec", "overrun")
    for name in options:
        check_choice("usage, options", name, known)
    source = load(path)
    log = read_swf(source, memory="used", **options)
    mb: Ints = log.jobs.memory_mb
    used = np.flatnonzero(mb > 0)
    if not len(used):
        raise source.fault(None, "used memory", "none in any job", "numbers in column 7")
    if len(used) >= _ENOUGH and len(np.unique((mb // np.maximum(log.jobs.cores, 1))[used])) == 1:
        want = "what was measured (this stands for nothing known)"
        raise source.fault(None, "used memory", f"the same in all {len(used)} jobs", want)
    jobs = log.jobs.take(used)
    ones = np.arange(len(used) + 1)
    return UsageSeries(
        source.path, jobs.ids, ones, ones, np.zeros(len(used)), jobs.memory_mb.astype(np.float64),
        jobs.work_us / 1e6, read=len(log), dropped={"memory missing": len(log) - len(used)},
    )  # fmt: skip


_ALIKE = 1e-9


def nearest(jobs: list[Floats], sources: list[Floats]) -> Ints:
    """``int64[jobs]``: the nearest source of each; equally near ones of one place are taken in turns.

    A column for each property, float64[jobs] and float64[sources], is divided by its standard deviation among the
    sources.

    Examples
    --------
    >>> nearest([np.array([0.0, 0.1, 9.0, 0.2])], [np.array([0.0, 5.0, 0.0])]).tolist()
    [0, 2, 1, 0]
    """
    spread = [by if (by := float(column.std())) > _ALIKE else 1.0 for column in sources]
    mine, theirs = (
        np.stack([column / by for column, by in zip(columns, spread, strict=True)], axis=1)
        for columns in (jobs, sources)
    )
    telling = np.argsort([-len(np.unique(column)) for column in theirs.T], kind="stable")
    places, of_source = np.unique(theirs[:, telling], axis=0, return_inverse=True)
    order = np.argsort(of_source.ravel(), kind="stable")
    count = np.bincount(of_source.ravel(), minlength=len(places))
    begin = np.cumsum(count) - count
    place = _nearest_place(mine[:, telling], places)
    found: Ints = order[begin[place] + _turn(place) % count[place]]
    return found


@compiled
def _nearest_place(mine: Floats, places: Floats) -> Ints:
    """``int64[jobs]``: the nearest row of places, which ascend by their first column; of equally near ones the first.

    From where a job would stand, both ways, until the first column alone is further away than the best: O(places) a job
    at worst, and a small part of them where that column tells places apart.
    """
    found = np.empty(len(mine), np.int64)
    for i in range(len(mine)):
        right = np.searchsorted(places[:, 0], mine[i, 0])
        left, best = right - 1, np.inf
        while left >= 0 or right < len(places):
            if left >= 0 and (right == len(places) or mine[i, 0] - places[left, 0] <= places[right, 0] - mine[i, 0]):
                at, left = left, left - 1
            else:
                at, right = right, right + 1
            away = (mine[i, 0] - places[at, 0]) ** 2
            if away > best:
                break
            for k in range(1, places.shape[1]):
                away += (mine[i, k] - places[at, k]) ** 2
            if away < best or (away == best and at < found[i]):
                best, found[i] = away, at
    return found


def _turn(place: Ints) -> Ints:
    """``int64[n]``: how many entries before each have the same value."""
    order = np.argsort(place, kind="stable")
    among = place[order]
    begins = np.flatnonzero(np.diff(among, prepend=among[:1] - 1))
    turn = np.empty(len(place), np.int64)
    turn[order] = np.arange(len(place)) - np.repeat(begins, np.diff(np.append(begins, len(place))))
    return turn
