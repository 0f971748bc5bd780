"""Whatever kinds of GPUs, shares of them and nodes jobs ask for: they run where Slurm has them, and as planned."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driven_bed import Driven, audit
from slurm_bed import Bed

pytestmark = pytest.mark.live
ASKED = {"hold": True, "partition": "main", "time": "1", "mem": 100}
KINDS: list[dict[str, Any]] = [
    {"gres": "mps:30"}, {"gres": "mps:50"}, {"gres": "mps:100"}, {"gpus": 1}, {"gres": "mps:40", "nodes": 2},
    {"ntasks": 4, "ntasks_per_gpu": 2}, {"ntasks": 2, "ntasks_per_gpu": 2}, {"ntasks": 8, "ntasks_per_gpu": 2},
    {"gpus": 2, "ntasks_per_gpu": 2}, {"nodes": 2, "constraint": "[a*1&b*1]"}, {"ntasks": 6, "constraint": "[a*2&b*1]"},
    {"nodes": 3, "constraint": "[a*2&b*1]"}, {"ntasks": 2, "constraint": "a*2"}, {"ntasks": 1, "ntasks_per_gpu": 1},
    {"nodes": 2, "ntasks": 4, "ntasks_per_gpu": 2}, {"ntasks": 3, "constraint": "[a*1&b*2]", "gres": "mps:20"},
    {"bb": "capacity=1G"}, {"nodes": 3, "constraint": "[(a&c)*1&b*2]"},
]  # fmt: skip


def test_what_asks_for_parts_of_gpus_or_for_nodes_of_several_kinds_runs_as_planned(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    bed = new_bed(nodes=4, scheduler="backfill", remember_s=3000, gpus=2, mps=200, features=("a", "a,c", "b,c", "b"))
    driven = Driven(bed, tmp_path, "easy", start_timeout="60 s")
    draw = random.Random(5)
    mixed = [draw.choice(KINDS) for _ in range(14)]
    jobs = [bed.submit(f"sleep {draw.choice([1, 2, 3])}", **ASKED, **more) for more in (*KINDS, *mixed)]
    never = bed.submit("sleep 1", **ASKED, gres="mps:150")
    driven.start()
    try:
        bed.wait_until(lambda: driven.all_over(jobs), 150, "all jobs are over")
        status = json.loads(driven.command("slurm", "status", "--state", str(driven.state), "--json"))
    finally:
        driven.stop()
    why = {one["key"]: str(one.get("why")) for one in status["jobs"]}
    assert why == {str(never): "it asks for 150 mps, which Slurm gives of one GPU, and each has 100"}
    records = driven.records()
    whys = [str(entry.get("why")) for one in records for entry in (one.get("entries") or {}).values() if entry]
    assert not [one for one in whys if "did not start it" in one or "refuses" in one]
    audit(driven, jobs)
