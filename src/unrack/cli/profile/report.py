"""``unrack profile report``: a page of curves, points, noise and what the machine was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.options import need_ending
from unrack.cli.options import write as write_file
from unrack.cli.profile.fit import Folders


def report(
    directories: Folders,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PAGE.html", help="What to write.")] = Path(
        "out/profile.html"
    ),
) -> None:
    """Write a page with the curves, their points, the noise, and what the machine could measure."""
    from unrack.profile.page.page import page_of
    from unrack.profile.profile import read_profile

    need_ending("--out", out, ".html")
    page = page_of([read_profile(folder) for folder in directories])
    out.parent.mkdir(parents=True, exist_ok=True)
    write_file(out, page, "--out")
    typer.echo(str(out))
