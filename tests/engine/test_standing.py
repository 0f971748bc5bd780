"""Which rows may be compared, and when one is better than another."""

from __future__ import annotations

import numpy as np
import pytest

from unrack.metric.estimate import ComparedRow, difference, estimate, marks, served_less, standings, student_t, world_of


def entry(
    waits: list[float | None], *, world: str = "", served: float = 1.0, jobs: tuple[int, int] = (10, 0)
) -> ComparedRow:
    counts = {"served": served, "jobs_finished": jobs[0], "jobs_rejected": jobs[1]}
    return ComparedRow({seed: {"wait": wait, **counts} for seed, wait in enumerate(waits)}, world)


@pytest.mark.parametrize(
    ("better", "means", "best"),
    [
        ("low", (3, 1, 2), "b"),
        ("high", (3, 1, 2), "a"),
        ("low", (2, 1, 1), "bc"),
        ("low", (1, 1, 1), ""),
        ("", (1, 2, 3), ""),
    ],
)
def test_with_one_seed_the_best_follows_the_direction_and_ties_are_all_best(
    better: str, means: tuple[int, ...], best: str
) -> None:
    rows = {name: entry([float(mean)]) for name, mean in zip("abc", means, strict=True)}
    assert marks(rows, "wait", better) == dict.fromkeys(best, "best")


def test_differences_are_taken_seed_by_seed() -> None:
    found = difference({0: 5.0, 1: 105.0, 2: 55.0, 9: 0.0}, {0: 4.0, 1: 103.0, 2: 52.0, 8: 7.0})
    assert found is not None
    assert (found.mean, found.count) == (2.0, 3)
    assert found.half == pytest.approx(4.303 / 3**0.5, rel=1e-4)
    assert difference({0: 1.0}, {1: 1.0}) is None
    one = difference({0: 1.0}, {0: 0.0})
    assert one is not None
    assert not one.excludes_0


def test_the_points_of_student_s_distribution_are_those_of_the_tables() -> None:
    assert [round(student_t(degrees, 0.95), 3) for degrees in (1, 2, 10, 30)] == [12.706, 4.303, 2.228, 2.042]
    assert round(student_t(4, 0.99), 3) == 4.604


def test_noise_marks_those_that_are_not_told_apart_and_only_where_some_row_is_worse() -> None:
    rows = {"a": entry([1.0, 2.0, 3.0, 4.0]), "b": entry([2.0, 1.5, 3.5, 4.2]), "c": entry([90.0, 91.0, 92.0, 93.0])}
    assert marks(rows, "wait", "low") == {"a": "among", "b": "among"}
    assert marks(rows, "wait", "high") == {"c": "best"}
    del rows["c"]
    assert marks(rows, "wait", "low") == {}


def test_a_row_that_lacks_seeds_makes_no_worse_row_the_best_of_the_others() -> None:
    rows = {"a": entry([1.0, 1.0, *[9.0, 9.1] * 4]), "b": entry([2.0, 2.0, *[1.0, 1.1] * 4]), "c": entry([5.0, 5.0])}
    assert marks(rows, "wait", "low").get("a") != "best"
    rows["b"] = entry([1.0, 1.0, *[5.0, 5.1] * 4])
    assert marks(rows, "wait", "low").get("a") != "best"


def test_the_more_rows_are_compared_the_wider_the_intervals() -> None:
    """A difference that suffices between two rows is not enough once nine others could have been best by chance."""
    rows = {"a": entry([1.0, 2.0, 3.0, 4.0]), "b": entry([1.5, 2.8, 3.4, 4.9])}
    assert marks(rows, "wait", "low") == {"a": "best"}
    many = {**rows, **{f"far {k}": entry([1e3 + k, 1001.0 + k, 1002.0 + k, 1003.0 + k]) for k in range(9)}}
    assert marks(many, "wait", "low")["b"] == "among"


def test_rows_that_are_equally_good_get_a_mark_by_chance_no_oftener_than_the_level_allows() -> None:
    rng, wrong, rounds = np.random.Generator(np.random.PCG64(1)), 0, 300
    for _ in range(rounds):
        jobs = rng.normal(100, 50, 5)  # the same for all
        rows = {name: entry(list(jobs + rng.normal(0, 10, 5))) for name in "abcd"}
        found = marks(rows, "wait", "low")
        wrong += bool(found) and "a" not in found  # a is among the truly best, as all are
    assert wrong / rounds < 0.05


def test_rows_that_served_less_core_time_or_fewer_jobs_on_any_seed_win_nothing() -> None:
    whole, half = entry([9.0]), entry([1.0], served=0.5)
    assert served_less({"whole": whole, "half": half}) == {"half": 0.5}
    assert marks({"whole": whole, "half": half, "worse": entry([12.0])}, "wait", "low") == {"whole": "best"}
    assert marks({"whole": whole, "half": half}, "wait", "low") == {}
    few = entry([1.0], jobs=(9, 1))  # all core-time, as the job refused asked for none
    assert served_less({"whole": whole, "few": few}) == {"few": 0.9}
    later = ComparedRow({0: {"wait": 1.0, "served": 1.0}, 1: {"wait": 1.0, "served": 0.99}})
    assert list(served_less({"whole": entry([9.0, 9.0]), "later": later})) == ["later"]


def test_a_metric_that_counts_the_unserved_compares_all() -> None:
    rows = {"whole": entry([9.0]), "half": entry([1.0], served=0.5, jobs=(5, 5))}
    assert marks(rows, "served", "high") == {"whole": "best"}
    assert marks(rows, "jobs_rejected", "low") == {"whole": "best"}


def test_rows_of_a_study_without_the_metric_served_are_judged_by_their_jobs() -> None:
    rows = {
        "all": ComparedRow({0: {"wait": 9.0, "jobs_finished": 4}}),
        "some": ComparedRow({0: {"wait": 1.0, "jobs_finished": 3, "jobs_queued": 1}}),
    }
    assert served_less(rows) == {"some": 0.75}


def test_only_rows_of_one_world_compete() -> None:
    rows = {"a": entry([1.0], world="base"), "b": entry([2.0]), "c": entry([3.0]), "d": entry([0.5], served=0.9)}
    assert marks(rows, "wait", "low") == {"b": "best"}
    assert [(own.world, list(own.values)) for own in standings(rows, "wait", "low")] == [
        ("base", ["a"]),
        ("", ["b", "c"]),
    ]
    assert world_of({}) == world_of({"world": None}) == ""
    assert world_of({"world": {"models": []}}) == world_of({"world": {"models": []}}) != world_of({"world": "x"})


def test_a_row_without_values_is_not_compared_and_one_without_common_seeds_gets_no_mark() -> None:
    assert marks({"a": entry([1.0]), "b": entry([None])}, "wait", "low") == {}
    apart = {"a": ComparedRow({0: {"wait": 1.0}}), "b": ComparedRow({1: {"wait": 2.0}})}
    assert marks(apart, "wait", "low") == {}


def test_a_mean_of_one_value_has_no_interval() -> None:
    found = estimate([3.0])
    assert found is not None
    assert (found.mean, found.half, found.count, found.excludes_0) == (3.0, 0.0, 1, False)
