"""A machine as ``/proc`` and ``/sys`` show it; the root of both can be another folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

V1_NAMES = {"io": "blkio"}
"""Controllers of version 2 that have another name in version 1."""


@dataclass(frozen=True)
class CgroupHome:
    """Where groups of a controller are made."""

    folder: Path
    version: int  # 1 or 2


@dataclass(frozen=True)
class Machine:
    """What there is to measure on.

    Parameters
    ----------
    root
        Where ``proc``, ``sys`` and ``dev`` are: ``/``, or a folder that looks like it.
    superuser
        True: this process may do what root may; ``None``: look.
    """

    root: Path = Path("/")
    superuser: bool | None = None

    @property
    def is_root(self) -> bool:
        """True if this process is root's."""
        return os.geteuid() == 0 if self.superuser is None else self.superuser

    def at(self, path: str) -> Path:
        """A path below the root."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """The content of a file; empty if it cannot be read."""
        try:
            return self.at(path).read_text(errors="replace")
        except OSError:
            return ""

    @staticmethod
    def lacks(*tools: str) -> str:
        """Which of some programs are missing, in words; empty: none."""
        missing = [tool for tool in tools if shutil.which(tool) is None]
        return f"no {' and no '.join(missing)} installed" if missing else ""

    def cgroup(self, controller: str) -> CgroupHome | None:
        """Where groups of a controller (named as in version 2) are made; ``None``: it is in no hierarchy here."""
        old, second = V1_NAMES.get(controller, controller), None
        for line in self.text("/proc/mounts").splitlines():
            fields = line.split(" ")
            if len(fields) < 4:
                continue
            folder = self.at(fields[1])
            if fields[2] == "cgroup" and old in fields[3].split(","):
                return CgroupHome(folder, 1)
            if fields[2] == "cgroup2" and controller in self.text(f"{fields[1]}/cgroup.controllers").split():
                second = second or CgroupHome(folder, 2)
        return second

    def nodes(self) -> tuple[int, ...]:
        """Ids of NUMA nodes with memory, in order."""
        found = []
        for folder in self.at("/sys/devices/system/node").glob("node[0-9]*"):
            name, total = folder.name.removeprefix("node"), ""
            for line in self.text(f"/sys/devices/system/node/{folder.name}/meminfo").splitlines():
                if "MemTotal:" in line:
                    total = line.split()[-2]
            if name.isdigit() and total.isdigit() and int(total) > 0:
                found.append(int(name))
        return tuple(sorted(found))

    @property
    def load(self) -> float:
        """Load average of the last minute; 0 where it is not known."""
        first = self.text("/proc/loadavg").partition(" ")[0]
        try:
            return float(first)
        except ValueError:
            return 0.0


def usable_cores() -> list[int]:
    """CPUs on which this process may run, in order."""
    return sorted(os.sched_getaffinity(0))


def called(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """What a short program printed; an OSError with what it said if it failed.

    ``env``: variables beside those of this process. It keeps a journal's lock until it becomes the program.
    """
    try:
        variables = {**os.environ, **(env or {})}
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=60, check=False, env=variables, close_fds=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"{argv[0]}: no answer in a minute") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise OSError(f"{' '.join(argv[:4])}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout.strip()
