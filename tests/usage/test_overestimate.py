from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from curves_by_hand import usage_curves

from unrack.errors import InputError
from unrack.workload.filters import filtered
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table
from unrack.workload.usage.settings import ask_for_more

S = 1_000_000


def made(count: int = 4, users: list[str | None] | None = None) -> Workload:
    jobs = job_table(
        submit_us=np.arange(count) * S,
        work_us=np.full(count, S),
        tasks=np.ones(count, np.int64),
        memory_mb=np.arange(1, count + 1) * 100,
        user=None if users is None else pl.Series(users),
    )
    return Workload("made", jobs, Intake("test", "generated", count, count))


def test_all_ask_for_more_by_a_share_and_use_what_they_asked_for() -> None:
    found = ask_for_more(made(), 0.6)
    assert found.jobs.memory_mb.tolist() == [160, 320, 480, 640]
    assert found.jobs.usage is not None
    assert found.jobs.usage.mb.tolist() == [100, 200, 300, 400]
    assert found.jobs.extra["overestimate"].to_list() == [0.6] * 4
    assert found.intake.header["Filters"] == "requests 0.6 above use: 4 of 4 jobs ask for more"


def test_a_tenth_of_a_hundred_is_ten_and_parts_of_a_megabyte_round_up() -> None:
    assert ask_for_more(made(3), 0.1).jobs.memory_mb.tolist() == [110, 220, 330]
    assert ask_for_more(made(1), 0.001).jobs.memory_mb.tolist() == [101]


def test_curves_that_jobs_have_stay() -> None:
    workload = made(2)
    usage = usage_curves([[[(0, 10), (0.5, 100)]], []])
    found = ask_for_more(replace(workload, jobs=replace(workload.jobs, usage=usage)), 1.0)
    assert found.jobs.usage is not None
    assert found.jobs.usage.mb.tolist() == [10, 100, 200]


def test_exact_requests_change_nothing_but_the_column() -> None:
    found = ask_for_more(made(), 0)
    assert found.jobs.usage is None
    assert found.jobs.memory_mb.tolist() == [100, 200, 300, 400]


def test_a_cap_holds_requests_at_the_largest_node_and_takes_nothing_away() -> None:
    assert ask_for_more(made(), {"share": 1.0, "cap": 350}).jobs.memory_mb.tolist() == [200, 350, 350, 400]


def test_independent_shares_are_even_and_follow_the_seed() -> None:
    evenly = {"uniform": [0, 1]}
    found = ask_for_more(made(20_000), evenly, seed=3)
    share = found.jobs.extra["overestimate"].to_numpy()
    assert abs(share.mean() - 0.5) < 0.01
    assert 0 <= share.min() < 0.01
    assert 0.99 < share.max() < 1
    assert abs(np.corrcoef(share, np.arange(20_000))[0, 1]) < 0.02
    assert ask_for_more(made(), evenly, 3).jobs.digest() == ask_for_more(made(), evenly, 3).jobs.digest()
    assert ask_for_more(made(), evenly, 3).jobs.digest() != ask_for_more(made(), evenly, 4).jobs.digest()


def test_users_ask_for_more_each_by_a_share() -> None:
    found = ask_for_more(made(4, ["ann", "bob", "ann", None]), {"users": {"ann": 1.0}, "others": 0.5})
    assert found.jobs.memory_mb.tolist() == [200, 300, 600, 600]


def test_careless_users_are_so_in_all_their_jobs() -> None:
    names = [f"u{k % 10}" for k in range(200)]
    found = ask_for_more(made(200, names), {"careless": 0.3, "by": 1.0}, seed=2)
    by_name = found.jobs.extra.with_columns(user=pl.Series(names)).group_by("user").agg(pl.col("overestimate").unique())
    shares = [one for (one,) in by_name["overestimate"].to_list()]
    assert sorted(shares) == [0.0] * 7 + [1.0] * 3


def test_careless_jobs_are_as_many_as_said() -> None:
    found = ask_for_more(made(100), {"careless": 0.25, "by": 0.5, "of": "jobs"}, seed=1)
    assert sorted(found.jobs.extra["overestimate"].to_list()) == [0.0] * 75 + [0.5] * 25
    assert found.jobs.usage is not None
    assert int(found.jobs.usage.curves.sum()) == 25


@pytest.mark.parametrize(
    "value",
    [-0.1, "much", True, float("nan"), {}, {"uniform": [1, 0]}, {"uniform": [0]}, {"users": {"eve": 1}}, {"others": 1},
     {"careless": 2}, {"careless": 0.5}, {"careless": 0.5, "of": "nodes"}, {"share": 1, "by": 2}, {"sharp": 1},
     {"share": 1, "cap": "lots"}],
)  # fmt: skip
def test_values_that_cannot_be_are_refused(value: Any) -> None:
    with pytest.raises(InputError):
        filtered(made(), {"overestimate": value})


def test_overestimates_of_a_filter_draw_by_the_seed_of_the_study_unless_they_have_their_own() -> None:
    def shares(value: Any, seed: int) -> list[float]:
        return filtered(made(), {"overestimate": value}, seed).jobs.extra["overestimate"].to_list()

    assert shares({"uniform": [0, 1]}, 1) != shares({"uniform": [0, 1]}, 2)
    assert shares({"uniform": [0, 1], "seed": 5}, 1) == shares({"uniform": [0, 1], "seed": 5}, 2)
