"""Networks of the shape that schedulers make, at random."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from unrack.errors import InputError
from unrack.solver import Network

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
        Of the random numbers.
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
