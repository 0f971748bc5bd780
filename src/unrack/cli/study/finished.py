"""The commands on a finished study: ``report``, ``holdings`` and ``explain``."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.options import (
    All,
    BootstrapOption,
    Json,
    RunOption,
    need_ending,
    print_json,
    print_lines,
    say_when_compiling,
    write,
)
from unrack.cli.study.job_story import devices_text, job_lines, round_lines, round_table, round_time_us
from unrack.errors import InputError
from unrack.facts import counted
from unrack.units import seconds_text

if TYPE_CHECKING:
    import polars as pl

    from unrack.live.driver.service.life import Life
    from unrack.study.results.from_folder import Again


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `unrack run` wrote.")],
    figures: Annotated[
        str | None, typer.Option(metavar="svg|png|pdf", help="Write every chart as a file, in place of the page.")
    ] = None,
    style: Annotated[
        str | None, typer.Option(metavar="page|paper", help="paper: 85 or 180 mm wide, 8 pt, no title, fit for grey.")
    ] = None,
    font: Annotated[str | None, typer.Option(metavar="sans|serif", help="Of the figures.")] = None,
    bootstrap: BootstrapOption = None,
    to: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where figures go (default: DIR/figures).")] = None,
) -> None:
    """Build (or rebuild) the HTML report of a finished study and print its path; or write its charts as files."""
    from unrack.metric.bootstrap import read_length

    length_s = None if bootstrap is None else read_length(bootstrap)
    if figures is None:
        for name, given in (("--style", style), ("--font", font), ("--to", to)):
            if given is not None:
                raise InputError(name, "no --figures", f"{name} together with --figures svg, png or pdf")
        from unrack.report.page import write_report

        typer.echo(write_report(directory, length_s))
        return
    from unrack.report.figures.style import Style
    from unrack.report.figures.write import write_figures

    index, paths = write_figures(directory, figures, Style.of(style, font), to, length_s)
    typer.echo(f"{index}: {len(paths)} figures")


MOST_ROWS = 20
"""Rows of a job that are printed without --all."""


def holdings(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `unrack run` wrote.")],
    run: RunOption = None,
    job: Annotated[str | None, typer.Option(help="Only what this job held, row by row.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every row to a .csv or .parquet file.")
    ] = None,
    everything: All = False,
    as_json: Json = False,
) -> None:
    """Say what jobs held of every resource: in all, or row by row."""
    import polars as pl

    from unrack.metric.holdings import totals
    from unrack.study.results.from_folder import finished_run
    from unrack.study.results.record import packed

    need_ending("--out", out, ".csv", ".parquet")
    again = finished_run(directory, run)
    held = again.holdings()
    if job is not None:
        again.index(job)
        held = held.filter(pl.col("job").cast(pl.String) == job)
    if out is not None:
        write(out, held.write_csv() if out.suffix == ".csv" else packed(held), "--out")
    shown = totals(held, again.cluster()) if job is None else held
    if as_json:
        print_json(shown.to_dicts(), other=str)
        return
    print_lines(lines(shown, None if everything else MOST_ROWS))
    if out is not None:
        typer.echo(f"{counted(held.height, 'row')} written to {out}")


def lines(frame: pl.DataFrame, most: int | None) -> list[str]:
    """A table as text, numbers to the right; columns in which nothing stands are left out."""
    frame = frame.select(name for name in frame.columns if frame[name].null_count() < frame.height)
    shown = frame if most is None else frame.head(most)
    columns = []
    for name in shown.columns:
        values = shown[name]
        number = values.dtype.is_numeric() and name not in ("job", "place", "node", "bundle")
        cells = [name, *("" if value is None else _text(value, number) for value in values.to_list())]
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if values.dtype.is_numeric() else cell.ljust(width) for cell in cells])
    found = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
    rest = frame.height - shown.height
    return [*found, f"… {rest:,} more (--all)"] if rest else found


def _text(value: object, number: bool) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if number else str(value)


USUAL = Path("/var/lib/unrack")
SEEN_AS = {
    "waiting": "waits", "attaching": "start decided, devices are attached", "ordering": "start decided",
    "released": "released", "recalling": "taken back", "running": "runs", "stopping": "stopped by the policy",
    "holding": "waits, and is to be held again",
    "detaching": "devices are detached", "foreign": "runs, started by others", "aside": "not to be started now",
    "over": "over",
}  # fmt: skip
MOST = 10
"""Lines of a list that are printed without --all."""


def explain(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The directory that `unrack run` wrote.", show_default=False)
    ] = None,
    job: Annotated[
        str | None, typer.Argument(metavar="JOB", help="The job's id in the trace.", show_default=False)
    ] = None,
    run: RunOption = None,
    policy: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="Where the run's policy file is now.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--round", metavar="TIME", help="Tell of the first round at TIME or later ('1 h'), or of the busiest."
        ),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE.svg", help="Draw the networks of the round.")] = None,
    live: Annotated[
        bool, typer.Option("--live", help="From the journal of `unrack slurm run`: unrack explain --live JOB.")
    ] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --live: the state folder. [default: /var/lib/unrack]")
    ] = None,
    everything: All = False,
    as_json: Json = False,
) -> None:
    """Tell one job's life: what it waited for, when there was room for it, which jobs went first; or one round."""
    from unrack.study.results.from_folder import finished_run

    if live:
        _tell_live(directory, job, state, as_json)
        return
    if directory is None or state is not None:
        got = "no directory" if directory is None else "--state without --live"
        raise InputError("explain", got, "unrack explain DIR JOB, or unrack explain --live JOB")
    if (job is None) == (at is None):
        got = "neither a job nor --round" if job is None else f"job {job!r} and --round {at!r}"
        raise InputError("explain", got, "one of them: unrack explain DIR JOB, or unrack explain DIR --round TIME")
    if out is not None and at is None:
        raise InputError("--out", repr(out), "--round, as its networks are drawn")
    need_ending("--out", out, ".svg")
    say_when_compiling()
    again = finished_run(directory, run)
    most = None if everything else MOST
    if job is not None:
        _tell_job(again, job, policy, most, as_json)
    else:
        assert at is not None
        _tell_round(again, at, policy, out, most, as_json)


