"""The Slurm-like scheduler on schedules worked out by hand."""

from __future__ import annotations

import pytest
from small_worlds import J, S, starts, table, work

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.policy.table import parse_policy
from unrack.reasons import Code
from unrack.sim.kernel import Kernel
from unrack.sim.simulate import simulate

FOUR = Cluster.homogeneous(nodes=4, cores=1)
BLOCKED = [J(1, 100, 3), J(2, 50, 4), J(3, 20, 1)]
"""The first holds 3 of 4 nodes until 101 s, the second waits for all 4, the third could be backfilled."""


def run(jobs: list[J], policy: str, cluster: Cluster = FOUR) -> list[int | None]:
    return starts(simulate(cluster, work(*jobs), policy).log)


@pytest.mark.parametrize(("interval", "start"), [(30, 30), (7, 7), (40, 40), (3, 3)])
def test_backfill_waits_for_the_next_multiple_of_the_interval(interval: int, start: int) -> None:
    assert run(BLOCKED, f"slurm(interval={interval} s)") == [1, 101, start]


def test_the_main_loop_starts_jobs_in_order_at_every_event() -> None:
    assert run([J(1, 10, 4), J(2, 5, 2), J(3, 5, 2)], "slurm(interval=1h)") == [1, 11, 11]


def test_the_main_loop_stops_at_the_first_job_that_does_not_fit() -> None:
    assert run([J(1, 100, 3), J(2, 5, 2), J(3, 5, 1)], "slurm(interval=1h)") == [1, 101, 101]


def test_a_job_that_would_delay_a_reservation_is_not_backfilled() -> None:
    # at 30 s the reserved start of the second is 101: a job of 71 s ends then, one of 72 s does not
    assert run([J(1, 100, 3), J(2, 50, 4), J(3, 71, 1)], "slurm") == [1, 101, 30]
    assert run([J(1, 100, 3), J(2, 50, 4), J(3, 72, 1)], "slurm") == [1, 101, 151]


def test_backfill_plans_for_depth_jobs_only() -> None:
    jobs = [*BLOCKED[:2], J(3, 50, 4), *BLOCKED[2:]]
    assert run(jobs, "slurm(depth=3)") == [1, 101, 151, 30]
    assert run(jobs, "slurm(depth=2)") == [1, 101, 151, 201]


def test_both_loops_look_at_the_first_jobs_of_the_queue_only() -> None:
    assert run(BLOCKED, "slurm(queue=2)") == [1, 101, 30]
    assert run(BLOCKED, "slurm(queue=1)") == [1, 101, 151]
    # the main loop starts at most `queue` jobs a round
    assert run([J(1, 10, 4), J(2, 9, 1), J(2, 9, 1), J(2, 9, 1)], "slurm(queue=2, interval=1h)") == [1, 11, 11, 20]


def test_the_order_decides_who_is_planned_first() -> None:
    jobs = [J(1, 10, 4), J(2, 9, 4), J(3, 5, 4)]
    assert run(jobs, "slurm") == [1, 11, 20]
    assert run(jobs, "slurm(order=sjf)") == [1, 16, 11]


def test_backfill_respects_several_reservations_unlike_easy() -> None:
    # the head waits for 101 s; the second reservation (2 nodes from 101 to 201) needs the node that the last wants
    jobs = [J(1, 100, 3), J(2, 100, 2), J(3, 100, 2), J(4, 150, 1)]
    assert run(jobs, "easy") == [1, 101, 154, 4]
    assert run(jobs, "slurm") == [1, 101, 101, 201]


def test_it_asks_for_a_round_only_while_jobs_wait_and_something_has_changed() -> None:
    core = Core(FOUR, table(BLOCKED), parse_policy("slurm"))
    rounds: list[int] = []
    Kernel(core).run(after_round=lambda now: rounds.append(now // S))
    # submissions, the backfill at 30 s, once more at 60 s to see that its start changed nothing, and the ends
    assert rounds[:5] == [1, 2, 3, 30, 50]
    assert len(rounds) < 12


def test_reasons_say_too_deep_reserved_or_no_room() -> None:
    core = Core(FOUR, table([*BLOCKED[:2], J(3, 90, 1), J(4, 90, 1)]), parse_policy("slurm(depth=2, queue=3)"))
    seen: dict[int, tuple[Code, ...]] = {}
    Kernel(core).run(
        after_round=lambda now: seen.setdefault(
            now // S, tuple(core.why(j, now).code for j in core.view.queue.tolist())
        )
    )
    assert seen[30] == (Code.NO_ROOM, Code.RESERVED, Code.TOO_DEEP)
