"""Leases that shrink: memory is given back remote first."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unrack.errors import RefusedError
from unrack.ledger.lease import BORROWER, LOAN_MB, LOCAL_MB, NODES, Lease, nodes_of


def smaller(lease: Lease, mb_by_node: Mapping[int, int]) -> Lease:
    """The lease with less memory on some of its nodes: what is borrowed goes back before what is local.

    Of several loans to a node the last goes back first. A :class:`unrack.policy.contract.Resize` with ``below``
    exchanges what a running job holds for it, also where that is less than the job asks.

    Parameters
    ----------
    lease
        What a job holds.
    mb_by_node
        Node → the MB that its tasks keep in all, local and borrowed. Nodes that are not named keep what they have.

    Raises
    ------
    RefusedError
        A node holds no task of the job, or less than it is to keep.

    Examples
    --------
    >>> from unrack.ledger.lease import Loan
    >>> held = Lease.on(0, nodes=[4], tasks=[1], cores=[8], mb=[100], borrowed=[Loan(4, 7, 30), Loan(4, 9, 20)])
    >>> less = smaller(held, {4: 120})
    >>> less.borrowed.tolist(), less.rows.tolist()
    ([[4, 7, 20]], [[4, 1, 1, 8, 100]])
    """
    rows = np.repeat(lease.rows, lease.rows[:, NODES], axis=0)
    rows[:, 0], rows[:, NODES] = nodes_of(lease.rows), 1
    loans = lease.borrowed.copy()
    for node, keep in sorted(mb_by_node.items()):
        here, its = np.flatnonzero(rows[:, 0] == node), np.flatnonzero(loans[:, BORROWER] == node)
        held = int(rows[here, LOCAL_MB].sum() + loans[its, LOAN_MB].sum())
        if not len(here):
            raise RefusedError(f"shrink job {lease.job}: it holds no task on node {node}")
        if not 0 <= keep <= held:
            raise RefusedError(f"shrink job {lease.job}: node {node} is to keep {keep} MB, and holds {held} MB")
        back = held - keep
        for places, amounts in ((its[::-1], loans[:, LOAN_MB]), (here[::-1], rows[:, LOCAL_MB])):
            for place in places.tolist():
                mb = min(back, int(amounts[place]))
                amounts[place] -= mb
                back -= mb
    return lease._replace(rows=rows, borrowed=loans[loans[:, LOAN_MB] > 0])
