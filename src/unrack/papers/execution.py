"""Run a reproduction over processes: one task a workload and seed, all its rows in it; only numbers come back."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any

from unrack.errors import InputError, RunError
from unrack.papers.measured import Measured
from unrack.papers.reproduction import FLAGS, Counts, Numbers, Options, Reproduction, Row, Values
from unrack.papers.ways import changed_row, check_ways
from unrack.workload.batch_spec import SYNTHETIC_CORES

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Task:
    """One workload of one seed, and the rows to run it under.

    Attributes
    ----------
    workload
        Keys of the generator.
    seed
        Of the workload, and of policies that draw.
    rows
        What is compared.
    ideal
        The cluster whose fat node gives the window; ``None``: all is measured.
    models
        As :func:`unrack.simulate` takes them.
    counts
        Which counts to take beside the metrics.
    profiles
        For runs under contention: file or folder of application profiles, ``""``: the synthetic ones. ``None``: jobs
        do not contend.
    """

    workload: Mapping[str, Any]
    seed: int
    rows: tuple[Row, ...]
    ideal: str | Mapping[str, Any] | None
    models: tuple[str | Mapping[str, Any], ...]
    counts: Counts
    profiles: str | None = None


Engine = Callable[[Task], list[Numbers]]
"""Runs a task: numbers for each of its rows; empty where the window never opens."""


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
    models = list(reproduction.models)
    if options.frozen:
        tables = [{"model": model} if isinstance(model, str) else model for model in models]
        models = [{**table, "frozen": True} for table in tables]
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
    if options.trace is not None:
        drawn = {"jobs": options.jobs, "load": options.load}
        if changed := [name for name, value in drawn.items() if value != getattr(reproduction.defaults, name)]:
            got = f"{FLAGS.get(changed[0], f'--{changed[0]}')} beside --trace"
            raise InputError(reproduction.name, got, "one of them: a trace has its own")
        extra = {"trace": options.trace}
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
            tuple(models),
            reproduction.counts,
            (options.profiles or "") if "profiles" in reproduction.takes else None,
        )
        for point in reproduction.points
        for seed in range(options.seeds)
    ]


def _applications(options: Options) -> dict[str, Any]:
    """Keys of a generator: the applications that jobs are matched with."""
    from unrack.slowdown.contention.profile_file import read_profiles, synthetic_profiles

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
            flags = [FLAGS.get(one, f"--{one}") for one in sorted(reproduction.takes)]
            want = f"of these options: {', '.join(flags)}" if flags else "none of the options of workloads"
            raise InputError(reproduction.name, FLAGS.get(name, f"--{name}"), want)


def execute(
    reproduction: Reproduction,
    options: Options,
    *,
    jobs: int = 1,
    told: Told | None = None,
    engine: Engine | None = None,
) -> Measured:
    """Run a reproduction; the outcome does not depend on the number of processes.

    Parameters
    ----------
    reproduction
        What to run.
    options
        How.
    jobs
        How many processes; 1: this one.
    told
        Told how many runs are done, of how many.
    engine
        What runs a task, a function of a module; ``None``: the reproduction's own, or the simulator.

    Raises
    ------
    InputError
        An option cannot be.
    RunError
        A worker process was killed.
    KeyboardInterrupt
        Interrupted; the workers are ended.
    """
    if engine is None:
        engine = reproduction.measure
    if engine is None:
        from unrack.papers.measuring import simulated

        engine = simulated
    reproduction, options = settled(reproduction, options)
    tasks = tasks_of(reproduction, options)
    board = _Board(tasks, told)
    if jobs <= 1 or len(tasks) == 1:
        numbers = []
        for i, task in enumerate(tasks):
            numbers.append(engine(task))
            board.add(i)
    else:
        numbers = _over_processes(engine, tasks, min(jobs, len(tasks)), board)
    values = _by_place(reproduction, options, numbers)
    return Measured(reproduction, options, values if reproduction.derive is None else reproduction.derive(values))


def _by_place(reproduction: Reproduction, options: Options, numbers: Sequence[Sequence[Numbers]]) -> Values:
    values: Values = {}
    for i, point in enumerate(reproduction.points):
        own = numbers[i * options.seeds : (i + 1) * options.seeds]
        for j, row in enumerate(point.rows):
            values[point.group, point.x, row.name] = tuple(seed[j] for seed in own)
    return values


class _Board:
    """Adds up progress, in runs."""

    def __init__(self, tasks: Sequence[Task], told: Told | None) -> None:
        self.sizes = [len(task.rows) for task in tasks]
        self.done = 0
        self.told = told

    def add(self, index: int) -> None:
        self.done += self.sizes[index]
        if self.told is not None:
            self.told(self.done, sum(self.sizes))


def _over_processes(engine: Engine, tasks: Sequence[Task], jobs: int, board: _Board) -> list[list[Numbers]]:
    """Fresh processes; the answers are put back in the order of the tasks."""
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin_worker)
    numbers: list[list[Numbers]] = [[] for _ in tasks]
    try:
        futures: dict[Future[list[Numbers]], int] = {pool.submit(engine, task): i for i, task in enumerate(tasks)}
        waiting = set(futures)
        while waiting:
            ended, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in ended:
                numbers[futures[future]] = future.result()
                board.add(futures[future])
    except BaseException as error:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise RunError("a worker process was killed (out of memory?)") from error
        raise
    pool.shutdown()
    return numbers


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
