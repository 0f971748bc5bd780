"""Pools of NVMe, the tables: Call, Polo, Carrera (IEEE Systems Journal, 2022), and chapter 4 of Call's thesis.

Numbers of tables, figures and sections are the thesis's; the article's Tables III-V and Figures 4-11 are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from unrack.study import RunTimes
from unrack_papers.call import printed
from unrack_papers.call.counts import with_floors
from unrack_papers.claim import Claim, close, exceeds, largest_gap, lies, together
from unrack_papers.options import OF_POOLS
from unrack_papers.pages.figure import curves
from unrack_papers.reproduction import Point, Reproduction, Row

PAPER = "Call, Polo and Carrera 2022; thesis chapter 4"
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
SCENARIOS = {"S1": "high bandwidth", "S2": "high capacity", "S3": "high compute"}

FIRST_FIT = Row("First Fit", "first-fit", "nvme-pool", world=RunTimes.BASE)
"""The papers' baseline: its jobs run their base times, those of the other rows at measured speeds."""
FIRST_FIT_HERE = Row("First Fit, measured speeds", "first-fit", "nvme-pool", printed=False)
"""The same placement in the world of the other rows."""
AWARE = Row("Disagg-Aware", "disaggregation-aware", "nvme-pool")
OWN = Row("Lookahead", "lookahead", "nvme-pool", printed=False)
"""Our own policy, in no paper."""

MISSED, HIGH = printed.QUANTITIES[3], printed.QUANTITIES[4]
SIZE, SHARING = printed.QUANTITIES[7], printed.QUANTITIES[8]
TRUE_SIZE, TRUE_SHARING = printed.TRUE

ONE_RUN = "The paper's numbers are most likely of single runs: ours are means over seeds, so a cell may lie outside "
ONE_RUN += "our interval by chance; a tilde marks those that lie between our least and greatest seed."
SPEEDS = "Running jobs change speed here whenever another joins or leaves their composition; in the authors' simulator "
SPEEDS += "they do not (--frozen)."
ARRIVALS = "Some of the authors' recorded runs have evenly spaced arrivals (--arrivals fixed); time there advances in "
ARRIVALS += "whole seconds, here in microseconds, or as there with --reading authors."
FLOORS = "Size and sharing are counted as in the authors' simulator, whose means over compositions are integer "
FLOORS += "divisions: the average over time of a floor. True size and true sharing are without it."
OFFERED = "The target load is the offered load: cores × base times that arrive in a second, over the cores there are."
WORLDS = "The paper's first fit lives in another world than the policies it is compared with: its jobs run their base "
WORLDS += "times, theirs at the speeds that were measured. So do its rows here, and they say so (base times)."
NOTES = (ONE_RUN, SPEEDS, ARRIVALS, OFFERED)
"""Of everything on pools of devices; tables and figures of sizes and sharing add ``FLOORS``."""

of_pools = partial(Reproduction, models=("smufin",), takes=OF_POOLS, bounded=True)
"""A reproduction of pooled devices."""


def attached(row: Row) -> Row:
    """The row on the physically attached layout."""
    return replace(row, name=f"PA {row.name}", cluster="nvme-attached")


def workload(scenario: str, load: float, **more: Any) -> dict[str, Any]:
    """Keys of a generator: one of the papers' scenarios at a target CPU load."""
    return {"scenario": scenario, "load": load, **more}


# --- Tables 4.3, 4.4, 4.5 ---------------------------------------------------------------------------------------

POOLED = (FIRST_FIT, FIRST_FIT_HERE, AWARE, OWN)
TABLE_ROWS = tuple(layout for row in POOLED for layout in (row, attached(row)))
PANELS = {
    "(a) disaggregated": [row.name for row in POOLED],
    "(b) physically attached": [attached(row).name for row in POOLED],
}


def _table(number: str, group: str, values: str, claims: tuple[Claim, ...]) -> Reproduction:
    words = SCENARIOS[group]
    return of_pools(
        name=f"nvme-{group.lower()}",
        shows=f"Table {number}",
        paper=PAPER,
        summary=f"first fit against the disaggregation-aware policy, pooled and attached: {group}, {words}",
        setup=f"Scenario {group} ({words}) at five target loads, on 5 nodes of 25 cores with 10 NVMe of 2 GB/s and "
        "600 GB: pooled, and physically attached (PA: to nodes 0 and 2; six and four, unless the first line says "
        "otherwise). All policies take the job with the earliest deadline first. Measured from when the CPU load of "
        "the ideal fat node first reaches 0.7 to the last arrival. The bound is the share of deadlines that no policy "
        "could meet on that layout.",
        points=tuple(
            Point(group, load, workload(f"nvme-{group.lower()}", load), TABLE_ROWS, "nvme-pool")
            for load in printed.LOADS
        ),
        quantities=(*printed.QUANTITIES, *printed.TRUE),
        claims=claims,
        draw=curves("% missed", "missed deadlines, %", {title: (group, names) for title, names in PANELS.items()}),
        x_title="target CPU load",
        printed=printed.printed(group, values),
        measure=with_floors,
        notes=(*NOTES, FLOORS, WORLDS),
    )


def _own_wins(group: str) -> tuple[Claim, Claim]:
    fixed, own = attached(AWARE).name, attached(OWN).name
    return (
        Claim("Our own policy misses fewer deadlines than the disaggregation-aware one at 0.8 and 0.9, pooled",
              "this project", exceeds("% missed", AWARE.name, OWN.name, [group], [0.8, 0.9])),
        Claim("Elsewhere it misses no more: pooled at 0.5 to 0.7, and attached at every load", "this project",
              together(exceeds("% missed", AWARE.name, OWN.name, [group], [0.5, 0.6, 0.7], by=0),
                       exceeds("% missed", fixed, own, [group], LOADS, by=0))),
    )  # fmt: skip


