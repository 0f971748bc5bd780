"""Run a study: in this process or over several, keeping what is finished, or measuring it where it ran."""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from unrack.errors import InputError, RunError
from unrack.jit import on_first_compile, telling_of_compiling
from unrack.sim.guard import Interrupts, said
from unrack.sim.simulate import Result, simulate
from unrack.study.grid import Run, Study
from unrack.study.processes import CONTEXT, processes, spread
from unrack.study.results.keep import is_kept, keep_run, keep_study, list_runs

Told = Callable[["Progress"], None]
R = TypeVar("R")
Measure = Callable[[Run, Result, float], R]
"""What is wanted of a finished run: given the run, its result, and how many seconds it took on the wall."""


class Progress(NamedTuple):
    """How far a study is: runs and jobs done, of how many; ``kept`` runs were finished before.

    ``compiling``: kernels had to be compiled, as in a first use.
    """

    runs_done: int
    runs: int
    jobs_done: int
    jobs: int
    kept: int
    compiling: bool = False


class Failure(NamedTuple):
    """A run that failed, and why."""

    run: Run
    error: str


def run_study(
    study: Study, directory: Path, *, jobs: int = 1, told: Told | None = None, audit: bool = True
) -> list[dict[str, Any]]:
    """Run what is not finished yet, then write the summary.

    Parameters
    ----------
    study
        What to run.
    directory
        Where to; made if it is not there.
    jobs
        How many processes; 1: this one.
    told
        Told of progress, a few times a second at most while something runs.
    audit
        Check the tables of every run when it has ended: :func:`unrack.audit`.

    Returns
    -------
    list of dict
        The rows of ``summary.csv``.

    Raises
    ------
    InputError
        The directory cannot be made.
    RunError
        A run failed, or something could not be written; the others were finished and kept.
    KeyboardInterrupt
        Interrupted; what was finished is kept.
    """
    try:
        (directory / "runs").mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise InputError(str(directory), got, "a directory that can be made and written to") from None
    left = [run for run in study.runs if not is_kept(directory, run)]
    with _kept_is_said(directory):
        if left:
            list_runs(directory, study.runs)
        for outdated in ("summary.csv", "report.html") if left else ():
            (directory / outdated).unlink(missing_ok=True)
    board = _Board(study.runs, left, told)
    board.tell()
    if jobs <= 1 or len(left) <= 1:
        with telling_of_compiling(board.compiles):
            failures = _run_here(left, directory, board, audit)
    else:
        with _kept_is_said(directory):
            failures = _run_in_processes(left, directory, min(jobs, len(left)), board, audit)
    if failures:
        lines = "\n".join(f"  {failure.run.id}: {failure.error}" for failure in failures)
        raise RunError(f"{len(failures)} of {len(study.runs)} runs failed (the others are kept):\n{lines}")
    with _kept_is_said(directory):
        return keep_study(directory, study)


