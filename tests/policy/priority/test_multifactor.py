"""Multifactor priorities: numbers that were published, each factor by itself, and a plain sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unrack.errors import InputError
from unrack.policy.priority.multifactor import DAY_US, HIGHEST, Jobs, Multifactor, Whole, priorities, size_factors

MINUTE_US = 60_000_000
WHOLE = Whole(nodes=10, cores=100, partition=3, qos=4, association=5, tres={"gpu": 8})


def jobs(**columns: Any) -> Jobs:
    kinds = columns.pop("tres", {"gpu": 0})
    size = np.broadcast_shapes(*(np.shape(column) or (1,) for column in (*columns.values(), *kinds.values())))
    known = {name: np.broadcast_to(columns.get(name, 0), size) for name in Jobs._fields if name != "tres"}
    return Jobs(**known, tres={kind: np.broadcast_to(amount, size) for kind, amount in kinds.items()})


def one(weights: Multifactor, whole: Whole = WHOLE, **columns: Any) -> list[int]:
    return priorities(weights, jobs(**columns), whole).tolist()


def test_a_priority_that_slurm_logged() -> None:
    """University of Michigan, cluster Gollum, job 1601032: 4228.92 + 1058.42 + 9965.10 + 20000.00 - 2500."""
    weights = Multifactor(16800, 25000, 10000, 30000, 25000, max_age_us=1_000_000, favor_small=True)
    whole = WHOLE._replace(nodes=100_000, cores=100_000)
    row = {"waited_us": 251_721, "fair_share": 0.042337, "nodes": 349, "cores": 349, "partition": 2, "nice": 2500}
    assert one(weights, whole, **row) == [32752]


def test_age_grows_up_to_the_longest() -> None:
    week = 7 * DAY_US
    assert one(Multifactor(age=1000), waited_us=np.array([0, week // 2, week, 9 * week])) == [1, 500, 1000, 1000]


def test_the_whole_cluster_has_size_1_and_small_jobs_may_be_favoured() -> None:
    rows = {"nodes": np.array([10, 5, 1]), "cores": np.array([100, 10, 10])}
    assert size_factors(Multifactor(), jobs(**rows), WHOLE).tolist() == pytest.approx([1.0, 0.3, 0.1])
    assert size_factors(Multifactor(favor_small=True), jobs(**rows), WHOLE).tolist() == pytest.approx([0.0, 0.7, 0.9])


def test_size_relative_to_time() -> None:
    rows = {"cores": np.array([100, 100, 1, 100]), "limit_us": np.array([1, 10, 1000, 0]) * MINUTE_US}
    weights = Multifactor(small_relative_to_time=True)
    assert size_factors(weights, jobs(**rows), WHOLE).tolist() == pytest.approx([1.0, 0.1, 1e-5, 1.0])


def test_priorities_of_partition_qos_and_association_are_relative_to_the_highest() -> None:
    weights = Multifactor(partition=300, qos=400, association=500)
    assert one(weights, partition=1, qos=1, association=1) == [300]
    assert one(weights, WHOLE._replace(partition=0, qos=0, association=0), partition=1) == [1]


def test_kinds_of_resources_have_weights_by_name() -> None:
    assert one(Multifactor(tres={"gpu": 1000}), tres={"gpu": np.array([0, 2, 8])}) == [1, 250, 1000]
    with pytest.raises(InputError, match="gpu"):
        one(Multifactor(tres={"gpus": 1000}))


def test_a_priority_is_rounded_down_and_stays_above_held() -> None:
    weights = Multifactor(fair_share=10)
    assert one(weights, fair_share=np.array([0.59534, 0.50002])) == [5, 5]
    assert one(weights, fair_share=1.0, nice=np.array([3, 10, 99, -5, -(2**40)])) == [7, 1, 1, 15, HIGHEST]


@pytest.mark.parametrize("wrong", [{"age": -1}, {"qos": 2**32}, {"tres": {"gpu": -0.5}}, {"max_age_us": 0}])
def test_weights_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"multifactor, {next(iter(wrong))}"):
        Multifactor(**wrong)


NUMBER = st.integers(0, 200)


@given(
    st.lists(st.tuples(*[NUMBER] * 8, st.integers(-50, 50)), min_size=1, max_size=5),
    st.lists(NUMBER, min_size=7, max_size=7),
)
def test_many_jobs_have_the_priorities_of_each(rows: list[tuple[int, ...]], numbers: list[int]) -> None:
    *six, gpu = numbers
    weights = Multifactor(*six, tres={"gpu": gpu}, max_age_us=100)
    columns = np.array(rows, np.int64).T
    names = ("waited_us", "fair_share", "nodes", "cores", "partition", "qos", "association")
    table = dict(zip(names, columns, strict=False))
    table["fair_share"] = table["fair_share"] / 200
    found = one(weights, **table, tres={"gpu": columns[7]}, nice=columns[8])
    for row, priority in zip(rows, found, strict=True):
        waited, share, nodes, cores, partition, qos, association, gpus, nice = row
        factors = [waited / 100, share / 200, 0, partition / 3, qos / 4, association / 5]
        factors[2] = (min(nodes / 10, 1) + min(cores / 100, 1)) / 2
        total = sum(weight * min(factor, 1) for weight, factor in zip(six, factors, strict=True))
        total += gpu * min(gpus / 8, 1) - nice
        assert priority in {max(1, int(total + nudge)) for nudge in (-1e-6, 1e-6)}


def test_no_jobs_have_no_priorities() -> None:
    nobody = jobs(**{name: np.zeros(0, np.int64) for name in Jobs._fields if name != "tres"})
    assert priorities(Multifactor(1, 1, 1, 1, 1, 1), nobody, WHOLE).tolist() == []
