from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import gpu_lists as lists
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unrack
from unrack.errors import InputError
from unrack.workload.filters import SEEDED, filtered
from unrack.workload.formats.readers import read_trace
from unrack.workload.formats.source import Source
from unrack.workload.job import Workload

S = 1_000_000


def pods() -> Workload:
    return read_trace(Source("jobs.csv", lists.JOBS.encode()))


def drawn(at: int = 0, **keys: Any) -> Workload:
    """Drawn in a study of the seed ``at``."""
    return filtered(pods(), {"resample": keys}, at)


def milli(made: Workload) -> list[int]:
    """Thousandths of GPUs of each job."""
    part = made.jobs.devices["gpus", "milli"]
    return (made.jobs.devices["gpus", "count"] * np.where(part == 0, 1000, part)).tolist()


@given(st.integers(0, 2**20), st.floats(0.5, 3000))
def test_jobs_are_drawn_until_the_gpus_first_reach_the_share(seed: int, share: float) -> None:
    asked = milli(drawn(seed, of=3, share=share))
    assert sum(asked) >= 3000 * Fraction(str(share)) > sum(asked) - asked[-1]


def test_a_share_that_is_met_exactly_is_enough() -> None:
    one = read_trace(Source("jobs.csv", (lists.HEADER + "a,0,1,1,0,1,0,\n").encode()))
    made = filtered(one, {"resample": {"of": 10, "share": 1.3}})
    assert len(made) == 13


def test_jobs_get_new_names_and_come_one_a_second() -> None:
    made = drawn(of=50)
    count = len(made)
    assert made.jobs.ids.to_list() == list(range(count))
    assert made.jobs.submit_us.tolist() == [second * S for second in range(count)]
    origin = made.jobs.extra["drawn_from"].to_list()
    cores = dict(zip("abcd", (12, 7, 1, 96), strict=True))
    assert made.jobs.cores.tolist() == [cores[name] for name in origin]
    assert set(origin) == set("abcd")
    assert made.intake.changed["drawn again"] == count == made.intake.kept
    assert made.intake.header["Filters"] == f"drawn until gpus reach 1.3 × 50: {count} jobs of 4"


def test_every_job_of_the_list_is_as_likely() -> None:
    origin = drawn(of=40_000).jobs.extra["drawn_from"].to_list()
    for name in "abcd":
        assert origin.count(name) / len(origin) == pytest.approx(0.25, abs=0.015)


def test_times_of_the_list_are_kept_on_request_and_deadlines_move_along() -> None:
    text = "id,submit,run,deadline\na,100,5,150\nb,40,5,\n"
    workload = read_trace(Source("jobs.csv", text.encode()))
    kept = filtered(workload, {"resample": {"amount": "cores", "of": 20, "share": 1, "keep_times": True}}, 3)
    origin = kept.jobs.extra["drawn_from"].to_list()
    assert origin == sorted(origin, reverse=True)  # b was submitted before a
    assert set(kept.jobs.submit_us.tolist()) == {40 * S, 100 * S}
    moved = filtered(workload, {"resample": {"amount": "cores", "of": 20, "share": 1}}, 3)
    for since, due, name in zip(
        moved.jobs.submit_us, moved.jobs.deadline_us, moved.jobs.extra["drawn_from"], strict=True
    ):
        assert due == (since + 50 * S if name == "a" else -1)


def test_the_seed_of_the_study_draws_anew_unless_one_is_given() -> None:
    assert "resample" in SEEDED
    first, same, other = (drawn(seed, of=50).jobs.digest() for seed in (1, 1, 2))
    assert first == same != other
    assert drawn(1, of=50, seed=7).jobs.digest() == drawn(2, of=50, seed=7).jobs.digest()


@pytest.mark.parametrize(
    ("amount", "of"), [("cores", 500), ("memory_mb", 10**6), ("gpus.count", 60), ("gpus.milli", 5000)]
)
def test_any_amount_that_jobs_ask_for_can_be_added_up(amount: str, of: int) -> None:
    jobs = drawn(amount=amount, of=of, share=1).jobs
    column = {"cores": jobs.cores, "memory_mb": jobs.memory_mb}.get(amount)
    asked = jobs.devices["gpus", amount.partition(".")[2]] if column is None else column
    assert asked.sum() >= of > asked[:-1].sum()


@pytest.mark.parametrize(
    ("value", "where"),
    [({"of": 0}, "filter resample.of"), ({}, "filter resample.of"), ({"of": 3, "share": -1}, "filter resample.share"),
     ({"of": 3, "amount": "nvme.devices"}, "filter resample.amount"), ({"of": 3, "gpus": 1}, "filter resample.gpus"),
     ({"of": 1e12}, "filter resample"), (1.3, "filter resample")],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused(value: Any, where: str) -> None:
    with pytest.raises(InputError) as caught:
        filtered(pods(), {"resample": value})
    assert (caught.value.where, caught.value.exit_code) == (where, 2)


def test_a_list_that_asks_for_none_of_it_is_refused() -> None:
    workload = read_trace(Source("jobs.csv", b"id,submit,run\na,0,5\n"))
    with pytest.raises(InputError, match="at most 10000000 jobs"):
        filtered(workload, {"resample": {"amount": "memory_mb", "of": 1}})


def test_replicas_are_not_drawn_one_by_one() -> None:
    workload = unrack.generate({"servers": 20, "replicas": {"share": 0.5}})
    with pytest.raises(InputError, match="replicas"):
        filtered(workload, {"resample": {"amount": "cores", "of": 100}})


def test_a_study_draws_other_jobs_for_every_seed(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(re.sub(r",\d+,\d+,$", ",0,0,", lists.JOBS, flags=re.MULTILINE))
    (tmp_path / "study.toml").write_text("""
seeds = [1, 2]
policies = ["fcfs"]
[[clusters]]
nodes = [{ count = 4, cores = 128, memory = "1 TB" }]
[[workloads]]
trace = "jobs.csv"
resample = { amount = "cores", of = 512 }
""")
    from unrack.study.grid import load_study

    runs = load_study(str(tmp_path / "study.toml")).runs
    assert [run.seed for run in runs] == [1, 2]
    first, second = (run.workload.jobs.extra["drawn_from"].to_list() for run in runs)
    assert first != second


def test_published_pods_make_ten_orders_of_130_per_cent_of_the_gpus(data: Path) -> None:
    workload = read_trace(data / "gpu" / "openb_pod_list_default.csv", cpu="milli")
    asked = [milli(filtered(workload, {"resample": {"of": 6212}}, seed)) for seed in range(3)]
    assert all(8075.6e3 <= sum(one) <= 8075.6e3 + 8000 for one in asked)
    assert len({tuple(one[:50]) for one in asked}) == 3


@pytest.mark.parametrize("columns", ["gpus.milli", "gpus.count,gpus.milli"])
def test_a_part_alone_is_a_part_of_one_gpu(columns: str) -> None:
    text = f"id,submit,run,{columns}\na,0,5,{'0,' * columns.count(',')}500\n"
    made = filtered(read_trace(Source("jobs.csv", text.encode())), {"resample": {"of": 10, "share": 1}})
    assert len(made) == 20
