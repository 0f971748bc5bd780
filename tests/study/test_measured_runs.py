"""Runs that are measured where they ran: the same numbers as kept ones, in order, over any number of processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from unrack.errors import InputError, RunError
from unrack.sim.result import Result
from unrack.study.grid import Run, Study, load_study
from unrack.study.runner import measure_runs, run_study
from unrack.study.workers.table import AHEAD, spread

pytestmark = pytest.mark.long

STUDY = """
policies = ["fcfs", "easy"]
seeds = [0, 1, 2]

[[clusters]]
nodes = [{ count = 4, cores = 4 }]

[[workloads]]
generate = { jobs = 40, arrivals = { gap_s = 5 }, classes = [{ run_s = 30, tasks = 2, cores = 3 }] }
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return load_study(str(path))


def waits(run: Run, result: Result, took_s: float) -> tuple[str, float | None, bool]:
    return run.id, result.metrics["wait_s_mean"], took_s > 0


def broken(run: Run, result: Result, took_s: float) -> None:
    raise ValueError(f"measured {run.seed}")


def backwards(number: int) -> int:
    time.sleep(0.02 * (5 - number % 5))
    return -number


def killed(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed_once(folder: Path, number: int) -> int:
    (folder / f"{number}.{os.getpid()}").touch()
    if number == 3 and len(list(folder.glob("3.*"))) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def process(_: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_is_measured_is_what_a_kept_run_would_say(jobs: int, study: Study, tmp_path: Path) -> None:
    runs = study.runs
    found = list(measure_runs(runs, waits, jobs=jobs))
    kept = {row["run"]: row["wait_s_mean"] for row in run_study(study, tmp_path / "kept")}
    assert found == [(run.id, kept[run.id], True) for run in runs]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_measure_raises_comes_to_the_caller(jobs: int, study: Study) -> None:
    with pytest.raises(ValueError, match="measured 0"):
        list(measure_runs(study.runs, broken, jobs=jobs))


def test_a_run_that_cannot_be_simulated_raises_its_own_error(study: Study) -> None:
    wrong = replace(study.runs[0], window_us=(5, 3))
    for jobs in (1, 2):
        with pytest.raises(InputError, match="a later end"):
            list(measure_runs([wrong], waits, jobs=jobs))


def test_answers_come_in_the_order_of_the_items_whoever_ends_first() -> None:
    assert list(spread(backwards, range(40), 3)) == [-number for number in range(40)]


def test_items_are_taken_as_answers_are_given() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10 * AHEAD):
            taken.append(number)
            yield number

    with closing(spread(abs, items(), 2)) as answers:
        for given in range(5 * AHEAD):
            next(answers)
            assert len(taken) <= given + 2 * AHEAD


def test_closing_the_answers_ends_the_processes() -> None:
    answers = spread(process, range(100), 2)
    worker = next(answers)
    answers.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def test_a_worker_that_is_killed_is_replaced_and_its_items_are_done_again(tmp_path: Path) -> None:
    assert list(spread(partial(killed_once, tmp_path), range(10), 2)) == list(range(10))
    done = [path.name.partition(".")[0] for path in tmp_path.iterdir()]
    assert done.count("3") == 2
    assert all(done.count(str(number)) == 1 for number in range(7, 10))  # those before may be of the lost task


def test_an_item_that_kills_every_worker_is_told_in_words() -> None:
    with pytest.raises(RunError, match="worker process was killed"):
        list(spread(killed, range(10), 2))
