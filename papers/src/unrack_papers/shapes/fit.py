"""Parameters of shapes from a file of used memory, and how well what they draw agrees."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from unrack.errors import InputError
from unrack.workload.generate import Marginal, correlation_of, curve_of
from unrack.workload.usage import (
    KINDS,
    NEAR,
    SHARE_UNIT,
    Properties,
    UsageSeries,
    highest,
    in_use,
    properties,
    series_of,
)
from unrack_papers.shapes.draw import CurveSteps, drawn, heights
from unrack_papers.shapes.parameters import NodeDifferences, ShapeKind, Shapes

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KNOTS = 12
"""Points of a quantile curve."""

_DRAWN = 2000
_ROUNDS = 4
_MOST_TIMES = 5.0
_LONG = 20.0
_PLACES = np.linspace(0.0, 1.0, 64, endpoint=False) + 1 / 128
_MOST_PAIRS = 20_000
FEWEST = 5
"""Jobs needed for a fit."""

_LONG_ENOUGH = 5


@dataclass(frozen=True)
class ShapeFit:
    """Parameters with what they were fitted to."""

    shapes: Shapes  # the parameters
    # jobs, series: how many they were fitted to
    jobs: int
    series: int
    counts: dict[str, int]  # kind → how many jobs; of a job with several series the one with the highest peak says
    # mean over peak, steps, share of the progress near the peak, and where jobs have several series the peak of each
    # over its job's: as given and as drawn
    marginals: tuple[Marginal, ...]


def fit(series: UsageSeries, seed: int = 0) -> ShapeFit:
    """Fit the parameters of shapes to measured series, of five jobs or more that use memory; others are left out.

    ``seed``: of the curves drawn for comparison, for jobs of the same run times and sizes: 2 000 or more.
    """
    usable = np.flatnonzero(series.job_peaks() > 0)
    if len(usable) < FEWEST:
        raise InputError(series.source, f"{len(usable)} jobs that use memory", f"{FEWEST} or more")
    given = in_use(series.take(usable).over_peak())
    found = properties(given)
    top = highest(given)
    job_kind = found.kind[top]
    kind = job_kind[given.job_of_series()]
    counts = np.bincount(job_kind, minlength=len(KINDS))
    interval_s = _interval_s(given)
    long = long_enough(given, interval_s)
    kinds = {
        name: _kind(found, kind == code, long, int(counts[code])) for code, name in enumerate(KINDS) if counts[code]
    }
    source = f"{os.path.basename(series.source)}, {len(given)} jobs"
    first = Shapes(source=source, interval_s=interval_s, kinds=cast("Any", kinds), nodes=nodes_of(given, kind))
    shapes = _with_steps(first, given, seed)
    return ShapeFit(
        shapes, len(given), len(given.point) - 1,
        {name: int(count) for name, count in zip(KINDS, counts, strict=True)},
        _marginals(given, found, shapes, seed),
    )  # fmt: skip


def _interval_s(series: UsageSeries) -> float:
    """The length of a sample: as the file shows it, or from the shortest steps."""
    interval = series.interval_s
    if np.isnan(interval) and not np.isnan(series.run_s).all():
        run = np.repeat(series.run_s[series.job_of_series()], np.diff(series.point))
        parts = (series.spans() * run)[(np.repeat(np.diff(series.point), np.diff(series.point)) > 1) & (run > 0)]
        interval = float(np.quantile(parts, 0.02)) if len(parts) else float("nan")
    return float(f"{interval:.4g}") if interval > 0 else 300.0


def _kind(found: Properties, rows: Bools, long: Bools, jobs: int) -> ShapeKind:
    ratio, near = found.ratio[rows], np.maximum(found.near[rows], 1e-6)
    steps = found.steps[rows & long] if (rows & long).any() else found.steps[rows]
    return ShapeKind(
        weight=float(jobs),
        mean_over_peak=curve_of(np.clip(ratio, 1e-6, 1.0), KNOTS),
        near_peak=curve_of(near, KNOTS),
        together=round(correlation_of(ratio, near), 3),
        steps=curve_of(steps.astype(np.float64), KNOTS),
        persistence=0.0 if KINDS[found.kind[rows][0]] == "ramp" else _persistence(found, rows),
        spread=_spread(found, rows),
    )


def _levels(found: Properties, rows: Bools) -> tuple[Ints, Floats, Floats]:
    """The steps of some series: where each series begins, spans, and levels over the series's peak."""
    curves = found.thin.curves
    taken = series_of(curves)
    members = np.flatnonzero(rows[np.repeat(np.arange(len(rows)), np.diff(curves.point))])
    point = np.concatenate([[0], np.cumsum(found.steps[rows])])
    peak = curves.peaks()[rows]
    return point, taken.spans()[members], taken.amount[members] / np.repeat(np.maximum(peak, 1), found.steps[rows])


