"""Curves drawn from parameters of shapes.

For each job: a kind; a ratio of mean to peak, a share of the progress near the peak, and a number of steps from the
kind's quantile curves; levels that follow each other with the kind's persistence, and where nodes differ, levels of
each node that agree with the job's; then heights.
"""

from __future__ import annotations

from math import erfc, sqrt
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unrack.errors import InputError
from unrack.jit import compiled
from unrack.workload.generate import along, memory_by_size_mb
from unrack.workload.usage import KINDS, NEAR, WHOLE, UsageCurves, ranges, starts
from unrack_papers.shapes.parameters import Shapes, shapes_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROUNDS = 45
_STEEPEST = 8.0
SHORTEST_S, LONGEST_S = 600.0, 172_800.0
LARGEST = 64

_JOBS = 0x6A62  # beside the seed, so that these draws are no other generator's
_DRAW = 0x7368  # beside the seed, so that these draws are no other generator's
_CONSTANT = 0.98
_MOST_POINTS = 100_000_000


class _Wanted(NamedTuple):
    """Of each job: a kind and the properties of its curves."""

    kind: Ints
    ratio: Floats
    near: Floats
    steps: Ints
    persistence: Floats
    spread: Floats


def drawn(shapes: Shapes, tasks: Ints, run_s: Floats, peak_mb: Ints, seed: int = 0) -> UsageCurves:
    """Curves for jobs: one each, or where the parameters tell how nodes differ one a task.

    Parameters
    ----------
    shapes
        What they look like.
    tasks, run_s, peak_mb : int64[jobs], float64[jobs], int64[jobs]
        Of each job; its highest curve reaches ``peak_mb``.
    seed
        The same jobs and seed give the same curves on any machine.

    Raises
    ------
    InputError
        That would be over 100 million points.
    """
    rng = np.random.default_rng([_DRAW, seed])
    wanted = _wanted(shapes, run_s, rng)
    several = (tasks > 1) & (shapes.nodes is not None)
    curves = np.where(several, tasks, 1)
    if (points := int((curves * wanted.steps).sum())) > _MOST_POINTS:
        raise InputError("shapes", f"{points} steps over all tasks", f"up to {_MOST_POINTS}")
    job = np.repeat(np.arange(len(tasks)), curves)
    of_job = starts(wanted.steps)
    length = rng.exponential(size=int(of_job[-1]))
    score = _scores(wanted, of_job, rng)
    members = ranges(of_job, job)
    size = wanted.steps[job]
    if shapes.nodes is not None and several.any():
        own = rng.standard_normal(len(members))
        mixed = shapes.nodes.alike**0.5 * score[members] + (1 - shapes.nodes.alike) ** 0.5 * own
        levels = np.where(np.repeat(several[job], size), mixed, score[members])
    else:
        levels = score[members]
    steps = CurveSteps(starts(size), length[members], levels, wanted.ratio[job], wanted.near[job], wanted.spread[job])
    span, height = heights(steps)
    slots = np.maximum(np.ceil(run_s / shapes.interval_s), 1.0)
    factor = _factors(shapes, job, several, rng)
    top = np.maximum(np.ceil(np.round(factor * peak_mb[job], 6)), 0).astype(np.int64)
    return _on_grid(starts(curves), steps.point, span, height, slots[job], top)


def usage(which: str, tasks: Ints, run_s: Floats, peak_mb: Ints, seed: int) -> UsageCurves:
    """Curves by a name or a file of parameters: what ``usage = { shapes = … }`` of a study draws."""
    return drawn(shapes_of(which), tasks, run_s, peak_mb, seed)


@compiled
def below(scores: Floats) -> Floats:
    """The share of the normal distribution that is below each score."""
    shares = np.empty(len(scores))
    for i in range(len(scores)):
        shares[i] = 0.5 * erfc(-scores[i] / sqrt(2.0))
    return shares


def _wanted(shapes: Shapes, run_s: Floats, rng: np.random.Generator) -> _Wanted:
    jobs = len(run_s)
    kind = np.searchsorted(np.cumsum(shapes.weights())[:-1], rng.random(jobs), side="right").astype(np.int64)
    scores = rng.standard_normal((2, jobs))
    chance = rng.random(jobs)
    ratio, near, persistence, spread = np.ones(jobs), np.ones(jobs), np.zeros(jobs), np.ones(jobs)
    steps = np.ones(jobs, np.int64)
    for code, name in enumerate(KINDS):
        if name not in shapes.kinds:
            continue
        one, rows = shapes.kinds[name], kind == code
        other = one.together * scores[0, rows] + (1 - one.together**2) ** 0.5 * scores[1, rows]
        ratio[rows] = along(one.mean_over_peak, below(scores[0, rows]))
        near[rows] = along(one.near_peak, below(other))
        steps[rows] = np.rint(along(one.steps, chance[rows])).astype(np.int64)
        persistence[rows] = one.persistence
        spread[rows] = one.spread
    slots = np.maximum(np.ceil(run_s / shapes.interval_s), 1.0)
    steps = np.where((steps == 1) & (ratio < _CONSTANT), 2, steps)  # one step is at its peak throughout
    return _Wanted(kind, ratio, near, np.minimum(steps, slots.astype(np.int64)), persistence, spread)


