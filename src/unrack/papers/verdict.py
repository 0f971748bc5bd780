"""Verdicts: what an interval says about where a number should lie; one rule for claims and for printed values."""

from __future__ import annotations

from enum import StrEnum

from unrack.report.setting import Estimate


class Verdict(StrEnum):
    """What our numbers say about a paper's."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "cannot be judged"


SIGNS = {Verdict.AGREES: "✓", Verdict.DIFFERS: "✗", Verdict.OPEN: "?"}
NOT_MEASURED, ONE_SEED, TOO_WIDE = "not measured", "one seed", "the interval reaches across the limit"
"""Why something cannot be judged."""


def interval(value: Estimate | None, exact: bool = False) -> tuple[float, float] | None:
    """The 95 % confidence interval of a mean; ``None`` with fewer than two values, unless nothing was drawn.

    Examples
    --------
    >>> interval(Estimate(mean=2.0, half=0.5, count=20))
    (1.5, 2.5)
    >>> interval(Estimate(mean=2.0, half=0.0, count=1), exact=True)
    (2.0, 2.0)
    """
    if value is None or (value.count < 2 and not exact):
        return None
    return (value.mean, value.mean) if exact else (value.mean - value.half, value.mean + value.half)


def judge(value: Estimate | None, low: float, high: float, exact: bool = False) -> tuple[Verdict, str]:
    """Whether a number lies between ``low`` and ``high``, and if that cannot be judged, why.

    It agrees (differs) if all (none) of its 95 % interval lies there, and cannot be judged otherwise: so an interval
    wider than the range never agrees. A number without randomness is its own interval.

    Examples
    --------
    >>> judge(Estimate(5.0, 1.0, 20), 2, 10)[0], judge(Estimate(-2.3, 41.3, 3), 11, 17)[0]
    (<Verdict.AGREES: 'agrees'>, <Verdict.OPEN: 'cannot be judged'>)
    """
    if value is None:
        return Verdict.OPEN, NOT_MEASURED
    ends = interval(value, exact)
    if ends is None:
        return Verdict.OPEN, ONE_SEED
    if low <= ends[0] and ends[1] <= high:
        return Verdict.AGREES, ""
    return (Verdict.DIFFERS, "") if ends[1] < low or ends[0] > high else (Verdict.OPEN, TOO_WIDE)
