"""Provisioning: how many nodes share their memory (Fig. 8.12, section 8.4.9)."""

from __future__ import annotations

import math

import numpy as np

from unrack_papers.claim import MORE, Checks, Claim, changes, exceeds, together
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import curves
from unrack_papers.pages.sheet import Sheet, grid
from unrack_papers.reproduction import Numbers, Point, Quantity, Values
from unrack_papers.zacarias.charts import in_columns
from unrack_papers.zacarias.dynamic.counts import LEVELS
from unrack_papers.zacarias.dynamic.systems import AXIS, DYNAMIC, NOTES, STATIC, mix, provisioned, row
from unrack_papers.zacarias.response import FoundNumber, Headline, claims_of, headlines_sheet

MIXES = (15, 25, 50, 100)
SYSTEMS: tuple[float, ...] = (28.75, 37.5, 50, 62.5, 75, 100)
POLICIES = (STATIC, DYNAMIC)
ALL = "all systems"
SHARING = Quantity("nodes that share memory, median", "lending.50", 100, 1, "%", tolerance=5)
OFTEN = Quantity("… in a tenth of the time at least", "lending.90", 100, 1, "%")


def title(large: int) -> str:
    """The panel of a mix."""
    return f"{large} % large jobs"


def with_all(values: Values) -> Values:
    """For each mix and policy a place with the median over all systems and all of their time."""
    found = dict(values)
    for large in MIXES:
        for name in POLICIES:
            runs = [values[title(large), memory, name] for memory in SYSTEMS if (title(large), memory, name) in values]
            found[title(large), ALL, name] = tuple(pooled(seeds) for seeds in zip(*runs, strict=True))
    return found


def pooled(runs: tuple[Numbers, ...]) -> Numbers:
    """The median and the nine tenths of several runs' quantiles over time, each run counting alike.

    Examples
    --------
    >>> low = {f"lending.{level}": 0.1 for level in LEVELS}
    >>> high = {f"lending.{level}": 0.3 for level in LEVELS}
    >>> round(pooled((low, low, high))["lending.50"], 3)
    0.1
    """
    shares = [value for run in runs for level in LEVELS if (value := run.get(f"lending.{level}")) is not None]
    if not shares:
        return {SHARING.metric: None, OFTEN.metric: None}
    return {SHARING.metric: float(np.quantile(shares, 0.5)), OFTEN.metric: float(np.quantile(shares, 0.9))}


PAPER: dict[tuple[float | str, str], float] = {
    (ALL, STATIC): 31.0,
    (ALL, DYNAMIC): 18.8,
    (28.75, STATIC): 59.4,
    (28.75, DYNAMIC): 39.8,
}
"""(System, policy) → nodes that share memory, median over time, %, with large jobs only."""


def _found(memory: float | str, name: str) -> Headline:
    where = memory if isinstance(memory, str) else f"{memory:g} % memory"
    paper = PAPER[memory, name]

    def find(measured: Measured) -> FoundNumber:
        return FoundNumber(f"{title(100)}, {where}", measured.each((title(100), memory, name), SHARING.label))

    return Headline(
        f"nodes that share memory, {name}",
        f"With large jobs only, {where}: under {name} a median of "
        f"{paper:g} % of the nodes share memory (within 5 points)",
        "§8.4.9, Fig. 8.12",
        paper,
        find,
        paper - 5,
        paper + 5,
    )


def _fewer(name: str) -> Checks:
    return changes(SHARING.label, name, [title(large) for large in MIXES], 37.5, 75, -math.inf, -MORE)


HEADLINES = tuple(_found(*place) for place in PAPER)


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    return (
        headlines_sheet(measured, HEADLINES),
        grid(measured, SHARING.label, "nodes that lend memory, median over time, %", POLICIES),
    )


REPRODUCTION = provisioned(
    name="dynamic-sharing",
    shows="Figure 8.12",
    summary="share of the nodes that share their memory, over time",
    setup="Jobs that ask for what they use, on systems of 28.75 to 100 % of 128 GB a node. A node shares its memory "
    "while it lends any to another. Medians are over the time from the first submission to the last end, each moment "
    "counting alike; of all systems together, each system counting alike.",
    points=tuple(
        Point(title(large), memory, mix(large), tuple(row(name, memory) for name in POLICIES))
        for large in MIXES
        for memory in SYSTEMS
    ),
    quantities=(SHARING, OFTEN),
    claims=(
        *claims_of(HEADLINES),
        Claim(
            "Under static a greater share of the nodes share memory than under dynamic, with large jobs only, on "
            "every system that is short of memory",
            "§8.4.9, Fig. 8.12",
            exceeds(SHARING.label, STATIC, DYNAMIC, [title(100)], [x for x in SYSTEMS if x < 100]),
        ),
        Claim(
            "The more memory a system has the fewer nodes share it: fewer with 75 than with 37.5 % memory, for each "
            "policy",
            "§8.4.9, Fig. 8.12",
            together(*(_fewer(name) for name in POLICIES)),
        ),
    ),
    draw=in_columns(curves(SHARING.label, "nodes that share memory, %"), 2),
    x_title=AXIS,
    group_title="mix",
    printed={(title(100), memory, name): {SHARING.label: paper} for (memory, name), paper in PAPER.items()},
    notes=(
        "The thesis counts `nodes sharing memory capacity`; we count those that lend. That fits its 59 % on 28 % of "
        "the memory, where most nodes cannot compute.",
        "Why more nodes share here than in the thesis (39.8 %) under dynamic on the least memory is open. It is 52 % "
        "as drawn, 51 % at a load of 0.8, 51 % if remote memory moves back as soon as there is room, 46 % if the part "
        "of their peak that jobs leave is half as much again, and 44 % if it is twice as much (one seed each): less "
        "use is nearer to the thesis's share of nodes, and further from its throughput.",
        "Its boxes are over time; which systems they are of is in its pictures only, but for the least, of 28 %.",
        *NOTES,
    ),
    derive=with_all,
    tables=_tables,
)
