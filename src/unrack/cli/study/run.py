"""``unrack run STUDY.toml``: run a study, keep what is finished, compare, write the report."""

from __future__ import annotations

import os
import shlex
import signal
import time
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
)
from unrack.cli.study.bar import Bar
from unrack.cli.study.comparison import show
from unrack.errors import FailedRunsError, InputError
from unrack.facts import counted
from unrack.units import NEVER_US, seconds_text

if TYPE_CHECKING:
    from unrack.study.grid import Study

WRITING = "writing the report"


def run(
    context: typer.Context,
    study: StudyArgument,
    out: OutOption = None,
    jobs: JobsOption = 0,
    on: OnOption = "processes",
    seed: Annotated[int | None, typer.Option(min=0, help="This seed in place of the study's.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE.py[:NAME]",
            help="A further policy, from a file or by name, both perhaps followed by ', world=base'; repeatable.",
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
    from unrack.study.runner import run_study
    from unrack.study.workers.table import parse_on

    if debug:
        os.environ["UNRACK_DEBUG"] = "1"  # worker processes have it too
    where = parse_on(on)
    length_s = None if bootstrap is None else read_length(bootstrap)
    loaded = load_study(str(study), seed=seed, policies=policy or ())
    context.with_resource(using(loaded.runs[0].plugins))
    if length_s is not None:
        _check_blocks(loaded, length_s)
    directory = out or out_folder(loaded.name, "study")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C
    if verbose:
        _say_study(loaded, directory)
    page, failed, bar = None, None, Bar(quiet=quiet or as_json, verbose=verbose)
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
        again = f"unrack run {study} --out {directory}" + (f" --on {shlex.quote(on)}" if on != "processes" else "")
        typer.echo(
            f"interrupted: {finished} of {counted(len(loaded.runs), 'run')} are kept; go on with: {again}", err=True
        )
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
    show(loaded, rows, "the report" if page else "summary.csv", directory, length_s)
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


def _times(bar: Bar, runs: int, took_s: float) -> str:
    compiled = f", {seconds_text(bar.pace.compiled_s)} of it compiling" if bar.pace.compiled_s >= 0.1 else ""
    report = f"; the report: {seconds_text(bar.took_s[WRITING])}" if WRITING in bar.took_s else ""
    return f"{counted(runs, 'run')}: {seconds_text(took_s)}{compiled}{report}"
