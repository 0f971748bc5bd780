"""A Slurm with accounts, limits and fair share that schedules by itself: what is taken over, against what it does."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from accounting import accounted_bed
from slurm_bed import Bed

import unrack
from unrack.cluster.formats.described import Converted, converted, together
from unrack.cluster.formats.reading import described
from unrack.cluster.spec import Cluster
from unrack.policy.priority.multifactor import fair_tree
from unrack.policy.priority.standing import Members
from unrack.resources.site.installed import Site
from unrack.study.history.check import check_history

pytestmark = pytest.mark.live
USERS = {"games": "phys", "daemon": "phys", "man": "chem"}
COLUMNS = (
    "JobID,User,Account,Partition,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,State,AllocCPUS,NNodes,ReqMem,QOS"
)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """All that a Slurm says of itself after 60 jobs of three users."""
    extra = (
        "PriorityType=priority/multifactor", "PriorityWeightFairshare=100000", "PriorityWeightQOS=20000",
        "PriorityDecayHalfLife=0", "PriorityUsageResetPeriod=NONE", "PriorityCalcPeriod=1",
        "PartitionName=cpu Nodes=n[1-12] MaxTime=60 Default=YES State=UP",
        "PartitionName=gpu Nodes=n[9-16] MaxTime=30 PriorityJobFactor=4 State=UP",
        "PartitionName=debug Nodes=n[1-2] MaxTime=2 PriorityTier=5 State=UP",
    )  # fmt: skip
    with accounted_bed("unrack-site-", extra, nodes=16, partitions={}) as bed:
        path = bed.folder
        _settle(bed)
        _run(bed)
        words = ["sacct", "--allusers", "--parsable2", "-X", "--starttime=2020-01-01", f"--format={COLUMNS}"]
        (path / "jobs.txt").write_bytes(bed.call(*words).stdout)
        for name in ("qos", "assoc"):
            done = bed.call("sacctmgr", "show", name, *(["tree"] if name == "assoc" else []), "-P")
            (path / f"{name}.txt").write_bytes(done.stdout)
        bed.call("sacctmgr", "dump", "bed", f"file={path}/dump.txt")
        (path / "shares.txt").write_bytes(bed.call("sshare", "-a", "-l", "-P").stdout)
        bed.stop()
        yield path


def _settle(bed: Bed) -> None:
    def manage(*words: str) -> None:
        bed.call("sacctmgr", "-i", *words)

    manage("add", "qos", "high", "priority=100", "MaxTRESPU=cpu=24")
    manage("modify", "qos", "normal", "set", "priority=10")
    manage("add", "account", "phys", "fairshare=3")
    manage("add", "account", "chem", "fairshare=1", "GrpTRES=cpu=64")
    for user, account in USERS.items():
        shares = 2 if user == "daemon" else 1
        manage("add", "user", user, f"account={account}", f"fairshare={shares}", "qos=normal,high", "defaultqos=normal")
    time.sleep(2)


def _run(bed: Bed) -> None:
    draw = random.Random(5)
    asked = []
    for _ in range(60):
        user, partition = draw.choice(list(USERS)), draw.choice(["cpu", "cpu", "gpu", "debug"])
        nodes = 1 if partition == "debug" else draw.choice([1, 1, 2, 3])
        asked.append({
            "script": f"sleep {draw.choice([1, 3, 6, 10])}", "user": user, "account": USERS[user],
            "partition": partition, "qos": draw.choice(["normal", "normal", "high"]), "nodes": nodes, "ntasks": nodes,
            "cpus_per_task": draw.choice([1, 2, 4, 8]), "mem": 100, "time": "2",
        })  # fmt: skip
    jobs = bed.submit_many(asked)
    bed.wait_until(lambda: not bed.call("squeue", "-h").stdout, 240, f"{len(jobs)} jobs are over")
    time.sleep(62)  # usage is counted once a minute


def read(folder: Path, *names: str) -> Converted:
    found = [described(folder / name, (folder / name).read_text(), name) for name in names]
    return converted(together([one for one in found if one is not None]))


def test_what_accounting_says_in_two_ways_is_the_same_site(folder: Path) -> None:
    shown, dumped = (
        Cluster.from_dict(read(folder, "slurm.conf", name, "qos.txt").content) for name in ("assoc.txt", "dump.txt")
    )
    first, second = (one.places.installed["site"].written() for one in (shown, dumped))
    assert {one["name"]: one for one in first["accounts"]} == {one["name"]: one for one in second["accounts"]}
    assert [one["name"] for one in first["partitions"]] == ["cpu", "gpu", "debug"]
    assert {one["name"]: one.get("priority", 0) for one in first["qos"]} == {"normal": 10, "high": 100}


def test_fair_shares_are_those_of_slurm_to_the_digit(folder: Path) -> None:
    shares = pl.read_csv(folder / "shares.txt", separator="|", infer_schema=False)
    site = Cluster.from_dict(read(folder, "slurm.conf", "assoc.txt", "qos.txt").content).places.installed["site"]
    assert isinstance(site, Site)
    tree = Members(site.file.accounts).tree
    rows, used = tree.rows(), np.zeros(len(tree.name))
    told = {
        (account.strip(), user): (float(raw), float(factor))
        for account, user, raw, factor in shares.select("Account", "User", "RawUsage", "FairShare").iter_rows()
        if user
    }
    for key, (raw, _) in told.items():
        used[rows[key]] = raw
    assert used.sum() > 0
    factor = fair_tree(tree, used)
    assert {key: round(float(factor[rows[key]]), 6) for key in told} == {key: one for key, (_, one) in told.items()}
    log = unrack.read_trace(str(folder / "jobs.txt")).jobs
    seconds = log.tasks * log.cores * log.work_us / 1e6
    for key, (raw, _) in told.items():  # Slurm counts whole seconds, and some jobs take longer than they should
        own = seconds[[log.user_names[user] == key[1] for user in log.user]].sum()
        assert abs(own - raw) <= 0.05 * own + 60, key


def test_its_history_is_possible_under_the_rules_that_are_taken_over(folder: Path) -> None:
    made = read(folder, "slurm.conf", "assoc.txt", "qos.txt")
    policy = next(note for note in made.notes if "as a policy" in note).partition(": ")[2].rstrip(".")
    workload = unrack.read_trace(str(folder / "jobs.txt"))
    found = check_history(Cluster.from_dict(made.content), workload, policy, 5_000_000)
    assert not found.not_started
    assert found.waits.jobs == len(workload.jobs)
    assert not [cause for cause in found.causes if cause.startswith(("more cores", "a limit of the file"))]
    assert abs(found.waits.real_mean_s - found.waits.simulated_mean_s) < 0.3 * found.waits.real_mean_s + 5
