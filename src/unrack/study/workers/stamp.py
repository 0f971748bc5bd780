"""What makes two installations give the same bytes: a cluster's workers are held to it."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from unrack.errors import InputError


class Stamp(NamedTuple):
    """Versions of all that can change a byte of a kept run; ``code``: a hash of this package's source."""

    unrack: str
    code: str
    python: str
    numpy: str
    polars: str

    def __str__(self) -> str:
        rest = f"Python {self.python}, NumPy {self.numpy}, Polars {self.polars}"
        return f"unrack {self.unrack} (code {self.code}) with {rest}"


@cache
def stamp() -> Stamp:
    """That of this process."""
    total = hashlib.sha256()
    root = Path(__file__).parents[2]
    for path in sorted(root.rglob("*.py")):
        total.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    python = ".".join(platform.python_version_tuple()[:2])
    return Stamp(version("unrack"), total.hexdigest()[:8], python, version("numpy"), version("polars"))


def check_stamp(where: str, found: Stamp | None, wanted: Stamp) -> None:
    """Refuse a worker that would not give the same bytes.

    Parameters
    ----------
    found
        That of the worker; ``None``: this package is not there.

    Raises
    ------
    InputError
        It differs.
    """
    if found != wanted:
        got = "no unrack" if found is None else str(found)
        raise InputError(where, got, f"{wanted}, as here: install the same on every worker")
