"""A driver at work on a real Slurm, as an operator starts it, and an auditor who knows of it what it wrote."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from slurm_bed import Bed, Kill

from unrack.live.driver.state.replay import replay
from unrack.live.journal.reading import read_journal
from unrack.slurm_text.hostlists import expand

POOL = """
[[cluster.pools]]
kind = "nvme"
count = 6
quantities = { capacity_mb = "600 GB", bandwidth_mb_s = "2 GB/s" }
"""
SITE = """
partitions = {partitions}
policy = "{policy}"
take = "held"
state = "{state}"
poll = "0.2 s"
poll_slowest = "{slowest}"
start_timeout = "{start_timeout}"
{more}

[cluster]
{cluster}

[fabric]
{fabric}

[journal]
keep = 10000

[metrics]
address = ""
"""


class Driven:
    """A Slurm and the folder of a driver, which is started, killed and started again."""

    def __init__(
        self, bed: Bed, folder: Path, policy: str, cluster: str = "", more: str = "", fabric: str = "",
        start_timeout: str = "15 s", slowest: str = "0.5 s", partitions: Sequence[str] = ("main",),
    ) -> None:  # fmt: skip
        self.bed, self.folder, self.state = bed, folder, folder / "state"
        self.fabric_folder = folder / "fabric"
        self.site = folder / "site.toml"
        fabric = fabric or 'kind = "none"'
        text = SITE.format(
            policy=policy, state=self.state, start_timeout=start_timeout, slowest=slowest, more=more, cluster=cluster,
            fabric=fabric, partitions=json.dumps(list(partitions)),
        )  # fmt: skip
        self.site.write_text(text.replace("FABRIC", str(self.fabric_folder)))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, environment: dict[str, str] | None = None, wait_s: float = 30, check: bool = True) -> None:
        """Start the driver, and wait until it has begun."""
        before = self.epochs()
        with open(self.folder / "driver.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "unrack", "slurm", "run", "--config", str(self.site)],
                env={**self.bed.env, **(environment or {})}, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        until = time.monotonic() + wait_s
        while self.epochs() == before and self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        if check and self.process.poll() is not None:
            raise RuntimeError((self.folder / "driver.log").read_text()[-2000:])

    def blind_to_reservations(self) -> dict[str, str]:
        """An environment in which the driver is told of no reservation: Slurm then refuses for a reason of its own."""
        (folder := self.folder / "bin").mkdir()
        words = 'case "$*" in *"show reservations"*) exit 0;; esac'
        (folder / "scontrol").write_text(f'#!/bin/sh\n{words}\nexec {shutil.which("scontrol")} "$@"\n')
        (folder / "scontrol").chmod(0o755)
        return {"PATH": f"{folder}:{self.bed.env['PATH']}"}

    def epochs(self) -> int:
        """How many epochs have begun."""
        try:
            return sum(record["k"] == "begin" for record in self.records())
        except Exception:
            return 0

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, or kill it; its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(30)

    def records(self) -> list[dict[str, Any]]:
        """What its journal says."""
        return [dict(record.value) for record in read_journal(self.state / "journal")]

    def command(self, *words: str) -> str:
        """What a command of unrack prints."""
        done = subprocess.run(
            [sys.executable, "-m", "unrack", *words], env=self.bed.env, capture_output=True, timeout=120, check=True
        )
        return done.stdout.decode()

    def all_over(self, jobs: list[int]) -> bool:
        """True if none of these jobs waits or runs."""
        left = set(self.bed.call("squeue", "-h", "-a", "-o", "%A").stdout.decode().split())
        return not left & set(map(str, jobs))

    def run_all(self, asked: list[dict[str, Any]], timeout_s: float = 240) -> list[int]:
        """Submit jobs, held, and wait until all are over."""
        jobs = self.bed.submit_many([{"hold": True, "partition": "main", "time": "1", **one} for one in asked])
        self.bed.wait_until(lambda: self.all_over(jobs), timeout_s, "all jobs are over")
        return jobs

    def wait_until(self, holds: Callable[[], bool], timeout_s: float = 30) -> None:
        """Wait until something holds."""
        self.bed.wait_until(holds, timeout_s)


def audit(driven: Driven, jobs: list[int], cancelled: frozenset[int] = frozenset(), kills: Sequence[Kill] = ()) -> None:
    """No job lost or started twice, every start where the journal says, nothing attached for nobody.

    Looks at what Slurm, the fabric and the journal say, and at nothing of the driver's own state. ``kills``: those of
    the controller.
    """
    records = driven.records()
    planned: dict[str, list[list[str]]] = {}
    restarted: dict[str, int] = {}  # the most that was seen: a controller that is killed forgets this, too
    for record in records:
        for key, entry in (record.get("entries") or {}).items():
            if entry:
                restarted[key] = max(restarted.get(key, 0), entry.get("restarts", 0))
            if entry and entry.get("lease") and entry.get("ours"):
                planned.setdefault(key, []).append(sorted({row[0] for row in entry["lease"]["rows"]}))
    known = {int(one["JobId"]): one for one in driven.bed.jobs()}
    gone = {str(over["key"]) for record in records for over in record.get("over", ()) if over.get("state") == "GONE"}
    for job in jobs:
        if job in cancelled:
            continue
        if job not in known:  # a controller that was killed had not written it down: Slurm itself lost it
            assert str(job) in gone or str(job) not in planned, f"job {job} is lost"
            continue
        one = known[job]
        # a controller that is killed forgets that jobs have ended, and lets them run to their limit once more
        assert one["JobState"] in ("COMPLETED", "TIMEOUT"), f"job {job} is lost: {one}"
        ran_on = sorted(expand(one["NodeList"]))
        assert ran_on in planned.get(str(job), []), f"job {job} ran on {ran_on}, planned {planned.get(str(job))}"
    for job in jobs:
        restarts = max(int(known[job]["Restarts"]) if job in known else 0, restarted.get(str(job), 0))
        log = driven.folder / f"ran.{job}"
        ran = sorted(map(float, log.read_text().split())) if log.exists() else []
        unseen = forgotten_by_all(records, str(job), ran, kills)
        numbered = jobs.count(job)  # a controller that is killed gives numbers again
        assert len(ran) <= numbered + restarts + unseen, f"job {job} ran {len(ran)} times, at {ran}"
    if driven.fabric_folder.exists():
        left = [path for path in driven.fabric_folder.rglob("*.json") if json.loads(path.read_text()).get("operation")]
        assert left == [], "attached for nobody"
    again = replay(records)
    assert again.differences == [], f"replayed otherwise: {again.differences[:2]}"


LAUNCHES_S = 1.0
"""So long before it writes down that it runs a job may have been started."""

BEGINS_S = 2.0
"""So long before a driver that begins writes that down it may have looked, without having told Slurm anything yet."""

HOLDS_S = 3.0
"""So long a driver on a busy machine needs to see what a controller that was killed has forgotten, and to hold it."""


def forgotten_by_all(records: Sequence[dict[str, Any]], job: str, ran: Sequence[float], kills: Sequence[Kill]) -> int:
    """How many runs of a job a killed controller forgot before any driver that lived could write down that they ended.

    A job of which neither Slurm nor the journal knows that it has run is started once more by whoever schedules it.
    So is one of which the journal knows that it ran, where what the controller had written down is older than the run.
    One of which the journal knows that it has ended Slurm itself starts, if there is no driver that would hold it: one
    that begins after the kill comes too late, or just in time.
    """
    origin_s = next(record for record in records if record["k"] == "begin")["origin_s"]
    told, ended, released, began = list[float](), list[float](), list[float](), list[float]()
    for record in records:
        if record["k"] == "begin" and record.get("why") == "the driver started":
            began.append(origin_s + record["now"] / 1e6)
        entry = (record.get("entries") or {}).get(job)
        at_s = origin_s + record["now"] / 1e6
        if any(over["key"] == job for over in record.get("over", ())) or (entry and entry.get("why") == "ended"):
            ended.append(at_s)
        elif entry and entry.get("started_us", -1) >= 0:
            told.append(at_s)
        elif entry and entry.get("phase") == "released":
            released.append(at_s)
    spans = list(itertools.pairwise(ran))
    return sum(
        any(
            first - LAUNCHES_S < kill.at_s < then and (kill.written_s <= first or not _within(first, then, told))
            for kill in kills
        )
        and (not _within(first, then, ended) or _alone(max(first, ended[0]), then, released, began, kills))
        for first, then in spans
    )


def _alone(ended: float, then: float, released: Sequence[float], began: Sequence[float], kills: Sequence[Kill]) -> bool:
    """True if a killed Slurm started a job that had ended before a driver, old or new, could hold it."""
    since = [kill.at_s for kill in kills if kill.at_s < then]
    late = bool(since) and (then - since[-1] < HOLDS_S or any(since[-1] < at < then + BEGINS_S for at in began))
    return late and not _within(ended, then, released)


def _within(first: float, then: float, times: Sequence[float]) -> bool:
    return any(first < at < then for at in times)
