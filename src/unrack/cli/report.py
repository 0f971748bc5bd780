"""``unrack report DIR``: build the HTML report of a finished study again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that `unrack run` wrote.")],
) -> None:
    """Build (or rebuild) the HTML report of a finished study and print its path.

    Raises
    ------
    InputError
        The directory is no finished study.
    """
    from unrack.report.page import write_report

    typer.echo(write_report(directory))
