"""The real engine on few jobs: every reproduction of pooled devices runs, and what it compares is measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pretend import rows_of

from unrack_papers.call.figures import pool_of
from unrack_papers.call.tables import TABLE_ROWS
from unrack_papers.call.vgpu import slower_edge
from unrack_papers.execution import execute, tasks_of
from unrack_papers.measured import BOUND
from unrack_papers.options import OF_POOLS, Options
from unrack_papers.pages.page import as_csv
from unrack_papers.reproduction import Reproduction, Task
from unrack_papers.simulation import runs_of
from unrack_papers.table import REPRODUCTIONS

FEW = Options(seeds=1, jobs=150)
POOLED = [name for name, one in REPRODUCTIONS.items() if one.takes == OF_POOLS]


def ends(one: Reproduction) -> Reproduction:
    """Its first and last point."""
    return replace(one, points=(one.points[0], *one.points[1:][-1:]))


@pytest.mark.long
@pytest.mark.parametrize("name", POOLED)
def test_every_quantity_of_every_row_is_measured(name: str) -> None:
    measured = execute(ends(REPRODUCTIONS[name]), FEW)
    assert measured.without_window == 0
    for place in measured.values:
        for quantity in measured.reproduction.quantities:
            assert measured.at(place, quantity.label) is not None, (place, quantity.label)
        bound, missed = measured.each(place, BOUND.label)[0], measured.values[place][0]["missed_deadlines"]
        assert bound is not None
        assert missed is not None
        assert bound <= 100 * missed + 1e-9, place


@pytest.mark.long
def test_results_are_the_same_over_processes() -> None:
    one = ends(REPRODUCTIONS["nvme-s3"])
    options = replace(FEW, seeds=2, jobs=60)
    assert as_csv(execute(one, options)) == as_csv(execute(one, options, jobs=2))


def test_counts_by_node_add_up_to_the_jobs_and_stay_within_reach() -> None:
    (task,) = tasks_of(replace(REPRODUCTIONS["nvme-nodes"], points=REPRODUCTIONS["nvme-nodes"].points[1:]), FEW)
    for numbers in rows_of(REPRODUCTIONS["nvme-nodes"], task):
        counts = {key: value or 0 for key, value in numbers.items() if key.startswith("node") and key[4].isdigit()}
        assert sum(counts.values()) == FEW.jobs
        assert not any(counts[f"node{node}.{app}"] for node in (1, 3, 4) for app in ("smufin", "capacity"))
        assert numbers["nodes.smufin"] == 2


def test_counts_by_rule_are_shares_of_the_jobs_with_devices() -> None:
    one = REPRODUCTIONS["nvme-policies"]
    for numbers in rows_of(one, tasks_of(one, FEW)[0]):
        shares = [numbers[f"share.{rule}"] or 0 for rule in ("max-composition", "min-fragmentation")]
        assert sum(shares) == pytest.approx(1)


def test_a_window_that_never_opens_leaves_the_seed_out() -> None:
    workload = {"scenario": "nvme-s1", "load": 0.01, "jobs": 5}
    assert runs_of(Task(workload, 0, TABLE_ROWS, "nvme-pool", ("smufin",))) == []


def test_clusters_of_an_axis_differ_in_what_it_says() -> None:
    assert [pool["count"] for pool in pool_of(3)["pools"]] == [3]
    assert [pool.get("overhead", 0) for pool in slower_edge(5)["pools"]] == [0, 0.05]
