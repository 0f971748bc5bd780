"""Claims: what is chosen agrees, what is altered does not; a node is open exactly where one more task has a place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from plain_gpus import fleet_of
from tries import draws

from unrack.resources.gpus.columns import QUANTITIES, WHOLE
from unrack.resources.gpus.fleet import Fleet

TABLE = [{"machine": "minsky", "nodes": "0"}, {"machine": {"gpus": 3, "per_socket": 2}, "nodes": "1"},
         {"machine": {"gpus": 2, "slices": 8}, "nodes": "2"},
         {"machine": {"gpus": 1, "slices": 7}, "nodes": "3"}]  # fmt: skip
FLEET = fleet_of(TABLE, nodes=5)  # node 4 has no GPUs


def asked_of(**asked: int) -> Any:
    """int64[quantities]."""
    return np.array([asked.get(name, 0) for name in QUANTITIES], np.int64)


@st.composite
def states(draw: st.DrawFn) -> tuple[Any, Any, Any, Any]:
    """What a job asks, some nodes with tasks on them, and what is free."""
    sort = draw(st.sampled_from(["whole", "parts", "gang of parts", "slices"]))
    asked = {
        "whole": {"count": draw(st.integers(1, 3))},
        "parts": {"milli": draw(st.integers(1, 999))},
        "gang of parts": {"count": draw(st.integers(2, 3)), "milli": draw(st.sampled_from([125, 300, 500, 700]))},
        "slices": {"slices": draw(st.integers(1, 8))},
    }[sort]
    free = FLEET.total.copy()
    for place in range(len(free)):
        taken = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
        free[place] -= min(1, taken) if free[place] == 1 else (0, 300, 500, WHOLE)[taken]
    tasks = np.array([draw(st.sampled_from([0, 0, 1, 2, 3])) for _ in range(5)], np.int64)
    nodes = np.flatnonzero(tasks)
    return asked_of(**asked), nodes, tasks[nodes], free


def has_a_place(fleet: Fleet, asked: Any, nodes: Any, tasks: Any, free: Any) -> bool:
    """Whether the tasks find their GPUs there, by a count of its own."""
    count, milli, slices = asked[:3].tolist()
    for node, on_it in zip(nodes.tolist(), tasks.tolist(), strict=True):
        first, end = fleet.gpus.first[node], fleet.gpus.first[node + 1]
        here, kind = free[first:end].tolist(), int(fleet.gpus.kind[node])
        each = int(fleet.gpus.slices[kind]) if kind >= 0 else 0
        if kind < 0 or (each > 0) != (slices > 0):
            return False
        if slices:
            starts = {1: range(each - (each == 8)), 2: range(0, each, 2), 3: range(0, each, 4), 4: range(0, each, 4)}
            begin = [b for gpu in range(0, len(here), each) for b in (gpu + s for s in starts.get(slices, [0]))
                     if (b % each) + slices <= each and all(here[b : b + slices])]  # fmt: skip
            room = len(begin)
        elif count > 1 and milli:
            room = next(n for n in range(99) if sum(min(n + 1, f // milli) for f in here) < (n + 1) * count)
        elif milli:
            room = sum(f // milli for f in here)
        else:
            room = sum(f == WHOLE for f in here) // count
        if room < on_it:
            return False
    return True


def thinned(asked: Any, nodes: Any, tasks: Any, free: Any) -> tuple[Any, Any]:
    """As many of the tasks of each node as have a place there."""
    one, left = np.ones(1, np.int64), []
    for node, on_it in zip(nodes.tolist(), tasks.tolist(), strict=True):
        left.append(max(n for n in range(on_it + 1) if n == 0 or has_a_place(FLEET, asked, node * one, n * one, free)))
    kept = np.array(left, np.int64)
    return nodes[kept > 0], kept[kept > 0]


@draws(400)
@given(states())
def test_what_is_chosen_agrees_is_free_and_is_there_exactly_where_there_is_a_place(state: tuple[Any, ...]) -> None:
    asked, nodes, tasks, free = state
    assume(len(nodes))
    claims = FLEET.claims(asked, nodes, tasks, free)
    good = FLEET.agrees(asked, nodes, tasks, claims)
    assert good == has_a_place(FLEET, asked, nodes, tasks, free)
    if good:
        assert (np.diff(claims[:, 0]) > 0).all()
        assert (claims[:, 1] <= free[claims[:, 0]]).all()


@draws(300)
@given(states())
def test_a_node_is_open_exactly_where_one_more_task_would_have_its_claims(state: tuple[Any, ...]) -> None:
    asked, nodes, tasks, free = state
    nodes, tasks = thinned(asked, nodes, tasks, free)
    found = FLEET.open_nodes(asked, free, nodes, tasks)
    for node in range(5):
        on = np.zeros(5, np.int64)
        on[nodes] = tasks
        on[node] += 1
        used = np.flatnonzero(on)
        claims = FLEET.claims(asked, used, on[used], free)
        assert found[node] == FLEET.agrees(asked, used, on[used], claims), (node, claims)


@draws(300)
@given(states(), st.data())
def test_altered_claims_are_refused(state: tuple[Any, ...], data: st.DataObject) -> None:
    asked, nodes, tasks, free = state
    nodes, tasks = thinned(asked, nodes, tasks, free)
    assume(len(nodes))
    claims = FLEET.claims(asked, nodes, tasks, free)
    row = data.draw(st.integers(0, len(claims) - 1))
    more, less, beyond = claims.copy(), claims.copy(), claims.copy()
    more[row, 1] += 1
    less[row, 1] -= 1
    beyond[row, 0] = len(FLEET.places)
    negative = claims.copy()
    negative[row, 0] = -1
    for wrong in (more, less, beyond, negative, np.delete(claims, row, axis=0), claims[:0]):
        assert not FLEET.agrees(asked, nodes, tasks, wrong), wrong
    elsewhere = (nodes + 1) % 5
    order = np.argsort(elsewhere)
    assert not FLEET.agrees(asked, elsewhere[order], tasks[order], claims) or len(nodes) == 5
    spare = np.setdiff1d(np.arange(len(FLEET.places)), claims[:, 0])
    if len(spare):
        extra = np.vstack([claims, [data.draw(st.sampled_from(spare.tolist())), 1]])
        assert not FLEET.agrees(asked, nodes, tasks, extra[np.argsort(extra[:, 0])])


@pytest.mark.parametrize(
    ("asked", "claims", "agrees"),
    [
        ({"slices": 2}, [[7, 1], [8, 1]], True),  # places 7 to 14 are the slices of the first GPU of node 2
        ({"slices": 2}, [[8, 1], [9, 1]], False),  # a block of two begins at an even slice
        ({"slices": 2}, [[9, 1], [10, 1]], True),
        ({"slices": 1}, [[14, 1]], False),  # the last of eight slices has no computing units of its own
        ({"slices": 1}, [[13, 1]], True),
        ({"slices": 3}, [[11, 1], [12, 1], [13, 1]], True),
        ({"slices": 3}, [[9, 1], [10, 1], [11, 1]], False),
        ({"slices": 4}, [[13, 1], [14, 1], [15, 1], [16, 1]], False),  # over two GPUs
        ({"slices": 2}, [[13, 1], [14, 1]], True),
    ],
)
def test_blocks_of_slices_begin_where_they_may(asked: dict[str, int], claims: list[list[int]], agrees: bool) -> None:
    one = np.ones(1, np.int64)
    assert FLEET.agrees(asked_of(**asked), 2 * one, one, np.array(claims)) == agrees


@pytest.mark.parametrize(
    ("node", "each", "starts"),
    [(2, 8, [[0, 1, 2, 3, 4, 5, 6], [0, 2, 4, 6], [0, 4], [0, 4], [0], [0], [0], [0]]),
     (3, 7, [[0, 1, 2, 3, 4, 5, 6], [0, 2, 4], [0, 4], [0], [0], [0], [0]])],
)  # fmt: skip
def test_where_blocks_may_begin(node: int, each: int, starts: list[list[int]]) -> None:
    one, first = np.ones(1, np.int64), int(FLEET.gpus.first[node])
    for size in range(1, each + 1):
        blocks = {start: np.array([[first + start + i, 1] for i in range(size)]) for start in range(each - size + 1)}
        found = [s for s, block in blocks.items() if FLEET.agrees(asked_of(slices=size), node * one, one, block)]
        assert found == starts[size - 1], size


def test_a_job_without_gpus_claims_none_wherever_it_runs() -> None:
    """It may still ask that its tasks are together, or apart."""
    asked, nodes, tasks = asked_of(together=1, graph=2, weight=300), np.array([0]), np.array([3])
    claims = FLEET.claims(asked, nodes, tasks, FLEET.total)
    assert claims.tolist() == []
    assert FLEET.agrees(asked, nodes, tasks, claims)
    assert FLEET.open_nodes(asked_of(apart=1), FLEET.total, nodes, tasks).tolist() == [False, *[True] * 4]


def test_apart_and_together_are_part_of_what_agrees() -> None:
    two, nodes = np.array([2]), np.array([0])
    both = FLEET.claims(asked_of(count=1), nodes, two, FLEET.total)
    assert FLEET.agrees(asked_of(count=1, together=1), nodes, two, both)
    assert not FLEET.agrees(asked_of(count=1, apart=1), nodes, two, both)
    spread, one_each = np.array([0, 1]), np.array([1, 1])
    claims = FLEET.claims(asked_of(count=1), spread, one_each, FLEET.total)
    assert FLEET.agrees(asked_of(count=1, apart=1), spread, one_each, claims)
    assert not FLEET.agrees(asked_of(count=1, together=1), spread, one_each, claims)
    assert FLEET.open_nodes(asked_of(count=1, apart=1), FLEET.total, spread, one_each).tolist() == [False] * 5
    assert FLEET.open_nodes(asked_of(count=1, together=1), FLEET.total, nodes, two).tolist() == [True, *[False] * 4]
