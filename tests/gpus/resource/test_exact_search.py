"""Exact placement: no machine and no set of GPUs has a greater utility, and the greedy halves are sets that fit."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from plain_gpus import ONE, State, cluster_of, gpu_jobs, random_state, run, utility

from unrack.policy.gpus.bisection import bisected
from unrack.policy.gpus.rules import DRB, RULES, TOPOLOGY
from unrack.resources.gpus.columns import Ask
from unrack.resources.gpus.machines.machine import preset


def random_ask(random: np.random.Generator) -> Ask:
    """One task of up to four GPUs that talks in any graph, of any application."""
    return ONE._replace(
        gpus=int(random.integers(1, 5)), graph=int(random.integers(4)), weight=float(random.choice([0.3, 1.0])),
        profile=int(random.integers(4)), together=bool(random.integers(2)),
    )  # fmt: skip


def free_gpus(state: State, node: int) -> list[int]:
    """Those of a machine."""
    return [gpu for gpu, holder in enumerate(state.holder[node]) if holder < 0]


def best_by_force(state: State, ask: Ask) -> float | None:
    """The greatest utility over all machines and sets of free GPUs; ``None``: there is no place."""
    return max(
        (
            utility(state, [(node, gpus)], ask, 0)[0]
            for node in range(len(state.machines))
            for gpus in combinations(free_gpus(state, node), ask.gpus)
        ),
        default=None,
    )


@pytest.mark.long
def test_topology_is_as_good_as_every_other_placement() -> None:
    random = np.random.default_rng(7)
    placed = better = 0
    for _ in range(1600):
        state, ask = random_state(random), random_ask(random)
        found, best = state.place(TOPOLOGY, ask, 0), best_by_force(state, ask)
        if best is None:
            assert found == []
            continue
        assert all(state.holder[node][gpu] < 0 for node, gpus in found for gpu in gpus)
        assert [len(gpus) for _, gpus in found] == [ask.gpus]
        assert utility(state, found, ask, 0)[0] == pytest.approx(best, abs=1e-9), (state, ask, found)
        placed += 1
        better += best > utility(state, state.place(RULES["worst-fit"], ask, 0), ask, 0)[0] + 1e-9
    assert placed > 1000
    assert better > 200, "worst-fit is as good: the test could not fail"


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_takes_free_gpus_and_finds_a_place_wherever_there_is_one(rule: str) -> None:
    random = np.random.default_rng(8)
    for _ in range(150):
        state, ask = random_state(random), random_ask(random)._replace(tasks=int(random.integers(1, 4)))
        ask = ask._replace(apart=not ask.together and bool(random.integers(2)))
        room = [len(free_gpus(state, node)) // ask.gpus for node in range(len(state.machines))]
        fits = max(room) if ask.together else sum(min(n, 1) for n in room) if ask.apart else sum(room)
        found = state.place(RULES[rule], ask, 0)
        assert bool(found) == (fits >= ask.tasks), (state, ask)
        if found:
            assert sum(len(gpus) for _, gpus in found) == ask.gpus * ask.tasks
            assert all(len(gpus) % ask.gpus == 0 for _, gpus in found)
            assert all(set(gpus) <= set(free_gpus(state, node)) for node, gpus in found)
            assert not ask.apart or len(found) == ask.tasks
            assert not ask.together or len(found) == 1


def test_bi_partitioning_is_never_better_than_the_exact_search_and_often_as_good() -> None:
    random = np.random.default_rng(9)
    ratios = []
    for _ in range(300):
        state, ask = random_state(random), random_ask(random)
        found, best = state.place(DRB, ask, 0), best_by_force(state, ask)
        if best is not None:
            ratios.append(utility(state, found, ask, 0)[0] / best)
    assert max(ratios) <= 1 + 1e-9
    assert np.mean(ratios) > 0.9


def test_halves_differ_by_one_at_most_and_on_clear_machines_cut_least() -> None:
    random = np.random.default_rng(10)
    least = 0
    for _ in range(200):
        machine = random_state(random).machines[0]
        distance = machine.distance.astype(float)
        members = [gpu for gpu in range(len(machine.gpus)) if random.random() < 0.9]
        if len(members) < 2:
            continue
        one = bisected(distance, sum(1 << gpu for gpu in members))
        half = [gpu for gpu in members if one >> gpu & 1]
        assert members[0] in half
        assert one >> len(machine.gpus) == 0
        assert abs(2 * len(half) - len(members)) <= 1

        def cut(side: list[int], members: list[int] = members, distance: np.ndarray = distance) -> float:
            return sum(1 / distance[a, b] for a in side for b in members if b not in side)

        sides = [list(side) for side in combinations(members, len(half))]
        least += cut(half) <= min(map(cut, sides)) + 1e-9
    assert least > 150


def test_the_sockets_of_a_minsky_and_a_dgx_1_are_its_halves() -> None:

    assert bisected(preset("minsky").distance.astype(float), 0b1111) == 0b0011
    assert bisected(preset("pcie-8").distance.astype(float), 0b10110110) == 0b00000110 | 0
    assert bisected(preset("dgx-1").distance.astype(float), 0b11111111) == 0b00001111


def test_a_machine_with_many_sockets_is_searched_too() -> None:
    """NUMA nodes count as sockets: eight of them and more were beyond the room for their sets."""
    from plain_gpus import cluster_of, gpu_jobs, run

    cluster = cluster_of({"machine": {"gpus": 12, "per_socket": 1}}, nodes=2)
    result = run(cluster, gpu_jobs(*[{"count": n} for n in (3, 2, 5, 12)] * 3), "fcfs(gpus=topology)")
    assert set(result.jobs["state"]) == {"finished"}


TWO_LINKS = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
"""Pairs of GPUs of a DGX-1 with two NVLinks."""


@pytest.mark.parametrize("rule", ["nearest", "pack", "topology", "drb"])
def test_rules_for_gpus_give_a_job_of_two_a_pair_with_two_nvlinks(rule: str) -> None:
    """Under bi-partitioning, which weighs what it leaves against distance, on the idle machine alone."""
    cluster = cluster_of("dgx-1")
    for others in ([], [{"count": 1}], [{"count": 1}, {"count": 2}])[: 1 if rule == "drb" else 3]:
        result = run(cluster, gpu_jobs(*others, {"count": 2, "app": "mine"}), f"fcfs(gpus={rule})")
        last = result.jobs["job"].to_list()[-1]
        gpus = result.table("claims").filter(job=last)["place"].str.slice(-1).cast(int).sort().to_list()
        assert tuple(gpus) in TWO_LINKS, (rule, others)


def test_bisection_cuts_the_narrower_links() -> None:
    """Of the three ways to halve a socket's GPUs, 0 and 3 or 1 and 2 lose the least."""
    assert bisected(preset("dgx-1").distance, 0b1111) == 0b1001
