"""Run a study over workers of any kind, keeping what is finished, or measuring it where it ran."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from unrack.errors import FailedRunsError, InputError, RunError
from unrack.plugins.code import PluginFile, is_file, taking
from unrack.plugins.table import using
from unrack.policy.file import source_of
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.sim.world import said
from unrack.study.grid import Run, Study
from unrack.study.results.keep import Files, files_of, is_kept, keep_files, keep_run, keep_study, list_runs, summary
from unrack.study.workers.shared import Heard, Workers, answers
from unrack.study.workers.table import On, open_workers, spread_over

Told = Callable[["Progress"], None]
R = TypeVar("R")
Measure = Callable[[Run, Result, float], R]
"""What is wanted of a finished run: given the run, its result, and how many seconds it took on the wall."""
TELL_EVERY_S = 0.1
PROCESSES = On()
PROGRAM_MB = 280.0
"""A process that has loaded the code and its kernels; compiling them takes some 400 more for a while."""
JOB_KB = 2.0
NODE_KB = 0.2
"""Measured (peak resident size, audit included), 10 000 to 1 000 000 jobs on 100 to 100 000 nodes: 0.9 KB a job of one
task, 2.2 where jobs of many tasks are scattered."""
MARGIN = 1.25


class Progress(NamedTuple):
    """How far a study is: runs and jobs done, of how many; ``kept`` runs were finished before.

    ``compiling``: kernels had to be compiled, as in a first use; ``compiling_now``: workers that do so at this moment;
    ``compiled``: how many kernels were. ``took_s``: run → seconds on the wall, of those that have ended.
    """

    runs_done: int
    runs: int
    jobs_done: int
    jobs: int
    kept: int
    compiling: bool = False
    compiling_now: int = 0
    compiled: int = 0
    took_s: Mapping[str, float] = MappingProxyType({})


class Failure(NamedTuple):
    """A run that failed, and why."""

    run: Run
    error: str


def run_study(
    study: Study,
    directory: Path,
    *,
    jobs: int = 1,
    told: Told | None = None,
    audit: bool = True,
    workers: Workers | On = PROCESSES,
) -> list[dict[str, Any]]:
    """Run what is not finished yet, in a directory that is made if need be, then write the summary; returns its rows.

    ``jobs``: how many workers are started, one process being this one. Others, and what is raised, as of
    :func:`keep_runs`; an InputError also if the directory cannot be made.
    """
    make_folder(directory)
    left = [run for run in study.runs if not is_kept(directory, run)]
    with _kept_is_said(directory):
        if left:
            list_runs(directory, study.runs)
        for outdated in ("summary.csv", "report.html") if left else ():
            (directory / outdated).unlink(missing_ok=True)
    failures: list[Failure] = []
    if left:
        with open_workers(workers, min(jobs, len(left))) as those:
            failures = _run_left(those, study.runs, left, directory, told, audit)
    else:
        _Board(study.runs, left, told).tell()
    with _kept_is_said(directory):
        rows = keep_study(directory, study, {failure.run.id: failure.error for failure in failures})
    if failures:
        raise FailedRunsError(_failed(failures, len(study.runs)), rows)
    return rows


def make_folder(directory: Path) -> None:
    """Make the folder in which runs are kept, if it is not there; an InputError if it cannot be made."""
    try:
        (directory / "runs").mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise InputError(str(directory), got, "a directory that can be made and written to") from None


def keep_runs(
    workers: Workers, runs: Sequence[Run], directory: Path, *, told: Told | None = None, audit: bool = True
) -> list[dict[str, Any]]:
    """Run those that are not kept in a folder yet, and keep them there; the workers stay for what comes next.

    Parameters
    ----------
    directory
        It exists; the runs are in its folder ``runs``, as those of a study.
    told
        Told of progress, a few times a second at most while something runs.
    audit
        Check the tables of every run when it has ended: :func:`unrack.audit`.

    Returns
    -------
    list of dict
        A row a run, as of ``summary.csv``; nothing else is written.

    Raises
    ------
    InputError
        A run needs more memory than a worker has; none was started.
    FailedRunsError
        Runs failed; the others were finished and kept, and only those that failed are run next time.
    RunError
        Something could not be written.
    KeyboardInterrupt
        Interrupted; what was finished is kept.
    """
    left = [run for run in runs if not is_kept(directory, run)]
    failures = _run_left(workers, runs, left, directory, told, audit)
    failed = {failure.run.id for failure in failures}
    rows = summary(directory, [run for run in runs if run.id not in failed])
    if failures:
        raise FailedRunsError(_failed(failures, len(runs)), rows)
    return rows


def _run_left(
    workers: Workers, runs: Sequence[Run], left: Sequence[Run], directory: Path, told: Told | None, audit: bool
) -> list[Failure]:
    """Run some of the runs, which are kept by the workers or, if these cannot reach the folder, by this process.

    Returns those that failed.
    """
    items = list(_asked(left))
    board = _Board(runs, left, told)
    board.tell()
    if not left:
        return []
    check_memory(workers, left)
    failures: list[Failure] = []
    work = partial(_files, audit) if workers.remote else partial(_keep, str(directory), audit)
    found = answers(workers, work, items, left=len(items), running=board.running, compiling=board.compiles)
    try:
        with _kept_is_said(directory), closing(found):
            for place, answer in found:
                if isinstance(answer.error, OSError) and _within(directory, answer.error.filename):
                    raise answer.error
                if answer.error is not None:
                    failures.append(Failure(items[place].run, said(answer.error)))
                elif workers.remote:
                    keep_files(directory, items[place].run.id, answer.value)
                board.ended(place, items[place].run.id, answer.took_s)
    finally:
        for building in (directory / "runs").glob(".*"):
            shutil.rmtree(building, ignore_errors=True)
    return sorted(failures, key=lambda failure: failure.run.id)


def _within(directory: Path, name: str | None) -> bool:
    """Whether a file that cannot be written is one of the study's own: then no other run can be kept either."""
    return name is not None and Path(name).is_relative_to(directory)


