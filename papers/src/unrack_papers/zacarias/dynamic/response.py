"""Provisioning: distributions of response times (Fig. 8.4, section 8.4.2)."""

from __future__ import annotations

from collections.abc import Iterable

from unrack_papers.claim import Check, Claim, Of, exceeds, most_telling, together
from unrack_papers.measured import Measured
from unrack_papers.pages.sheet import Sheet, line, texts
from unrack_papers.reproduction import Point, Quantity
from unrack_papers.zacarias.charts import distribution, in_columns
from unrack_papers.zacarias.counts import DAY, HOUR, MINUTE, RESPONSES_S
from unrack_papers.zacarias.dynamic.systems import AXIS, DYNAMIC, NOTES, STATIC, mix, provisioned, rows_at
from unrack_papers.zacarias.response import FoundNumber, Headline, claims_of, gained, greatest, headlines_sheet
from unrack_papers.zacarias.systems import MATCH, OVER, UNDER

LARGE = 50
OVERESTIMATES = (0, 60)
SYSTEMS: dict[float, str] = {100: OVER, 75: MATCH, 50: UNDER, 37.5: UNDER}
"""Systems for half of the node-hours by large jobs → how they are provisioned."""
UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (1, "s"))
MEDIAN = Quantity("median response", "response.median", 1 / HOUR, 2, "h")
MEAN = Quantity("mean response", "response.mean", 1 / HOUR, 2, "h")
TOLD = (HOUR, 3 * HOUR, 12 * HOUR, DAY, 4 * DAY)
"""Of the times at which the distribution is taken, those in the table, s."""


def within(time_s: int) -> Quantity:
    """The share of the jobs whose response takes at most so long."""
    size, unit = next((size, unit) for size, unit in UNITS if time_s % size == 0)
    return Quantity(f"within {time_s // size} {unit}", f"within.{time_s}", 100, 1, "%")


def title(memory: float, over: int) -> str:
    """The panel of a system, and how much more than they use jobs ask for."""
    return f"{SYSTEMS[memory]}: {memory:g} % memory, +{over} %"


GROUPS = {title(memory, over): (memory, over) for over in OVERESTIMATES for memory in SYSTEMS}


def shorter(measured: Measured) -> FoundNumber:
    """The greatest cut of the median by dynamic, on a system that is short of memory, with requests 60 % too high."""
    groups = [title(memory, 60) for memory, kind in SYSTEMS.items() if kind == UNDER]
    gains = []
    for group in groups:
        x = measured.xs(group)[0]
        gains.append(gained(measured, (group, x, DYNAMIC), (group, x, STATIC), MEDIAN.label, group))
    return greatest(gains, -1)


HEADLINES = (
    Headline(
        "median response of dynamic over static",
        "Where memory is short and requests are 60 % too high, the "
        "median response is up to 69 % shorter under dynamic (within 10 points)",
        "§8.4.2, Fig. 8.4",
        -69,
        shorter,
        -79,
        -59,
    ),
)


def _close(measured: Measured) -> Iterable[Check]:
    """Quantiles differ little where requests are exact: shown is the greatest gap of the distributions."""
    for group in (group for group, (memory, over) in GROUPS.items() if not over and SYSTEMS[memory] != UNDER):
        x = measured.xs(group)[0]
        gaps = [measured.gap((group, x, DYNAMIC), (group, x, STATIC), within(one).label) for one in RESPONSES_S]
        words = "greatest gap of the distributions, Dynamic less Static"
        yield most_telling([Check(words, group, gap, -5, 5, "points") for gap in gaps], Of.EVERY)


def _shorter(label: str) -> Claim:
    several = [exceeds(label, STATIC, DYNAMIC, [title(memory, 60)], [memory]) for memory in SYSTEMS if memory != 100]
    return Claim(
        f"With requests 60 % too high the {label} is shorter under dynamic, on systems that match the jobs "
        "and on those that are short of memory",
        "§8.4.2, Fig. 8.4",
        together(*several),
    )


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    quantities = (MEDIAN, MEAN, *map(within, TOLD))
    lines = tuple(
        line(group, own.name, *texts(measured, (group, measured.xs(group)[0], own.name), quantities))
        for group in measured.groups
        for own in measured.rows(group)
    )
    heads = ("system", "", *(f"{one.label.replace(' ', chr(10), 1)}, {one.unit}" for one in quantities))
    return (
        headlines_sheet(measured, HEADLINES),
        Sheet("response times, and the share of the jobs that are done in time: ours ± 95 %", heads, lines, 2),
    )


REPRODUCTION = provisioned(
    name="dynamic-response",
    shows="Figure 8.4",
    summary="distribution of response times under static and dynamic provisioning",
    setup="Half of the node-hours are by large jobs, on systems of more large nodes than that (overprovisioned), as "
    "many (match), and none (underprovisioned). Top: jobs ask for what they use; bottom: for 60 % more. Response is "
    "waiting and running. Distributions are means over the seeds of the share within each time.",
    points=tuple(
        Point(group, memory, mix(LARGE, over), rows_at(LARGE, over, memory)) for group, (memory, over) in GROUPS.items()
    ),
    quantities=(MEDIAN, MEAN, *map(within, RESPONSES_S)),
    claims=(
        *claims_of(HEADLINES),
        Claim(
            "With exact requests and enough large nodes the distributions of static and dynamic differ by at most 5 "
            "points",
            "§8.4.2, Fig. 8.4",
            _close,
        ),
        _shorter(MEDIAN.label),
        _shorter(MEAN.label),
    ),
    draw=in_columns(
        distribution({"all": [(time_s, within(time_s).label) for time_s in RESPONSES_S]}, ["all"]), len(SYSTEMS)
    ),
    x_title=AXIS,
    group_title="system",
    notes=(
        "Which mixes and systems the thesis shows is in its pictures only; these are ours, two of them short of "
        "memory. `A 69 % lower median` is compared with the one of the two where ours is lower by more.",
        *NOTES,
    ),
    tables=_tables,
)