def _scores(wanted: _Wanted, of_job: Ints, rng: np.random.Generator) -> Floats:
    """float64[steps]: normal scores of the levels of each job, one after the other; those of ramps rise."""
    score = _followed(of_job, rng.standard_normal(int(of_job[-1])), wanted.persistence)
    rising = np.repeat(wanted.kind == KINDS.index("ramp"), wanted.steps)
    place = (np.arange(len(score)) - np.repeat(of_job[:-1], wanted.steps)) / np.repeat(
        np.maximum(wanted.steps - 1, 1), wanted.steps
    )
    return np.where(rising, 6.0 * place - 3.0 + 0.1 * score, score)


@compiled
def _followed(point: Ints, noise: Floats, persistence: Floats) -> Floats:
    """A normal process of the first order on each stretch."""
    found = np.empty(len(noise), np.float64)
    for job in range(len(point) - 1):
        keep = persistence[job]
        fresh = (1.0 - keep * keep) ** 0.5
        for step in range(point[job], point[job + 1]):
            found[step] = noise[step] if step == point[job] else keep * found[step - 1] + fresh * noise[step]
    return found


def _factors(shapes: Shapes, job: Ints, several: np.ndarray, rng: np.random.Generator) -> Floats:
    """float64[curves]: the peak of each curve over the job's."""
    if shapes.nodes is None or not several.any():
        return np.ones(len(job))
    log = np.where(several[job], shapes.nodes.spread * rng.standard_normal(len(job)), 0.0)
    begins = np.flatnonzero(np.diff(job, prepend=-1))
    most = np.maximum.reduceat(log, begins)
    found: Floats = np.exp(log - most[job])
    return found


def _on_grid(first: Ints, point: Ints, span: Floats, height: Floats, slots: Floats, top: Ints) -> UsageCurves:
    """Steps that begin at multiples of a sample: of those in one sample the largest counts, as of measured maxima."""
    curve = np.repeat(np.arange(len(point) - 1), np.diff(point))
    ends = np.cumsum(span)
    begin = np.maximum(ends - span - np.repeat((ends - span)[point[:-1]], np.diff(point)), 0.0)
    many = slots[curve]
    slot = np.minimum(np.rint(begin * many), many - 1.0)
    new = np.ones(len(slot), np.bool_)
    new[1:] = (np.diff(curve) != 0) | (np.diff(slot) > 0)
    where = np.flatnonzero(new)
    mb = np.ceil(np.round(np.maximum.reduceat(height, where) * top[curve[where]], 6)).astype(np.int64)
    at = np.minimum((slot / many)[where] * WHOLE, WHOLE - 1).astype(np.int64)
    return UsageCurves(first, starts(np.bincount(curve[where], minlength=len(point) - 1)), at, mb)


def drawn_jobs(shapes: Shapes, jobs: int, seed: int = 0) -> tuple[UsageCurves, pl.Series, Floats]:
    """Curves, ids from 1 and run times in s of jobs with uniform-log run times.

    Sizes are uniform-log from 1 to 64 nodes where the parameters tell how nodes differ, else 1. Peaks are those of
    :func:`unrack.workload.generate.memory_by_size_mb`.
    """
    rng = np.random.default_rng([_JOBS, seed])
    run_s = np.rint(np.exp(rng.uniform(np.log(SHORTEST_S), np.log(LONGEST_S), jobs)))
    nodes = np.floor(np.exp(rng.uniform(0.0, np.log(LARGEST + 1), jobs))).astype(np.int64)
    tasks = np.ones(jobs, np.int64) if shapes.nodes is None else np.minimum(nodes, LARGEST)
    curves = drawn(shapes, tasks, run_s, memory_by_size_mb(rng, tasks), seed)
    return curves, pl.Series("job", np.arange(1, jobs + 1)), run_s


