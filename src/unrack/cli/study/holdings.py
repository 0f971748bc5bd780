"""``unrack holdings DIR``: who held how much of what, where and when."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unrack.cli.options import All, Json, RunOption, need_ending, print_json, print_lines
from unrack.facts import counted

if TYPE_CHECKING:
    import polars as pl

MOST = 20
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
    from unrack.study.results.record import packed, write_whole

    need_ending("--out", out, ".csv", ".parquet")
    again = finished_run(directory, run)
    held = again.holdings()
    if job is not None:
        again.index(job)
        held = held.filter(pl.col("job").cast(pl.String) == job)
    if out is not None:
        write_whole(out, held.write_csv() if out.suffix == ".csv" else packed(held))
    shown = totals(held, again.cluster()) if job is None else held
    if as_json:
        print_json(shown.to_dicts(), other=str)
        return
    print_lines(lines(shown, None if everything else MOST))
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
