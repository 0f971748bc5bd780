"""``unrack profile``: what can be measured here, runs, fits, files for the models, pages, checks."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import Json, OutOption, grid, need_ending, out_folder, print_json, print_lines, print_page
from unrack.cli.options import write as write_file

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unrack.profile.profile import Profile
    from unrack.profile.running.session import State


_OFF = {
    "median": "at the median",
    "mean": "in the mean",
    "most": "at most",
    "ends": "at the median for when a mix ends",
}


def check(
    mixes: Annotated[Path, typer.Argument(metavar="MIXES.toml", help="Which profiles, and which jobs run together.")],
    out: OutOption = None,
    as_json: Json = False,
) -> None:
    """Simulate mixes of profiled applications, run them for real on this machine, and compare."""
    from unrack.profile.check.check import check_mixes, summary_of
    from unrack.profile.check.mixes import read_mixes
    from unrack.profile.machine.machine import Machine

    ends_in_order()
    asked = read_mixes(mixes)
    folder = out or out_folder(f"check-{mixes.stem}", "check")
    say = (lambda words: typer.echo(words, err=True)) if not as_json else (lambda _: None)
    outcomes = check_mixes(asked, folder, Machine(), say)
    found = summary_of(outcomes)
    if as_json:
        print_json(found)
        return
    print_page(_outcomes(found))
    typer.echo(str(folder))


def _outcomes(found: dict[str, Any]) -> Iterator[RenderableType]:
    from rich.text import Text

    from unrack.profile.check.predicted import MODELS

    columns = ["begins", "alone", "measured", "predicted", "off"]
    table = grid("predicted against measured, seconds", ["mix", "job"], columns)
    for one in found["jobs"]:
        numbers = [f"{one[name]:.2f}" for name in ("at_s", "alone_s", "measured_s", "predicted_s")]
        table.add_row(one["mix"], one["job"], *numbers, f"{one['error']:+.1%}")
    yield table
    for model, numbers in found["rules"].items():
        off = [f"{numbers[name]:.1%} {words}" for name, words in _OFF.items()]
        offered = " (offered)" if model == found["offered"] else ""
        yield Text(f"{model} ({MODELS[model]}): off by {', '.join(off)}{offered}")


def clean() -> None:
    """Undo what runs that were killed left behind: groups, devices, mounts, namespaces, processes."""
    from unrack.errors import RunError
    from unrack.facts import counted
    from unrack.profile.machine.journal import clean as cleaned

    done, left = cleaned()
    if left:
        raise RunError(f"could not undo {'; '.join(left)}")
    typer.echo(f"cleaned up after {counted(done, 'run')}" if done else "nothing was left behind")


Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that `unrack profile run` wrote.")]


def fit(directories: Folders, as_json: Json = False) -> None:
    """Fit curves to runs, with intervals; writes fit.json and runs.parquet beside them."""
    from unrack.profile.profile import keep_fit, read_profile

    profiles = [read_profile(folder) for folder in directories]
    for folder, profile in zip(directories, profiles, strict=True):
        keep_fit(folder, profile)
    answer(profiles, as_json)


def answer(profiles: Sequence[Profile], as_json: bool) -> None:
    """Print what is fitted."""
    if as_json:
        print_json([profile.content for profile in profiles])
    else:
        print_page(part for profile in profiles for part in _curves(profile))


def _curves(profile: Profile) -> Iterator[RenderableType]:
    from rich.text import Text

    for axis in profile.content["axes"]:
        words = f"{profile.name}, {axis['axis']}: {axis['alone_s']:.4g} s alone, noise {axis['noise']:.1%}"
        table = grid(words, [axis["unit"] or "level"], ["speed", "from", "to", "runs", "missed"])
        for one in axis["levels"]:
            ends = [f"{one[name]:.3f}" for name in ("speed", "low", "high")]
            table.add_row(one["level"], *ends, str(one["runs"]), str(one["missed"]))
        yield table
        if axis.get("errors"):
            errors = ", ".join(f"{one['form']} {one['mean']:.2%}" for one in axis["errors"])
            yield Text(f"left-out levels are predicted to within (mean) {errors}: {axis['offered']} is offered\n")


def probe(as_json: Json = False) -> None:
    """Tell what can be measured on this machine; each way is tried, and leaves nothing behind."""
    from unrack.profile.axes.table import KINDS
    from unrack.profile.axes.table import probe as probed
    from unrack.profile.machine.journal import Journal
    from unrack.profile.machine.machine import Machine

    with Journal() as journal:
        findings = probed(Machine(), journal)
    if as_json:
        print_json([{**one._asdict(), "summary": KINDS[one.axis].summary} for one in findings])
        return
    table = grid(None, ["axis", "by"], [])
    table.add_column("here", overflow="fold")
    for one in findings:
        table.add_row(one.axis, one.actuator, one.lacks or "yes")
    print_page([table])


def report(
    directories: Folders,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PAGE.html", help="What to write.")] = Path(
        "out/profile.html"
    ),
) -> None:
    """Write a page with the curves, their points, the noise, and what the machine could measure."""
    from unrack.profile.page.page import page_of
    from unrack.profile.profile import read_profile

    need_ending("--out", out, ".html")
    page = page_of([read_profile(folder) for folder in directories])
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, page, "--out")
    typer.echo(str(out))


def run(
    app: Annotated[Path, typer.Argument(metavar="APP.toml", help="The application, and the axes to measure.")],
    out: OutOption = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget earlier runs of the folder.")] = False,
    as_json: Json = False,
) -> None:
    """Measure an application on this machine; a run that was interrupted goes on where it was.

    It goes before other programs, and is refused where its controls drift (docs/profile.md).
    """
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


def write(
    directories: Folders,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where to write.")] = Path("out/models"),
) -> None:
    """Write what the models read: contention's files, times on drives, links, GPUs; and all levels as levels.csv."""
    from unrack.profile.models.write import write_models
    from unrack.profile.profile import read_profile

    print_lines(str(path) for path in write_models([read_profile(folder) for folder in directories], out))


app = typer.Typer(
    help="Measure applications on this machine: the curves and tables that the models read.", no_args_is_help=True
)
for command in (probe, run, fit, write, report, check, clean):
    app.command()(command)
