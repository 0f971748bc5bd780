"""The compiled placement on nodes that lend memory puts every job where the plain one does, with the same loans."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lending_worlds import State, asks, crowd, held_by_node, states
from plain_lending import EVERYBODY, RULES, THRESHOLDS, Ask, place
from tries import draws

from unrack.jit import compiled as kernel
from unrack.kernels.arrays import Ints
from unrack.policy.lending.borrowing import cores_of_idle
from unrack.policy.lending.lease_kernel import Asker, Leases, any_asker, place_job
from unrack.policy.lending.lender_cost import LendingRule, LendingTerms, grouped
from unrack.sealed import sealed

R = LendingRule
CODES = dict(zip(RULES, [R.STRAWMAN, R.NAIVE, R.LOCAL, R.SPREAD, R.DISAGGREGATED], strict=True))

seeds = st.integers(0, 2**32)


@kernel
def place_now(terms: LendingTerms, free: Ints, total: Ints, asker: Asker) -> tuple[Ints, Ints]:
    """Rows (int64[k, 5]) and loans (int64[k, 3]) for one job; no rows: no place."""
    nodes = free.shape[1]
    out = Leases(np.empty((nodes, 5), np.int64), np.empty((2 * nodes, 3), np.int64))
    cores_at = cores_of_idle(free, total, terms.threshold_mb)
    rows, lent = place_job(terms, free.copy(), total, cores_at, True, 0, asker, None, False, out)
    return out.rows[: max(rows, 0)].copy(), out.loans[:lent].copy()


def compiled(rule: str, state: State, ask: Ask, threshold: float) -> tuple[list[list[int]], list[list[int]]]:
    """Rows by node, loans by borrower and lender; the state must not change."""
    free, total, group = (np.array(column, np.int64) for column in state)
    nowhere = np.zeros(len(group), np.int64)
    terms = grouped(CODES[rule], group, np.ceil(threshold * total[1]).astype(np.int64), False, nowhere, nowhere)
    rows, loans = place_now(terms.kernel, sealed(free), sealed(total), any_asker(*ask))
    assert free.tolist() == state.free
    assert rows.shape[1:] == (5,)
    assert loans.shape[1:] == (3,)
    assert rows.dtype == loans.dtype == np.int64
    return held_by_node(rows), sorted(loans.tolist())


def test_the_rules_are_numbered_in_the_order_of_the_documentation() -> None:
    assert [int(CODES[rule]) for rule in RULES] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("rule", RULES)
@draws(600)
@given(
    where=st.tuples(states(), asks()) | seeds.map(crowd),
    threshold=st.sampled_from([None, None, 0.0, 0.25, 0.5, 0.75, 1.0]),
)
def test_the_compiled_placement_is_the_plain_one(rule: str, where: tuple[State, Ask], threshold: float | None) -> None:
    state, ask = where
    at_least = THRESHOLDS[rule] if threshold is None else threshold
    rows, loans = compiled(rule, state, ask, at_least)
    want = place(rule, *state, ask, at_least)
    assert rows == ([] if want is None else want.rows(state.total))
    assert loans == ([] if want is None else want.loan_rows())


@pytest.mark.parametrize("rule", RULES)
@draws(300)
@given(where=st.tuples(states(), asks()) | seeds.map(crowd))
def test_a_place_holds_all_tasks_on_idle_nodes_and_their_memory_within_reach(
    rule: str, where: tuple[State, Ask]
) -> None:
    state, ask = where
    rows, loans = compiled(rule, state, ask, THRESHOLDS[rule])
    free, total, group = state
    left = list(free[1])
    borrowed = [0] * len(left)
    for borrower, lender, mb in loans:
        assert mb > 0
        assert borrower != lender
        assert group[lender] in (group[borrower], EVERYBODY)
        left[lender] -= mb
        borrowed[borrower] += mb
    assert len({(borrower, lender) for borrower, lender, _ in loans}) == len(loans)
    for node, _, tasks, cores, mb in rows:
        assert cores == free[0][node] == total[0][node] > 0
        assert tasks > 0
        assert tasks * ask.cores <= cores
        assert free[1][node] >= THRESHOLDS[rule] * total[1][node]
        assert mb + borrowed[node] == tasks * ask.mb
        left[node] -= mb
        borrowed[node] = 0
    assert min(left) >= 0
    assert not any(borrowed), "a node that does not compute borrows"
    assert sum(row[2] for row in rows) in ((0, ask.tasks) if loans == [] else (ask.tasks,))


@draws(200)
@given(state=states(), ask=asks())
def test_disaggregated_borrows_nothing_where_enough_nodes_have_the_memory_themselves(state: State, ask: Ask) -> None:
    free, total, _ = state
    room = 0
    for node in range(len(free[0])):
        if total[0][node] and (free[0][node], free[1][node]) == (total[0][node], total[1][node]):
            by_cores = total[0][node] // ask.cores if ask.cores else ask.tasks
            room += min(by_cores, total[1][node] // ask.mb) if ask.mb else by_cores
    rows, loans = compiled("disaggregated", state, ask, 1.0)
    if room >= ask.tasks:
        assert rows
        assert loans == []


def test_a_group_leaves_the_memory_that_reaches_all_to_a_group_that_cannot_do_without_it() -> None:
    # nodes 0 and 1 could have the pool's 4 MB, but node 3's group has nothing else for its last 2
    free = [[2, 2, 4, 2, 0, 0], [12, 4, 2, 8, 4, 0]]
    state = State(free, [free[0], [12, 4, 2, 8, 4, 8]], [0, 0, 0, 1, EVERYBODY, EVERYBODY])
    rows, loans = compiled("local", state, Ask(6, 1, 5), 0.0)
    assert rows == [[0, 1, 2, 2, 10], [1, 1, 2, 2, 4], [3, 1, 2, 2, 8]]
    assert loans == [[1, 0, 2], [1, 2, 2], [1, 4, 2], [3, 4, 2]]


def test_where_there_is_one_group_its_pools_and_those_that_reach_all_come_in_one_order() -> None:
    state = State([[4, 0, 0], [4, 8, 8]], [[4, 0, 0], [4, 8, 12]], [0, EVERYBODY, 0])
    assert compiled("local-spread", state, Ask(1, 4, 7), 1.0)[1] == [[0, 1, 3]]
