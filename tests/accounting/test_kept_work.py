"""A job that is stopped with its work kept is booked, when it starts again, for what is left of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scripted import Scripted
from small_worlds import J, S, start_on, work

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import RefusedError
from unrack.events import Kept, Round, Submitted
from unrack.ledger.lease import Lease, Share
from unrack.policy.contract import Decision, Estimates, Requeue, Start
from unrack.policy.table import parse_policy
from unrack.reasons import Code, Reason
from unrack.sim.simulate import simulate
from unrack.sim.world import World
from unrack.view import View
from unrack.workload.job import ESTIMATE, JobTable, job_table

ONE = Cluster.homogeneous(1, 1)


def stop(keep: bool = True) -> Requeue:
    """Stop job 0."""
    return Requeue(0, Reason(Code.PREEMPTED, "by a test"), keep)


class Watched(Scripted):
    """Notes, after every round, the booked ends and the estimate of job 0, in seconds."""

    def __init__(self, plan: Mapping[int, Sequence[Decision]], lends: bool = False) -> None:
        super().__init__(plan, lends)
        self.booked: dict[float, list[float]] = {}
        self.left: dict[float, float] = {}

    def next_round(self, view: View, memory: int, now: int) -> int | None:
        """Asked after every round."""
        self.booked[now / S] = (view.running[0, : view.running_count] / S).tolist()
        self.left[now / S] = view.asks[ESTIMATE, 0] / S
        return super().next_round(view, memory, now)


def test_a_job_of_100_s_stopped_at_90_and_restarted_at_95_is_booked_to_end_at_105() -> None:
    policy = Watched({0: [start_on(0, 0)], 90: [stop()], 95: [start_on(0, 0)]})
    result = simulate(ONE, work(J(0, 100)), policy)
    assert policy.left[90] == 10
    assert policy.booked[95] == [105]
    assert result.jobs["end_s"].to_list() == [105]
    assert result.jobs["request_s"].to_list() == [100]
    assert result.log.jobs.request_us.tolist() == [100 * S]


def test_work_kept_twice_adds_up_and_an_overrun_leaves_0() -> None:
    plan = {0: [start_on(0, 0)], 30: [stop()], 31: [start_on(0, 0)], 51: [stop()], 60: [start_on(0, 0)], 80: [stop()]}
    policy = Watched({**plan, 90: [start_on(0, 0)]})
    simulate(ONE, work(J(0, 100, request=60)), policy)
    assert [policy.booked[at] for at in (31, 60, 90)] == [[61], [70], [90]]


def test_a_job_that_is_stopped_without_its_work_is_booked_for_all_of_it_again() -> None:
    plan = {0: [start_on(0, 0)], 30: [stop()], 40: [start_on(0, 0)], 50: [stop(keep=False)], 60: [start_on(0, 0)]}
    policy = Watched(plan)
    result = simulate(ONE, work(J(0, 100)), policy)
    assert (policy.booked[40], policy.booked[60]) == ([110], [160])
    assert result.jobs["end_s"].to_list() == [160]


def test_exact_estimates_are_of_the_work_that_is_left() -> None:
    policy = Watched({0: [start_on(0, 0)], 90: [stop()], 95: [start_on(0, 0)]})
    policy.estimates = Estimates.EXACT
    simulate(ONE, work(J(0, 100, request=500)), policy)
    assert policy.booked[95] == [105]


class Half:
    """Everybody runs at half speed, which policies do not know."""

    def touched(self, view: View, lease: Lease) -> np.ndarray:
        """Everybody."""
        return view.running[1, : view.running_count]

    def speeds(self, view: View, jobs: np.ndarray) -> np.ndarray:
        """A half."""
        return np.full(len(jobs), 0.5)

    def feels(self, before: Lease, after: Lease) -> bool:
        return True


def test_where_the_world_slows_jobs_down_it_says_how_much_was_done() -> None:
    policy = Watched({0: [start_on(0, 0)], 90: [stop()], 95: [start_on(0, 0)]})
    result = simulate(ONE, work(J(0, 100)), policy, world=World(slowdowns=Half()))
    assert policy.booked[95] == [95 + 55]  # at speed 1, as all bookings are
    assert result.jobs["end_s"].to_list() == [95 + 110]


def with_drives(jobs: int) -> JobTable:
    """Jobs of 100 s that ask for half of a drive."""
    each = np.full(jobs, 100 * S, np.int64)
    return job_table(
        submit_us=np.zeros(jobs, np.int64), work_us=each, request_us=each, tasks=np.ones(jobs, np.int64),
        cores=np.ones(jobs, np.int64), memory_mb=np.zeros(jobs, np.int64),
        devices={("nvme", "bandwidth_mb_s"): np.full(jobs, 500, np.int64)},
    )  # fmt: skip


def test_on_devices_the_progress_that_their_models_predict_counts() -> None:
    cluster = Cluster.from_dict({
        "nodes": [{"count": 2, "cores": 4}],  # drives for one node sit in it
        "pools": [{"kind": "nvme", "count": 1, "quantities": {"bandwidth_mb_s": 1000}, "overhead": 1.0}],
    })  # fmt: skip
    lease = Lease.on(0, [0], [1], [1], [0])._replace(shares=(Share(0, (0,), (500,)),))
    jobs = with_drives(1)
    policy = Watched({0: [Start(lease)], 90: [stop()], 95: [Start(lease)]})
    core = Core(cluster, jobs, policy)
    core.handle(Submitted(0), 0)
    core.handle(Round(), 0)
    assert core.state.booked_end(0) == 200 * S  # remote use takes twice as long
    core.handle(Round(), 90 * S)
    assert core.view.estimate_us.tolist() == [55 * S]
    core.handle(Round(), 95 * S)
    assert core.state.booked_end(0) == 95 * S + 110 * S


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative", "slurm", "list(order=sjf)"])
def test_built_in_policies_plan_on_what_is_left(name: str) -> None:
    core = Core(ONE, work(J(0, 100)).jobs, parse_policy(name))
    core.handle(Submitted(0), 0)
    core.handle(Round(), 0)
    core.commit([stop()], 90 * S)
    assert core.view.estimate_us[0] == 10 * S
    core.handle(Round(), 120 * S)
    assert core.state.booked_end(0) == 130 * S


def test_what_the_world_says_too_late_or_of_others_does_not_count() -> None:
    core = Core(ONE, work(J(0, 100), J(0, 10)).jobs, parse_policy("fcfs"))
    core.handle(Submitted(0), 0)
    core.handle(Kept(0, 5), 0)
    assert core.view.estimate_us[0] == 100 * S
    core.handle(Round(), 0)
    core.commit([stop()], 90 * S)
    core.handle(Kept(0, 40 * S), 90 * S)
    assert core.view.estimate_us[0] == 60 * S
    core.handle(Round(), 90 * S)
    core.handle(Kept(0, 50 * S), 90 * S)
    assert core.view.estimate_us[0] == 60 * S
    with pytest.raises(RefusedError, match="job 1"):
        core.commit([Requeue(1, Reason(Code.PREEMPTED))], 91 * S)
