"""Running: one task a workload and seed, the same outcome over any number of processes, clean interruption."""

from __future__ import annotations

import pytest
from pretend import engine, shortened, stopped

from unrack.errors import InputError
from unrack_papers.execution import execute, tasks_of
from unrack_papers.options import Options
from unrack_papers.pages.page import as_csv
from unrack_papers.table import REPRODUCTIONS, find

ONE = REPRODUCTIONS["nvme-s1"]


def test_a_workload_is_shared_by_the_rows_that_are_compared_on_it() -> None:
    tasks = tasks_of(ONE, Options(seeds=20))
    assert len(tasks) == 5 * 20
    assert {task.seed for task in tasks} == set(range(20))
    assert all(len(task.rows) == 8 for task in tasks)
    assert tasks[0].workload == {"scenario": "nvme-s1", "load": 0.9, "jobs": 1500}


def test_options_reach_the_workloads_and_the_models() -> None:
    plain = tasks_of(ONE, Options(seeds=1))[0]
    varied = tasks_of(ONE, Options(seeds=1, jobs=70, frozen=True, arrivals="fixed"))[0]
    assert plain.models == ("smufin",)
    assert varied.models == ({"model": "smufin", "frozen": True},)
    assert varied.workload["arrivals"] == {"kind": "fixed"}
    assert varied.workload["jobs"] == 70


def test_another_load_can_be_offered_at_a_point() -> None:
    tasks = tasks_of(ONE, Options(seeds=1, offers=((0.9, 1.4),)))
    assert [task.workload["load"] for task in tasks] == [1.4, 0.8, 0.7, 0.6, 0.5]


def test_files_are_called_by_what_differs_from_the_default() -> None:
    assert Options(seeds=5).variant(Options()) == ""
    assert (
        Options(frozen=True, arrivals="fixed", offers=((0.9, 1.4),), jobs=70).variant(Options())
        == "fixed-frozen-offered-70-jobs"
    )


@pytest.mark.parametrize(
    "options", [Options(seeds=0), Options(jobs=0), Options(arrivals="bursts"), Options(offers=((3, 1),))]
)
def test_options_that_cannot_be_are_refused(options: Options) -> None:
    with pytest.raises(InputError):
        tasks_of(ONE, options)


@pytest.mark.long
def test_the_outcome_does_not_depend_on_the_number_of_processes() -> None:
    one = shortened(ONE, 2)
    alone = execute(one, Options(seeds=3), solve=engine)
    several = execute(one, Options(seeds=3), jobs=3, solve=engine)
    assert as_csv(alone) == as_csv(several)
    assert alone.values == several.values


def test_progress_counts_runs() -> None:
    told: list[tuple[int, int]] = []
    execute(shortened(ONE, 2), Options(seeds=2), solve=engine, told=lambda done, total: told.append((done, total)))
    assert told == [(done, 32) for done in range(1, 33)]


@pytest.mark.long
def test_an_interruption_in_a_worker_ends_all_of_them() -> None:
    with pytest.raises(KeyboardInterrupt):
        execute(shortened(ONE, 2), Options(seeds=2), jobs=2, solve=stopped)


def test_a_name_that_is_none_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="'nvme-nodes' perhaps"):
        find("nvme-node")