def _persistence(found: Properties, rows: Bools) -> float:
    """The correlation of neighbouring steps in curves of five steps or more, corrected for their short length."""
    point, _, level = _levels(found, rows)
    size = np.diff(point)
    owner = np.repeat(np.arange(len(size)), size)
    enough = (size >= _LONG_ENOUGH)[owner]
    rank = np.empty(len(level))
    rank[np.lexsort((level, owner))] = np.arange(len(level)) - np.repeat(point[:-1], size)
    apart = np.where(enough, rank - (size[owner] - 1) / 2, 0.0) / np.maximum(size[owner], 1)
    neighbours = (np.diff(owner) == 0) & enough[1:]
    total = float((apart**2).sum())
    if total <= 0:
        return 0.0
    long = size[size >= _LONG_ENOUGH]
    many = float(long.mean())
    raw = float((apart[1:] * apart[:-1])[neighbours].sum()) / total * many / (many - 1)
    return round(float(np.clip((raw * many + 1) / max(many - 3, 1.0), 0.0, 0.98)), 3)


def _spread(found: Properties, rows: Bools) -> float:
    """How far steps that are not near the peak differ, against drawn ones that differ as much as they may."""
    point, span, level = _levels(found, rows)
    drawn_span, most = heights(
        CurveSteps(point, span, level, found.ratio[rows], found.near[rows], np.ones(len(point) - 1))
    )
    owner = np.repeat(np.arange(len(point) - 1), np.diff(point))

    def deviation(values: Floats, weight: Floats) -> float:
        low = values < NEAR
        weight = np.where(low, weight, 0.0)
        total = np.maximum(np.add.reduceat(weight, point[:-1]), 1e-300)
        mean = np.add.reduceat(weight * values, point[:-1]) / total
        return float(np.sqrt(np.add.reduceat(weight * (values - mean[owner]) ** 2, point[:-1]) / total).sum())

    widest = deviation(most, drawn_span)
    return round(float(np.clip(deviation(level, span) / widest, 0.0, 1.0)), 3) if widest > 1e-9 else 1.0


def _marginals(given: UsageSeries, found: Properties, shapes: Shapes, seed: int) -> tuple[Marginal, ...]:
    made = like(shapes, given, seed)
    ours = properties(made)
    pairs = [
        ("mean over peak", found.ratio, ours.ratio),
        ("steps", found.steps.astype(np.float64), ours.steps.astype(np.float64)),
        ("progress near peak", found.near, ours.near),
    ]
    if given.sized:
        parts = [one.peaks() / one.job_peaks()[one.job_of_series()] for one in (given, made)]
        pairs.append(("peak over job's", parts[0], parts[1]))
    return tuple(Marginal(name, "", np.round(one, 6), np.round(other, 6)) for name, one, other in pairs)


