"""What docstrings refer to by its full name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [ROOT / "src", ROOT / "papers" / "src"]
FULL = re.compile(r":(?:mod|class|func|meth|data|attr):`~?(unrack\w*(?:\.\w+)+)`")


def is_there(name: str) -> bool:
    """Whether a file, or a package, has all that the rest of a full name says."""
    parts = name.split(".")
    for known in range(len(parts), 0, -1):
        for path in (source.joinpath(*parts[:known]) for source in SOURCES):
            file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
            if file.is_file():
                return all(re.search(rf"\b{part}\b", file.read_text()) for part in parts[known:])
    return False


@pytest.mark.parametrize("source", SOURCES, ids=["unrack", "papers"])
def test_a_full_name_in_a_docstring_is_that_of_something(source: Path) -> None:
    texts = {path: path.read_text() for path in source.rglob("*.py")}
    lost = [f"{path}: {name}" for path, text in texts.items() for name in FULL.findall(text) if not is_there(name)]
    assert lost == []
