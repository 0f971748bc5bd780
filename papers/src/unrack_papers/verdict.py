"""Verdicts: what intervals say about where numbers should lie; one rule for claims and for printed values.

A false verdict has a chance of at most 5 % (:data:`CHANCE`) for each claim, and for each printed value:

* *Agrees* needs every number to lie in its range by an interval of its own, at 95 %. However many there are, that is
  wrong no more often: it would need the very number that lies outside to look as if it did not (intersection-union).
* *Differs* needs one number only, and the more there are the sooner one looks so by chance. So the intervals are
  those of all numbers together: each at 1 - 5 % / count (Bonferroni, whatever they have in common).
* Where the *greatest* of several is meant, its interval reaches from the greatest of the lower ends, of all together,
  to the greatest of the upper ends, of each alone.

When claims are looked at while seeds are added, and what each look may spend of the chance of a false verdict.

References
----------
Berger (1982), Multiparameter hypothesis testing and acceptance sampling, Technometrics 24.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from unrack import Estimate
from unrack.metric import LEVEL, student_t
from unrack_papers.within import ends


class Verdict(StrEnum):
    """What our numbers say about a paper's."""

    AGREES = "agrees"
    DIFFERS = "differs"
    OPEN = "cannot be judged"


SIGNS = {Verdict.AGREES: "✓", Verdict.DIFFERS: "✗", Verdict.OPEN: "?"}
CHANCE = 1 - LEVEL
"""Chance of a false verdict on a claim, or on a printed value, at most."""
NOT_MEASURED, ONE_SEED, TOO_WIDE = "not measured", "one seed", "the interval reaches across the limit"
ONLY_WITHIN = "known only to be at least, or at most, so much"
ONLY_ALONE = "outside of its range by itself, but not with all numbers of the claim together"
ON_ONE_STEP = "too few seeds that are all on one step"
"""Why something cannot be judged."""


class Ends(NamedTuple):
    """Of an interval."""

    low: float
    high: float

    def inside(self, low: float, high: float) -> bool:
        """True if all of it lies between ``low`` and ``high``, both included."""
        return low <= self.low and self.high <= high

    def outside(self, low: float, high: float) -> bool:
        """True if none of it does."""
        return self.high < low or self.low > high


def interval(value: Estimate | None, exact: bool = False, chance: float = CHANCE) -> Ends | None:
    """The confidence interval of a mean; ``None`` with fewer than two values, unless nothing was drawn.

    Where values are known only within ends, it covers both ends of their mean.

    Parameters
    ----------
    value
        A mean over seeds, its half width at 95 %.
    exact
        Nothing was drawn: the number is its own interval.
    chance
        That the interval misses the mean; half of it on either side.

    Examples
    --------
    >>> interval(Estimate(mean=2.0, half=0.5, count=20))
    Ends(low=1.5, high=2.5)
    >>> round(interval(Estimate(mean=2.0, half=0.5, count=20), chance=0.005).high, 2)
    2.76
    >>> interval(Estimate(mean=2.0, half=0.0, count=1), exact=True)
    Ends(low=2.0, high=2.0)
    """
    if value is None or (value.count < 2 and not exact):
        return None
    floor, ceiling = ends(value)
    if exact:
        return Ends(floor.mean, ceiling.mean)
    wider = 1.0 if chance == CHANCE else student_t(value.count - 1, 1 - chance) / student_t(value.count - 1, LEVEL)
    return Ends(floor.mean - wider * floor.half, ceiling.mean + wider * ceiling.half)


def of_the_greatest(values: Sequence[Estimate], exact: bool, chance: float) -> Ends | None:
    """The interval of the greatest of several means; ``None`` where one of them has none.

    The greatest is at least what any is, so the lower ends hold together; and it is one of them, so that an upper end
    that is wrong is its own.
    """
    lower = [interval(value, exact, chance / len(values)) for value in values]
    upper = [interval(value, exact, chance) for value in values]
    if not values or None in lower:
        return None
    return Ends(max(one.low for one in lower if one), max(one.high for one in upper if one))


def negated(value: Ends) -> Ends:
    """The interval of the number with the other sign."""
    return Ends(-value.high, -value.low)


def fewest_alike(chance: float) -> int:
    """How many seeds that are all on one step say that it is the middle one, by a sign test.

    Examples
    --------
    >>> fewest_alike(0.05), fewest_alike(0.025)
    (6, 7)
    """
    return math.ceil(1 - math.log2(chance) - 1e-9)


def judge(alone: Ends | None, together: Ends | None, low: float, high: float) -> tuple[Verdict, str]:
    """Whether a number lies between ``low`` and ``high``, and if that cannot be judged, why.

    It agrees (differs) if all (none) of its interval lies there, and cannot be judged otherwise: so an interval wider
    than the range never agrees.

    Parameters
    ----------
    alone, together
        Its interval by itself, and the one that holds together with those of all other numbers; ``None``: one seed.
    low, high
        The range, both ends included.

    Examples
    --------
    >>> judge(Ends(4, 6), Ends(4, 6), 2, 10)[0], judge(Ends(11, 13), Ends(9, 15), 2, 10)[1]
    (<Verdict.AGREES: 'agrees'>, 'outside of its range by itself, but not with all numbers of the claim together')
    """
    if alone is None or together is None:
        return Verdict.OPEN, ONE_SEED
    if alone.inside(low, high):
        return Verdict.AGREES, ""
    if together.outside(low, high):
        return Verdict.DIFFERS, ""
    return Verdict.OPEN, ONLY_ALONE if alone.outside(low, high) else TOO_WIDE


class Looks(NamedTuple):
    """When claims are looked at: after twice as many seeds from time to time.

    Attributes
    ----------
    first
        After how many seeds the first time.
    most
        Seeds that may be spent.
    """

    first: int
    most: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """After how many seeds each time; what the budget has beyond the last is not spent.

        Examples
        --------
        >>> Looks(3, 25).seeds
        (3, 6, 12, 24)
        """
        return tuple(self.first << i for i in range((self.most // self.first).bit_length()))


def chance_of(look: int) -> float:
    """The chance of a false verdict that is spent at a look, of which the first is 1; over all looks it is 5 %.

    Examples
    --------
    >>> [round(chance_of(look), 4) for look in (1, 2, 3)]
    [0.025, 0.0083, 0.0042]
    """
    return CHANCE / (look * (look + 1))
