"""Addresses of clusters, looked at before a client of theirs waits for minutes or fails in its own words."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

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
