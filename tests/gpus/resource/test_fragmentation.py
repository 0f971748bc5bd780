"""Fragmentation by hand (Weng et al. 2023), and the rule that lets it grow least against a plain twin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from plain_gpus import ONE, cluster_of, gpu_jobs, run

from unrack.errors import PolicyError
from unrack.policy.gpus.place_kernel import GpuRoom, place_job
from unrack.policy.gpus.rule import read_demands
from unrack.policy.gpus.rules import FGD, FORESIGHT
from unrack.resources.gpus.choice import Neighbours
from unrack.resources.gpus.columns import MachineFile, gpu_columns, in_few_words
from unrack.resources.gpus.fragmentation import Demands
from unrack.resources.gpus.fragmentation import demands_of as usual_demands

Usual = Sequence[tuple[int, int, int, int, float]]


def fragmentation(left: Sequence[int], cores: int, usual: Usual) -> float:
    """F of a machine: per usual task, what it cannot use of what is left."""
    total = 0.0
    for asked_cores, _, gpus, milli, share in usual:
        fit = [part for part in left if part >= milli]
        if gpus == 0 or asked_cores > cores or len(fit) < gpus:
            total += share * sum(left)
        else:
            total += share * (sum(left) - sum(fit))
    return total


@pytest.mark.parametrize(
    ("left", "cores", "usual", "f"),
    [
        ([1000, 500], 8, [(1, 0, 1, 500, 1.0)], 0),  # both can be used
        ([1000, 500], 8, [(1, 0, 1, 600, 1.0)], 500),  # half a GPU is too little
        ([1000, 500], 8, [(1, 0, 2, 1000, 1.0)], 1500),  # there are no two whole ones: all is lost
        ([1000, 500], 0, [(1, 0, 1, 500, 1.0)], 1500),  # no cores
        ([1000, 500], 8, [(1, 0, 0, 1000, 1.0)], 1500),  # who asks for none uses none
        ([1000, 500, 200], 8, [(1, 0, 1, 600, 0.75), (1, 0, 2, 1000, 0.25)], 0.75 * 700 + 0.25 * 1700),
    ],
)
def test_the_plain_twin_is_the_formula(left: list[int], cores: int, usual: Usual, f: float) -> None:
    assert fragmentation(left, cores, usual) == f


def mark(growth: float) -> int:
    """From 0 to 100 by a logistic curve, in whole numbers."""
    return int(100 / (1 + math.exp(growth / 1000)))


def stranded(left: int, cores: int, mb: int, usual: Usual) -> float:
    """Free GPUs less those that the cores and the memory serve at the rate at which all tasks ask for them."""
    asked = sum(share * gpus * milli / 1000 for _, _, gpus, milli, share in usual)
    rates = [sum(one[i] * one[4] for one in usual) / max(asked, 1e-300) for i in range(2)]
    return left - min(left, *(1000 * have / rate for have, rate in zip((cores, mb), rates, strict=True) if rate > 0))


def demands_of(usual: Usual) -> Demands:
    """As kernels take them, none left out."""
    columns = np.array(usual).T
    asked = (columns[2] * columns[3] * columns[4]).sum() / 1000
    ints = [columns[i].astype(np.int64) for i in (0, 2, 3)]
    per_gpu = np.array([(columns[i] * columns[4]).sum() for i in range(2)]) / max(asked, 1e-300)
    return Demands(*ints, columns[4].copy(), per_gpu, np.zeros(1, np.int64))


@pytest.mark.parametrize("rule", [FGD, FORESIGHT])
def test_the_machine_with_the_best_mark_and_there_the_gpu_with_least_growth(rule: int) -> None:
    random = np.random.default_rng(3)
    apart = 0
    for _ in range(400):
        sizes = random.integers(1, 5, 3).tolist()
        gpus = gpu_columns([in_few_words(MachineFile(gpus=size)) for size in sizes], np.arange(3))
        free = random.choice([0, 100, 300, 500, 700, 1000], int(gpus.first[-1])).astype(np.int64)
        cores, mb = random.integers(0, 9, 3), random.integers(0, 9, 3)
        shares = random.random(4)
        usual = [
            (int(random.integers(0, 5)), int(random.integers(0, 5)), int(random.integers(0, 3)),
             int(random.choice([200, 500, 600, 1000])), share / shares.sum()) for share in shares
        ]  # fmt: skip
        usual = [(c, m, g, milli if g == 1 else 1000, share) for c, m, g, milli, share in usual]
        ask = ONE._replace(cores=int(random.integers(0, 4)), mb=int(random.integers(0, 4)), milli=300)
        room = GpuRoom(cores.copy(), mb.copy(), np.full(3, 9), free.copy())
        none = Neighbours(np.zeros((2, len(free)), np.int64), *np.zeros((2, 2), np.int64), np.ones((1, 1)))
        found = np.empty((1, 2), np.int64)
        buffers = np.empty(1, np.int64), np.empty(1, np.int64)
        count, _ = place_job(gpus, room, none, demands_of(usual), rule, ask, 0, *buffers, found)
        growth: dict[int, float] = {}
        marks: dict[int, int] = {}
        for node in range(3):
            parts = free[gpus.first[node] : gpus.first[node + 1]].tolist()
            for i, part in enumerate(parts):
                if part >= ask.milli and cores[node] >= ask.cores and mb[node] >= ask.mb:
                    after = [*parts[:i], part - ask.milli, *parts[i + 1 :]]
                    before = fragmentation(parts, cores[node], usual)
                    rest = fragmentation(after, cores[node] - ask.cores, usual)
                    growth[int(gpus.first[node]) + i] = rest - before
            own = [growth[at] for at in range(int(gpus.first[node]), int(gpus.first[node + 1])) if at in growth]
            if own:
                more = 0.0
                if rule == FORESIGHT:
                    more = stranded(sum(parts) - 300, cores[node] - ask.cores, mb[node] - ask.mb, usual)
                    more -= stranded(sum(parts), cores[node], mb[node], usual)
                marks[node] = mark(min(own) + more)
        assert count == bool(growth)
        if growth:
            at = int(found[0, 0])
            node = int(np.searchsorted(gpus.first, at, "right")) - 1
            assert marks[node] == max(marks.values()), (free, usual)
            assert node == min(one for one in marks if marks[one] == marks[node])
            here = [growth[i] for i in range(int(gpus.first[node]), int(gpus.first[node + 1])) if i in growth]
            assert growth[at] == pytest.approx(min(here), abs=1e-6), (free, usual)
            apart += growth[min(growth)] > min(growth.values()) + 1
    assert apart > 100, "the first GPU is always as good: the test could not fail"


@pytest.mark.parametrize("rule", [FGD, FORESIGHT])
def test_all_that_a_job_takes_of_a_machine_counts(rule: int) -> None:
    """Several tasks, and parts of several GPUs: F is that of what is left, on each machine as if there was no other."""
    random, differ = np.random.default_rng(4), 0
    for _ in range(300):
        sizes = random.integers(1, 4, 2).tolist()
        gpus = gpu_columns([in_few_words(MachineFile(gpus=size)) for size in sizes], np.arange(2))
        free = random.choice([0, 300, 500, 700, 1000], int(gpus.first[-1])).astype(np.int64)
        cores = random.integers(2, 9, 2)
        parts = [free[gpus.first[node] : gpus.first[node + 1]].tolist() for node in range(2)]
        usual = [(int(random.integers(1, 5)), 0, 1, int(random.choice([500, 600, 1000])), 1.0)]
        milli = int(random.choice([200, 500, 1000]))
        ask = ONE._replace(tasks=int(random.integers(1, 3)), gpus=int(random.integers(1, 3)), cores=1, milli=milli)
        none = Neighbours(np.zeros((2, len(free)), np.int64), *np.zeros((2, 2), np.int64), np.ones((1, 1)))
        grows: list[float] = []
        chosen: list[list[int]] = []
        for open_ in ([0], [1], [0, 1]):
            have = np.array([cores[node] if node in open_ else -1 for node in range(2)])
            room = GpuRoom(have, np.zeros(2, np.int64), cores, free.copy())
            on, each, found = np.empty(2, np.int64), np.empty(2, np.int64), np.empty((4, 2), np.int64)
            count, _ = place_job(gpus, room, none, demands_of(usual), rule, ask, 0, on, each, found)
            chosen.append(on[:count].tolist())
            if len(open_) == 1 and chosen[-1] == open_:
                node, before = open_[0], parts[open_[0]]
                after = room.free[gpus.first[node] : gpus.first[node + 1]].tolist()
                grows.append(fragmentation(after, have[node], usual) - fragmentation(before, cores[node], usual))
                if rule == FORESIGHT:
                    grows[-1] += stranded(sum(after), have[node], 0, usual)
                    grows[-1] -= stranded(sum(before), cores[node], 0, usual)
        if len(grows) == 2:
            assert chosen[2] == [int(mark(grows[1]) > mark(grows[0]))], (parts, cores, usual, ask, grows)
            differ += mark(grows[1]) != mark(grows[0])
    assert differ > 40, "marks are always equal: the test could not fail"


def test_the_usual_demands_are_the_most_frequent_ones() -> None:
    counts = {(1, 0, 1, 1000): 60.0, (2, 0, 1, 500): 30.0, (4, 0, 2, 1000): 6.0, (8, 0, 8, 1000): 4.0}
    found = usual_demands(counts)
    cores, gpus, milli, share = found.cores, found.gpus, found.milli, found.share
    assert found.per_gpu[0] == pytest.approx((60 + 60 + 24 + 32) / (60 + 15 + 12 + 32))
    assert (cores.tolist(), gpus.tolist(), milli.tolist()) == ([1, 2, 4], [1, 1, 2], [1000, 500, 1000])
    assert share == pytest.approx([60 / 96, 30 / 96, 6 / 96])


def test_demands_from_a_file_decide_and_a_wrong_file_is_refused(tmp_path: Path) -> None:
    """Where usual tasks ask for 600, the second job goes beside the first, so that a GPU stays usable."""
    cluster = cluster_of({"machine": {"gpus": 2}})
    jobs = gpu_jobs({"milli": 500}, {"milli": 400, "submit": 1})
    (tmp_path / "large").write_text("cores,memory_mb,gpus,milli,share\n1,0,1,600,1\n")
    places = run(cluster, jobs, f"fcfs(gpus=fgd, demands={tmp_path / 'large'})").table("claims")["place"].to_list()
    assert places[0] == places[1]
    (tmp_path / "twice").write_text("cores,memory_mb,gpus,milli,share\n" + "1,0,1,600,1\n1,0,1,300,1.5\n1,0,1,600,1\n")
    assert read_demands(str(tmp_path / "twice")) == {(1, 0, 1, 600): 2.0, (1, 0, 1, 300): 1.5}
    (tmp_path / "wrong").write_text("cores,gpus\n1,1\n")
    for wrong in ("wrong", "missing"):
        with pytest.raises(PolicyError, match="cores, memory_mb, gpus, milli and share"):
            read_demands(str(tmp_path / wrong))


def test_tasks_on_slices_are_seen_as_asking_for_no_gpu() -> None:
    """Eight of ten jobs ask for slices: were these taken for whole GPUs, the last would go beside the one on a half."""
    table = [{"machine": {"gpus": 2}, "nodes": "0"}, {"machine": {"gpus": 4, "slices": 2}, "nodes": "1"}]
    jobs = gpu_jobs(*[{"slices": 1}] * 8, {"milli": 500, "submit": 1}, {"milli": 400, "submit": 2})
    claims = run(cluster_of(table, 2), jobs, "fcfs(gpus=fgd)").table("claims")
    assert claims.filter(claims["quantity"] == "milli")["place"].to_list() == ["node0/gpu0", "node0/gpu1"]
