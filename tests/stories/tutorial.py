"""Tutorials as their readers follow them: files are written, commands are typed, one after the other.

``python tests/stories/tutorial.py`` writes what the commands printed into the pages, in place of what stands there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
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
    printed: str


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
        done.append(Typed(name, text, ran.returncode, ran.stdout + ran.stderr, time.monotonic() - began, ran.stdout))
    return done


def environment_of(scripts: Path, **more: str) -> dict[str, str]:
    """An environment in which the scripts of a folder come first, and a terminal is 100 columns wide."""
    return {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100", **more}


def anew(shown: str, printed: str) -> str:
    """An output as a page shows it, from what was printed now.

    Nothing where the page shows nothing; with a line ``…`` as many lines before and after it as there are now.
    """
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    if "…" in shown.splitlines():
        kept = shown.splitlines()
        before, after = kept.index("…"), len(kept) - kept.index("…") - 1
        lines = [*lines[:before], "…", *lines[len(lines) - after :]]
    return "".join(f"{line}\n" for line in lines) if shown else ""


def written_again(page: Path, typed: list[Typed]) -> str:
    """The text of a page with what its commands printed."""
    text, place = page.read_text(), 0
    for one in typed:
        place = text.index(f"$ {one.command}\n{one.shown}", place)
        new = f"$ {one.command}\n{anew(one.shown, one.printed)}"
        text = text[:place] + new + text[place + len(f"$ {one.command}\n{one.shown}") :]
        place += len(new)
    return text


def main() -> None:
    """Follow the tutorials named, or all, and write their pages again."""
    environment = environment_of(Path(sys.executable).parent, PYTHONPATH=str(ROOT / "src"))
    for name in sys.argv[1:] or TUTORIALS:
        with tempfile.TemporaryDirectory() as folder:
            typed = follow(TUTORIALS[name], Path(folder), environment)
        failed = [one for one in typed if one.code]
        if failed:
            sys.exit(f"{TUTORIALS[name]}: $ {failed[0].command}\n{failed[0].said}")
        TUTORIALS[name].write_text(written_again(TUTORIALS[name], typed))


if __name__ == "__main__":
    main()
