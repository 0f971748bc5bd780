"""How well a set predicts itself."""

from __future__ import annotations

import math

import pytest
from applications import pair, profile, straight, worked

from unrack.errors import InputError
from unrack.slowdown.contention.profile import Curve, ProfileSet
from unrack.slowdown.contention.profile_file import synthetic_profiles
from unrack_papers.zacarias.left_out import LeftOut, Miss, leave_one_out, prediction_table, thirds


def test_straight_curves_are_predicted_without_error_by_every_method() -> None:
    for method in ("line", "quadratic", "interpolate"):
        found = leave_one_out(worked(), method)
        assert len(found.misses) == 10
        assert found.greatest < 1e-9


def test_a_point_off_the_line_misses_by_what_a_hand_finds() -> None:
    points = ((0.0, 1.0), (1000.0, 0.7), (2000.0, 0.8), (3000.0, 0.7))
    profiles = ProfileSet((profile(1),), (Curve(1, 1, 50, 1, False, points), straight(1, 1, 100, 1, 0.3, top=3000.0)))
    found = leave_one_out(profiles, "interpolate")
    assert [miss.error for miss in found.misses] == pytest.approx([20.0, 10.0, 0.0])
    assert (found.mean, found.greatest) == pytest.approx((10.0, 20.0))
    assert found.deviation == pytest.approx(math.sqrt(200 / 3))
    assert found.of_applications() == {1: pytest.approx((10.0, 20.0))}
    assert len(leave_one_out(profiles, "interpolate", ends=True).misses) == 5


def test_the_95th_percentile_is_that_of_a_plain_count_and_some_applications_can_be_taken() -> None:
    curves = [straight(app, 1, 50, 1, 0.3) for app in (1, 2)]
    misses = [Miss(curves[i % 2], 1000.0, 1.0, 1.0 - i / 100) for i in range(21)]
    found = LeftOut("line", "right", tuple(misses))
    assert found.nearly_greatest == pytest.approx(19.0)  # errors are 0, 1 … 20 points: one of 20 lies above
    assert [miss.error for miss in found.only({2}).misses] == pytest.approx(range(1, 21, 2))
    assert math.isnan(found.only(set()).nearly_greatest)


def test_applications_are_parted_by_their_largest_loss_of_speed() -> None:
    drops = {1: 0.5, 2: 0.1, 3: 0.3, 4: 0.3, 5: 0.0, 6: 0.2, 7: 0.9}
    local = [straight(app, 1, reads, 1, drop) for app, drop in drops.items() for reads in (50, 100)]
    large = [straight(2, 4, reads, 1, 0.95) for reads in (50, 100)]
    profiles = ProfileSet((*(profile(app) for app in drops), profile(2, 4)), tuple(local + large))
    assert thirds(profiles, nodes=(1,)) == ({5, 2}, {6, 3, 4}, {1, 7})
    assert thirds(profiles)[2] == {7, 2}


def test_the_wrong_read_share_misses_by_the_distance_between_the_curves() -> None:
    profiles = ProfileSet((profile(1),), tuple(pair(1, 1, 1, (0.4, 0.2))))
    for reads, errors in (("right", [0, 0]), ("50", [0, 10]), ("100", [10, 0]), ("75", [5, 5])):
        found = leave_one_out(profiles, "line", reads)
        assert [miss.error for miss in found.misses] == pytest.approx(errors, abs=1e-9)
    assert leave_one_out(profiles, "memgen", "75").mean == pytest.approx(5)


def test_counts_and_sizes_on_a_straight_line_are_predicted_exactly() -> None:
    sizes = {1: 0.1, 3: 0.2, 5: 0.3}
    curves = [curve for nodes, drop in sizes.items() for count in range(1, nodes + 1, 2)
              for curve in pair(1, nodes, count, (drop, drop), (drop, drop))]  # fmt: skip
    profiles = ProfileSet(tuple(profile(1, nodes) for nodes in sizes), tuple(curves))
    by_count, by_nodes = (leave_one_out(profiles, left=left) for left in ("count", "nodes"))
    assert {miss.curve.interfering for miss in by_count.misses} == {3}
    assert {miss.curve.nodes for miss in by_nodes.misses} == {3}
    assert max(by_count.greatest, by_nodes.greatest) < 1e-9


def test_an_application_without_its_curves_runs_on_anothers() -> None:
    twins = ProfileSet((profile(1), profile(2)), (*pair(1, 1, 1, (0.2, 0.2)), *pair(2, 1, 1, (0.2, 0.2))))
    assert leave_one_out(twins, left="curves").greatest < 1e-9
    assert leave_one_out(twins, left="curves", fallback="none").greatest == pytest.approx(20.0)


def test_nothing_left_out_is_no_number() -> None:
    nothing = LeftOut("line", "right", ())
    assert all(math.isnan(value) for value in (nothing.mean, nothing.deviation, nothing.greatest))


@pytest.mark.parametrize("wrong", [("memgen", "right", "point"), ("cubic", "right", "point"),
                                   ("line", "50", "count"), ("line", "right", "lines")])  # fmt: skip
def test_what_does_not_go_together_is_refused(wrong) -> None:
    with pytest.raises(InputError):
        leave_one_out(worked(), *wrong)


def test_our_own_set_is_curved_so_that_a_parabola_predicts_it_better_than_a_line() -> None:
    table = {(row.method, row.reads): row for row in prediction_table(synthetic_profiles())}
    assert len(table) == 13
    assert table["quadratic", "right"].mean < table["line", "right"].mean < table["line", "100"].mean


@pytest.mark.needs_data
def test_measured_curves_are_predicted_about_as_well_as_the_thesis_says(data) -> None:
    from unrack.slowdown.contention.profile_file import read_profiles

    profiles = read_profiles(data / "profiles")
    right = leave_one_out(profiles, "line", nodes=[1])
    memgen = leave_one_out(profiles, "memgen", "75", nodes=[1])
    assert len(right.misses) == len(memgen.misses) == 204
    assert right.mean < memgen.mean < 1.56
    assert right.greatest < memgen.greatest < 21.6
