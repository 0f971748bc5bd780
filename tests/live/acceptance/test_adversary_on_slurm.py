"""Users and operators of a real Slurm do whatever they may for some minutes: nothing sticks, or runs twice or astray.

What they do is drawn: nobody chose it. ``UNRACK_MINUTES`` says for how long, 3 by default; ``UNRACK_SEED`` what, 0 by
default; ``UNRACK_POLICY`` under which policy alone.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driven_bed import POOL, Driven
from slurm_bed import Bed

from unrack.live.driver.state.replay import replay
from unrack.slurm_text.hostlists import expand

pytestmark = [pytest.mark.live, pytest.mark.slow]
HOSTS = {"main": "n[1-14]", "left": "n[1-6]", "right": "n[5-14]", "other": "n[15-16]"}
"""The last is not the driver's."""
FEATURES = tuple(["fast"] * 4 + ["fast,ib"] * 4 + [""] * 8)
USERS = ("nobody", "daemon", "games")
MOST = 70
"""So many jobs wait or run at a time at most."""
PARAMETERS = "sched_interval=1,bf_interval=1,batch_sched_delay=1,enable_user_top,preempt_youngest_first"
TRUE = (
    "held by its user", "waits for other jobs", "its reservation is gone", "there is no reservation", "component ",
    "rejected: too-big", "a task asks for", "it asks for", "its begin time has not come", "comment",
    "Slurm refuses to start it: ",
)  # fmt: skip
"""How the reasons begin for which a job may be left, when all is quiet."""


