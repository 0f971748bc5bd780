"""Files to begin with: templates, and the examples that are shipped: studies, each with the files that it needs."""

from __future__ import annotations

import keyword
import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import unrack
from unrack.errors import InputError, RunError

QUESTION = "question"


class StarterKind(StrEnum):
    """What a policy of one's own decides itself; the rest is as in a built-in one."""

    ORDER = "order"
    PLACEMENT = "placement"
    DISCIPLINE = "discipline"


def policy_files(name: str, kind: StarterKind) -> dict[str, str]:
    """A template of a policy and its test: name of the file → text; an InputError if the name is no name of Python."""
    stem = name.removesuffix(".py")
    if not stem.isidentifier() or keyword.iskeyword(stem):
        plain = re.sub(r"\W+", "_", stem).strip("_")
        hint = f", such as {plain}" if plain.isidentifier() and not keyword.iskeyword(plain) else ""
        raise InputError("unrack init policy", repr(name), f"a name of Python{hint}")
    return {f"{stem}.py": _template(f"{kind}.py.txt", stem), f"test_{stem}.py": _template("test_policy.py.txt", stem)}


def study_file(name: str) -> dict[str, str]:
    """A template of a study: name of the file → text."""
    stem = _stem(name)
    return {f"{stem}.toml": _template("study.toml.txt", stem)}


def example_files(example: str, name: str | None) -> tuple[dict[str, str], str]:
    """The files of an example, its study perhaps by another name, and the command that runs it."""
    known = examples()
    if example not in known:
        raise InputError("--example", repr(example), f"one of {', '.join(known)}; unrack init --list tells more")
    found = known[example]
    texts = {path.name: without_folder(path.read_text()) for path in found.files}
    if name is None or len({path.suffix for path in found.files}) == 1 < len(found.files):
        return texts, found.command
    study, first = f"{_stem(name)}.toml", found.files[0].name
    return {study if key == first else key: text for key, text in texts.items()}, found.command.replace(first, study)


def write_files(texts: Mapping[str, str], folder: Path, force: bool) -> list[Path]:
    """Write files into a folder, which is made if it is not there.

    An InputError, and nothing was written, if one of them is there already, and ``force`` is not said; a RunError if
    something cannot be written.
    """
    paths = [folder / name for name in texts]
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        raise InputError("unrack init", f"{', '.join(there)}: there already", "another name, or --force to overwrite")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in zip(paths, texts.values(), strict=True):
            path.write_text(text)
    except OSError as error:
        raise RunError(f"{error.filename or folder}: {error.strerror or error}") from error
    return paths


def _stem(name: str) -> str:
    """The name of a study without its ending; an InputError if it is no name of a file."""
    stem = name.removesuffix(".toml")
    if not re.fullmatch(r"[\w][\w .-]*", stem):
        raise InputError("unrack init study", repr(name), "letters, digits, -, _ and dots (another folder: --out DIR)")
    return stem


def _template(file: str, name: str) -> str:
    return files("unrack.study.starters").joinpath("templates", file).read_text().replace("@NAME@", name)


# --- examples ---------------------------------------------------------------------------------------------------------


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
