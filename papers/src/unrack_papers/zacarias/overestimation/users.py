"""Overestimation: response of a job whose own request is too high, by that of the same job when none is.

The same jobs run once with exact requests, and a few times with requests that are too high by shares drawn evenly from
0 to 100 %. The regression of responses on those shares, in bands of jobs that first responded alike, tells the diligent
user's response (+0 %) from the careless one's (+100 %).

Response times predicted from how much too high a request is, apart for jobs that respond alike when none is.

References
----------
Vieira Zacarias 2023, sections 7.1.2, 7.2.3 and 8.4.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unrack import Result
from unrack.study import Run
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Sheet, line, texts
from unrack_papers.reproduction import Numbers, Place, Quantity, Task, Values
from unrack_papers.zacarias.counts import HOUR

Floats = NDArray[np.float64]
MOST = 0.95
"""The part of the jobs that the bands are laid over."""


class Band(NamedTuple):
    """Jobs whose responses were alike when no request was too high, and a straight line through what they became.

    Attributes
    ----------
    jobs
        How many.
    base_s
        Their mean response when no request was too high, s.
    exact_s
        By the line: the response of a job that asks for what it uses, s.
    slope_s
        What asking for twice that adds, s.
    """

    jobs: int
    base_s: float
    exact_s: float
    slope_s: float

    def at(self, share: float) -> float:
        """The response of a job that asks for so much more than it uses, s; 1 = twice.

        Examples
        --------
        >>> Band(10, 100.0, 150.0, 30.0).at(0.5)
        165.0
        """
        return self.exact_s + self.slope_s * share


def by_band(base_s: Floats, share: Floats, response_s: Floats, bands: int) -> list[Band | None]:
    """Regressions of responses on overestimates, in bands of responses of equal length.

    Parameters
    ----------
    base_s, share, response_s : float64[jobs]
        Of each job: its response when no request was too high, how much too high its own is, and its response then.
    bands
        How many. They are as long as each other from 0 s to the response that 95 % of the jobs stay below; longer ones
        are in the last.

    Returns
    -------
    list of Band
        By least squares; ``None`` where no job is. Where no shares differ the line is level.

    References
    ----------
    Vieira Zacarias 2023, section 7.1.2, Fig. 7.1.

    Examples
    --------
    >>> base_s, share = np.array([1.0, 1.0, 9.0, 9.0]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> found = by_band(base_s, share, np.array([2.0, 3.0, 9.0, 9.0]), 3)
    >>> [band and (band.exact_s, band.slope_s) for band in found]
    [(2.0, 1.0), None, (9.0, 0.0)]
    """
    found: list[Band | None] = []
    length = float(np.quantile(base_s, MOST)) / bands if len(base_s) else 0.0
    own = np.minimum(base_s / length, bands - 1).astype(np.int64) if length > 0 else np.zeros(len(base_s), np.int64)
    for band in range(bands):
        x, y = share[own == band], response_s[own == band]
        if not len(x):
            found.append(None)
            continue
        spread = float(((x - x.mean()) ** 2).sum())
        slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
        found.append(Band(len(x), float(base_s[own == band].mean()), float(y.mean() - slope * x.mean()), slope))
    return found


def ahead(bands: list[Band], share: float) -> float | None:
    """By how much longer a job takes that alone asks for so much more, over all jobs; ``None`` where there are none.

    Examples
    --------
    >>> round(ahead([Band(1, 1.0, 10.0, 1.0), Band(3, 1.0, 20.0, 1.0)], 0.5), 4)
    0.0286
    """
    exact = sum(band.jobs * band.at(0.0) for band in bands)
    return sum(band.jobs * band.at(share) for band in bands) / exact - 1 if exact else None


DRAWS = 3
"""How often overestimates are drawn anew for the same jobs."""
BANDS = 6
LEVELS = (0, 25, 50, 75, 100)
ALL = "all jobs"
BASE = Quantity("response, none too high", "base_s", 1 / HOUR, 2, "h")
AT = {level: Quantity(f"response at +{level} %", f"at.{level}", 1 / HOUR, 2, "h") for level in LEVELS}
EVERYONE = Quantity("longer if all overestimate", "everyone", 100, 1, "%")
DILIGENT = Quantity("longer for the diligent", "diligent", 100, 1, "%")
ALONE = {level: Quantity(f"longer for +{level} % than +0 %", f"alone.{level}", 100, 1, "%") for level in (60, 100)}
QUANTITIES = (BASE, *AT.values(), EVERYONE, DILIGENT, *ALONE.values())


class Responses(NamedTuple):
    """Of each job that ended, in order of ids: its id, its response in s, and how much too high its request is."""

    ids: np.ndarray
    response_s: Floats
    share: Floats


def responses(run: Run, result: Result, took_s: float) -> Responses:
    """The responses of a run."""
    jobs = result.jobs.drop_nulls("response_s").sort("job")
    share = jobs["overestimate"].to_numpy() if "overestimate" in jobs.columns else np.zeros(jobs.height)
    return Responses(jobs["job"].to_numpy(), jobs["response_s"].to_numpy(), share)


def regressions(task: Task) -> list[Numbers]:
    """What each row makes of the jobs of a task: numbers of all jobs, and of each band (``"3.base_s"`` …)."""
    from unrack_papers.simulation import simulated

    draws = ({"uniform": [0, 1], "seed": DRAWS * task.seed + draw} for draw in range(DRAWS))
    tasks = [task, *(replace(task, workload={**task.workload, "overestimate": draw}) for draw in draws)]
    measured: dict[int, list[Responses]] = {}
    for _, row, found in simulated(tasks, responses):  # type: ignore[arg-type]
        measured.setdefault(row, []).append(found)  # type: ignore[arg-type]
    return [compared(runs[0], runs[1:]) for _, runs in sorted(measured.items())]


def compared(base: Responses, runs: Sequence[Responses]) -> Numbers:
    """Regressions of responses when requests are too high, by the responses of the same jobs when none is.

    Jobs that did not end in both runs are left out.
    """
    firsts, shares, seconds = [], [], []
    for run in runs:
        _, mine, theirs = np.intersect1d(base.ids, run.ids, assume_unique=True, return_indices=True)
        firsts.append(base.response_s[mine])
        shares.append(run.share[theirs])
        seconds.append(run.response_s[theirs])
    base_s, response_s = np.concatenate(firsts), np.concatenate(seconds)
    if not len(base_s):
        return {}
    every = by_band(base_s, np.concatenate(shares), response_s, BANDS)
    bands = [band for band in every if band is not None]
    mean = float(base_s.mean())
    exact = sum(band.jobs * band.exact_s for band in bands) / len(base_s)
    numbers: Numbers = {
        BASE.metric: mean,
        EVERYONE.metric: float(response_s.mean()) / mean - 1 if mean else None,
        DILIGENT.metric: exact / mean - 1 if mean else None,
        **{one.metric: ahead(bands, level / 100) for level, one in ALONE.items()},
    }
    for i, band in enumerate(every, 1):
        if band is None:
            continue
        numbers[f"{i}.{BASE.metric}"] = band.base_s
        numbers |= {f"{i}.{one.metric}": band.at(level / 100) for level, one in AT.items()}
    return numbers


def with_bands(values: Values) -> Values:
    """A place for each band, in the place of numbers that begin with its own."""
    found: Values = {}
    for (group, x, name), seeds in values.items():
        found[group, x, name] = tuple({key: v for key, v in seed.items() if not key[0].isdigit()} for seed in seeds)
        for band in range(1, BANDS + 1):
            begins = f"{band}."
            found[group, band_title(band), name] = tuple(
                {key.removeprefix(begins): value for key, value in seed.items() if key.startswith(begins)}
                for seed in seeds
            )
    return found


def band_title(band: int) -> str:
    """The place of a band: which interval of responses, from the shortest."""
    return f"{band} of {BANDS}"


def places(group: str, name: str) -> list[Place]:
    """The bands of a row."""
    return [(group, band_title(band), name) for band in range(1, BANDS + 1)]


def users_sheets(measured: Measured) -> tuple[Sheet, ...]:
    """All jobs of every row, and every band."""
    rows = [(group, row.name) for group in measured.groups for row in measured.rows(group)]
    of_all = (BASE, EVERYONE, DILIGENT, *ALONE.values())
    every = tuple(line(group, name, *texts(measured, (group, ALL, name), of_all)) for group, name in rows)
    bands = tuple(
        line(
            f"{group}, {name}" if len(measured.rows(group)) > 1 else group,
            str(place[1]),
            *texts(measured, place, (BASE, *AT.values())),
        )
        for group, name in rows
        for place in places(group, name)
    )
    heads = tuple(
        f"{one.label.replace(' for ', chr(10) + 'for ').replace(', ', ',' + chr(10))}, {one.unit}" for one in of_all
    )
    by_band = ("none too high", *(f"+{level} %" for level in LEVELS))
    return (
        Sheet("mean response, and how much longer it is: ours ± 95 %", ("scenario", "", *heads), every, 2),
        Sheet(
            "response in h by the regression, by band of jobs and the job's own overestimate: ours ± 95 %",
            ("scenario", "interval", *by_band),
            bands,
            2,
        ),
    )
