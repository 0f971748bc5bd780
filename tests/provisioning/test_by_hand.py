"""Leases that follow use, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from used_worlds import S, job, nodes, run, spans, table, work

from unrack.cluster.spec import Cluster
from unrack.errors import PolicyError
from unrack.policy.table import parse_policy
from unrack.sim.compiled import kinds
from unrack.sim.faults import Fault
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.slowdown.combined import Undisturbed
from unrack.workload.job import JobTable, Workload, job_table
from unrack.workload.usage.curves import WHOLE, UsageCurves

DYNAMIC = "disaggregated(scheduler=easy, provisioning=dynamic)"


def test_remote_memory_goes_back_before_local_and_comes_after_it() -> None:
    """It asks 150 on a node of 100. Looked at every 300 s: 120 is in use from 200 s on, 60 from 500 s; 140 at 900 s."""
    result = run(nodes(100, 100, 100), DYNAMIC, job(0, 1000, 150, [(0, 150), (0.2, 120), (0.5, 60), (0.9, 140)]))
    assert spans(result, 1) == [
        (0, 300, {0: 100}, {(0, 1): 50}),
        (300, 600, {0: 100}, {(0, 1): 20}),
        (600, 900, {0: 60}, {}),
        (900, 1000, {0: 100}, {(0, 1): 40}),
    ]
    row = result.jobs.row(0, named=True)
    assert (row["memory_grown_mb"], row["memory_shrunk_mb"], row["peak_mb_per_task"]) == (80, 90, 150)


def test_each_node_of_a_job_follows_its_own_tasks() -> None:
    result = run(
        nodes(100, 100), DYNAMIC, job(0, 1000, 80, [(0, 80), (0.1, 10)], [(0, 20), (0.5, 70)], tasks=2)
    )  # fmt: skip
    assert spans(result, 1) == [
        (0, 300, {0: 80, 1: 80}, {}),
        (300, 500, {0: 10, 1: 20}, {}),
        (500, 1000, {0: 10, 1: 70}, {}),
    ]


class HalfSpeed(Undisturbed):
    """Every job runs half as fast as alone."""

    def speeds(self, view: Any, jobs: np.ndarray) -> np.ndarray:
        return np.full(len(jobs), 0.5)


def test_use_counts_by_progress_so_a_slowed_job_needs_its_memory_later() -> None:
    """The step at half of the work of 1000 s comes when that is done: at 1000 s, not at 500 s."""
    result = run(nodes(100), DYNAMIC, job(0, 1000, 100, [(0, 10), (0.5, 100)]), slowdowns=HalfSpeed())
    assert spans(result, 1) == [(0, 300, {0: 100}, {}), (300, 1000, {0: 10}, {}), (1000, 2000, {0: 100}, {})]


def test_the_moment_at_which_memory_is_missing_ends_the_job_that_grows() -> None:
    """The first gives 90 back at 300 s, on which the third starts; at 500 s it needs them, and 20 are left."""
    result = run(
        nodes(100, 100, 20), "disaggregated(scheduler=easy, provisioning=dynamic, lenders_compute=yes)",
        job(0, 1000, 100, [(0, 10), (0.5, 100)]), job(0, 3000, 100, [(0, 100)]), job(10, 2000, 80, [(0, 80)]),
    )  # fmt: skip
    ended = result.placements.filter(pl.col("outcome") == "out-of-memory")
    assert ended["job"].unique().to_list() == [1]
    assert ended["end_s"].max() == 500.0
    first = result.jobs.row(0, named=True)
    assert (first["memory_stops"], first["restarts"], first["node_s_lost"]) == (1, 1, 500.0)
    assert result.metrics["jobs_out_of_memory"] == pytest.approx(1 / 3)
    assert result.metrics["node_h_lost_memory"] == pytest.approx(500 / 3600)


def two_that_fight(**more: object) -> list[tuple[int, str, float, float]]:
    """Both grow to 100 on nodes that have 150 together: who gets the last MB, and what becomes of the other."""
    keys = "".join(f", {key}={value}" for key, value in more.items() if key != "changes")
    how = {key: value for key, value in more.items() if key == "changes"}
    result = run(
        nodes(75, 75), f"disaggregated(scheduler=fcfs, provisioning=dynamic, lenders_compute=yes, initial=0.5{keys})",
        job(0, 1000, 100, [(0, 50), (0.6, 100)]), job(0, 2000, 100, [(0, 50), (0.4, 100)]), **how,
    )  # fmt: skip
    rows = result.placements.group_by("job", "attempt").agg(
        pl.col("outcome").first(), pl.col("start_s").min(), pl.col("end_s").max()
    )
    return sorted(rows.select("job", "outcome", "start_s", "end_s").rows())


def test_of_two_that_fight_for_the_last_memory_the_one_that_asks_later_is_stopped() -> None:
    """The first grows at 600 s: 75 + 25 of the other node; the second at 800 s finds nothing, and runs again."""
    assert two_that_fight() == [
        (1, "finished", 0.0, 1000.0), (2, "finished", 1000.0, 3000.0), (2, "out-of-memory", 0.0, 800.0),
    ]  # fmt: skip


def test_the_youngest_is_stopped_where_the_policy_says_so() -> None:
    """Both are equally old; of these the one with the larger number."""
    assert two_that_fight(stop="youngest") == [
        (1, "finished", 0.0, 1000.0), (2, "finished", 1000.0, 3000.0), (2, "out-of-memory", 0.0, 800.0),
    ]  # fmt: skip


def test_two_that_wait_for_each_other_are_found_and_the_younger_is_stopped() -> None:
    """Both stand still, the second from 800 s on, the first from 900 s on: each needs what the other holds of 150."""
    jobs = job(0, 1000, 140, [(0, 50), (0.6, 75), (0.9, 140)]), job(0, 2000, 100, [(0, 50), (0.4, 100)])
    policy = "disaggregated(scheduler=fcfs, provisioning=dynamic, lenders_compute=yes, initial=0.5, stop=block)"
    result = run(nodes(75, 75), policy, *jobs)
    assert result.log.deadlocks == (900_000_000,)
    assert result.jobs["end_s"].to_list() == [1000.0, 3000.0]
    assert result.jobs["node_s_blocked"].to_list() == [0.0, 100.0]
    assert result.jobs["memory_stops"].to_list() == [0, 1]


def test_one_of_those_that_wait_for_each_other_goes_on_from_its_last_checkpoint() -> None:
    """As above; when the second is stopped it has done 800 s, of which 600 are kept."""
    jobs = job(0, 1000, 140, [(0, 50), (0.6, 75), (0.9, 140)]), job(0, 2000, 100, [(0, 50), (0.4, 100)])
    policy = (
        "disaggregated(scheduler=fcfs, provisioning=dynamic, lenders_compute=yes, initial=0.5, stop=block, "
        "restart=checkpoint)"
    )
    result = run(nodes(75, 75), policy, *jobs, changes={"checkpoint_every": "300 s"})
    assert result.jobs["end_s"].to_list() == [1000.0, 2400.0]
    assert result.jobs["node_s_lost"].to_list() == [0.0, 200.0]


def test_who_stands_still_goes_on_when_memory_comes_back() -> None:
    """The second needs 100 at 800 s, 75 + 0: the first ends at 1000 s. It has lost 200 s, and no work."""
    jobs = job(0, 1000, 100, [(0, 50), (0.6, 75)]), job(0, 2000, 100, [(0, 50), (0.4, 100)])
    policy = "disaggregated(scheduler=fcfs, provisioning=dynamic, lenders_compute=yes, initial=0.75, stop=block)"
    result = run(nodes(75, 75), policy, *jobs)
    assert result.log.deadlocks == ()
    assert result.jobs["end_s"].to_list() == [1000.0, 2200.0]
    assert result.jobs["node_s_blocked"].to_list() == [0.0, 200.0]


def test_a_restart_from_a_checkpoint_does_what_is_left_of_the_work() -> None:
    """Every 300 s of work, for 10 s each: 2000 s have 6 of them. At its need, 40 % of 2060 s, two are kept: 620 s."""
    found = two_that_fight(restart="checkpoint", changes={
        "checkpoint_every": "300 s", "checkpoint_cost": "10 s", "restart_cost": "5 s"})  # fmt: skip
    assert found == [
        (1, "finished", 0.0, 1030.0), (2, "finished", 1030.0, 1030.0 + 2060 - 620 + 5),
        (2, "out-of-memory", 0.0, 824.0),
    ]  # fmt: skip


def test_moving_memory_back_takes_time() -> None:
    """100 MB are remote until the neighbour ends at 100 s; at 300 s they move at 1 MB/s, and a change takes 7 s."""
    jobs = [job(0, 100, 60), job(0, 1000, 160, [(0, 160)])]
    policy = "naive(scheduler=fcfs, provisioning=dynamic, pull=yes)"
    free = run(nodes(100, 200), policy, *jobs)
    paid = run(nodes(100, 200), policy, *jobs, changes={"bandwidth": 1, "pause": "7 s"})
    moved = [loans for _, _, _, loans in spans(free, 2)]
    back = sum(moved[0].values()) - sum(moved[-1].values())
    assert paid.jobs["run_s"][1] - free.jobs["run_s"][1] == (back + 7 if back else 0)


def test_memory_that_one_node_gives_back_does_not_move_to_another_that_grows() -> None:
    """At 400 s node 0 gives back 30 of 50 borrowed MB, and node 1 grows by 40 of its own: nothing is copied."""
    growing = job(0, 1000, 150, [(0, 150), (0.35, 120)], [(0, 100), (0.4, 140)], tasks=2)
    result = run(nodes(100, 200, 100), "local(scheduler=fcfs, provisioning=dynamic)", growing, changes={"bandwidth": 1})
    assert spans(result, 1)[1:3] == [
        (300, 400, {0: 100, 1: 100}, {(0, 2): 50}), (400, 1000, {0: 100, 1: 140}, {(0, 2): 20}),
    ]  # fmt: skip
    assert result.jobs["run_s"][0] == 1000


def test_what_moves_back_to_one_node_takes_time_whatever_another_gives_back() -> None:
    """The first borrows 60 MB of node 1 until 250 s; at 300 s they have room there, and node 2 gives 80 back."""
    jobs = job(0, 250, 160), job(0, 1000, 100, [(0, 100)], [(0, 100), (0.1, 20)], tasks=2)
    policy = "naive(scheduler=fcfs, provisioning=dynamic, pull=yes)"
    result = run(nodes(100, 100, 160), policy, *jobs, changes={"bandwidth": 1})
    assert [held[2:] for held in spans(result, 2)] == [({1: 40, 2: 100}, {(1, 2): 60}), ({1: 100, 2: 20}, {})]
    assert result.jobs["run_s"][1] == 1060


def test_a_job_that_a_failed_node_stopped_starts_with_what_it_was_seen_to_need() -> None:
    """It asks 10 when it starts, and 50 at once; from 400 s on it starts with 50, and nothing changes any more."""
    policy = "disaggregated(scheduler=easy, provisioning=dynamic, initial=0.1)"
    result = run(
        nodes(100, 100), policy, job(0, 1000, 100, [(0, 50)]), faults=[Fault("node0", 400 * S, 10 * S)],
        changes={"pause": "7 s"},
    )  # fmt: skip
    assert [(start, end, sum(local.values())) for start, end, local, _ in spans(result, 1)] == [
        (0, 400, 50), (400, 1400, 50),
    ]  # fmt: skip


def with_seats(jobs: JobTable, *mb: int, **more: str) -> tuple[Cluster, Workload]:
    """The jobs, each of which asks for a seat, and nodes with more seats than they ask for."""
    file = {"nodes": [{"count": 1, "cores": 4, "memory": one} for one in mb], "lending": "all"}
    seats = Cluster.from_dict(file | {"counted": [{"name": "seats", "amount": 9, **more}]})
    return seats, work(replace(jobs, devices={("counted", "seats"): np.ones(len(jobs), np.int64)}))


@pytest.mark.parametrize("policy", [f"{one}provisioning=dynamic)" for one in ("fcfs(", "local(scheduler=fcfs, ")])
def test_a_job_that_needs_more_than_there_is_is_turned_away_once_that_is_seen(policy: str) -> None:
    """It asks 50 and lacks 150 at 500 s, where all nodes have 120: nobody waits behind it any more."""
    result = run(nodes(60, 60), policy, job(0, 1000, 50, [(0, 50), (0.5, 150)]), job(5, 9, 50, tasks=2))
    assert result.jobs["state"].to_list() == ["rejected", "finished"]
    assert result.jobs["reason"][0].startswith("too-big: MB")
    assert result.jobs["start_s"][1] == 500


def test_all_give_back_before_any_takes_also_where_jobs_hold_licences() -> None:
    """At 300 s the first is to hold 75 MB, of which node 1 has 15 only once the second has given back 70 there."""
    policy = "naive(scheduler=fcfs, provisioning=dynamic, initial=0.8, band=0.5)"
    jobs = table(job(0, 1000, 75, [(0, 40), (0.2, 50)]), job(0, 1000, 100, [(0, 100), (0.1, 20)]))
    worlds = with_seats(jobs, 60, 100), (nodes(60, 100), work(jobs))
    found = [spans(simulate(*one, policy), 1) for one in worlds]
    assert found[0] == found[1] == [(0, 300, {0: 60}, {}), (300, 1000, {0: 60}, {(0, 1): 15})]


def test_a_job_that_is_given_more_when_it_runs_again_is_not_like_those_that_asked_as_much_before() -> None:
    """The second is stopped at 250 s and then needs 166 MB, for which it waits; the third has a place at once."""
    jobs = table(job(0, 3000, 50, [(0, 14)]), job(0, 1000, 170, [(0, 100), (0.25, 166)]), job(10, 3000, 50, [(0, 20)]))
    for world in (with_seats(jobs, 200, 150, per="node"), (nodes(200, 150), work(jobs))):
        result = simulate(*world, "easy(provisioning=dynamic, initial=0)")
        assert result.jobs["start_s"].to_list() == [0, 3000, 250]


def test_who_uses_more_than_it_holds_is_ended_where_memory_does_not_follow_use() -> None:
    result = run(nodes(100), "disaggregated(scheduler=easy)", job(0, 1000, 50, [(0, 20), (0.3, 60)]), job(1, 10, 50))
    assert result.jobs["state"].to_list() == ["rejected", "finished"]
    assert "out-of-memory" in result.jobs["reason"][0]
    assert result.placements["end_s"][0] == 300.0
    assert result.jobs["start_s"][1] == 300.0


def test_a_guard_band_is_kept_above_use_and_never_above_the_request() -> None:
    policy = "disaggregated(scheduler=easy, provisioning=dynamic, band=0.5)"
    result = run(nodes(100), policy, job(0, 1000, 90, [(0, 40), (0.5, 80)]))
    assert spans(result, 1) == [(0, 300, {0: 90}, {}), (300, 500, {0: 60}, {}), (500, 1000, {0: 90}, {})]


def test_a_job_never_gives_back_the_share_that_it_keeps() -> None:
    policy = "disaggregated(scheduler=easy, provisioning=dynamic, keep=0.5)"
    result = run(nodes(100), policy, job(0, 1000, 90, [(0, 10)]))
    assert spans(result, 1) == [(0, 300, {0: 90}, {}), (300, 1000, {0: 45}, {})]


def test_after_so_many_stops_a_job_keeps_the_most_that_it_was_seen_to_need() -> None:
    """As above; when it runs again it holds 100 from its start to its end, though it uses 10 of them at first."""
    jobs = job(0, 1000, 100, [(0, 10), (0.5, 100)]), job(0, 3000, 100, [(0, 100)]), job(10, 2000, 80, [(0, 80)])
    policy = "disaggregated(scheduler=easy, provisioning=dynamic, lenders_compute=yes, reserve_after=1)"
    start, end, local, loans = spans(run(nodes(100, 100, 20), policy, *jobs), 1)[-1]
    assert end - start == 1000.0
    assert sum(local.values()) + sum(loans.values()) == 100


def test_a_parameter_of_dynamic_provisioning_beside_static_is_refused() -> None:
    with pytest.raises(PolicyError, match="band"):
        parse_policy("easy(band=0.2)")
    with pytest.raises(PolicyError, match="provisioning"):
        parse_policy("easy(provisioning=sometimes)")
    with pytest.raises(PolicyError, match="tiers"):
        parse_policy("easy(memory=slo, provisioning=dynamic)")


def test_the_table_of_memory_says_what_was_held_after_it_was_looked_at() -> None:
    """At 300 s it gives 130 of 150 back; while it stands still it uses what it did before."""
    result = run(nodes(100, 100), DYNAMIC, job(0, 1000, 150, [(0, 150), (0.2, 20)]))
    rows = result.table("memory").rows()
    assert rows[0] == (300.0, 20, 20, 150)
    jobs = job(0, 1000, 100, [(0, 50), (0.6, 75)]), job(0, 2000, 100, [(0, 50), (0.4, 100)])
    policy = "disaggregated(scheduler=fcfs, provisioning=dynamic, lenders_compute=yes, initial=0.75, stop=block)"
    still = run(nodes(75, 75), policy, *jobs).table("memory")
    assert still.filter(pl.col("time_s") == 900.0).rows() == [(900.0, 125, 125, 200)]


def test_a_job_that_a_failed_node_stopped_gives_back_again_what_it_does_not_use() -> None:
    """It uses 20 of 90 all the time: after its restart at 400 s it gives 70 back at the next look, as before."""
    result = run(nodes(100, 100), DYNAMIC, job(0, 1000, 90, [(0, 20)]), faults=[Fault("node0", 400 * S, 10 * S)])
    assert [(start, end, sum(local.values())) for start, end, local, _ in spans(result, 1)] == [
        (0, 300, 90), (300, 400, 20), (400, 600, 90), (600, 1400, 20),
    ]  # fmt: skip


@pytest.mark.long
def test_checkpoints_cost_the_same_in_the_compiled_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody says what jobs use, so the loop may be compiled: two checkpoints of 10 s in 700 s of work all the same."""
    monkeypatch.setattr(kinds, "LEAST_JOBS", 1)
    plain = work(replace(table(*[job(0, 700, 0)] * 3), usage=None))
    costs = {"checkpoint_every": "300 s", "checkpoint_cost": "10 s"}
    assert simulate(nodes(100), plain, "fcfs", world=World(changes=costs)).jobs["run_s"].to_list() == [720.0] * 3


