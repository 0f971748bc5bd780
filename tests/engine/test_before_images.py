"""A plan of any decisions that is refused leaves the ledger as it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack import Cluster
from unrack.core import Core
from unrack.errors import RefusedError
from unrack.events import Submitted
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Reject, Requeue, Resize, Start
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.workload.job import job_table

WHY = Reason(Code.PREEMPTED)


def core_of(seed: int, count: int = 12) -> Core:
    """A core on which about half of the jobs run; it keeps whose memory they use for every other seed."""
    random = np.random.default_rng(seed)
    jobs = job_table(
        submit_us=np.zeros(count, np.int64), work_us=random.integers(5, 9, count), tasks=np.ones(count, np.int64),
        cores=np.ones(count, np.int64), memory_mb=random.integers(0, 5, count),
    )  # fmt: skip
    core = Core(Cluster.homogeneous(6, 4, 16), jobs, parse_policy("fcfs"), keeps_memory=bool(seed % 2))
    for job in range(count):
        core.handle(Submitted(job), 0)
    for job in random.permutation(count)[: count // 2].tolist():
        core.commit([Start(lease_on(core, job, job % 6))], 0)
    return core


def lease_on(core: Core, job: int, node: int, more_mb: int = 0) -> Lease:
    """A lease of what a job asks, and more memory, on a node."""
    return Lease.on(job, [node], [1], [1], [int(core.state.asks[2, job]) + more_mb])


def told(core: Core) -> list[object]:
    """All that the ledger says of jobs and nodes."""
    state = core.state
    running = state.running[1, : state.running_count].tolist()
    return [
        state.free.tolist(), state.running[:, : state.running_count].tolist(), bytes(state.conditions),
        state.queue[state.queue_start : state.queue_end].tolist(), state.free_cores, state.version, state.releases,
        state.unforeseen, state.asks.tolist(), list(state.expected_us), dict(core.reasons),
        [state.lease(job).rows.tolist() for job in running], state._whole_us, state._before_us,
        None if state.memory is None else (state.memory.lent.tolist(), state.memory.counter.tolist()[1:]),
    ]  # fmt: skip


def plan_of(core: Core, seed: int) -> list[Decision]:
    """Decisions that can be carried out one after the other: jobs start, stop, stop again, change, are dropped."""
    random, decisions = np.random.default_rng(seed), []
    runs = {job: job % 6 for job in core.state.running[1, : core.state.running_count].tolist()}
    waits = core.view.queue.tolist()
    for _ in range(int(random.integers(1, 9))):
        kind = int(random.integers(4))
        if kind == 0 and waits:
            job = waits.pop(int(random.integers(len(waits))))
            runs[job] = job % 6
            decisions.append(Start(lease_on(core, job, job % 6)))
        elif kind == 1 and runs:
            job = sorted(runs)[int(random.integers(len(runs)))]
            del runs[job]
            waits.append(job)
            decisions.append(Requeue(job, WHY, keep_work=bool(random.integers(2))))
        elif kind == 2 and runs:
            job = sorted(runs)[int(random.integers(len(runs)))]
            decisions.append(Resize(lease_on(core, job, job % 6, 1), below=bool(random.integers(2))))
        elif kind == 3 and waits:
            decisions.append(Reject(waits.pop(), WHY))
    return decisions


@draws(80)
@given(st.integers(0, 100_000))
def test_a_plan_is_done_whole_or_not_at_all_whatever_it_decides(seed: int) -> None:
    core = core_of(seed)
    plan = plan_of(core, seed)
    before = [np.copy(x) if isinstance(x, np.ndarray) else repr(x) for x in told(core)]
    with pytest.raises(RefusedError, match="job 99"):
        core.commit([*plan, Requeue(99, WHY)], 3)
    assert [repr(x) for x in told(core)] == before
    core.commit(plan, 3)
    other = core_of(seed)
    for decision in plan:
        other.commit([decision], 3)
    assert told(core)[:5] == told(other)[:5]
    assert core.reasons == other.reasons
