"""Batched, compiled passes start the same jobs in the same places as going through the queue one by one in Python."""

from __future__ import annotations

from dataclasses import replace

import pytest
from device_worlds import World, crowd, play, worlds
from hypothesis import given
from hypothesis import strategies as st
from naive import Naive
from tries import draws

from unrack.ledger.state import QUEUED, REJECTED

ORDERS = ["edf", "edf", "fcfs", "sjf", "priority-edf"]


def one_by_one(rows: list[list[int]]) -> list[list[int]]:
    """The rows of leases, where several nodes with as much on each may be one, node by node."""
    return [[first + i, 1, *held] for first, count, *held in rows for i in range(count)]


def same(world: World, rule: str, order: str, authors: bool = False) -> None:
    words = f"order={order}" + (", reading=authors" if authors else "")
    ours = play(world, f"{rule}({words})").log
    theirs = play(world, Naive(rule, order, world.models, authors=authors)).log
    for name in ("attempt_job", "attempt_start_us", "attempt_end_us", "share_group"):
        assert getattr(ours, name).tolist() == getattr(theirs, name).tolist(), name
    waits = (ours.state == REJECTED) & (theirs.state == QUEUED)  # the twin turns no job away that never has a place
    assert (waits | (ours.state == theirs.state)).all()
    assert one_by_one(ours.rows.tolist()) == one_by_one(theirs.rows.tolist())
    assert ours.shares == theirs.shares
    assert ours.rules == theirs.rules


@pytest.mark.parametrize("rule", ["max-composition", "min-fragmentation", "disaggregation-aware", "resource-aware"])
@draws(60)
@given(world=worlds(), order=st.sampled_from(ORDERS))
def test_the_aware_rules_decide_as_their_plain_twins(rule: str, world: World, order: str) -> None:
    same(world, rule, order)


@pytest.mark.parametrize("rule", ["first-fit", "best-fit"])
@draws(60)
@given(world=worlds(), order=st.sampled_from(ORDERS), models=st.booleans())
def test_the_simple_fits_decide_as_their_plain_twins(rule: str, world: World, order: str, models: bool) -> None:
    """Of jobs of one task by best fit: a list fills nodes with a gang, the twin chooses for each of its tasks anew."""
    if rule == "best-fit":
        world = world._replace(jobs=tuple(replace(job, tasks=1) for job in world.jobs))
    same(world if models else world._replace(models=()), rule, order)


@pytest.mark.parametrize("rule", ["max-composition", "min-fragmentation", "resource-aware"])
@draws(40)
@given(world=st.integers(0, 2**32).map(crowd), order=st.sampled_from(ORDERS))
def test_jobs_alike_that_differ_in_their_deadlines_are_skipped_only_where_they_have_no_place(
    rule: str, world: World, order: str
) -> None:
    same(world, rule, order)


@pytest.mark.long
@pytest.mark.parametrize("rule", ["max-composition", "min-fragmentation", "disaggregation-aware"])
@draws(40)
@given(world=worlds() | st.integers(0, 2**32).map(crowd), order=st.sampled_from(ORDERS))
def test_the_authors_reading_decides_as_its_plain_twin(rule: str, world: World, order: str) -> None:
    same(world, rule, order, authors=True)
