"""Batched, compiled passes start the same jobs in the same places as going through the queue one by one in Python."""

from __future__ import annotations

import pytest
from device_worlds import World, crowd, play, worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import Naive

ORDERS = ["edf", "edf", "fcfs", "sjf", "priority-edf"]


WAYS = {"late_joins": "yes", "load": "running", "shortcuts": "yes"}
"""Of the authors' simulator: parameter -> value."""


def same(world: World, rule: str, order: str, ways: frozenset[str] = frozenset()) -> None:
    words = f"order={order}" + "".join(f", {way}={WAYS[way]}" for way in sorted(ways))
    ours = play(world, f"{rule}({words})").log
    theirs = play(
        world,
        Naive(
            rule, order, world.models,
            late_joins="late_joins" in ways, running="load" in ways, shortcuts="shortcuts" in ways,
        ),
    ).log  # fmt: skip
    for name in ("attempt_job", "attempt_start_us", "attempt_end_us", "share_group", "state"):
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name
    assert ours.rows.tolist() == theirs.rows.tolist()
    assert ours.shares == theirs.shares
    assert ours.rules == theirs.rules


@pytest.mark.parametrize("rule", ["max-composition", "min-fragmentation", "disaggregation-aware", "resource-aware"])
@settings(max_examples=60)
@given(world=worlds(), order=st.sampled_from(ORDERS))
def test_the_aware_rules_decide_as_their_plain_twins(rule: str, world: World, order: str) -> None:
    same(world, rule, order)


@pytest.mark.parametrize("rule", ["first-fit", "best-fit"])
@settings(max_examples=60)
@given(world=worlds(), order=st.sampled_from(ORDERS), models=st.booleans())
def test_the_simple_fits_decide_as_their_plain_twins(rule: str, world: World, order: str, models: bool) -> None:
    same(world if models else world._replace(models=()), rule, order)


@pytest.mark.parametrize("rule", ["max-composition", "min-fragmentation", "resource-aware"])
@settings(max_examples=40)
@given(world=st.integers(0, 2**32).map(crowd), order=st.sampled_from(ORDERS))
def test_jobs_alike_that_differ_in_their_deadlines_are_skipped_only_where_they_have_no_place(
    rule: str, world: World, order: str
) -> None:
    same(world, rule, order)


@pytest.mark.parametrize("rule", ["max-composition", "min-fragmentation", "disaggregation-aware"])
@settings(max_examples=60)
@given(
    world=worlds() | st.integers(0, 2**32).map(crowd),
    order=st.sampled_from(ORDERS),
    ways=st.frozensets(st.sampled_from(sorted(WAYS))),
)
def test_the_ways_of_the_authors_simulator_decide_as_their_plain_twins(
    rule: str, world: World, order: str, ways: frozenset[str]
) -> None:
    same(world, rule, order, ways=ways if rule == "disaggregation-aware" else ways - {"load"})
