"""What a study is at, on the error stream: compiling, running, writing; and how long each took."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from unrack.cli.compiling import words
from unrack.cli.pace import Pace
from unrack.units import seconds_text

if TYPE_CHECKING:
    from unrack.study.runner import Progress

BESIDE = 56
"""Characters that are left to the words beside the bar."""


class Bar:
    """A progress bar, where the error stream is a terminal.

    That kernels are compiled is said in any case, once, unless it is quiet.

    Parameters
    ----------
    quiet
        Say nothing at all.
    verbose
        Say of each run how long it took.
    clock
        What time it is, s.
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
