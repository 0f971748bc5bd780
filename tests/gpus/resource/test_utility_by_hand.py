"""The terms of the utility in small cases, by hand, on a Minsky: NVLink within a socket, 20 + 20 between them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from plain_gpus import ONE, State, cluster_of, fleet_of, gpu_jobs, random_state, run, utility

from unrack.resources.gpus.choice import terms
from unrack.resources.gpus.machines.machine import preset
from unrack.resources.gpus.resource import placements

APART, NEAR = 42.0, 1.0
"""Between GPUs of two sockets (1 + 20 + 20 + 1) and of one (a direct link)."""
BESIDE = np.array([[1.0, 1.0, 1.0], [1.0, 1.25, 1.5], [1.0, 1.1, 2.0]])
"""Of nobody known, of application 1 and of application 2."""


def minskys(*holders: list[int]) -> State:
    """Minskys whose GPUs these jobs hold; jobs 0 and 1 are of application 1, job 2 of application 2."""
    return State([preset("minsky")] * len(holders), list(holders), [1, 1, 2], BESIDE)


@pytest.mark.parametrize(
    ("state", "chosen", "ask", "t", "i", "w"),
    [
        # alone on an idle machine: nothing to say to anybody, nobody beside it, all is free
        (minskys([-1] * 4), [(0, [0])], ONE, 1.0, 1.0, 1.0),
        # two GPUs of a socket: the least there is
        (minskys([-1] * 4), [(0, [2, 3])], ONE._replace(gpus=2), 1.0, 1.0, 1.0),
        # across the sockets: 42 times as far
        (minskys([-1] * 4), [(0, [1, 2])], ONE._replace(gpus=2), APART / NEAR, 1.0, 1.0),
        # half as talkative: half of what it costs above 1
        (minskys([-1] * 4), [(0, [1, 2])], ONE._replace(gpus=2, weight=0.5), 1 + (APART - 1) / 2, 1.0, 1.0),
        # job 1 beside it, both of application 1: each keeps 1 / 1.25; half of one socket was taken
        (minskys([1, -1, -1, -1]), [(0, [1])], ONE._replace(profile=1), 1.0, 0.8, 0.75),
        # the same neighbour at the other socket is none
        (minskys([1, -1, -1, -1]), [(0, [2])], ONE._replace(profile=1), 1.0, 1.0, 0.75),
        # job 2 beside it: it keeps 1 / 1.5, job 2 keeps 1 / 1.1
        (minskys([2, -1, -1, -1]), [(0, [1])], ONE._replace(profile=1), 1.0, (1 / 1.5 + 1 / 1.1) / 2, 0.75),
        # both beside it: the worse counts for it, each of them for itself
        (minskys([1, -1, 2, -1]), [(0, [1, 3])], ONE._replace(gpus=2, profile=1), APART,
         (1 / 1.5 + 1 / 1.25 + 1 / 1.1) / 3, 0.5),
        # a neighbour with two GPUs is one neighbour
        (minskys([2, 2, -1, -1]), [(0, [2])], ONE._replace(profile=1), 1.0, 1.0, 0.5),
        # two tasks of four GPUs: 16 pairs between the machines at 2 x (40 + 21), and both wholes; nothing is less
        (minskys([-1] * 4, [-1] * 4), [(0, [0, 1, 2, 3]), (1, [0, 1, 2, 3])], ONE._replace(tasks=2, gpus=4),
         1.0, 1.0, 1.0),
        # two GPUs on two machines, at 122: the least is both in one, at 1
        (minskys([-1] * 4, [1, 1, 1, -1]), [(0, [0]), (1, [3])], ONE._replace(tasks=2), 122.0, 1.0, 0.625),
        # and apart, as was asked, nothing is less
        (minskys([-1] * 4, [1, 1, 1, -1]), [(0, [0]), (1, [3])], ONE._replace(tasks=2, apart=True), 1.0, 1.0, 0.625),
        # two tasks apart, each on two GPUs of a socket: the two of a task may be together, so nothing is less
        (minskys([-1] * 4, [-1] * 4), [(0, [0, 1]), (1, [2, 3])], ONE._replace(tasks=2, gpus=2, apart=True),
         1.0, 1.0, 1.0),
    ],
)  # fmt: skip
def test_terms_are_those_of_the_equations(
    state: State, chosen: list[tuple[int, list[int]]], ask: object, t: float, i: float, w: float
) -> None:
    nodes = np.array([node for node, _ in chosen])
    sets = np.array([sum(1 << gpu for gpu in gpus) for _, gpus in chosen])
    assert terms(state.columns, state.free, state.who, 0, ask, nodes, sets) == pytest.approx((t, i, w))
    assert utility(state, chosen, ask, 0) == pytest.approx(((1 / t + i + 1 - w) / 3, t, i, w))  # type: ignore[arg-type]


def test_terms_are_those_of_the_plain_ones_on_random_machines() -> None:
    random = np.random.default_rng(1)
    looked_at = 0
    for _ in range(400):
        state = random_state(random)
        chosen = []
        for node, machine in enumerate(state.machines):
            own = [gpu for gpu in range(len(machine.gpus)) if state.holder[node][gpu] < 0 and random.random() < 0.6]
            chosen += [(node, own)] if own else []
        if not chosen:
            continue
        ask = ONE._replace(weight=float(random.choice([0.25, 1.0])), profile=int(random.integers(4)))
        ask = ask._replace(graph=int(random.integers(4)) if len(chosen) == 1 else 0)
        nodes = np.array([node for node, _ in chosen])
        sets = np.array([sum(1 << gpu for gpu in gpus) for _, gpus in chosen])
        found = terms(state.columns, state.free, state.who, 0, ask, nodes, sets)
        assert found == pytest.approx(utility(state, chosen, ask, 0)[1:]), (state, chosen, ask)
        looked_at += 1
    assert looked_at > 300


def test_a_start_counts_once_in_how_ever_many_spans_its_job_holds_its_gpus() -> None:
    names = ["job", "attempt", "span", "start_s", "end_s", "quantity", "place", "amount"]
    rows = [(2, 1, 1, 5.0, 20.0, "milli", "node0/gpu3", 1000)]
    for span, (start, end) in enumerate([(0.0, 5.0), (5.0, 8.0), (8.0, 30.0)], 1):  # as of a job that was suspended
        rows += [(1, 1, span, start, end, "milli", f"node0/gpu{gpu}", 1000) for gpu in (0, 2)]
    claims = pl.DataFrame(sorted(rows, key=lambda row: (row[3], -row[0])), names, orient="row")
    jobs = pl.DataFrame({"job": [1, 2], "app": ["", ""], "tasks": [1, 1], "gpus.count": [2, 1]})
    found = placements(fleet_of({"machine": "minsky"}), claims, jobs)
    assert found.select("job", "end_s", "gpus", "sockets", "cost", "free").rows() == [
        (1, 30.0, 2, 2, APART, 1.0), (2, 20.0, 1, 1, 1.0, 0.5),
    ]  # fmt: skip


def test_starts_of_jobs_outside_the_window_count_in_no_metric() -> None:
    jobs = gpu_jobs({"count": 4, "work": 10}, {"submit": 20, "count": 1})
    result = run(cluster_of({"machine": "minsky"}), jobs, "fcfs")
    later = run(cluster_of({"machine": "minsky"}), jobs, "fcfs", window_us=(15 * 10**6, 40 * 10**6))
    assert result.metrics["gpu_cost_mean"] == 1.0
    assert later.metrics["gpu_cost_mean"] is None
    assert later.metrics["gpu_free_share_mean"] == 1.0


def test_a_slice_counts_as_the_part_that_it_is_of_its_own_gpu() -> None:
    table = [{"machine": {"gpus": 1, "slices": 2}, "nodes": "0"}, {"machine": {"gpus": 2, "slices": 8}, "nodes": "1"}]
    result = run(cluster_of(table, 2), gpu_jobs({"slices": 1}, {"slices": 4}), "fcfs")
    assert result.metrics["used_gpus"] == pytest.approx((1 / 2 + 4 / 8) / 3)
