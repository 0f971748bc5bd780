"""How long flows of least cost take by each algorithm, beside OR-Tools.

    python benchmarks/flow_solvers.py [--repeats 3] [--large]

Prints for each network and algorithm the median of the seconds that the algorithm itself takes, as CPU time (other work
on the machine counts for little in it), and its ratio to OR-Tools in the same run; then what ties broken by number add:
potentials and amounts. Algorithms that are slow by design get the small networks alone. With --large the networks of
50 000 tasks and 12 500 machines too. The first use compiles the kernels: that run is not counted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

from unrack.solver.min_cost_flow import canonical_amounts, canonical_potentials
from unrack.solver.network import Network, checked
from unrack_papers.amaral.flow.solvers import COMPARED, scheduling_network

T = TypeVar("T")

SMALL = ((100, 20, 4, False), (1_000, 250, 4, False), (1_000, 100, 9, True))
"""Tasks, machines, slots of a machine, with an aggregator; all with 10 choices a task."""
MIDDLE = ((10_000, 2_500, 4, False), (10_000, 2_500, 5, False), (10_000, 1_000, 9, True))
LARGE = ((50_000, 12_500, 4, False), (50_000, 12_500, 5, False), (50_000, 12_500, 3, False))
SLOW = {"cycle-cancelling", "shortest-path"}


def timed(work: Callable[[], T], repeats: int) -> tuple[float, T]:
    """Median CPU seconds and the answer."""
    took = []
    for _ in range(repeats):
        start = time.process_time()
        answer = work()
        took.append(time.process_time() - start)
    return median(took), answer


def compare(network: Network, names: list[str], repeats: int) -> None:
    """Each algorithm beside OR-Tools."""
    reference, amount = timed(lambda: COMPARED["ortools"](network), repeats)
    assert amount is not None
    print(f"  {'ortools':17} {reference:9.4f} s", flush=True)
    for name in names:
        took, found = timed(lambda name=name: COMPARED[name](network), repeats)  # type: ignore[misc]
        assert found is not None
        assert int(found @ network.cost) == int(amount @ network.cost), name
        print(f"  {name:17} {took:9.4f} s  {took / reference:8.2f} x ortools", flush=True)
    took, potential = timed(lambda: canonical_potentials(network, amount), repeats)
    print(f"  {'potentials':17} {took:9.4f} s  {took / reference:8.2f} x ortools", flush=True)
    took, _ = timed(lambda: canonical_amounts(network, potential), repeats)
    print(f"  {'ties by number':17} {took:9.4f} s  {took / reference:8.2f} x ortools", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--large", action="store_true")
    chosen = parser.parse_args()
    own = [name for name in COMPARED if name not in ("auto", "ortools")]
    warm = checked(scheduling_network(20, 5, 3, 2, 0))
    for name in own:
        COMPARED[name](warm)
    canonical_amounts(warm, canonical_potentials(warm, COMPARED["cost-scaling"](warm)))  # type: ignore[arg-type]
    for sizes in (SMALL, MIDDLE, LARGE if chosen.large else ()):
        for tasks, machines, slots, aggregator in sizes:
            network = checked(scheduling_network(tasks, machines, slots, 10, 0, aggregator=aggregator))
            by = ", by an aggregator too" if aggregator else ""
            print(f"{tasks:,} tasks, {machines:,} machines of {slots} slots{by}: {len(network.tail):,} arcs")
            names = [name for name in own if sizes is SMALL or name not in SLOW]
            compare(network, names, chosen.repeats)


if __name__ == "__main__":
    main()