class Adversaries:
    """Users and an operator, and all that they may do."""

    def __init__(self, driven: Driven, seed: int) -> None:
        self.driven, self.bed, self.draw = driven, driven.bed, random.Random(seed)
        self.jobs: dict[str, str] = {}  # job or array → its user
        self.let_go = set[str]()  # those that users have let go themselves, or never held: Slurm starts them anywhere
        self.reserved, self.out, self.done, self.refused = list[str](), set[str](), Counter[str](), Counter[str]()

    def live(self) -> list[tuple[str, str, str]]:
        """Number or member, state and reason of each job that waits or runs."""
        text = self.bed.call("squeue", "-h", "-a", "-r", "-o", "%i %T %r").stdout.decode()
        return [(one[0], one[1], " ".join(one[2:])) for line in text.splitlines() if len(one := line.split()) > 1]

    def owner(self, job: str) -> str:
        return self.jobs.get(job.split("_")[0].split("+")[0], "root")

    def words(self) -> list[str]:
        """What a job asks, which may be impossible."""
        draw = self.draw
        start_s = draw.choice([2, 5, 20])
        more = [
            ["--partition=left"], ["--partition=right"], ["--partition=left,right"], ["--partition=right,main"],
            ["--partition=other"], ["--partition=main,other"], ["--exclusive"], ["--mem=0"], ["--mem=31000"],
            ["--constraint=fast"], ["--constraint=fast&ib"], ["--constraint=[fast*1&ib*1]", "--nodes=2"],
            ["--constraint=ib|fast"], ["--nodelist=n3"], ["--nodelist=n[2-3]"], ["--exclude=n[1-5]"],
            [f"--begin=now+{start_s}"], ["--licenses=matlab:2"], ["--gres=nvme:3"], ["--nodes=2-4"], ["--nodes=5"],
            ["--nodes=3", "--ntasks=9"], ["--ntasks=20"], ["--ntasks-per-node=3", "--nodes=2"], ["--cpus-per-task=5"],
            ["--nice=50"], ["--contiguous", "--nodes=3"], ["--comment=unrack: nvme.capacity=300GB"],
            ["--comment=unrack: nvme.capacity=-1"], ["--dependency=singleton", "--job-name=one"], ["--core-spec=1"],
            ["--mem-per-cpu=3000"], ["--spread-job", "--nodes=2"], ["--time=1-0"], ["--deadline=now+1hour"],
        ]  # fmt: skip
        if self.reserved:
            more += [[f"--reservation={draw.choice(self.reserved)}"]] * 3
            more += [[f"--reservation={','.join(draw.sample(self.reserved, len(self.reserved)))}"]] * 3
        if recent := list(self.jobs)[-6:]:
            kind = draw.choice(["afterok", "afterany", "afternotok", "after", "aftercorr"])
            more += [[f"--dependency={kind}:{draw.choice(recent)}"]] * 3
        return [word for one in draw.sample(more, draw.choice([0, 1, 1, 1, 2])) for word in one]

    def submit(self) -> None:
        """A job, an array, or a heterogeneous job; each run writes down which it was, and on which nodes."""
        draw, user = self.draw, self.draw.choice(USERS)
        ends = draw.choice(["", "", "exit 1", "kill -9 $$"])
        script = (
            f'#!/bin/sh\necho "${{SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}} ${{SLURM_ARRAY_TASK_ID:--}} '
            f'${{SLURM_RESTART_COUNT:-0}} $SLURM_JOB_NODELIST" >> {self.driven.folder}/ran.$SLURM_JOB_ID\n'
            f"sleep {draw.choice([0, 1, 2, 5, 9])}\n{ends}\n"
        )
        common = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--requeue"]
        held = draw.random() < 0.95
        one = ["--time=1", "--mem=100", "--partition=main", *self.words()]
        what = draw.random()
        if what < 0.1:
            one = [*one, ":", "--time=1", "--mem=100", "--partition=main", f"--nodes={draw.randint(1, 2)}"]
        elif what < 0.3:
            one = [f"--array=0-{draw.randint(1, 6)}{draw.choice(['', '%1', '%2'])}", *one]
        done = self.bed.call(*common, *["--hold"] * held, *one, given=script.encode(), user=user, check=False)
        if done.returncode:
            self.refused["submit"] += 1
            return
        number = done.stdout.decode().split(";")[0].strip()
        self.jobs[number] = user
        if not held:
            self.let_go.add(number)

    def scontrol(self, what: str, *words: str, user: str | None = None) -> None:
        self.done[what] += 1
        self.refused[what] += bool(self.bed.call("scontrol", *words, user=user, check=False).returncode)

    def of_user(self) -> None:
        """A user does something with a job."""
        draw, live = self.draw, self.live()
        if not live:
            return
        job, state, _ = draw.choice(live)
        user = self.owner(job)
        target = draw.choice([job, job, job.split("_")[0]])
        what = draw.choice(["cancel", "hold", "release", "top", "requeue", "update", "update", "update", "update"])
        if len(live) > MOST:
            what = "cancel"
        if what == "cancel":
            self.done[what] += 1
            self.bed.call("scancel", target, user=None if user == "root" else user, check=False)
        elif what in ("release", "top") and state == "PENDING":
            if draw.random() < 0.3:
                self.let_go.add(job.split("_")[0].split("+")[0])
                self.scontrol(what, what, target, user=user)
        elif what in ("hold", "requeue"):
            self.scontrol(what, draw.choice([what, "requeuehold"]) if what == "requeue" else what, target, user=user)
        elif what == "update":
            others = list(self.jobs)[-8:]
            change = draw.choice([
                "TimeLimit=1", "TimeLimit=2", "NumNodes=1", "NumNodes=2", "NumNodes=2-3", "NumCPUs=4", "Partition=left",
                "Partition=right", "Partition=left,right", "Partition=main", "Partition=other", "ReqNodeList=n4",
                "ReqNodeList=", "ExcNodeList=n[1-3]", "ExcNodeList=", "Features=fast", "Features=", "Nice=10",
                "MinMemoryNode=2000", "MinCPUsNode=3", "StartTime=now", "StartTime=now+8", "Dependency=",
                f"Dependency=afterany:{draw.choice(others)}", f"Dependency=afterok:{draw.choice(others)}",
                "Licenses=matlab:1", "Gres=nvme:2", "Comment=unrack: priority=3", "ArrayTaskThrottle=1",
                "ArrayTaskThrottle=3", "OverSubscribe=NO", "Contiguous=1", "ReservationName=",
                f"ReservationName={draw.choice(self.reserved or ['none'])}", "Name=other", "Priority=0",
            ])  # fmt: skip
            if change.startswith("Nice="):  # Slurm 22.05 lets a held job go then
                self.let_go.add(target.split("_")[0].split("+")[0])
            self.scontrol(change.split("=")[0], "update", f"JobId={target}", change, user=user)

    def of_operator(self) -> None:
        """An operator does something."""
        draw, name = self.draw, f"n{self.draw.randint(1, 16)}"
        what = draw.choice([
            "drain", "down", "resume", "resume", "reserve", "reserve", "unreserve", "reconfigure", "restart",
            "kill driver", "suspend", "suspend", "go on", "go on", "longer", "requeue", "close", "open", "open",
        ])  # fmt: skip
        running = [job for job, state, _ in self.live() if state in ("RUNNING", "SUSPENDED")]
        if what in ("drain", "down") and len(self.out) < 4:
            self.out.add(name)
            self.scontrol(what, "update", f"NodeName={name}", f"State={what.upper()}", "Reason=test")
        elif what == "resume" and self.out:
            self.resume(self.out.pop())
        elif what == "reserve" and len(self.reserved) < 3:
            flags = draw.choice(["", "Flags=IGNORE_JOBS", "Flags=IGNORE_JOBS,FLEX"])
            nodes = draw.choice([f"Nodes={name}", "NodeCnt=2", "Nodes=n[2-3]", "NodeCnt=1"])
            start, minutes = draw.choice(["now", "now+20", "now+70"]), draw.choice([1, 2, 5])
            label = f"r{self.done['reserve']}"
            words = [
                f"ReservationName={label}", f"StartTime={start}", f"Duration={minutes}", nodes,
                f"Users={','.join(USERS[:2])}", "PartitionName=main", *[flags] * bool(flags),
            ]  # fmt: skip
            done = self.bed.call("scontrol", "create", "reservation", *words, check=False)
            self.done[what] += 1
            if done.returncode:
                self.refused[what] += 1
            else:
                self.reserved.append(label)
        elif what == "unreserve" and self.reserved:
            label = draw.choice(self.reserved)
            self.scontrol(what, "delete", f"ReservationName={label}")
            names = self.bed.scontrol("show", "reservations", "-o", check=False)
            self.reserved = [name for name in self.reserved if f"ReservationName={name} " in names]
        elif what == "reconfigure":
            self.scontrol(what, "reconfigure")
        elif what == "restart" and draw.random() < 0.5:
            self.done[what] += 1
            self.bed.restart_controller()
        elif what == "kill driver":
            self.done[what] += 1
            self.driven.stop(signal.SIGKILL)
            time.sleep(draw.choice([0, 0, 3]))
            self.driven.start()
        elif what in ("suspend", "go on", "longer", "requeue") and running:
            job = draw.choice(running)
            self.scontrol(what, *{
                "suspend": ("suspend", job), "go on": ("resume", job), "requeue": ("requeue", job),
                "longer": ("update", f"JobId={job}", "TimeLimit=3"),
            }[what])  # fmt: skip
        elif what in ("close", "open"):
            state = draw.choice(["DOWN", "DRAIN"]) if what == "close" else "UP"
            self.scontrol(what, "update", f"PartitionName={draw.choice(['left', 'right'])}", f"State={state}")

    def resume(self, name: str) -> None:
        self.scontrol("resume", "update", f"NodeName={name}", "State=RESUME")

    def quiet(self) -> None:
        """Undo what the operator has done, and wait until nothing runs and nothing more is started."""
        for name in self.bed.names:
            if any(word in self.bed.node(name)["State"] for word in ("DRAIN", "DOWN")):
                self.resume(name)
        for name in ("left", "right"):
            self.bed.scontrol("update", f"PartitionName={name}", "State=UP")
        for name in self.reserved:  # none is deleted as long as a job asks for it, though that be held
            ends = (["EndTime=now+2"], ["StartTime=now", "EndTime=now+2"])  # the second of one that has not begun
            for words in (["delete"], *(["update", *end] for end in ends)):
                words.insert(1, f"ReservationName={name}")
                if not self.bed.call("scontrol", *words, check=False).returncode:
                    break
        since, began, last = time.monotonic(), time.monotonic(), ""
        until = began + 420
        while time.monotonic() - since < 25 and time.monotonic() < until:
            for job, state, _ in self.live():
                if state == "SUSPENDED":
                    self.bed.call("scontrol", "resume", job, check=False)
                if state not in ("PENDING", "RESV_DEL_HOLD"):
                    since, last = time.monotonic(), f"{job} {state}"
            if "ReservationName=" in self.bed.scontrol("show", "reservations", "-o", check=False):
                since, last = time.monotonic(), "a reservation"
            time.sleep(1)
        self.done[f"quiet, s, and last {last}"] = round(time.monotonic() - began)


