"""Pools of NVMe, the figures: chapter 4 of A. Call's thesis (see :mod:`unrack_papers.call.tables`).

Figures 4.5-4.11 exist as pictures only: what is checked are the claims of the text about them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from unrack.cluster import PRESETS
from unrack_papers.call.counts import jobs_by_rule, jobs_on_nodes, with_floors
from unrack_papers.call.tables import (
    AWARE,
    FIRST_FIT,
    FLOORS,
    HIGH,
    LOADS,
    MISSED,
    NOTES,
    OWN,
    PAPER,
    SCENARIOS,
    SHARING,
    SIZE,
    TRUE_SHARING,
    TRUE_SIZE,
    of_pools,
    workload,
)
from unrack_papers.claim import MORE, Claim, changes, close, exceeds, lies, narrows, together
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import curves, rows_of_figures, stacks
from unrack_papers.pages.sheet import Sheet, line, number
from unrack_papers.reproduction import Place, Point, Quantity, Reproduction

CLASSES = {"bandwidth-bound": "smufin", "capacity-bound": "capacity", "compute-bound": "compute"}
PLACES = {str(node): f"node {node}: " for node in range(5)}
"""Place on the axis of nodes → what stands before a class in the label of its quantity."""


def node_quantities(classes: Mapping[str, str], nodes: int = 5) -> tuple[Quantity, ...]:
    """Jobs a node and class, and how each class spreads."""
    return (
        *(Quantity(f"node {n}: {word}", f"node{n}.{app}", 1, 0) for n in range(nodes) for word, app in classes.items()),
        *(Quantity(f"busiest: {word}", f"busiest.{app}", 100, 1, "%") for word, app in classes.items()),
        *(Quantity(f"nodes used: {word}", f"nodes.{app}", 1, 1) for word, app in classes.items()),
        Quantity("busiest: all", "busiest", 100, 1, "%"),
    )


def nodes_tables(measured: Measured) -> tuple[Sheet, ...]:
    """A line a node of a layout and row: jobs of each class; quantities are named ``node N: CLASS``."""
    labels = [q.label for q in measured.reproduction.quantities if q.label.startswith("node ")]
    nodes = list(dict.fromkeys(label.partition(": ")[0] for label in labels))
    classes = list(dict.fromkeys(label.partition(": ")[2] for label in labels))
    lines = []
    for point in measured.reproduction.points:
        for row in point.rows:
            place: Place = (point.group, point.x, row.name)
            for node in nodes:
                cells = [number(measured.at(place, f"{node}: {name}"), 0) for name in classes]
                lines.append(line(point.group, row.shown, node, *cells))
    heads = (measured.reproduction.group_title, "row", "node", *classes)
    return (Sheet("jobs that ran on each node, by class: ours ± 95 %", heads, tuple(lines), 3),)


def _nodes() -> Reproduction:
    layouts = {"(a) disaggregated": "nvme-pool", "(b) physically attached": "nvme-attached"}
    pooled, fixed = layouts
    spread = [
        lies(f"busiest: {word}", AWARE.name, [pooled], [0.7], 20, 30) for word in CLASSES
    ]  # fmt: skip
    return of_pools(
        name="nvme-nodes",
        shows="Figure 4.5",
        paper=PAPER,
        summary="where jobs of each class run, pooled and attached",
        setup="Scenario S1 at a target load of 0.7. Counted are all 1500 jobs. The text does not name the policy: the "
        "figure shows the disaggregation-aware one, the table first fit too.",
        points=tuple(
            Point(title, 0.7, workload("nvme-s1", 0.7),
                  tuple(replace(row, cluster=preset) for row in (AWARE, FIRST_FIT)), "nvme-pool")
            for title, preset in layouts.items()
        ),
        quantities=node_quantities(CLASSES),
        claims=(
            Claim("Pooled, the nodes are balanced: none runs more than 30 % of all jobs (even would be 20 %)",
                  "§4.4.3, Fig. 4.5a", lies("busiest: all", AWARE.name, [pooled], [0.7], 20, 30)),
            Claim("Attached, they are not: one runs more than 30 % of all jobs", "§4.4.3, Fig. 4.5b",
                  lies("busiest: all", AWARE.name, [fixed], [0.7], 30, 100)),
            Claim("Pooled, every class is balanced: no node runs more than 30 % of a class (even would be 20 %)",
                  "§4.4.3, Fig. 4.5a", together(*spread)),
            Claim("Attached, all jobs that use NVMe run on the two nodes that have it", "§4.4.3, Fig. 4.5b",
                  together(*(lies(f"node {n}: {word}", AWARE.name, [fixed], [0.7], 0, 0) for n in (1, 3, 4)
                             for word in ("bandwidth-bound", "capacity-bound")))),
        ),
        draw=stacks(list(CLASSES), AWARE.name, "jobs", "node", PLACES),
        x_title="target CPU load",
        group_title="layout",
        measure=jobs_on_nodes,
        bounded=False,
        tables=nodes_tables,
        notes=("The figure's legend names the scenarios where the caption names kinds of jobs; we take kinds.",
               *NOTES[1:]),
    )  # fmt: skip


RULES = {"maximize composition": "max-composition", "minimize fragmentation": "min-fragmentation"}


def _policies() -> Reproduction:
    share = {rule: f"% by {rule}" for rule in RULES}
    top = share["maximize composition"]
    return of_pools(
        name="nvme-policies",
        shows="Figure 4.6",
        paper=PAPER,
        summary="which placement rule gave jobs their devices",
        setup="The disaggregation-aware policy, pooled, in the three scenarios at five target loads. Counted are all "
        "jobs that asked for NVMe, by the rule in force when they were placed (equation 4.4: maximize composition "
        "where the loads of bandwidth and of capacity are both at most 50 %, or that of bandwidth is at least and "
        "that of capacity at most 70 %).",
        points=tuple(
            Point(group, load, workload(f"nvme-{group.lower()}", load), (AWARE,), "nvme-pool")
            for group in SCENARIOS for load in LOADS
        ),
        quantities=(
            *(Quantity(rule, f"placed.{name}", 1, 0) for rule, name in RULES.items()),
            *(Quantity(share[rule], f"share.{name}", 100, 1, "%") for rule, name in RULES.items()),
        ),
        claims=(
            Claim("In S1 and S3 nearly all devices are given by maximize composition: at least 90 %",
                  "§4.4.3, Fig. 4.6", lies(top, AWARE.name, ["S1", "S3"], LOADS, 90, 100)),
            Claim("In S2 use of minimize fragmentation grows with the load: by 20 points or more from 0.5 to 0.9",
                  "§4.4.3, Fig. 4.6",
                  changes(share["minimize fragmentation"], AWARE.name, ["S2"], 0.5, 0.9, 20, math.inf)),
            Claim("In S2 at 0.9 minimize fragmentation gives nearly all: at least 90 %", "§4.4.3, Fig. 4.6",
                  lies(share["minimize fragmentation"], AWARE.name, ["S2"], [0.9], 90, 100)),
        ),
        draw=stacks(list(RULES), AWARE.name, "jobs"),
        x_title="target CPU load",
        groups=SCENARIOS,
        measure=jobs_by_rule,
        bounded=False,
        notes=NOTES[1:],
    )  # fmt: skip


FACTORS = tuple(round(1 + step / 10, 1) for step in range(11))


def _deadlines() -> Reproduction:
    first, aware = FIRST_FIT.name, AWARE.name
    return of_pools(
        name="nvme-deadlines",
        shows="Figures 4.7, 4.8 and 4.9",
        paper=PAPER,
        summary="tight deadlines: high-priority misses, sharing and composition size as the deadline factor grows",
        setup="The three scenarios at a target load of 0.7, pooled; the deadline factor of high-priority jobs goes "
        "from 1.0 to 2.0 (the text gives 1.0 as the tightest; the other ticks are in the picture only). High-priority "
        "misses are a share of all jobs, as in the tables.",
        points=tuple(
            Point(group, factor, workload(f"nvme-{group.lower()}", 0.7, urgent={"deadline_factor": factor}),
                  (FIRST_FIT, AWARE, OWN), "nvme-pool")
            for group in SCENARIOS for factor in FACTORS
        ),
        quantities=(HIGH, SHARING, SIZE, TRUE_SHARING, TRUE_SIZE),
        claims=(
            Claim("In S1 the aware policy misses fewer high-priority deadlines at every factor", "§4.4.4, Fig. 4.7",
                  exceeds(HIGH.label, first, aware, ["S1"], FACTORS)),
            Claim("In S2 the two are alike: within 2 points at every factor", "§4.4.4, Fig. 4.7",
                  close(HIGH.label, first, aware, ["S2"], FACTORS, by=2)),
            Claim("In S3 the aware policy misses fewer when the factor is very tight (1.0)", "§4.4.4, Fig. 4.7",
                  exceeds(HIGH.label, first, aware, ["S3"], [1.0])),
            Claim("The sharing ratio rises in S1: above first fit's by 0.5 or more at every factor",
                  "§4.4.4, Fig. 4.8", exceeds(SHARING.label, aware, first, ["S1"], FACTORS, by=0.5)),
            Claim("S2 does not profit from sharing: within 0.1 of first fit's ratio", "§4.4.4, Fig. 4.8",
                  close(SHARING.label, aware, first, ["S2"], FACTORS, by=0.1)),
            Claim("S3 profits too: a sharing ratio above first fit's at every factor", "§4.4.4, Fig. 4.8",
                  exceeds(SHARING.label, aware, first, ["S3"], FACTORS)),
            Claim("Compositions are larger in S1 and, to some degree, in S3: above 1.1 devices at every factor",
                  "§4.4.4, Fig. 4.9", lies(SIZE.label, aware, ["S1", "S3"], FACTORS, 1.1, math.inf)),
        ),
        draw=rows_of_figures([
            curves(HIGH.label, "missed high-priority, % of all jobs"),
            curves(SHARING.label, "jobs that share a composition"),
            curves(SIZE.label, "devices in a composition"),
        ]),
        x_title="deadline factor",
        groups=SCENARIOS,
        measure=with_floors,
        notes=(*NOTES[1:], FLOORS),
    )  # fmt: skip


def pool_of(count: int) -> dict[str, Any]:
    """The keys of the NVMe pool's cluster with so many devices."""
    content = PRESETS["nvme-pool"].content
    return {"name": f"nvme-{count}", **content, "pools": [{**content["pools"][0], "count": count}]}


