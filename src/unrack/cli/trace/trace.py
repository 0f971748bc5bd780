"""``unrack trace``: look into a workload file, convert it, make one, or fit a model to one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import Json, Seed, agreement, facts, grid, need_ending, print_json, print_page, write
from unrack.errors import InputError, TraceError
from unrack.facts import counted
from unrack.units import seconds_text

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.table import Table

    from unrack.workload.generate.batch.fit import Marginal, ModelFit
    from unrack.workload.generate.batch.model import BatchModel
    from unrack.workload.job import Workload

_QUANTILES = (0.25, 0.5, 0.75, 0.95)
app = typer.Typer(help="Look into a workload file, convert it, make one, or fit a model to one.", no_args_is_help=True)

Log = Annotated[
    str, typer.Argument(metavar="LOG", help="A workload: SWF, CSV, Parquet, JSON, sacct, squeue or PBS logs.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="As listed by unrack traces; by default it is found from the content.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="KEY=VALUE", help="An option of the reader: memory=requested, columns.run=dur."
    ),
]

Strict = Annotated[bool, typer.Option("--strict", help="Refuse rows that cannot be read; else they are left out.")]


@app.command()
def info(
    log: Log,
    format: Format = None,  # noqa: A002 -- named after the option
    option: Options = None,
    strict: Strict = False,
    nodes: Annotated[int | None, typer.Option(min=1, help="Tell what would not fit on so many nodes …")] = None,
    cores: Annotated[int, typer.Option(min=1, help="… of so many cores each.")] = 1,
    as_json: Json = False,
) -> None:
    """Tell what is in a workload, what is missing, and what was dropped or changed and why."""
    from unrack.workload.account import describe

    try:
        workload = read(log, format, option, strict)
    except TraceError as error:
        if error.field.startswith("column ") and not as_json:
            _suggest(log)
        raise
    contents = describe(workload, nodes=nodes, cores=cores)
    if as_json:
        print_json(contents)
        return
    from unrack.cli.trace.page import page

    print_page(page(contents))


@app.command()
def convert(
    log: Log,
    out: Annotated[str, typer.Argument(metavar="OUT", help="To write: .swf, .csv (either also .gz) or .parquet.")],
    format: Format = None,  # noqa: A002 -- named after the option
    option: Options = None,
    strict: Strict = False,
) -> None:
    """Read a workload and write it in another format; dropped jobs stay out."""
    need_another("OUT", out, log)
    _write(out, read(log, format, option, strict))


@app.command()
def make(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml", help="What to draw: see docs/generators.md.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="To write: .swf, .csv (either also .gz) or .parquet.")],
    seed: Seed = 0,
) -> None:
    """Draw a synthetic workload from a specification and write it."""
    from unrack.study.input.inputs import Document
    from unrack.workload.generate.generator import generate

    written = Document.read(Path(spec).expanduser(), "a specification")
    _write(out, generate(written.table, seed, Path(spec).stem, written.folder))


def need_another(option: str, path: str, read: str) -> None:
    """Refuse to write over the file that is read."""
    from unrack.workload.formats.source import find

    if (out := Path(path).expanduser()).exists() and out.samefile(find(read)):
        raise InputError(option, repr(path), "another file than the one that is read, of which rows may be left out")


def _write(out: str, workload: Workload) -> None:
    from unrack.workload.formats.writers import left_out, write_trace

    write_trace(out, workload)
    lost = ", ".join(left_out(out, workload))
    typer.echo(f"{out}: {counted(len(workload), 'job')}{lost and f', without {lost}: the format has no field for it'}")
    if dropped := ", ".join(f"{rule} {jobs}" for rule, jobs in workload.intake.dropped.items()):
        typer.echo(f"Left out of {workload.intake.read} that were read: {dropped}")


@app.command()
def fit(
    log: Log,
    format: Format = None,  # noqa: A002 -- named after the option
    option: Options = None,
    strict: Strict = False,
    nodes: Annotated[int | None, typer.Option(min=1, help="Nodes of the system; by default what the log says.")] = None,
    out: Annotated[str | None, typer.Option(metavar="OUT.toml", help="Write the parameters there.")] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw fit against log; ends in .svg, .png or .html.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit the batch model to a log: generate = {model = "cirne", parameters = "OUT.toml"}."""
    from unrack.extras import needed_for
    from unrack.workload.generate.batch.fit import fit as fitted
    from unrack.workload.generate.batch.generator import written

    need_ending("--plot", plot, ".svg", ".png", ".html")
    need_ending("--out", out, ".toml")
    if plot is not None:
        with needed_for("a picture of a fitted model"):  # said before the log is read
            import vl_convert  # noqa: F401
    found = fitted(read(log, format, option, strict), nodes)
    if out is not None:
        options = "".join(f" -o {pair}" for pair in option or [])
        given = "" if nodes is None else f" --nodes {nodes}"
        write(out, written(found.model, f"unrack trace fit {Path(log).name}{options}{given}"))
    if plot is not None:
        from unrack.report.charts.compare import drawn

        write(plot, drawn(found, Path(plot).suffix))
    if as_json:
        correlation = {name: {"log": log, "model": drawn} for name, (log, drawn) in found.together.items()}
        print_json({"jobs": found.jobs, **fit_record(found.model, found.marginals), "correlation": correlation})
        return
    print_page((_parameters(found), _agreement(found), _together(found)))
    for path in filter(None, (out, plot)):
        typer.echo(path)


