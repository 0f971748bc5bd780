"""Many jobs that start at once leave the ledger as if they had started one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack import Cluster
from unrack.core import Core
from unrack.errors import RefusedError
from unrack.events import Round, Submitted
from unrack.ledger.lease import Lease
from unrack.policy.contract import Start
from unrack.policy.table import parse_policy
from unrack.workload.job import job_table


def core_of(seed: int, count: int = 60) -> tuple[Core, list[Lease]]:
    """A core in which some jobs run, and leases of others that wait and fit."""
    random = np.random.default_rng(seed)
    jobs = job_table(
        submit_us=np.zeros(count, np.int64), work_us=random.integers(1, 9, count), tasks=np.ones(count, np.int64),
        cores=random.integers(0, 4, count), memory_mb=random.integers(0, 9, count),
    )  # fmt: skip
    core = Core(Cluster.homogeneous(16, 16, 64), jobs, parse_policy("fcfs"))
    for job in range(count):
        core.handle(Submitted(job), 0)
    free, leases = core.state.free.copy(), []
    for job in random.permutation(count).tolist():
        _, cores, mb, _ = core.state.asks[:, job].tolist()
        node = int(random.integers(16))
        if random.random() < 0.8 and free[0, node] >= cores and free[1, node] >= mb:
            free[:, node] -= (cores, mb)
            leases.append(Lease.on(job, [node], [1], [cores], [mb]))
    for lease in leases[:5]:
        core.state.start(lease, 3, 0)
    return core, leases[5:]


def told(core: Core) -> list[object]:
    """All that the ledger says of jobs and nodes."""
    state = core.state
    return [
        state.free.tolist(), state.running[:, : state.running_count].tolist(), bytes(state.conditions),
        state.queue[state.queue_start : state.queue_end].tolist(), state.free_cores, state.version,
        [state.lease(job).rows.tolist() for job in state.running[1, : state.running_count].tolist()],
    ]  # fmt: skip


@draws(60)
@given(st.integers(0, 100_000))
def test_at_once_or_one_by_one_comes_to_the_same(seed: int) -> None:
    (one, leases), (other, _) = core_of(seed), core_of(seed)
    assert one.state.start_many(leases, 4)
    for lease in leases:
        other.state.start(lease, int(other.state.asks[3, lease.job]), 4)
    assert told(one) == told(other)


@pytest.mark.parametrize("fault", ["too much", "twice", "runs", "no such node", "too few cores", "no such job"])
def test_a_plan_with_one_wrong_lease_changes_nothing_and_the_core_says_what_is_wrong(fault: str) -> None:
    core, leases = core_of(3)
    node = int(leases[0].rows[0, 0])
    job, (_, cores, mb, _) = leases[-1].job, core.state.asks[:, leases[-1].job].tolist()
    wrong = {
        "too much": Lease.on(job, [node], [1], [cores], [10_000]), "twice": leases[0],
        "runs": Lease.on(int(core.state.running[1, 0]), [node], [1], [4], [9]),
        "no such node": Lease.on(job, [16], [1], [cores], [mb]), "too few cores": Lease.on(job, [node], [2], [0], [0]),
        "no such job": Lease.on(99, [node], [1], [4], [9]),
    }[fault]  # fmt: skip
    plan, before = [*leases[:-1], wrong], told(core)
    assert len(plan) >= 32
    assert not core.state.start_many(plan, 0)
    assert told(core) == before
    with pytest.raises(RefusedError, match=r"job \d+"):
        core.commit([Start(lease) for lease in plan], 0)
    assert told(core)[:5] == before[:5]


def test_a_plan_of_many_starts_from_a_policy_is_carried_out_as_one() -> None:
    jobs = job_table(
        submit_us=np.zeros(100, np.int64),
        work_us=np.full(100, 5),
        tasks=np.ones(100, np.int64),
        cores=np.ones(100, np.int64),
    )
    core = Core(Cluster.homogeneous(25, 4), jobs, parse_policy("flow(interval=0)"))
    for job in range(100):
        core.handle(Submitted(job), 0)
    assert len(core.handle(Round(), 0)) == 100
    assert core.state.running_count == 100
    assert core.view.waiting == 0
