"""``unrack trace``: look into a workload file, convert it, make one, or fit a model to one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.errors import InputError, TraceError
from unrack.facts import counted

if TYPE_CHECKING:
    from unrack.workload.job import Workload
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from unrack.units import seconds_text

if TYPE_CHECKING:
    from unrack.workload.generate.batch.agreement import Marginal
    from unrack.workload.generate.batch.fit import Fit
    from unrack.workload.generate.batch.model import BatchModel

_QUANTILES = (0.25, 0.5, 0.75, 0.95)
app = typer.Typer(help="Look into a workload file, convert it, make one, or fit a model to one.", no_args_is_help=True)

Log = Annotated[
    str, typer.Argument(metavar="LOG", help="A workload: SWF, CSV, Parquet, JSON, sacct, squeue or PBS logs.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="As listed by unrack traces; by default found from the content.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="KEY=VALUE", help="An option of the reader, as memory=requested or columns.run=dur."
    ),
]

Strict = Annotated[bool, typer.Option("--strict", help="Refuse rows that cannot be read; else they are left out.")]


@app.command()
def info(
    log: Log,
    format: Format = None,  # noqa: A002 -- named after the option
    option: Options = None,
    strict: Strict = False,
    nodes: Annotated[int | None, typer.Option(min=1, help="Hold the workload against so many nodes …")] = None,
    cores: Annotated[int, typer.Option(min=1, help="… of so many cores each.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell what is in a workload, what is missing, and what was dropped or changed and why."""
    from unrack.workload.account import describe

    try:
        workload = _read(log, format, option, strict)
    except TraceError as error:
        if error.field.startswith("column ") and not as_json:
            _suggest(log)
        raise
    contents = describe(workload, nodes=nodes, cores=cores)
    if as_json:
        typer.echo(json.dumps(contents, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from unrack.cli.parts.trace_page import page

    console = Console()
    for part in page(contents):
        console.print(part)


@app.command()
def convert(
    log: Log,
    out: Annotated[str, typer.Argument(metavar="OUT", help="Ends in .swf, .csv (either also .gz) or .parquet.")],
    format: Format = None,  # noqa: A002 -- named after the option
    option: Options = None,
    strict: Strict = False,
) -> None:
    """Read a workload and write it in another format; dropped jobs stay out."""
    from unrack.workload.formats.writers import write_trace

    workload = _read(log, format, option, strict)
    write_trace(out, workload)
    typer.echo(f"{out}: {counted(len(workload), 'job')}")


@app.command()
def make(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml", help="What to draw: see docs/file-formats.md.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="Ends in .swf, .csv (either also .gz) or .parquet.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
) -> None:
    """Draw a synthetic workload from a specification and write it."""
    from unrack.workload.formats.writers import write_trace
    from unrack.workload.generate.generator import generate

    workload = generate(_toml(spec), seed, Path(spec).stem, Path(spec).expanduser().parent)
    write_trace(out, workload)
    typer.echo(f"{out}: {counted(len(workload), 'job')}")


@app.command()
def fit(
    log: Log,
    format: Format = None,  # noqa: A002 -- named after the option
    option: Options = None,
    strict: Strict = False,
    nodes: Annotated[int | None, typer.Option(min=1, help="Of the system; by default what the log says.")] = None,
    out: Annotated[str | None, typer.Option(metavar="OUT.toml", help="Write the parameters there.")] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw fit against log; ends in .svg, .png or .html.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit the batch model to a log: generate = {model = "cirne", parameters = "OUT.toml"}."""
    from unrack.extras import needed_for
    from unrack.workload.generate.batch.fit import fit as fitted
    from unrack.workload.generate.batch.generator import written

    if plot is not None and not plot.endswith((".svg", ".png", ".html")):
        raise InputError("--plot", repr(plot), "a file that ends in .svg, .png or .html")
    if out is not None and not out.endswith(".toml"):
        raise InputError("--out", repr(out), "a file that ends in .toml")
    if plot is not None:
        with needed_for("a picture of a fitted model"):  # said before the log is read
            import vl_convert  # noqa: F401
    found = fitted(_read(log, format, option, strict), nodes)
    if out is not None:
        options = "".join(f" -o {pair}" for pair in option or [])
        given = "" if nodes is None else f" --nodes {nodes}"
        _write(out, written(found.model, f"unrack trace fit {Path(log).name}{options}{given}").encode())
    if plot is not None:
        from unrack.report.charts.fit import drawn

        _write(plot, drawn(found, Path(plot).suffix))
    if as_json:
        typer.echo(json.dumps(record(found), indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console()
    for part in page(found):
        console.print(part)
    for path in filter(None, (out, plot)):
        typer.echo(path)


def _write(path: str, content: bytes) -> None:
    try:
        Path(path).expanduser().write_bytes(content)
    except OSError as error:
        raise InputError(path, error.strerror or str(error), "a file that can be written") from None


def _toml(path: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, error.strerror or str(error), "a file that can be read") from None
    except UnicodeDecodeError:
        raise InputError(path, "text that is not UTF-8", "a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(path, str(error), "a TOML file") from None


def _suggest(log: str) -> None:
    """Say which columns a table has, and which mapping would read it, if it is one."""
    from unrack.workload.formats.source import load
    from unrack.workload.formats.table.suggestion import suggestion

    try:
        found = suggestion(load(log))
    except InputError:
        return
    if found is None:
        return
    typer.echo(f"{log} is a table with the columns {', '.join(found.header)}.")
    if found.columns:
        reads = f"this reads {found.jobs:,} jobs" if found.jobs is not None else "a mapping to begin with"
        typer.echo(f"By their names and contents, {reads}:\n\n    {found.line(log)}\n")
    for sentence in found.missing:
        typer.echo(f"Missing: {sentence}")


def _read(
    log: str,
    format: str | None,  # noqa: A002 -- named after the option
    option: list[str] | None,
    strict: bool,
) -> Workload:
    from unrack.workload.formats.readers import read_trace

    return read_trace(log, format, **{"strict": strict, **parse_options(option or [])})


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """Reader options from ``KEY=VALUE`` texts; a dot in the key makes a table.

    Raises
    ------
    InputError
        A text has no ``=``, or a key is given as a value and as a table.

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


def record(fit: Fit) -> dict[str, Any]:
    """The fit, ready for JSON: jobs, parameters, distance of each property, correlations."""
    return {
        "jobs": fit.jobs,
        "parameters": fit.model.model_dump(mode="json", exclude_none=True),
        "distance": {marginal.name: round(marginal.distance, 6) for marginal in fit.marginals},
        "correlation": {name: {"log": log, "model": drawn} for name, (log, drawn) in fit.together.items()},
    }


def page(fit: Fit) -> Iterator[RenderableType]:
    """The parts of the page: parameters, then how the model agrees with the log."""
    yield _parameters(fit)
    yield _agreement(fit)
    yield _together(fit)


def _parameters(fit: Fit) -> Table:
    model = fit.model
    table = Table(title="Batch model", title_style="bold", title_justify="left", show_header=False, box=None)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, words in _rows(model, fit.jobs):
        table.add_row(name, escape(words))
    return table


def _rows(model: BatchModel, jobs: int) -> Iterator[tuple[str, str]]:
    cycle, sizes = model.arrivals, model.sizes
    hour = max(range(24), key=cycle.hour.__getitem__)
    yield "fitted to", f"{model.source} ({counted(jobs, 'job')})"
    yield (
        "arrivals",
        (
            f"{cycle.jobs_per_day:,.1f} a day, most from {hour} h to {hour + 1} h ({cycle.hour[hour]:.2f} × the mean); "
            f"weekday over weekend {sum(cycle.weekday[:5]) / 5 / max(sum(cycle.weekday[5:]) / 2, 1e-9):.2f}; "
            f"gap shape {cycle.gap_shape:g} (1 = Poisson)"
        ),
    )
    yield (
        "sizes",
        (
            f"on {sizes.nodes:,} nodes: {sizes.serial_share:.1%} of one node, {sizes.power_share:.1%} of the others a "
            f"power of two"
        ),
    )
    for name, ending in (("completed", model.completed), ("failed", model.failed), ("cancelled", model.cancelled)):
        if ending is not None:
            middle = ending.accuracy[len(ending.accuracy) // 2]
            words = (
                f"{ending.share:.1%}; {ending.at_limit:.1%} of them ran to the limit, {ending.no_run:.1%} not at all"
            )
            yield name, f"{words}, half of the others up to {middle:.3g} × the request"
    yield "never ran", f"{model.never_ran:.1%} of all submitted"


def _agreement(fit: Fit) -> Table:
    from numpy import quantile

    table = Table(title="Log and model", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    table.add_column("of")
    for part in _QUANTILES:
        table.add_column(f"p{part * 100:g}", justify="right")
    table.add_column("mean", justify="right")
    table.add_column("KS distance", justify="right")
    for marginal in fit.marginals:
        for who, values in (("log", marginal.log), ("model", marginal.drawn)):
            parts = quantile(values, _QUANTILES, method="inverted_cdf").tolist()
            cells = [*(_cell(marginal, part) for part in parts), _cell(marginal, float(values.mean()))]
            last = f"{marginal.distance:.3f}" if who == "model" else ""
            table.add_row(marginal.name if who == "log" else "", who, *cells, last)
    return table


def _together(fit: Fit) -> Table:
    table = Table(title="Correlation of ranks", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("", no_wrap=True)
    table.add_column("log", justify="right")
    table.add_column("model", justify="right")
    for name, (log, drawn) in fit.together.items():
        table.add_row(name, f"{log:+.2f}", f"{drawn:+.2f}")
    return table


def _cell(marginal: Marginal, value: float) -> str:
    return seconds_text(value) if marginal.unit == "s" else f"{value:,.4g}"
