"""A driver on a real Slurm with accounting: it knows the limits, and releases nothing beyond them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from accounting import accounted_bed
from driven_bed import Driven, audit
from slurm_bed import Bed

pytestmark = pytest.mark.live
SETTINGS = (
    ("add", "qos", "tight", "MaxTRESPU=cpu=8"), ("add", "account", "phys", "GrpTRES=cpu=24"),
    ("add", "user", "games", "account=phys", "qos=normal,tight", "defaultqos=normal"),
    ("add", "user", "daemon", "account=phys", "qos=normal,tight", "defaultqos=normal", "MaxJobs=2"),
)  # fmt: skip


@pytest.fixture
def bed() -> Iterator[Bed]:
    """A Slurm with two users of an account, a QOS and limits."""
    with accounted_bed("unrack-limits-", nodes=8) as made:
        for words in SETTINGS:
            made.call("sacctmgr", "-i", *words)
        time.sleep(2)
        yield made


def test_limits_of_accounts_and_qos_are_kept_by_the_plan(bed: Bed, tmp_path: Path) -> None:
    driven = Driven(bed, tmp_path, "easy")
    kinds = [("games", "tight", 4)] * 5 + [("daemon", "normal", 8)] * 5 + [("games", "normal", 2)] * 5
    asked = [
        {"user": user, "account": "phys", "qos": qos, "cpus_per_task": cores, "mem": 100, "time": "1",
         "script": "sleep 2", "hold": True}
        for user, qos, cores in kinds
    ]  # fmt: skip
    jobs = bed.submit_many(asked)
    driven.start()
    most: dict[str, int] = {}
    try:
        deadline = time.monotonic() + 120
        while not driven.all_over(jobs) and time.monotonic() < deadline:
            running = [one for one in bed.jobs() if one["JobState"] == "RUNNING"]
            own = dict.fromkeys(("tight", "daemon", "all"), 0)
            for one in running:
                cores = int(one["NumCPUs"])
                own["all"] += cores
                own["tight"] += cores * (one["QOS"] == "tight")
                own["daemon"] += one["UserId"].startswith("daemon")
            most = {key: max(most.get(key, 0), value) for key, value in own.items()}
            time.sleep(0.2)
    finally:
        driven.stop()
    assert driven.all_over(jobs)
    assert most["tight"] == 8
    assert most["daemon"] == 2
    assert most["all"] <= 24
    entries = [entry for record in driven.records() for entry in (record.get("entries") or {}).values() if entry]
    assert not [entry for entry in entries if entry.get("refused")], "released beyond a limit"
    audit(driven, jobs)
