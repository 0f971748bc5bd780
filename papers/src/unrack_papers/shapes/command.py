"""``unrack usage fit`` and ``unrack usage make``: parameters of curves of memory use, and files that they draw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli import (
    Json,
    Seed,
    SeriesFile,
    SeriesOptions,
    agreement,
    counted,
    facts,
    fit_record,
    need_ending,
    print_json,
    print_page,
    read_series,
    write,
)
from unrack.units import seconds_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unrack_papers.shapes.fit import ShapeFit

_QUANTILES = (0.05, 0.5, 0.95)


def fit(
    file: SeriesFile,
    option: SeriesOptions = None,
    out: Annotated[str | None, typer.Option(metavar="OUT.toml", help="Write the parameters there.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the curves drawn for comparison.")] = 0,
    as_json: Json = False,
) -> None:
    """Fit the parameters of drawn curves to series: usage = {shapes = "OUT.toml"}."""
    from unrack_papers.shapes.fit import fit as fitted
    from unrack_papers.shapes.parameters import written

    need_ending("--out", out, ".toml")
    found = fitted(read_series(file, option), seed)
    if out is not None:
        write(out, written(found.shapes, f"unrack usage fit {Path(file).name}"))
    if as_json:
        counts = {"jobs": found.jobs, "series": found.series, "kinds": found.counts}
        print_json({**counts, **fit_record(found.shapes, found.marginals)})
        return
    print_page(fit_page(found))
    if out is not None:
        typer.echo(out)


def make(
    out: Annotated[str, typer.Option(metavar="OUT", help="The file to write: .parquet, .csv or .csv.gz.")],
    shapes: Annotated[str, typer.Option(help="google, grizzly, or a file that unrack usage fit wrote.")] = "google",
    jobs: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many.")] = 1000,
    seed: Seed = 0,
) -> None:
    """Draw curves for jobs of 10 min to 2 days and, where nodes differ, of 1 to 64 nodes."""
    from unrack.workload.formats import write_frame
    from unrack.workload.usage import tidy_table
    from unrack_papers.shapes.draw import drawn_jobs
    from unrack_papers.shapes.parameters import shapes_of

    need_ending("--out", out, ".parquet", ".csv", ".csv.gz")
    curves, ids, run_s = drawn_jobs(shapes_of(shapes), jobs, seed)
    write_frame(out, tidy_table(curves, ids, run_s))
    typer.echo(
        f"{out}: {counted(jobs, 'job')}, {counted(len(curves.point) - 1, 'curve')}, {counted(len(curves.mb), 'point')}"
    )


def fit_page(fit: ShapeFit) -> Iterator[RenderableType]:
    """The parts of the page of ``unrack usage fit``: kinds, nodes, then how drawn curves agree with those given."""
    from numpy import array
    from rich.markup import escape

    from unrack.workload.generate import along

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
