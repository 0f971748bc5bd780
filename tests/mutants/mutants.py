"""Wrong lines of the engine, and whether the tests catch them: ``python tests/mutants/mutants.py [NAME …]``.

Each mutant of ``mutants.toml`` is one line that places, reserves, commits, releases, accounts or restarts, made wrong.
The package is copied with it, and its tests are run. Of the kernels that other tests have compiled, those that the line
is no part of are taken over. A mutant that lives is a hole in the tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

from unrack.kernels.cache import OwnFolder

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "unrack"
KERNELS = ROOT / ".pytest_cache" / "kernels"
"""What tests compile (conftest.py)."""


class Mutant(NamedTuple):
    """A line made wrong."""

    name: str
    file: str  # below src/unrack
    was: str  # stands there once
    is_now: str
    tests: tuple[str, ...]  # below tests/, what catches it first; the first that fails ends the search

    def text(self) -> str:
        """The file with it; a ValueError if what was is not there exactly once."""
        text = (SOURCE / self.file).read_text()
        if text.count(self.was) != 1:
            raise ValueError(f"{self.name}: {self.file} has {self.was!r} {text.count(self.was)} times, not once")
        return text.replace(self.was, self.is_now)


def mutants() -> list[Mutant]:
    """All of ``mutants.toml``."""
    found = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutants"]
    return [Mutant(one["name"], one["file"], one["was"], one["is"], tuple(one["tests"])) for one in found]


def caught_by(mutant: Mutant, timeout_s: float = 900) -> str:
    """The test that fails with a mutant, which is to stand first in its list; ``""``: it lives."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(SOURCE, source / "unrack", ignore=shutil.ignore_patterns("__pycache__"))
        (source / "unrack" / mutant.file).write_text(mutant.text())
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(source), str(ROOT / "papers" / "src")]),
            "NUMBA_CACHE_DIR": str(take_kernels(source / "unrack", Path(folder) / "kernels")),
        }
        for tests in mutant.tests:
            words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
            try:
                ran = subprocess.run(
                    [*words, str(ROOT / "tests" / tests)],
                    cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout_s, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"{tests} (does not end)"
            if ran.returncode < 0:
                return f"{tests} (crashes)"
            if ran.returncode == 1:
                return str(re.findall(r"^(?:FAILED|ERROR) tests/(.*?)(?: - .*)?$", ran.stdout, re.MULTILINE)[0])
            if ran.returncode != 0:
                raise RuntimeError(f"{mutant.name}: {tests} could not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ""


def take_kernels(source: Path, to: Path) -> Path:
    """Copy compiled kernels for a copy of the package; numba calls their folders by the paths of the code's."""
    for folder in (SOURCE, *filter(Path.is_dir, SOURCE.rglob("*"))):
        of, becomes = (_kept_in(path) for path in (folder, source / folder.relative_to(SOURCE)))
        if (KERNELS / of).is_dir():
            shutil.copytree(KERNELS / of, to / becomes)
    return to


def _kept_in(folder: Path) -> str:
    return str(OwnFolder.get_suitable_cache_subpath(str(folder / "any.py")))


def main() -> int:
    """Print what catches each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="some of them; default: all")
    names = parser.parse_args().names
    living = 0
    for mutant in mutants():
        if names and mutant.name not in names:
            continue
        began = time.monotonic()
        by = caught_by(mutant)
        living += not by
        print(f"{mutant.name}: {by or 'LIVES'} ({time.monotonic() - began:.0f} s)", flush=True)
    return min(living, 1)


if __name__ == "__main__":
    sys.exit(main())
