"""What a study is at, on the error stream: compiling, running, writing; and how long each took."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from unrack.cli.options import words
from unrack.units import seconds_text

if TYPE_CHECKING:
    from unrack.study.runner import Progress

WINDOW_S = 10.0
"""What counts as recent."""
LEAST_S = 1.0
"""Work of less time says nothing about the rest."""
BESIDE = 56
"""Characters that are left to the words beside the bar."""


class Bar:
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

    def __enter__(self) -> Bar:
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
