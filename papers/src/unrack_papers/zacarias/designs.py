"""Disaggregated memory: the local threshold, the designs compared, and lending groups (Fig. 6.8, 6.9 and 6.11)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from unrack_papers.claim import MORE, Checks, Claim, changes, close, exceeds, together, wherever
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import bars, curves
from unrack_papers.pages.sheet import Sheet, columns, grid
from unrack_papers.reproduction import Point, Quantity, Row, Values, X
from unrack_papers.zacarias.systems import (
    BASELINE,
    DISAGGREGATED,
    MATCH,
    NOTES,
    OVER,
    OWN,
    SCENARIOS,
    THROUGHPUT,
    UNDER,
    Scenario,
    along,
    carried,
    lent,
    mix,
    normalised,
    of_kind,
    reference,
    row,
    short,
)

TITLES = [str(one) for one in SCENARIOS]
BOTH = {title: (title, [BASELINE, DISAGGREGATED]) for title in TITLES}
Y = "normalised throughput"
SETUP = "Two systems, of 50 and 25 % large nodes, and three mixes on each. Throughput is normalised for each mix and "
SETUP += "seed to the baseline where all nodes are large."
SHOWN = "Which systems and mixes the thesis shows is in its pictures only; these are ours."


def _along(points: tuple[Point, ...], values: Values) -> Values:
    return carried(normalised(values), points)


def _shown(measured: Measured) -> tuple[Sheet, ...]:
    title = "throughput over that of the baseline where all nodes are large"
    return (grid(measured, THROUGHPUT.label, title, [BASELINE, DISAGGREGATED]),)


# --- Fig. 6.8 ---------------------------------------------------------------------------------------------------

THRESHOLDS: tuple[X, ...] = (1.0, 0.75, 0.5, 0.25, 0.0)


def _of_threshold(one: Scenario, x: X) -> tuple[Row, ...]:
    return (row(DISAGGREGATED, one.nodes, threshold=x),)


THRESHOLD_POINTS = along(THRESHOLDS, _of_threshold)
THRESHOLD = lent(
    name="memory-threshold",
    shows="Figure 6.8",
    summary="throughput as nodes with less and less free memory of their own may compute",
    setup=f"{SETUP} A node may compute only while at least so much of its memory is free: 1 is the policy's own rule, "
    "that a lender does not compute; at 0 every idle node may.",
    points=THRESHOLD_POINTS,
    quantities=(THROUGHPUT,),
    claims=(
        Claim("Throughput falls slightly as the threshold is lowered, by up to 0.1 from 1 to 0, where memory is "
              "borrowed", "§6.3.4, Fig. 6.8",
              changes(THROUGHPUT.label, DISAGGREGATED, of_kind(UNDER), 1.0, 0.0, -0.1, -MORE)),
        Claim("Elsewhere it does not matter: throughput changes by at most 0.02", "this project",
              changes(THROUGHPUT.label, DISAGGREGATED, [*of_kind(OVER), *of_kind(MATCH)], 1.0, 0.0, -0.02, 0.02)),
    ),
    draw=curves(THROUGHPUT.label, Y, BOTH),
    x_title="local threshold",
    notes=("Neither the thresholds nor the scenarios of the thesis are in its text.", *NOTES),
    derive=partial(_along, THRESHOLD_POINTS),
    tables=_shown,
)  # fmt: skip

# --- Fig. 6.9 ---------------------------------------------------------------------------------------------------

DESIGNS = ("Strawman", "Naive", "Local", "Local-spread", DISAGGREGATED)
BARS = (BASELINE, *DESIGNS, OWN)
KINDS = (OVER, MATCH, UNDER)
REMOTE = Quantity("remote memory", "remote_share", 100, 1, "%")
STRETCH = Quantity("run time over that undisturbed", "stretch_mean", 1, 3)
COLUMNS = {
    THROUGHPUT: "throughput over that of the baseline where all nodes are large",
    REMOTE: "share of the memory held that was of other nodes, %",
    STRETCH: "run time over that undisturbed, mean over jobs",
}


def _more(kinds: Sequence[str], more: str, less: str, by: float = MORE) -> Checks:
    return wherever(kinds, lambda group, xs: exceeds(THROUGHPUT.label, more, less, group, xs, by=by))


def _of_designs(measured: Measured) -> tuple[Sheet, ...]:
    return tuple(columns(measured, one.label, words, BARS) for one, words in COLUMNS.items())


POLICIES = lent(
    name="memory-policies",
    shows="Figure 6.9",
    summary="throughput of the designs: strawman, naive, local, local-spread, disaggregated",
    setup=f"{SETUP} Local and local-spread need half of a node's memory to be free for it to compute. Beside the "
    "thesis's designs stand the baseline and a policy of our own, which chooses lenders by the slowdown predicted for "
    "all concerned.",
    points=tuple(
        Point(one.kind, short(one), mix(one.jobs), (*(row(name, one.nodes) for name in BARS), reference()))
        for kind in KINDS
        for one in SCENARIOS
        if one.kind == kind
    ),
    quantities=tuple(COLUMNS),
    claims=(
        Claim("Strawman and naive have the lowest throughput of the designs in every scenario", "§6.3.5, Fig. 6.9",
              together(*(_more(KINDS, more, less) for less in DESIGNS[:2] for more in DESIGNS[2:]))),
        Claim("Where large nodes are too few, local-spread comes close to disaggregated: within 0.05",
              "§6.3.5, Fig. 6.9",
              wherever([UNDER], lambda group, xs: close(THROUGHPUT.label, "Local-spread", DISAGGREGATED, group, xs,
                                                        by=0.05))),
        Claim("Where there are more than needed, local and local-spread have less throughput than disaggregated: they "
              "borrow although there are nodes with enough memory", "§6.3.5, Fig. 6.9",
              together(*(_more([OVER], DISAGGREGATED, name) for name in ("Local", "Local-spread")))),
        Claim("No design has more throughput than disaggregated in any scenario, by 0.01 or more", "§6.3.5",
              together(*(_more(KINDS, DISAGGREGATED, name, by=-0.01) for name in DESIGNS[:-1]))),
        Claim("Our own policy has more than disaggregated where large nodes are too few", "this project",
              _more([UNDER], OWN, DISAGGREGATED)),
    ),
    draw=bars(THROUGHPUT.label, Y, BARS),
    x_title="large jobs / large nodes, %",
    group_title="provision",
    notes=(SHOWN, *NOTES),
    derive=normalised,
    tables=_of_designs,
)  # fmt: skip

# --- Fig. 6.11 --------------------------------------------------------------------------------------------------

GROUPS: tuple[X, ...] = (1, 2, 4, 16, 64, 256, 1024)


def _of_group(one: Scenario, x: X) -> tuple[Row, ...]:
    return (row(DISAGGREGATED, one.nodes, group="all" if x == GROUPS[-1] else x),)


GROUP_POINTS = along(GROUPS, _of_group)
GROUPED = lent(
    name="memory-groups",
    shows="Figure 6.11",
    summary="throughput as memory is shared within groups of 1, 2, 4 … all nodes",
    setup=f"{SETUP} A node may borrow from the nodes of its own group only: nodes next to each other by number, so "
    "that the nodes of a group are of one size but for at most one group. A group of one borrows nothing.",
    points=GROUP_POINTS,
    quantities=(THROUGHPUT,),
    claims=(
        Claim("Where large nodes match the large jobs or exceed them, groups do not matter: throughput changes by at "
              "most 0.02 from groups of 1 to all", "§6.3.7, Fig. 6.11",
              changes(THROUGHPUT.label, DISAGGREGATED, [*of_kind(OVER), *of_kind(MATCH)], 1, 1024, -0.02, 0.02)),
        Claim("Where there are too few, groups of 2 are enough to beat the baseline", "§6.3.7, Fig. 6.11",
              exceeds(THROUGHPUT.label, DISAGGREGATED, BASELINE, of_kind(UNDER), [2])),
        Claim("There, larger groups do not add dramatically: at most 0.1 from groups of 2 to all", "§6.3.7, Fig. 6.11",
              changes(THROUGHPUT.label, DISAGGREGATED, of_kind(UNDER), 2, 1024, -0.02, 0.1)),
    ),
    draw=curves(THROUGHPUT.label, Y, BOTH, doubling=True),
    x_title="nodes in a group",
    notes=(SHOWN, *NOTES),
    derive=partial(_along, GROUP_POINTS),
    tables=_shown,
)  # fmt: skip

REPRODUCTIONS = (THRESHOLD, POLICIES, GROUPED)
