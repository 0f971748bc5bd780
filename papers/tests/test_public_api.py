"""Reproductions stand on unrack's public API alone."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
MODULES = {"unrack.errors", "unrack.extras", "unrack.jit", "unrack.testing", "unrack.units"}
"""Modules that are public as a whole, besides the packages that list what is public."""


def test_a_file_imports_public_names_of_unrack_alone() -> None:
    for path, node in ((one, node) for one in SOURCE.rglob("*.py") for node in ast.walk(ast.parse(one.read_text()))):
        if isinstance(node, ast.Import):
            assert not [one.name for one in node.names if one.name.startswith("unrack.")], path
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "unrack":
            names = {one.name for one in node.names}
            public = names if node.module in MODULES else set(getattr(import_module(str(node.module)), "__all__", ()))
            assert names <= public, f"{path}, {node.module}: {', '.join(sorted(names - public))}"
