"""Faults on a real Slurm, one after the other, until there were enough; then the auditor looks.

``UNRACK_FAULTS`` says how many: 200 by default, or 100 and 300 jobs on a wide site, which takes five to ten minutes;
``UNRACK_SEED`` which, 1 by default; ``UNRACK_POLICY`` under which policy, EASY by default.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driven_bed import POOL, Driven, audit
from slurm_bed import Bed

from unrack.live.driver.turns.coming import FORGOTTEN
from unrack.slurm_text.hostlists import expand

pytestmark = [pytest.mark.live, pytest.mark.slow]
FABRIC = """kind = "drill"
inner = { kind = "files", folder = "FABRIC" }
seed = 1
refuse = 0.05
half = 0.08
slow = 0.1
slow_s = 0.5
often = 1"""


OTHER = "other"
HOSTS = {"main": "", "left": "n[1-3]", "right": "n[3-6]"}
WISHES: list[dict[str, Any]] = [
    {"partition": "left", "nodes": 1}, {"partition": "right,left"},
    {"partition": "left,right", "exclude": "n2,n5", "nodes": 2}, {"partition": "main", "nodelist": "n4", "nodes": 2},
    {"partition": "right", "nodelist": "n3", "nodes": 1}, {"partition": "main", "exclude": "n[1-2]"},
]  # fmt: skip
RESERVED = "n6"
WIDE = {"main": "n[1-12]", "left": "n[1-6]", "right": "n[3-14]", OTHER: "n[15-16]"}
"""A site of 16 nodes, whose last partition is not the driver's."""
USERS = ("nobody", "daemon", "games")


def allowed(asked: dict[str, Any], ran_on: set[str], hosts: dict[str, str]) -> bool:
    """Whether a job may run there, by what its user said."""
    members = [set(expand(hosts[name] or "n[1-6]")) for name in asked["partition"].split(",")]
    return (
        any(ran_on <= inside for inside in members) and RESERVED not in ran_on
        and set(asked.get("nodelist", "").split(",")) <= {*ran_on, ""}
        and not ran_on & set(expand(asked.get("exclude", "none")))
    )  # fmt: skip


