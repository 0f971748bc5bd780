"""Snapshots and predictions of a real Slurm, which is only read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from slurm_bed import Bed

from unrack.live.slurm.commands import run as commands
from unrack.live.slurm.commands.client import CommandClient
from unrack.live.slurm.prediction.forecast import forecast_now
from unrack.live.slurm.snapshot.scheduler import read_scheduler
from unrack.live.slurm.snapshot.snapshot import snapshot_of
from unrack.sim.simulate import simulate

pytestmark = pytest.mark.live
READS = {"squeue", "sinfo", "sacct", "scontrol"}


@pytest.mark.live_quick
def test_a_running_slurm_is_a_study_and_only_reading_commands_are_run(
    new_bed: Callable[..., Bed], monkeypatch: pytest.MonkeyPatch
) -> None:
    bed = new_bed(nodes=4, scheduler="backfill")
    whole = [bed.submit("sleep 60", nodes=1, exclusive=True, time="2") for _ in range(4)]
    bed.wait_for(whole, "RUNNING")
    waits = bed.submit("sleep 5", nodes=1, exclusive=True, time="5", job_name="a\n;[b]$(c)")
    held = bed.submit("sleep 5", hold=True)
    words: list[Sequence[str]] = []
    started = commands._started

    def noted(command: Sequence[str], environment: Mapping[str, str], is_given: bool) -> Any:
        words.append(command)
        assert not is_given
        return started(command, environment, is_given)

    monkeypatch.setattr(commands, "_started", noted)
    taken = snapshot_of(CommandClient(environment=bed.env).read(), read_scheduler(environment=bed.env))
    assert sum(row.runs for row in taken.rows) == 4
    assert [row.waits_for for row in taken.rows if row.key == str(held)] == ["its release"]
    found = simulate(taken.cluster, taken.workload, "fcfs").jobs
    assert found["job"].to_list()[-1] == waits
    made = forecast_now(["easy"], environment=bed.env, draws=3)
    starts = {start.job: start.requested_s for start in made.predictions[0].starts}
    assert starts[str(waits)] == pytest.approx(120, abs=20)
    for command in words:
        assert os.path.basename(command[0]) in READS
        if os.path.basename(command[0]) == "scontrol":
            words_of_ours = [word for word in command[1:] if not word.startswith("-")]
            assert words_of_ours[:1] == ["show"] or list(command[1:]) == ["--version"]


def test_where_jobs_run_as_long_as_they_ask_they_start_when_predicted(
    new_bed: Callable[..., Bed], tmp_path: Path
) -> None:
    bed = new_bed(nodes=2, scheduler="backfill")
    runs = [bed.submit("sleep 600", nodes=1, exclusive=True, time="1") for _ in range(2)]  # ended at their limit
    bed.wait_for(runs, "RUNNING")
    waits = bed.submit("sleep 5", nodes=2, exclusive=True, time="1")
    made = forecast_now([], environment=bed.env)
    predicted_s = made.at_s + (made.predictions[0].starts[0].requested_s or 0)
    bed.wait_for([waits], "RUNNING", "COMPLETED", timeout_s=180)
    actual_s = forecast_now([], environment=bed.env).started[str(waits)]
    assert -5 <= actual_s - predicted_s <= 90  # Slurm ends jobs up to a minute after their limits
