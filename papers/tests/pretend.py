"""An engine that pretends: numbers near the paper's, drawn from the seed and the row's name alone."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from unrack_papers.call.printed import QUANTITIES, S1, TRUE, printed
from unrack_papers.reproduction import Numbers, Point, Reproduction, Solve, Task
from unrack_papers.simulation import simulated

PAPER = printed("S1", S1)
APPS = ("smufin", "capacity", "compute", "yolo")


def noise(*key: object) -> float:
    """A number from -1 to 1 that depends on the key alone."""
    return zlib.crc32(repr(key).encode()) / 2**31 - 1


def engine(task: Task) -> list[Numbers]:
    """Numbers near those of Table 4.3, by load; the bound is 0.01."""
    load = float(task.workload["load"])
    numbers = []
    for row in task.rows:
        values = PAPER.get(("S1", load, row.name)) or PAPER["S1", load, "Disagg-Aware"]
        spread = noise(load, row.name, task.seed)
        metrics: Numbers = {q.metric: values[q.label] / q.factor * (1 + 0.05 * spread) for q in QUANTITIES}
        metrics |= {q.metric: 1.5 + 0.05 * spread for q in TRUE}
        metrics["bound_missed_deadlines"] = 0.01
        metrics |= {f"node{node}.{app}": 60.0 + 5 * node for node in range(5) for app in APPS} | {"busiest": 0.25}
        metrics |= {f"busiest.{app}": 0.25 for app in APPS} | {f"nodes.{app}": 5.0 for app in APPS}
        metrics |= {"placed.max-composition": 900 * load, "placed.min-fragmentation": 900 * (1 - load)}
        metrics |= {"share.max-composition": load, "share.min-fragmentation": 1 - load}
        numbers.append(metrics)
    return numbers


def in_place_of_runs(engine: Solve) -> Callable[..., Iterator[tuple[int, int, Numbers]]]:
    """What stands in for :func:`unrack_papers.simulation.simulated`."""

    def simulated(tasks: Sequence[Task], *_: object, **__: object) -> Iterator[tuple[int, int, Numbers]]:
        yield from ((i, row, own) for i, task in enumerate(tasks) for row, own in enumerate(engine(task)))

    return simulated


def rows_of(one: Reproduction, task: Task) -> list[Numbers]:
    """The numbers of each row of a task, by the simulator."""
    return [numbers for _, _, numbers in simulated([task], one.measure)]


def stopped(task: Task) -> list[Numbers]:
    """Be interrupted, as by Ctrl-C."""
    raise KeyboardInterrupt


def shut(task: Task) -> list[Numbers]:
    """Seed 0 never reaches the load at which measuring starts."""
    return [{} for _ in task.rows] if task.seed == 0 else engine(task)


def exact(values: dict[str, float], seeds: int) -> list[Numbers]:
    """The same numbers on every seed."""
    assert all(math.isfinite(value) for value in values.values())
    return [dict(values) for _ in range(seeds)]


def shortened(one: Reproduction, points: int) -> Reproduction:
    """Its first points only."""
    return replace(one, points=one.points[:points])


def without_batches(one: Reproduction) -> Reproduction:
    """The same, with best fit in place of a whole batch at once, which takes seconds."""

    def quick(point: Point) -> Point:
        rows = (replace(row, policy="best-fit") if row.policy == "batch" else row for row in point.rows)
        return replace(point, rows=tuple(rows))

    return replace(one, points=tuple(map(quick, one.points)))
