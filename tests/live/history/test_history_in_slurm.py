"""Forty short jobs on a real Slurm: every start is in the table, and the order of starts is accounted for."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from driven_bed import Driven
from slurm_bed import Bed

from unrack.live.driver.history.cause import UNEXPLAINED
from unrack.live.driver.history.order import compare
from unrack.live.driver.history.past import past_of
from unrack.live.driver.history.starts import starts_frame
from unrack.slurm_text.hostlists import compress, expand

pytestmark = pytest.mark.live


def test_forty_jobs_are_told_as_slurm_tells_them(new_bed: Callable[..., Bed], tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    bed = new_bed(nodes=16, scheduler="backfill", remember_s=3000)
    driven = Driven(bed, tmp_path, "easy")
    driven.start()
    try:
        jobs = driven.run_all([
            {"script": f"sleep {random.integers(1, 4)}", "nodes": int(random.choice([1, 1, 2, 4])),
             "cpus_per_task": int(random.choice([2, 4, 8])), "mem": 1000}
            for _ in range(40)
        ])  # fmt: skip
        driven.wait_until(lambda: "no jobs" in driven.command("slurm", "status", "--state", str(driven.state)))
        assert driven.stop() == 0
    finally:
        if driven.process is not None and driven.process.poll() is None:
            driven.stop(signal.SIGKILL)
    past = past_of(driven.state)
    frame = starts_frame(past.told, "slurm", compress).filter(pl.col("became") == "ended")
    known = {one["JobId"]: one for one in bed.jobs()}
    assert sorted(map(int, frame["job"])) == sorted(jobs)
    for row in frame.iter_rows(named=True):
        assert sorted(expand(known[row["job"]]["NodeList"])) == sorted(expand(row["planned_nodes"]))
        assert row["planned_nodes"] == row["ran_on"]
        assert row["came_s"] <= row["decided_s"] <= row["released_s"] <= row["started_s"] <= row["ended_s"]
    for at_once in (False, True):
        found = compare(past, at_once)
        assert found.jobs == 40
        assert found.causes.get(UNEXPLAINED, 0) == 0, found.causes