def shared(*jobs: dict[str, Any]) -> Any:
    """Jobs of one core a task, which share nodes."""
    return work(table(*jobs, cores=1))


@pytest.mark.parametrize(("growth", "starts"), [(0, [0, 0, 1000, 1000]), (1, [0, 0, 1000, 320])])
def test_a_head_is_promised_what_is_free_once_running_jobs_have_grown(growth: int, starts: list[int]) -> None:
    """The first asks 80 of 100, uses 20 to begin with, and 80 from 550 s on, after the second has made room at 600 s.

    The third asks 70: at 600 s for as long as the first holds 20, and at 1000 s if it is taken to hold what it asks.
    Then the last, which ends at 720 s, is in nobody's way.
    """
    jobs = shared(
        job(0, 1000, 80, [(0, 20), (0.55, 80)]), job(0, 600, 20, [(0, 20)]), job(310, 100, 70, [(0, 70)]),
        job(320, 400, 30, [(0, 0)]),
    )  # fmt: skip
    policy = f"easy(provisioning=dynamic, monitor=60 s, growth={growth})"
    found = simulate(nodes(100), jobs, policy)
    assert found.jobs["start_s"].to_list() == starts
    assert found.jobs["memory_stops"].sum() == 0


def crowd(seed: int, count: int = 40) -> Any:
    """Jobs that share four nodes, run for as long as they ask, and use at most the memory that they ask."""
    random = np.random.default_rng(seed)
    own = []
    for submit in np.sort(random.integers(0, 120 * count, count)).tolist():
        mb, first = int(random.integers(5, 61)), random.integers(0, 61, 3)
        curve = [(at, float(min(mb, use))) for at, use in zip((0, 0.3, 0.7), first.tolist(), strict=True)]
        own.append(job(submit, int(random.integers(100, 4000)), mb, curve, tasks=int(random.integers(1, 3))))
    return shared(*own)


