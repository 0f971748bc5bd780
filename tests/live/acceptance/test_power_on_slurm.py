"""A real Slurm that powers idle nodes down: the driver's jobs wake them, and one that does not wake up is left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed

from unrack.slurm_text.hostlists import expand

pytestmark = pytest.mark.live
SUSPEND = """#!/bin/sh
for name in $(scontrol show hostnames "$1"); do kill "$(cat {folder}/run/slurmd.$name.pid)"; done
"""
RESUME = """#!/bin/sh
for name in $(scontrol show hostnames "$1"); do
    [ $name = n4 ] || (sleep 2; PATH="$PATH:/usr/sbin:/sbin" exec slurmd -b -N $name) < /dev/null > /dev/null 2>&1 &
done
"""


def test_jobs_wake_the_nodes_that_slurm_has_powered_down(
    new_bed: Callable[..., Bed], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scripts = tmp_path_factory.mktemp("power")
    words = {f"{name}Program": scripts / name for name in ("Suspend", "Resume")}
    for path in words.values():  # until the folder of Slurm is known
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    extra = ("SuspendTimeout=3", "ResumeTimeout=20", "SuspendRate=0", "ResumeRate=0", "SuspendTime=8")
    bed = new_bed(nodes=4, scheduler="backfill", remember_s=3000, hooks=words, extra=extra)
    (scripts / "Suspend").write_text(SUSPEND.format(folder=bed.folder))
    (scripts / "Resume").write_text(RESUME)
    driven = Driven(bed, tmp_path, "easy", start_timeout="8 s")

    def asleep() -> set[str]:
        return {name for name in bed.names if "POWERED_DOWN" in bed.node(name)["State"]}

    driven.start()
    try:
        bed.wait_until(lambda: len(asleep()) == 4, 90, "all nodes are powered down")
        asked = {"hold": True, "partition": "main", "time": "1", "mem": 100}
        jobs = bed.submit_many([{**asked, "script": "sleep 3", "exclusive": True}] * 4)
        jobs += bed.submit_many([{**asked, "script": "sleep 1", "cpus_per_task": 4}] * 6)
        wide = bed.submit("sleep 2", **asked, nodes=3, exclusive=True)
        bed.wait_until(lambda: driven.all_over([*jobs, wide]), 180, "all jobs are over")
    finally:
        driven.stop()
    known = {job: bed.job(job) for job in (*jobs, wide)}
    assert "n4" not in {name for one in known.values() for name in expand(one["NodeList"])}
    assert "DOWN" in bed.node("n4")["State"]
    assert sum(int(one["Restarts"]) for one in known.values()) == 1, "one job had the node that did not wake up"
    entries = [entry for record in driven.records() for entry in record["entries"].values() if entry]
    assert not any(entry.get("tries") for entry in entries), {entry.get("why") for entry in entries}
    audit(driven, [*jobs, wide])
