"""Users change jobs that are let go, before Slurm looks at them: they run where that is planned, as asked last."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed

from unrack.slurm_text.hostlists import expand

pytestmark = pytest.mark.live
ASLEEP = "defer,sched_interval=3600,bf_interval=3600,batch_sched_delay=3600,sched_min_interval=2000000000"
AWAKE = "sched_interval=1,batch_sched_delay=1,bf_interval=1"
PATIENT_S = 90


def test_what_a_user_says_last_counts_though_the_job_was_let_go(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    partitions = {"main": "", "left": "n[1-4]", "right": "n[5-8]"}
    bed = new_bed(nodes=8, scheduler="backfill", parameters=ASLEEP, remember_s=3000, partitions=partitions)
    driven = Driven(bed, tmp_path, "easy", partitions=list(partitions), start_timeout="60 s")
    asked = {"hold": True, "partition": "left,main", "exclusive": True, "time": "1", "mem": 100}
    driven.start()

    def phases() -> dict[str, str]:
        status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
        return {one["key"]: one["phase"] for one in status["jobs"]}

    try:
        jobs = bed.submit_many([{**asked, "script": "sleep 2", "user": "nobody"}] * 4)
        other, nodes, excluded, _ = jobs
        bed.wait_until(lambda: set(phases().values()) == {"released"} and len(phases()) == 4, PATIENT_S, "all let go")
        for job, change in ((other, "Partition=right"), (nodes, "ReqNodeList=n7"), (excluded, "ExcNodeList=n[1-4]")):
            bed.scontrol("update", f"JobId={job}", change, user="nobody")
        bed.conf.write_text(bed.conf.read_text().replace(ASLEEP, AWAKE))
        bed.restart_controller()
        bed.wait_until(lambda: driven.all_over(jobs), PATIENT_S, "all are over")
    finally:
        driven.stop()
    on = {job: set(expand(bed.job(job)["NodeList"])) for job in jobs}
    assert on[other] <= set(expand("n[5-8]"))
    assert bed.job(other)["Partition"] == "right"
    assert on[nodes] == {"n7"}
    assert on[excluded] <= set(expand("n[5-8]"))
    audit(driven, jobs)
