"""Numbers of runs that are kept on disk: an interrupted reproduction goes on, and several share runs that are the same.

A run is known by all that decides its numbers: workload, seed, policy, cluster, world, what is measured, and the code.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from unrack.study import engine_digest, write_whole
from unrack_papers.options import GPU_FILES
from unrack_papers.reproduction import Measurement, Numbers, Row, Solve, Task

Answers = Generator[tuple[int, int, Numbers]]
FILES = ("trace", "servers", *GPU_FILES)
"""Keys of a workload that are files."""


def key_of(task: Task, row: Row, measure: Measurement) -> str:
    """The name under which the numbers of a run are kept."""
    return _hashed([*_of_task(task), *_of_row(row), *_of_code(measure), code_digest(measure.__module__)])


def key_of_task(task: Task, solve: Solve) -> str:
    """The name under which the numbers of all rows of a task are kept: their names decide, too."""
    rows = [(row.name, *_of_row(row)) for row in task.rows]
    return _hashed([*_of_task(task), rows, *_of_code(solve), paper_digest(solve.__module__)])


def _of_task(task: Task) -> list[object]:
    files = [digest_of(Path(str(path))) for path in (*map(task.workload.get, FILES), task.profiles) if path]
    return [dict(task.workload), task.seed, task.ideal, task.models, task.profiles is None, files]


def _of_row(row: Row) -> list[object]:
    return [row.policy, row.cluster, str(row.world), row.contention]


def _of_code(function: Measurement | Solve) -> list[object]:
    return [f"{function.__module__}.{function.__qualname__}", engine_digest()]


def _hashed(decisive: list[object]) -> str:
    return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:32]


def digest_of(path: Path) -> str:
    """SHA-256 of a file, or of all files of a folder; of what is neither, its name."""
    files = sorted(one for one in path.rglob("*") if one.is_file()) if path.is_dir() else [path]
    total = hashlib.sha256(path.name.encode())
    for one in files:
        if one.is_file():
            total.update(one.name.encode() + one.read_bytes())
    return total.hexdigest()


@cache
def code_digest(module: str) -> str:
    """SHA-256 of the code that says how runs are made of tasks, and what is measured (a module)."""
    found = [sys.modules[name].__file__ for name in (module, "unrack_papers.reproduction")]
    paths = [Path(__file__).parent / "simulation.py", *(Path(path) for path in found if path)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


@cache
def paper_digest(module: str) -> str:
    """SHA-256 of the code of a paper, of which a module solves tasks, and of what makes runs of them."""
    own = sorted((Path(__file__).parent / module.removeprefix("unrack_papers.").partition(".")[0]).rglob("*.py"))
    others = [Path(__file__).parent / name for name in ("simulation.py", "reproduction.py")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in (*own, *others))).hexdigest()


def solved_before(
    tasks: Sequence[Task], solve: Solve, folder: Path, run: Callable[[Sequence[Task]], Generator[list[Numbers]]]
) -> Answers:
    """As :func:`resumed`, of tasks whose rows are solved together."""
    left = []
    for i, task in enumerate(tasks):
        found = (read(folder / f"{key_of_task(task, solve)}.json") or {}).get("rows")
        if isinstance(found, list) and len(found) == len(task.rows):
            yield from ((i, j, own) for j, own in enumerate(found))
        else:
            left.append(i)
    with closing(run([tasks[i] for i in left])) as answers:
        for i, numbers in zip(left, answers, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / f"{key_of_task(tasks[i], solve)}.json", json.dumps({"rows": numbers}) + "\n")
            yield from ((i, j, own) for j, own in enumerate(numbers))


def resumed(
    tasks: Sequence[Task],
    measure: Measurement,
    folder: Path,
    run: Callable[[Sequence[Task], Measurement], Answers],
) -> Answers:
    """The numbers of every row, those that are kept first; what is run is kept as soon as it is known.

    Parameters
    ----------
    folder
        Where they are kept; made when it is needed.
    run
        Runs tasks: task, row (by number) and numbers of each.
    """
    left: list[tuple[int, list[int]]] = []
    keys: dict[tuple[int, int], str] = {}
    for i, task in enumerate(tasks):
        rows = []
        for j, row in enumerate(task.rows):
            keys[i, j] = key_of(task, row, measure)
            found = read(folder / f"{keys[i, j]}.json")
            if found is None:
                rows.append(j)
            else:
                yield i, j, found
        if rows:
            left.append((i, rows))
    fewer = [replace(tasks[i], rows=tuple(tasks[i].rows[j] for j in rows)) for i, rows in left]
    with closing(run(fewer, measure)) as answers:
        for at, place, numbers in answers:
            i, rows = left[at]
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / f"{keys[i, rows[place]]}.json", json.dumps(numbers) + "\n")
            yield i, rows[place], numbers


def read(path: Path) -> dict[str, Any] | None:
    """Numbers that were kept; ``None``: none were, or the file is damaged."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
