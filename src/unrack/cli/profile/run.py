"""``unrack profile run``: measure an application along its axes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.options import Json, OutOption, out_folder

if TYPE_CHECKING:
    from unrack.profile.running.session import State


def run(
    app: Annotated[Path, typer.Argument(metavar="APP.toml", help="The application, and the axes to measure.")],
    out: OutOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget earlier runs of the folder.")] = False,
    as_json: Json = False,
) -> None:
    """Measure an application on this machine; a run that was interrupted goes on where it was.

    It goes before other programs, and is refused where its controls drift (docs/profile.md).
    """
    from unrack.cli.profile.fit import answer
    from unrack.profile.application import read_application
    from unrack.profile.machine.machine import Machine
    from unrack.profile.profile import keep_fit, run_profile

    ends_in_order()
    application = read_application(app)
    folder = out or out_folder(f"profile-{application.name}", "profile")
    with _bar() as tell:
        profile = run_profile(application, folder, Machine(), fresh, tell)
    keep_fit(folder, profile)
    answer([profile], as_json)
    if not as_json:
        typer.echo(str(folder))


def ends_in_order() -> None:
    """Have a SIGTERM, as of ``timeout`` and of systemd, undo what was made before it ends this process.

    If another process measures here, that is said.
    """
    from unrack.profile.machine.journal import running

    for pid in running():
        typer.echo(f"warning: process {pid} measures on this machine too, and each measures the other", err=True)

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


@contextmanager
def _bar() -> Iterator[Callable[[State], None]]:
    """A bar on the error stream, where that is a terminal; how many runs there will be is not known."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        BarColumn(20), TextColumn("{task.description}"), console=Console(stderr=True), transient=True
    ) as progress:
        task = progress.add_task("beginning", total=None)

        def tell(state: State) -> None:
            wide = f", intervals ± {state.widest:.1%} at most" if state.widest < 10 else ""
            words = f"{state.axis}, block {state.block}: {state.level}; {state.runs} runs so far{wide}"
            progress.update(task, description=words)

        yield tell
