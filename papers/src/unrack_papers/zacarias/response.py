"""Disaggregated memory: response times of all, large and normal jobs (Fig. 6.5 and 6.6, section 6.3.2).

Numbers that the thesis names in its text: its value, ours and the difference, and a claim with the same margin.

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
from unrack_papers.claim import Check, Checks, Claim, Of, exceeds, lies, most_telling, together, wherever
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Cell, Sheet, line, number, signed, texts
from unrack_papers.reproduction import Place, Point, Quantity, Values
from unrack_papers.verdict import SIGNS
from unrack_papers.within import Value, ends, mean_of
from unrack_papers.zacarias.charts import distributions
from unrack_papers.zacarias.counts import DAY, HOUR, KINDS, MINUTE, RESPONSES_S
from unrack_papers.zacarias.systems import (
    BASELINE,
    DISAGGREGATED,
    MATCH,
    NOTES,
    OVER,
    SCENARIOS,
    UNDER,
    lent,
    mix,
    of_kind,
    ratio,
    row,
)

UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1, "s"))
BOTH = [(kind, name) for kind in KINDS for name in ("median", "mean")]
STATISTICS = tuple(Quantity(f"{name} response, {kind}", f"response.{kind}.{name}", 1 / HOUR, 2, "h")
                   for kind, name in BOTH)  # fmt: skip
RATIOS = tuple(Quantity(f"{name} response over the baseline's, {kind}", f"ratio.{kind}.{name}") for kind, name in BOTH)
TOP = tuple(str(one) for one in SCENARIOS if one.nodes == 50)
"""The scenarios that are divided by kind of job, as in Fig. 6.6."""


def within(kind: str, time_s: int) -> Quantity:
    """The share of the jobs of a kind whose response takes at most so long."""
    size, unit = next((size, unit) for size, unit in UNITS if time_s % size == 0)
    return Quantity(f"{kind} within {time_s // size} {unit}", f"within.{kind}.{time_s}", 100, 1, "%")


def with_ratios(values: Values) -> Values:
    """Responses under the disaggregated policy over those under the baseline, seed by seed."""
    found = dict(values)
    for group, x, name in values:
        if name != DISAGGREGATED:
            continue
        pairs = zip(values[group, x, DISAGGREGATED], values[group, x, BASELINE], strict=True)
        found[group, x, name] = tuple(
            own | {more.metric: ratio(own.get(one.metric), base.get(one.metric))
                   for more, one in zip(RATIOS, STATISTICS, strict=True)}
            for own, base in pairs
        )  # fmt: skip
    return found


def overlap(kind: str, scenarios: Sequence[str], by: float) -> Checks:
    """The two policies' distributions differ by at most ``by`` points at every time; shown is the greatest gap."""

    def checks(measured: Measured) -> Iterable[Check]:
        for group in scenarios:
            x = measured.xs(group)[0]
            gaps = [
                measured.gap((group, x, DISAGGREGATED), (group, x, BASELINE), within(kind, time_s).label)
                for time_s in RESPONSES_S
            ]
            words = f"greatest gap of the distributions, {kind} jobs"
            yield most_telling([Check(words, group, gap, -by, by, "points") for gap in gaps], Of.EVERY)

    return checks


def alike(by: float) -> Checks:
    """Large and normal jobs gain by ratios that differ by at most ``by``."""

    def checks(measured: Measured) -> Iterable[Check]:
        for group in of_kind(UNDER):
            place = (group, measured.xs(group)[0], DISAGGREGATED)
            large, normal = (f"mean response over the baseline's, {kind}" for kind in ("large", "normal"))
            pairs = zip(measured.each(place, large), measured.each(place, normal), strict=True)
            gap = mean_of(None if a is None or b is None else a - b for a, b in pairs)
            yield Check("mean response over the baseline's, large less normal", group, gap, -by, by)

    return checks


def _longer(label: str) -> Checks:
    return wherever(of_kind(UNDER), lambda group, xs: exceeds(label, BASELINE, DISAGGREGATED, group, xs))


def _shortened(label: str, most: float) -> Checks:
    return wherever(of_kind(UNDER), lambda group, xs: lies(label, DISAGGREGATED, group, xs, 0, most))


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    lines = tuple(
        line(group, own.name, *texts(measured, (group, measured.xs(group)[0], own.name), STATISTICS))
        for group in measured.groups for own in measured.rows(group)
    )  # fmt: skip
    heads = ("scenario", "", *(one.label.replace(" response, ", "\n") for one in STATISTICS))
    return (Sheet("response time in hours: ours ± 95 %", heads, lines, 2),)


CLAIMS = (
    Claim("Where large nodes match the large jobs or exceed them, the two distributions overlap: within 3 points",
          "§6.3.2, Fig. 6.5", overlap("all", [*of_kind(OVER), *of_kind(MATCH)], by=3)),
    Claim("Where there are too few large nodes, responses are shorter under the disaggregated policy, in the mean",
          "§6.3.2, Fig. 6.5", _longer("mean response, all")),
    Claim("There the median is shorter, too", "§6.3.2, Fig. 6.5", _longer("median response, all")),
    Claim("There large and normal jobs benefit: the mean response of either is at most 0.9 of the baseline's",
          "§6.3.2, Fig. 6.6",
          together(*(_shortened(f"mean response over the baseline's, {kind}", 0.9) for kind in ("large", "normal")))),
    Claim("They benefit roughly equally: their ratios differ by at most 0.2", "§6.3.2, Fig. 6.6", alike(by=0.2)),
)  # fmt: skip

REPRODUCTION = lent(
    name="memory-response",
    shows="Figures 6.5 and 6.6",
    summary="distribution of response times, and those of large and normal jobs",
    setup="Two systems, of 50 and 25 % large nodes, and three mixes on each: fewer large jobs than nodes "
    "(overprovisioned), as many (match), and more (underprovisioned). Response is waiting and running; jobs that never "
    "finish would count as never within. Distributions are means over the seeds of the share within each time.",
    points=tuple(
        Point(str(one), one.nodes, mix(one.jobs), (row(BASELINE, one.nodes), row(DISAGGREGATED, one.nodes)))
        for one in SCENARIOS
    ),
    quantities=(*STATISTICS, *RATIOS, *(within(kind, time_s) for kind in KINDS for time_s in RESPONSES_S)),
    claims=CLAIMS,
    draw=distributions({kind: [(t, within(kind, t).label) for t in RESPONSES_S] for kind in KINDS}, TOP),
    x_title="large nodes, %",
    notes=("Which systems and mixes the thesis shows is in its pictures only; these are ours.", *NOTES),
    derive=with_ratios,
    tables=_tables,
)


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
