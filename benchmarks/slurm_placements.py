"""How many jobs a second the live scheduler places and releases on a real Slurm, beside Slurm's own starts in one run.

Run as root where Slurm and munge are installed: ``python benchmarks/slurm_placements.py [JOBS]``, default 1 000. All of
the Slurm is on this host, so that starting jobs takes the same cores as scheduling them; hence three figures:

* orders alone: Slurm's scheduler sleeps, so that it takes every place and every release, and starts nothing;
* unrack: the jobs start as they are released;
* Slurm alone: the same jobs, held, released by one ``scontrol``, and placed and started by Slurm itself.

A job has started when its script has: Slurm says that it runs before.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

sys.path += [str(Path(__file__).parents[1] / "tests/live" / name) for name in ("bed", "acceptance")]
from driven_bed import Driven
from slurm_bed import Bed

NODES = 16
ASLEEP = "defer,sched_interval=3600,bf_interval=3600,batch_sched_delay=3600,sched_min_interval=2000000000"


class Took(NamedTuple):
    """Seconds from the moment when it began: until the last job was released, and until the last script ran."""

    ordered_s: float
    ran_s: float


def bed_of(folder: Path, jobs: int, **more: Any) -> Bed:
    """A Slurm on which all of so many jobs have room at once."""
    folder.mkdir(parents=True)
    cores = -(-jobs // NODES)
    return Bed(folder, nodes=NODES, cores=cores, memory_mb=64_000, scheduler="backfill", remember_s=3000, **more)


def submitted(bed: Bed, count: int) -> list[int]:
    """Jobs of one core that wait, held."""
    script = f": > {bed.folder}/ran.$SLURM_JOB_ID\nexec sleep 600"
    asked: dict[str, Any] = {"script": script, "hold": True, "partition": "main", "time": "30", "mem": 10}
    return bed.submit_many([asked] * count)


def last_start(bed: Bed, jobs: int) -> float:
    """When the last of the scripts began, s since 1970."""
    until = time.monotonic() + 300
    while len(found := list(bed.folder.glob("ran.*"))) < jobs:
        time.sleep(0.5)
        if time.monotonic() > until:
            raise SystemExit(f"{len(found)} of {jobs} jobs run after 300 s; see {bed.folder}/log")
    return max(path.stat().st_mtime for path in found)


def by_unrack(folder: Path, count: int, starts: bool) -> Took:
    """From the decision on, by the driver's journal and, of the starts, by Slurm's queue."""
    asleep = {} if starts else {"parameters": ASLEEP}
    with bed_of(folder / "bed", count, **asleep) as bed:
        jobs = submitted(bed, count)
        one = Driven(bed, folder, "easy", start_timeout="900 s")
        one.start(wait_s=60)
        ran = last_start(bed, count) if starts else 0.0
        one.wait_until(lambda: len(released(one)) >= len(jobs), 300)
        assert one.stop() == 0
        times = released(one)
        decided_us = min(decided for decided, _ in times.values())
        begun_s = next(record for record in one.records() if record["k"] == "begin")["origin_s"] + decided_us / 1e6
        ordered_s = max(at for _, at in times.values()) / 1e6 - decided_us / 1e6
        return Took(ordered_s, ran - begun_s if starts else 0.0)


def released(one: Driven) -> dict[str, tuple[int, int]]:
    """Job → when it was decided and when it was released, µs, of all that were."""
    found = {}
    for record in one.records():
        for key, entry in (record.get("entries") or {}).items():
            if entry and entry.get("released_us", -1) >= 0:
                found[key] = entry["decided_us"], entry["released_us"]
    return found


def by_slurm(folder: Path, count: int) -> Took:
    """From the first release on."""
    with bed_of(folder / "bed", count) as bed:
        jobs = submitted(bed, count)
        began = time.time()
        bed.call("scontrol", given="".join(f"release {job}\n" for job in jobs).encode())
        ordered_s = time.time() - began
        return Took(ordered_s, last_start(bed, count) - began)


def main() -> None:
    """Print all."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    folder = Path(tempfile.mkdtemp(prefix="unrack-placements-"))
    folder.chmod(0o755)
    try:
        alone = by_unrack(folder / "orders", count, starts=False)
        print(f"orders alone: {count} jobs decided, placed and released in {alone.ordered_s:.1f} s, "
              f"{count / alone.ordered_s:.0f}/s")  # fmt: skip
        ours = by_unrack(folder / "unrack", count, starts=True)
        print(f"unrack: placed and released in {ours.ordered_s:.1f} s, {count / ours.ordered_s:.0f}/s; "
              f"all run after {ours.ran_s:.1f} s, {count / ours.ran_s:.0f}/s")  # fmt: skip
        slurm = by_slurm(folder / "slurm", count)
        print(f"Slurm alone: released in {slurm.ordered_s:.1f} s; all run after {slurm.ran_s:.1f} s, "
              f"{count / slurm.ran_s:.0f}/s; unrack takes {ours.ran_s / slurm.ran_s:.2f} times as long")  # fmt: skip
    finally:
        rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
