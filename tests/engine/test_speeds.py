"""Jobs whose speed changes while they run, under a model made for these tests: neighbours on a node share its speed."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import J, S, audit, clusters, job_lists, lease_on, nodes_held, start_on, table, work
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import RunError
from unrack.ledger.lease import Lease
from unrack.policy.contract import Decision, Requeue, Resize
from unrack.policy.file import complete
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.simulate import simulate
from unrack.sim.world import Ties, Work, World
from unrack.view import View


class Neighbours:
    """A job runs at 1 / (most jobs on any of its nodes)."""

    def touched(self, view: View, lease: Lease) -> np.ndarray:
        mine = set(lease.nodes.tolist())
        running = sorted(view.running[1, : view.running_count].tolist())
        near = [job for job in running if job == lease.job or mine & set(view.lease(job).nodes.tolist())]
        return np.array(near, np.int64)

    def speeds(self, view: View, jobs: np.ndarray) -> np.ndarray:
        there = np.zeros(view.total.shape[1], np.int64)
        for job in view.running[1, : view.running_count].tolist():
            there[view.lease(job).nodes] += 1
        return np.array([1 / there[view.lease(job).nodes].max() for job in jobs.tolist()])

    def feels(self, before: Lease, after: Lease) -> bool:
        return True


class Constant:
    """Everybody runs at one speed."""

    def __init__(self, speed: float) -> None:
        self.speed = speed

    def touched(self, view: View, lease: Lease) -> np.ndarray:
        return view.running[1, : view.running_count]

    def speeds(self, view: View, jobs: np.ndarray) -> np.ndarray:
        return np.full(len(jobs), self.speed)

    def feels(self, before: Lease, after: Lease) -> bool:
        return True


def assert_exact(log: RunLog) -> None:
    """Every attempt ends at the first µs at which, by exact fractions over the logged spells, its work is done."""
    held = [set(nodes_held(log, i)) for i in range(len(log.attempt_job))]
    spells = list(zip(log.attempt_start_us.tolist(), log.attempt_end_us.tolist(), strict=True))
    moments = sorted({moment for spell in spells for moment in spell})
    done = [Fraction(0)] * len(spells)
    changes = [1] * len(spells)
    for since, until in pairwise(moments):
        running = [i for i, (start, end) in enumerate(spells) if start <= since and end >= until]
        for i in running:
            crowd = max(sum(node in held[other] for other in running) for node in held[i])
            done[i] += Fraction(until - since, crowd)
            changes[i] += 1
    for i, job in enumerate(log.attempt_job.tolist()):
        over = done[i] - int(log.jobs.work_us[job])
        assert -Fraction(1, 1000) <= over <= changes[i], "the work was not done, or it went on after its end"


@draws(60)
@given(
    cluster=clusters(),
    jobs=st.booleans().flatmap(job_lists),
    ties=st.sampled_from(list(Ties)),
    name=st.sampled_from(
        ["fcfs", "easy", "conservative", "slurm(interval=2 s)", "list(backfill=any, place=worst-fit)"]
    ),
)
def test_work_done_under_changing_speeds_is_the_work_asked_for(
    cluster: Cluster, jobs: list[J], ties: Ties, name: str
) -> None:
    log = simulate(cluster, work(*jobs), name, world=World(ties=ties, slowdowns=Neighbours())).log
    audit(log, exact=False)
    assert_exact(log)


def test_three_jobs_that_share_a_node_end_when_hand_calculation_says() -> None:
    # 0-2 s: A alone; 2-4 s: A and B at 1/2; 4-10 s: A, B and C at 1/3, A ends with 5 = 2 + 1 + 2 done;
    # B has 1 + 2 of 4 done and ends after 2 s more at 1/2; C has 2 + 1 of 6 and ends 3 s later, alone.
    jobs = work(J(0, 5), J(2, 4), J(4, 6))
    result = simulate(Cluster.homogeneous(1, 3), jobs, "fcfs", world=World(slowdowns=Neighbours()))
    assert result.jobs["end_s"].to_list() == pytest.approx([10, 12, 15], abs=5e-6)
    assert result.jobs["run_s"].to_list() == pytest.approx([10, 10, 11], abs=5e-6)


@draws(40)
@given(cluster=clusters(), jobs=st.booleans().flatmap(job_lists), ties=st.sampled_from(list(Ties)))
def test_a_model_that_slows_nobody_is_no_model_at_all(cluster: Cluster, jobs: list[J], ties: Ties) -> None:
    plain = simulate(cluster, work(*jobs), "easy", world=World(ties=ties))
    slowed = simulate(cluster, work(*jobs), "easy", world=World(ties=ties, slowdowns=Constant(1.0)))
    assert plain.jobs.equals(slowed.jobs)
    assert plain.placements.equals(slowed.placements)


def test_half_speed_doubles_every_run() -> None:
    result = simulate(Cluster.homogeneous(1, 1), work(J(0, 3), J(0, 4)), "fcfs", world=World(slowdowns=Constant(0.5)))
    assert result.jobs["end_s"].to_list() == [6.0, 14.0]


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan")])
def test_a_speed_that_is_not_above_zero_is_an_error_that_names_the_job(speed: float) -> None:
    with pytest.raises(RunError, match=r"job 0 .*speed"):
        simulate(Cluster.homogeneous(1, 1), work(J(0, 3)), "fcfs", world=World(slowdowns=Constant(speed)))


def test_only_jobs_on_touched_nodes_are_planned_anew() -> None:
    jobs = table([J(0, 50, cores=2), J(0, 9, cores=1), J(1, 9, cores=1), J(2, 3, cores=1)])
    core = Core(Cluster.homogeneous(2, 2), jobs, parse_policy("fcfs"))
    kernel = Kernel(core, World(slowdowns=Neighbours()))
    planned: list[int] = []
    plan_end = kernel.plan_end
    kernel.plan_end = lambda job, time, now: (planned.append(job), plan_end(job, time, now))[1]
    log = kernel.run()
    # job 0 has node 0 alone; 1 is slowed by 2, freed when 2 or 1 ends, and slowed by 3 in turn
    assert planned.count(0) == 1
    assert all(planned.count(job) > 1 for job in (1, 2, 3))
    assert log.attempt_end_us[log.attempt_job == 0].tolist() == [50 * S]


def test_a_finish_that_was_overtaken_by_a_change_of_speed_does_not_happen() -> None:
    core = Core(Cluster.homogeneous(1, 2), table([J(0, 4), J(2, 4)]), parse_policy("fcfs"))
    kernel = Kernel(core, World(slowdowns=Neighbours()))
    rounds: list[int] = []
    log = kernel.run(after_round=rounds.append)
    assert log.attempt_end_us.tolist() == [6 * S, 8 * S]  # not 4 s, where the end of the first was first planned
    assert rounds == [0, 2 * S, 6 * S, 8 * S]


@given(st.integers(1, 10**9), st.lists(st.tuples(st.integers(0, 10**7), st.floats(0.01, 3)), max_size=20))
def test_work_ends_within_a_microsecond_of_the_exact_time(amount: int, changes: list[tuple[int, float]]) -> None:
    left, since, speed, now = Fraction(amount), 0, Fraction(1), 0
    works = Work()
    works.start(0, amount, 0)
    for pause, new_speed in changes:
        now += pause
        if left - (now - since) * speed <= 0:
            break
        left, since, speed = left - (now - since) * speed, now, Fraction(new_speed)
        works.change_speed(0, new_speed, now)
        assert works.left(0, now) == pytest.approx(float(left), rel=1e-9, abs=1e-3)
    assert abs(works.end_us(0) - (since + left / speed)) <= 1 + left / speed * Fraction(1, 10**9)


class Preempting:
    """Runs job 0 on node 0, stops it at every submission but the first, and lets it go on after the other job."""

    def __init__(self, keep_work: bool) -> None:
        self.keep_work = keep_work

    def decide(self, view: View, memory: object, now: int) -> tuple[list[Decision], object]:
        running = view.running[1, : view.running_count].tolist()
        queue = view.queue.tolist()
        later = [job for job in queue if job > 0]
        if 0 in running and later:
            stop = Requeue(0, Reason(Code.PREEMPTED, "by a test"), self.keep_work)
            return [stop, start_on(later[0], 0)], memory
        if not running and queue:
            return [start_on(queue[0], 0)], memory
        return [], memory


@pytest.mark.parametrize("slowdown", [None, Constant(1.0)])
@pytest.mark.parametrize(("keep_work", "end"), [(True, 12), (False, 16)])
def test_a_job_stopped_twice_goes_on_from_where_it_was_only_if_its_work_is_kept(
    slowdown: Constant | None, keep_work: bool, end: int
) -> None:
    # runs 0-2, 3-5 and from 6 on: with 10 s of work, 6 s are left if both attempts count
    policy = complete(Preempting(keep_work), "test")
    result = simulate(
        Cluster.homogeneous(1, 1), work(J(0, 10), J(2, 1), J(5, 1)), policy, world=World(slowdowns=slowdown)
    )
    assert result.jobs["end_s"].to_list() == [end, 3, 6]
    assert result.jobs["restarts"].to_list() == [2, 0, 0]
    assert result.jobs["state"].to_list() == ["finished"] * 3
    assert result.placements["outcome"].to_list().count("preempted") == 2


class Moving:
    """Moves job 0 to node 1 when job 1 is submitted."""

    def decide(self, view: View, memory: object, now: int) -> tuple[list[Decision], object]:
        moves: list[Decision] = []
        for job in view.queue.tolist():
            if job == 1:
                moves.append(Resize(lease_on(0, 1, cores=2)))
            moves.append(start_on(job, 0, cores=1))
        return moves, memory


def test_a_resize_takes_a_job_away_from_its_neighbours() -> None:
    jobs = work(J(0, 10), J(2, 10))
    result = simulate(Cluster.homogeneous(2, 2), jobs, complete(Moving(), "test"), world=World(slowdowns=Neighbours()))
    assert result.jobs["end_s"].to_list() == [10, 12]