@contextmanager
def _kept_is_said(directory: Path) -> Iterator[None]:
    """A file that cannot be written ends the study with one sentence: a full disk is nobody's bug.

    Raises
    ------
    RunError
        It names the file and what the system said.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or directory
        said = f"{where}: {error.strerror or error}"
        raise RunError(f"{said}; finished runs are kept in {directory / 'runs'} and will not be run again") from error


class _Board:
    """Adds up progress."""

    def __init__(self, runs: Sequence[Run], left: Sequence[Run], told: Told | None) -> None:
        self.told = told
        self.kept = len(runs) - len(left)
        self.sizes = [len(run.workload) for run in left]
        self.done = [0] * len(left)
        self.finished = 0
        self.compiling = False

    def compiles(self) -> None:
        """Kernels have to be compiled."""
        self.compiling = True
        self.tell()

    def tell(self) -> None:
        """Pass on where things are."""
        if self.told is not None:
            finished, runs = self.finished + self.kept, len(self.sizes) + self.kept
            jobs_done, jobs = sum(self.done), sum(self.sizes)
            self.told(Progress(finished, runs, jobs_done, jobs, self.kept, self.compiling))


def _run_here(left: Sequence[Run], directory: Path, board: _Board, audit: bool) -> list[Failure]:
    failures = []
    for i, run in enumerate(left):

        def progress(done: int, _: int, i: int = i) -> None:
            board.done[i] = done
            board.tell()

        error = _failing(partial(one_run, run, directory, progress, audit))
        if error is not None:
            failures.append(Failure(run, error))
        board.done[i] = board.sizes[i]
        board.finished += 1
        board.tell()
    return failures


def _failing(run: Callable[[], None]) -> str | None:
    """What a run failed of; ``None``: nothing. A user's policy may raise anything; the other runs go on.

    Raises
    ------
    KeyboardInterrupt
        The user wants to stop, and not only the policy.
    """
    with Interrupts() as interrupts:
        try:
            run()
        except BaseException as error:
            if interrupts.meant(error):
                raise KeyboardInterrupt from None
            return said(error)
        if interrupts.meant():
            raise KeyboardInterrupt
    return None


def one_run(run: Run, directory: Path, progress: Callable[[int, int], None] | None = None, audit: bool = True) -> None:
    """Simulate one run and keep it."""
    keep_run(directory, run, simulated(run, progress, audit))


def measure_runs(runs: Iterable[Run], measure: Measure[R], *, jobs: int = 1, audit: bool = True) -> Generator[R]:
    """Simulate runs and measure each in the process that ran it; nothing is written.

    Parameters
    ----------
    runs
        What to run; they are taken as processes become free, so that few workloads are held at once.
    measure
        A function of a module. Its answer goes back to this process, the result does not.
    jobs
        How many processes; 1: this one.
    audit
        Check the tables of every run: :func:`unrack.audit`.

    Returns
    -------
    generator
        The answers, in the order of the runs.

    Raises
    ------
    RunError
        A worker process was killed.
    """
    return spread(partial(_measured, measure, audit), runs, jobs)


def _measured(measure: Measure[R], audit: bool, run: Run) -> R:
    began = time.perf_counter()
    result = simulated(run, audit=audit)
    return measure(run, result, time.perf_counter() - began)


def simulated(run: Run, progress: Callable[[int, int], None] | None = None, audit: bool = True) -> Result:
    """The result of one run."""
    result = simulate(
        run.cluster,
        run.workload,
        run.policy.make(),
        seed=run.seed,
        ties=run.ties,
        faults=run.faults,
        models=run.models,
        contention=run.contention,
        slowdowns=run.slowdowns,
        memory_changes=run.memory_changes,
        core_tiles=run.core_tiles,
        window_us=run.window_us,
        progress=progress,
        audit=audit,
    )
    return result if result.failing == run.failing else replace(result, failing=run.failing)


# --- over processes ---------------------------------------------------------------------------------------------


def _run_in_processes(left: Sequence[Run], directory: Path, jobs: int, board: _Board, audit: bool) -> list[Failure]:
    """Each workload goes to the workers once, through a file."""
    counters = CONTEXT.Array("q", len(left), lock=False)
    begun = CONTEXT.Array("b", len(left), lock=False)
    compiling = CONTEXT.Value("b", 0, lock=False)
    folder = directory / ".workloads"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    failures: list[Failure] = []
    try:
        for run in left:
            path = folder / run.workload_digest
            if not path.exists():
                path.write_bytes(pickle.dumps(run.workload.jobs, protocol=5))
        with processes(jobs, _given, str(folder), counters, begun, compiling) as pool:
            futures: dict[Future[str | None], int] = {}
            for i, run in enumerate(left):
                slim = replace(run, workload=replace(run.workload, jobs=None))  # type: ignore[arg-type]  # put back there
                futures[pool.submit(_work, slim, directory, i, audit)] = i
            waiting = set(futures)
            while waiting:
                ended, waiting = wait(waiting, timeout=0.25, return_when=FIRST_COMPLETED)
                for future in ended:
                    i = futures[future]
                    broken = future.exception()
                    if isinstance(broken, BrokenProcessPool):
                        raise RunError(_lost(left, begun, {futures[other] for other in waiting | ended})) from broken
                    error = future.result() if broken is None else said(broken)
                    if error is not None:
                        failures.append(Failure(left[i], error))
                    counters[i] = board.sizes[i]
                    board.finished += 1
                board.done = list(counters)
                board.compiling = bool(compiling.value)
                board.tell()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for building in (directory / "runs").glob(".*"):
            shutil.rmtree(building, ignore_errors=True)
    return sorted(failures, key=lambda failure: failure.run.id)


def _lost(left: Sequence[Run], begun: Sequence[int], waiting: set[int]) -> str:
    """What to say when a worker process has ended without an answer."""
    ids = ", ".join(left[i].id for i in sorted(waiting) if begun[i])
    what = "a worker process was killed (out of memory?), or a policy ended it"
    return f"{what}, in one of these runs: {ids}; finished runs are kept"


_worker: dict[str, Any] = {}
"""What a worker process was given when it began; empty in any other process."""


def _given(folder: str, counters: Any, begun: Any, compiling: Any) -> None:
    _worker.update(folder=folder, counters=counters, begun=begun, digest=None, table=None)
    on_first_compile(partial(setattr, compiling, "value", 1))


def _work(run: Run, directory: Path, index: int, audit: bool) -> str | None:
    """One run in a worker; returns what it failed of, as text: not every exception can be sent to the parent."""
    _worker["begun"][index] = 1
    if _worker["digest"] != run.workload_digest:
        _worker["table"] = pickle.loads((Path(_worker["folder"]) / run.workload_digest).read_bytes())
        _worker["digest"] = run.workload_digest
    counters = _worker["counters"]

    def progress(done: int, _: int) -> None:
        counters[index] = done

    whole = replace(run, workload=replace(run.workload, jobs=_worker["table"]))
    try:
        one_run(whole, directory, progress, audit)
    except BaseException as error:  # Ctrl-C is the parent's: here everything is the run's own
        return said(error)
    return None
