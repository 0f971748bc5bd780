"""``unrack report DIR``: build the HTML report of a finished study again, or its charts as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.options import BootstrapOption


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `unrack run` wrote.")],
    figures: Annotated[
        str | None, typer.Option(metavar="svg|png|pdf", help="Write every chart as a file, in place of the page.")
    ] = None,
    style: Annotated[
        str | None, typer.Option(metavar="page|paper", help="paper: 85 or 180 mm wide, 8 pt, no title, fit for grey.")
    ] = None,
    font: Annotated[str | None, typer.Option(metavar="sans|serif", help="Of the figures.")] = None,
    bootstrap: BootstrapOption = None,
    to: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where figures go (default: DIR/figures).")] = None,
) -> None:
    """Build (or rebuild) the HTML report of a finished study and print its path; or write its charts as files."""
    from unrack.errors import InputError
    from unrack.metric.bootstrap import read_length

    length_s = None if bootstrap is None else read_length(bootstrap)
    if figures is None:
        for name, given in (("--style", style), ("--font", font), ("--to", to)):
            if given is not None:
                raise InputError(name, "no --figures", f"{name} together with --figures svg, png or pdf")
        from unrack.report.page import write_report

        typer.echo(write_report(directory, length_s))
        return
    from unrack.report.figures.style import Style
    from unrack.report.figures.write import write_figures

    index, paths = write_figures(directory, figures, Style.of(style, font), to, length_s)
    typer.echo(f"{index}: {len(paths)} figures")
