"""Dependencies on a real Slurm, and what changes between a decision and its start: nothing sticks or runs early."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed
from test_limits_on_slurm import PATIENT_S, told
from test_user_changes_on_slurm import ASLEEP, AWAKE

from unrack.slurm_text.hostlists import expand

pytestmark = pytest.mark.live
ASKED: dict[str, Any] = {"hold": True, "partition": "main", "time": "1", "mem": 100}


def released(driven: Driven) -> set[str]:
    """The jobs that are let go, by ``status``."""
    status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
    return {one["key"] for one in status["jobs"] if one["phase"] == "released"}


def times(bed: Bed, job: int) -> tuple[str, str]:
    """When a job began and ended, in a form in which later is more."""
    shown = bed.job(job)
    return shown["StartTime"], shown["EndTime"]


def follow(bed: Bed, pairs: Mapping[int, int]) -> None:
    """Each job began when the other had ended."""
    for job, other in pairs.items():
        assert times(bed, job)[0] >= times(bed, other)[1], (job, other)


def test_jobs_that_wait_for_others_start_when_these_have_ended(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=4, remember_s=3000)
    driven = Driven(bed, tmp_path, "easy")
    submit = bed.submit
    chain = [submit("sleep 1", **ASKED)]
    for i in range(4):
        chain.append(submit("sleep 1", **ASKED, dependency=f"after{('ok', 'any')[i % 2]}:{chain[-1]}"))
    fails = submit("exit 3", **ASKED)
    array = submit("sleep 1", **ASKED, array="1-4%2")
    jobs = {
        submit("sleep 1", **ASKED, dependency=f"afternotok:{fails}"): fails,
        submit("sleep 1", **ASKED, dependency=f"afterok:{fails}?afterok:{chain[0]}"): chain[0],
        submit("sleep 1", **ASKED, dependency=f"afterok:{array}"): array,
    }
    never = submit("sleep 1", **ASKED, dependency=f"afterok:{fails}")
    alike = [submit("sleep 1", **ASKED, job_name="one at a time", dependency="singleton") for _ in range(3)]
    driven.start()
    try:
        bed.wait_until(lambda: driven.all_over([*chain, array, *jobs, *alike]), PATIENT_S, "all but one are over")
        assert told(driven, never) == "waits for other jobs"
        bed.cancel(never)
    finally:
        driven.stop()
    follow(bed, {**jobs, **dict(zip(chain[1:], chain, strict=False)), **dict(zip(alike[1:], alike, strict=False))})
    refused = [entry.get("refused") for record in driven.records() for entry in record["entries"].values() if entry]
    assert not any(refused), set(refused)
    audit(driven, [*chain, *jobs, *alike])


def test_what_changes_before_a_start_comes_about_counts(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    partitions = {"main": "", "left": "n[1-2]", "right": "n[3-4]"}
    bed = new_bed(nodes=4, cores=16, scheduler="backfill", parameters=ASLEEP, remember_s=3000, partitions=partitions)
    driven = Driven(bed, tmp_path, "easy", partitions=list(partitions), start_timeout="300 s")
    asked = {**ASKED, "user": "nobody"}
    first = bed.submit("sleep 4", **{**asked, "job_name": "first"})
    ok, alone, never, later, plain, array = (
        bed.submit("sleep 1", **asked, **more)
        for more in ({}, {"job_name": "first"}, {}, {}, {}, {"array": "1-6%3"})
    )  # fmt: skip
    right = bed.submit("sleep 1", **{**asked, "partition": "right"})
    either = bed.submit("sleep 1", **{**asked, "partition": "right,main"})
    wide = bed.submit("sleep 1", **asked, nodes=4)
    jobs = [first, ok, alone, never, later, plain, right, either, wide]
    driven.start()
    try:
        bed.wait_until(lambda: released(driven) >= set(map(str, jobs)), PATIENT_S, "all are let go")

        def update(job: int, change: str) -> None:
            bed.scontrol("update", f"JobId={job}", change)

        update(ok, f"Dependency=afterok:{first}")
        update(alone, "Dependency=singleton")
        update(never, f"Dependency=afternotok:{first}")
        update(later, "StartTime=now+8")
        update(array, "ArrayTaskThrottle=1")
        bed.scontrol("update", "PartitionName=right", "State=DOWN")
        bed.drain("n4")
        written = bed.conf.read_text().replace(ASLEEP, AWAKE)  # a controller that begins goes by it, for partitions too
        bed.conf.write_text(re.sub(r"(PartitionName=right .*)State=UP", r"\1State=DOWN", written))
        bed.restart_controller()
        soon = [first, ok, alone, later, plain, either, array]
        bed.wait_until(lambda: driven.all_over(soon), PATIENT_S, "all are over that may start")
        assert {bed.state(job) for job in (never, right, wide)} == {"PENDING"}
        # what waits for the node keeps the other three from no one
        other = bed.submit("sleep 1", **{**asked, "partition": "main"}, nodes=3, exclusive=True)
        bed.wait_for([other], "COMPLETED", timeout_s=PATIENT_S)
        bed.scontrol("update", "PartitionName=right", "State=UP")
        bed.resume("n4")
        update(never, "Dependency=")
        bed.wait_until(lambda: driven.all_over([never, right, wide]), PATIENT_S, "all are over")
    finally:
        driven.stop()
    follow(bed, {ok: first, alone: first})
    assert set(expand(bed.job(right)["NodeList"])) <= {"n3", "n4"}
    members = sorted(
        (one["StartTime"], one["EndTime"]) for one in bed.jobs() if one.get("ArrayJobId") == str(array)
    )  # fmt: skip
    assert len(members) == 6
    assert all(then[0] >= before[1] for before, then in itertools.pairwise(members)), members
    audit(driven, [*jobs, other])


def test_a_node_that_slurm_keeps_for_a_user_keeps_no_job_of_another(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    bed = new_bed(nodes=2, scheduler="backfill", remember_s=3000)
    driven = Driven(bed, tmp_path, "easy", start_timeout="6 s")
    driven.start()
    try:
        keeps = bed.submit("sleep 600", **ASKED, exclusive="user", user="nobody")
        bed.wait_for([keeps], "RUNNING", timeout_s=PATIENT_S)
        other = bed.submit("sleep 1", **ASKED, user="daemon")
        bed.wait_for([other], "COMPLETED", timeout_s=PATIENT_S)
        alike = bed.submit("sleep 1", **ASKED, overcommit=True, ntasks=16, nodes=1)
        bed.wait_until(lambda: "more tasks than cores" in told(driven, alike), PATIENT_S, "it is left held")
        assert bed.job(alike)["NumNodes"] == "1-1"
        bed.cancel(keeps, alike)
    finally:
        driven.stop()
    assert bed.job(other)["NodeList"] != bed.job(keeps)["NodeList"]
    audit(driven, [other])
