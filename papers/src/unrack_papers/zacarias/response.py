"""Disaggregated memory: response times of all, large and normal jobs (Fig. 6.5 and 6.6, section 6.3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unrack_papers.claim import Check, Checks, Claim, Of, exceeds, lies, most_telling, together, wherever
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Sheet, line, texts
from unrack_papers.reproduction import Point, Quantity, Values
from unrack_papers.within import mean_of
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
