"""The examples that are shipped: studies, each with the files that it needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import unrack
from unrack.errors import InputError

QUESTION = "question"


class Example(NamedTuple):
    """An example."""

    name: str  # what ``unrack init study --example NAME`` calls it
    summary: str  # its question, or what its first comment says
    files: tuple[Path, ...]  # what it consists of, the file to run first
    command: str  # what runs it, with paths as they are in a folder of its own


def folder() -> Path:
    """Where the examples are: in the package, or beside the sources in a checkout; else an InputError."""
    inside = Path(unrack.__file__).parent / "examples"
    beside = Path(unrack.__file__).parents[2] / "examples"
    for path in (inside, beside):
        if (path / "demo.toml").is_file():
            return path
    raise InputError("examples", f"no folder {inside}", "an installation with its examples (pip install unrack)")


def examples() -> dict[str, Example]:
    """Every example by name: the studies, and folders of files that belong together."""
    home = folder()
    found = {path.stem: _study(path) for path in sorted(home.glob("*.toml"))}
    for path in sorted(home.iterdir()):
        files = sorted(path.glob("*.toml")) if path.is_dir() else []
        if files:
            found[path.name] = Example(path.name, _comment(files[0]), tuple(files), _command(files[0], path.name))
    return dict(sorted(found.items()))


def _study(path: Path) -> Example:
    content = tomllib.loads(path.read_text())
    summary = str(content.get(QUESTION) or _comment(path))
    return Example(path.stem, summary, (path, *_needed(content, path.parent)), _command(path, path.stem))


def _needed(content: Any, home: Path) -> list[Path]:
    """The files of the folder that a study names, such as ``FILE.py`` of a policy."""
    if isinstance(content, dict):
        content = list(content.values())
    if isinstance(content, list):
        return list(dict.fromkeys(path for value in content for path in _needed(value, home)))
    file = re.match(r"[\w./-]+\.\w+", content) if isinstance(content, str) else None
    path = home / file[0] if file is not None else None
    return [path] if path is not None and path.is_file() else []


def _comment(path: Path) -> str:
    return path.read_text().partition("\n")[0].lstrip("# ").partition(": ")[0]


def _command(path: Path, name: str) -> str:
    lines = (line.lstrip("# ") for line in path.read_text().splitlines() if line.startswith("#"))
    said = next((line for line in lines if line.startswith("unrack ")), f"unrack run examples/{name}.toml")
    return without_folder(said)


def without_folder(text: str) -> str:
    """A text that names files of the examples, as it is where these are in the working folder."""
    return re.sub(r"\bexamples/(?:\w+/(?=\w+\.))?", "", text)