def is_left_of_ours(entry: dict[str, Any]) -> bool:
    """True if a job that others started is what is left of a heterogeneous job of ours: components were cancelled."""
    nodes = {row[0] for row in (entry.get("lease") or {"rows": [[""]]})["rows"]}
    return any(nodes < set(place) for place in entry.get("placed", ()))


def check(bad: Adversaries) -> list[str]:
    """What is wrong in the end, a sentence each."""
    driven, bed, found = bad.driven, bad.bed, list[str]()
    records = driven.records()
    planned: dict[str, set[tuple[str, ...]]] = {}
    for record in records:
        for key, entry in (record.get("entries") or {}).items():
            if entry and entry.get("lease"):
                parts = entry["lease"].get("parts") or [entry["lease"]]
                nodes = (tuple(sorted({row[0] for row in part["rows"]})) for part in parts)
                planned.setdefault(key, set()).update(nodes)
    elsewhere = {
        key for record in records for key, entry in (record.get("entries") or {}).items()
        if entry and entry.get("phase") == "foreign" and not is_left_of_ours(entry)
    }  # fmt: skip
    runs = Counter[tuple[str, str]]()
    for path in driven.folder.glob("ran.*"):
        for line in path.read_text().splitlines():
            array, member, restarts, nodes = line.split(" ", 3)
            key = array if member == "-" else f"{array}_{member}"
            runs[key, restarts] += 1
            free = array in bad.let_go or key in elsewhere
            if tuple(sorted(expand(nodes))) not in planned.get(key, set()) and not free:
                found.append(f"{key} ran on {nodes}, planned {planned.get(key)}")
            if key in elsewhere and array not in bad.let_go:
                found.append(f"{key}, which nobody let go, was started by Slurm, on {nodes}")
    found += [f"{key} ran {count} times as run {restarts}" for (key, restarts), count in runs.items() if count > 1]
    status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
    told = {one["key"]: one for one in status["jobs"]}
    inside = set(HOSTS) - {"other"}
    for number in {job.split("+")[0] for job, _, _ in bad.live()}:
        one = bed.job(number)
        entry = told.get(number) or {}
        told_of = f"{entry.get('phase')}: {entry.get('why')}"
        ours = set(one["Partition"].split(",")) <= inside and one["Priority"] == "0"
        bad.done[f"left: {told_of[:60]}" if ours else "left: not ours"] += 1
        true = entry.get("phase") == "aside" and str(entry.get("why")).startswith(TRUE)
        if ours and not true:
            found.append(f"{number} is left, {told_of}; {one}")
    if driven.fabric_folder.exists():
        paths = driven.fabric_folder.rglob("*.json")
        found += [f"{path} is attached for nobody" for path in paths if json.loads(path.read_text()).get("operation")]
    again = replay(records)
    return found + [f"replayed otherwise: {one}" for one in again.differences[:2]]


