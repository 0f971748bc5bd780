"""Loop devices: which file is behind which, setting them up and taking them down, by ``losetup``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

from unrack.errors import InputError
from unrack.live.fabric.contract import FabricError

TIMEOUT_S = 10.0
GONE_S, PAUSE_S = 2.0, 0.02
"""How long a device may take to go once it is taken down, and how often that is looked at."""
_MAJOR = 7
_NAME = re.compile(r"/dev/loop([0-9]{1,6})", re.ASCII)


def losetup() -> str:
    """The path of ``losetup``, where loop devices can be set up.

    Raises
    ------
    InputError
        They cannot: the command, the right or the devices are missing.
    """
    command = shutil.which("losetup", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    want = "loop devices: losetup, root, and /dev/loop-control"
    if command is None:
        raise InputError("fabric", "no losetup on this machine", want)
    if os.geteuid() != 0 or not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        raise InputError("fabric", "no right to set up loop devices", want)
    return command


def device_of(command: str, file: Path) -> str | None:
    """The loop device that stands for a file; ``None``: there is none."""
    if not file.exists():
        return None
    text = _run([command, "--json", "--list", "--output", "NAME", "--associated", str(file)])
    try:
        found = [one["name"] for one in json.loads(text)["loopdevices"]] if text.strip() else []
    except (ValueError, KeyError, TypeError):
        raise FabricError(f"losetup said {text!r:.200}, which is no list of loop devices") from None
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in found) or len(found) > 1:
        raise FabricError(f"losetup knows {found!r:.200} for {file}, wanted one loop device or none")
    return found[0] if found else None


def set_up(command: str, file: Path) -> str:
    """A loop device for a file, the one that it has or a new one."""
    _make_node(_run([command, "--find"]).strip())
    name = _run([command, "--find", "--show", "--nooverlap", str(file)]).strip()
    if not _NAME.fullmatch(name):
        raise FabricError(f"losetup said {name!r:.200}, which is no loop device")
    return name


def take_down(command: str, file: Path) -> None:
    """Take down the loop device of a file, if it has one, and wait until it is gone.

    Raises
    ------
    FabricError
        Something still uses it; it goes when that ends.
    """
    name = device_of(command, file)
    if name is None:
        return
    _run([command, "--detach", name])
    until = time.monotonic() + GONE_S
    while device_of(command, file) is not None:
        if time.monotonic() > until:
            raise FabricError(f"{name} is still in use")
        time.sleep(PAUSE_S)


def _make_node(name: str) -> None:
    """The file in /dev of a device that the kernel has: nothing else makes it in a plain folder, as of containers."""
    match = _NAME.fullmatch(name)
    if match and not Path(name).exists() and Path(f"/sys/block/loop{match[1]}").exists():
        os.mknod(name, 0o060660, os.makedev(_MAJOR, int(match[1])))


def _run(words: list[str]) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, stdin=subprocess.DEVNULL,
            env={"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FabricError(f"losetup did not answer in {TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise FabricError(f"losetup {words[1]}: {done.stderr.strip()[:300] or f'exit code {done.returncode}'}")
    return done.stdout
