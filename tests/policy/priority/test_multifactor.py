"""Multifactor priorities: numbers that were published, each factor by itself, and a plain sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from unrack.errors import InputError
from unrack.policy.priority.multifactor import DAY_US, FACTORS, HIGHEST, Jobs, Whole, priorities, size_factors
from unrack.resources.site.keys import PriorityFile

MINUTE_US = 60_000_000
WHOLE = Whole(nodes=10, cores=100, partition=3, qos=4, association=5, tres={"memory_gb": 8})


def jobs(**columns: Any) -> Jobs:
    kinds = columns.pop("tres", {"memory_gb": 0})
    size = np.broadcast_shapes(*(np.shape(column) or (1,) for column in (*columns.values(), *kinds.values())))
    known = {name: np.broadcast_to(columns.get(name, 0), size) for name in Jobs._fields if name != "tres"}
    return Jobs(**known, tres={kind: np.broadcast_to(amount, size) for kind, amount in kinds.items()})


def one(weights: PriorityFile, whole: Whole = WHOLE, **columns: Any) -> list[int]:
    return priorities(weights, jobs(**columns), whole).tolist()


def test_a_priority_that_slurm_logged() -> None:
    """University of Michigan, cluster Gollum, job 1601032: 4228.92 + 1058.42 + 9965.10 + 20000.00 - 2500."""
    weights = PriorityFile(age=16800, fair_share=25000, job_size=10000, partition=30000, qos=25000,
                           max_age=1, favor_small=True)  # fmt: skip
    whole = WHOLE._replace(nodes=100_000, cores=100_000)
    row = {"waited_us": 251_721, "fair_share": 0.042337, "nodes": 349, "cores": 349, "partition": 2, "nice": 2500}
    assert one(weights, whole, **row) == [32752]


def test_age_grows_up_to_the_longest() -> None:
    week = 7 * DAY_US
    assert one(PriorityFile(age=1000), waited_us=np.array([0, week // 2, week, 9 * week])) == [1, 500, 1000, 1000]


def test_the_whole_cluster_has_size_1_and_small_jobs_may_be_favoured() -> None:
    rows = {"nodes": np.array([10, 5, 1]), "cores": np.array([100, 10, 10])}
    assert size_factors(PriorityFile(), jobs(**rows), WHOLE).tolist() == pytest.approx([1.0, 0.3, 0.1])
    assert size_factors(PriorityFile(favor_small=True), jobs(**rows), WHOLE).tolist() == pytest.approx([0.0, 0.7, 0.9])


def test_size_relative_to_time() -> None:
    rows = {"cores": np.array([100, 100, 1, 100]), "limit_us": np.array([1, 10, 1000, 0]) * MINUTE_US}
    weights = PriorityFile(small_relative_to_time=True)
    assert size_factors(weights, jobs(**rows), WHOLE).tolist() == pytest.approx([1.0, 0.1, 1e-5, 1.0])


def test_priorities_of_partition_qos_and_association_are_relative_to_the_highest() -> None:
    weights = PriorityFile(partition=300, qos=400, association=500)
    assert one(weights, partition=1, qos=1, association=1) == [300]
    assert one(weights, WHOLE._replace(partition=0, qos=0, association=0), partition=1) == [1]


def test_kinds_of_resources_have_weights_by_name() -> None:
    assert one(PriorityFile(tres={"memory_gb": 1000}), tres={"memory_gb": np.array([0, 2, 8])}) == [1, 250, 1000]
    with pytest.raises(InputError, match="nodes"):
        one(PriorityFile(tres={"nodes": 1000}))


def test_a_priority_is_rounded_down_and_stays_above_held() -> None:
    weights = PriorityFile(fair_share=10)
    assert one(weights, fair_share=np.array([0.59534, 0.50002])) == [5, 5]
    assert one(weights, fair_share=1.0, nice=np.array([3, 10, 99, -5, -(2**40)])) == [7, 1, 1, 15, HIGHEST]


@pytest.mark.parametrize(
    "wrong", [{"age": -1}, {"qos": 2**32}, {"tres": {"cores": -0.5}}, {"tres": {"cores": float("inf")}}, {"max_age": 0}]
)
def test_weights_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        PriorityFile(**wrong)


NUMBER = st.integers(0, 200)


@given(
    st.lists(st.tuples(*[NUMBER] * 8, st.integers(-50, 50)), min_size=1, max_size=5),
    st.lists(NUMBER, min_size=7, max_size=7),
)
def test_many_jobs_have_the_priorities_of_each(rows: list[tuple[int, ...]], numbers: list[int]) -> None:
    *six, gpu = numbers
    weights = PriorityFile(**dict(zip(FACTORS, six, strict=True)), tres={"memory_gb": gpu}, max_age=0.0001)
    columns = np.array(rows, np.int64).T
    names = ("waited_us", "fair_share", "nodes", "cores", "partition", "qos", "association")
    table = dict(zip(names, columns, strict=False))
    table["fair_share"] = table["fair_share"] / 200
    found = one(weights, **table, tres={"memory_gb": columns[7]}, nice=columns[8])
    for row, priority in zip(rows, found, strict=True):
        waited, share, nodes, cores, partition, qos, association, gpus, nice = row
        factors = [waited / 100, share / 200, 0, partition / 3, qos / 4, association / 5]
        factors[2] = (min(nodes / 10, 1) + min(cores / 100, 1)) / 2
        total = sum(weight * min(factor, 1) for weight, factor in zip(six, factors, strict=True))
        total += gpu * min(gpus / 8, 1) - nice
        assert priority in {max(1, int(total + nudge)) for nudge in (-1e-6, 1e-6)}


def test_no_jobs_have_no_priorities() -> None:
    nobody = jobs(**{name: np.zeros(0, np.int64) for name in Jobs._fields if name != "tres"})
    assert priorities(PriorityFile(**dict.fromkeys(FACTORS, 1)), nobody, WHOLE).tolist() == []
