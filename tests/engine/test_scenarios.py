"""Small schedules worked out by hand: start times in seconds."""

from __future__ import annotations

import numpy as np
import pytest
from small_worlds import J, nodes_held, starts, table, work, workload_of

from unrack.cluster.spec import Cluster
from unrack.sim.simulate import simulate
from unrack.sim.world import World

FOUR = Cluster.homogeneous(nodes=4, cores=1)
NODES = Cluster.homogeneous(nodes=2, cores=4, memory=10)
UNEQUAL = Cluster.from_dict({"nodes": [{"count": 1, "cores": 4, "memory": 8}, {"count": 2, "cores": 8, "memory": 32}]})


def run(cluster: Cluster, policy: str, *jobs: J, ties: str = "together") -> list[int | None]:
    return starts(simulate(cluster, work(*jobs), policy, world=World(ties=ties)).log)


BACKFILL = [J(0, 10, 2), J(1, 10, 3), J(2, 8, 1), J(3, 12, 1), J(4, 6, 2)]
"""2 of 4 nodes are held until 10; the head wants 3; then a short and a long job of 1, and one of 2 that ends at 10."""


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        ("fcfs", [0, 10, 10, 18, 20]),
        ("easy", [0, 10, 2, 3, 20]),  # the long job fits beside the head; then no two nodes are free before 20
        ("conservative", [0, 10, 2, 3, 20]),
        ("easy(order=sjf)", [0, 16, 2, 3, 10]),  # at 4 the last becomes the head, and has two nodes at 10
    ],
)
def test_who_may_pass_the_head_of_the_queue(policy: str, want: list[int]) -> None:
    assert run(FOUR, policy, *BACKFILL) == want


def test_backfill_of_any_job_delays_the_head_and_easy_does_not() -> None:
    jobs = [J(0, 10, 2), J(1, 10, 3), J(2, 20, 2)]
    assert run(FOUR, "list(backfill=any)", *jobs) == [0, 22, 2]
    assert run(FOUR, "easy", *jobs) == [0, 10, 20]


def test_easy_looks_again_when_a_job_comes_after_others_have_passed_their_booked_ends() -> None:
    # Booked to end at 10 and 12, both run to 100: until then the head takes at 10 all that is free. At 15 both may end
    # at any moment, and leave two nodes beside the head's.
    jobs = [J(0, 100, 2, request=10), J(0, 100, 2, request=12), J(1, 10, 4), J(2, 50, 2), J(15, 10, 6)]
    assert run(Cluster.homogeneous(nodes=6, cores=1), "easy", *jobs)[:4] == [0, 0, 100, 15]


@pytest.mark.parametrize(("more_us", "want"), [(0, [0, 10, 2]), (1, [0, 10, 20])])
def test_who_passes_the_head_of_easy_may_end_when_it_starts_and_no_moment_later(more_us: int, want: list[int]) -> None:
    jobs = table([J(0, 10, 2), J(1, 10, 4), J(2, 8, 2)])
    jobs.request_us[2] += more_us
    assert starts(simulate(FOUR, workload_of(jobs), "easy").log) == want


def test_of_two_jobs_that_are_due_one_waits_where_a_job_runs_on_with_what_it_claims() -> None:
    # At 10 one of the two seats is given back as booked, and the other is not: only one of the two that wait starts.
    cluster = Cluster.from_dict({"nodes": [{"count": 8, "cores": 1}], "counted": [{"name": "seats", "amount": 2}]})
    jobs = table([J(0, 20, request=10), J(0, 10), J(1, 5), J(2, 5)])
    jobs.devices["counted", "seats"] = np.ones(4, np.int64)
    assert starts(simulate(cluster, workload_of(jobs), "conservative").log) == [0, 0, 10, 15]


def test_only_as_many_jobs_behind_the_head_as_the_depth_says_may_pass() -> None:
    jobs = [J(0, 10, 3), J(1, 10, 4), J(2, 10, 4), J(3, 5, 1)]
    assert run(FOUR, "easy", *jobs) == [0, 10, 20, 3]
    assert run(FOUR, "easy(depth=2)", *jobs) == [0, 10, 20, 3]
    assert run(FOUR, "easy(depth=1)", *jobs) == [0, 10, 20, 30]