def _devices() -> Reproduction:
    first, aware = FIRST_FIT.name, AWARE.name
    return of_pools(
        name="nvme-devices",
        shows="Figure 4.10",
        paper=PAPER,
        summary="missed deadlines as the pool shrinks from ten devices to two",
        setup="The three scenarios at a target CPU load of 0.7, with the same jobs on pools of 2 to 10 devices. The "
        "window of measurement is that of the full pool for all, so that the same jobs count everywhere.",
        points=tuple(
            Point(group, count, workload(f"nvme-{group.lower()}", 0.7),
                  tuple(replace(row, cluster=pool_of(count)) for row in (FIRST_FIT, AWARE, OWN)), "nvme-pool")
            for group in SCENARIOS for count in range(2, 11)
        ),
        quantities=(MISSED,),
        claims=(
            Claim("In S1 the two policies differ significantly, by 10 points or more, with 8 to 10 devices",
                  "§4.4.5, Fig. 4.10", exceeds(MISSED.label, first, aware, ["S1"], [8, 9, 10], by=10)),
            Claim("In S1 the difference diminishes with the devices: by 10 points or more from 10 to 2",
                  "§4.4.5, Fig. 4.10", narrows(MISSED.label, first, aware, ["S1"], 10, 2, by=10)),
            Claim("In S1 the difference is gone when devices are few: at most 5 points with 2", "§4.4.5, Fig. 4.10",
                  close(MISSED.label, first, aware, ["S1"], [2], by=5)),
            Claim("The fewer devices, the more is missed: by 5 points or more from 10 to 2, in each scenario, under "
                  "the aware policy", "§4.4.5, Fig. 4.10",
                  changes(MISSED.label, aware, list(SCENARIOS), 10, 2, 5, math.inf)),
        ),
        draw=curves(MISSED.label, "missed deadlines, %"),
        x_title="NVMe devices",
        groups=SCENARIOS,
        notes=NOTES[1:],
    )  # fmt: skip


