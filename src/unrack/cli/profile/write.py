"""``unrack profile write``: the files that models read, from profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unrack.cli.options import print_lines
from unrack.cli.profile.fit import Folders


def write(
    directories: Folders,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where to write.")] = Path("out/models"),
) -> None:
    """Write what the models read: contention's files, times on drives, links, GPUs; and all levels as levels.csv."""
    from unrack.profile.models.write import write_models
    from unrack.profile.profile import read_profile

    print_lines(str(path) for path in write_models([read_profile(folder) for folder in directories], out))
