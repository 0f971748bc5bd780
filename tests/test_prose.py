"""The English of docs and docstrings: what :command:`make lint` does not see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PEOPLE = re.compile(r"\b(?:who|whom|whoever|whose|nobody|somebody)\b", re.IGNORECASE)
MOST = 150
LINTED = re.compile(r"\$\(wildcard (.*)\)")


def said_of_people(text: str) -> int:
    """How many words of a text are for people alone."""
    return len(PEOPLE.findall(text))


def texts() -> dict[Path, str]:
    """What the package and its docs say, by file."""
    files = [file for room in ("src", "docs") for file in sorted((ROOT / room).rglob("*"))]
    return {file: file.read_text() for file in files if file.suffix in (".py", ".md", ".html", ".j2", ".toml")}


def test_jobs_and_nodes_are_things() -> None:
    found = {str(file.relative_to(ROOT)): said_of_people(text) for file, text in texts().items()}
    most = sorted((count, name) for name, count in found.items() if count)[-10:]
    total = sum(found.values())
    assert total <= MOST, f"{total} times who, whose, nobody … ; of jobs and nodes say which, that, its, no job: {most}"


@pytest.mark.parametrize(("text", "count"), [("Whose place it is, nobody says.", 2), ("The whole of it.", 0)])
def test_words_for_people_are_counted(text: str, count: int) -> None:
    assert said_of_people(text) == count


def test_every_page_of_the_docs_is_linted() -> None:
    """Pages in folders that ``make lint`` does not name would go unread."""
    patterns = LINTED.search((ROOT / "Makefile").read_text())
    assert patterns is not None
    linted = {file for pattern in patterns[1].split() for file in ROOT.glob(pattern)}
    assert set((ROOT / "docs").rglob("*.md")) <= linted