MIXES = {"M1": "100 % FIO", "M2": "70 % FIO, 30 % SMUFIN", "M3": "half FIO, half SMUFIN"}


def _fio() -> Reproduction:
    first, aware = FIRST_FIT.name, AWARE.name
    return of_pools(
        name="nvme-fio",
        shows="Figure 4.11",
        paper=PAPER,
        summary="a second modelled workload: mixes of FIO and SMUFIN",
        setup="Scenario S1 with its bandwidth-bound jobs made of FIO (900 s on one device, t / n on n, up to 3): "
        + "; ".join(f"{name}: {words}" for name, words in MIXES.items())
        + ". Pooled, at five target loads.",
        points=tuple(
            Point(group, load, workload(f"nvme-{group.lower()}", load), (FIRST_FIT, AWARE, OWN), "nvme-pool")
            for group in MIXES for load in LOADS
        ),
        quantities=(MISSED,),
        claims=(
            Claim("The aware policy beats first fit on saturated systems: at 0.8 and 0.9, in every mix",
                  "§4.4.6, Fig. 4.11", exceeds(MISSED.label, first, aware, list(MIXES), [0.8, 0.9], by=MORE)),
            Claim("On relaxed systems there is nothing to gain: at 0.5 both miss at most 2 %, in every mix",
                  "§4.4.6, Fig. 4.11",
                  together(*(lies(MISSED.label, row, list(MIXES), [0.5], 0, 2) for row in (first, aware)))),
        ),
        draw=curves(MISSED.label, "missed deadlines, %"),
        x_title="target CPU load",
        group_title="mix",
        groups=MIXES,
        models=("smufin", {"model": "fio", "most_devices": 3}),
        notes=("The text gives FIO's time on n devices and not its time when shared: shared by k it takes k t / n."
               " It was measured on SMUFIN's set-ups: beyond 3 devices nothing is gained, as for SMUFIN.", *NOTES[1:]),
    )  # fmt: skip


REPRODUCTIONS = (_nodes(), _policies(), _deadlines(), _devices(), _fio())
