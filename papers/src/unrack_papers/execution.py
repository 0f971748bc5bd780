"""Run a reproduction: a task a workload and seed, with all its rows; only numbers come back from the processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from unrack.errors import InputError
from unrack.study import PROCESSES, On, Workers, spread
from unrack.workload import SYNTHETIC_CORES
from unrack_papers.kept_runs import resumed, solved_before
from unrack_papers.measured import Measured
from unrack_papers.options import DEFAULTS, GPU_FILES, Options, flag_of
from unrack_papers.reproduction import Numbers, Reproduction, Solve, Task, Values
from unrack_papers.ways import changed_row, check_ways, models_of

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