def test_plans_that_leave_room_for_all_growth_are_those_of_memory_that_stays() -> None:
    """And nobody is stopped; half of the growth is between that and none."""
    stops, waits = np.zeros(3), np.zeros(3)
    for seed in range(4):
        jobs, cluster = crowd(seed), nodes(100, 100, 100, 100)
        fixed = simulate(cluster, jobs, "conservative").jobs["start_s"].to_list()
        for i, growth in enumerate((0, 0.5, 1)):
            found = simulate(cluster, jobs, f"conservative(provisioning=dynamic, growth={growth})").jobs
            stops[i] += found["memory_stops"].sum()
            waits[i] += found["wait_s"].sum()
        assert found["start_s"].to_list() == fixed, seed
    assert stops[0] > stops[1] > stops[2] == 0
    assert waits[0] < waits[1] < waits[2]


@pytest.mark.parametrize(("scheduler", "seed"), [("slurm", 0), ("conservative", 8), ("easy", 2)])
def test_room_for_growth_is_left_beside_drives_licences_and_loans(scheduler: str, seed: int) -> None:
    """Nodes may be promised more memory than they have by then: no lease holds less than nothing there."""
    random, count = np.random.default_rng(seed), 40
    mb, some = random.integers(0, 61, count), random.random(count) < 0.5
    used = (random.random((count, 3)) * (mb[:, np.newaxis] + 1)).astype(np.int64)
    jobs = job_table(
        submit_us=np.sort(random.integers(0, 150 * count, count)) * S, work_us=random.integers(60, 4000, count) * S,
        tasks=np.where(some, 1, random.integers(1, 4, count)), cores=random.integers(1, 5, count), memory_mb=mb,
        usage=UsageCurves(
            np.arange(count + 1), 3 * np.arange(count + 1), np.tile([0, 3 * WHOLE // 10, 7 * WHOLE // 10], count),
            used.ravel(),
        ),
        devices={
            ("nvme", "capacity_mb"): np.where(some, 100_000, 0),
            ("counted", "seats"): np.where(random.random(count) < 0.3, 1, 0),
        },
    )  # fmt: skip
    drives = {"name": "nvme", "kind": "nvme", "count": 3, "share": 3, "quantities": {"capacity_mb": 600_000}}
    cluster = Cluster.from_dict(
        {"nodes": [{"count": 4, "cores": 8, "memory": 90}], "lending": "all", "pools": [drives],
         "counted": [{"name": "seats", "amount": 2}]}
    )  # fmt: skip
    policy = f"{scheduler}(memory=disaggregated, provisioning=dynamic, growth=1, monitor=60 s)"
    assert set(simulate(cluster, work(jobs), policy).jobs["state"]) == {"finished"}
