"""Every rule of the prediction, on numbers worked out by hand."""

from __future__ import annotations

import pytest
from applications import drawn, pair, profile, worked
from hypothesis import given
from hypothesis import strategies as st
from plain_prediction import Pressure, around, plain_traffic, pressure_of, remote_speed

from unrack.errors import InputError
from unrack.slowdown.contention.predict import Contention
from unrack.slowdown.contention.profile import ProfileSet

MODEL = Contention(worked())
INTERFERERS = st.lists(st.tuples(st.floats(0, 40_000), st.integers(0, 40), st.floats(0, 100)), min_size=0, max_size=5)


def test_without_interferers_a_job_pays_for_its_remote_share_alone() -> None:
    assert MODEL.speed(5, 1, 0.0, []) == 1.0
    assert MODEL.speed(5, 1, 1.0, []) == 0.8
    assert MODEL.speed(5, 4, 0.5, []) == pytest.approx(0.85)
    assert MODEL.speed(5, 4, 0.5, [(0.0, 3, 50), (100.0, 0, 50)]) == pytest.approx(0.85)


def test_reads_between_50_and_100_weigh_the_two_curves_by_equation_4_3() -> None:
    for reads, drop in ((50, 0.10), (75, 0.075), (90, 0.06), (100, 0.05)):
        assert MODEL.speed(5, 1, 0.0, [(500.0, 1, reads)]) == pytest.approx(1 - drop)


def test_reads_below_50_count_as_50() -> None:
    assert MODEL.speed(5, 1, 0.0, [(500.0, 1, 20)]) == pytest.approx(0.90)


def test_remote_and_local_share_weigh_their_own_curves() -> None:
    local, far = 1 - 0.10, 0.8 - 0.20
    assert MODEL.speed(5, 1, 0.25, [(500.0, 1, 50)]) == pytest.approx(0.75 * local + 0.25 * far)
    assert MODEL.speed(5, 1, 1.0, [(500.0, 1, 50)]) == pytest.approx(far)


def test_interfering_nodes_between_measured_counts_are_interpolated() -> None:
    drops = {1: 0.10, 2: 0.20, 3: 0.30, 4: 0.40}
    for count, drop in drops.items():
        assert MODEL.speed(5, 4, 0.0, [(1000.0, count, 50)]) == pytest.approx(1 - drop)


def test_interfering_nodes_are_capped_at_the_targets() -> None:
    assert MODEL.speed(5, 4, 0.0, [(1000.0, 99, 50)]) == pytest.approx(0.6)


def test_the_worst_interferer_counts_with_the_nodes_near_it_and_the_lowest_reads() -> None:
    assert pressure_of([(1000.0, 1, 100), (750.0, 2, 90), (749.0, 8, 60)]) == Pressure(1000.0, 3, 60)
    assert pressure_of([(1000.0, 1, 100), (999.0, 2, 90)], tolerance=0.0) == Pressure(1000.0, 1, 90)
    assert pressure_of([(1000.0, 1, 100), (1.0, 2, 90)], tolerance=1.0) == Pressure(1000.0, 3, 90)
    near = MODEL.speed(5, 4, 0.0, [(1000.0, 1, 100), (750.0, 2, 100), (749.0, 1, 100)])
    assert near == pytest.approx(1 - (0.06 / 3 + 0.20 * 2 / 3))  # 3 nodes, between 1 and 4


def test_a_number_of_nodes_between_measured_ones_is_interpolated() -> None:
    at_4, at_8 = 1 - 0.40, 1 - (0.20 * 4 / 7 + 0.60 * 3 / 7)  # four nodes under interference
    assert MODEL.speed(5, 6, 0.0, [(1000.0, 4, 50)]) == pytest.approx((at_4 + at_8) / 2)


def test_a_number_of_nodes_beyond_the_measured_ones_takes_the_nearest() -> None:
    assert MODEL.speed(5, 64, 0.0, [(1000.0, 8, 50)]) == MODEL.speed(5, 8, 0.0, [(1000.0, 8, 50)])
    assert MODEL.speed(5, 64, 1.0, []) == 0.5


def test_remote_speed_between_measured_nodes_is_that_of_fewer_nodes() -> None:
    assert [remote_speed(MODEL, 5, nodes) for nodes in (1, 3, 4, 7, 8, 9)] == [0.8, 0.8, 0.7, 0.7, 0.5, 0.5]
    late = Contention(ProfileSet((profile(1, 4, 0.6),), ()))
    assert remote_speed(late, 1, 2) == 0.6


def test_what_a_job_draws_is_interpolated_over_nodes() -> None:
    assert plain_traffic(MODEL, 5, 1) == (500.0, 1000.0, 75.0)
    assert plain_traffic(MODEL, 5, 2) == pytest.approx((500.0 - 200.0 / 3, 1000.0, 75.0))
    assert plain_traffic(MODEL, 5, 6) == pytest.approx((400.0, 1000.0, 80.0))


