"""What a cluster must be before work goes there: its address answers, its workers would give the same bytes."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import socket
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from unrack.errors import InputError

ADDRESS = re.compile(r"(?:[a-z]+://)?(?:\[(?P<v6>[0-9a-fA-F:]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})")
PATIENCE_S = 10.0


def reached(where: str, address: str, wanted: str) -> None:
    """Make sure that somebody listens at an address.

    Parameters
    ----------
    address
        ``HOST:PORT``, perhaps after ``tcp://`` or the like.

    Raises
    ------
    InputError
        It is no address, or nobody answers.
    """
    found = ADDRESS.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        raise InputError(where, repr(address), wanted)
    try:
        socket.create_connection((found["v6"] or found["host"], int(found["port"])), PATIENCE_S).close()
    except OSError as error:
        raise InputError(where, f"{address}, where nobody answers ({error.strerror or error})", wanted) from None


def of_scheduler_file(where: str, path: str) -> str:
    """The address in a file that ``dask scheduler --scheduler-file`` wrote.

    Raises
    ------
    InputError
        There is none.
    """
    try:
        return str(json.loads(Path(path).read_text("utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        got = f"{path}, which has no address ({getattr(error, 'strerror', None) or type(error).__name__})"
        raise InputError(where, got, "what 'dask scheduler --scheduler-file' wrote") from None


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
