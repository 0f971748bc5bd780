"""Provisioning: the least memory that keeps 95 % of the throughput (Fig. 8.6, section 8.4.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unrack_papers.claim import MORE, Check, Claim, Of, exceeds, lies
from unrack_papers.measured import Measured, known_within
from unrack_papers.pages.figure import LINES, curves, framed, names, numbers, rows_of_figures
from unrack_papers.pages.sheet import Sheet, grid, line, texts
from unrack_papers.reproduction import Numbers, Place, Point, Quantity, Spec, Values
from unrack_papers.within import Value
from unrack_papers.zacarias.dynamic.systems import (
    ALL_SYSTEMS,
    AXIS,
    BASELINE,
    DYNAMIC,
    NOTES,
    STATIC,
    mix,
    normalised,
    provisioned,
    rows_at,
)
from unrack_papers.zacarias.response import FoundNumber, Headline, claims_of, gained, greatest, headlines_sheet
from unrack_papers.zacarias.systems import THROUGHPUT
from unrack_papers.zacarias.throughput import least_share, of_the_tried

LARGE = 50
OVER = (0, 30, 60, 100)
LEAST = "least"
"""In place of a place on the axis: of all systems."""
NEEDED = Quantity("memory needed", "least", 100, 1, "%", steps=True)
BETWEEN = Quantity("memory needed, interpolated", "least.between", 100, 1, "%")
UNMET = Quantity("not even 100 % is enough", "least.unmet", 100, 0, "%")
"""Seeds on which that is so; the memory needed is then known only to be above 100 %."""
POLICIES = (STATIC, DYNAMIC)


def title(over: int) -> str:
    """The panel of requests that are so much too high."""
    return f"+{over} %"


PANELS = {title(over): (title(over), POLICIES) for over in OVER}


def base(place: Place) -> Place:
    """The baseline on 100 % memory, asked for what is used."""
    return title(0), 100, BASELINE


def with_least(values: Values) -> Values:
    """Throughput normalised, and for each overestimate and policy a place with the least memory that is enough.

    Where not even 100 % of the memory is, more is needed, and where the least that is tried is enough, perhaps less:
    the number is then known only to be at least, or at most, that.
    """
    found = normalised(values, base)
    for over in OVER:
        for name in POLICIES:
            seeds = range(len(found.get((title(over), ALL_SYSTEMS[-1], name), ())))
            found[title(over), LEAST, name] = tuple(_least(found, title(over), name, seed) for seed in seeds)
    return found


def _least(values: Values, group: str, name: str, seed: int) -> Numbers:
    throughput = {memory: values[group, memory, name][seed].get(THROUGHPUT.metric) for memory in ALL_SYSTEMS}
    least, between = least_share(throughput)
    numbers: Numbers = {UNMET.metric: float(least is None)}
    for one, share in ((NEEDED, least), (BETWEEN, between)):
        numbers |= known_within(one.metric, of_the_tried(share, ALL_SYSTEMS[0] / 100, ALL_SYSTEMS[-1] / 100))
    return numbers


def _grows(measured: Measured) -> Iterable[Check]:
    """Static needs more memory if requests are doubled."""
    gap = measured.gap((title(100), LEAST, STATIC), (title(0), LEAST, STATIC), NEEDED.label)
    words = "memory needed by static at +100 % less that at +0 %"
    yield Check(words, LEAST, gap, MORE, unit="points", steps=NEEDED.steps)


def _needed(measured: Measured) -> Spec:
    """The memory needed over the overestimate, a line a policy."""
    lines: list[dict[str, Any]] = []
    for over in OVER:
        for name in POLICIES:
            found = measured.at((title(over), LEAST, name), NEEDED.label)
            lines.append(
                {
                    "panel": f"{LARGE} % large jobs",
                    "row": name,
                    "x": title(over),
                    "y": None if found is None else found.mean,
                }
            )
    unit: Spec = {
        "mark": {"type": "line", "strokeWidth": 1.6, "point": True},
        "encoding": {
            "x": names("x", title="requests above use", sort=None, axis={"labelAngle": 0}),
            "y": numbers("y", AXIS, scale={"domain": [0, 100]}),
            "color": names("row", POLICIES, legend=LINES),
            "strokeDash": names("row", POLICIES, [[1, 0]] * len(POLICIES)),
        },
    }
    return framed(measured, lines, [f"{LARGE} % large jobs"], unit, 320)


def saved(measured: Measured) -> FoundNumber:
    """The greatest saving of memory by dynamic over static, at any overestimate, %."""
    gains = [
        gained(measured, (title(over), LEAST, DYNAMIC), (title(over), LEAST, STATIC), NEEDED.label, title(over))
        for over in OVER
    ]
    best = greatest(gains, -1)
    return FoundNumber(best.where, _negative(best.values), tuple(map(_negative, best.several)), Of.GREATEST)


def _negative(values: Iterable[Value | None]) -> list[Value | None]:
    return [None if value is None else -value for value in values]


HEADLINES = (
    Headline(
        "memory saved by dynamic over static, at most",
        "At 95 % of the throughput dynamic needs up to almost 40 % less memory than static (within 8 points)",
        "§8.4.4, Fig. 8.6",
        40,
        saved,
        32,
        48,
        steps=True,
    ),
)


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    quantities = (NEEDED, BETWEEN, UNMET)
    lines = tuple(
        line(title(over), name, *texts(measured, (title(over), LEAST, name), quantities))
        for over in OVER
        for name in POLICIES
    )
    heads = ("requests", "", *(f"{one.label.replace(', ', ',' + chr(10))}, {one.unit}" for one in quantities))
    return (
        headlines_sheet(measured, HEADLINES),
        Sheet("least memory that keeps 95 % of the throughput: ours ± 95 %", heads, lines, 2),
        grid(measured, THROUGHPUT.label, "throughput over that of the baseline on 100 % memory", POLICIES),
    )


REPRODUCTION = provisioned(
    name="dynamic-memory",
    shows="Figure 8.6",
    summary="least memory for 95 % of the throughput, by overestimate",
    setup="Half of the node-hours are by large jobs. Nine systems of 25 to 100 % of 128 GB a node are tried for each "
    "overestimate; the least is the smallest below which none is enough, going down from 100 %. Interpolated: where a "
    "straight line between the systems' throughputs crosses 95 % of the baseline's on 100 % memory with exact ones.",
    points=tuple(
        Point(
            title(over),
            memory,
            mix(LARGE, over),
            tuple(own for own in rows_at(LARGE, over, memory) if own.name != BASELINE or memory == 100),
        )
        for over in OVER
        for memory in ALL_SYSTEMS
    ),
    quantities=(THROUGHPUT, NEEDED, BETWEEN, UNMET),
    claims=(
        *claims_of(HEADLINES),
        Claim("Static needs more memory at +100 % than with exact requests", "§8.4.4, Fig. 8.6", _grows),
        Claim(
            "Dynamic needs at most three quarters of the memory even if requests are doubled",
            "§8.4.4, Fig. 8.6",
            lies(NEEDED.label, DYNAMIC, [title(100)], [LEAST], 0, 75),
        ),
        Claim(
            "With requests that are too high static needs more memory than dynamic",
            "§8.4.4, Fig. 8.6",
            exceeds(NEEDED.label, STATIC, DYNAMIC, [title(over) for over in OVER if over], [LEAST]),
        ),
    ),
    draw=rows_of_figures([_needed, curves(THROUGHPUT.label, "normalised throughput", PANELS)]),
    x_title=AXIS,
    group_title="requests",
    notes=(
        "Where not even 100 % of the memory keep 95 % of the throughput, more is needed than was tried: what is "
        "needed, and what dynamic saves of it, is known only to be at least so much (≥). Systems of more than 100 % "
        "are not in the thesis.",
        *NOTES,
    ),
    derive=with_least,
    tables=_tables,
)
