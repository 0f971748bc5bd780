"""Public names of a package that are loaded when they are first used, so that importing it costs little."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_IMPORT = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazily(package: str, *defined: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    Where its names are from is read in the block of imports that it has for type checkers.

    Parameters
    ----------
    package
        Its name.
    defined
        Public names that the package defines itself.
    """
    source = sys.modules[package].__spec__.loader.get_source(package)  # type: ignore[union-attr]
    home = {name: module for module, name in _IMPORT.findall(source)}

    def get(name: str) -> Any:
        if name in home:
            return getattr(import_module(home[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    names = sorted({*home, *defined})
    return names, get, lambda: names
