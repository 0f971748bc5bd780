"""What others do to jobs and nodes, and what becomes of starts: events of worlds that are not simulated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import RefusedError
from unrack.events import (
    ROUND,
    Adopted,
    Drained,
    Event,
    Expected,
    Failed,
    Finished,
    Repaired,
    Started,
    StartFailed,
    Submitted,
    Withdrawn,
)  # fmt: skip
from unrack.ledger.lease import Lease
from unrack.ledger.state import FINISHED, QUEUED, REJECTED, RUNNING
from unrack.policy.contract import Decision, Requeue, Start
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.workload.job import Demand, Job

S = 1_000_000
AWAY = Reason(Code.WITHDRAWN, "cancelled")


def job(tasks: int = 1, cores: int = 1, mb: int = 0, request_s: int = 10, at_us: int = 0) -> Job:
    return Job(0, "j", at_us, request_s * S, None, 0, "", "", Demand(tasks, cores, mb))


def core(policy: str = "easy", nodes: int = 2, cores: int = 4) -> Core:
    return Core(Cluster.homogeneous(nodes=nodes, cores=cores, memory=100), None, parse_policy(policy))


def started(decisions: list[Decision]) -> list[int]:
    return [decision.lease.job for decision in decisions if isinstance(decision, Start)]


def ends(of: Core) -> dict[int, int]:
    count = of.state.running_count
    return dict(zip(of.state.running[1, :count].tolist(), of.state.running[0, :count].tolist(), strict=True))


def on(node: int, cores: int, mb: int = 0, tasks: int = 1) -> Lease:
    return Lease.on(-1, [node], [tasks], [cores], [mb])


def test_an_adopted_job_holds_its_lease_and_is_expected_to_end_when_it_was_said() -> None:
    one = core()
    one.handle(Adopted(job(cores=3, mb=40), on(1, 3, 40), 7 * S), 2 * S)
    assert one.state.free.tolist() == [[4, 1], [100, 60]]
    assert ends(one) == {0: 9 * S}
    one.handle(Finished(0), 5 * S)
    assert one.state.free.tolist() == [[4, 4], [100, 100]]


def test_an_adopted_job_may_hold_less_than_it_asks_and_no_more_than_is_free() -> None:
    one = core()
    one.handle(Adopted(job(cores=3, mb=80), on(0, 1, 10), 7 * S), 0)
    with pytest.raises(RefusedError, match="free"):
        one.handle(Adopted(job(), on(0, 4), 7 * S), 0)
    assert one.state.free[:, 0].tolist() == [3, 90]
    assert one.state.status[:2].tolist() == [RUNNING, REJECTED]
    one.handle(Submitted(job(cores=4)), 0)
    assert started(one.handle(ROUND, 0)) == [2]


def test_an_adopted_job_that_is_queued_again_asks_for_all_its_time() -> None:
    one = core()
    one.handle(Adopted(job(request_s=50), on(0, 1), 7 * S), 0)
    one.handle(StartFailed(0, AWAY), 1 * S)
    assert one.view.estimate_us.tolist() == [50 * S]
    assert started(one.handle(ROUND, 2 * S)) == [0]
    assert ends(one) == {0: 52 * S}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "slurm", "list(backfill=any)", "easy(order=sjf)"])
def test_policies_backfill_around_adopted_jobs(policy: str) -> None:
    one = core(policy, nodes=1)
    one.handle(Adopted(job(cores=3), on(0, 3), 20 * S), 0)
    one.handle(Submitted(job(cores=2, request_s=5)), 0)
    one.handle(Submitted(job(cores=1, request_s=5)), 0)
    first = started(one.handle(ROUND, 0))
    assert first == ([] if policy == "fcfs" else [2])
    one.handle(Finished(0), 4 * S)
    assert 1 in started(one.handle(ROUND, 4 * S))


def test_a_start_counts_from_when_it_was_acknowledged() -> None:
    one = core()
    one.handle(Submitted(job()), 0)
    one.handle(Submitted(job(request_s=11)), 0)
    one.handle(ROUND, 0)
    assert ends(one) == {0: 10 * S, 1: 11 * S}
    one.handle(Started(0), 3 * S)
    assert list(ends(one).items()) == [(1, 11 * S), (0, 13 * S)]
    assert np.all(np.diff(one.state.running[0, : one.state.running_count]) >= 0)


def test_a_start_that_failed_waits_again_at_its_old_place() -> None:
    one = core(nodes=1)
    one.handle(Submitted(job(cores=4)), 0)
    one.handle(Submitted(job(cores=4)), 0)
    assert started(one.handle(ROUND, 0)) == [0]
    answer = one.handle(StartFailed(0, AWAY), S)
    assert answer == [Requeue(0, AWAY)]
    assert one.view.queue.tolist() == [0, 1]
    assert started(one.handle(ROUND, S)) == [0]


def test_a_withdrawn_job_leaves_the_queue_or_what_it_held() -> None:
    one = core(nodes=1)
    for _ in range(2):
        one.handle(Submitted(job(cores=4)), 0)
    one.handle(ROUND, 0)
    one.handle(Withdrawn(1, AWAY), S)
    one.handle(Withdrawn(0, AWAY), S)
    assert one.state.status[:2].tolist() == [FINISHED, REJECTED]
    assert one.why(1, S) == AWAY
    assert one.state.free.tolist() == [[4], [100]]
    with pytest.raises(RefusedError, match="neither"):
        one.handle(Withdrawn(1, AWAY), S)


def test_an_expected_end_is_never_in_the_past() -> None:
    one = core()
    one.handle(Submitted(job()), 0)
    one.handle(ROUND, 0)
    one.handle(Expected(0, 5 * S), 8 * S)
    assert ends(one) == {0: 8 * S}


def test_nothing_starts_on_a_node_that_drains_and_what_runs_there_goes_on() -> None:
    one = core()
    one.handle(Adopted(job(cores=2, mb=30), on(0, 2, 30), 20 * S), 0)
    one.handle(Drained((0, 1)), 0)
    assert one.state.online.tolist() == [True, False]
    one.handle(Submitted(job()), 0)
    assert started(one.handle(ROUND, 0)) == []
    one.handle(Finished(0), S)
    assert started(one.handle(ROUND, S)) == []
    assert one.state.online.tolist() == [False, False]
    assert one.state.free_cores == 0
    one.handle(Repaired((0,)), 2 * S)
    assert started(one.handle(ROUND, 2 * S)) == [1]


def test_a_node_that_drains_may_come_back_before_it_is_empty() -> None:
    one = core()
    one.handle(Adopted(job(cores=1), on(0, 1), 20 * S), 0)
    one.handle(Drained((0,)), 0)
    one.handle(Repaired((0,)), S)
    assert one.state.free.tolist() == [[3, 4], [100, 100]]
    assert one.state.free_cores == 7
    assert not one.state.withheld


EVENTS = st.lists(
    st.tuples(st.sampled_from(["submit", "adopt", "ack", "fail", "end", "away", "late", "drain", "back", "down"]),
              st.integers(0, 30), st.integers(1, 4)),
    max_size=60,
)  # fmt: skip


@draws(150)
@given(EVENTS, st.sampled_from(["fcfs", "easy", "conservative", "slurm", "disaggregated"]))
def test_free_held_and_withheld_are_all_that_is_installed_whatever_happens(
    happenings: list[tuple[str, int, int]], policy: str
) -> None:
    one = core(policy, nodes=3)
    for second, (what, which, size) in enumerate(happenings):
        event = _event(one, what, which, size)
        if event is not None:
            one.handle(event, second * S)
        one.handle(ROUND, second * S)
        _conserves(one)


def _event(one: Core, what: str, which: int, size: int) -> Event | None:
    state, node = one.state, which % 3
    status: list[Any] = state.status[: state.jobs].tolist()
    running = [i for i, condition in enumerate(status) if condition == RUNNING]
    queued = [i for i, condition in enumerate(status) if condition == QUEUED]
    pick = running[which % len(running)] if running else -1
    if what == "submit":
        return Submitted(job(size, 1 + which % 4, which, 1 + which))
    if what == "adopt":
        fits = state.free[0, node] >= size and state.free[1, node] >= which
        return Adopted(job(cores=size, mb=which), on(node, size, which), which * S) if fits else None
    if what == "drain":
        return Drained((node,))
    if what == "down":
        return Failed((node,))
    if what == "back":
        return Repaired((node,)) if not state.online[node] or node in state.withheld else None
    if what == "away":
        either = running + queued
        return Withdrawn(either[which % len(either)], AWAY) if either else None
    if not running:
        return None
    return {"ack": Started(pick), "fail": StartFailed(pick, AWAY), "end": Finished(pick)}.get(
        what, Expected(pick, which * 3 * S)
    )


def _conserves(one: Core) -> None:
    state = one.state
    held = np.zeros_like(state.total)
    for i in np.flatnonzero(state.status[: state.jobs] == RUNNING).tolist():
        lease = state.lease(i)
        for first, nodes, _, cores, mb in lease.rows.tolist():
            held[0, first : first + nodes] += cores
            held[1, first : first + nodes] += mb
        for _, lender, mb in lease.borrowed.tolist():
            held[1, lender] += mb
    for node, kept in state.withheld.items():
        held[:, node] += kept
        assert not state.free[:, node].any()
    expected = np.where(state.online, state.total, held)
    assert (state.free + held == expected).all()
    assert state.free_cores == int(state.free[0].sum())
    count = state.running_count
    assert (np.diff(state.running[0, :count]) >= 0).all()
