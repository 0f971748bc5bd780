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

from unrack.papers.reproduction import Measurement, Numbers, Row, Task
from unrack.study.results.identity import engine_digest
from unrack.study.results.record import write_whole

Answers = Generator[tuple[int, int, Numbers]]


def key_of(task: Task, row: Row, measure: Measurement) -> str:
    """The name under which the numbers of a run are kept."""
    files = [digest_of(Path(str(path))) for path in (task.workload.get("trace"), task.profiles) if path]
    decisive = [
        dict(task.workload), task.seed, task.ideal, task.models, task.profiles is None, files, row.policy, row.cluster,
        str(row.world), row.contention, f"{measure.__module__}.{measure.__qualname__}", engine_digest(),
        code_digest(measure.__module__),
    ]  # fmt: skip
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
    found = [sys.modules[name].__file__ for name in (module, "unrack.papers.reproduction")]
    paths = [Path(__file__).parent / "simulation.py", *(Path(path) for path in found if path)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


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


def read(path: Path) -> Numbers | None:
    """Numbers that were kept; ``None``: none were, or the file is damaged."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