class CurveSteps(NamedTuple):
    """The steps of curves, one curve after the other."""

    point: Ints  # int64[curves + 1]: the steps of curve c are ``point[c]`` to ``point[c + 1] - 1``: one or more
    length: Floats  # float64[steps]: how long they are, against each other
    score: Floats  # float64[steps]: how high they are, in order
    # ratio, near: float64[curves]: mean over peak, and the share of the progress near the peak, that are wanted
    ratio: Floats
    near: Floats
    # float64[curves]: how far the steps that are not near the peak differ: 0 = not at all, 1 = as far as their mean
    # lets them
    spread: Floats


def heights(steps: CurveSteps) -> tuple[Floats, Floats]:
    """``float64[steps]`` twice: how much of the progress each step takes, and its height over the curve's peak.

    The highest steps are near the peak, from 0.9 to 1, for the share of the progress that is wanted; the others are
    below 0.9, by a power of their rank that gives the mean, and closer to that mean where they spread less. A mean that
    cannot be had with that share is approached.
    """
    size = np.diff(steps.point)
    curve = np.repeat(np.arange(len(size)), size)
    rank = np.empty(len(curve), np.int64)  # 0 = the highest of its curve
    rank[np.lexsort((-steps.score, curve))] = np.arange(len(curve)) - np.repeat(steps.point[:-1], size)
    near_steps = np.clip(np.rint(steps.near * size), 1, np.maximum(size - 1, 1)).astype(np.int64)
    near_steps = np.where((steps.near > 0.999) | (size == 1), size, near_steps)
    is_near = rank < near_steps[curve]
    share = np.where(near_steps == size, 1.0, np.minimum(steps.near, 0.999))
    span = _spans(steps, curve, is_near, share)
    among = np.maximum(near_steps - 1, 1)[curve]
    lift = np.where(rank == 0, 1.0, 1.0 - rank / among * below(1.0 - steps.score))  # the top is 1, the others spread
    near = NEAR + (1 - NEAR) * np.clip(lift, 0.0, 1.0)
    near = _squeezed(near, span, steps, near_steps == size, curve)
    low = _low(steps, curve, rank, near_steps, span, is_near, near, share)
    return span, np.where(is_near, near, low)


def _sum(values: Floats, steps: CurveSteps) -> Floats:
    return np.add.reduceat(values, steps.point[:-1]) if len(values) else np.zeros(0)


def _spans(steps: CurveSteps, curve: Ints, is_near: np.ndarray, share: Floats) -> Floats:
    upper = _sum(np.where(is_near, steps.length, 0.0), steps)
    lower = _sum(np.where(is_near, 0.0, steps.length), steps)
    by = np.where(is_near, (share / np.maximum(upper, 1e-300))[curve], ((1 - share) / np.maximum(lower, 1e-300))[curve])
    return steps.length * by


def _squeezed(near: Floats, span: Floats, steps: CurveSteps, all_near: np.ndarray, curve: Ints) -> Floats:
    """Where all steps are near the peak, their distance from it in line with the mean that is wanted."""
    below = 1.0 - _sum(near * span, steps)
    by = np.where(all_near, (1.0 - steps.ratio) / np.maximum(below, 1e-9), 1.0)
    return np.maximum(1.0 - (1.0 - near) * by[curve], NEAR)


def _low(
    steps: CurveSteps, curve: Ints, rank: Ints, near_steps: Ints, span: Floats, is_near: np.ndarray, near: Floats,
    share: Floats,
) -> Floats:  # fmt: skip
    """Heights of the other steps: a power of their rank, found by halving, that gives the mean."""
    count = (np.diff(steps.point) - near_steps)[curve]
    place = 1.0 - (rank - near_steps[curve] + 0.5) / np.maximum(count, 1)
    place = np.clip(place, 1e-6, 1.0 - 1e-6)
    weight = np.where(is_near, 0.0, span)
    above = _sum(np.where(is_near, span * near, 0.0), steps)
    wanted = np.clip((steps.ratio - above) / np.maximum(1.0 - share, 1e-9), 0.0, 0.999 * NEAR) / NEAR
    total = np.maximum(_sum(weight, steps), 1e-300)
    least, most = np.full(len(total), -_STEEPEST), np.full(len(total), _STEEPEST)
    log = np.log(place)
    for _ in range(_ROUNDS):
        power = (least + most) / 2
        mean = _sum(weight * np.exp(np.exp(power)[curve] * log), steps) / total
        high = mean > wanted
        least, most = np.where(high, power, least), np.where(high, most, power)
    found: Floats = NEAR * np.exp(np.exp((least + most) / 2)[curve] * log)
    spread = steps.spread[curve]
    return spread * found + (1 - spread) * NEAR * wanted[curve]