def _failed(failures: Sequence[Failure], runs: int) -> str:
    """Which runs failed, and of what; runs that failed of the same, such as those of other seeds, together."""
    which: dict[str, list[str]] = {}
    for failure in failures:
        which.setdefault(failure.error, []).append(failure.run.id)
    lines = [f"{', '.join(ids)}: {error}".replace("\n", "\n  ") for error, ids in which.items()]
    return f"{len(failures)} of {runs} runs failed (the others are kept):\n" + "\n".join(f"  {line}" for line in lines)


@contextmanager
def _kept_is_said(directory: Path) -> Iterator[None]:
    """A file that cannot be written is a RunError of one sentence, with what the system said, and not a bug."""
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
        self.compiling = False
        self.compiling_now, self.compiled = 0, 0
        self.took_s: dict[str, float] = {}
        self.last = 0.0

    def compiles(self, change: int = 0) -> None:
        """Kernels have to be compiled: one more worker is at it, or one less."""
        self.compiling = True
        self.compiling_now += change
        self.compiled += change < 0
        self.tell()

    def running(self, place: int, done: int) -> None:
        """So many jobs of a run are done."""
        self.done[place] = done
        self.tell_now_and_then()

    def ended(self, place: int, name: str, took_s: float) -> None:
        """A run has ended, well or not."""
        self.took_s[name] = took_s
        self.done[place] = self.sizes[place]
        if len(self.took_s) == len(self.sizes):
            self.tell()
        else:
            self.tell_now_and_then()

    def tell_now_and_then(self) -> None:
        """Pass on where things are, unless that was done just now."""
        if (now := time.monotonic()) - self.last >= TELL_EVERY_S:
            self.last = now
            self.tell()

    def tell(self) -> None:
        """Pass on where things are."""
        if self.told is not None:
            ended, runs = len(self.took_s) + self.kept, len(self.sizes) + self.kept
            compiling = self.compiling, self.compiling_now, self.compiled
            self.told(Progress(ended, runs, sum(self.done), sum(self.sizes), self.kept, *compiling, self.took_s))