@pytest.mark.parametrize("policy", ["easy", "conservative", "slurm(interval=2 s)"])
def test_whatever_users_and_operators_do_nothing_is_stuck_or_runs_twice_or_astray(
    new_bed: Callable[..., Bed], tmp_path: Path, policy: str
) -> None:
    if os.environ.get("UNRACK_POLICY", policy) != policy:
        pytest.skip("another policy is asked for")
    bed = new_bed(nodes=16, scheduler="backfill", parameters=PARAMETERS, remember_s=7200, partitions=HOSTS,
                  features=FEATURES, licences={"matlab": 4})  # fmt: skip
    (folder := bed.folder / "driven").mkdir()
    folder.chmod(0o777)  # jobs of all users write down there when they ran
    fabric = 'kind = "files"\nfolder = "FABRIC"'
    driven = Driven(bed, folder, policy, cluster=POOL, fabric=fabric, partitions=list(HOSTS)[:-1])
    driven.start()
    bad = Adversaries(driven, int(os.environ.get("UNRACK_SEED", "0")))
    until = time.monotonic() + 60 * float(os.environ.get("UNRACK_MINUTES", "3"))
    try:
        while time.monotonic() < until:
            for _ in range(bad.draw.randint(0, 3)):
                bad.submit()
            for _ in range(bad.draw.randint(0, 3)):
                bad.of_user()
            if bad.draw.random() < 0.25:
                bad.of_operator()
            assert driven.process is not None
            assert driven.process.poll() is None, (folder / "driver.log").read_text()[-3000:]
            time.sleep(0.4)
        bad.quiet()
        found = check(bad)
    finally:
        (tmp_path / "left").write_bytes(bed.call("scontrol", "show", "-o", "jobs", check=False).stdout)
        (tmp_path / "done").write_text(f"{len(bad.jobs)} submitted\n{bad.done}\nrefused {bad.refused}\n")
        shutil.copytree(bed.folder / "log", tmp_path / "log")
        shutil.copytree(folder, tmp_path / "driven")
    assert driven.stop() == 0
    assert not found, "\n".join(found)
