"""The machine that this runs on, as its own tools tell it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from unrack.errors import InputError
from unrack.resources.gpus.machines.machine import Machine, numbers_of
from unrack.resources.gpus.machines.reading.read import machine_in

PATIENCE_S = 60
"""How long a tool may take; the first call of nvidia-smi loads the driver."""
NODES = Path("/sys/devices/system/node")


def machine_here() -> Machine:
    """The machine that this runs on, of ``nvidia-smi``, and of ``numactl`` where it is installed.

    Raises
    ------
    InputError
        There is no ``nvidia-smi``, or it fails.
    """
    if shutil.which("nvidia-smi") is None:
        raise InputError("this machine", "no nvidia-smi", "it installed, or --topology FILE")
    gpus = _printed("nvidia-smi", "-L") + _printed("nvidia-smi", "topo", "-m")
    cpus = _printed("numactl", "--hardware") if shutil.which("numactl") else None
    return machine_in(gpus, "nvidia-smi", os.uname().nodename, cpus, "numactl --hardware")


def nodes_of(cores: tuple[int, ...]) -> tuple[int, ...]:
    """The NUMA nodes of this machine that have some of these CPUs, and memory."""
    try:
        with_memory = numbers_of((NODES / "has_memory").read_text(encoding="ascii"))
        lists = {node: (NODES / f"node{node}" / "cpulist").read_text(encoding="ascii") for node in with_memory}
    except (OSError, ValueError):
        return ()
    return tuple(node for node, text in sorted(lists.items()) if set(numbers_of(text)) & set(cores))


def can_bind_memory(nodes: tuple[int, ...]) -> bool:
    """True if ``numactl`` is installed and may bind memory to these nodes here, which containers often forbid."""
    if not nodes or shutil.which("numactl") is None:
        return False
    tried = subprocess.run(
        ["numactl", f"--membind={','.join(map(str, nodes))}", "true"], capture_output=True, timeout=PATIENCE_S
    )
    return tried.returncode == 0


def _printed(*command: str) -> str:
    words = " ".join(command)
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=PATIENCE_S, env={**os.environ, "LC_ALL": "C"}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(words, str(error), "what it prints") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise InputError(words, f"exit code {done.returncode}: {said[0] if said else 'no words'}", "what it prints")
    return done.stdout.decode(errors="replace")
