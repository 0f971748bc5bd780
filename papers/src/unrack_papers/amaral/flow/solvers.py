"""Flows of least cost by several algorithms: the same optimum, in very different times (Table 8).

Least cost by cycle cancelling: send everything somehow, then take what costs most round a cheaper way.

O(nodes arcs² C U) for costs up to C and capacities up to U. The cycles are found in what Bellman's and Ford's
algorithm says each node is reached from; those found in one pass share no node, and are cancelled together.

Networks of the shape that schedulers make, at random.

References
----------
M. Klein, "A primal method for minimal cost flows with applications to the assignment and transportation problems",
Management Science 14 (1967). R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows" (1993), section 9.6.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unrack.errors import InputError
from unrack.jit import compiled, inlined
from unrack.solver import SOLVERS, Network, Residual, amounts_of, checked, push_all, residual_of
from unrack_papers.amaral.flow.chart import lines_over, ours
from unrack_papers.amaral.flow.cost_scaling import cost_scaling
from unrack_papers.amaral.flow.shortest_path import shortest_path
from unrack_papers.claim import Claim, close, together
from unrack_papers.measured import Measured
from unrack_papers.options import Options
from unrack_papers.pages.sheet import Sheet
from unrack_papers.reproduction import Numbers, Point, Quantity, Reproduction, Row, Task

MOST = 100
"""Costs of choices are below."""


def scheduling_network(
    tasks: int, machines: int, slots: int, choices: int, seed: int, *, aggregator: bool = False
) -> Network:
    """Tasks that run on one of some machines, or stay unscheduled at a greater cost.

    Nodes: the tasks, the machines, "unscheduled", the sink, and the aggregator if there is one. Arcs: the choices, task
    by task, of costs from 0 to 99; each task to "unscheduled", of costs from 150 to 249; machines to the sink; and
    "unscheduled" to it.

    Parameters
    ----------
    tasks, machines
        How many: 1 or more.
    slots
        Tasks that a machine can run.
    choices
        Machines that a task chooses at random; one may come twice.
    seed
        The seed of the random numbers.
    aggregator
        Add a node by which each task can reach each machine, at 50 to it and 0 to 99 from it.

    Examples
    --------
    >>> network = scheduling_network(3, 2, slots=1, choices=2, seed=0)
    >>> network.supply.tolist(), len(network.tail)
    ([1, 1, 1, 0, 0, 0, -3], 12)
    """
    if min(tasks, machines) < 1 or min(slots, choices) < 0:
        got = f"{tasks} tasks, {machines} machines, {slots} slots, {choices} choices"
        raise InputError("a scheduling network", got, "1 task and 1 machine or more, and no number below 0")
    rng = np.random.default_rng(seed)
    every_task, every_machine = np.arange(tasks), tasks + np.arange(machines)
    unscheduled, sink, hub = tasks + machines, tasks + machines + 1, tasks + machines + 2
    groups: list[tuple[ArrayLike, ...]] = [
        (np.repeat(every_task, choices), tasks + rng.integers(0, machines, tasks * choices), 1,
         rng.integers(0, MOST, tasks * choices)),
        (every_task, unscheduled, 1, rng.integers(150, 250, tasks)),
        (every_machine, sink, slots, 0),
        (np.array([unscheduled]), sink, tasks, 0),
    ]  # fmt: skip
    if aggregator:
        groups.append((every_task, hub, 1, 50))
        groups.append((np.full(machines, hub), every_machine, slots, rng.integers(0, MOST, machines)))
    arcs = [np.broadcast_arrays(*group) for group in groups]
    columns = (np.concatenate(column).astype(np.int64) for column in zip(*arcs, strict=True))
    supply = np.zeros(tasks + machines + 2 + aggregator, np.int64)
    supply[:tasks], supply[sink] = 1, -tasks
    return Network(supply, *columns)


Ints = NDArray[np.int64]


def cycle_cancelling(network: Network) -> Ints | None:
    """int64[arcs]: a flow of least cost; ``None`` if the network cannot carry its supply.

    Parameters
    ----------
    network
        As :func:`unrack.solver.network.checked` returns it.
    """
    residual = residual_of(network, np.zeros_like(network.tail))
    if push_all(residual, network.supply.copy()) > 0:
        return None
    cancel_cycles(residual)
    return amounts_of(residual)


@inlined
def cancel_found(residual: Residual, via: Ints, seen: Ints) -> int:
    """Send round each cycle of ``via``, the slot by which each node is reached, what it takes: how many there are."""
    head, twin, room = residual.head, residual.twin, residual.room
    seen[:] = -1
    found = 0
    for start in range(len(via)):
        node = start
        while seen[node] < 0 and via[node] >= 0:
            seen[node] = start
            node = head[twin[via[node]]]
        if via[node] < 0 or seen[node] != start:
            continue
        found += 1
        end, amount = node, room[via[node]]
        node = head[twin[via[node]]]
        while node != end:
            amount = min(amount, room[via[node]])
            node = head[twin[via[node]]]
        turning = True
        while turning:
            room[via[node]] -= amount
            room[twin[via[node]]] += amount
            node = head[twin[via[node]]]
            turning = node != end
    return found


@compiled
def cancel_cycles(residual: Residual) -> None:
    """Change the room of the residual graph until it has no cycle of negative cost."""
    nodes = len(residual.first) - 1
    distance, via, seen = np.zeros(nodes, np.int64), np.full(nodes, -1), np.empty(nodes, np.int64)
    changed = True
    while changed:
        changed = False
        for node in range(nodes):
            for slot in range(residual.first[node], residual.first[node + 1]):
                other, new = residual.head[slot], distance[node] + residual.cost[slot]
                if residual.room[slot] > 0 and new < distance[other]:
                    distance[other], via[other] = new, slot
                    changed = True
        if changed and cancel_found(residual, via, seen) > 0:
            distance[:] = 0
            via[:] = -1


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
