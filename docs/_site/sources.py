"""Files outside of docs/ that pages link to: examples, and a few files of the code. The site has copies of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

REPRODUCTIONS = Path("papers/docs/reproductions")
"""Written by ``unrack reproduce``; pages of the site in ``reproductions/``."""
LINK = re.compile(r"(?<=\]\()((?:\.\./)+[^)#\s]+|[\w./-]+/)(?=[)#])")

NOTEBOOK = re.compile(r"(?<=\]\()((?:\.\./)?notebooks/\w+)\.ipynb(?=\))")


def linked_files(root: Path) -> Iterator[Path]:
    """Every example, and every file outside of docs/ that a page of docs/ links to."""
    found = {path for path in (root / "examples").rglob("*") if path.suffix in {".toml", ".py"}}
    for page in (root / "docs").rglob("*.md"):
        for link in LINK.findall(page.read_text()):
            target = (page.parent / link).resolve()
            inside = target.is_relative_to(root / "docs") or target.parent == root / REPRODUCTIONS
            if target.is_file() and not inside:
                found.add(target)
    yield from sorted(found)


def with_source_links(text: str, uri: str, root: Path) -> str:
    """The text with links to files outside of docs/ led to their copies, and those to folders to a page about them."""
    here = root / "docs" / uri
    pages = {
        root / "examples": "reference/examples.md",
        root / "docs" / "decisions": "decisions/index.md",
        root / REPRODUCTIONS: "papers/index.md",
    }

    def led(match: re.Match[str]) -> str:
        target = (here.parent / match[1]).resolve()
        if target in pages:
            return os.path.relpath(root / "docs" / pages[target], here.parent)
        if target == root / "README.md":
            return os.path.relpath(root / "docs" / "index.md", here.parent)
        if target.is_file() and target.parent == root / REPRODUCTIONS:
            return os.path.relpath(root / "docs" / "reproductions" / target.name, here.parent)
        if target.is_file() and not target.is_relative_to(root / "docs"):
            return os.path.relpath(root / "docs" / "source" / target.relative_to(root), here.parent)
        return match[1]

    return NOTEBOOK.sub(r"\1.md", LINK.sub(led, text))
