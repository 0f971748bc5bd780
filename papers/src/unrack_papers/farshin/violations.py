"""Servers whose SLOs are missed (Fig. 4)."""

from __future__ import annotations

from unrack_papers.claim import Claim, lies, together
from unrack_papers.farshin.counts import MISSES
from unrack_papers.farshin.servers import ALLOCATOR, BEST_FIT, FIRST_FIT, NOTES, SETUP, placed, served
from unrack_papers.measured import Measured
from unrack_papers.pages.figure import bars
from unrack_papers.pages.sheet import Sheet, columns
from unrack_papers.reproduction import Numbers, Point, Quantity, Task

GROUP = "servers that miss an SLO"
MISSED = Quantity("% of servers", "missed", 100, 1, "%")
UNPLACED = Quantity("not placed", "unplaced", 1, 0)
ROWS = (ALLOCATOR, FIRST_FIT, BEST_FIT)


def missed(task: Task) -> list[Numbers]:
    """The share of servers that miss the SLO of the point."""
    name = f"missed.{task.workload['slo']}"
    return [{"missed": values[name], "unplaced": values["unplaced"]} for values in placed(task)]


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    return (columns(measured, MISSED.label, "% of the servers", [row.name for row in ROWS]),)


REPRODUCTION = served(
    name="slo-violations",
    shows="Figure 4",
    summary="servers whose SLOs are missed by an allocator that does not look at them",
    setup=f"{SETUP} Counted are servers with too little local memory (SLO local), with memory that is too remote (SLO "
    "remote), with either and with both.",
    points=tuple(Point(GROUP, name, {"slo": name}, ROWS) for name in MISSES),
    quantities=(MISSED, UNPLACED),
    claims=(
        Claim("The constraint allocator meets every SLO of every server that it places, and places all (there is a "
              "solution)", "§5.2",
              together(lies(MISSED.label, ALLOCATOR.name, [GROUP], ["either"], 0, 0),
                       lies(UNPLACED.label, ALLOCATOR.name, [GROUP], ["either"], 0, 0))),
        Claim("First fit can degrade performance dramatically: more than half of the servers miss an SLO (the margin "
              "is ours; the bars are in the picture only)", "§5.2, Fig. 4",
              lies(MISSED.label, FIRST_FIT.name, [GROUP], ["either"], 50, 100)),
    ),
    draw=bars(MISSED.label, "servers, %"),
    x_title="SLO missed",
    group_title="",
    notes=NOTES,
    tables=_tables,
    solve=missed,
)  # fmt: skip