class Faults:
    """A deadly driver on a Slurm, and what befalls them."""

    def __init__(self, bed: Bed, folder: Path, seed: int) -> None:
        own = [name for name in bed.layout.partitions if name != OTHER]
        policy = os.environ.get("UNRACK_POLICY", "easy")
        self.driven = Driven(bed, folder, policy, cluster=POOL, fabric=FABRIC, partitions=own)
        self.is_wide, self.closed, self.others = OTHER in bed.layout.partitions, "", list[int]()
        self.wishes: list[dict[str, Any]] = []
        self.bed, self.seed, self.count = bed, seed, 0
        self.random = np.random.default_rng(seed)
        self.jobs: list[int] = []
        self.cancelled: set[int] = set()
        self.down: str | None = None
        self.chance = 0.02 if self.is_wide else 0.05

    def alive(self) -> bool:
        """True if the driver runs; one that was killed is counted, its journal perhaps torn, and begun again."""
        process = self.driven.process
        if process is not None and process.poll() is None:
            return True
        if process is not None:
            assert process.returncode == -signal.SIGKILL, (self.driven.folder / "driver.log").read_text()[-3000:]
            self.count += 1
            if self.random.random() < 0.3:
                self.tear()
        self.seed += 1
        with open(self.driven.folder / "driver.log", "ab") as log:
            self.driven.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).parent / "deadly.py"), str(self.driven.site), str(self.seed),
                 str(self.chance)],
                env=self.bed.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        return False

    def tear(self) -> None:
        """Half a line, as of a write that a power cut stopped."""
        files = sorted(path for path in (self.driven.state / "journal").iterdir() if path.suffix == ".jsonl")
        if files:
            with open(files[-1], "rb+") as file:
                last = file.readlines()[-1]
                file.seek(0, os.SEEK_END)
                file.write(last[: int(self.random.integers(1, len(last)))].rstrip(b"\n"))
            self.count += 1

    def waiting(self) -> int:
        """How many of its jobs wait or run."""
        left = set(self.bed.call("squeue", "-h", "-a", "-o", "%A").stdout.decode().split())
        return len(left & set(map(str, self.own())))

    def own(self, jobs: list[int] | None = None) -> list[int]:
        """Its jobs, or some, without numbers that a killed controller has given to jobs of both kinds."""
        return [job for job in (self.jobs if jobs is None else jobs) if job not in self.others]

    def submit(self) -> None:
        """A few more jobs; each writes down when it ran."""
        asked: list[dict[str, Any]] = []
        for _ in range(9 if self.is_wide else 3):
            drive = self.random.random() < 0.5
            script = f"date +%s.%N >> {self.driven.folder}/ran.$SLURM_JOB_ID\nsleep {self.random.integers(1, 3)}"
            asked.append({
                "script": script, "nodes": 1 if drive else int(self.random.integers(1, 4)), "mem": 100,
                "cpus_per_task": int(self.random.integers(1, 5)), "hold": True, "partition": "main", "time": "1",
                **({"comment": "unrack: nvme.capacity=300GB"} if drive else {}),
            })  # fmt: skip
            if len(self.bed.layout.partitions) > 1:
                asked[-1] |= WISHES[int(self.random.integers(len(WISHES)))]
            if self.is_wide:
                asked[-1]["user"] = USERS[len(asked) % len(USERS)]
        self.wishes += asked
        if self.is_wide and self.random.random() < 0.3:  # nobody else's: Slurm starts it, or somebody keeps it held
            held = bool(len(self.others) % 2)
            self.others.append(self.bed.submit("sleep 2", partition=OTHER, mem=100, time="1", hold=held))
        self.jobs += self.bed.submit_many(asked)

    def tidied(self) -> list[int]:
        """All jobs, when those are cancelled that a killed controller has forgotten to have ended, as operators do."""
        for name in self.bed.names:  # a node that still runs what a killed controller forgot is drained by Slurm
            if "DRAIN" in self.bed.node(name)["State"]:
                self.bed.call("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        told = json.loads(self.driven.command("slurm", "status", "--state", str(self.driven.state), "--json"))
        for job in (int(one["key"]) for one in told["jobs"] if str(one.get("why", "")).startswith(FORGOTTEN)):
            self.cancelled.add(job)
            self.bed.call("scancel", str(job), check=False)
        return self.jobs

    def befall(self) -> None:
        """Something happens that is not the driver's death."""
        what = int(self.random.integers(11 if self.is_wide else 8))
        if what == 0:
            self.bed.restart_controller()
        elif what == 1:
            self.bed.kill_controller()
            self.bed.start_controller()
        elif what == 2:
            self.bed.pause_controller()
            time.sleep(3)
            self.bed.resume_controller()
        elif what == 3 and self.down is None:
            self.down = f"n{self.random.integers(1, 5)}"
            self.bed.node_down(self.down)
        elif what in (4, 5) and self.down is not None:
            self.bed.node_up(self.down)
            self.down = None
        elif what == 6 and self.jobs:
            job = self.jobs[-1]
            self.cancelled.add(job)
            self.bed.call("scancel", str(job), check=False)
        elif what == 7 and self.jobs:
            job = self.jobs[int(self.random.integers(len(self.jobs)))]
            self.bed.call("scontrol", "requeue", "Incomplete", str(job), check=False)
        elif what == 8 and self.jobs:
            job = self.jobs[int(self.random.integers(len(self.jobs)))]
            self.bed.call("scontrol", "hold", str(job), check=False)
        elif what in (9, 10):  # a partition is closed, or opened again with another limit
            name = self.closed or ("left", "right")[int(self.random.integers(2))]
            state = ("State=UP", f"MaxTime={self.random.integers(2, 9)}") if self.closed else ("State=DOWN",)
            self.bed.call("scontrol", "update", f"PartitionName={name}", *state, check=False)
            self.closed = "" if self.closed else name
        else:
            return
        self.count += 1


@pytest.mark.parametrize("partitions", [{"main": ""}, HOSTS, WIDE], ids=["plain", "overlapping", "wide"])
def test_no_fault_starts_a_job_twice_loses_one_or_leaks_a_device(
    new_bed: Callable[..., Bed], tmp_path: Path, partitions: dict[str, str]
) -> None:
    nodes, most = (16, 40) if partitions == WIDE else (6, 12)
    bed = new_bed(nodes=nodes, scheduler="backfill", remember_s=7200, partitions=partitions)
    if len(partitions) > 1:
        bed.scontrol("create", "reservation", "ReservationName=kept", "StartTime=now", "Duration=1000",
                     f"Nodes={RESERVED}", "Users=root,nobody", "Flags=IGNORE_JOBS")  # fmt: skip
        time.sleep(6)  # written down
    (folder := bed.folder / "driven").mkdir()
    folder.chmod(0o777)  # jobs of all users write down there when they ran
    faults = Faults(bed, folder, int(os.environ.get("UNRACK_SEED", "1")))
    wanted, began = int(os.environ.get("UNRACK_FAULTS", "100" if partitions == WIDE else "200")), time.monotonic()
    least = 300 if partitions == WIDE else 0
    while (faults.count < wanted or len(faults.jobs) < least) and time.monotonic() - began < 3000:
        faults.alive()
        if faults.waiting() < most:
            faults.submit()
        if faults.random.random() < 0.3:
            faults.befall()
        time.sleep(0.4)
    if faults.down is not None:
        bed.node_up(faults.down)
    if faults.closed:
        bed.scontrol("update", f"PartitionName={faults.closed}", "State=UP")
    faults.chance = 0.0
    if faults.driven.process is not None and faults.driven.process.poll() is None:
        faults.driven.stop(signal.SIGKILL)
    faults.alive()
    try:
        bed.wait_until(lambda: faults.driven.all_over(faults.own(faults.tidied())), 180, "all jobs are over")
        time.sleep(3)
    finally:
        (tmp_path / "faults").write_text(f"{faults.count} faults, {len(faults.jobs)} jobs; {bed.kills}\n")
        (tmp_path / "left").write_bytes(bed.call("scontrol", "show", "-o", "jobs", check=False).stdout)
        shutil.copytree(bed.folder / "log", tmp_path / "log")
        shutil.copytree(folder, tmp_path / "driven")
    assert faults.driven.stop() == 0
    again = frozenset(faults.others)
    audit(faults.driven, faults.own(), frozenset(faults.cancelled), bed.kills)
    known = {int(one["JobId"]): one for one in bed.jobs()}  # a killed controller forgets
    for job, asked in zip(faults.jobs, faults.wishes, strict=True) if len(partitions) > 1 else ():
        if faults.jobs.count(job) == 1 and job in known and job not in faults.cancelled | again:
            ran_on = set(expand(known[job]["NodeList"]))
            assert allowed(asked, ran_on, partitions), (job, asked, ran_on)
    for place, job in enumerate(faults.others):
        if job in known and faults.others.count(job) == 1 and job not in faults.jobs:
            one = known[job]
            assert (one["Partition"], one["Restarts"], one["ReqNodeList"]) == (OTHER, "0", "(null)"), one
            assert one["JobState"] in (("PENDING",) if place % 2 else ("COMPLETED", "TIMEOUT")), one
