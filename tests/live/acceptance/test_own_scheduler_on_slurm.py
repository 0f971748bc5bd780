"""Slurm's own scheduler on 16 nodes, against the simulation of its history under the site that is taken over.

Slurm looks every three seconds and only by its backfill, and jobs run for a little less than a multiple of that. So it
is known at which look each job starts, whatever the machine has to do beside it, and its log says in which order it
looked at the jobs. Each look is decided again by ours, from the state that there really was. Where the whole simulation
starts a job at another look, something must have been another than in reality before that look: which is told.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accounting import accounted_bed
from looks import PERIOD_S, Look, Story, step, story_of
from slurm_bed import Bed

import unrack
from unrack.cluster.formats.described import converted, together
from unrack.cluster.formats.reading import described
from unrack.cluster.spec import Cluster
from unrack.policy.priority.multifactor import fair_tree
from unrack.policy.priority.tree import associations
from unrack.sim.simulate import simulate
from unrack.study.history.cause import Cause
from unrack.study.history.check import check_history
from unrack.workload.job import Workload

pytestmark = pytest.mark.live
USERS = {"games": "phys", "daemon": "phys", "man": "chem"}
SLOT_S, WAVES_S, JOBS = 3, (24, 66), 300
COLUMNS = (
    "JobID,User,Account,Partition,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,State,AllocCPUS,NNodes,ReqMem,QOS,"
    "Constraints"
)
PARAMETERS = f"sched_interval=-1,defer,bf_interval={SLOT_S},bf_resolution=1,bf_max_time=30"
EXTRA = (
    "DebugFlags=Backfill", "SlurmctldDebug=debug2", "LogTimeFormat=iso8601_ms",
    "PriorityType=priority/multifactor", "PriorityWeightFairshare=100000", "PriorityWeightQOS=20000",
    "PriorityWeightAge=1000", "PriorityWeightPartition=5000", "PriorityMaxAge=0-1", "PriorityDecayHalfLife=0",
    "PriorityUsageResetPeriod=NONE", "PriorityCalcPeriod=1",
    "PartitionName=cpu Nodes=n[1-12] MaxTime=60 Default=YES State=UP",
    "PartitionName=gpu Nodes=n[9-16] MaxTime=30 PriorityJobFactor=4 MaxNodes=4 State=UP",
    "PartitionName=debug Nodes=n[1-2] MaxTime=2 PriorityTier=5 State=UP",
    "PartitionName=whole Nodes=n[13-16] MaxTime=10 PriorityTier=2 OverSubscribe=EXCLUSIVE State=UP",
)  # fmt: skip
FEATURES = tuple(
    ",".join(word for word, there in (("fast", node <= 6), ("ib", node % 2 == 0)) if there) for node in range(1, 17)
)


def wishes(seed: int) -> list[dict[str, Any]]:
    """What the users ask; of several nodes whole ones, as a simulated task may share its node with another."""
    draw, found = random.Random(seed), []
    for _ in range(JOBS):
        user, partition = draw.choice(list(USERS)), draw.choice(["cpu"] * 3 + ["gpu"] * 2 + ["debug", "whole"])
        nodes = 1 if partition == "debug" else draw.choice([1, 1, 1, 2, 3])
        asked: dict[str, Any] = {
            "script": f"sleep {SLOT_S * draw.choice([1, 1, 2, 3, 4]) - 1}", "user": user, "account": USERS[user],
            "partition": partition, "qos": draw.choice(["normal", "normal", "high"]), "nodes": nodes, "ntasks": nodes,
            "cpus_per_task": draw.choice([1, 2, 4, 8]) if nodes == 1 else 8, "mem": 100,
            "time": "1" if partition == "debug" else str(draw.choice([1, 1, 2, 5])),
        }  # fmt: skip
        if partition == "cpu" and draw.random() < 0.25:
            asked["constraint"] = draw.choice(["fast", "ib", "fast&ib"])
        found.append(asked)
    return found


@dataclass
class History:
    """What a Slurm says of itself, of 300 jobs that it has run, and of how it came to that."""

    folder: Path
    jobs: dict[int, dict[str, Any]]  # what each asked, in the words of a table of jobs
    cores: dict[int, int]  # what each was given

    @cached_property
    def story(self) -> Story:
        """The looks of its backfill."""
        return story_of(self.folder / "log" / "slurmctld.log", self.folder / "jobs.txt")

    @cached_property
    def taken_over(self) -> tuple[Cluster, str, Workload]:
        """Its site, the policy that is told to be most like it, and its jobs."""
        names = ("slurm.conf", "assoc.txt", "qos.txt")
        read = [described(self.folder / name, (self.folder / name).read_text(), name) for name in names]
        made = converted(together([one for one in read if one is not None]))
        policy = next(note for note in made.notes if "as a policy" in note).partition(": ")[2].rstrip(".")
        assert "main=interval" in policy
        return Cluster.from_dict(made.content), policy, unrack.read_trace(str(self.folder / "jobs.txt"))

    def decided(self, which: int, shift_s: int = 0) -> dict[int, set[str]]:
        """What ours starts in the state of a look, on which nodes."""
        cluster, policy, _ = self.taken_over
        now = policy.replace("multifactor", "priority").replace(f"interval={SLOT_S} s", "interval=1 s")
        return step(cluster, now, self.story, which, self.jobs, self.folder, shift_s)


@pytest.fixture(scope="module")
def history() -> Iterator[History]:
    """A Slurm that keeps accounts runs 300 jobs."""
    with accounted_bed("unrack-own-", EXTRA, nodes=16, partitions={}, features=FEATURES, parameters=PARAMETERS) as bed:
        for words in (
            ("add", "qos", "high", "priority=100", "MaxTRESPU=cpu=24"),
            ("modify", "qos", "normal", "set", "priority=10"),
            ("add", "account", "phys", "fairshare=3"), ("add", "account", "chem", "fairshare=1", "GrpTRES=cpu=64"),
            *(("add", "user", user, f"account={account}", f"fairshare={1 + (user == 'daemon')}", "qos=normal,high",
               "defaultqos=normal") for user, account in USERS.items()),
        ):  # fmt: skip
            bed.call("sacctmgr", "-i", *words)
        time.sleep(2)
        _run(bed)
        words = ["sacct", "--allusers", "--parsable2", "-X", "--starttime=2020-01-01", f"--format={COLUMNS}"]
        (bed.folder / "jobs.txt").write_bytes(bed.call(*words).stdout)
        for name in ("qos", "assoc"):
            done = bed.call("sacctmgr", "show", name, *(["tree"] if name == "assoc" else []), "-P")
            (bed.folder / f"{name}.txt").write_bytes(done.stdout)
        known = {int(one["JobId"]): one for one in bed.jobs()}
        bed.stop()
        yield History(bed.folder, {job: _asked(one) for job, one in known.items()},
                      {job: int(one["NumCPUs"]) for job, one in known.items()})  # fmt: skip


def _asked(said: dict[str, str]) -> dict[str, Any]:
    """What a job asked, as a row of a table."""
    hours, minutes, seconds = map(int, said["TimeLimit"].split(":"))
    limit = 3600 * hours + 60 * minutes + seconds
    return {
        "run": limit, "request": limit, "tasks": int(said["NumNodes"].split("-")[0]), "cores": int(said["CPUs/Task"]),
        "memory": 100, "partition": said["Partition"], "user": said["UserId"].split("(")[0], "qos": said["QOS"],
        "account": said["Account"], "constraint": said.get("Features", "").replace("(null)", ""),
    }  # fmt: skip


def _restarted_on_the_half_minute(bed: Bed) -> float:
    """Restart the controller; at which half minute its plugin of priorities, which counts from then on, began."""
    log = bed.folder / "log" / "slurmctld.log"
    for _ in range(4):
        bed.stop_controller()
        time.sleep((29.5 - time.time()) % 30)
        bed.start_controller()
        began = datetime.fromisoformat(re.findall(r"\[(\S+)\] \S+ +priority/multifactor: init", log.read_text())[-1])
        half = round(began.timestamp() / 30) * 30.0
        if -0.7 < began.timestamp() - half < 1.2:
            break
    return half


def _run(bed: Bed) -> None:
    """Two waves of jobs, which may begin at a time; usage is counted once a minute, at the minutes of the trace."""
    origin_s = _restarted_on_the_half_minute(bed) + PERIOD_S
    bed.wait_until(lambda: bed._node_states() <= {"idle"}, 30, "all nodes are idle")
    begins = [time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(origin_s + wave)) for wave in WAVES_S]
    asked = [{**one, "begin": begins[2 * place // JOBS]} for place, one in enumerate(wishes(2))]
    time.sleep(max(0.0, origin_s + 0.05 - time.time()))
    bed.submit(**asked[0])
    bed.submit_many(asked[1:], 3)
    for wave in WAVES_S:  # backfill looks again when something has changed, which a time is not
        time.sleep(max(0.0, origin_s + wave + 0.2 - time.time()))
        waiting = bed.call("squeue", "-h", "-t", "PD", "-o", "%A").stdout.decode().split()
        bed.scontrol("update", f"JobId={waiting[0]}", "Comment=x")
    bed.wait_until(lambda: not bed.call("squeue", "-h").stdout, 400, f"{JOBS} jobs are over")
    time.sleep(3)


def test_in_the_state_of_each_look_ours_starts_what_slurm_started_on_the_same_nodes(history: History) -> None:
    story = history.story
    assert sum(len(look.started) for look in story.looks) == JOBS
    wrong = {}
    for which, look in enumerate(story.looks):
        ours = history.decided(which)
        if ours != look.started and not _over_a_second(look, history, which):
            wrong[which] = {"Slurm": look.started, "ours": ours}
    assert wrong == {}


def _over_a_second(look: Look, history: History, which: int) -> bool:
    """Whether the second changed during a look, and ours starts the same in the next one."""
    return int(look.at_s) != int(look.until_s) and history.decided(which, 1) == look.started


def test_the_order_of_each_look_is_that_of_shares_in_what_was_used_when_priorities_were_computed(
    history: History,
) -> None:
    story, jobs, cores = history.story, history.jobs, history.cores
    tree = associations([
        {"name": "phys", "shares": 3, "users": [{"name": "games"}, {"name": "daemon", "shares": 2}]},
        {"name": "chem", "users": ["man"]}, {"name": "root", "users": ["root"]},
    ])  # fmt: skip
    rows = {name: tree.name.index(name) for name in (*USERS, "root")}
    looked = 0
    for look in story.looks:
        at_s = max((at for at in story.priced_s if at < look.at_s), default=0.0)
        used = np.zeros(len(tree.name))
        for job, start in story.began_s.items():
            ran = min(story.ended_s[job], at_s) - start
            used[rows[jobs[job]["user"]]] += cores[job] * max(0.0, ran)
        factor = fair_tree(tree, used) if used.any() else np.ones(len(tree.name))
        for job, priority in look.priority.items():
            one = jobs[job]
            told = 100_000 * factor[rows[one["user"]]] + (20_000 if one["qos"] == "high" else 2_000)
            told += 5_000 if one["partition"] == "gpu" else 1_250
            assert 0 <= priority - told < 100, (job, priority, told)  # the rest is age
            looked += 1
    assert looked > 10 * JOBS


class Fresh(StrEnum):
    """Why a start differs from that of the simulation; all but the first and last are of the clock."""

    KNOCK_ON = "other jobs ran, or waited, as starts before it were others"
    ENDED = "a job ended before another look, by a part of a second"
    SECOND = "seconds by which running jobs are looked at together, which are other multiples"
    PRICED = "priorities computed before another look, or of usage by whole seconds"
    UNKNOWN = "not known"


def causes_of(history: History) -> dict[int, Fresh]:
    """Each job that the simulation starts at another look, and why: by what was another when one of them started it."""
    cluster, policy, workload = history.taken_over
    story, placed = history.story, simulate(cluster, workload, policy).placements
    slots, times = story.slots(), placed["start_s"].to_numpy()
    first = times.min()
    told = {int(job): round((at - first) / SLOT_S) for job, at in zip(placed["job"].to_list(), times, strict=True)}
    real = {job: slots[which] for job, which in story.look_of().items()}
    assert told.keys() == real.keys()
    ends = {int(job): end for job, end in placed.select("job", "end_s").iter_rows()}
    where: dict[int, set[str]] = {}
    for job, node, nodes in placed.select("job", "first_node", "nodes").iter_rows():
        where.setdefault(int(job), set()).update(f"n{node + 1 + k}" for k in range(nodes))
    found = {}
    for job in (job for job in real if real[job] != told[job]):
        slot = min(real[job], told[job])
        before = {one for one in real if min(real[one], told[one]) < slot}
        which = slots.index(slot) if slot in slots else -1
        if any(real[one] != told[one] for one in before) or which < 0:
            found[job] = Fresh.KNOCK_ON
            continue
        running = {one: nodes for one, _, nodes in story.before(which)}
        if running != {one: where[one] for one in before if ends[one] > first + slot * SLOT_S}:
            found[job] = Fresh.ENDED
        elif history.decided(which) != story.looks[which].started:
            found[job] = Fresh.UNKNOWN
        else:  # by its order Slurm is right: by another second, ours would be so too, or the order was another
            shift = round(first + slot * SLOT_S - story.looks[which].at_s) % PERIOD_S
            same = history.decided(which, shift) == story.looks[which].started
            found[job] = Fresh.PRICED if same else Fresh.SECOND
    return found


def test_slurm_starts_jobs_as_the_simulation_says_or_for_listed_causes(history: History) -> None:
    cluster, policy, workload = history.taken_over
    found = check_history(cluster, workload, policy, 2 * SLOT_S * 1_000_000)
    causes = Counter(causes_of(history).values())
    told = f"{found.waits}\n{found.causes}\n{causes}"
    assert found.jobs == found.waits.jobs == JOBS, found.not_started
    assert Cause.TOO_MUCH not in found.causes, told
    unknown = found.causes.get(Cause.UNKNOWN, (0, 0.0))[0]
    assert sum(jobs for jobs, _ in found.causes.values()) == found.looked_at
    assert unknown <= 0.05 * JOBS, told
    assert causes[Fresh.UNKNOWN] == 0, told
    assert causes[Fresh.ENDED] + causes[Fresh.SECOND] + causes[Fresh.PRICED] < 0.1 * JOBS, told
    assert abs(found.waits.real_mean_s - found.waits.simulated_mean_s) < 0.15 * found.waits.real_mean_s, told
    plain = policy.replace(", reserve=slurm, place=tightest-run", "")
    assert check_history(cluster, workload, plain, 2 * SLOT_S * 1_000_000).waits.agree < found.waits.agree
