"""Libraries that only some of unrack needs: what each extra installs, and what is said where it is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from unrack.errors import MissingError

OF_LIBRARY = {
    "ortools": "solvers",
    "vl_convert": "figures",
    "altair": "figures",
    "pandas": "pandas",
    "prometheus_client": "live",
    "aiohttp": "kubernetes",
    "msgspec": "kubernetes",
    "yaml": "kubernetes",
}
"""Library → the extra that installs it: ``pip install 'unrack[solvers]'``."""


@contextmanager
def needed_for(purpose: str) -> Iterator[None]:
    """Around an import: if a library of :data:`OF_LIBRARY` is not there, a MissingError that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = OF_LIBRARY.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise MissingError(purpose, str(error.name).partition(".")[0], extra) from None


PURPOSES = {
    "vl_convert": "pictures as files (svg, png, pdf)",
    "altair": "charts in Python",
    "pandas": "pandas tables",
}
"""Library → what it is for, where a library is for one thing."""


def extra(library: str) -> Any:
    """Load a library of :data:`PURPOSES`; a MissingError if it is not installed."""
    with needed_for(PURPOSES[library]):
        return import_module(library)


def has_pictures() -> bool:
    """True if vl-convert is installed."""
    return _installed("vl_convert")


def has_solvers() -> bool:
    """True if OR-Tools is installed."""
    return _installed("ortools")


@cache
def _installed(library: str) -> bool:
    try:
        import_module(library)
    except ModuleNotFoundError:
        return False
    return True
