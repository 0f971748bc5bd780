"""``unrack usage``: look into files of used memory, and thin them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import Json, facts, grid, need_ending, print_json, print_page
from unrack.cli.trace.trace import need_another, parse_options
from unrack.errors import check_choice
from unrack.facts import counted
from unrack.units import seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from unrack.workload.usage.curves import UsageSeries
    from unrack.workload.usage.thin import Thinned

_TABLES = (".parquet", ".csv", ".csv.gz")
app = typer.Typer(help="Look into files of memory that jobs used over their life, and thin them.", no_args_is_help=True)

SeriesFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A sample a row: CSV or Parquet, plain or gzip; or SWF with used memory.")
]
SeriesOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-o", "--option", metavar="KEY=VALUE", help="An option of the reader, such as columns.time=3 or memory_unit=GB."
    ),
]


@app.command()
def info(file: SeriesFile, option: SeriesOptions = None, as_json: Json = False) -> None:
    """Tell how many series there are, how long, how sampled, of what shape, and what was dropped or changed."""
    from unrack.workload.usage.described import describe_usage

    found = describe_usage(read_series(file, option))
    print_json(found) if as_json else print_page(contents_page(found))


@app.command()
def thin(
    file: SeriesFile,
    out: Annotated[str, typer.Option(metavar="OUT", help="The file to write: .parquet, .csv or .csv.gz.")],
    error: Annotated[
        float, typer.Option(min=0, max=1, help="How far kept lines may be from a sample, as a share of the peak.")
    ] = 0.02,
    rise: Annotated[
        float, typer.Option(min=0, max=1, help="How far a step may be above a sample, as a share of the peak.")
    ] = 0.1,
    option: SeriesOptions = None,
) -> None:
    """Write series as step functions with fewer points, and say how far they are above the samples."""
    from unrack.workload.formats.writers import write_frame
    from unrack.workload.usage.curves import tidy_table
    from unrack.workload.usage.thin import thinned

    need_ending("--out", out, *_TABLES)
    need_another("--out", out, file)
    series = read_series(file, option)
    made = thinned(series, error, rise)
    write_frame(out, tidy_table(made.curves, series.ids, series.run_s, series.shares))

    typer.echo(
        f"{out}: {counted(len(series), 'job')}, {counted(made.points, 'point')} of {counted(made.samples, 'sample')}"
    )
    typer.echo(error_words(series, made))


def read_series(file: str, option: list[str] | None) -> UsageSeries:
    """The series of a file, read by options such as ``columns.time=3``."""
    from unrack.workload.usage.attach import is_swf, used_of_swf
    from unrack.workload.usage.read import read_usage

    options = parse_options(option or [])
    if is_swf(file):
        return used_of_swf(file, **options)
    known = ("columns", "time_unit", "memory_unit", "has_header")
    for name in options:
        check_choice("-o", name, known)
    return read_usage(file, **options)


def contents_page(found: dict[str, Any]) -> Iterator[RenderableType]:
    """The parts of the page of ``unrack usage info``."""
    from rich.markup import escape

    table = facts(escape(found["source"]))
    several = "" if found["series"] == found["jobs"] else f", {found['series']:,} series"
    idle = f"; {found['idle']:,} never use anything" if found["idle"] else ""
    table.add_row("jobs", f"{found['jobs']:,}{several} in {counted(found['rows'], 'row')}{idle}")
    table.add_row("unit", found["unit"])
    interval = found["interval_s"]
    table.add_row("sampling", "by progress" if interval is None else f"every {seconds_text(interval)} as a rule")
    if "kinds" in found:
        kinds = ", ".join(f"{name} {count:,}" for name, count in found["kinds"].items() if count)
        table.add_row("kinds", f"{kinds} jobs")
        thin = found["thinned"]
        words = f"{thin['points']:,} points; up to {thin['largest_error']:.1%} of the peak above a sample"
        table.add_row("thinned", f"{words}, {thin['mean_error']:.2%} on average")
    yield table
    yield _spreads(found)
    for what in ("dropped", "changed"):
        if found[what]:
            yield _rules(what, found[what])


def _spreads(found: dict[str, Any]) -> Table:
    table = grid(None, [""], ["least", "p25", "half", "p75", "most"])
    shares = found["unit"] != "MB"
    rows: dict[str, tuple[str, Callable[[float], str]]] = {
        "samples a series": ("samples", "{:,.0f}".format),
        "run time, h": ("run_s", lambda value: f"{value / 3600:,.3g}"),
        "peak of a job" + ("" if shares else ", MB"): ("peak", ("{:.3f}" if shares else "{:,.0f}").format),
        "mean over peak": ("mean_over_peak", "{:.3f}".format),
        "progress near the peak": ("progress_near_peak", "{:.3f}".format),
    }
    for name, (key, words) in rows.items():
        if found.get(key):
            table.add_row(name, *(words(value) for value in found[key]))
    return table


def _rules(what: str, counts: dict[str, int]) -> Table:
    from rich.table import Table

    from unrack.workload.usage.read import RULES

    table = Table(title=what, title_style="bold", title_justify="left", show_header=False, box=None)
    table.add_column(justify="right")
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for rule, count in counts.items():
        table.add_row(f"{count:,}", rule, RULES[rule])
    return table


def error_words(series: UsageSeries, made: Thinned) -> str:
    """How far thinned curves are above their series, in the unit of the series and of the peak."""
    peak = series.peaks()
    most, mean = (
        float((error / peak.clip(min=1e-300)).max(initial=0.0)) for error in (made.largest_error, made.mean_error)
    )
    average = float(made.mean_error.mean()) if len(peak) else 0.0
    unit = "of the limit" if series.shares else "MB"
    largest = float(made.largest_error.max(initial=0.0))
    return (
        f"above the samples by up to {largest:.4g} {unit} ({most:.1%} of a peak), by {average:.3g} {unit} on average "
        f"(up to {mean:.1%} of a peak); nowhere below"
    )
