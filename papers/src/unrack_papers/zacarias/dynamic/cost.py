"""Provisioning: throughput per dollar (Fig. 8.5, section 8.4.3, prices of Table 5.2)."""

from __future__ import annotations

from collections.abc import Iterable

from unrack_papers.claim import Check, Claim, Of, most_telling
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import curves
from unrack_papers.pages.sheet import Sheet, grid
from unrack_papers.reproduction import Place, Point, Quantity, Values
from unrack_papers.zacarias.charts import in_columns
from unrack_papers.zacarias.dynamic.systems import (
    BASELINE,
    DYNAMIC,
    GAINS,
    MIXES,
    NODES,
    NOTES,
    ROWS,
    STATIC,
    mix,
    normalised,
    provisioned,
    rows_at,
)
from unrack_papers.zacarias.response import FoundNumber, Headline, claims_of, gained, greatest, headlines_sheet
from unrack_papers.zacarias.systems import THROUGHPUT

NODE_DOLLARS = 10_154
"""A node with its network, switches and small storage, without memory."""
MEMORY_DOLLARS = 1_280
"""128 GB."""
SYSTEMS: tuple[float, ...] = (100, 75, 50, 25)
OVER = (0, 60)
PER_DOLLAR = Quantity("throughput per dollar", "jobs_per_h_per_million_dollars", 1, 3, "jobs/h per $ million")


def title(memory: float, over: int) -> str:
    """The panel of a system, and how much more than they use jobs ask for."""
    return f"{memory:g} % memory, +{over} %"


GROUPS = {title(memory, over): (memory, over) for over in OVER for memory in SYSTEMS}


def dollars(memory: float, nodes: int = NODES) -> float:
    """The price of a system with so many % of 128 GB a node.

    Examples
    --------
    >>> dollars(100, nodes=1), dollars(25, nodes=1)
    (11434.0, 10474.0)
    """
    return nodes * (NODE_DOLLARS + MEMORY_DOLLARS * memory / 100)


def per_dollar(values: Values) -> Values:
    """Throughput per million dollars, and throughput normalised."""
    found: Values = {}
    for place, seeds in normalised(values, _base).items():
        million = dollars(GROUPS[place[0]][0]) / 1e6
        found[place] = tuple(
            {**seed, PER_DOLLAR.metric: None if (rate := seed.get("jobs_per_h")) is None else rate / million}
            for seed in seeds
        )
    return found


def _base(place: Place) -> Place:
    return title(100, 0), place[1], BASELINE


def _cheaper(measured: Measured) -> FoundNumber:
    more, less = (title(25, 0), 0, DYNAMIC), (title(100, 0), 0, BASELINE)
    return gained(measured, more, less, PER_DOLLAR.label, f"{more[0]}, no large job, to {BASELINE}, {less[0]}")


def gains(measured: Measured, over: int) -> list[FoundNumber]:
    """How much more throughput per dollar dynamic has than static, at every place, %."""
    places = [(title(memory, over), large) for memory in SYSTEMS for large in MIXES]
    return [
        gained(
            measured,
            (group, large, DYNAMIC),
            (group, large, STATIC),
            PER_DOLLAR.label,
            f"{group}, {large} % large jobs",
        )
        for group, large in places
    ]


HEADLINES = (
    Headline(
        "25 % memory over 100 %, no large job",
        "Where no job is large, 25 % of the memory in place of all of it "
        "gives 8 % more throughput per dollar (within 2 points)",
        "§8.4.3, Fig. 8.5",
        8,
        _cheaper,
        6,
        10,
    ),
    Headline(
        "dynamic over static, at most, +0 %",
        "With exact requests dynamic has up to 8 % more throughput per dollar than static (within 4 points)",
        "§8.4.3, Fig. 8.5",
        8,
        lambda measured: greatest(gains(measured, 0)),
        4,
        12,
    ),
    Headline(
        "dynamic over static, at most, +60 %",
        "With requests 60 % too high dynamic has up to 38 % more (within 8 points)",
        "§8.4.3, Fig. 8.5",
        38,
        lambda measured: greatest(gains(measured, 60)),
        30,
        46,
    ),
)


def _steeper(measured: Measured) -> Iterable[Check]:
    """From no large job to large jobs only, static falls by more than dynamic does, with requests 60 % too high."""
    for memory in (50, 25):
        group = title(memory, 60)
        falls = []
        for name in (STATIC, DYNAMIC):
            fall = gained(measured, (group, 100, name), (group, 0, name), PER_DOLLAR.label, group)
            falls.append(fall.values)
        pairs = zip(*falls, strict=False)
        gap = FoundNumber(group, [None if a is None or b is None else b - a for a, b in pairs])
        yield Check(
            "fall of static from 0 to 100 % large jobs, less that of dynamic", group, gap.mean, 0.0, unit="points"
        )


def _as_exact(measured: Measured) -> Iterable[Check]:
    """Dynamic loses at most a tenth by requests that are 60 % too high."""
    for memory in SYSTEMS:
        loss = [
            gained(
                measured,
                (title(memory, 60), x, DYNAMIC),
                (title(memory, 0), x, DYNAMIC),
                PER_DOLLAR.label,
                f"{memory:g} % memory, {x} % large jobs",
            )
            for x in MIXES
        ]
        words = "dynamic at +60 % over dynamic at +0 %, worst mix"
        yield most_telling([Check(words, one.where, one.mean, -10.0, unit="%") for one in loss], Of.LEAST)


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    words = "jobs an hour per million dollars"
    return headlines_sheet(measured, HEADLINES), grid(measured, PER_DOLLAR.label, words, ROWS)


REPRODUCTION = provisioned(
    name="dynamic-cost",
    shows="Figure 8.5",
    summary="throughput per dollar, by mix and memory",
    setup="Systems of 100, 75, 50 and 25 % of 128 GB a node, at $10 154 a node without memory and $1 280 for 128 GB. "
    "Top: jobs ask for what they use; bottom: for 60 % more. Jobs an hour are those finished over the makespan.",
    points=tuple(
        Point(group, large, mix(large, over), rows_at(large, over, memory))
        for group, (memory, over) in GROUPS.items()
        for large in MIXES
    ),
    quantities=(PER_DOLLAR, THROUGHPUT),
    claims=(
        *claims_of(HEADLINES),
        Claim(
            "With requests 60 % too high static falls off more steeply as more jobs are large, where memory is half "
            "or less",
            "§8.4.3, Fig. 8.5",
            _steeper,
        ),
        Claim(
            "Dynamic is there roughly as with exact requests: at most 10 % less at every mix",
            "§8.4.3, Fig. 8.5",
            _as_exact,
        ),
    ),
    draw=in_columns(curves(PER_DOLLAR.label, "jobs an hour per $ million"), len(SYSTEMS)),
    x_title="large jobs, % of the node-hours",
    group_title="system",
    notes=(
        "The thesis shows throughput in jobs a second per dollar; ours is in jobs an hour per million dollars. Which "
        "systems its panels show is in the pictures only, but for the first and the last, of 100 and 25 %.",
        GAINS,
        "All prices count, as the thesis has it: memory that lends across nodes costs nothing but the memory.",
        *NOTES,
    ),
    derive=per_dollar,
    tables=_tables,
)