def test_easy_may_delay_the_second_job_and_conservative_may_not() -> None:
    # 3 of 4 held to 10. B wants 4 (10-20), C wants 3 (20-30), D wants 1 for 25 s, E wants 1 for 10 s.
    jobs = [J(0, 10, 3), J(1, 10, 3), J(2, 10, 4), J(3, 25, 1)]
    assert run(FOUR, "easy", *jobs) == [0, 10, 28, 3]
    assert run(FOUR, "conservative", *jobs) == [0, 10, 20, 30]


def test_conservative_moves_reservations_forward_when_a_job_ends_early() -> None:
    jobs = [J(0, 4, 4, request=10), J(1, 5, 4), J(2, 5, 2)]
    assert run(FOUR, "conservative", *jobs) == [0, 4, 9]


def test_a_job_that_runs_longer_than_it_asked_delays_the_others_and_nothing_breaks() -> None:
    jobs = [J(0, 9, 3, request=4), J(1, 5, 4), J(2, 2, 1), J(5, 2, 1)]
    assert run(FOUR, "easy", *jobs) == [0, 9, 2, 14]
    assert run(FOUR, "fcfs", *jobs) == [0, 9, 14, 14]


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        ("fcfs", [0, 10, 16, 18]),
        ("sjf", [0, 17, 10, 12]),
        ("ljf", [0, 10, 21, 16]),
        ("smallest", [0, 15, 21, 10]),
        ("largest", [0, 10, 16, 18]),
        ("smallest-area", [0, 17, 10, 12]),
        ("priority", [0, 12, 10, 18]),
    ],
)
def test_orders_decide_who_goes_first(policy: str, want: list[int]) -> None:
    # one at a time: every job holds at least 3 of 4 nodes
    jobs = [J(0, 10, 4), J(1, 6, 4, priority=1), J(2, 2, 4, priority=2), J(3, 5, 3)]
    assert run(FOUR, policy, *jobs) == want


def test_the_order_wfp3_lets_an_old_large_short_job_pass() -> None:
    # at 10 s: (9/20)^3 x 4 = 0.36, (7/2)^3 x 4 = 171
    assert run(FOUR, "wfp3", J(0, 10, 4), J(1, 20, 4), J(3, 2, 4)) == [0, 12, 10]


def test_ties_of_an_order_go_by_submission_and_then_by_id() -> None:
    jobs = [J(0, 5, 4), J(1, 3, 4), J(1, 3, 4), J(2, 3, 4)]
    for policy in ("sjf", "ljf", "smallest", "largest", "smallest-area", "priority", "fcfs", "wfp3"):
        assert run(FOUR, policy, *jobs) == [0, 5, 8, 11]


def test_jobs_that_end_and_come_at_one_time_meet_the_round_in_the_order_of_the_tie_rule() -> None:
    # at 5 s a job ends early on 2 nodes while C (2 nodes) and D (4 nodes) are submitted
    jobs = [J(0, 5, 2, request=9), J(0, 9, 2), J(5, 3, 4), J(5, 4, 2)]
    assert run(FOUR, "easy", *jobs) == [0, 0, 9, 5]
    assert run(FOUR, "easy", *jobs, ties="finish-first") == [0, 0, 9, 5]
    # at 4 s the head waits for all; the job that is submitted as the first ends sees nothing free under submit-first
    jobs = [J(0, 4, 4, request=9), J(4, 1, 4), J(4, 3, 1)]
    assert run(FOUR, "easy", *jobs) == [0, 4, 5]
    assert run(FOUR, "list(backfill=any)", *jobs, ties="submit-first") == [0, 4, 5]
    jobs = [J(0, 4, 3, request=9), J(4, 2, 4), J(4, 9, 1)]
    assert run(FOUR, "list(backfill=any)", *jobs, ties="submit-first") == [0, 13, 4]
    assert run(FOUR, "list(backfill=any)", *jobs, ties="finish-first") == [0, 4, 6]
    assert run(FOUR, "list(backfill=any)", *jobs, ties="together") == [0, 4, 6]


def test_zero_run_times_take_no_time_and_need_room_all_the_same() -> None:
    jobs = [J(0, 0, 4), J(0, 0, 4), J(0, 3, 4), J(1, 0, 1), J(2, 0, 4)]
    for policy in ("fcfs", "easy", "conservative", "slurm"):
        assert run(FOUR, policy, *jobs) == [0, 0, 0, 3, 3]


