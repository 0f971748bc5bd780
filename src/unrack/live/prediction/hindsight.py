"""How good earlier predictions were, once their jobs have started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unrack.live.prediction.saved import Saved, SavedStart
from unrack.live.prediction.starts import QUANTILES

EXACT_S = 1.0
"""Slurm tells of starts in whole seconds: what is no farther off than that is right."""


@dataclass(frozen=True)
class Hindsight:
    """Predictions under one policy against what happened; each job counts once, by the first prediction of it."""

    policy: str  # what they were made under
    compared: int  # how many jobs have started since
    open: int  # how many have not, or went away: of these nothing can be said
    # the quantiles 10, 50 and 90 % of actual start - predicted start (median), s; ``None`` without any
    error_s: tuple[float, float, float] | None
    requested_error_s: tuple[float, float, float] | None  # the same of the predictions by requests
    within: float | None  # the share of the actual starts within the predicted range (10 to 90 %)
    later: float | None  # the share of the jobs that started later than predicted

    @property
    def bias(self) -> str:
        """Which way the predictions were off."""
        if self.error_s is None or self.later is None:
            return "nothing to compare yet"
        if abs(self.error_s[1]) <= EXACT_S:
            return "not biased"
        return "jobs start later than predicted" if self.error_s[1] > 0 else "jobs start earlier than predicted"


def hindsight(saved: Sequence[Saved], started: Mapping[str, float]) -> list[Hindsight]:
    """Compare predictions with starts.

    Parameters
    ----------
    saved
        Earlier predictions, in order of time.
    started
        Job → when it really started, s since 1970; of what the saved lines tell of starts, these win.
    """
    known: dict[str, float] = {}
    for one in saved:
        known |= one.started
    known |= started
    first: dict[str, dict[str, tuple[float, SavedStart]]] = {}
    for one in saved:
        for policy, starts in one.starts.items():
            for start in starts:
                first.setdefault(policy, {}).setdefault(start.job, (one.at_s, start))
    return [_of(policy, list(predictions.values()), known) for policy, predictions in first.items()]


def _of(policy: str, predictions: Sequence[tuple[float, SavedStart]], known: Mapping[str, float]) -> Hindsight:
    pairs = [
        (known[start.job], start)
        for at_s, start in predictions
        if start.job in known and start.middle_s is not None and known[start.job] >= at_s - EXACT_S
    ]
    if not pairs:
        return Hindsight(policy, 0, len(predictions), None, None, None, None)
    errors = np.array([actual - float(start.middle_s or 0) for actual, start in pairs])
    asked = np.array([actual - start.requested_s for actual, start in pairs if start.requested_s is not None])
    late = [np.inf if start.late_s is None else start.late_s for _, start in pairs]
    within = [
        float(start.early_s or 0) - EXACT_S <= actual <= end + EXACT_S
        for (actual, start), end in zip(pairs, late, strict=True)
    ]
    return Hindsight(
        policy, len(pairs), len(predictions) - len(pairs), _quantiles(errors), _quantiles(asked),
        float(np.mean(within)), float(np.mean(errors > EXACT_S)),
    )  # fmt: skip


def _quantiles(errors: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float, float] | None:
    if not len(errors):
        return None
    low, middle, high = (float(one) for one in np.quantile(errors, QUANTILES))
    return low, middle, high
