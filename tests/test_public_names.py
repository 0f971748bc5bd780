"""The public API: packages that say what is public, each name in one place, loaded when it is first used."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PAPERS = SOURCE.parent / "papers" / "src"
PACKAGES = sorted(
    ".".join(path.parent.relative_to(SOURCE).parts)
    for path in SOURCE.rglob("__init__.py")
    if "lazily(" in path.read_text()
)
FOR_POLICIES = {"Demand", "Job"}
"""Names that ``unrack`` has, and ``unrack.policy`` as well, which is to have all that a policy needs."""


def block(package: str) -> dict[str, str]:
    """Public names of the block for type checkers → the modules that they are imported from."""
    tree = ast.parse(SOURCE.joinpath(*package.split("."), "__init__.py").read_text())
    chosen = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in chosen.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names if alias.asname == alias.name}


@pytest.mark.parametrize("package", PACKAGES)
def test_type_checkers_see_the_names_that_are_there(package: str) -> None:
    module = importlib.import_module(package)
    own = {"metrics", "policies"} if package == "unrack" else set()
    assert sorted({*block(package), *own}) == module.__all__ == dir(module)
    for name, home in block(package).items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name), name


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_is_also_a_module_of_its_package(package: str) -> None:
    folder = SOURCE.joinpath(*package.split("."))
    assert not {path.stem for path in folder.iterdir()} & set(block(package))


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_public_has_a_docstring(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        found = getattr(module, name)
        if inspect.isclass(found) or inspect.isroutine(found):
            assert found.__doc__, name


def test_a_name_is_public_in_one_place() -> None:
    places: dict[tuple[str, str], list[str]] = {}
    for package in PACKAGES:
        for name, home in block(package).items():
            if name not in FOR_POLICIES:
                places.setdefault((home, name), []).append(package)
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_public_packages_load_nothing_until_a_name_is_used() -> None:
    code = f"import sys, {', '.join(PACKAGES)}; print(len([name for name in sys.modules if name.startswith('unrack')]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {".".join(one.split(".")[:n]) for one in PACKAGES for n in range(1, 9)}
    assert int(found.stdout) == len(packages) + 1  # and unrack.extras


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_lists_every_public_package(package: str) -> None:
    pages = [(SOURCE.parent / "docs" / "_site" / name).read_text() for name in ("hooks.py", "listings.py")]
    assert any(f'"{package}"' in page for page in pages)


def test_no_name_of_a_class_stands_for_more_than_two_things() -> None:
    paths = (*SOURCE.rglob("*.py"), *PAPERS.rglob("*.py"))
    public = re.compile(r"^class ([^\W_]\w*)", re.MULTILINE)
    names = Counter(name for path in paths for name in public.findall(path.read_text()))
    assert {name: count for name, count in names.items() if count > 2} == {}
