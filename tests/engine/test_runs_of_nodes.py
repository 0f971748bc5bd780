"""Nodes in runs, as Slurm places jobs, beside a twin in plain Python; and reservations that keep nodes whole."""

from __future__ import annotations

import random

import numpy as np
import pytest
from small_worlds import J, starts, work
from tries import some

from unrack.cluster.spec import Cluster
from unrack.ledger.lease import FIRST, NODES, TASKS
from unrack.policy.placement.node_kernel import Fit, place_one
from unrack.sim.simulate import simulate


def chosen(free: list[int], tasks: int, cores: int) -> list[int] | None:
    """The nodes of a job, a task each; ``None``: there are too few."""
    room = [amount // cores * cores for amount in free]
    if sum(amount > 0 for amount in room) < tasks:
        return None
    taken: list[int] = []
    while len(taken) < tasks:
        left, runs = tasks - len(taken), list[list[int]]()
        for node, amount in enumerate(room):
            if amount == 0 or node in taken:
                continue
            if runs and runs[-1][-1] == node - 1:
                runs[-1].append(node)
            else:
                runs.append([node])
        enough = [run for run in runs if len(run) >= left]
        sums = {id(run): sum(room[node] for node in run) for run in runs}
        best = min(enough, key=lambda run: sums[id(run)]) if enough else max(runs, key=lambda run: sums[id(run)])
        taken += [min(best, key=lambda node: room[node])] if left == 1 else best[:left]
    return sorted(taken)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.draws(500)
def test_the_smallest_run_that_suffices_is_taken(seed: int) -> None:
    draw, packed = random.Random(seed), 0
    for _ in range(some(500)):
        nodes, cores = draw.randint(1, 14), draw.randint(1, 5)
        free = [draw.choice([0, 0, 1, 2, 4, 7, 8]) for _ in range(nodes)]
        tasks, total = draw.randint(1, nodes), np.array([[8] * nodes, [9] * nodes])
        rows = place_one(np.array([free, [9] * nodes]), total, tasks, cores, 0, False, int(Fit.RUN)).tolist()
        found = [node for row in rows for node in range(row[FIRST], row[FIRST] + row[NODES])]
        told = chosen(free, tasks, cores)
        if told is not None:
            assert found == told, (free, tasks, cores)
            assert all(row[TASKS] == 1 for row in rows)
        else:  # as many on a node as there is room for, if that helps
            packed += bool(found)
            assert bool(found) == (sum(amount // cores for amount in free) >= tasks)
    assert packed > some(500) // 25


ONE = Cluster.homogeneous(nodes=1, cores=4)


@pytest.mark.parametrize(("run", "cores", "nodes"), [(150, 10, 100), (90, 10, 100), (89, 10, 10)])
def test_who_waits_keeps_his_node_whole(run: int, cores: int, nodes: int) -> None:
    """Three cores are in use until 100 s, when two are reserved; one more core would be free for longer."""
    jobs = [J(0, 100, cores=3), J(1, 50, cores=2), J(2, run, cores=1)]
    for reserve, start in (("cores", cores), ("nodes", nodes)):
        assert starts(simulate(ONE, work(*jobs), f"slurm(reserve={reserve}, interval=10 s)").log) == [0, 100, start]
