"""Users change jobs that are let go, before Slurm looks at them: they run where that is planned, as asked last."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed

from unrack.live.slurm.commands.client import CommandClient
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


SEEN = ("NumCPUs=6", "NumNodes=2-2", "MinMemoryNode=9000", "TresPerNode=gres:nvme:3")
LAST_MOMENT = ("NumCPUs=5", "MinCPUsNode=4", "MinMemoryCPU=3000", "NumCPUs=1", "TimeLimit=1")


def test_the_ledger_has_of_each_job_what_slurm_gives_it_whenever_it_was_changed(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    bed = new_bed(nodes=6, scheduler="backfill", parameters=ASLEEP, remember_s=3000, licences={"matlab": 4})
    driven = Driven(bed, tmp_path, "easy", start_timeout="90 s")
    client = CommandClient(environment=bed.env)
    asked = {"hold": True, "partition": "main", "time": "3", "mem": 100, "user": "nobody", "script": "sleep 50"}

    def entries() -> dict[str, dict[str, Any]]:
        found = {key: entry for record in driven.records() for key, entry in record["entries"].items()}
        return {key: entry for key, entry in found.items() if entry}

    def ledger() -> dict[str, dict[str, int]]:
        return {
            key: {node: cores for node, _, cores, _ in one["lease"]["rows"]}
            for key, one in entries().items() if one["phase"] == "running"
        }  # fmt: skip

    def slurm() -> dict[str, dict[str, int]]:
        running = [job for job in client.read().jobs if job.state == "RUNNING"]
        return {str(job.id): {node: one.cores for node, one in job.holds.items()} for job in running}

    driven.start()
    try:
        jobs = bed.submit_many([{**asked, "ntasks": 2, "nodes": 1}] * (len(SEEN) + len(LAST_MOMENT)))
        jobs += bed.submit_many([{**asked, "ntasks": 4, "nodes": 2}] * 2)  # Slurm gives one node three cores of four
        bed.wait_until(lambda: [one["phase"] for one in entries().values()] == ["released"] * len(jobs), PATIENT_S)
        before = {key: one["job"] for key, one in entries().items()}
        for job, change in zip(jobs, SEEN, strict=False):
            bed.scontrol("update", f"JobId={job}", change, user="nobody")

        def placed_anew() -> bool:
            now = entries()
            changed = {key for key, one in now.items() if one["job"] != before[key] and one["phase"] == "released"}
            return changed == set(map(str, jobs[: len(SEEN)]))

        bed.wait_until(placed_anew, PATIENT_S, "those that were changed are placed anew")
        assert driven.process is not None
        driven.process.send_signal(signal.SIGSTOP)
        for job, change in zip(jobs[len(SEEN) :], LAST_MOMENT, strict=False):
            bed.scontrol("update", f"JobId={job}", change, user="nobody")
        bed.conf.write_text(bed.conf.read_text().replace(ASLEEP, AWAKE))
        bed.restart_controller()
        bed.wait_until(lambda: len(slurm()) > 5, PATIENT_S, "those that have room run")
        driven.process.send_signal(signal.SIGCONT)
        bed.wait_until(lambda: len(slurm()) == len(jobs), 40, "the others go elsewhere")
        bed.wait_until(lambda: ledger() == slurm(), 20, "the ledger has what Slurm says")
        assert any(sorted(nodes.values()) == [1, 3] for nodes in slurm().values()), slurm()
        wide = jobs[SEEN.index("NumNodes=2-2")]
        bed.scontrol("update", f"JobId={wide}", "NumNodes=1", user="nobody")
        bed.wait_until(lambda: len(ledger().get(str(wide), ())) == 1, 20, "it has given a node back")
        bed.wait_until(lambda: driven.all_over(jobs), PATIENT_S, "all are over")
    finally:
        if driven.process is not None:
            driven.process.send_signal(signal.SIGCONT)
        driven.stop()
    failed = {entry.get("why", "") for record in driven.records() for entry in record["entries"].values() if entry}
    assert not any("did not start it" in why for why in failed), failed
    audit(driven, jobs)
