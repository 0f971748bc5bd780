"""The core alone: recorded events give the same decisions again; decisions of any kind are carried out, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_worlds import J, S, lease_on, start_on, table, work

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import FaultyPolicyError, PolicyError, RefusedError, RunError
from unrack.events import Event, Failed, Finished, Repaired, Round, Submitted
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Need, Reject, Requeue, Resize, Start, Used
from unrack.policy.discipline.list_scheduler import ListScheduler
from unrack.policy.file import complete
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.sim.faults import Fault
from unrack.sim.kernel import Kernel
from unrack.sim.simulate import simulate
from unrack.sim.world import Ties, World
from unrack.view import View

PAIR = Cluster.homogeneous(nodes=2, cores=2, memory=10)


def plain(decision: Decision) -> tuple[object, ...]:
    """A decision as values that can be compared."""
    if isinstance(decision, Start | Resize):
        lease = decision.lease
        return type(decision).__name__, lease.job, lease.rows.tolist(), lease.borrowed.tolist(), lease.shares
    return (type(decision).__name__, *decision)


@pytest.mark.parametrize("ties", list(Ties))
@pytest.mark.parametrize(
    "name",
    [
        "fcfs",
        "easy",
        "easy(order=wfp3)",
        "easy(backfill_order=sjf)",
        "conservative",
        "slurm(interval=7 s)",
        "list(backfill=any)",
    ],
)
def test_the_events_of_a_simulation_replayed_through_a_fresh_core_give_the_same_decisions(
    name: str, ties: Ties
) -> None:
    random = np.random.default_rng(1)
    jobs = table(
        [
            J(int(s), int(r), int(t), int(r + x), int(c), int(m))
            for s, r, t, x, c, m in zip(
                np.sort(random.integers(0, 400, 120)), random.integers(0, 40, 120), random.integers(1, 6, 120),
                random.integers(0, 30, 120), random.integers(1, 3, 120), random.integers(0, 4, 120), strict=True,
            )
        ]
    )  # fmt: skip
    cluster = Cluster.homogeneous(nodes=6, cores=2, memory=10)
    faults = [Fault("node1", 30 * S, 50 * S), Fault("node4", 100 * S, 80 * S)]
    core = Core(cluster, jobs, parse_policy(name))
    recorded: list[tuple[Event, int, list[tuple[object, ...]]]] = []
    handle = core.handle

    def recording(event: Event, now: int) -> list[Decision]:
        decisions = handle(event, now)
        recorded.append((event, now, [plain(decision) for decision in decisions]))
        return decisions

    core.handle = recording  # type: ignore[method-assign]
    Kernel(core, World(faults=faults, ties=ties)).run()
    fresh = Core(cluster, jobs, parse_policy(name))
    for event, now, decisions in recorded:
        assert [plain(decision) for decision in fresh.handle(event, now)] == decisions
    assert sum(len(decisions) for _, _, decisions in recorded) > 120
    assert any(isinstance(event, Repaired) for event, _, _ in recorded)


class Script:
    """Decides what a table of time → decisions says."""

    def __init__(self, decisions: dict[int, list[Any]]) -> None:
        self.decisions = decisions

    def decide(self, view: object, memory: None, now: int) -> tuple[list[Decision], None]:
        return list(self.decisions.get(now // S, [])), None

    def next_round(self, view: object, memory: None, now: int) -> int | None:
        later = [time * S for time in self.decisions if time * S > now]
        return min(later) if later else None


def scripted(decisions: dict[int, list[Any]]) -> Any:
    return complete(Script(decisions), "test")


def test_resizes_requeues_and_rejections_of_a_users_policy_are_carried_out() -> None:
    policy = scripted(
        {
            0: [start_on(0, 0, mb=2)],
            2: [Resize(lease_on(0, 1, cores=2, mb=4)), start_on(1, 0)],
            4: [Requeue(1, Reason(Code.PREEMPTED, "for fun")), Reject(2, Reason(Code.NO_ROOM, "patience"))],
            6: [start_on(1, 0)],
        }
    )
    result = simulate(PAIR, work(J(0, 10, mb=2), J(1, 3), J(1, 3)), policy)
    assert result.jobs["end_s"].to_list() == [10, 9, None]
    assert result.jobs["state"].to_list() == ["finished", "finished", "rejected"]
    assert result.jobs["reason"].to_list() == ["", "", "no-room: patience"]
    assert result.jobs["restarts"].to_list() == [0, 1, 0]
    attempts = result.placements.select("job", "attempt", "start_s", "end_s", "outcome").rows()
    assert [row for row in attempts if row[0] == 2] == [(2, 1, 2, 4, "preempted"), (2, 2, 6, 9, "finished")]


def test_a_policy_that_never_starts_a_job_leaves_it_queued_with_a_reason() -> None:
    result = simulate(PAIR, work(J(0, 3), J(0, 3)), scripted({0: [start_on(0, 0)]}))
    assert result.jobs["state"].to_list() == ["finished", "queued"]
    assert result.jobs["reason"][1].startswith("never-started")
    assert result.metrics["jobs_queued"] == 1


@pytest.mark.parametrize(
    ("decision", "culprit"),
    [
        (Start(lease_on(0, 0, cores=3)), "job 0"),  # more than the node has
        (Start(lease_on(0, 5)), "job 0"),  # no such node
        (Start(lease_on(0, 0, tasks=2, cores=2)), "job 0"),  # more tasks than it has
        (Start(lease_on(1, 0)), "job 1"),  # not submitted yet
        (Start(lease_on(77, 0)), "job 77"),  # no such job
        (Start(lease_on(-1, 0)), "job -1"),
        (Start(Lease(0, np.empty((0, 5), np.int64))), "job 0"),
        (Resize(lease_on(0, 0)), "job 0"),  # not running
        (Resize(lease_on(77, 0)), "job 77"),
        (Requeue(0, Reason(Code.PREEMPTED)), "job 0"),  # not running
        (Requeue(77, Reason(Code.PREEMPTED)), "job 77"),
        (Reject(1, Reason(Code.NO_ROOM)), "job 1"),  # not queued
        (Reject(77, Reason(Code.NO_ROOM)), "job 77"),
    ],
)
def test_an_impossible_decision_is_refused_with_the_name_of_the_job(decision: Any, culprit: str) -> None:
    with pytest.raises(RefusedError, match=culprit):
        simulate(PAIR, work(J(0, 3), J(9, 3)), scripted({0: [decision]}))


@pytest.mark.parametrize("decision", ["start it", None])
def test_what_is_no_decision_is_an_error_that_shows_it(decision: Any) -> None:
    with pytest.raises(FaultyPolicyError, match=str(decision)):
        simulate(PAIR, work(J(0, 3), J(9, 3)), scripted({0: [decision]}))


def test_starting_a_job_twice_in_one_round_is_refused_and_nothing_was_started() -> None:
    core = Core(PAIR, table([J(0, 3)]), scripted({0: [start_on(0, 0), start_on(0, 1)]}))
    core.handle(Submitted(0), 0)
    with pytest.raises(RefusedError, match="job 0"):
        core.handle(Round(), 0)
    assert core.state.free[0].tolist() == [2, 2]
    assert core.view.queue.tolist() == [0]


@pytest.mark.parametrize(
    "event",
    [
        Submitted(0),
        Submitted(9),
        Finished(1),
        Finished(9),
        Used(np.array([1]), np.array([0, 1]), np.array([5])),
        Repaired((0,)),
        Failed((7,)),
        Repaired((-1,)),
    ],
)
def test_an_event_that_contradicts_the_state_is_refused(event: Event) -> None:
    core = Core(PAIR, table([J(0, 3), J(0, 3)]), scripted({0: [start_on(0, 0)]}))
    core.handle(Submitted(0), 0)
    core.handle(Submitted(1), 0)
    core.handle(Round(), 0)
    with pytest.raises(RefusedError):
        core.handle(event, 1)


def test_a_round_asked_for_in_the_past_is_an_error() -> None:
    class Past(Script):
        def next_round(self, view: object, memory: None, now: int) -> int | None:
            return now

    with pytest.raises(RunError, match="Past"):
        simulate(PAIR, work(J(0, 3)), complete(Past({}), "test"))


def test_a_failure_answers_with_the_requeues_it_caused() -> None:
    core = Core(PAIR, table([J(0, 3, tasks=2, cores=2), J(0, 3)]), parse_policy("fcfs"))
    core.handle(Submitted(0), 0)
    core.handle(Submitted(1), 0)
    core.handle(Round(), 0)
    assert [plain(d)[:2] for d in core.handle(Failed((1,)), 2)] == [("Requeue", 0)]
    assert core.view.queue.tolist() == [0, 1]
    assert core.view.free.tolist() == [[2, 0], [10, 0]]


def test_a_job_bigger_than_the_empty_cluster_is_rejected_when_it_is_submitted_with_the_reason() -> None:
    jobs = work(
        J(0, 1, tasks=5), J(0, 1, cores=3), J(0, 1, mb=11), J(0, 1, tasks=3, cores=2), J(0, 1, tasks=3, mb=6), J(0, 1)
    )
    result = simulate(PAIR, jobs, "easy")
    assert result.jobs["state"].to_list() == ["rejected"] * 5 + ["finished"]
    assert result.jobs["reason"].to_list() == [
        "too-big: cores (asked 5, free 4)",
        "too-big: cores on one node (asked 3, free 2)",
        "too-big: MB on one node (asked 11, free 10)",
        "too-big: cores (asked 6, free 4)",
        "too-big: places for tasks of 1 cores and 6 MB (asked 3, free 2)",
        "",
    ]


def test_a_policy_whose_needs_the_workload_does_not_meet_is_refused_before_anything_runs() -> None:
    class Needy(Script):
        needs = frozenset({Need.DEADLINES})

    with pytest.raises(PolicyError, match="deadlines"):
        simulate(PAIR, work(J(0, 3)), complete(Needy({}), "test"))


def test_an_answer_that_is_not_decisions_and_memory_is_an_error_that_shows_it() -> None:
    class Odd:
        def decide(self, view: object, memory: None, now: int) -> list[Decision]:
            return []

    with pytest.raises(FaultyPolicyError, match="decide"):
        simulate(PAIR, work(J(0, 3)), Odd())
    with pytest.raises(PolicyError, match="decide"):
        simulate(PAIR, work(J(0, 3)), object())


def test_a_placement_of_the_users_own_may_refuse_for_ever() -> None:
    result = simulate(PAIR, work(J(0, 3)), ListScheduler(place=lambda free, total, job: None))
    assert result.jobs["state"].to_list() == ["queued"]


def test_a_run_in_which_nobody_ever_starts_ends_though_the_policy_asks_for_more_rounds() -> None:
    class Patient:
        def decide(self, view: View, memory: None, now: int) -> tuple[list[Decision], None]:
            waits_long = now >= 90_000 * S and view.waiting == 2  # an answer that comes late is still heard
            return ([start_on(int(view.queue[0]), 0)] if waits_long else []), None

        def next_round(self, view: View, memory: None, now: int) -> int:
            return now + S

    result = simulate(PAIR, work(J(0, 3), J(0, 3)), Patient())
    assert result.jobs["state"].to_list() == ["finished", "queued"]
    assert result.jobs["start_s"].to_list() == [90_000, None]
