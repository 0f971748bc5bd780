"""Arrays, limits and reservations of a real Slurm: nothing is placed where it is forbidden, nothing sticks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed

from unrack.slurm_text.hostlists import expand

pytestmark = pytest.mark.live
PATIENT_S = 120
"""How long is waited for what has to come about, however busy the machine is: no test asks whether it was soon."""
FEW = "PartitionName=few Nodes=n[1-2] MaxTime=INFINITE State=UP"


def told(driven: Driven, job: int | str) -> str:
    """Why a job is aside, by ``status``."""
    status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
    return next((str(one.get("why", "")) for one in status["jobs"] if one["key"] == str(job)), "")


def phase(driven: Driven, job: int) -> str:
    """How far a job has come, by ``status``; ``""``: it is not known."""
    status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
    return next((str(one["phase"]) for one in status["jobs"] if one["key"] == str(job)), "")


def reservations(driven: Driven) -> set[str]:
    """Those that the driver knows, by the newest epoch in its journal."""
    begun = [record["beginning"] for record in driven.records() if record["k"] == "begin"]
    return {one["name"] for one in begun[-1]["cluster"].get("site", {}).get("reservations", ())}


def released(driven: Driven, key: int | str) -> list[int]:
    """When a job was let go, µs, by the journal."""
    entries = [(record.get("entries") or {}).get(str(key)) for record in driven.records()]
    return sorted({entry["released_us"] for entry in entries if entry and entry["phase"] == "released"})


def test_a_throttled_array_runs_to_its_end(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=16, remember_s=3000)
    driven = Driven(bed, tmp_path, "easy")
    array = bed.submit("sleep 3", hold=True, array="1-40%20", nodes=1, exclusive=True, time="1")
    driven.start()
    try:
        bed.wait_until(lambda: driven.all_over([array]), PATIENT_S, "the array is over")
    finally:
        driven.stop()
    whys = {str(entry.get("why", "")) for one in driven.records() for entry in one["entries"].values() if entry}
    assert not [why for why in whys if "has run" in why or "GONE" in why]
    jobs = [one for one in bed.jobs() if one.get("ArrayJobId") == str(array)]
    assert [one["JobState"] for one in jobs] == ["COMPLETED"] * 40
    audit(driven, [])


def test_what_slurm_forbids_is_never_placed_and_holds_nothing(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=4, remember_s=3000, extra=(FEW,))
    bed.scontrol("update", "PartitionName=main", "MaxTime=10")
    driven = Driven(bed, tmp_path, "easy", start_timeout="120 s")
    driven.start()
    try:
        long = bed.submit("sleep 1", hold=True, time="60", nodes=4, exclusive=True)
        bed.wait_until(lambda: "PartitionTimeLimit" in told(driven, long), PATIENT_S, "it is aside")
        assert not released(driven, long)
        greedy = bed.submit("sleep 1", hold=True, mem=32_000, comment="unrack: memory=1MB", time="1")
        bed.wait_until(lambda: "32000 MB" in told(driven, greedy), PATIENT_S, "its comment is refused")
        jobs = bed.submit_many([{"script": "sleep 2", "hold": True, "nodes": 2, "time": "1", "mem": 100}] * 4)
        bed.wait_until(lambda: driven.all_over(jobs), PATIENT_S)
        bed.scontrol("create", "reservation", "ReservationName=now", "StartTime=now", "Duration=60", "Nodes=n1",
                     "Users=root")  # fmt: skip
        bed.scontrol("create", "reservation", "ReservationName=soon", "StartTime=now+9minutes", "Duration=60",
                     "Nodes=n2", "Users=root")  # fmt: skip
        bed.wait_until(lambda: reservations(driven) == {"now", "soon"}, PATIENT_S, "both are known")
        asked = {"script": "sleep 2", "hold": True, "mem": 100, "exclusive": True}
        others = bed.submit_many([{**asked, "time": "10"}] * 4)
        bed.wait_until(lambda: driven.all_over(others), PATIENT_S)
        short = bed.submit(**asked, nodes=3, time="1")
        bed.wait_for([short], "COMPLETED", timeout_s=PATIENT_S)
        wide = bed.submit(**asked, nodes=4, time="1")
        bed.wait_until(lambda: phase(driven, wide) == "waiting", PATIENT_S, "it has been decided that it waits")
        assert not released(driven, wide)
        bed.scontrol("delete", "ReservationName=now")
        bed.wait_for([wide], "COMPLETED", timeout_s=PATIENT_S)
        bed.scontrol("update", "PartitionName=main", "MaxTime=100")
        bed.scontrol("delete", "ReservationName=soon")
        bed.wait_for([long], "COMPLETED", timeout_s=PATIENT_S)
    finally:
        driven.stop()
    on = {job: set(expand(bed.job(job)["NodeList"])) for job in (*others, short)}
    assert all(nodes <= {"n3", "n4"} for job, nodes in on.items() if job != short)
    assert on[short] == {"n2", "n3", "n4"}
    audit(driven, [*jobs, *others, short, wide, long])


@pytest.mark.live_quick
def test_a_start_that_slurm_refuses_is_taken_back_at_the_next_look(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    bed = new_bed(nodes=2, remember_s=3000, licences={"matlab": 4})
    bed.scontrol("create", "reservation", "ReservationName=all", "StartTime=now", "Duration=60", "Users=nobody",
                 "Licenses=matlab:4", "Flags=LICENSE_ONLY")  # fmt: skip
    driven = Driven(bed, tmp_path, "easy", start_timeout="120 s")
    asked = {"script": "sleep 1", "hold": True, "nodes": 2, "exclusive": True, "time": "1"}
    job = bed.submit(**asked, licenses="matlab:1")
    driven.start(driven.blind_to_reservations())
    try:
        bed.wait_until(lambda: "Slurm refuses to start it: Licenses" in told(driven, job), PATIENT_S, "it is aside")
        other = bed.submit(**asked)
        bed.wait_for([other], "COMPLETED", timeout_s=PATIENT_S)
        time.sleep(5)
        tried = released(driven, job)
        assert all(then - first > 14e6 for first, then in pairwise(tried)), "tried again though nothing has changed"
        bed.scontrol("delete", "ReservationName=all")
        bed.scontrol("update", "PartitionName=main", "DefaultTime=2")
        bed.wait_for([job], "COMPLETED", timeout_s=PATIENT_S)
    finally:
        driven.stop()
    audit(driven, [job, other])
