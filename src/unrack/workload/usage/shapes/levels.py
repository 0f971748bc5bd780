"""How high the steps of drawn curves are, and how long: such that a curve has the mean and the time near its peak."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unrack.workload.generate.distributions import Floats
from unrack.workload.usage.curves import Ints
from unrack.workload.usage.shapes.parameters import NEAR

_ROUNDS = 45
_STEEPEST = 8.0


class Steps(NamedTuple):
    """The steps of curves, one curve after the other.

    Attributes
    ----------
    point : int64[curves + 1]
        The steps of curve c are ``point[c]`` to ``point[c + 1] - 1``: one or more.
    length : float64[steps]
        How long they are, against each other.
    score : float64[steps]
        How high they are, in order.
    ratio, near : float64[curves]
        Mean over peak, and the share of the progress near the peak, that are wanted.
    spread : float64[curves]
        How far the steps that are not near the peak differ: 0 = not at all, 1 = as far as their mean lets them.
    """

    point: Ints
    length: Floats
    score: Floats
    ratio: Floats
    near: Floats
    spread: Floats


def heights(steps: Steps) -> tuple[Floats, Floats]:
    """``float64[steps]`` twice: how much of the progress each step takes, and its height over the curve's peak.

    The highest steps are near the peak, from 0.9 to 1, for the share of the progress that is wanted; the others are
    below 0.9, by a power of their rank that gives the mean, and closer to that mean where they spread less. A mean that
    cannot be had with that share is approached.
    """
    from scipy.special import ndtr  # slow to import: only where curves are drawn

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
    lift = np.where(rank == 0, 1.0, 1.0 - rank / among * ndtr(1.0 - steps.score))  # the top is 1, the others spread
    near = NEAR + (1 - NEAR) * np.clip(lift, 0.0, 1.0)
    near = _squeezed(near, span, steps, near_steps == size, curve)
    low = _low(steps, curve, rank, near_steps, span, is_near, near, share)
    return span, np.where(is_near, near, low)


def _sum(values: Floats, steps: Steps) -> Floats:
    found: Floats = np.add.reduceat(values, steps.point[:-1]) if len(values) else np.zeros(0)
    return found


def _spans(steps: Steps, curve: Ints, is_near: np.ndarray, share: Floats) -> Floats:
    upper = _sum(np.where(is_near, steps.length, 0.0), steps)
    lower = _sum(np.where(is_near, 0.0, steps.length), steps)
    by = np.where(is_near, (share / np.maximum(upper, 1e-300))[curve], ((1 - share) / np.maximum(lower, 1e-300))[curve])
    return steps.length * by


def _squeezed(near: Floats, span: Floats, steps: Steps, all_near: np.ndarray, curve: Ints) -> Floats:
    """Where all steps are near the peak, their distance from it in line with the mean that is wanted."""
    below = 1.0 - _sum(near * span, steps)
    by = np.where(all_near, (1.0 - steps.ratio) / np.maximum(below, 1e-9), 1.0)
    return np.maximum(1.0 - (1.0 - near) * by[curve], NEAR)


def _low(
    steps: Steps, curve: Ints, rank: Ints, near_steps: Ints, span: Floats, is_near: np.ndarray, near: Floats,
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
