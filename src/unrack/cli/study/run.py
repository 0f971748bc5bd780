"""``unrack run STUDY.toml``: run a study, keep what is finished, compare, write the report."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import (
    BootstrapOption,
    JobsOption,
    NoAudit,
    OnOption,
    OutOption,
    StudyArgument,
    count_of,
    out_folder,
    policies,
    print_json,
    print_lines,
    words,
)
from unrack.cli.study.comparison import show
from unrack.errors import FailedRunsError, InputError
from unrack.facts import counted
from unrack.units import NEVER_US, seconds_text

if TYPE_CHECKING:
    from unrack.study.grid import Study
    from unrack.study.runner import Progress


WINDOW_S = 10.0
"""What counts as recent."""
LEAST_S = 1.0
"""Work of less time says nothing about the rest."""
BESIDE = 56
"""Characters that are left to the words beside the bar."""


class ProgressBar:
    """A progress bar, where the error stream is a terminal.

    That kernels are compiled is said in any case, once, unless it is ``quiet``. ``verbose``: say of each run how long
    it took.
    """

    def __init__(self, quiet: bool = False, verbose: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self.quiet, self.verbose, self.clock = quiet, verbose, clock
        self.pace = Pace()
        self.took_s: dict[str, float] = {}
        self._progress: Progress | None = None
        self._live: Any = None
        self._task: Any = None
        self._phase, self._since = "", 0.0
        self._said = False
        self._runs_said = 0

    def __enter__(self) -> ProgressBar:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, ProgressColumn
            from rich.text import Text

            bar = self

            class Words(ProgressColumn):
                def render(self, task: Any) -> Text:
                    return Text(bar.words(), no_wrap=True, overflow="ellipsis")

            console = Console(stderr=True)
            width = max(8, min(40, console.width - BESIDE))
            self._live = Progress(BarColumn(width), Words(), console=console, transient=True)
            self._live.start()
            self._task = self._live.add_task("", total=None)
        return self

    @property
    def told(self) -> Callable[[Progress], None] | None:
        """What is to be told of progress; ``None`` if nothing is said."""
        return None if self.quiet else self.tell

    def tell(self, progress: Progress) -> None:
        """Take in how far it is."""
        self._progress = progress
        self.pace.at(self.clock(), progress.jobs_done, progress.compiling_now > 0)
        if progress.compiling and not self._said:
            self._said = True
            self._print(words())
        if self.verbose:
            for run, took_s in list(progress.took_s.items())[self._runs_said :]:
                self._print(f"ran {run} in {seconds_text(took_s)}")
            self._runs_said = len(progress.took_s)
        if self._live is not None:
            self._live.update(self._task, total=max(1, progress.jobs), completed=progress.jobs_done)

    @contextmanager
    def phase(self, words: str) -> Iterator[None]:
        """While something else is done, such as "writing the report"; how long it takes goes into ``took_s``."""
        self._phase, self._since = words, self.clock()
        if self._live is not None:  # also where it is over before the bar is drawn the next time
            self._live.refresh()
        try:
            yield
        finally:
            self.took_s[words] = self.clock() - self._since
            self._phase = ""

    def words(self) -> str:
        """What stands beside the bar now."""
        now, progress = self.clock(), self._progress
        if self._phase:
            return f"{self._phase}  {seconds_text(int(now - self._since))}"
        if progress is None:
            return "reading"
        kept = f" ({progress.kept} kept)" if progress.kept else ""
        runs = f"{progress.runs_done}/{progress.runs}{kept} runs"
        if progress.compiling_now:
            so_far = self.pace.compiled_s + now - (self.pace.now or now)
            return f"{runs}  compiling kernels, first use only: {progress.compiled} in {so_far:.0f} s"
        if progress.runs_done < progress.runs and progress.jobs_done >= progress.jobs:
            return f"{runs}  checking and keeping results"
        rate, left_s = self.pace.rate, self.pace.left_s(progress.jobs)
        speed = f"  {rate:,.0f} jobs/s" if rate else ""
        return f"{runs}{speed}" + (f"  about {seconds_text(max(1, round(left_s)))} left" if left_s is not None else "")

    def _print(self, line: str) -> None:
        if self._live is None:
            typer.echo(line, err=True)
        else:
            self._live.console.print(line, markup=False, highlight=False)

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()


class Pace:
    """Jobs done over time; moments are given, in seconds of any clock.

    Attributes
    ----------
    compiled_s
        Time in which kernels were compiled.
    now
        The latest moment.

    Examples
    --------
    Ten seconds of compiling are not held against the jobs:

    >>> pace = Pace()
    >>> for now, done, compiling in ((0, 0, True), (10, 0, False), (12, 200, False)):
    ...     pace.at(now, done, compiling)
    >>> pace.rate, pace.left_s(1000), pace.compiled_s
    (100.0, 8.0, 10.0)
    """

    def __init__(self) -> None:
        self.compiled_s = 0.0
        self.compiling = False
        self.now: float | None = None
        self._busy_s = 0.0
        self._marks: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._done = 0

    def at(self, now: float, done: int, compiling: bool) -> None:
        """So many jobs are done now, and from now on kernels are compiled or not."""
        passed = 0.0 if self.now is None else now - self.now
        if self.compiling:
            self.compiled_s += passed
        else:
            self._busy_s += passed
        self.now, self._done, self.compiling = now, done, compiling
        self._marks.append((self._busy_s, done))
        while len(self._marks) > 2 and self._marks[1][0] <= self._busy_s - WINDOW_S:
            self._marks.popleft()

    @property
    def rate(self) -> float | None:
        """Jobs a second: over all of the time or lately, whichever is slower; ``None``: too early to say."""
        if self._busy_s < LEAST_S or not self._done:
            return None
        since, before = self._marks[0]
        whole = self._done / self._busy_s
        return min(whole, (self._done - before) / (self._busy_s - since)) if self._busy_s > since else whole

    def left_s(self, jobs: int) -> float | None:
        """Time until so many jobs are done; ``None``: not known."""
        rate = self.rate
        return (jobs - self._done) / rate if rate and not self.compiling else None


WRITING = "writing the report"


def run(
    context: typer.Context,
    study: StudyArgument,
    out: OutOption = None,
    jobs: JobsOption = 0,
    on: OnOption = "processes",
    seed: Annotated[int | None, typer.Option(min=0, help="Use this seed in place of the study's.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE.py[:NAME]",
            help="Also run this policy, from a file or by name; ', world=base' may follow; repeatable.",
            autocompletion=policies,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print where the report is, and nothing else.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also say what is read, what is kept, and how long each run took.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print whole tracebacks, also those of policies of your own.")
    ] = False,
    bootstrap: BootstrapOption = None,
    no_audit: NoAudit = False,
) -> None:
    """Run a study: every cluster, workload, policy, seed and swept value. Finished runs are kept and not run again."""
    from unrack.metric.bootstrap import read_length
    from unrack.plugins.table import using
    from unrack.study.grid import load_study
    from unrack.study.input.inputs import Document
    from unrack.study.runner import run_study
    from unrack.study.workers.table import parse_on

    if debug:
        os.environ["UNRACK_DEBUG"] = "1"  # worker processes have it too
    where = parse_on(on)
    length_s = None if bootstrap is None else read_length(bootstrap)
    document = Document.read(str(study))
    loaded = load_study(str(study), seed=seed, policies=policy or (), document=document)
    context.with_resource(using(loaded.runs[0].plugins))
    if "plan" in document.table:  # nothing of it is run; what is wrong in it is said all the same
        from unrack.plan.settings import read_plan

        read_plan(document)
    if length_s is not None:
        _check_blocks(loaded, length_s)
    directory = out or out_folder(loaded.name, "study")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C
    if verbose:
        _say_study(loaded, directory)
    page, failed, bar = None, None, ProgressBar(quiet=quiet or as_json, verbose=verbose)
    try:
        with bar:
            began = time.monotonic()
            try:
                rows = run_study(
                    loaded, directory, jobs=count_of(jobs), told=bar.told, audit=not no_audit, workers=where
                )
            except FailedRunsError as error:  # of some, which is said at the end
                if not error.rows:
                    raise
                rows, failed = error.rows, error
            took_s = time.monotonic() - began
            if not no_report:
                with bar.phase(WRITING):
                    from unrack.report.page import write_report

                    page = write_report(directory, length_s)
    except KeyboardInterrupt:
        finished = sum((directory / "runs" / one.id / "run.json").is_file() for one in loaded.runs)
        kept = f"{finished} of {counted(len(loaded.runs), 'run')} are kept"
        typer.echo(f"interrupted: {kept}; the same command goes on", err=True)
        raise typer.Exit(130) from None
    if quiet and not as_json:
        typer.echo(page or directory)
    else:
        _tell(loaded, rows, page, directory, as_json, length_s)
    if not quiet and not as_json:
        typer.echo(_times(bar, len(rows), took_s), err=True)
    if failed is not None:
        raise failed


def _tell(
    loaded: Study, rows: list[dict[str, Any]], page: Path | None, directory: Path, as_json: bool, length_s: float | None
) -> None:
    from unrack.study.results.keep import kept_notes

    done = {row["run"] for row in rows}
    notes = kept_notes(directory, [run for run in loaded.runs if run.id in done])
    if as_json:
        lost = sorted(run.id for run in loaded.runs if run.id not in done)
        written = {"directory": str(directory), "report": str(page) if page else None}
        print_json({**written, "notes": notes, "runs": rows, **({"failed": lost} if lost else {})}, None)
        return
    show(directory, "the report" if page else "summary.csv", length_s)
    print_lines(f"note: {line}" for line in notes)
    typer.echo(f"report: {page}" if page else f"results: {directory}")


def _check_blocks(study: Study, length_s: float) -> None:
    """Refuse a bootstrap that the study's jobs do not carry before they are simulated, not behind it."""
    import numpy as np

    from unrack.metric.bootstrap import blocks_of

    seeds = len({run.seed for run in study.runs})
    if seeds > 1:
        raise InputError("--bootstrap", f"a study of {seeds} seeds", "one seed: several have intervals without it")
    for run in {(run.workload_digest, run.window_us): run for run in study.runs}.values():
        times = np.sort(run.workload.jobs.submit_us)
        low, high = run.window_us or (0, NEVER_US)
        blocks_of(times[(times >= low) & (times <= high)], length_s)


def _say_study(study: Study, directory: Path) -> None:
    from unrack.study.results.keep import is_kept

    for name, jobs, digest in dict.fromkeys(
        (run.workload.name, len(run.workload), run.workload_digest) for run in study.runs
    ):
        typer.echo(f"read workload {name}: {counted(jobs, 'job')}, {digest[:12]}", err=True)
    for run in study.runs:
        if is_kept(directory, run):
            typer.echo(f"kept {run.id}: not run again", err=True)


def _times(bar: ProgressBar, runs: int, took_s: float) -> str:
    compiled = f", {seconds_text(bar.pace.compiled_s)} of it compiling" if bar.pace.compiled_s >= 0.1 else ""
    report = f"; the report: {seconds_text(bar.took_s[WRITING])}" if WRITING in bar.took_s else ""
    return f"{counted(runs, 'run')}: {seconds_text(took_s)}{compiled}{report}"