def _attached_is_worse(group: str, loads: Sequence[float], source: str = "§4.4.3, Fig. 4.4") -> Claim:
    more = (exceeds("% missed", attached(row).name, row.name, [group], loads, by=5) for row in (FIRST_FIT, AWARE))
    return Claim(f"At {loads[0]} to {loads[-1]} both policies miss more deadlines, by 5 points or more, where NVMe is "
                 "attached", source, together(*more))  # fmt: skip


S1_CLAIMS = (
    Claim("Under first fit, pooling cuts missed deadlines by tens of points at 0.6 and 0.7", "§4.6, Table 4.3",
          exceeds("% missed", "PA First Fit", "First Fit", ["S1"], [0.6, 0.7], by=10)),
    Claim("Under first fit, pooling cuts missed deadlines by up to 49 points: the largest cut is at least that",
          "§4.6", largest_gap("% missed", "PA First Fit", "First Fit", "S1", LOADS, at_least=49)),
    Claim("The aware policy misses at most 2 % at loads up to 0.7", "§4.6, Table 4.3",
          lies("% missed", "Disagg-Aware", ["S1"], [0.5, 0.6, 0.7], 0, 2)),
    Claim("At 0.8 the aware policy misses at most a tenth of what first fit misses", "Table 4.3",
          exceeds("% missed", "First Fit", "Disagg-Aware", ["S1"], [0.8], by=0, share=0.1)),
    Claim("The aware policy beats first fit until the system is highly saturated: at 0.7 and 0.8",
          "§4.4.3, Fig. 4.4a", exceeds("% missed", "First Fit", "Disagg-Aware", ["S1"], [0.7, 0.8])),
    Claim("At 0.9 the system is saturated: both policies miss more than half of the deadlines", "Table 4.3",
          together(*(lies("% missed", row, ["S1"], [0.9], 50, 100) for row in ("First Fit", "Disagg-Aware")))),
    _attached_is_worse("S1", [0.7, 0.8]),
    Claim("At 0.5 every policy on every layout misses at most 2 %", "§4.4.3, Fig. 4.4",
          together(*(lies("% missed", row, ["S1"], [0.5], 0, 2) for row in printed.ROWS))),
    Claim("Under the aware policy, pooled, more than two jobs share a composition at 0.5 to 0.8", "§4.6, Table 4.3",
          lies("sharing", "Disagg-Aware", ["S1"], [0.5, 0.6, 0.7, 0.8], 2, math.inf)),
    Claim("Under the aware policy, pooled, compositions have 1.2 to 1.8 devices at 0.5 to 0.8", "Table 4.3",
          lies("size", "Disagg-Aware", ["S1"], [0.5, 0.6, 0.7, 0.8], 1.2, 1.8)),
    Claim("The aware policy has fewer devices in use than first fit at loads up to 0.8, pooled", "Table 4.3",
          exceeds("% NVMe", "First Fit", "Disagg-Aware", ["S1"], [0.5, 0.6, 0.7, 0.8])),
    *_own_wins("S1"),
)  # fmt: skip
S2_CLAIMS = (
    Claim("Below 0.8 the two policies are close to equal: within 2 points of missed deadlines, pooled",
          "§4.4.3, Fig. 4.4a", close("% missed", "First Fit", "Disagg-Aware", ["S2"], [0.5, 0.6, 0.7], by=2)),
    Claim("At 0.8, minimising fragmentation improves the result: the aware policy misses fewer", "§4.4.3, Table 4.4",
          exceeds("% missed", "First Fit", "Disagg-Aware", ["S2"], [0.8])),
    Claim("Nothing is gained from composing: under the aware policy compositions stay at 1.0 to 1.05 devices",
          "Table 4.4", lies("size", "Disagg-Aware", ["S2"], LOADS, 1, 1.05)),
    Claim("Nor from sharing: under the aware policy 0.95 to 1.05 jobs share a composition", "Table 4.4",
          lies("sharing", "Disagg-Aware", ["S2"], LOADS, 0.95, 1.05)),
    _attached_is_worse("S2", [0.7, 0.8, 0.9]),
    *_own_wins("S2"),
)  # fmt: skip
S3_CLAIMS = (
    Claim("Below 0.8 the two policies are close to equal: within 2 points of missed deadlines, pooled",
          "§4.4.3, Fig. 4.4a", close("% missed", "First Fit", "Disagg-Aware", ["S3"], [0.5, 0.6, 0.7], by=2)),
    Claim("Pooled, nothing is missed up to 0.7 (at most 1 %), by either policy", "Table 4.5",
          together(*(lies("% missed", row, ["S3"], [0.5, 0.6, 0.7], 0, 1) for row in ("First Fit", "Disagg-Aware")))),
    Claim("The few bandwidth-bound jobs get larger compositions, 1.2 to 1.8 devices, at every load",
          "§4.4.4, Table 4.5", lies("size", "Disagg-Aware", ["S3"], LOADS, 1.2, 1.8)),
    Claim("The aware policy has more devices in use than first fit, pooled: it hands out what would lie idle",
          "Table 4.5", exceeds("% NVMe", "Disagg-Aware", "First Fit", ["S3"], LOADS)),
    _attached_is_worse("S3", [0.7, 0.8, 0.9]),
    *_own_wins("S3"),
)  # fmt: skip

REPRODUCTIONS = (
    _table("4.3", "S1", printed.S1, S1_CLAIMS),
    _table("4.4", "S2", printed.S2, S2_CLAIMS),
    _table("4.5", "S3", printed.S3, S3_CLAIMS),
)
