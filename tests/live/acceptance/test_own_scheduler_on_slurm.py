"""Slurm's own scheduler on 16 nodes, against the simulation of its history under the site that is taken over.

Slurm looks every three seconds and only by its backfill, and jobs run for a little less than a multiple of that. So it
is known at which look each job starts, whatever the machine has to do beside it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accounting import accounted_bed
from slurm_bed import Bed

import unrack
from unrack.cluster.formats.described import converted, together
from unrack.cluster.formats.reading import described
from unrack.cluster.spec import Cluster
from unrack.sim.simulate import simulate
from unrack.study.history.cause import Cause
from unrack.study.history.check import WAIT, check_history

pytestmark = pytest.mark.live
USERS = {"games": "phys", "daemon": "phys", "man": "chem"}
SLOT_S, WAVES_S, JOBS = 3, (24, 66), 300
COLUMNS = (
    "JobID,User,Account,Partition,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,State,AllocCPUS,NNodes,ReqMem,QOS,"
    "Constraints"
)
PARAMETERS = f"sched_interval=-1,defer,bf_interval={SLOT_S},bf_resolution=1,bf_max_time=30"
EXTRA = (
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


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """What a Slurm says of itself, and of 300 jobs that it has run."""
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
        bed.stop()
        yield bed.folder


def _run(bed: Bed) -> None:
    """Two waves of jobs, which may begin at a time; usage is counted once a minute since the controller started."""
    bed.restart_controller()
    bed.wait_until(lambda: bed._node_states() <= {"idle"}, 30, "all nodes are idle")
    origin_s = float(int(time.time()) + 1)
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


def test_slurm_starts_jobs_as_the_simulation_says_or_for_listed_causes(folder: Path) -> None:
    names = ("slurm.conf", "assoc.txt", "qos.txt")
    read = [described(folder / name, (folder / name).read_text(), name) for name in names]
    made = converted(together([one for one in read if one is not None]))
    policy = next(note for note in made.notes if "as a policy" in note).partition(": ")[2].rstrip(".")
    assert "main=interval" in policy
    cluster, workload = Cluster.from_dict(made.content), unrack.read_trace(str(folder / "jobs.txt"))
    found = check_history(cluster, workload, policy, 2 * SLOT_S * 1_000_000)
    told = f"{found.waits}\n{found.causes}"
    assert found.jobs == found.waits.jobs == JOBS, found.not_started
    assert Cause.TOO_MUCH not in found.causes, told
    unknown = found.causes.get(Cause.UNKNOWN, (0, 0.0))[0]
    assert sum(jobs for jobs, _ in found.causes.values()) == found.looked_at
    assert unknown <= 0.05 * JOBS, told
    assert found.waits.agree >= 0.4, told
    assert abs(found.waits.real_mean_s - found.waits.simulated_mean_s) < 0.15 * found.waits.real_mean_s, told
    plain = policy.replace(", reserve=nodes, place=tightest-run", "")
    assert check_history(cluster, workload, plain, 2 * SLOT_S * 1_000_000).waits.agree < found.waits.agree
    # as long as nothing has gone another way, all goes the same way
    jobs = simulate(cluster, workload, policy).jobs
    real = workload.jobs.submit_us / 1e6 + workload.jobs.extra[WAIT].to_numpy()
    first = np.flatnonzero(real < real.min() + SLOT_S)
    assert len(first) > 15
    same = np.abs(jobs["start_s"].to_numpy()[first] - real[first]) < SLOT_S
    assert same.mean() >= 0.8, told
