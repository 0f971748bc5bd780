"""``unrack usage``: look into files of used memory, thin them, fit shapes to them, and draw such files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.errors import InputError
from unrack.facts import counted

if TYPE_CHECKING:
    from unrack.workload.usage.series import UsageSeries

app = typer.Typer(
    help="Look into files of memory that jobs used over their life, thin them, fit shapes to them, or draw such files.",
    no_args_is_help=True,
)

File = Annotated[
    str, typer.Argument(metavar="FILE", help="A sample a row: CSV or Parquet, plain or gzip; or SWF with used memory.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="KEY=VALUE", help="An option of the reader, as columns.time=3 or memory_unit=GB."
    ),
]


@app.command()
def info(
    file: File,
    option: Options = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell how many series there are, how long, how sampled, of what shape, and what was dropped or changed."""
    from unrack.workload.usage.contents import describe_usage

    found = describe_usage(_read(file, option))
    if as_json:
        typer.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    from unrack.cli.usage_page import contents_page

    console = Console()
    for part in contents_page(found):
        console.print(part)


@app.command()
def fit(
    file: File,
    option: Options = None,
    out: Annotated[str | None, typer.Option(metavar="OUT.toml", help="Write the parameters there.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the curves drawn for comparison.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit the parameters of drawn curves to series: usage = {shapes = "OUT.toml"}."""
    from unrack.cli.usage_page import fit_page, fit_record
    from unrack.workload.usage.shapes.fit import fit as fitted
    from unrack.workload.usage.shapes.parameters import written

    if out is not None and not out.endswith(".toml"):
        raise InputError("--out", repr(out), "a file that ends in .toml")
    found = fitted(_read(file, option), seed)
    if out is not None:
        try:
            text = written(found.shapes, f"unrack usage fit {Path(file).name}")
            Path(out).expanduser().write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(out, error.strerror or str(error), "a file that can be written") from None
    if as_json:
        typer.echo(json.dumps(fit_record(found), indent=2, ensure_ascii=False))
        return
    from rich.console import Console

    console = Console()
    for part in fit_page(found):
        console.print(part)
    if out is not None:
        typer.echo(out)


@app.command()
def thin(
    file: File,
    out: Annotated[str, typer.Option(metavar="OUT", help="Ends in .parquet, .csv or .csv.gz.")],
    error: Annotated[
        float, typer.Option(min=0, max=1, help="How far kept lines may be from a sample, as a share of the peak.")
    ] = 0.02,
    rise: Annotated[
        float, typer.Option(min=0, max=1, help="How far a step may be above a sample, as a share of the peak.")
    ] = 0.1,
    option: Options = None,
) -> None:
    """Write series as step functions with fewer points, and say how far they are above the samples."""
    from unrack.workload.usage.thin import thinned
    from unrack.workload.usage.write import check_ending, tidy_table, write_table

    check_ending(out)
    series = _read(file, option)
    made = thinned(series, error, rise)
    write_table(out, tidy_table(made.curves, series.ids, series.run_s, series.shares))
    from unrack.cli.usage_page import error_words

    typer.echo(
        f"{out}: {counted(len(series), 'job')}, {counted(made.points, 'point')} of {counted(made.samples, 'sample')}"
    )
    typer.echo(error_words(series, made))


@app.command()
def make(
    out: Annotated[str, typer.Option(metavar="OUT", help="Ends in .parquet, .csv or .csv.gz.")],
    shapes: Annotated[str, typer.Option(help="google, grizzly, or a file that unrack usage fit wrote.")] = "google",
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
) -> None:
    """Draw curves for jobs of 10 min to 2 days and, where nodes differ, of 1 to 64 nodes."""
    from unrack.workload.usage.shapes.jobs import drawn_jobs
    from unrack.workload.usage.shapes.parameters import shapes_of
    from unrack.workload.usage.write import check_ending, tidy_table, write_table

    check_ending(out)
    curves, ids, run_s = drawn_jobs(shapes_of(shapes), jobs, seed)
    write_table(out, tidy_table(curves, ids, run_s))
    typer.echo(
        f"{out}: {counted(jobs, 'job')}, {counted(len(curves.point) - 1, 'curve')}, {counted(len(curves.mb), 'point')}"
    )


def _read(file: str, option: list[str] | None) -> UsageSeries:
    from unrack.cli.trace import parse_options
    from unrack.workload.usage.read import read_usage
    from unrack.workload.usage.requested import is_swf, used_of_swf

    options = parse_options(option or [])
    if is_swf(file):
        return used_of_swf(file, **options)
    known = ("columns", "time_unit", "memory_unit", "has_header")
    for name in options:
        if name not in known:
            raise InputError("-o", repr(name), f"one of {', '.join(known)}")
    return read_usage(file, **options)
