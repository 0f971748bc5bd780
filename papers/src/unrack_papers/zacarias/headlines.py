"""Numbers that the thesis names in its text: its value, ours and the difference, and a claim with the same margin.

"Up to 12 %" is of all places that a figure has, and the thesis does not always say which one; it is then compared with
the greatest of ours. The table names the place where that is so in the mean over the seeds; another may be the greatest
in truth, and the verdict allows for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unrack import Estimate
from unrack_papers.claim import Check, Claim, Of
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Cell, Sheet, line, number, signed
from unrack_papers.reproduction import Place
from unrack_papers.verdict import SIGNS
from unrack_papers.within import Value, ends, mean_of


class FoundNumber(NamedTuple):
    """A number of ours: at which place, and a value a seed; of which several places it is the greatest (least)."""

    where: str
    values: Sequence[Value | None]
    several: tuple[Sequence[Value | None], ...] = ()
    of: Of = Of.EVERY

    @property
    def mean(self) -> Estimate | None:
        """Its mean over the seeds."""
        return mean_of(self.values)


@dataclass(frozen=True)
class Headline:
    """A number of the text.

    Attributes
    ----------
    words
        What is measured.
    sentence, source
        The claim, with the margin that we judge it by, and where it is made.
    paper
        The number.
    find
        Ours.
    low, high
        We agree between them, both included.
    unit
        ``"%"``, ``"points"`` or ``"times"``.
    sign
        ``">"`` or ``"<"`` where the text says more than, or less than; else ``""``.
    decimals
        How many are shown of ours.
    steps
        It can have a few values only.
    """

    words: str
    sentence: str
    source: str
    paper: float
    find: Callable[[Measured], FoundNumber]
    low: float = -math.inf
    high: float = math.inf
    unit: str = "%"
    sign: str = ""
    decimals: int = 1
    steps: bool = False

    @property
    def claim(self) -> Claim:
        """The claim."""
        return Claim(self.sentence, self.source, lambda measured: [self.check(measured)])

    def check(self, measured: Measured) -> Check:
        """Ours, with where it should lie."""
        found = self.find(measured)
        return Check(
            self.words, found.where, found.mean, self.low, self.high, self.unit, measured.reproduction.exact,
            tuple(map(mean_of, found.several)), found.of, self.steps, measured.chance,
        )  # fmt: skip


def claims_of(headlines: Iterable[Headline]) -> tuple[Claim, ...]:
    """The claims of several headlines."""
    return tuple(one.claim for one in headlines)


def headlines_sheet(measured: Measured, headlines: Sequence[Headline]) -> Sheet:
    """A line a headline: the thesis's number with the sign of the verdict, ours, and the difference."""
    lines = []
    for one in headlines:
        check = one.check(measured)
        words, paper = f"{one.words}, {one.unit}", f"{one.sign}{' ' if one.sign else ''}{one.paper:g}"
        gap = "–" if check.value is None else signed(check.value.mean - one.paper, one.decimals)
        sign = f" {SIGNS[check.verdict]}" if check.value is not None else ""
        lines.append(line(words, check.where, Cell((paper + sign,)), number(check.value, one.decimals), gap))
    heads = ("what", "where", "the thesis's", "ours", "difference")
    return Sheet("numbers of the text: ours ± 95 %, and how far they are from the thesis's", heads, tuple(lines), 2)


def gained(measured: Measured, more: Place, less: Place, label: str, where: str) -> FoundNumber:
    """How much more a quantity is at one place than at another, in % of the other, seed by seed."""
    pairs = zip(measured.each(more, label), measured.each(less, label), strict=False)
    values = [100 * (a / b - 1) if a is not None and b else None for a, b in pairs]
    return FoundNumber(where, values)


def apart(measured: Measured, more: Place, less: Place, label: str, where: str, factor: float = 100.0) -> FoundNumber:
    """How far a quantity is above that at another place, times a factor, seed by seed."""
    values = [None if gap is None else factor * gap for gap in measured.gaps(more, less, label)]
    return FoundNumber(where, values)


def greatest(several: Iterable[FoundNumber], sign: int = 1) -> FoundNumber:
    """The one whose mean is greatest (least, with a sign of -1), the first of equals, and all of which it is that.

    One without values if none has.

    Examples
    --------
    >>> greatest([FoundNumber("a", [1.0, 2.0]), FoundNumber("b", [3.0, None]), FoundNumber("c", [])]).where
    'b'
    """
    known = [(found, mean) for found in several if (mean := found.mean) is not None]
    if not known:
        return FoundNumber("nowhere", ())
    end = 1 if sign > 0 else 0  # of equals one that may be more than is known
    best = max(known, key=lambda pair: (sign * pair[1].mean, sign * ends(pair[1])[end].mean))[0]
    every = tuple(found.values for found, _ in known)
    return best._replace(several=every, of=Of.GREATEST if sign > 0 else Of.LEAST)
