from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from unrack.cli.main import app
from unrack.errors import InputError
from unrack.workload.generate.generator import generate
from unrack_papers.workloads.scenarios import GPU, NVME, SCENARIOS, scenario

SHARES = {
    "nvme-s1": {"smufin": 0.7, "capacity": 0.1, "compute": 0.2},
    "nvme-s2": {"smufin": 0.1, "capacity": 0.7, "compute": 0.2},
    "nvme-s3": {"smufin": 0.2, "capacity": 0.1, "compute": 0.7},
    "nvme-m1": {"fio": 0.7, "capacity": 0.1, "compute": 0.2},
    "nvme-m2": {"fio": 0.49, "smufin": 0.21, "capacity": 0.1, "compute": 0.2},
    "nvme-m3": {"fio": 0.35, "smufin": 0.35, "capacity": 0.1, "compute": 0.2},
    "vgpu-s1": {"smufin": 0.5, "capacity": 0.2, "yolo": 0.1, "compute": 0.2},
    "vgpu-s2": {"smufin": 0.1, "yolo": 0.8, "compute": 0.1},
    "vgpu-s3": {"smufin": 2 / 9, "capacity": 2 / 9, "yolo": 4 / 9, "compute": 1 / 9},
}
ASKED = {  # Table 5.1: s, cores, NVMe MB/s, NVMe MB, GPU MB/s, GPU MB
    "smufin": (1600, 6, 1800, 44_032, 0, 0),
    "fio": (900, 6, 1800, 44_032, 0, 0),
    "capacity": (800, 6, 160, 614_400, 0, 0),
    "compute": (900, 15, 0, 0, 0, 0),
    "yolo": (152, 2, 0, 0, 1000, 2048),
}
DEVICES = [("nvme", "bandwidth_mb_s"), ("nvme", "capacity_mb"), ("gpu", "bandwidth_mb_s"), ("gpu", "memory_mb")]


def drawn(name: str, **options: Any) -> Any:
    return generate({"scenario": name, "load": 0.7, **options}, seed=11).jobs


def test_every_scenario_of_the_papers_is_there() -> None:
    assert set(SCENARIOS) == set(SHARES)


