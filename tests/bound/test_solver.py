"""The parts of the bound against plain ones: a simplex in fractions, small steps, sampled mixes, all pairs of sizes."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import ceil

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tries import draws

from unrack.solver import late
from unrack.solver.late import Late, fewest_late, in_pieces, least_response, most_work, telling_pieces
from unrack.solver.mode import cheapest

WINDOWS = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 10), st.integers(1, 6)), min_size=1, max_size=5)
"""(release, length of the window, energy) of a few jobs."""


def simplex(gain: list[Fraction], rows: list[list[Fraction]], limits: list[Fraction]) -> Fraction:
    """Maximum of gain·x with rows·x <= limits, x >= 0, limits >= 0; the lowest index first, so it ends (Bland 1977)."""
    count = len(gain)
    table = [
        [*row, *(Fraction(int(i == j)) for j in range(len(rows))), limit]
        for i, (row, limit) in enumerate(zip(rows, limits, strict=True))
    ]
    cost = [*(-g for g in gain), *[Fraction(0)] * (len(rows) + 1)]
    basis = [count + i for i in range(len(rows))]
    while (enter := next((j for j, c in enumerate(cost[:-1]) if c < 0), None)) is not None:
        ratios = [(row[-1] / row[enter], basis[i], i) for i, row in enumerate(table) if row[enter] > 0]
        _, _, leave = min(ratios)
        pivot = table[leave][enter]
        table[leave] = [value / pivot for value in table[leave]]
        for i, row in enumerate(table):
            if i != leave and row[enter]:
                table[i] = [a - row[enter] * b for a, b in zip(row, table[leave], strict=True)]
        cost = [a - cost[enter] * b for a, b in zip(cost, table[leave], strict=True)]
        basis[leave] = enter
    return cost[-1]


def most_on_time(jobs: list[tuple[int, int, int]], capacity: int) -> Fraction:
    """The linear programme of the bound, written out: intervals of time against fractions of jobs."""
    rows, limits = [], []
    begins, ends = {r for r, _, _ in jobs}, {r + w for r, w, _ in jobs}
    for a in sorted(begins):
        for b in sorted(end for end in ends if end > a):
            rows.append([Fraction(e if r >= a and r + w <= b else 0) for r, w, e in jobs])
            limits.append(Fraction(capacity * (b - a)))
    for j in range(len(jobs)):
        rows.append([Fraction(int(i == j)) for i in range(len(jobs))])
        limits.append(Fraction(1))
    return simplex([Fraction(1)] * len(jobs), rows, limits)


def bound_of(jobs: list[tuple[int, int, int]], capacity: int) -> Late:
    release, window, energy = (np.array(column, np.int64) for column in zip(*jobs, strict=True))
    none = np.zeros(len(jobs), np.int64)
    return fewest_late(release, release + window, none, energy[None].astype(np.float64), np.array([float(capacity)]))


@given(WINDOWS, st.integers(1, 3))
@draws(150)
def test_the_bound_is_the_optimum_of_the_linear_programme_rounded_up(jobs, capacity) -> None:
    assume(all(energy <= capacity * window for _, window, energy in jobs))
    assert bound_of(jobs, capacity) == Late(0, np.array([ceil(len(jobs) - most_on_time(jobs, capacity))]))


@given(WINDOWS, st.integers(1, 3))
@draws(60)
def test_with_fewer_levels_than_energies_the_bound_is_lower_but_still_a_bound(jobs, capacity) -> None:
    assume(all(energy <= capacity * window for _, window, energy in jobs))
    exact = bound_of(jobs, capacity).total
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late, "LEVELS", 2)
        assert bound_of(jobs, capacity).total <= exact


@given(WINDOWS)
@draws(80)
def test_no_set_of_jobs_does_more_work_than_its_windows_hold_and_some_set_does_all(jobs) -> None:
    jobs = sorted((release, release + window, min(work, window)) for release, window, work in jobs)
    columns = (np.array(column, np.int64) for column in zip(*jobs, strict=True))

    def covered(chosen) -> int:
        return len({time for release, due, _ in chosen for time in range(release, due)})

    total = sum(work for _, _, work in jobs)
    sets = [chosen for size in range(len(jobs) + 1) for chosen in combinations(jobs, size)]
    least = min(total - sum(work for _, _, work in chosen) + covered(chosen) for chosen in sets)
    assert most_work(*columns) == least  # Hall: the flow is the smallest cut


def test_times_of_centuries_and_energies_of_next_to_nothing_do_not_overflow() -> None:
    n, year = 1000, 365 * 86_400 * 10**6
    release = np.arange(n) * (285 * year // n)
    energy = np.array([np.full(n, 1e-9), np.full(n, 1e12), np.full(n, np.inf)])
    due = release + year
    found = fewest_late(release, due, np.ones(n, np.int64), energy[:2], np.array([1e6, 1e-2]))
    assert (found.certain, found.by_resource.tolist()) == (n, [0, 0])
    found = fewest_late(release, due, np.ones(n, np.int64), energy[:1], np.array([1e6]))
    assert found.total == 0
    assert fewest_late(release, due, np.ones(n, np.int64), energy[2:], np.ones(1)).certain == n


def test_jobs_without_due_times_are_never_late_and_no_jobs_are_fine() -> None:
    none = np.zeros(0, np.int64)
    assert fewest_late(none, none, none, np.zeros((2, 0)), np.ones(2)).total == 0
    many = np.zeros(5, np.int64)
    assert fewest_late(many, many - 1, many + 9, np.full((1, 5), np.inf), np.ones(1)).total == 0


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=6))
@draws(80)
def test_the_least_response_is_that_of_serving_the_least_left_step_by_step(jobs) -> None:
    left, time, total = {j: work for j, (_, work) in enumerate(jobs)}, 0, 0
    while left:
        ready = [(work, j) for j, work in left.items() if jobs[j][0] <= time]
        time += 1
        if ready:
            _, job = min(ready)
            left[job] -= 1
            if left[job] == 0:
                del left[job]
                total += time - jobs[job][0]
    release, work = zip(*jobs, strict=True)
    assert least_response(np.array(release), np.array(work, np.float64)) == total


POSITIVE = st.floats(0.1, 10)


@given(st.lists(st.tuples(POSITIVE, POSITIVE, st.floats(0, 10)), min_size=1, max_size=5), st.floats(0, 5))
def test_no_mix_of_modes_is_cheaper_than_the_cheapest(modes, idle) -> None:
    speed, rate, time = (np.array(column) for column in zip(*modes, strict=True))
    work, limit = np.array([speed @ time]), np.array([time.sum() + idle])
    one = np.zeros(1, np.int64)
    least = cheapest(work, limit * (1 + 1e-9), speed, rate[:, None], one)
    assert least[0] <= rate @ time * (1 + 1e-6) + 1e-9
    assert work[0] == 0 or cheapest(work, work / speed.max() * 0.99, speed, rate[:, None], one)[0] == np.inf


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=5), st.floats(0.01, 1))
def test_the_cheapest_is_that_of_one_mode_or_of_two_that_take_all_of_the_time(modes, part) -> None:
    speed, rate = (np.array(column) for column in zip(*modes, strict=True))
    work = part * speed.max()  # within a limit of 1
    costs = [r * work / s for s, r in modes if s >= work]
    for fast, fast_rate in modes:
        for slow, slow_rate in modes:
            if slow < work <= fast:
                spent = (work - slow) / (fast - slow)
                costs.append(fast_rate * spent + slow_rate * (1 - spent))
    for limit, expected in ((1.0, min(costs)), (np.inf, min(rate / speed) * work)):
        found = cheapest(np.array([work]), np.array([limit]), speed, rate[:, None], np.zeros(1, np.int64))
        assert found[0] == pytest.approx(expected)


def test_counting_in_pieces_is_superadditive_for_every_whole_and_piece() -> None:
    for whole in range(2, 41):
        sizes = np.arange(whole + 1)
        for piece in range(1, whole // 2 + 1):
            f = in_pieces(sizes, whole, piece)
            assert (np.diff(f) >= 0).all()
            assert f[whole] == 2 * (whole // piece)
            for x in range(whole + 1):
                assert (f[x] + f[: whole - x + 1] <= f[x:]).all(), (whole, piece, x)


def test_pieces_are_the_small_sizes_and_what_does_not_fit_beside_the_large_ones() -> None:
    size, weight = np.array([6, 15, 1, 25, 6, 3]), np.array([5.0, 9.0, 8.0, 4.0, 5.0, 0.1])
    assert telling_pieces(size, weight, 25, 4) == [6, 11]
    assert telling_pieces(size, weight, 25, 5) == [3, 6, 11]
    assert telling_pieces(np.zeros(0, np.int64), np.zeros(0), 25, 5) == []