def test_whole_nodes_serve_one_job_at_a_time_and_hold_all_cores() -> None:
    jobs = [J(0, 5, 3), J(0, 5, 1), J(0, 5, 1)]
    assert run(NODES, "fcfs", *jobs) == [0, 0, 0]
    result = simulate(NODES, work(*jobs), "fcfs(nodes=whole)")
    assert starts(result.log) == [0, 0, 5]
    assert result.jobs["cores"].to_list() == [4, 4, 4]
    assert result.metrics["utilisation_cores"] == pytest.approx((4 + 4 + 4) / 16)
    assert result.metrics["utilisation_cores_asked"] == pytest.approx(5 * 5 / 80)


def test_memory_keeps_jobs_off_nodes_that_have_cores_left() -> None:
    jobs = [J(0, 5, 1, mb=6), J(0, 5, 1, mb=6), J(0, 5, 1, mb=6), J(0, 5, 2, mb=4)]
    assert run(NODES, "fcfs", *jobs) == [0, 0, 5, 5]
    assert run(NODES, "list(backfill=any)", *jobs) == [0, 0, 5, 0]


def test_a_task_is_never_split_over_nodes() -> None:
    assert run(NODES, "fcfs", J(0, 5, 1, cores=3), J(0, 5, 1, cores=3), J(0, 5, 1, cores=2)) == [0, 0, 5]


def test_first_best_and_worst_fit_choose_different_nodes() -> None:
    jobs = [J(0, 9, 1, cores=5), J(0, 9, 1, cores=3)]
    chosen = {}
    for place in ("first-fit", "best-fit", "worst-fit"):
        log = simulate(UNEQUAL, work(*jobs), f"fcfs(place={place})").log
        chosen[place] = [list(nodes_held(log, i)) for i in range(2)]
    assert chosen == {"first-fit": [[1], [0]], "best-fit": [[1], [1]], "worst-fit": [[1], [2]]}


def test_a_gang_spreads_over_unequal_nodes_with_as_many_tasks_on_each_as_fit() -> None:
    log = simulate(UNEQUAL, work(J(0, 9, 6, cores=3, mb=7)), "fcfs").log
    assert log.state[0] == 4  # 1 + 2 + 2 tasks fit
    log = simulate(UNEQUAL, work(J(0, 9, 5, cores=3, mb=7)), "fcfs").log
    assert nodes_held(log, 0) == {0: (1, 3, 7), 1: (2, 6, 14), 2: (2, 6, 14)}


@pytest.mark.parametrize("policy", ["conservative(nodes=whole)", "easy(nodes=whole)", "slurm(nodes=whole)"])
def test_whole_nodes_of_several_kinds_that_take_as_many_tasks_each_hold_the_whole_gang(policy: str) -> None:
    kinds = Cluster.from_dict({"nodes": [{"count": 1, "cores": 2, "memory": m} for m in (4, 8, 16)]})
    assert run(kinds, policy, J(0, 30, 3, cores=2), J(0, 30, 2, cores=2), J(0, 30, 1, cores=2)) == [0, 30, 30]


def test_exact_estimates_let_easy_backfill_what_requests_hide() -> None:
    jobs = [J(0, 10, 3), J(1, 10, 4), J(2, 5, 1, request=50)]
    assert run(FOUR, "easy", *jobs) == [0, 10, 20]
    assert run(FOUR, "easy(estimates=exact)", *jobs) == [0, 10, 2]


def test_under_submit_first_every_end_has_a_round_of_its_own_in_the_order_of_the_starts() -> None:
    jobs = J(2, 4, 1, 4), J(2, 4, 1, 9), J(3, 2, 2, 2), J(3, 3, 1, 3)
    cluster = Cluster.homogeneous(nodes=2, cores=1)
    assert run(cluster, "easy", *jobs, ties="submit-first") == [2, 2, 9, 6]


def test_under_submit_first_a_job_is_booked_for_what_the_policy_was_told() -> None:
    jobs = J(2, 3, 2, 8), J(2, 4, 2, 9), J(5, 4, 3, 9), J(5, 5, 1, 10)
    cluster = Cluster.homogeneous(nodes=3, cores=1)
    assert run(cluster, "easy(estimates=exact)", *jobs, ties="submit-first") == [2, 5, 9, 13]
