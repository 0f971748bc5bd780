"""Reproductions that go on where they were interrupted."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from unrack_papers.execution import Answers, key_of, key_of_task, resumed, solved_before
from unrack_papers.reproduction import Measurement, Numbers, Row, Task, metrics

ROWS = tuple(Row(name, name, {"nodes": [{"count": 2, "cores": 1}]}) for name in ("fcfs", "easy", "sjf"))
TASKS = [Task({"jobs": 5 + i}, seed, ROWS, None, ()) for i in range(2) for seed in range(2)]


class Runs:
    """Runs tasks, and counts."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, tasks: Sequence[Task], measure: Measurement) -> Answers:
        for i, task in enumerate(tasks):
            for j, row in enumerate(task.rows):
                self.count += 1
                yield i, j, numbers(task, row)


def numbers(task: Task, row: Row) -> Numbers:
    return {"one": task.seed + len(row.name) / 3, "jobs": float(task.workload["jobs"]), "none": None}


def whole(folder: Path, run: Runs, tasks: Sequence[Task] = TASKS) -> dict[tuple[int, int], Numbers]:
    return {(i, j): found for i, j, found in resumed(tasks, metrics, folder, run)}


def test_what_was_run_before_an_interruption_is_not_run_again(tmp_path: Path) -> None:
    first, second, third = Runs(), Runs(), Runs()
    answers = resumed(TASKS, metrics, tmp_path, first)
    list(islice(answers, 5))
    answers.close()  # Ctrl-C
    expected = {(i, j): numbers(task, row) for i, task in enumerate(TASKS) for j, row in enumerate(task.rows)}
    assert whole(tmp_path, second) == expected
    assert first.count + second.count == len(expected)
    assert whole(tmp_path, third) == expected
    assert third.count == 0


def test_a_damaged_file_is_run_again(tmp_path: Path) -> None:
    whole(tmp_path, Runs())
    for path, text in zip(sorted(tmp_path.glob("*.json")), ("", "{", "[1]", "\x00"), strict=False):
        path.write_text(text)
    again = Runs()
    assert whole(tmp_path, again)[0, 0] == numbers(TASKS[0], ROWS[0])
    assert again.count == 4


def test_whatever_decides_a_run_is_in_its_name(tmp_path: Path) -> None:
    profiles = tmp_path / "apps.csv"
    profiles.write_text("a")
    task = replace(TASKS[0], profiles=str(profiles))
    names = {key_of(task, ROWS[0], metrics), key_of(task, ROWS[1], metrics), key_of(TASKS[1], ROWS[0], metrics),
             key_of(replace(task, models=("smufin",)), ROWS[0], metrics), key_of(TASKS[0], ROWS[0], metrics),
             key_of(replace(task, workload={"jobs": 9}), ROWS[0], metrics),
             key_of(task, replace(ROWS[0], contention="off"), metrics)}  # fmt: skip
    assert len(names) == 7
    before = key_of(task, ROWS[0], metrics)
    profiles.write_text("b")
    assert key_of(task, ROWS[0], metrics) != before
    assert key_of(task, replace(ROWS[0], name="another"), metrics) == key_of(task, ROWS[0], metrics)


def solve(task: Task) -> list[Numbers]:
    return [numbers(task, row) for row in task.rows]


def test_tasks_that_are_solved_as_a_whole_are_kept_whole(tmp_path: Path) -> None:
    ran: list[Task] = []

    def run(tasks: Sequence[Task]) -> Generator[list[Numbers]]:
        for task in tasks:
            ran.append(task)
            yield solve(task)

    answers = solved_before(TASKS, solve, tmp_path, run)
    first = list(islice(answers, 4))  # the second task is begun, and kept
    answers.close()  # Ctrl-C
    kept = sorted(tmp_path.glob("*.json"))
    expected = [(i, j, one) for i, task in enumerate(TASKS) for j, one in enumerate(solve(task))]
    assert len(kept) == 2
    assert first == expected[:4]
    assert sorted(solved_before(TASKS, solve, tmp_path, run), key=lambda one: one[:2]) == expected
    assert len(ran) == len(TASKS)
    kept[0].write_text('{"rows": [{}]}')  # of fewer rows
    assert len(list(solved_before(TASKS, solve, tmp_path, run))) == len(expected)
    assert len(ran) == len(TASKS) + 1


def test_whatever_decides_a_solved_task_is_in_its_name(tmp_path: Path) -> None:
    pods = tmp_path / "pods.csv"
    pods.write_text("a")
    task = replace(TASKS[0], workload={"pods": str(pods)})
    named = replace(task, rows=(replace(ROWS[0], name="another"), *ROWS[1:]))
    names = {key_of_task(task, solve), key_of_task(named, solve), key_of_task(replace(task, seed=9), solve)}
    pods.write_text("b")
    assert len({*names, key_of_task(task, solve)}) == 4
