"""Which measured series a job is given: that of its own id, the nearest, or one at random.

References
----------
Vieira Zacarias 2023, section 5.2.2, step 6: each job is given the usage of the source's job at the smallest Euclidean
distance in size, run time and memory. The thesis is silent on scales. Here the distance is one of logarithms, each
divided by the standard deviation that it has among the sources; and where sources are equally far, jobs take them in
turns, since otherwise a hundred jobs of one size and run time would all be alike.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl

from unrack.errors import InputError
from unrack.units import SECOND_US
from unrack.workload.generate.distributions import Floats
from unrack.workload.job import JobTable
from unrack.workload.usage.curves import Ints
from unrack.workload.usage.series import UsageSeries

Match = Literal["id", "nearest", "random"]
Part = Literal["all", "first half", "second half"]

_ALIKE = 1e-9
_MATCH = 0x6D74  # beside the seed, so that these draws are no generator's


def part_of(series: UsageSeries, part: Part) -> UsageSeries:
    """All jobs of a source, or one of its halves in the order of the file: the first has the odd one.

    A policy that learned from one half can be tested on the other.
    """
    half = (len(series) + 1) // 2
    rows = {"all": (0, len(series)), "first half": (0, half), "second half": (half, len(series))}[part]
    return series if part == "all" else series.take(np.arange(*rows))


def matched(jobs: JobTable, series: UsageSeries, how: Match, seed: int = 0) -> tuple[Ints, str]:
    """``int64[jobs]``: the row of each job's source, -1 = none; and how it was found, in words.

    Parameters
    ----------
    jobs
        What is given usage.
    series
        The sources. Those that never use anything are given by id only.
    how
        ``"id"``: the source of the same id. ``"nearest"``: by size (where the source names nodes), run time (where it
        is known) and memory (where the source gives MB and jobs ask for any). ``"random"``: any, all alike.
    seed
        Of ``"random"``.

    Raises
    ------
    InputError
        No id agrees, no source uses anything, or nothing is known by which sources could be near.
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


def nearest(jobs: list[Floats], sources: list[Floats]) -> Ints:
    """``int64[jobs]``: the nearest source of each; equally near ones of one place are taken in turns.

    Parameters
    ----------
    jobs, sources : list of float64[jobs], list of float64[sources]
        A column for each property. Each is divided by its standard deviation among the sources.

    Examples
    --------
    >>> nearest([np.array([0.0, 0.1, 9.0, 0.2])], [np.array([0.0, 5.0, 0.0])]).tolist()
    [0, 2, 1, 0]
    """
    from scipy.spatial import cKDTree  # slow to import: only where something is matched

    spread = [by if (by := float(column.std())) > _ALIKE else 1.0 for column in sources]
    mine, theirs = (
        np.stack([column / by for column, by in zip(columns, spread, strict=True)], axis=1)
        for columns in (jobs, sources)
    )
    places, of_source = np.unique(theirs, axis=0, return_inverse=True)
    order = np.argsort(of_source.ravel(), kind="stable")
    count = np.bincount(of_source.ravel(), minlength=len(places))
    begin = np.cumsum(count) - count
    place: Ints = np.asarray(cKDTree(places).query(mine)[1], np.int64)
    found: Ints = order[begin[place] + _turn(place) % count[place]]
    return found


def _turn(place: Ints) -> Ints:
    """``int64[n]``: how many entries before each have the same value."""
    order = np.argsort(place, kind="stable")
    among = place[order]
    begins = np.flatnonzero(np.diff(among, prepend=among[:1] - 1))
    turn = np.empty(len(place), np.int64)
    turn[order] = np.arange(len(place)) - np.repeat(begins, np.diff(np.append(begins, len(place))))
    return turn
