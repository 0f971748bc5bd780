"""What the live scheduler costs while jobs wait and nothing happens, and how soon a job starts on an idle Slurm.

Run as root where Slurm and munge are installed: ``python benchmarks/slurm_idle.py [JOBS]``, default 1 000 that wait
behind one that holds every node. ``polled``: Slurm is looked at five times a second all the time; ``quiet``: as by
default, which looks less often after a minute without a change.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from shutil import rmtree

import numpy as np
from slurm_placements import NODES, bed_of

from driven_bed import Driven  # isort: skip

IDLE_S, TRIALS = 60.0, 40
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(process: int) -> tuple[float, float]:
    """CPU time of a process, and of those that it started and that have ended, s."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own, children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
    return own / TICKS, children / TICKS


def waiting(folder: Path, count: int, slowest: str, settle_s: float) -> tuple[float, float]:
    """Shares of a core that the driver and its commands take while so many jobs wait."""
    with bed_of(folder / "bed", NODES) as bed:
        hold = {"hold": True, "partition": "main", "time": "600"}
        bed.submit("sleep 600", nodes=NODES, mem=10, **hold)
        bed.submit_many([{"script": "sleep 1", "nodes": 1 + k % NODES, "mem": 10, **hold} for k in range(count)])
        one = Driven(bed, folder, "easy", slowest=slowest)
        one.start(wait_s=60)
        assert one.process is not None
        time.sleep(settle_s)
        own, children = cpu_s(one.process.pid)
        time.sleep(IDLE_S)
        own, children = (after - before for after, before in zip(cpu_s(one.process.pid), (own, children), strict=True))
        assert one.stop() == 0
        return own / IDLE_S, children / IDLE_S


def latencies(folder: Path) -> list[float]:
    """Seconds from the moment when sbatch has returned until the script runs, on an idle system."""
    with bed_of(folder / "bed", NODES) as bed:
        one = Driven(bed, folder, "easy")
        one.start(wait_s=60)
        took = []
        for pause_s in np.random.default_rng(1).uniform(0.8, 2.2, TRIALS):  # Slurm itself looks once a second
            time.sleep(pause_s)
            script = f": > {bed.folder}/ran.$SLURM_JOB_ID"
            job = bed.submit(script, hold=True, partition="main", time="1", mem=10)
            began, ran = time.time(), bed.folder / f"ran.{job}"
            one.wait_until(ran.exists, 20)
            took.append(ran.stat().st_mtime - began)
        assert one.stop() == 0
        return took


def main() -> None:
    """Print all."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    folder = Path(tempfile.mkdtemp(prefix="unrack-idle-"))
    folder.chmod(0o755)
    try:
        took = latencies(folder / "latency")
        print(f"from submission to start, idle, poll 0.2 s: median {np.median(took):.2f} s of {len(took)}, "
              f"{min(took):.2f} to {max(took):.2f} s")  # fmt: skip
        for name, slowest, settle_s in (("polled", "0.2 s", 15.0), ("quiet", "2 s", 90.0)):
            own, children = waiting(folder / name, count, slowest, settle_s)
            print(f"{count} waiting, nothing happening, {name}: {own:.1%} of a core, its commands {children:.1%}")
    finally:
        rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
