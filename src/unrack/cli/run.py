"""``unrack run STUDY.toml``: run a study, keep what is finished, compare, write the report."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.compiling import WORDS

if TYPE_CHECKING:
    from unrack.study.grid import Study
    from unrack.study.runner import Progress

OF_DEADLINES = {"missed_deadlines": "missed deadlines", "bound_missed_deadlines": "bound"}
"""Shown first where jobs have deadlines: the share of jobs."""
OF_TIERS = {
    "slo_broken_local": "too little local",
    "slo_broken_remote": "too remote",
    "clusters_used_mean": "clusters in use",
    "price_over_bound": "price ÷ bound",
}
"""Shown first where memory has tiers: of servers, the share outside an SLO."""
OF_CORES = {"core_distance_over_least": "core hops ÷ least", "core_pairs_apart": "pairs apart"}
"""Shown first where it was asked which cores jobs have."""
OF_GPUS = {"utility_mean": "GPU utility", "used_gpus": "GPUs in use"}
"""Shown first where there are machines with GPUs."""
SHOWN = {
    "wait_s_mean": "mean wait, s",
    "wait_s_p95": "p95 wait, s",
    "bounded_slowdown_mean": "bounded slowdown",
    "utilisation_cores": "cores in use",
    "jobs_finished": "finished",
    "jobs_rejected": "rejected",
}
"""Metrics of the table at the end, and their headings."""
MOST_ROWS = 40
"""Longer tables are left to the report."""


def run(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Where to write (default: out/ and its name).")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0: one a core.")] = 0,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="This seed in place of the study's.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="FILE.py:NAME",
            help="A further policy, from a file or by name, both perhaps followed by ', world=base'; repeatable.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write report.html.")] = False,
    no_audit: Annotated[
        bool, typer.Option("--no-audit", help="Do not check the tables of finished runs against the cluster.")
    ] = False,
) -> None:
    """Run a study: every cluster, workload, policy, seed and swept value. Finished runs are kept and not run again."""
    from unrack.study.grid import load_study
    from unrack.study.results.keep import kept_notes
    from unrack.study.runner import run_study

    loaded = load_study(str(study), seed=seed, policies=policy or ())
    directory = out or Path("out") / (re.sub(r"[^\w .-]+", "-", loaded.name).strip(".-") or "study")
    processes = jobs or os.cpu_count() or 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as cleanly as Ctrl-C
    try:
        with _bar(quiet=as_json) as told:
            rows = run_study(loaded, directory, jobs=processes, told=told, audit=not no_audit)
            page = None
            if not no_report:
                from unrack.report.page import write_report

                page = write_report(directory)
    except KeyboardInterrupt:
        finished = sum((directory / "runs" / one.id / "run.json").is_file() for one in loaded.runs)
        again = f"unrack run {study} --out {directory}"
        typer.echo(f"interrupted: {finished} of {len(loaded.runs)} runs are kept; go on with: {again}", err=True)
        raise typer.Exit(130) from None
    notes = kept_notes(directory, loaded.runs)
    if as_json:
        where = {"directory": str(directory), "report": str(page) if page else None}
        typer.echo(json.dumps({**where, "notes": notes, "runs": rows}))
        return
    _table(loaded, rows)
    for line in notes:
        typer.echo(f"note: {line}")
    typer.echo(f"report: {page}" if page else f"results: {directory}")


class _bar:  # noqa: N801 -- reads as a function where it is used
    """A progress bar on the error stream: runs, jobs a second, time left; nothing if quiet or no terminal.

    That kernels are compiled is said in any case, once, unless it is quiet.
    """

    def __init__(self, quiet: bool) -> None:
        self.live: Any = None
        self.task: Any = None
        self.quiet = quiet
        self.said = False

    def __enter__(self) -> Any:
        if self.quiet:
            return None
        if not sys.stderr.isatty():
            return self.say
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        text = TextColumn("{task.fields[runs]} runs  {task.fields[rate]}")
        self.live = Progress(BarColumn(), text, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        self.live.start()
        self.task = self.live.add_task("", total=None, runs="", rate="")
        return self.tell

    def say(self, progress: Progress) -> None:
        """Say that kernels are compiled, if they are and nobody has said so."""
        if progress.compiling and not self.said:
            self.said = True
            if self.live is None:
                typer.echo(WORDS, err=True)
            else:
                self.live.console.print(WORDS)

    def tell(self, progress: Progress) -> None:
        """Draw how far it is."""
        self.say(progress)
        speed = self.live.tasks[0].speed
        kept = f" ({progress.kept} kept)" if progress.kept else ""
        self.live.update(
            self.task,
            total=max(1, progress.jobs),
            completed=progress.jobs_done,
            runs=f"{progress.runs_done}/{progress.runs}{kept}",
            rate=f"{speed:,.0f} jobs/s" if speed else "",
        )

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()


def _table(study: Study, rows: list[dict[str, Any]]) -> None:
    """Compare the policies, the best of each column in bold; long studies are left to the report."""
    swept = list(study.runs[0].parameters)
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        key = tuple(str(row[part]) for part in ("cluster", "workload", *swept))
        groups.setdefault(key, {}).setdefault(f"{row['policy']}{row.get('world') or ''}", []).append(row)
    if sum(map(len, groups.values())) > MOST_ROWS:
        typer.echo(f"{len(rows)} runs: see the report, or summary.csv")
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from unrack.metric.table import EVERY_METRIC

    heads = [key for key in ("cluster", "workload", "world") if len({str(row.get(key)) for row in rows}) > 1]
    heads += [*swept, "policy"]
    seeds = len({row["seed"] for row in rows})
    console = Console()
    width = console.width if console.is_terminal else 160  # a pipe has no width: take what the table needs
    names = {head: head.rpartition(".")[2] for head in heads}
    taken = sum(3 + max(len(names[head]), *(len(str(row.get(head))) for row in rows)) for head in heads)
    of_some = {**OF_DEADLINES, **OF_CORES, **OF_TIERS, **OF_GPUS}
    known = {name: words for name, words in of_some.items() if any(row.get(name) is not None for row in rows)}
    unserved = {"served": "served"} if any((row.get("served") or 0) < 1 for row in rows) else {}
    titles = {**unserved, **known, **SHOWN}
    shown = list(titles)[: max(2, (width - taken - 1) // (12 if seeds == 1 else 18))]
    table = Table(title=escape(study.question or study.name), title_justify="left")
    for head in heads:
        table.add_column(escape(names[head]), overflow="fold")
    for name in shown:
        table.add_column(titles[name], justify="right", min_width=8)
    for group in groups.values():
        cells = _cells(group, {name: EVERY_METRIC[name].better for name in shown})
        for policy, own in group.items():
            table.add_row(
                *(escape("" if own[0].get(head) is None else str(own[0][head])) for head in heads), *cells[policy]
            )
    Console(width=width).print(table)
    typer.echo(f"bold: best{_sureness(seeds)}" + ("; rows that served less are not compared" if unserved else ""))


def _sureness(seeds: int) -> str:
    if seeds == 1:
        return " for these jobs (one seed)"
    return f", {seeds} seeds, its difference to the others is more than noise; ≈: not told apart from the best"


def _cells(group: dict[str, list[dict[str, Any]]], better: dict[str, str]) -> dict[str, list[str]]:
    """Policy → a cell a metric: the mean over its seeds, marked as :mod:`unrack.metric.comparison` says."""
    from unrack.metric.comparison import Entry, marks, served_less, world_of
    from unrack.metric.estimate import estimate

    entries = {policy: Entry({row["seed"]: row for row in own}, world_of(own[0])) for policy, own in group.items()}
    less = served_less(entries)
    cells: dict[str, list[str]] = {policy: [] for policy in group}
    for name, way in better.items():
        marked = marks(entries, name, way, less)
        for policy, own in group.items():
            value = estimate(row.get(name) for row in own)
            text = "–" if value is None else _number(value.mean, name == "served")
            if value is not None and value.count > 1:
                text += f" ± {_number(value.half)}"
            mark = marked.get(policy, "")
            cells[policy].append(f"[bold green]{text}[/]" if mark == "best" else f"{text} ≈" if mark else text)
    return cells


def _number(value: float, share: bool = False) -> str:
    if share and value < 1:  # never rounded up to all
        return f"{math.floor(value * 10_000) / 10_000:.4g}"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