def measure_runs(
    runs: Iterable[Run], measure: Measure[R], *, jobs: int = 1, audit: bool = True, workers: Workers | On = PROCESSES
) -> Generator[R]:
    """Simulate runs and measure each in the process that ran it; nothing is written.

    Parameters
    ----------
    runs
        What to run; they are taken as workers become free, so that few workloads are held at once.
    measure
        A function of a module. Its answer goes back to this process, the result does not.
    jobs
        How many workers are started; one process is this one.
    audit
        Check the tables of every run: :func:`unrack.audit`.
    workers
        Those that run them, or where they are opened for it.

    Returns
    -------
    generator
        The answers, in the order of the runs.

    Raises
    ------
    InputError
        A run needs more memory than a worker has.
    RunError
        A worker was killed, and so were those that took its runs over.
    """
    with open_workers(workers, jobs) as those:
        yield from spread_over(those, partial(_measured, measure, audit), _asked(_small_enough(those, runs)))


# --- how much memory runs need: estimated before they start, so that no worker is killed for it after an hour --------


def needed_mb(run: Run) -> int:
    """What a run needs at its peak, with a margin, MB (of 2²⁰ bytes)."""
    return round(MARGIN * (PROGRAM_MB + (JOB_KB * len(run.workload) + NODE_KB * len(run.cluster)) / 1024))


def check_memory(workers: Workers, runs: Iterable[Run]) -> None:
    """Refuse runs that need more than a worker has: an InputError has the numbers, and those of the largest."""
    limit = workers.memory_mb
    if limit is None:
        return
    large = [run for run in runs if needed_mb(run) > limit]
    if not large:
        return
    run = max(large, key=needed_mb)
    others = f"; {len(large) - 1:,} other runs need too much, too" if len(large) > 1 else ""
    got = f"{len(run.workload):,} jobs on {len(run.cluster):,} nodes, which need about {needed_mb(run):,} MB{others}"
    fewer = ": with fewer workers (--jobs) each has more" if workers.count > 1 else ""
    raise InputError(f"run {run.id}", got, f"at most {limit:,} MB, what a worker has ({workers.name}){fewer}")


# --- one run, where it is run -----------------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """A run, and the files that it needs: another machine may not have them, and here they may change meanwhile."""

    run: Run
    sources: tuple[PluginFile, ...]


def _asked(runs: Iterable[Run]) -> Iterator[_Asked]:
    """Each file is read once."""
    sources: dict[str, PluginFile] = {}
    for run in runs:
        files = [one for one in (run.policy.file, *run.plugins) if is_file(one)]
        sources |= {file: source_of(file) for file in files if file not in sources}
        yield _Asked(run, tuple(sources[file] for file in files))


@contextmanager
def _simulated(asked: _Asked, heard: Heard, audit: bool) -> Iterator[Result]:
    """The result of a run; its files stay as they were asked for until it was used."""
    with taking(asked.sources), using(asked.run.plugins):
        yield simulated(asked.run, lambda done, _: heard(done), audit)


def _keep(directory: str, audit: bool, asked: _Asked, heard: Heard) -> None:
    with _simulated(asked, heard, audit) as result:
        keep_run(Path(directory), asked.run, result)


def _files(audit: bool, asked: _Asked, heard: Heard) -> Files:
    """Simulate a run; returns what is to be kept of it."""
    with _simulated(asked, heard, audit) as result:
        return files_of(asked.run, result)


def _small_enough(workers: Workers, runs: Iterable[Run]) -> Iterator[Run]:
    for run in runs:
        check_memory(workers, [run])
        yield run


def _measured(measure: Measure[R], audit: bool, asked: _Asked, heard: Heard) -> R:
    began = time.perf_counter()
    with _simulated(asked, heard, audit) as result:
        return measure(asked.run, result, time.perf_counter() - began)


def simulated(run: Run, progress: Callable[[int, int], None] | None = None, audit: bool = True) -> Result:
    """The result of one run."""
    result = simulate(
        run.cluster,
        run.workload,
        run.policy.make(),
        seed=run.seed,
        world=run.world,
        core_tiles=run.core_tiles,
        window_us=run.window_us,
        progress=progress,
        audit=audit,
    )
    return result if result.failing == run.failing else replace(result, failing=run.failing)
