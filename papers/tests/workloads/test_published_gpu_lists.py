from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unrack.workload.account import describe
from unrack.workload.formats.readers import read_trace


def test_the_published_training_jobs_have_measured_times(data: Path) -> None:
    made = read_trace(data / "gpu" / "minsky-100-jobs.csv", profiles=str(data / "gpu" / "minsky-caffe-times.csv"))
    assert (len(made), int(made.jobs.devices["gpus", "count"].sum())) == (100, 166)
    assert "time of the nearest size" not in made.intake.changed
    assert set(made.jobs.app_names) == {"alexnet/1", "alexnet/4", "googlenet/1", "googlenet/4"}


@pytest.mark.parametrize(
    ("file", "options", "jobs", "gpus"),
    [("openb_pod_list_default.csv", {}, 8152, 6086.8), ("openb_pod_list_multigpu50.csv", {"run": 60}, 9061, 11_358.8),
     ("philly.csv.gz", {}, 82_247, 107_235)],
)  # fmt: skip
def test_the_published_lists_are_read_whole(
    file: str, options: dict[str, Any], jobs: int, gpus: float, data: Path
) -> None:
    made = read_trace(data / "gpu" / file, **options)
    assert len(made) == made.intake.read == jobs
    assert describe(made)["gpus"]["gpus"] == pytest.approx(gpus)
