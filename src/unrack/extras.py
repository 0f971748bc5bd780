"""What is imported only when it is used: optional libraries, and public names of packages.

Each extra installs some libraries, and a message names the extra where one is missing. Public names of a package are
loaded when they are first used, so that importing it costs little.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

OF_LIBRARY = {
    "ortools": "solvers", "vl_convert": "figures", "altair": "figures", "pandas": "pandas",
    "prometheus_client": "live", "aiohttp": "kubernetes", "msgspec": "kubernetes", "yaml": "kubernetes",
    "distributed": "dask", "ray": "ray",
}  # fmt: skip
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
        from unrack.errors import MissingError

        raise MissingError(purpose, str(error.name).partition(".")[0], extra) from None


PURPOSES = {"vl_convert": "pictures as files (svg, png, pdf)", "altair": "charts in Python", "pandas": "pandas tables"}
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


_IMPORT = re.compile(r"^    from ([\w.]+) import (\w+) as \2$", re.MULTILINE)


def lazily(package: str, *defined: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package, as its block of imports for type checkers says.

    Parameters
    ----------
    package
        Its name. In its source stand lines such as ``from MODULE import NAME as NAME``, which are not run.
    defined
        Public names that the package defines itself.
    """
    loader: Any = sys.modules[package].__loader__
    home = {name: module for module, name in _IMPORT.findall(loader.get_source(package))}

    def get(name: str) -> Any:
        if name in home:
            return getattr(import_module(home[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    names = sorted({*home, *defined})
    return names, get, lambda: names
