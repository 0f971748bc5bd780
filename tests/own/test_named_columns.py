"""What a policy sees has names: columns of the view, jobs at a moment, candidates for their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unrack
from unrack.core import Core
from unrack.errors import FaultyPolicyError, PolicyError, RefusedError
from unrack.events import Round, Submitted
from unrack.ledger.candidate import TaskAsk, candidates_on, lease_on
from unrack.policy import (
    Code,
    Lease,
    ListScheduler,
    Placed,
    Reason,
    Reject,
    Requeue,
    Start,
    View,
    by_formula,
    candidates,
)
from unrack.policy.file import complete
from unrack.view import Draft
from unrack.workload.job import ESTIMATE, JobTable, job_table

S = 1_000_000


def table(**columns: Any) -> JobTable:
    made = {name: np.array(value, np.int64) for name, value in columns.items() if name != "devices"}
    devices = {key: np.array(value, np.int64) for key, value in columns.get("devices", {}).items()}
    return job_table(work_us=np.full(len(made["submit_us"]), 60 * S), devices=devices, **made)


class Still:
    """Never starts anything."""

    devices = True

    def decide(self, view: View, memory: None, now: int) -> Any:
        return [], memory


def world(jobs: JobTable, cluster: unrack.Cluster | None = None, policy: Any = None) -> Core:
    core = Core(cluster or unrack.Cluster.homogeneous(3, 4), jobs, complete(policy or Still(), "test"))
    for job in range(len(jobs)):
        core.handle(Submitted(job), int(jobs.submit_us[job]))
    return core


def test_a_job_has_what_it_asks_and_how_long_it_waits_by_name() -> None:
    core = world(
        table(
            submit_us=[0, 5 * S], tasks=[2, 1], cores=[3, 1], memory_mb=[7, 0], request_us=[90 * S, 60 * S],
            deadline_us=[200 * S, -1], priority=[1, 2],
        )
    )  # fmt: skip
    core.handle(Round(), 20 * S)
    first, second = core.view.waiting_jobs()
    assert (first.index, first.tasks, first.cores, first.memory_mb, first.estimate_us) == (0, 2, 3, 7, 90 * S)
    assert (first.wait_us, second.wait_us) == (20 * S, 15 * S)
    assert (first.deadline_us, first.slack_us) == (200 * S, 90 * S)
    assert (second.deadline_us, second.slack_us, second.priority) == (None, None, 2)
    assert core.view.now == 20 * S
    for name in ("tasks", "cores", "memory_mb", "estimate_us"):
        assert getattr(core.view, name).tolist() == [getattr(first, name), getattr(second, name)]


def test_a_job_that_was_stopped_and_kept_its_work_is_expected_to_run_as_long_as_is_left() -> None:
    class Stops:
        stepwise = False

        def decide(self, view: View, memory: None, now: int) -> Any:
            if now == 0:
                return [Start(Lease.on(0, [0], [1], [1], [0]))], memory
            return [Requeue(0, Reason(Code.PREEMPTED), keep_work=True)], memory

    core = Core(unrack.Cluster.homogeneous(1, 4), table(submit_us=[0], tasks=[1]), complete(Stops(), "test"))
    core.handle(Submitted(0), 0)
    core.handle(Round(), 0)
    core.handle(Round(), 20 * S)
    job = core.view.job(0)
    assert (job.request_us, job.estimate_us) == (60 * S, 40 * S)


def test_devices_are_attributes_of_a_job_that_are_0_where_it_asks_for_none() -> None:
    cluster = unrack.Cluster.preset("nvme-pool")
    asked = {("nvme", "bandwidth_mb_s"): [1800, 0]}
    first, second = world(table(submit_us=[0, 0], tasks=[1, 1], devices=asked), cluster).view.waiting_jobs()
    assert first.nvme.bandwidth_mb_s == 1800
    assert bool(first.nvme)
    assert not second.nvme
    assert second.nvme.capacity_mb == 0
    plain = next(world(table(submit_us=[0], tasks=[1]), cluster).view.waiting_jobs())
    assert plain.nvme.bandwidth_mb_s == 0
    with pytest.raises(AttributeError, match=r"nvme of job 0 has no 'bandwidth'; it has bandwidth_mb_s, capacity_mb"):
        _ = first.nvme.bandwidth
    with pytest.raises(AttributeError, match=r"job 0 has no 'cors' \('cores' perhaps\); it has app, .*devices: nvme"):
        _ = first.cors


def test_nodes_and_running_jobs_are_columns_by_name_that_cannot_be_written() -> None:
    class First:
        def decide(self, view: View, memory: None, now: int) -> Any:
            return [Start.on(view.candidates(0))] if view.waiting == 2 else [], memory

    core = world(table(submit_us=[0, 0], tasks=[1, 1], cores=[3, 1], memory_mb=[5, 0]), policy=First())
    core.handle(Round(), S)
    nodes = core.view.nodes
    assert nodes.free_cores.tolist() == [1, 4, 4]
    assert nodes.cores.tolist() == [4, 4, 4]
    assert (nodes.memory_mb - nodes.free_mb).tolist() == [5, 0, 0]
    assert nodes.online.all()
    assert core.view.running_jobs.tolist() == [0]
    assert core.view.running_end_us.tolist() == [61 * S]
    for column in (*nodes, core.view.running_jobs, core.view.running_end_us, core.view.tasks):
        assert not column.flags.writeable
    draft = Draft(core.view, 60 * S)
    draft.move_on(61 * S)
    assert draft.view.now == 61 * S
    assert draft.view.nodes.free_cores.tolist() == [4, 4, 4]


@given(
    free=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=5),
    tasks=st.integers(1, 6), cores=st.integers(0, 3), mb=st.integers(0, 4), reverse=st.booleans(),
)  # fmt: skip
def test_a_lease_on_candidates_fills_them_in_order_and_is_there_whenever_the_tasks_fit(
    free: list[tuple[int, int]], tasks: int, cores: int, mb: int, reverse: bool
) -> None:
    now = np.array(free, np.int64).T
    total = np.array([[4] * len(free), [6] * len(free)], np.int64)
    found = list(candidates_on(5, TaskAsk(tasks, cores, mb), now, total))
    fits = [min([tasks, *([c // cores] if cores else []), *([m // mb] if mb else [])]) for c, m in free]
    assert [(one.node, one.tasks) for one in found] == [(node, n) for node, n in enumerate(fits) if n]
    for one in found:
        had = free[one.node][0]
        assert (one.free_cores, one.cores, one.cores_after) == (had, 4, had - one.tasks * cores)
        assert one.load == 1 - had / 4
    lease = lease_on(reversed(found) if reverse else iter(found))
    assert (lease is None) == (sum(fits) < tasks)
    if lease is not None:
        rows = lease.rows.tolist()
        assert [row[0] for row in rows] == [one.node for one in (found[::-1] if reverse else found)][: len(rows)]
        assert sum(row[2] for row in rows) == tasks
        assert all(row[2] == fits[row[0]] for row in rows[:-1])
        assert all(row[3] == row[2] * cores and row[4] == row[2] * mb for row in rows)


def test_candidates_of_two_jobs_make_no_lease_and_of_none_no_start() -> None:
    core = world(table(submit_us=[0, 0], tasks=[6, 6]))
    both = [next(core.view.candidates(0)), next(core.view.candidates(1))]
    with pytest.raises(ValueError, match="candidates of job 0 and of job 1"):
        Start.on(both)
    assert Start.on([]) is None
    assert Start.on(both[0]) is None, "4 of 6 tasks"
    with pytest.raises(AttributeError, match=r"a candidate has no 'cors'; it has .*cores_after"):
        _ = both[0].cors


def test_every_candidate_with_devices_can_be_started_and_says_what_is_left_of_them() -> None:
    cluster = unrack.Cluster.preset("nvme-pool")
    workload = unrack.generate({"scenario": "nvme-s1", "load": 0.9, "jobs": 60}, seed=0)
    seen = {"shared": 0, "composed": 0}

    def any_of_them(view: View, job: int, now: int) -> Any:
        found = list(view.candidates(job))
        for one in found:
            assert one.lease is not None
            draft = Draft(view, now)
            draft.start(one.lease)
            if one.chosen:
                ends = view.expected_ends_us(one)
                assert set(ends) == {job, *one.sharers}
                running = dict(zip(draft.view.running_jobs.tolist(), draft.view.running_end_us.tolist(), strict=True))
                assert running[job] == ends[job]
                kind = one.nvme
                for other in draft.view.devices.compositions("nvme"):  # type: ignore[union-attr]
                    if job in other.jobs:
                        assert dict(zip(("bandwidth_mb_s", "capacity_mb"), other.free, strict=True)) == kind.left
                        assert kind.bandwidth_mb_s == other.free[0]
                seen["shared"] += bool(one.sharers)
                seen["composed"] += len(kind.devices) > 1
        return found[(job.index * 7) % len(found)] if found else None

    result = unrack.simulate(cluster, workload, Placed(any_of_them), world=unrack.World(models=["smufin"]))
    assert result.metrics["jobs_finished"] == 60
    assert min(seen.values()) > 10


def test_a_job_and_its_candidates_say_alike_that_it_asks_for_no_drives() -> None:
    cluster = unrack.Cluster.preset("nvme-pool")
    view = world(table(submit_us=[0], tasks=[1]), cluster).view
    job, one = view.job(0), next(view.candidates(0))
    assert not job.nvme
    assert not one.nvme
    assert job.nvme.bandwidth_mb_s == one.nvme.bandwidth_mb_s == 0
    assert (one.nvme.devices, one.chosen, one.lease is not None) == ((), (), True)
    for thing in (job, one):
        with pytest.raises(AttributeError, match="nvme"):
            _ = thing.nvmee


def test_candidates_of_several_tasks_that_ask_for_devices_are_nodes() -> None:
    cluster = unrack.Cluster.preset("nvme-pool")
    view = world(table(submit_us=[0], tasks=[2], devices={("nvme", "bandwidth_mb_s"): [100]}), cluster).view
    assert {(one.tasks, one.chosen) for one in view.candidates(0)} == {(2, ())}
    with pytest.raises(RefusedError, match="no such job"):
        next(view.candidates(7))


def test_a_placement_under_a_list_scheduler_may_answer_with_candidates() -> None:
    classes = [{"run_s": 100, "tasks": {"kind": "power-of-two", "max": 8}}]
    workload = unrack.generate({"jobs": 80, "arrivals": {"gap_s": 20}, "classes": classes}, seed=0)
    cluster = unrack.Cluster.homogeneous(4, 3)
    first = ListScheduler(place=lambda free, total, job: candidates(free, total, job), backfill="easy")
    named = ListScheduler(place="first-fit", backfill="easy")
    runs = [unrack.simulate(cluster, workload, policy) for policy in (first, named)]
    assert runs[0].jobs.equals(runs[1].jobs)
    assert runs[0].usage.equals(runs[1].usage)


def test_a_formula_must_take_a_job_and_give_a_number() -> None:
    with pytest.raises(PolicyError, match=r"wanted .*\(job\)"):
        by_formula(lambda view, queue: 0)
    jobs = unrack.generate({"jobs": 3, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 10}]}, seed=0)
    for value in ("soon", None, float("nan")):
        policy = ListScheduler(order=by_formula(lambda job, value=value: value), backfill="easy")
        with pytest.raises(FaultyPolicyError, match=r"for job 0 returned .*, wanted a number"):
            unrack.simulate(unrack.Cluster.homogeneous(1, 1), jobs, policy)


def test_a_formula_may_give_a_tuple_whose_later_numbers_break_the_ties_of_earlier_ones() -> None:
    core = world(table(submit_us=[0, 1, 2, 3], tasks=[1, 2, 1, 2], cores=[1, 3, 2, 1]))
    order = by_formula(lambda job: (-job.tasks, job.cores))
    assert order(core.view, core.view.queue, 3).tolist() == [3, 1, 0, 2]


@pytest.mark.parametrize(
    ("formula", "wrong"),
    [
        (lambda job: (), "wanted a number, or a tuple of numbers"),
        (lambda job: (1, "a"), "wanted a number, or a tuple of numbers"),
        (lambda job: (1, float("nan")), "wanted a number, or a tuple of numbers"),
        (lambda job: (1, 2) if job.index else 1, "job 1 returned .*wanted a number, as for the jobs before it"),
        (lambda job: (1,) * (1 + job.index), "job 1 returned .*wanted a tuple of 1 number, as for the jobs before it"),
    ],
)
def test_keys_of_a_formula_can_be_compared(formula: Any, wrong: str) -> None:
    core = world(table(submit_us=[0, 0, 0], tasks=[1, 1, 1]))
    with pytest.raises(FaultyPolicyError, match=wrong):
        by_formula(formula)(core.view, core.view.queue, 0)


def test_every_function_of_a_users_is_given_the_same_job_which_stands_for_its_number() -> None:
    seen: dict[str, Any] = {}

    def formula(job: Any) -> float:
        seen.setdefault("formula", job)
        return 0

    def place(view: View, job: Any, now: int) -> Any:
        seen.setdefault("place", job)
        assert view.job(job) == job == job.index
        assert view.estimate_us[job] == job.estimate_us
        assert view.cores_asked(job) == job.tasks * job.cores
        return Lease.on(job, nodes=[0], tasks=[job.tasks], cores=[job.tasks * job.cores], mb=[0])

    def place_on(free: Any, total: Any, job: Any) -> Any:
        seen.setdefault("place_on", job)
        return list(candidates(free, total, job))

    workload = unrack.generate({"jobs": 1, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 10}]}, seed=0)
    cluster = unrack.Cluster.homogeneous(1, 1)
    for policy in (Placed(place, order=by_formula(formula)), ListScheduler(place=place_on)):
        assert unrack.simulate(cluster, workload, policy).metrics["jobs_finished"] == 1
    assert seen["formula"] == seen["place"] == seen["place_on"]


def test_a_decision_may_name_its_job_by_the_job_itself() -> None:
    class Refuses:
        def decide(self, view: View, memory: None, now: int) -> Any:
            return [Reject(job, Reason(Code.NO_ROOM, "never")) for job in view.waiting_jobs()], memory

    workload = unrack.generate({"jobs": 2, "arrivals": {"gap_s": 1}, "classes": [{"run_s": 10}]}, seed=0)
    assert unrack.simulate(unrack.Cluster.homogeneous(1, 1), workload, Refuses()).metrics["jobs_rejected"] == 2


def test_equal_numbers_of_a_formula_stay_in_the_order_of_submission() -> None:
    core = world(table(submit_us=[0, 0, 0, 0], tasks=[1, 2, 1, 2]))
    assert by_formula(lambda job: -job.tasks)(core.view, core.view.queue, 0).tolist() == [1, 3, 0, 2]
    assert core.view.asks[ESTIMATE].tolist() == [60 * S] * 4
