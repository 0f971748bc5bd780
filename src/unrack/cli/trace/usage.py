"""``unrack usage``: look into files of used memory, thin them, fit shapes to them, and draw such files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unrack.cli.options import Json, Seed, agreement, facts, grid, need_ending, print_json, print_page, write
from unrack.cli.trace.trace import fit_record, parse_options
from unrack.errors import check_choice
from unrack.facts import counted
from unrack.units import seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from unrack.workload.usage.curves import UsageSeries
    from unrack.workload.usage.shapes.fit import ShapeFit
    from unrack.workload.usage.thin import Thinned

_QUANTILES = (0.05, 0.5, 0.95)
_TABLES = (".parquet", ".csv", ".csv.gz")
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
    as_json: Json = False,
) -> None:
    """Tell how many series there are, how long, how sampled, of what shape, and what was dropped or changed."""
    from unrack.workload.usage.shapes.fit import describe_usage

    found = describe_usage(_read(file, option))
    print_json(found) if as_json else print_page(contents_page(found))


@app.command()
def fit(
    file: File,
    option: Options = None,
    out: Annotated[str | None, typer.Option(metavar="OUT.toml", help="Write the parameters there.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the curves drawn for comparison.")] = 0,
    as_json: Json = False,
) -> None:
    """Fit the parameters of drawn curves to series: usage = {shapes = "OUT.toml"}."""
    from unrack.workload.usage.shapes.fit import fit as fitted
    from unrack.workload.usage.shapes.parameters import written

    need_ending("--out", out, ".toml")
    found = fitted(_read(file, option), seed)
    if out is not None:
        write(out, written(found.shapes, f"unrack usage fit {Path(file).name}"))
    if as_json:
        counts = {"jobs": found.jobs, "series": found.series, "kinds": found.counts}
        print_json({**counts, **fit_record(found.shapes, found.marginals)})
        return
    print_page(fit_page(found))
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
    from unrack.workload.formats.writers import write_frame
    from unrack.workload.usage.curves import tidy_table
    from unrack.workload.usage.thin import thinned

    need_ending("--out", out, *_TABLES)
    series = _read(file, option)
    made = thinned(series, error, rise)
    write_frame(out, tidy_table(made.curves, series.ids, series.run_s, series.shares))

    typer.echo(
        f"{out}: {counted(len(series), 'job')}, {counted(made.points, 'point')} of {counted(made.samples, 'sample')}"
    )
    typer.echo(error_words(series, made))


@app.command()
def make(
    out: Annotated[str, typer.Option(metavar="OUT", help="Ends in .parquet, .csv or .csv.gz.")],
    shapes: Annotated[str, typer.Option(help="google, grizzly, or a file that unrack usage fit wrote.")] = "google",
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many.")] = 1000,
    seed: Seed = 0,
) -> None:
    """Draw curves for jobs of 10 min to 2 days and, where nodes differ, of 1 to 64 nodes."""
    from unrack.workload.formats.writers import write_frame
    from unrack.workload.usage.curves import tidy_table
    from unrack.workload.usage.shapes.draw import drawn_jobs
    from unrack.workload.usage.shapes.parameters import shapes_of

    need_ending("--out", out, *_TABLES)
    curves, ids, run_s = drawn_jobs(shapes_of(shapes), jobs, seed)
    write_frame(out, tidy_table(curves, ids, run_s))
    typer.echo(
        f"{out}: {counted(jobs, 'job')}, {counted(len(curves.point) - 1, 'curve')}, {counted(len(curves.mb), 'point')}"
    )


def _read(file: str, option: list[str] | None) -> UsageSeries:
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


def fit_page(fit: ShapeFit) -> Iterator[RenderableType]:
    """The parts of the page of ``unrack usage fit``: kinds, nodes, then how drawn curves agree with those given."""
    from numpy import array
    from rich.markup import escape

    from unrack.workload.generate.batch.curve import along

    shapes, half = fit.shapes, array([0.5])
    table = facts("Shapes")
    table.add_row("fitted to", escape(f"{shapes.source} ({fit.series:,} series)"))
    table.add_row("sample", seconds_text(shapes.interval_s))
    for name, kind in shapes.kinds.items():
        share = kind.weight / sum(one.weight for one in shapes.kinds.values())
        ratio, steps = (float(along(curve, half)[0]) for curve in (kind.mean_over_peak, kind.steps))
        words = (
            f"{share:.1%}; half have a mean up to {ratio:.2g} of the peak; half are drawn with up to {steps:.0f} steps"
        )
        table.add_row(name, f"{words}; persistence {kind.persistence:g}, spread {kind.spread:g}")
    if shapes.nodes is not None:
        table.add_row("nodes", f"peaks spread by {shapes.nodes.spread:g} (log), levels alike by {shapes.nodes.alike:g}")
    yield table
    yield agreement(
        "Given and drawn", ("given", "drawn"), fit.marginals, _QUANTILES,
        lambda _, value: f"{value:,.3f}" if value < 10 else f"{value:,.0f}",
    )  # fmt: skip


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