def nodes_of(series: UsageSeries, kind: Ints) -> NodeDifferences | None:
    """The parameters of nodes, or ``None`` where no job has several series; each series uses something.

    ``kind``: int64[series], of the job of each. Ramps agree by their trend, and do not count for how alike levels are.
    """
    several = series.series > 1
    if not several.any():
        return None
    job = series.job_of_series()
    log = np.log(np.maximum(series.peaks(), 1e-300))
    mean = np.add.reduceat(log, series.first[:-1]) / series.series
    apart = ((log - mean[job]) ** 2)[several[job]].sum()
    spread = float(np.sqrt(apart / (series.series[several] - 1).sum()))
    pairs = np.flatnonzero((np.diff(job) == 0) & (kind[1:] != KINDS.index("ramp")))[:_MOST_PAIRS]
    found = [one for pair in pairs.tolist() if (one := _correlation(series, pair)) is not None]
    return NodeDifferences(spread=round(min(spread, 10.0), 4), alike=_alike(found))


def _alike(found: Sequence[tuple[float, int]]) -> float:
    """The correlation of normal scores with ranks that, in series of so many levels, correlate as these on average.

    Ranks of few correlate less: their expected correlation is that of Moran 1948 (Kendall and Gibbons, section 9.10).
    """
    if not found:
        return 1.0
    wanted = float(np.mean([one for one, _ in found]))
    levels = np.array([count for _, count in found], np.float64)
    least, most = 0.0, 1.0
    for _ in range(30):
        middle = (least + most) / 2
        ranks = 6 / (np.pi * (levels + 1)) * (np.arcsin(middle) + (levels - 2) * np.arcsin(middle / 2))
        least, most = (least, middle) if ranks.mean() > wanted else (middle, most)
    return round((least + most) / 2, 3)


def _correlation(series: UsageSeries, pair: int) -> tuple[float, int] | None:
    """Of the ranks of two neighbouring series at equal progress, and how many levels they have.

    ``None`` where one of them never changes.
    """
    values = []
    for one in (pair, pair + 1):
        here = slice(int(series.point[one]), int(series.point[one + 1]))
        found = series.amount[here][np.searchsorted(series.at[here], _PLACES, side="right") - 1]
        values.append(np.unique(found, return_inverse=True)[1].astype(np.float64))
    levels = int(min(values[0].max(), values[1].max())) + 1
    return (float(np.corrcoef(values[0], values[1])[0, 1]), levels) if levels > 1 else None


def long_enough(series: UsageSeries, interval_s: float) -> Bools:
    """``bool[series]``: those of jobs long enough, by their samples, for the number of steps to be the kind's."""
    long: Bools = ~(series.run_s < _LONG * interval_s)
    return long[series.job_of_series()]


def like(shapes: Shapes, given: UsageSeries, seed: int) -> UsageSeries:
    """Drawn series for jobs of the same sizes and run times as those given: 2 000 or more.

    Jobs without a known run time are given one of a thousand samples.
    """
    times = -(-_DRAWN // len(given))
    run = np.where(np.isnan(given.run_s), 1000 * shapes.interval_s, given.run_s)
    tasks, run = np.tile(given.series, times), np.tile(run, times)
    return in_use(series_of(drawn(shapes, tasks, run, np.full(len(tasks), SHARE_UNIT), seed), run).over_peak())


def _with_steps(shapes: Shapes, given: UsageSeries, seed: int) -> Shapes:
    """The parameters with more steps, where some of those drawn are so alike that thinning takes them for one."""
    wanted = {name: np.array(one.steps) for name, one in shapes.kinds.items()}
    for _ in range(_ROUNDS):
        made = like(shapes, given, seed)
        ours = properties(made)
        kind = np.where(long_enough(made, shapes.interval_s), ours.kind[highest(made)][made.job_of_series()], -1)
        kinds = dict(shapes.kinds)
        for name, goal in wanted.items():
            left = ours.steps[kind == KINDS.index(name)]
            if not len(left):
                continue
            now = np.array(curve_of(left.astype(np.float64), KNOTS))
            steps = np.maximum.accumulate(np.clip(np.array(kinds[name].steps) * goal / now, 1, _MOST_TIMES * goal))
            kinds[name] = kinds[name].model_copy(update={"steps": tuple(float(f"{one:.4g}") for one in steps)})
        shapes = shapes.model_copy(update={"kinds": kinds})
    return shapes
