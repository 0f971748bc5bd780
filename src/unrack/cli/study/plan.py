"""``unrack plan STUDY.toml``: the cheapest system that meets goals, what just fails, and how sure that is."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import (
    JobsOption,
    NoAudit,
    OnOption,
    OutOption,
    StudyArgument,
    out_folder,
    policies,
    print_json,
    width_or,
    words,
    workers_on,
)
from unrack.cli.study.comparison import Heading, drawn

if TYPE_CHECKING:
    from rich.table import Table

    from unrack.plan.execute import Tried

WIDTH_OF_A_PIPE = 120
OUT_OF_REACH = 1
"""Exit status: no system that was tried is known to meet the goals."""
MOST_STEPS = 12
"""So many systems of a line are listed in the terminal; all are on the page."""
WORDS = {"open": "not needed", "undecided": "undecided"}
"""Verdict → what the table calls it, where that is something else."""


def plan(
    study: StudyArgument,
    goal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GOAL",
            help="Such as 'wait_s_p95 < 10 min', 'served > 99 %', and perhaps 'on 90 % of seeds, at 95 % confidence'; "
            "repeatable: all must hold.",
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUES",
            help="Such as clusters.0.pools.0.count=1..20, …=64..256 GB/64, …=0..100 %/25, …=2,4,8; repeatable.",
        ),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="WHAT", help="What to make least: cost (default), a varied key, or a metric.")
    ] = None,
    share: Annotated[
        str | None, typer.Option(metavar="SHARE", help="The share of seeds that must meet the goals (default: 90 %).")
    ] = None,
    confidence: Annotated[
        str | None, typer.Option(metavar="SHARE", help="How sure of all seeds: of the mean, or with --share.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many at most (default: 20; with --confidence more).")
    ] = None,
    prices: Annotated[
        str | None, typer.Option(metavar="NAME|FILE.toml", help="Prices of clusters without any; see unrack prices.")
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="The system that goals 'of reference' are relative to."),
    ] = None,
    search: Annotated[str | None, typer.Option(metavar="auto|every|bisect", help="How systems are tried.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE.py:NAME", help="Also try this policy; repeatable.", autocompletion=policies),
    ] = None,
    out: OutOption = None,
    on: OnOption = "processes",
    jobs: JobsOption = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print where the page is, and nothing else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON, and nothing else.")] = False,
    no_audit: NoAudit = False,
) -> None:
    """Find the cheapest system that meets goals, for every cluster and policy of a study. Finished runs are kept.

    Exit status: 0, there is one; 1, none that was tried meets the goals, or is sure to; 2, the input is wrong.
    """
    from unrack.plan.ask import carried_out
    from unrack.plan.execute import Plan
    from unrack.plan.goal import read_goal, read_share
    from unrack.plan.settings import make_settings, read_prices, read_reference, read_vary
    from unrack.study.input.inputs import Document

    document = Document.read(study)
    settings = make_settings(
        document,
        [read_goal(text) for text in goal or ()],
        [read_vary(text) for text in vary or ()],
        objective=objective,
        share=None if share is None else read_share(share, "--share"),
        confidence=None if confidence is None else read_share(confidence, "--confidence", least=0.5),
        seeds=seeds,
        prices=None if prices is None else read_prices(prices),
        reference=read_reference(reference) if reference else None,
        search=search,
    )
    made = Plan(document, settings, policy or ())
    directory = out or out_folder(made.name, "plan")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C
    try:
        with _status(as_json or quiet) as told, workers_on(on, jobs) as workers:
            done = carried_out(made, directory, workers, told, not no_audit)
    except KeyboardInterrupt:
        typer.echo(f"interrupted: finished runs are kept in {directory / 'runs'}; the same command goes on", err=True)
        raise typer.Exit(130) from None
    if as_json:
        print_json({**done.found, "directory": str(directory), "report": str(done.page)}, None)
    elif quiet:
        typer.echo(done.page)
    else:
        _show(done.found)
        typer.echo(f"report: {done.page}")
    if done.least is None:
        raise typer.Exit(OUT_OF_REACH)


@contextmanager
def _status(quiet: bool) -> Iterator[Callable[[Tried], None] | None]:
    """A line on the error stream: systems and runs so far; nothing if quiet or no terminal."""
    from rich.console import Console

    if quiet:
        yield None
        return
    live = Console(stderr=True).status("reading the study") if sys.stderr.isatty() else None
    said: list[Tried] = []

    def tell(tried: Tried) -> None:
        if tried.compiling and not said:
            said.append(tried)
            typer.echo(words(), err=True)
        if live is not None:
            live.update(f"{tried.systems} of {tried.of} systems, {tried.runs} runs; now {tried.now}")

    with live or nullcontext():
        yield tell


def _show(found: Mapping[str, Any]) -> None:
    from rich.console import Console

    width = width_or(WIDTH_OF_A_PIPE)
    console = Console(highlight=False, width=width)
    console.print(found["headline"], markup=False, soft_wrap=True)
    console.print(f"goals: {' and '.join(found['goals'])}", markup=False)
    served = " (that all work is served is a goal unless you say another)" if found["served_by_default"] else ""
    console.print(f"met if they hold {found['holds']}{served}", markup=False)
    if found["prices"]["examples"]:
        console.print("prices are EXAMPLES that belong to no vendor: give your own with --prices or in the cluster")
    for line in found["lines"]:
        console.print()
        console.print(line["sentence"], markup=False)
        console.print(_steps(found, line, width))
        if line["believed"] and line["answer"] is not None:
            console.print(f"({line['believed']} cheaper systems were not tried: those around them fail)")


def _steps(found: Mapping[str, Any], line: Mapping[str, Any], width: int) -> Table:
    from rich.markup import escape

    from unrack.plan.decided import shown

    keys = list(line["tried"][0]["values"])
    goals = [found["goals"][at].partition(" ")[0] for at in found["shown"]]
    headings = [Heading("cost", found["currency"]), Heading("seeds met", ""), Heading("verdict", "")]
    headings[2:2] = [Heading(metric, "") for metric in goals]
    at = line["tried"].index(line["answer"]) if line["answer"] is not None else len(line["tried"])
    first = max(0, min(at - MOST_STEPS // 2, len(line["tried"]) - MOST_STEPS))
    rows = []
    for place, system in enumerate(line["tried"][first : first + MOST_STEPS], first):
        cells = [f"{system['cost']['total']:,.0f}", f"{system['met']}/{system['seeds']}"]
        cells += [system["goals"][number]["text"] for number in found["shown"]]
        cells.append("the answer" if place == at else WORDS.get(system["verdict"], system["verdict"]))
        names = [escape(shown(system["values"][key])) for key in keys]
        if place == at:
            names, cells = [f"[bold]{one}[/bold]" for one in names], [f"[bold]{one}[/bold]" for one in cells]
        rows.append((names, cells))
    table, _ = drawn([escape(found["labels"].get(key, key)) for key in keys], headings, rows, width)
    return table
