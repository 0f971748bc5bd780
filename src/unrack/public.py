"""Public names of a package that are loaded when they are first used, so that importing it costs little."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

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