def test_the_scenarios_are_listed() -> None:
    plain = CliRunner().invoke(app, ["scenarios"])
    listed = CliRunner().invoke(app, ["scenarios", "--json"])
    assert plain.exit_code == listed.exit_code == 0
    assert json.loads(listed.output) == {name: {"summary": entry.summary} for name, entry in SCENARIOS.items()}
    assert all(entry.summary in plain.output for entry in SCENARIOS.values())


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_the_mix_the_demands_and_the_offered_load_of_the_paper(name: str) -> None:
    jobs = drawn(name, jobs=20_000)
    apps = np.array(jobs.app_names)[jobs.app]
    for kind, share in SHARES[name].items():
        assert (apps == kind).mean() == pytest.approx(share, abs=0.012)
    none = np.zeros(len(jobs), np.int64)
    columns = [jobs.work_us // 10**6, jobs.cores, *(jobs.devices.get(key, none) for key in DEVICES)]
    for kind in SHARES[name]:
        assert {tuple(row) for row in np.array(columns).T[apps == kind].tolist()} == {ASKED[kind]}
    assert set(apps) == set(SHARES[name])
    assert (jobs.tasks == 1).all()
    assert (jobs.memory_mb == 0).all()
    area = (jobs.work_us * jobs.cores).sum()
    assert area / (125 * jobs.submit_us[-1]) == pytest.approx(0.7, rel=0.03)


@pytest.mark.parametrize("load", [0.5, 0.9, 1.2])
def test_the_arrival_rate_follows_the_load(load: float) -> None:
    jobs = drawn("nvme-s1", load=load, jobs=20_000)
    assert (jobs.work_us * jobs.cores).sum() / (125 * jobs.submit_us[-1]) == pytest.approx(load, rel=0.03)
    small = drawn("nvme-s1", load=load, cores=25)
    assert small.submit_us == pytest.approx(drawn("nvme-s1", load=load).submit_us * 5)


@pytest.mark.parametrize(("jobs", "share", "urgent"), [(1500, 0.2, 300), (7, 0.2, 1), (10, 1, 10), (10, 0, 0)])
def test_exactly_a_share_of_the_jobs_is_urgent(jobs: int, share: float, urgent: int) -> None:
    made = drawn("nvme-s1", jobs=jobs, urgent={"share": share})
    assert (made.priority == 1).sum() == urgent
    assert (made.priority == 0).sum() == jobs - urgent
    factor = (made.deadline_us - made.submit_us) / made.work_us
    assert factor == pytest.approx(np.where(made.priority == 1, 1.2, 4))


def test_urgent_jobs_are_of_all_classes_and_spread_over_time() -> None:
    made = drawn("vgpu-s1", jobs=20_000)
    urgent = made.priority == 1
    for code in range(4):
        assert urgent[made.app == code].mean() == pytest.approx(0.2, abs=0.03)
    assert [part.mean() for part in np.split(urgent, 10)] == pytest.approx([0.2] * 10, abs=0.03)


def test_urgency_takes_the_place_of_what_a_class_says() -> None:
    classes = [{"name": "a", "run_s": 10, "priority": 7, "deadline_factor": 9}, {"name": "b", "run_s": 10}]
    spec = {
        "jobs": 400, "arrivals": {"gap_s": 1}, "classes": classes,
        "urgent": {"share": 0.25, "priority": -2, "deadline_factor": {"kind": "uniform", "min": 2, "max": 3}},
    }  # fmt: skip
    jobs = generate(spec, 5).jobs
    urgent = jobs.priority == -2
    assert urgent.sum() == 100
    factor = np.where(jobs.deadline_us < 0, -1, (jobs.deadline_us - jobs.submit_us) / jobs.work_us)
    assert 2 <= factor[urgent].min() < factor[urgent].max() <= 3
    assert set(zip(jobs.priority[~urgent].tolist(), factor[~urgent].tolist(), strict=True)) == {(7, 9), (0, -1)}
    calm = generate({**spec, "urgent": None}, 5).jobs
    assert (calm.work_us == jobs.work_us).all()
    assert (calm.app == jobs.app).all()


def test_load_and_deadline_factors_change_neither_the_jobs_nor_who_is_urgent() -> None:
    first = drawn("nvme-s1", load=0.5)
    for other in (drawn("nvme-s1", load=0.9), drawn("nvme-s1", urgent={"deadline_factor": 2}, deadline_factor=5)):
        assert (other.app == first.app).all()
        assert (other.priority == first.priority).all()
    factor = (other.deadline_us - other.submit_us) / other.work_us
    assert factor == pytest.approx(np.where(other.priority == 1, 2, 5))


def test_other_arrivals_can_be_chosen() -> None:
    even = drawn("nvme-s1", arrivals={"kind": "fixed"})
    assert np.ptp(np.diff(even.submit_us)) <= 1
    assert (even.work_us * even.cores).sum() / (125 * even.submit_us[-1]) == pytest.approx(0.7)
    given = generate({"scenario": "nvme-s1", "arrivals": {"gap_s": 172.8}}).jobs
    assert given.submit_us[-1] == 1500 * 172_800_000


def test_a_scenario_is_a_specification_like_any_other() -> None:
    spec = scenario("nvme-s2", 0.8, jobs=100, users=4)
    assert (
        generate(spec, 3).jobs.digest()
        == generate({"scenario": "nvme-s2", "load": 0.8, "jobs": 100, "users": 4}, 3).jobs.digest()
    )
    assert generate({"scenario": "nvme-s2", "load": 0.8}).name == "nvme-s2"
    assert spec.arrivals.capacity == {"cores": 125, **{key: 10 * amount for key, amount in NVME.items()}}
    assert scenario("vgpu-s2", 0.8, nvme_devices=3).arrivals.capacity["gpu.memory_mb"] == GPU["gpu.memory_mb"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"scenario": "nvme-s4", "load": 0.7}, "nvme-s3"),
        ({"scenario": 3, "load": 0.7}, "nvme-s1"),
        ({"scenario": "nvme-s1"}, "a load, or arrivals with"),
        ({"scenario": "nvme-s1", "load": 0.7, "arrivals": {"gap_s": 5}}, "a load, or arrivals with"),
        ({"scenario": "nvme-s1", "load": 0}, "generate, load"),
        ({"scenario": "nvme-s1", "load": 0.7, "jobs": 0}, "generate, jobs"),
        ({"scenario": "nvme-s1", "load": 0.7, "classes": []}, "one of load, jobs, cores"),
        ({"scenario": "nvme-s1", "load": 0.7, "urgent": {"share": 1.5}}, "urgent.share"),
        ({"scenario": "nvme-s1", "load": 0.7, "urgent": {"factor": 1.5}}, "urgent.factor"),
        ({"scenario": "nvme-s1", "load": 0.7, "deadline_factor": -1}, "deadline_factor"),
        ({"scenario": "nvme-s1", "load": 0.7, "load_of": "gpu"}, "load_of"),
        ({"scenario": "nvme-s1", "load": 0.7, "arrivals": {"kind": "mmpp"}}, "burst_ratio"),
        ({"scenario": "nvme-s1", "load": 0.7, "arrivals": "often"}, "arrivals"),
    ],
)
def test_a_wrong_option_of_a_scenario_is_refused_with_its_key(spec: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        generate(spec)
    assert words in str(caught.value)
