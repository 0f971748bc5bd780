"""The pages on extensions as files, and distributions made of them without a network."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from unrack.cli.main import main
from unrack.plugins.table import installed

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```(?:python|toml|text)\n# (\S+)\n(.*?)```", re.DOTALL)


def files_of(page: str, folder: Path) -> None:
    """Write every block of a page that begins with the name of a file."""
    for name, content in BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        (folder / name).write_text(content if name.endswith(".log") else f"# {name}\n{content}", encoding="utf-8")


def commands_of(page: str) -> list[list[str]]:
    """The commands of a page, without ``unrack``."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line)[2:] for block in blocks for line in block.splitlines() if line.startswith("$ unrack ")]


class Done(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def unrack(folder: Path, *arguments: str, site: Path | None = None) -> Done:
    """The command in a folder, with the distributions of another, in this process."""
    out, err, modules, argv = io.StringIO(), io.StringIO(), set(sys.modules), sys.argv
    path = sys.path[:]
    sys.path[:0] = [str(site)] if site else []
    sys.argv = ["unrack", *arguments]
    installed.cache_clear()
    importlib.invalidate_caches()
    code: object = 0
    try:
        with contextlib.chdir(folder), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code
    finally:
        sys.path[:], sys.argv = path, argv
        installed.cache_clear()
        for name in set(sys.modules) - modules:
            if not name.startswith(("unrack", "numba")) and site and (site / f"{name}.py").exists():
                del sys.modules[name]
    return Done(int(code or 0) if isinstance(code, int | None) else 1, out.getvalue(), err.getvalue())


def unrack_anew(folder: Path, *arguments: str, site: Path) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own."""
    path = os.pathsep.join(map(str, [ROOT / "src", site]))
    command = [sys.executable, "-m", "unrack", *arguments]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)


def install(pyproject: Path, site: Path) -> None:
    """What pip would write of a distribution: its modules and their entry points, on a path of its own."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in own.items()) for group, own in groups]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    for module in pyproject.parent.glob("*.py"):
        (site / module.name).write_text(module.read_text(encoding="utf-8"), encoding="utf-8")
