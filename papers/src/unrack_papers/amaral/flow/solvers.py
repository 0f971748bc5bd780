"""Flows of least cost by several algorithms: the same optimum, in very different times (Table 8)."""

from __future__ import annotations

import math
import time
from typing import Any

from unrack.solver import SOLVERS, checked
from unrack_papers.amaral.flow.chart import lines_over
from unrack_papers.amaral.flow.cost_scaling import cost_scaling
from unrack_papers.amaral.flow.cycle_cancelling import cycle_cancelling
from unrack_papers.amaral.flow.examples import scheduling_network
from unrack_papers.amaral.flow.sheets import ours
from unrack_papers.amaral.flow.shortest_path import shortest_path
from unrack_papers.claim import Claim, close, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.sheet import Sheet
from unrack_papers.reproduction import Numbers, Point, Quantity, Reproduction, Row, Task

GROUP = "scheduling networks"
COST = Quantity("least cost", "cost", 1, 0)
ARCS = Quantity("arcs", "arcs", 1, 0)
SECONDS = "took_s"
REFERENCE = Row("OR-Tools", "ortools", "", printed=False)
SCALING = Row("Cost scaling", "cost-scaling", "")
SHORTEST = Row("Successive shortest path", "shortest-path", "")
CYCLES = Row("Cycle cancelling", "cycle-cancelling", "")
ROWS = (REFERENCE, SCALING, SHORTEST, CYCLES)
SIZES = (50, 100, 200, 500, 1000, 2000, 5000)
"""Tasks: twelve for every machine of nine slots, so that a quarter has to wait."""
PER_MACHINE, SLOTS, CHOICES = 12, 9, 10
OWN = {"cost-scaling": cost_scaling, "shortest-path": shortest_path, "cycle-cancelling": cycle_cancelling}
COMPARED = {**SOLVERS, **OWN}
"""Name to function, as in :data:`unrack.solver.min_cost_flow.SOLVERS`; the last three are for this comparison alone."""


def solved(task: Task) -> list[Numbers]:
    """The least cost by each row, and how long it took, of CPU time."""
    tasks = int(task.workload["tasks"])
    made = scheduling_network(tasks, max(1, tasks // PER_MACHINE), SLOTS, CHOICES, task.seed, aggregator=True)
    network = checked(made)
    small = checked(scheduling_network(8, 2, 2, 2, 0, aggregator=True))
    values: list[Numbers] = []
    for row in task.rows:
        COMPARED[row.policy](small)  # compiled before the clock runs
        began = time.process_time()
        amount: Any = COMPARED[row.policy](network)
        took_s = time.process_time() - began
        values.append({"cost": float(network.cost @ amount), "arcs": float(len(network.tail)), SECONDS: took_s})
    return values


def growth(measured: Measured, name: str) -> float:
    """With which power of the number of tasks the time of a row grows, over its upper half of sizes."""
    found = [(x, [seed.get(SECONDS) or 0 for seed in seeds])
             for (_, x, row), seeds in measured.values.items() if row == name]  # fmt: skip
    times = [(float(x), sum(own) / len(own)) for x, own in found]
    (size, middle_s), (most, most_s) = times[len(times) // 2 - 1], times[-1]
    return math.log(max(most_s, 1e-9) / max(middle_s, 1e-9)) / math.log(most / size)


def _aside(measured: Measured) -> list[str]:
    lines = ["Measured on this machine, another on every run, and in no file: CPU time, ms, by number of tasks"]
    for row in ROWS:
        cells = []
        for (_, x, name), seeds in measured.values.items():
            if name == row.name:
                cells.append(f"{x}: {1e3 * sum(seed[SECONDS] or 0 for seed in seeds) / len(seeds):.2f}")
        lines.append(f"  {row.name}: {', '.join(cells)}; grows with power {growth(measured, row.name):.1f}")
    return lines


def _tables(measured: Measured) -> tuple[Sheet, ...]:
    return (ours(measured, (ARCS, COST)),)


REPRODUCTION = Reproduction(
    name="flow-solvers",
    shows="Table 8",
    paper="Amaral 2019, section 5.4.1",
    summary="flows of least cost by four algorithms: one optimum, and the time of each",
    setup="Networks of the shape that a round makes: tasks with ten choices each, an aggregator by which they reach "
    "every machine, machines of nine slots, and a node for those who wait; twelve tasks for every machine. The time of "
    "each algorithm is another on every run, and so is printed by the command alone.",
    points=tuple(Point(GROUP, tasks, {"tasks": tasks}, ROWS) for tasks in SIZES),
    quantities=(ARCS, COST),
    claims=(
        Claim("All algorithms find the same least cost", "Table 8",
              together(*(close(COST.label, REFERENCE.name, row.name, [GROUP], SIZES, 0) for row in ROWS[1:]))),
    ),
    draw=lines_over(COST.label, [GROUP], "tasks", "least cost", [row.name for row in ROWS]),
    x_title="tasks",
    group_title="",
    notes=(
        "The table has worst-case complexities, and the text cites another work for cost scaling being the fastest. "
        "Times are of our own compiled algorithms, and of OR-Tools, which is cost scaling, too.",
        "The text says that the complexities of Table 8 suggest successive shortest path, N² M log(NC). As printed, "
        "with M > U, they suggest cost scaling, N² U log N.",
    ),
    defaults=Options(seeds=3),
    takes=frozenset({"seeds"}),
    solve=solved,
    tables=_tables,
    aside=_aside,
)  # fmt: skip