def _tell_live(directory: Path | None, job: str | None, state: Path | None, as_json: bool) -> None:
    """Print the life of a job of a live scheduler: ``--live JOB``, or ``--live DIR JOB``."""
    from unrack.live.driver.service.life import life_of

    if directory is None or (job is not None and state is not None):
        got = "no job" if directory is None else "a directory and --state"
        raise InputError("explain --live", got, "unrack explain --live JOB [--state DIR]")
    life = life_of(state or (USUAL if job is None else directory), job or str(directory))
    if as_json:
        print_json({**life._asdict(), "moments": [one._asdict() for one in life.moments]})
    else:
        print_lines(_live_lines(life), 14)


def _tell_job(again: Again, job: str, policy: str | None, most: int | None, as_json: bool) -> None:
    from unrack.slowdown.combined import WORDS

    story = again.story(job, policy)
    if as_json:
        how = {} if again.slowdowns is None else {"slowdowns": str(again.slowdowns)}
        print_json({"run": again.record["id"], **how, **asdict(story)}, other=str)
        return
    header = again.record["workload"]["intake"]["header"]
    print_lines(job_lines(story, again.record["policy_label"], most, header), 14)
    if again.slowdowns is not None:
        typer.echo(f"  speeds      {WORDS[again.slowdowns]} (slowdowns = '{again.slowdowns}')")


def _tell_round(again: Again, at: str, policy: str | None, out: str | None, most: int | None, as_json: bool) -> None:
    story = again.round_story(round_time_us(at), policy)
    if out is not None:
        from unrack.report.pictures.round import drawn

        write(out, drawn(story, again.record["policy_label"]))
    if as_json:
        print_json({"run": again.record["id"], **round_table(story)})
        return
    print_lines(round_lines(story, again.record["policy_label"], most))
    if out is not None:
        typer.echo(out)


def _live_lines(life: Life) -> list[str]:
    from unrack.slurm_text.hostlists import compress

    asks = life.asks
    lines = [f"job {life.job}" + (f" of user {asks['user']}" if asks.get("user") else "")]
    if asks:
        memory = f", {asks['mb']:,} MB" if asks.get("mb") else ""
        devices = devices_text({kind: of for kind, of in asks.get("devices", {}).items() if kind != "spread"})
        lines.append(
            f"  asks for    {asks['tasks']} task(s) of {asks.get('cores', 0)} core(s){memory}{devices}, "
            f"for {seconds_text(asks['request'] / 1e6)}"
        )
    first_s = life.moments[0].at_s
    for moment in life.moments:
        clock = time.strftime("%H:%M:%S", time.localtime(moment.at_s))
        where = f" on {compress(moment.nodes)}" if moment.nodes else ""
        why = f": {moment.why}" if moment.why else ""
        lines.append(f"  {clock} {'+' + seconds_text(moment.at_s - first_s):>10}  {SEEN_AS[moment.phase]}{where}{why}")
    if life.ahead >= 0:
        lines.append(f"  waits for   {life.why}; {life.ahead} job(s) ahead of it")
    return lines
