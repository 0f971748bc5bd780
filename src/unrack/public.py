"""Public names of a package that are loaded when they are first used, so that importing it costs little."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str], *defined: str
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    Type checkers cannot read the table: each package repeats its names in a block of imports for them, and a test
    holds the two equal.

    Parameters
    ----------
    package
        Its name.
    homes
        Module, as seen from the package or in full → the names that it brings, with blanks between them.
    defined
        Public names that the package defines itself.
    """
    modules = {module: module if module.startswith("unrack.") else f"{package}.{module}" for module in homes}
    home = {name: modules[module] for module, names in homes.items() for name in names.split()}

    def get(name: str) -> Any:
        if name in home:
            return getattr(import_module(home[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    names = sorted({*home, *defined})
    return names, get, lambda: names
