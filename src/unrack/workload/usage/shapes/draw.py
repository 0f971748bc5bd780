"""Curves drawn from parameters of shapes.

For each job: a kind; a ratio of mean to peak, a share of the progress near the peak, and a number of steps from the
kind's quantile curves; levels that follow each other with the kind's persistence, and where nodes differ, levels of
each node that agree with the job's; then heights (:mod:`unrack.workload.usage.shapes.levels`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.errors import InputError
from unrack.jit import compiled
from unrack.workload.generate.batch.curve import along
from unrack.workload.generate.distributions import Floats
from unrack.workload.usage.curves import WHOLE, Ints, UsageCurves, ranges, starts
from unrack.workload.usage.shapes.levels import Steps, heights
from unrack.workload.usage.shapes.parameters import KINDS, Shapes

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
    steps = Steps(starts(size), length[members], levels, wanted.ratio[job], wanted.near[job], wanted.spread[job])
    span, height = heights(steps)
    slots = np.maximum(np.ceil(run_s / shapes.interval_s), 1.0)
    factor = _factors(shapes, job, several, rng)
    top = np.maximum(np.ceil(np.round(factor * peak_mb[job], 6)), 0).astype(np.int64)
    return _on_grid(starts(curves), steps.point, span, height, slots[job], top)


def _wanted(shapes: Shapes, run_s: Floats, rng: np.random.Generator) -> _Wanted:
    from scipy.special import ndtr  # slow to import: only where curves are drawn

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
        ratio[rows] = along(one.mean_over_peak, ndtr(scores[0, rows]))
        near[rows] = along(one.near_peak, ndtr(other))
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
