"""Tutorials as their readers follow them: files are written, commands are typed, one after the other."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
TUTORIALS = {path.stem: path for path in sorted((ROOT / "docs" / "tutorials").glob("*.md")) if path.stem != "index"}
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class Typed(NamedTuple):
    """A command of a tutorial, and what came of it."""

    command: str
    shown: str
    code: int
    said: str
    took_s: float


def steps(page: Path) -> list[tuple[str, str, str]]:
    """``("file", name, text)`` and ``("command", command, output that the page shows)``, in order."""
    found: list[tuple[str, str, str]] = []
    for language, title, text in BLOCK.findall(page.read_text()):
        if title:
            found.append(("file", title, text))
        elif language == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                found.append(("command", command, shown))
    return found


def follow(page: Path, folder: Path, environment: dict[str, str], most: int | None = None) -> list[Typed]:
    """Do what a tutorial says in a folder, all of it or so many commands; those that fail do not end it."""
    done: list[Typed] = []
    for kind, name, text in steps(page):
        if kind == "file":
            (folder / name).write_text(text)
            continue
        if len(done) == most:
            break
        began = time.monotonic()
        ran = subprocess.run(
            name, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        done.append(Typed(name, text, ran.returncode, ran.stdout + ran.stderr, time.monotonic() - began))
    return done


def environment_of(scripts: Path, **more: str) -> dict[str, str]:
    """An environment in which the scripts of a folder come first, and a terminal is 100 columns wide."""
    return {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", **more}


def words_of(shown: str) -> list[str]:
    """Words of an output on a page that must be in the real one: no numbers, no frames, nothing left out."""
    lines = [line for line in shown.splitlines() if not re.search(r"[…│┏┡┃━─]", line)]
    return [word for word in re.findall(r"[A-Za-z][\w.-]+", " ".join(lines)) if not re.search(r"\d", word)]
