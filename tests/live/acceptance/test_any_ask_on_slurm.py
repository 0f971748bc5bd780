"""Whatever jobs ask of a real Slurm: what it would run runs, the rest waits with a reason, others are not held up."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed

pytestmark = pytest.mark.live
RUN: list[dict[str, Any]] = [
    {"deadline": "now+2hours"}, {"switches": "1"}, {"signal": "B:USR1@30"}, {"wait_all_nodes": "1"}, {"gres": "none"},
    {"gres": "nvme:0"}, {"cpus_per_gpu": 2, "gpus": 1}, {"cpus_per_gpu": 2, "gpus": 4},
    {"cpus_per_gpu": 3, "gpus_per_node": 2, "nodes": 2}, {"mem_per_gpu": "1G", "gpus": 3, "mem": False},
    {"gpus": 5}, {"cpus_per_gpu": 2, "gpus_per_task": 1, "ntasks": 2}, {"ntasks_per_core": 1}, {"core_spec": 1},
    {"ntasks_per_socket": 2, "ntasks": 2}, {"begin": "2020-01-01"}, {"dependency": "afterany:99999"},
    {"requeue": True}, {"time_min": "1"}, {"sockets_per_node": 1, "cores_per_socket": 2}, {"extra_node_info": "1:2:1"},
    {"hint": "nomultithread"}, {"spread_job": True, "nodes": 2, "ntasks": 4}, {"use_min_nodes": True, "nodes": "1-3"},
    {"oversubscribe": True}, {"exclusive": "user"}, {"mem": 0}, {"distribution": "cyclic", "nodes": 2, "ntasks": 3},
    {"mincpus": 5, "ntasks": 2}, {"mincpus": 4, "nodes": 2}, {"ntasks_per_gpu": 2, "gpus": 1}, {"no_kill": True},
    {"nodes": 2, "ntasks": 5, "cpus_per_task": 2}, {"contiguous": True, "nodes": 2},
    {"gpus_per_socket": 1, "sockets_per_node": 1}, {"network": "any"}, {"overcommit": True, "ntasks": 40},
    {"overcommit": True, "ntasks": 40, "nodes": 2}, {"overcommit": True, "ntasks": 9, "nodes": "1-2"},
    {"mem_per_cpu": 5000, "ntasks": 8, "mem": False}, {"job_name": "a\n\"b' $(id) \\ \x1b[31m"},
    {"comment": "un'\n\"rack"}, {"ntasks_per_node": 3, "nodes": "1-3", "ntasks": 5}, {"exclude": "n[1-2]"},
    {"cluster_constraint": "far"}, {"array": "0-999%1", "time": "1"},
]  # fmt: skip
LEFT: list[dict[str, Any]] = [{"mincpus": 9}, {"nodes": 9}, {"cpus_per_gpu": 9, "gpus": 1}]
THREADED: list[tuple[dict[str, Any], int, int, int]] = [
    # -> nodes, CPUs and tasks that Slurm by itself gives it, on nodes of two sockets of four cores of two threads
    ({"ntasks": 1}, 1, 2, 1), ({"ntasks": 1, "cpus_per_task": 3}, 1, 4, 1),
    ({"ntasks": 2, "cpus_per_task": 3}, 1, 6, 2),
    ({"ntasks": 4, "hint": "nomultithread"}, 1, 8, 4), ({"ntasks": 8, "threads_per_core": 1}, 1, 16, 8),
    ({"ntasks": 9, "threads_per_core": 1}, 2, 18, 9), ({"ntasks": 17}, 2, 18, 17), ({"ntasks": 16}, 1, 16, 16),
    ({"ntasks": 4, "ntasks_per_core": 1}, 1, 8, 4), ({"ntasks": 2, "ntasks_per_socket": 1}, 1, 2, 2),
    ({"ntasks": 2, "extra_node_info": "2:2:1"}, 1, 4, 2), ({"nodes": 2, "ntasks": 3}, 2, 4, 3),
    ({"ntasks": 2, "gpus_per_socket": 1, "sockets_per_node": 2}, 1, 2, 2), ({"exclusive": True}, 1, 16, 1),
    ({"overcommit": True, "ntasks": 40}, 1, 2, 40), ({"overcommit": True, "ntasks": 40, "nodes": 2}, 2, 4, 40),
    ({"ntasks": 2, "core_spec": 2}, 1, 16, 2), ({"ntasks": 13, "core_spec": 2}, 2, 32, 13),
]  # fmt: skip
WAIT: list[dict[str, Any]] = [{"tmp": "1000"}, {"nodelist": "n4"}, {"gpus": 7}]
"""What may start once the fourth node is back."""
AGAIN = "[ ${SLURM_RESTART_COUNT:-0} -gt 1 ] || scontrol requeue $SLURM_JOB_ID; sleep 1"


def test_what_slurm_would_run_runs_and_no_ask_holds_up_others(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=4, scheduler="backfill", remember_s=3000, gpus=2)
    bed.drain("n4")
    driven = Driven(bed, tmp_path, "easy", start_timeout="20 s")
    asked = {"hold": True, "partition": "main", "time": "1", "mem": 100, "script": "sleep 1", "user": "nobody"}
    left, wait = (bed.submit_many([{**asked, **more} for more in some]) for some in (LEFT, WAIT))
    run = bed.submit_many([{**asked, **more} for more in RUN])
    run.append(bed.submit(**{**asked, "script": AGAIN}))
    array = run[-2]
    driven.start()
    try:
        others = []
        for _ in range(6):
            time.sleep(3)
            others.append(bed.submit(**{**asked, "user": "daemon"}))
        bed.wait_until(lambda: driven.all_over(others), 60, "others are not held up")
        mine = [job for job in run if job != array]
        bed.wait_until(lambda: driven.all_over(mine), 150, "what Slurm would run has run")

        def members() -> int:
            found = (one for one in bed.jobs() if int(one.get("ArrayJobId", 0)) == array)
            return sum(one["JobState"] == "COMPLETED" for one in found)

        bed.wait_until(lambda: members() > 5, 40, "members of the array follow each other")
        bed.cancel(array)
        time.sleep(2)
        status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
        why = {one["key"]: one.get("why") or one["phase"] for one in status["jobs"]}
        for job, more in zip(left, LEFT, strict=True):
            assert bed.state(job) == "PENDING", more
            assert why[str(job)] not in ("waiting", "aside"), (more, why)
        assert {bed.state(job) for job in wait} == {"PENDING"}
        bed.resume("n4")
        bed.wait_until(lambda: driven.all_over(wait[1:]), 40, "what has waited for a node runs on it")
    finally:
        driven.stop()
    known = {job: bed.job(job) for job in (*mine, *wait[1:])}
    assert {one["JobState"] for one in known.values()} == {"COMPLETED"}
    assert known[run[-1]]["Restarts"] == "2"
    audit(driven, [*mine, *wait[1:], *others])


@pytest.mark.parametrize("alone", [True, False], ids=["by itself", "driven"])
def test_jobs_have_the_nodes_cpus_and_tasks_that_slurm_gives_them_on_cores_with_threads(
    new_bed: Callable[..., Bed], tmp_path: Path, alone: bool
) -> None:
    bed = new_bed(nodes=4, cores=16, sockets=2, gpus=2, node_words="ThreadsPerCore=2", scheduler="backfill",
                  remember_s=3000, extra=("AllowSpecResourcesUsage=YES",))  # fmt: skip
    asked = {"hold": not alone, "partition": "main", "time": "1", "mem": 100, "script": "sleep 1"}
    jobs = [bed.submit(**{**asked, **more}) for more, *_ in THREADED]
    driven = Driven(bed, tmp_path, "easy", start_timeout="20 s")
    if not alone:
        driven.start()
    try:
        bed.wait_until(lambda: driven.all_over(jobs), 90, "all have run")
    finally:
        if not alone:
            driven.stop()
    for job, (more, *given) in zip(jobs, THREADED, strict=True):
        found = bed.job(job)
        assert found["JobState"] == "COMPLETED", more
        assert [int(found[key]) for key in ("NumNodes", "NumCPUs", "NumTasks")] == given, more
    if not alone:
        audit(driven, jobs)


def test_shards_of_gpus_are_held_on_the_gpus_on_which_slurm_has_them(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    bed = new_bed(nodes=2, scheduler="backfill", remember_s=3000, gpus=2, shards=8)
    driven = Driven(bed, tmp_path, "conservative", start_timeout="60 s")
    draw = random.Random(3)
    kinds = [{"gres": f"shard:{count}"} for count in (1, 2, 3, 3)] + [{"gpus": 1}, {"gres": "shard:2", "nodes": 2}]
    asked = {"hold": True, "partition": "main", "time": "1", "mem": 100}
    jobs = [bed.submit(f"sleep {draw.choice([1, 2, 4])}", **asked, **draw.choice(kinds)) for _ in range(30)]
    never = bed.submit("sleep 1", **asked, gres="shard:5")
    driven.start()
    try:
        bed.wait_until(lambda: driven.all_over(jobs), 120, "all jobs are over")
        status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
    finally:
        driven.stop()
    why = {one["key"]: str(one.get("why")) for one in status["jobs"]}
    assert why == {str(never): "it asks for 5 shards, which Slurm gives of one GPU, and each has 4"}
    records = driven.records()
    whys = [str(entry.get("why")) for one in records for entry in (one.get("entries") or {}).values() if entry]
    assert not [one for one in whys if "did not start it" in one]
    audit(driven, jobs)
