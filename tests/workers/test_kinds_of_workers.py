"""Every kind of workers: the same bytes, resume, inputs sent once, progress, lost workers."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import pytest
import worker_tasks as tasks

from unrack.errors import InputError, RunError
from unrack.study.grid import Study, load_study
from unrack.study.runner import Progress, keep_runs, measure_runs, run_study
from unrack.study.workers.shared import TRIES, LostError, Workers, answers
from unrack.study.workers.table import parse_on, spread, spread_over
from unrack.workload.generate.generator import generate

STUDY = """
policies = ["fcfs", {{ file = "mine.py:Mine", label = "mine" }}]
seeds = {seeds}

[[clusters]]
nodes = [{{ count = 4, cores = 4 }}]

[[workloads]]
generate = {{ jobs = 60, arrivals = {{ gap_s = 5 }}, classes = [{{ run_s = 30, tasks = 2, cores = 3 }}] }}
"""
MINE = """
from unrack.policy import ListScheduler
class Mine(ListScheduler):
    pass
"""


def studied(folder: Path, seeds: str = "[0, 1, 2]", policy: str = MINE) -> Study:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.py").write_text(policy)
    (folder / "study.toml").write_text(STUDY.format(seeds=seeds))
    return load_study(str(folder / "study.toml"))


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def times_done(folder: Path) -> Counter[int]:
    return Counter(int(path.name.partition("-")[0]) for path in folder.iterdir())


def test_the_same_bytes_are_kept_as_by_one_process(workers: Workers, tmp_path: Path) -> None:
    study = studied(tmp_path)
    run_study(study, tmp_path / "one", jobs=1)
    run_study(study, tmp_path / "many", workers=workers)
    assert digests(tmp_path / "one") == digests(tmp_path / "many")
    assert len(digests(tmp_path / "one")) == 2 + 4 * len(study.runs)


def test_one_batch_after_another_on_the_same_workers_and_what_is_kept_is_not_run(
    workers: Workers, tmp_path: Path
) -> None:
    study = studied(tmp_path)
    first, told = keep_runs(workers, study.runs[:2], tmp_path / "out"), list[Progress]()
    written = {path: path.stat().st_mtime_ns for path in tmp_path.glob("out/runs/*/run.json")}
    rows = keep_runs(workers, study.runs, tmp_path / "out", told=told.append)
    assert rows[:2] == first
    assert [row["run"] for row in rows] == [run.id for run in study.runs]
    assert (told[0].kept, told[0].runs_done, told[-1].runs_done) == (2, 2, 6)
    assert all(path.stat().st_mtime_ns == before for path, before in written.items())


def test_a_policys_file_need_not_be_where_the_workers_are(workers: Workers, tmp_path: Path) -> None:
    study = studied(tmp_path)

    def gone(progress: Progress) -> None:
        (tmp_path / "mine.py").write_text("raise RuntimeError('changed')")

    assert len(keep_runs(workers, study.runs, tmp_path / "out", told=gone)) == 6


def test_what_a_policy_raises_fails_its_run_in_words_and_the_others_are_kept(workers: Workers, tmp_path: Path) -> None:
    broken = MINE.replace("pass", "def decide(self, *_):\n        raise LookupError('mine')")
    study = studied(tmp_path, policy=broken)
    with pytest.raises(RunError, match="LookupError: mine") as failed:
        keep_runs(workers, study.runs, tmp_path / "out")
    assert "3 of 6 runs failed" in str(failed.value)
    assert len(list(tmp_path.glob("out/runs/*/run.json"))) == 3


def test_measured_runs_come_in_their_order(workers: Workers, tmp_path: Path) -> None:
    study = studied(tmp_path)
    assert list(measure_runs(study.runs, id_of, workers=workers)) == [run.id for run in study.runs]


def id_of(run: object, result: object, took_s: float) -> str:
    return str(run.id)  # type: ignore[attr-defined]


def test_an_input_is_sent_once_a_worker_and_read_once_a_process(kind: str, workers: Workers) -> None:
    table = generate({"jobs": 500, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 9, "tasks": 1}]}, seed=7).jobs
    before = workers.sent  # type: ignore[attr-defined]
    places: dict[int, set[int]] = defaultdict(set)
    for _ in range(2):
        for process, place in spread(partial(tasks.seen_in, table), range(40), workers):
            places[process].add(place)
    assert [len(found) for found in places.values()] == [1] * len(places)
    sent = workers.sent - before  # type: ignore[attr-defined]
    assert sent == (len(places) if kind == "processes" else 1)


def test_every_worker_tells_how_far_it_is(workers: Workers) -> None:
    told: dict[int, list[int]] = defaultdict(list)
    found = answers(workers, tasks.slowly, range(4), running=lambda place, done: told[place].append(done))
    assert sorted(place for place, _ in found) == [0, 1, 2, 3]
    assert set(told) == {0, 1, 2, 3}
    for steps in told.values():
        assert steps == sorted(steps)
        assert len(steps) >= 3
        assert 0 < max(steps) < 10


def test_a_worker_that_is_killed_costs_only_its_own_items(workers: Workers, tmp_path: Path) -> None:
    found = dict(answers(workers, partial(tasks.killing, tmp_path, {3: 1}), range(12), most=1))
    assert {place: answer.value for place, answer in found.items()} == {number: number for number in range(12)}
    done = times_done(tmp_path)
    assert done[3] == 2
    assert sum(done.values()) <= 14  # one more may have waited with the lost worker


def test_an_item_that_kills_every_worker_fails_alone(workers: Workers, tmp_path: Path) -> None:
    found = dict(answers(workers, partial(tasks.killing, tmp_path, {2: 99}), range(6), most=1))
    assert isinstance(found[2].error, LostError)
    assert times_done(tmp_path)[2] == TRIES
    assert [found[number].value for number in (0, 1, 3, 4, 5)] == [0, 1, 3, 4, 5]


@pytest.mark.slow
def test_every_item_is_answered_though_all_workers_are_killed_again_and_again(workers: Workers, tmp_path: Path) -> None:
    """A worker dies while it is being replaced, and the answer of another is lost on its way."""
    killers = {number: number % 3 for number in range(12)}
    found = dict(answers(workers, partial(tasks.killing, tmp_path, killers), range(12), most=1))
    assert sorted(found) == list(range(12))
    assert all(answer.value == number or isinstance(answer.error, LostError) for number, answer in found.items())
    assert found[0].value == 0
    assert list(spread(abs, [-1, -2], workers)) == [1, 2]


def test_work_that_is_given_up_leaves_workers_that_go_on(workers: Workers, tmp_path: Path) -> None:
    found = answers(workers, partial(tasks.touched, tmp_path), range(100_000))
    for _ in range(3):
        next(found)
    found.close()
    assert list(spread(abs, [-1, -2], workers)) == [1, 2]
    assert len(times_done(tmp_path)) < 100_000


def test_errors_and_answers_that_cannot_be_sent_come_back_in_words(workers: Workers) -> None:
    with pytest.raises(ValueError, match="odd: 1"):
        list(spread_over(workers, tasks.raising, range(4)))
    with pytest.raises(RunError, match="an answer that cannot be sent"):
        list(spread_over(workers, tasks.unsendable, [1]))


@pytest.mark.parametrize("text", ["", "cluster", "processes tcp://x:1", "Dask"])
def test_what_on_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--on"):
        parse_on(text)
