"""``unrack reproduce NAME``: a table or figure of a paper again, beside the paper's numbers and claims."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli import OnOption, count_of, print_lines

if TYPE_CHECKING:
    from unrack_papers.measured import Measured
    from unrack_papers.pages.page import Judged
    from unrack_papers.pages.sheet import Sheet

STYLES = {"good": "green", "near": "yellow", "bad": "red", "": ""}
VERDICT_STYLES = {"agrees": "green", "cannot be judged": "yellow", "differs": "red"}
WIDTH = 120
"""Of the tables where the output is no terminal."""


def _names(incomplete: str) -> list[str]:
    """Tables and figures of papers whose names begin so."""
    from unrack_papers.table import REPRODUCTIONS

    return [name for name in REPRODUCTIONS if name.startswith(incomplete)]


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which; see --list.", show_default=False, autocompletion=_names)
    ] = None,
    listed: Annotated[bool, typer.Option("--list", "-l", help="List the names, a line each, and stop.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            min=1,
            help="How many seeds: 0, 1, 2 … "
            "(default: 20; memory-*: 3 or 10; overestimation-*, dynamic-*, gpu-backfill, flow-*: 3; slo-*, other "
            "gpu-*: 10).",
        ),
    ] = None,
    until_decided: Annotated[
        int | None,
        typer.Option(
            "--until-decided",
            min=1,
            metavar="N",
            help="Add seeds, twice as many at a time, until every claim is decided or there are N. The chance of a "
            "false verdict is spent over the looks.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Worker processes; 0: one for each core.")] = 0,
    on: OnOption = "processes",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where to write (default: out/reproduce).")
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(
            "--arrivals", metavar="poisson|fixed", help="Poisson, as in the text (default), or evenly spaced."
        ),
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Running jobs keep their speed, as in the authors' simulator.")
    ] = False,
    reading: Annotated[
        str | None,
        typer.Option(
            "--reading",
            metavar="text|authors",
            help="The policy as in the text (default), or as in the authors' program, in whole seconds.",
        ),
    ] = None,
    attached: Annotated[
        str | None,
        typer.Option("--attached", metavar="6-4|4-6", help="Attached drives on nodes 0 and 2 (default: 6-4)."),
    ] = None,
    as_authors: Annotated[
        bool,
        typer.Option(
            "--as-authors",
            help="All of the authors' simulator: --arrivals fixed, --frozen, --reading authors, --attached 4-6.",
        ),
    ] = False,
    offer: Annotated[
        list[str] | None,
        typer.Option("--offer", metavar="X=LOAD", help="Offer another load at a point of the axis; repeatable."),
    ] = None,
    workload_jobs: Annotated[
        int | None,
        typer.Option(
            "--workload-jobs",
            min=1,
            help="Jobs of each workload (default: 1500; memory-*, overestimation-*, dynamic-*: 2000).",
        ),
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(
            "--load", min=0.01, help="memory-*, overestimation-*, dynamic-*: the load that is offered (default: 1.1)."
        ),
    ] = None,
    profiles: Annotated[
        str | None,
        typer.Option(
            "--profiles", metavar="PATH", help="As of --load: measured profiles in place of the synthetic ones."
        ),
    ] = None,
    profile_cores: Annotated[
        int | None,
        typer.Option("--profile-cores", min=1, help="As of --load: cores of the nodes they are of (default: 4)."),
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            help="memory-published-jobs, gpu-scenario1: jobs of a file, in place of drawn ones.",
        ),
    ] = None,
    servers: Annotated[
        str | None, typer.Option("--servers", metavar="FILE", help="slo-*: JSON of servers, in place of drawn ones.")
    ] = None,
    times: Annotated[
        str | None,
        typer.Option("--times", metavar="FILE", help="gpu-*: measured run times, in place of those after the text."),
    ] = None,
    pods: Annotated[
        str | None, typer.Option("--pods", metavar="FILE", help="gpu-fragmentation: the pods that are drawn from.")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option("--nodes", metavar="FILE", help="gpu-fragmentation: the nodes of the cluster.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Run everything, also what an earlier call has kept in DIR/runs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Run a paper's table or figure again, and compare: the paper's values and claims beside ours.

    Writes NAME.md, NAME.csv, NAME.svg and NAME.png into DIR; options are in the names. Options that do not apply to
    NAME are refused. Numbers are kept in DIR/runs: what was interrupted goes on, more seeds add to those that were run,
    and what several figures share is run once.
    """
    from unrack.errors import InputError
    from unrack.extras import has_pictures
    from unrack_papers.table import REPRODUCTIONS, find

    if listed:
        _list(as_json)
        return
    if name is None:
        raise InputError("reproduce", "no name", f"one of {', '.join(REPRODUCTIONS)}; or --list")
    from unrack.study import parse_on
    from unrack_papers.claim import until_decided as until
    from unrack_papers.execution import check_options, execute, settled
    from unrack_papers.pages.page import as_table, judged, write
    from unrack_papers.verdict import Looks
    from unrack_papers.ways import as_authors as ways_of_the_authors

    where = parse_on(on)
    chosen = find(name)
    given = {
        "seeds": seeds, "jobs": workload_jobs, "frozen": frozen or None, "arrivals": arrivals,
        "offers": _offers(offer) if offer else None, "load": load, "profiles": profiles, "profile_cores": profile_cores,
        "servers": servers, "reading": reading, "attached": attached, "trace": trace, "times": times,
        "pods": pods, "nodes": nodes,
    }  # fmt: skip
    given = {key: value for key, value in given.items() if value is not None}
    if as_authors:
        given = {**ways_of_the_authors(chosen), **given}
    check_options(chosen, given)
    if until_decided is not None:
        check_options(chosen, ["until_decided"] if chosen.exact or "seeds" not in chosen.takes else [])
        if fresh:
            raise InputError("--fresh", "beside --until-decided", "one of them: seeds are added to those that were run")
    chosen, options = settled(chosen, replace(chosen.defaults, **given))  # type: ignore[arg-type]
    if options.seeds < chosen.defaults.seeds and not as_json:
        wanted = f"too few seeds ({options.seeds}, wanted {chosen.defaults.seeds} or more)"
        typer.echo(f"warning: {wanted}: intervals are wide", err=True)
    if not has_pictures() and not as_json:  # said before hours of work
        typer.echo("note: no pictures will be made; they need: pip install 'unrack[figures]'", err=True)
    folder = out or Path("out") / "reproduce"
    keep = None if fresh else folder / "runs"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C
    try:
        with _bar(quiet=as_json) as told:
            run = partial(execute, chosen, jobs=count_of(jobs), workers=where, told=told, keep=keep)
            if until_decided is None:
                measured = run(options)
                findings = judged(measured)
            else:
                looks = Looks(options.seeds, until_decided)
                measured, findings = until(lambda seeds: run(replace(options, seeds=seeds)), looks)
    except KeyboardInterrupt:
        typer.echo("interrupted: the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    paths = write(measured, findings, folder)
    if as_json:
        typer.echo(json.dumps({**as_table(measured, findings), "files": [str(path) for path in paths]}))
        return
    _print(measured, findings)
    for path in paths:
        typer.echo(path)


def _offers(texts: list[str]) -> tuple[tuple[float, float], ...]:
    """The pairs of ``0.9=1.4``."""
    from unrack.errors import InputError

    offers = []
    for text in texts:
        x, _, load = text.partition("=")
        try:
            offers.append((float(x), float(load)))
        except ValueError:
            raise InputError("--offer", repr(text), "a point of the axis and a load, such as 0.9=1.4") from None
    return tuple(offers)


def _list(as_json: bool) -> None:
    from unrack_papers.table import REPRODUCTIONS

    if as_json:
        entries = {name: {"shows": one.shows, "paper": one.paper, "summary": one.summary}
                   for name, one in REPRODUCTIONS.items()}  # fmt: skip
        typer.echo(json.dumps(entries, indent=1, ensure_ascii=False))
        return
    width = max(map(len, REPRODUCTIONS))
    shows = max(len(one.shows) for one in REPRODUCTIONS.values())
    for name, one in REPRODUCTIONS.items():
        print_lines([f"{name:{width}}  {one.shows:{shows}}  {one.summary}"], width + 2)


def _print(measured: Measured, findings: Judged) -> None:
    """The tables, then the claims."""
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding
    from rich.text import Text

    from unrack_papers.pages.page import (
        cells_found,
        claims_found,
        legend,
        numbers_of,
        own_numbers,
        verdict_of,
        warnings_of,
    )
    from unrack_papers.pages.sheet import sheets_of
    from unrack_papers.verdict import SIGNS

    console = Console(width=None if sys.stdout.isatty() else max(WIDTH, int(os.environ.get("COLUMNS", "0") or 0)))
    one = measured.reproduction
    console.print(f"[bold]{one.shows}[/]: {escape(one.summary)} ({measured.options.words(one.takes)})", highlight=False)
    for sheet in sheets_of(measured):
        console.print(_rich(sheet))
    console.print(legend(measured), style="dim", highlight=False)
    for line in (cells_found(measured), *(f"Warning: {warning}" for warning in warnings_of(measured))):
        if line:
            console.print(line, highlight=False)
    console.print(claims_found(findings), highlight=False)
    for claim, finding in findings:
        own = own_numbers(measured, claim)
        words = f"{claim.sentence} ({claim.source}{f'; {own}' if own else ''})"
        text = Text.assemble(
            (f"{SIGNS[finding.verdict]} {verdict_of(finding)}: ", VERDICT_STYLES[finding.verdict]), words
        )
        console.print(text)
        for line in numbers_of(finding):
            console.print(Padding(Text(line, "dim"), (0, 0, 0, 4)))
    for line in one.aside(measured) if one.aside is not None else ():
        console.print(Text(line))


def _rich(sheet: Sheet) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=sheet.title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False,
                  padding=(0, 0, 0, 0))  # fmt: skip
    for i, head in enumerate(sheet.heads):
        table.add_column(Text(head), justify="left" if i < sheet.names else "right", overflow="fold")
    before: tuple[str, ...] = ()
    for line in sheet.lines:
        first = line[0].lines
        if before and first != before:
            table.add_section()
        cells = [Text("\n".join(cell.lines), STYLES[cell.tone]) for cell in line]
        table.add_row(Text("") if first == before else cells[0], *cells[1:])
        before = first
    return table


@contextmanager
def _bar(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on the error stream; nothing if quiet or no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as live:
        task = live.add_task("", total=None)
        yield lambda done, total: live.update(task, completed=done, total=total)
