"""Every fabric of the table as the tests make it, and processes that are killed while they use one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unrack.errors import InputError
from unrack.live.fabric.contract import Attachment, Fabric
from unrack.live.fabric.loop.losetup import losetup
from unrack.live.fabric.table import FABRICS, make_fabric

SIZE_MB = 8
TABLES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "none": lambda folder: {},
    "files": lambda folder: {"folder": str(folder)},
    "loop": lambda folder: {"folder": str(folder), "size": f"{SIZE_MB} MB"},
    "drill": lambda folder: {"inner": {"kind": "files", "folder": str(folder)}, "seed": 1},
}
"""Of each kind, the keys of its table. A kind that is new in the table needs a line here."""
LASTING = [name for name, kind in FABRICS.items() if kind.lasts]
STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "subprocess.Popen"}


def fabric(kind: str, folder: Path) -> Fabric:
    if kind == "loop":
        try:
            losetup()
        except InputError as error:
            pytest.skip(str(error))
    return make_fabric({"kind": kind, **TABLES[kind](folder)})


def loops(folder: Path) -> dict[str, str]:
    """The loop devices of files in a folder, and those files."""
    if shutil.which("losetup") is None:
        return {}
    command = ["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: file for name, file in (line.split(maxsplit=1) for line in lines) if file.startswith(f"{folder}/")}


def is_clean(folder: Path) -> bool:
    """True if nothing of any attachment is left."""
    left = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return left <= {"fabric.json", "attached", "wake", "connected"} and not loops(folder)


def killed(task: Callable[[], None], at: int) -> bool:
    """Do it in a process that is killed before its ``at``-th step on the file system; False: it ended before that."""
    pid = os.fork()
    if pid == 0:
        left = at

        def before(event: str, _: object) -> None:
            nonlocal left
            if event in STEPS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            sys.addaudithook(before)
            task()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def attachment(
    operation: str = "op-1", job: str = "7", node: str = "n1", devices: str = "d1", mb: int = 0
) -> Attachment:
    return Attachment(operation, job, node, tuple(devices.split()), {"capacity_mb": mb} if mb else {})
