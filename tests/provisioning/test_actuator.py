"""What the Actuator does to every lease, against the same said plainly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from used_worlds import some

from unrack.ledger.lease import BORROWER, LOAN_MB, NODES, TASKS, Lease
from unrack.ledger.memory_use import lacking_mb, smaller
from unrack.policy.contract import Resize, Used
from unrack.policy.table import parse_policy
from unrack.sim.simulate import prepared


def changes(policy: str, seed: int) -> list[tuple[Lease, Lease, dict[int, int], np.ndarray]]:
    """Every change of a lease in a run: before, after, what its nodes need, and what is free on all nodes then."""
    cluster, jobs = some(seed)
    kernel = prepared(cluster, jobs, parse_policy(policy))
    found: list[Any] = []
    core, handle = kernel.core, kernel.core.handle

    def watching(event: Any, now: int) -> Any:
        before = {}
        if isinstance(event, Used):
            before = {job: core.state.lease(job) for job in event.jobs.tolist()}
        decisions = handle(event, now)
        for i, job in enumerate(before):
            use = event.mb[event.first[i] : event.first[i + 1]]
            need = needs_of(before[job], use.tolist())
            short = sum(max(0, mb - sum(by_node(before[job])[node])) for node, mb in need.items())
            assert lacking_mb(before[job].rows, before[job].borrowed, use) == short
            mine = [one.lease for one in decisions if isinstance(one, Resize) and one.lease.job == job]
            found.extend((before[job], lease, need, core.state.free[1].copy()) for lease in mine)
        return decisions

    core.handle = watching  # type: ignore[method-assign]
    kernel.run()
    return found


def needs_of(lease: Lease, use: list[int]) -> dict[int, int]:
    """Node → MB that its tasks use together; ``use``: of one task, or of each."""
    tasks = np.repeat(lease.rows[:, TASKS], lease.rows[:, NODES]).tolist()
    left = iter(use * sum(tasks) if len(use) == 1 else use)
    return {node: sum(next(left) for _ in range(n)) for node, n in zip(lease.nodes.tolist(), tasks, strict=True)}


def by_node(lease: Lease) -> dict[int, tuple[int, int]]:
    """Node → local and borrowed MB."""
    local = dict(zip(lease.nodes.tolist(), np.repeat(lease.rows[:, 4], lease.rows[:, 1]).tolist(), strict=True))
    return {
        node: (mb, int(lease.borrowed[lease.borrowed[:, BORROWER] == node, LOAN_MB].sum()))
        for node, mb in local.items()
    }  # fmt: skip


@pytest.mark.parametrize("policy", ["disaggregated(scheduler=easy, provisioning=dynamic, lenders_compute=yes)",
                                    "naive(scheduler=fcfs, provisioning=dynamic, monitor=1 min)"])  # fmt: skip
def test_leases_shrink_remote_first_and_grow_local_first(policy: str) -> None:
    shrunk = grown = 0
    for seed in range(8):
        for before, after, need, free in changes(policy, seed):
            old, new = by_node(before), by_node(after)
            assert {node: sum(mb) for node, mb in new.items()} == need  # what is used, and no more
            if all(need[node] <= sum(mb) for node, mb in old.items()):
                plain = smaller(before, need)
                assert new == by_node(plain)
                shrunk += 1
            for node, (local, remote) in new.items():
                if remote > old[node][1]:
                    assert free[node] == 0, "it borrows, and there is room where it runs"
                    grown += 1
                if local < old[node][0]:
                    assert remote == 0, "it gave local memory back, and keeps some that is remote"
    assert shrunk > 20
    assert grown > 5


def test_remote_memory_that_is_pulled_back_leaves_no_loan_beside_free_memory() -> None:
    pulled = 0
    for seed in range(6):
        for _, after, _, free in changes("naive(scheduler=fcfs, provisioning=dynamic, pull=yes)", seed):
            pulled += 1
            for node, (_, remote) in by_node(after).items():
                assert remote == 0 or free[node] == 0
    assert pulled > 20
