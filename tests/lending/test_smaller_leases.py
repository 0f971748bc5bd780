"""A lease that shrinks gives back what is borrowed before what is its nodes' own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lending_worlds import State, asks, held_by_node, states
from plain_lending import RULES, THRESHOLDS, Ask, place
from tries import draws

from unrack.ledger.lease import NO_LOANS, Lease

lending = pytest.importorskip("unrack.ledger.memory_use", reason="leases cannot shrink yet")


@pytest.mark.parametrize("rule", RULES)
@draws(60)
@given(data=st.data(), state=states(), ask=asks())
def test_what_shrinks_gives_back_borrowed_memory_first_and_never_more_than_it_should(
    rule: str, data: st.DataObject, state: State, ask: Ask
) -> None:
    found = place(rule, *state, ask, THRESHOLDS[rule])
    if found is None:
        return
    rows, loans = (np.array(column, np.int64) for column in (found.rows(state.total), found.loan_rows() or NO_LOANS))
    lease = Lease(0, rows, loans.reshape(-1, 3))
    wanted = {
        node: data.draw(st.integers(0, tasks * ask.mb), f"MB on node {node}")
        for node, tasks in found.tasks.items()
        if data.draw(st.booleans(), f"node {node} shrinks")
    }
    after = lending.smaller(lease, wanted)
    local = {node: mb for node, _, _, _, mb in held_by_node(after.rows)}
    borrowed = {node: sum(mb for borrower, _, mb in after.borrowed.tolist() if borrower == node) for node in local}
    assert local.keys() == found.tasks.keys()
    for node, tasks in found.tasks.items():
        want = wanted.get(node, tasks * ask.mb)
        assert local[node] + borrowed[node] == want
        assert local[node] == min(found.local[node], want), "own memory was given back before borrowed"
    for borrower, lender, mb in after.borrowed.tolist():
        assert 0 < mb <= found.loans[borrower, lender]
    assert [row[:4] for row in held_by_node(after.rows)] == [row[:4] for row in found.rows(state.total)]
    assert lease.rows.tolist() == found.rows(state.total), "the lease it came from has changed"