def test_speeds_are_capped_at_1_and_floored() -> None:
    rising = [curve._replace(points=((0.0, 1.0), (1000.0, 1.2))) for curve in pair(1, 1, 1, (0.0, 0.0))]
    model = Contention(ProfileSet((profile(1, q=1.4),), tuple(rising)))
    assert model.speed(1, 1, 0.0, [(500.0, 1, 75)]) == 1.0
    assert model.speed(1, 1, 1.0, []) == 1.0
    steep = Contention(ProfileSet((profile(1),), tuple(pair(1, 1, 1, (0.5, 0.5), (0.7, 0.7)))), floor=0.05)
    assert steep.speed(1, 1, 0.0, [(9000.0, 1, 75)]) == 0.05
    assert steep.speed(1, 1, 1.0, [(9000.0, 1, 75)]) == 0.05


def test_without_remote_curves_remote_memory_costs_the_same_under_interference() -> None:
    model = Contention(ProfileSet((profile(1, q=0.7),), tuple(pair(1, 1, 1, (0.2, 0.2)))))
    assert model.speed(1, 1, 1.0, [(900.0, 1, 60)]) == 0.7


def test_memgen_reads_75_percent_whatever_the_interferer_does() -> None:
    model = Contention(worked(), "memgen")
    assert model.speed(5, 1, 0.0, [(1000.0, 1, 50)]) == model.speed(5, 1, 0.0, [(1000.0, 1, 100)])
    assert model.speed(5, 1, 0.0, [(1000.0, 1, 50)]) == pytest.approx(0.85)
    assert model.speed(5, 1, 0.0, [(2000.0, 1, 50)]) == pytest.approx(0.85)  # stays as at the last point


@given(interferers=INTERFERERS, seed=st.integers(0, 5), method=st.sampled_from(["line", "quadratic", "interpolate"]),
       remote=st.floats(0, 1), nodes=st.integers(1, 20), data=st.data())  # fmt: skip
def test_speeds_lie_above_0_and_up_to_1_and_ignore_the_order(interferers, seed, method, remote, nodes, data) -> None:
    model = Contention(drawn(seed), method)
    for app in model.profiles:
        speed = model.speed(app, nodes, remote, interferers)
        assert 0 < speed <= 1 + 1e-12
        shuffled = data.draw(st.permutations(interferers))
        assert model.speed(app, nodes, remote, shuffled) == speed
        local, far = model.speed(app, nodes, 0.0, interferers), model.speed(app, nodes, 1.0, interferers)
        assert min(local, far) - 1e-12 <= speed <= max(local, far) + 1e-12


@given(first=st.floats(1, 5000), second=st.floats(1, 5000), nodes=st.integers(1, 12), reads=st.floats(50, 100),
       remote=st.floats(0, 1))  # fmt: skip
def test_on_falling_lines_more_bandwidth_never_speeds_a_job_up(first, second, nodes, reads, remote) -> None:
    low, high = sorted((first, second))
    slower = MODEL.speed(5, nodes, remote, [(high, 3, reads)])
    assert slower <= MODEL.speed(5, nodes, remote, [(low, 3, reads)]) + 1e-12


@given(reads=st.tuples(st.floats(50, 100), st.floats(50, 100)), bandwidth=st.floats(1, 1000), nodes=st.integers(1, 9))
def test_more_writes_never_speed_a_job_up_where_the_50_percent_curve_is_below(reads, bandwidth, nodes) -> None:
    low, high = sorted(reads)
    writing = MODEL.speed(5, nodes, 0.3, [(bandwidth, 2, low)])
    assert writing <= MODEL.speed(5, nodes, 0.3, [(bandwidth, 2, high)]) + 1e-12


def test_places_around_a_number() -> None:
    assert around([4, 8], 1) == (0, 0, 0.0)
    assert around([4, 8], 5) == (0, 1, 0.25)
    assert around([4], 5) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("change", "want"),
    [
        ({"method": "cubic"}, "line, quadratic"),
        ({"tolerance": 1.5}, "0 to 1"),
        ({"floor": 0.0}, "above 0"),
        ({"fallback": "guess"}, "nearest, alike"),
    ],
)
def test_a_parameter_out_of_its_range_is_refused(change, want) -> None:
    with pytest.raises(InputError, match=want):
        Contention(worked(), **change)


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ((7, 1, 0.0, []), "application"),
        ((5, 0, 0.0, []), "nodes"),
        ((5, 1, 1.1, []), "remote"),
        ((5, 1, float("nan"), []), "remote"),
        ((5, 1, 0.0, [(-1.0, 1, 50)]), "interferer"),
        ((5, 1, 0.0, [(1.0, 1, 101)]), "interferer"),
        ((5, 1, 0.0, [(float("nan"), 1, 50)]), "interferer"),
    ],
)
def test_a_question_about_nothing_is_refused(arguments, where) -> None:
    with pytest.raises(InputError) as caught:
        MODEL.speed(*arguments)
    assert caught.value.where == where
