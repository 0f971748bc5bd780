"""Munge, by which the parts of Slurm know each other: one for the whole machine, started if it does not run."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path


def why_not() -> str:
    """Why no test cluster can be run here; ``""``: one can."""
    missing = [name for name in ("slurmctld", "slurmd", "scontrol", "sbatch", "munged", "setpriv") if not _found(name)]
    if missing:
        return f"{', '.join(missing)} not found: apt-get install slurm-wlm slurm-wlm-basic-plugins munge"
    if os.geteuid() != 0:
        return "a test cluster needs root: slurmd starts the jobs of others"
    return ""


def start_munge() -> None:
    """See to it that munge answers; what runs already is left as it is."""
    with open(Path(tempfile.gettempdir()) / "unrack-test-munge", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two tests at a time would start two
        if _answers():
            return
        folder = Path("/run/munge")
        folder.mkdir(exist_ok=True)
        shutil.chown(folder, "munge", "munge")
        # The daemon outlives this process, and must not inherit the lock (which is closed on exec) or our pipes.
        subprocess.run([_path("munged")], user="munge", group="munge", check=True, timeout=20, capture_output=True)
        deadline = time.monotonic() + 10
        while not _answers():
            if time.monotonic() > deadline:
                raise RuntimeError("munged was started and does not answer")
            time.sleep(0.05)


def _answers() -> bool:
    found = subprocess.run(["munge", "-n"], capture_output=True, timeout=20, check=False)
    return found.returncode == 0


def _path(name: str) -> str:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or name


def _found(name: str) -> bool:
    return Path(_path(name)).is_absolute()
