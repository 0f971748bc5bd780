"""The search for the least system, against exhaustive grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.plan.search import ONE_BY_ONE, Ask, Missed, SearchResult, Space, Verdict, Way, search


def found_by(
    space: Space, good: Callable[[int], bool], way: Way = "auto", missed: Missed = lambda _: ()
) -> SearchResult:
    steps = search(space, way, missed)
    answer: Mapping[int, Verdict] | None = None
    while True:
        try:
            ask: Ask = next(steps) if answer is None else steps.send(answer)
        except StopIteration as end:
            found: SearchResult = end.value
            return found
        answer = {one: Verdict.MEETS if good(one) else Verdict.FAILS for one in ask.systems}


def line(size: int) -> Space:
    return Space.over([size], lambda place: place[0])


@given(st.lists(st.booleans(), min_size=1, max_size=ONE_BY_ONE))
def test_in_a_small_space_the_answer_is_that_of_the_whole_grid_however_odd_it_is(good: list[bool]) -> None:
    found = found_by(line(len(good)), good.__getitem__)
    assert found.best == (good.index(True) if True in good else None)
    assert found.believed == 0
    assert all((found.verdicts[one] == Verdict.MEETS) == good[one] for one in found.verdicts)


@given(st.integers(33, 5000), st.data())
def test_in_a_large_space_where_more_is_better_the_answer_is_right_after_few_tries(
    size: int, data: st.DataObject
) -> None:
    least = data.draw(st.integers(0, size))
    found = found_by(line(size), lambda one: one >= least)
    assert found.best == (least if least < size else None)
    assert len(found.verdicts) <= 2 * size.bit_length() + 14
    assert found.worse_above() == []


@given(st.integers(33, 120), st.data())
def test_a_dip_below_the_answer_is_found_where_its_neighbours_or_probes_meet_it(size: int, data: st.DataObject) -> None:
    least = data.draw(st.integers(20, size - 1))
    width = (least // 9) + 2  # as wide as the gaps between probes
    dip = data.draw(st.integers(0, least - width)) if least > width else 0
    good = [one >= least or dip <= one < dip + width for one in range(size)]
    found = found_by(line(size), good.__getitem__)
    assert found.best == good.index(True)


@given(st.integers(33, 5000), st.data())
def test_between_systems_too_small_for_one_goal_and_too_large_for_another_the_answer_is_found(
    size: int, data: st.DataObject
) -> None:
    least = data.draw(st.integers(0, size - 1))
    most = min(size - 1, least + data.draw(st.integers(0, 3)))
    found = found_by(line(size), lambda one: least <= one <= most, missed=lambda one: [one < least, one > most])
    assert found.best == least
    assert len(found.verdicts) <= 3 * size.bit_length() + 16


def test_a_larger_system_that_fails_is_told() -> None:
    good = [False] * 9 + [True, True, False, True] + [True] * 4
    found = found_by(line(len(good)), good.__getitem__)
    assert (found.best, found.worse_above()) == (9, [11])


@draws(50)
@given(st.integers(2, 9), st.integers(5, 9), st.integers(1, 30), st.integers(1, 9), st.integers(1, 9))
def test_over_two_keys_the_cheapest_of_the_grid_is_found(a: int, b: int, need: int, price: int, other: int) -> None:
    space = Space.over([a, b], lambda place: price * place[0] + other * place[1])
    good = [place[0] * place[1] >= need for place in space.places]
    for way in ("every", "bisect"):
        found = found_by(space, good.__getitem__, way)  # type: ignore[arg-type]
        assert found.best == (good.index(True) if True in good else None), way


@pytest.mark.parametrize("way", ["every", "bisect"])
def test_where_nothing_meets_the_goals_there_is_no_answer(way: Way) -> None:
    found = found_by(line(100), lambda _: False, way)
    assert found.best is None
    assert len(found.verdicts) + found.believed == 100


def test_undecided_systems_below_are_no_answer_and_are_told() -> None:
    steps = search(line(5), "every")
    ask = next(steps)
    known = [Verdict.FAILS, Verdict.UNDECIDED, Verdict.MEETS, Verdict.MEETS]
    assert steps.send(dict(zip(ask.systems, known, strict=True))).systems == (4,)
    with pytest.raises(StopIteration) as end:
        steps.send({4: Verdict.OPEN})
    assert (end.value.value.best, end.value.value.undecided_below()) == (2, [1])