def _suggest(log: str) -> None:
    from unrack.workload.formats.source import load
    from unrack.workload.formats.table.read import suggestion

    try:
        found = suggestion(load(log))
    except InputError:
        return
    if found is None:
        return
    typer.echo(f"{log} is a table with the columns {', '.join(found.header)}.")
    if found.columns:
        reads = f"this reads {counted(found.jobs, 'job')}" if found.jobs is not None else "a mapping to begin with"
        typer.echo(f"By their names and contents, {reads}:\n\n    {found.line(log)}\n")
    for sentence in found.missing:
        typer.echo(f"Missing: {sentence}")


def read(log: str, format: str | None, option: list[str] | None, strict: bool) -> Workload:  # noqa: A002 -- the option
    """The workload that a command is given."""
    from unrack.workload.formats.readers import read_trace

    return read_trace(log, format, **{"strict": strict, **parse_options(option or [])})


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """Reader options from ``KEY=VALUE`` texts; a dot in the key makes a table.

    An InputError if a text has no ``=``, or a key is given as a value and as a table.

    Examples
    --------
    >>> parse_options(["memory=requested", "node_spec=true", "columns.run=dur", "defaults.cores=2"])
    {'memory': 'requested', 'node_spec': True, 'columns': {'run': 'dur'}, 'defaults': {'cores': 2}}
    """
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not re.fullmatch(r"[a-z_]+(\..+)?", key):
            raise InputError("-o", repr(pair), "KEY=VALUE, such as memory=requested or columns.run=dur")
        name, dot, inner = key.partition(".")
        table = options.setdefault(name, {}) if dot else options
        if not isinstance(table, dict):
            raise InputError("-o", repr(pair), f"{name} either as a value or as {name}.KEY")
        table[inner if dot else name] = _value(text)
    return options


def _value(text: str) -> bool | int | float | str:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?[0-9]+\.[0-9]*([eE][+-]?[0-9]{1,2})?", text):
        return float(text)
    return text


def fit_record(model: BaseModel, marginals: Sequence[Marginal]) -> dict[str, Any]:
    """The parameters of a fitted model and the distance of each property, ready for JSON."""
    return {
        "parameters": model.model_dump(mode="json", exclude_none=True),
        "distance": {marginal.name: round(marginal.distance, 6) for marginal in marginals},
    }


def _parameters(fit: ModelFit) -> Table:
    from rich.markup import escape

    table = facts("Batch model")
    for name, words in _rows(fit.model, fit.jobs):
        table.add_row(name, escape(words))
    return table


def _rows(model: BatchModel, jobs: int) -> Iterator[tuple[str, str]]:
    cycle, sizes = model.arrivals, model.sizes
    hour = max(range(24), key=cycle.hour.__getitem__)
    weekend = sum(cycle.weekday[:5]) / 5 / max(sum(cycle.weekday[5:]) / 2, 1e-9)
    yield "fitted to", f"{model.source} ({counted(jobs, 'job')})"
    words = f"{cycle.jobs_per_day:,.1f} a day, most from {hour} h to {hour + 1} h ({cycle.hour[hour]:.2f} × the mean)"
    yield "arrivals", f"{words}; weekday over weekend {weekend:.2f}; gap shape {cycle.gap_shape:g} (1 = Poisson)"
    words = f"{sizes.serial_share:.1%} of one node, {sizes.power_share:.1%} of the others a power of two"
    yield "sizes", f"on {sizes.nodes:,} nodes: {words}"
    for name, ending in (("completed", model.completed), ("failed", model.failed), ("cancelled", model.cancelled)):
        if ending is not None:
            middle = ending.accuracy[len(ending.accuracy) // 2]
            words = (
                f"{ending.share:.1%}; {ending.at_limit:.1%} of them ran to the limit, {ending.no_run:.1%} not at all"
            )
            yield name, f"{words}, half of the others up to {middle:.3g} × the request"
    yield "never ran", f"{model.never_ran:.1%} of all submitted"


def _agreement(fit: ModelFit) -> Table:
    return agreement(
        "Log and model", ("log", "model"), fit.marginals, _QUANTILES,
        lambda marginal, value: seconds_text(value) if marginal.unit == "s" else f"{value:,.4g}",
    )  # fmt: skip


def _together(fit: ModelFit) -> Table:
    table = grid("Correlation of ranks", [""], ["log", "model"])
    for name, (log, drawn) in fit.together.items():
        table.add_row(name, f"{log:+.2f}", f"{drawn:+.2f}")
    return table
