from __future__ import annotations

from pathlib import Path
from typing import Any

import job_lists as lists
import numpy as np
import pytest
from scipy import stats

import unrack
from unrack.errors import InputError
from unrack.workload.account import describe
from unrack.workload.job import Workload

COUNT = 20_000


def drawn(**keys: Any) -> Workload:
    return unrack.generate({"training_jobs": COUNT, "run_s": 60, **keys}, 1)


def shares(made: Workload) -> dict[str, float]:
    return {name: float((made.jobs.app == code).mean()) for code, name in enumerate(made.jobs.app_names)}


@pytest.mark.parametrize(("batch_p", "network_p"), [(0.5, 0.5), (0.2, 0.9)])
def test_batches_and_networks_are_binomial(batch_p: float, network_p: float) -> None:
    found = shares(drawn(batch_p=batch_p, network_p=network_p))
    for k, network in enumerate(("alexnet", "cafferef", "googlenet")):
        for j, batch in enumerate((1, 4, 64, 128)):
            expected = stats.binom.pmf(k, 2, network_p) * stats.binom.pmf(j, 3, batch_p)
            assert found.get(f"{network}/{batch}", 0.0) == pytest.approx(expected, abs=0.012)


def test_ten_jobs_arrive_a_minute_one_by_one() -> None:
    gaps_s = np.diff(drawn().jobs.submit_us) / 1e6
    assert gaps_s.mean() == pytest.approx(6, rel=0.03)
    assert gaps_s.std() == pytest.approx(6, rel=0.05)  # exponential


def test_gpus_and_utilities_are_drawn_as_said() -> None:
    jobs = drawn(gpus={"kind": "choice", "values": [1, 2, 4], "weights": [5, 3, 2]}).jobs
    count, utility = jobs.devices["gpus", "count"], jobs.devices["gpus", "min_utility"]
    for gpus, share in ((1, 0.5), (2, 0.3), (4, 0.2)):
        assert (count == gpus).mean() == pytest.approx(share, abs=0.015)
    assert 3000 <= utility.min() < 3020 < 4980 < utility.max() <= 5000
    assert utility.mean() == pytest.approx(4000, abs=15)
    assert set(jobs.devices["gpus", "together"].tolist()) == {1}
    assert set(jobs.tasks.tolist()) == {1}


def test_run_times_are_the_best_measured_alone(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text(lists.TIMES)
    spec = {"training_jobs": 300, "profiles": "times.csv", "batch_sizes": [1, 4], "networks": ["alexnet", "cafferef"]}
    made = unrack.generate(spec, folder=tmp_path)
    expected = {("1", 1): 70, ("1", 2): 125.5, ("1", 4): 80, ("4", 1): 110, ("4", 2): 110, ("4", 4): 90}
    count = made.jobs.devices["gpus", "count"]
    apps = [made.jobs.app_names[code] for code in made.jobs.app]
    assert [expected[app.split("/")[1], gpus] for app, gpus in zip(apps, count, strict=True)] == (
        (made.jobs.work_us / 1e6).tolist()
    )
    elsewhere = sum(app.endswith("/4") and gpus == 2 for app, gpus in zip(apps, count, strict=True))
    assert made.intake.changed == {"time of the nearest size": elsewhere}
    assert made.intake.header["Note"] == "not measured: cafferef takes as long as alexnet"


def test_an_application_without_times_is_refused(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text(lists.TIMES)
    spec = {"training_jobs": 300, "profiles": str(tmp_path / "times.csv"), "batch_sizes": [1]}
    for more, app in (({}, "googlenet/1"), ({"networks": ["cafferef"], "times_of": {}}, "cafferef/1")):
        with pytest.raises(InputError, match=f"got {app}, wanted networks and batch sizes"):
            unrack.generate({**spec, **more})


@pytest.mark.parametrize(
    ("keys", "where"),
    [({}, "generate, the whole"), ({"run_s": 1, "profiles": "x.csv"}, "generate, the whole"),
     ({"run_s": 1, "batch_p": 1.5}, "generate, batch_p"), ({"run_s": 1, "nets": []}, "generate, nets"),
     ({"run_s": 1, "networks": []}, "generate, networks"),
     ({"run_s": 1, "batch_sizes": [0]}, "generate, batch_sizes.0"),
     ({"run_s": 1, "min_utility": 2}, "generate, min_utility"), ({"run_s": 1, "times_of": {}}, "generate, the whole")],
)  # fmt: skip
def test_a_specification_that_cannot_be_is_refused(keys: dict[str, Any], where: str) -> None:
    with pytest.raises(InputError) as caught:
        unrack.generate({"training_jobs": 5, **keys})
    assert caught.value.where == where


def test_the_same_seed_gives_the_same_jobs_at_any_rate() -> None:
    base, again, faster = drawn(), drawn(), drawn(arrivals={"rate_per_h": 1200})
    assert base.jobs.digest() == again.jobs.digest()
    assert base.jobs.app.tolist() == faster.jobs.app.tolist()
    assert faster.jobs.submit_us[-1] == pytest.approx(base.jobs.submit_us[-1] / 2, rel=1e-6)


def test_the_account_counts_gpus() -> None:
    found = describe(drawn(gpus=3))["gpus"]
    assert (found["jobs"], found["gpus"], found["sizes"], found["shared"]) == (COUNT, 3 * COUNT, {"3": COUNT}, 0)


def test_published_times_serve_the_whole_workload(data: Path) -> None:
    made = unrack.generate({"training_jobs": 500, "profiles": str(data / "gpu" / "minsky-caffe-times.csv")})
    assert len(made.jobs.app_names) == 12
    assert made.jobs.work_us.min() == 69_165_000
