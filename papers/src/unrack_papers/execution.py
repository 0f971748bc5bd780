"""Run a reproduction: a task a workload and seed, with all its rows; only numbers come back from the processes.

Numbers of runs that are kept on disk: an interrupted reproduction goes on, and several share runs that are the same.

A run is known by all that decides its numbers: workload, seed, policy, cluster, world, what is measured, and the code.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from unrack.errors import InputError
from unrack.study import PROCESSES, On, Workers, engine_digest, spread, write_whole
from unrack.workload import SYNTHETIC_CORES
from unrack_papers.measured import Measured
from unrack_papers.options import DEFAULTS, GPU_FILES, Options, flag_of
from unrack_papers.reproduction import Measurement, Numbers, Reproduction, Row, Solve, Task, Values
from unrack_papers.ways import changed_row, check_ways, models_of

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
    tasks: Sequence[Task], measure: Measurement, folder: Path, run: Callable[[Sequence[Task], Measurement], Answers]
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


Told = Callable[[int, int], None]


def tasks_of(reproduction: Reproduction, options: Options) -> list[Task]:
    """Every task, in the order of points and seeds.

    Raises
    ------
    InputError
        An option cannot be.
    """
    check_options(reproduction, options.changed(reproduction.defaults))
    if options.seeds < 1 or options.jobs < 1:
        got = f"{options.seeds} seeds, {options.jobs} jobs"
        raise InputError("reproduce", got, "1 or more of each")
    if options.arrivals not in ("poisson", "fixed"):
        raise InputError("--arrivals", repr(options.arrivals), "poisson or fixed")
    check_ways(reproduction, options)
    extra: dict[str, Any] = {"jobs": options.jobs} if "jobs" in reproduction.takes else {}
    load = reproduction.defaults.load if options.load is None else options.load
    if load is not None:
        extra["load"] = load
    if options.servers is not None:
        extra["servers"] = options.servers
    if "profile_cores" in reproduction.takes:
        extra |= _applications(options)
    if options.arrivals != "poisson":
        extra["arrivals"] = {"kind": options.arrivals}
    if options.reading != DEFAULTS.reading:
        extra["arrivals"] = {"kind": options.arrivals, "whole_seconds": True}
    if options.trace is not None:
        drawn = {"jobs": options.jobs, "load": options.load}
        if changed := [name for name, value in drawn.items() if value != getattr(reproduction.defaults, name)]:
            got = f"{flag_of(changed[0])} beside --trace"
            raise InputError(reproduction.name, got, "one of them: a trace has its own")
        extra = {"trace": options.trace}
    extra |= {name: path for name in GPU_FILES if (path := getattr(options, name)) is not None}
    offers = dict(options.offers)
    if unknown := sorted(set(offers) - {point.x for point in reproduction.points}):
        places = ", ".join(dict.fromkeys(str(point.x) for point in reproduction.points))
        raise InputError("--offer", str(unknown[0]), f"a place on the axis of {reproduction.name}: {places}")
    return [
        Task(
            {**point.workload, **extra, **({"load": offers[point.x]} if point.x in offers else {})},
            seed,
            tuple(changed_row(row, options) for row in point.rows),
            point.ideal,
            models_of(reproduction, options),
            (options.profiles or "") if "profiles" in reproduction.takes else None,
        )
        for point in reproduction.points
        for seed in range(options.seeds)
    ]


def _applications(options: Options) -> dict[str, Any]:
    """Keys of a generator: the applications that jobs are matched with."""
    from unrack.slowdown import read_profiles, synthetic_profiles

    known = read_profiles(options.profiles) if options.profiles else synthetic_profiles()
    keys = ("nodes", "run_s", "memory_mb")
    rows = [{"id": str(one.app), **{key: getattr(one, key) for key in keys}} for one in known.profiles]
    return {"profiles": rows, "profile_cores": options.profile_cores if options.profiles else SYNTHETIC_CORES}


def settled(reproduction: Reproduction, options: Options) -> tuple[Reproduction, Options]:
    """A reproduction and its options; with a file of servers nothing is drawn, and there is one seed.

    Raises
    ------
    InputError
        A number of seeds beside a file of servers.
    """
    if options.servers is None or reproduction.exact:
        return reproduction, options
    if options.seeds != reproduction.defaults.seeds:
        raise InputError(reproduction.name, "--seeds beside --servers", "one of them: nothing is drawn from a file")
    one = replace(
        reproduction,
        exact=True,
        quantities=tuple(one._replace(tolerance=0.0, share=0.0) for one in reproduction.quantities),
        defaults=replace(reproduction.defaults, seeds=1),
        takes=reproduction.takes - {"seeds"},
    )
    return one, replace(options, seeds=1)


def check_options(reproduction: Reproduction, names: Iterable[str]) -> None:
    """Refuse options that do not apply.

    Raises
    ------
    InputError
        One does not; the message lists those that do.
    """
    for name in names:
        if name not in reproduction.takes:
            flags = [flag_of(one) for one in sorted(reproduction.takes)]
            want = f"of these options: {', '.join(flags)}" if flags else "none of the options of workloads"
            raise InputError(reproduction.name, flag_of(name), want)


def execute(
    reproduction: Reproduction,
    options: Options,
    *,
    jobs: int = 1,
    workers: Workers | On = PROCESSES,
    told: Told | None = None,
    solve: Solve | None = None,
    keep: Path | None = None,
) -> Measured:
    """Run a reproduction; the outcome does not depend on the number of processes.

    Parameters
    ----------
    reproduction
        What to run.
    options
        How.
    jobs
        How many workers are started; one process is this one.
    workers
        Those that run it, or where they are opened for it.
    told
        Told how many runs are done, of how many.
    solve
        What finds the numbers of a task, a function of a module; ``None``: the reproduction's own, or the simulator.
    keep
        A folder in which numbers are kept: those that are there are not run again. ``None``: all are run, and none is
        kept, as of reproductions that print how long they took and are no runs of the simulator.

    Raises
    ------
    InputError
        An option cannot be.
    RunError
        A worker process was killed.
    KeyboardInterrupt
        Interrupted; the workers are ended.
    """
    reproduction, options = settled(reproduction, options)
    tasks = tasks_of(reproduction, options)
    solve = solve or reproduction.solve
    if solve is None:
        from unrack_papers.simulation import simulated

        run = partial(simulated, jobs=jobs, workers=workers)
        measure = reproduction.measure
        answers = run(tasks, measure) if keep is None else resumed(tasks, measure, keep, run)
    else:
        timed = reproduction.aside is not None  # what took how long is of this very call
        answers = _solved(tasks, solve, jobs if len(tasks) > 1 else 1, workers, None if timed else keep)
    numbers: list[list[Numbers]] = [[{} for _ in task.rows] for task in tasks]
    total = sum(map(len, numbers))
    with closing(answers):
        for done, (task, row, found) in enumerate(answers, 1):
            numbers[task][row] = found
            if told is not None:
                told(done, total)
    values = _by_place(reproduction, options, numbers)
    return Measured(reproduction, options, values if reproduction.derive is None else reproduction.derive(values))


def _solved(
    tasks: Sequence[Task], solve: Solve, jobs: int, workers: Workers | On, keep: Path | None
) -> Generator[tuple[int, int, Numbers]]:
    """The numbers of each row, after its task and itself by number."""

    def run(left: Sequence[Task]) -> Generator[list[Numbers]]:
        with closing(spread(solve, left, workers, jobs)) as answers:
            yield from answers

    if keep is not None:
        yield from solved_before(tasks, solve, keep, run)
        return
    for i, numbers in enumerate(run(tasks)):
        yield from ((i, row, own) for row, own in enumerate(numbers))


def _by_place(reproduction: Reproduction, options: Options, numbers: Sequence[Sequence[Numbers]]) -> Values:
    values: Values = {}
    for i, point in enumerate(reproduction.points):
        own = numbers[i * options.seeds : (i + 1) * options.seeds]
        for j, row in enumerate(point.rows):
            values[point.group, point.x, row.name] = tuple(seed[j] for seed in own)
    return values
