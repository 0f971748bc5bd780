"""What every policy promises on any cluster and workload, checked from the log and by brute force at every round."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import (
    J,
    S,
    audit,
    clusters,
    is_lending,
    is_tiered,
    is_whole,
    job_lists,
    starts,
    suited,
    suited_jobs,
    table,
    work,
    workload_of,
)
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.events import Round, Submitted
from unrack.policy.discipline.skyline.columns import Grain
from unrack.policy.table import POLICIES, parse_policy
from unrack.sim.kernel import Kernel
from unrack.sim.simulate import simulate
from unrack.sim.world import Ties, World

TIES = [str(tie) for tie in Ties]
PLACES = ["first-fit", "best-fit", "worst-fit"]


def whole_is_free(core: Core) -> bool:
    state = core.state
    return bool((state.free == state.total).all()) and state.free_cores == state.cluster.total_cores


@pytest.mark.parametrize("name", POLICIES)
@draws(40)
@given(
    cluster=clusters(), jobs=st.booleans().flatmap(job_lists), place=st.sampled_from(PLACES), whole=st.booleans(),
    ties=st.sampled_from(TIES), exact=st.booleans(),
)  # fmt: skip
def test_every_policy_keeps_capacity_and_gangs_and_finishes_every_possible_job(
    name: str, cluster: Cluster, jobs: list[J], place: str, whole: bool, ties: str, exact: bool
) -> None:
    parameters = [f"estimates={'exact' if exact else 'requested'}"] if "estimates" in POLICIES[name].parameters else []
    whole = whole and "nodes" in POLICIES[name].parameters
    if "nodes" in POLICIES[name].parameters:
        parameters += [f"place={place}", f"nodes={'whole' if whole else 'shared'}"]
    text = name if is_tiered(name) else f"{name}({', '.join(parameters)})"
    core = Core(suited(name, cluster), table(suited_jobs(name, jobs)), parse_policy(text))
    log = Kernel(core, World(ties=ties)).run()
    audit(log, whole or is_whole(name), lends=is_lending(name))
    assert whole_is_free(core)


@draws(60)
@given(
    cluster=clusters(most_classes=2, memory=False),
    jobs=st.booleans().flatmap(lambda h: job_lists(h, single=True)),
    ties=st.sampled_from(TIES),
    name=st.sampled_from(["conservative", "slurm(interval=3 s)", "easy", "list(backfill=any)"]),
)
def test_tasks_of_one_core_keep_the_same_promises(cluster: Cluster, jobs: list[J], ties: str, name: str) -> None:
    audit(simulate(cluster, work(*jobs), name, world=World(ties=ties)).log)


@draws(60)
@given(
    cluster=clusters(), jobs=job_lists(honest=False), order=st.sampled_from(["sjf", "largest", "wfp3", "priority"]),
    depth=st.integers(1, 3), ties=st.sampled_from(TIES),
)  # fmt: skip
def test_orders_and_depths_keep_the_same_promises(
    cluster: Cluster, jobs: list[J], order: str, depth: int, ties: str
) -> None:
    for name in (
        f"easy(order={order}, depth={depth})",
        f"conservative(order={order})",
        f"slurm(order={order}, depth={depth}, queue={depth + 1}, interval=2 s)",
    ):
        audit(simulate(cluster, work(*jobs), name, world=World(ties=ties)).log)


@draws(60)
@given(cluster=clusters(), jobs=job_lists(honest=False), ties=st.sampled_from(TIES), place=st.sampled_from(PLACES))
def test_fcfs_starts_jobs_in_the_order_of_their_submission(
    cluster: Cluster, jobs: list[J], ties: str, place: str
) -> None:
    begun = [
        start
        for start in starts(simulate(cluster, work(*jobs), f"fcfs(place={place})", world=World(ties=ties)).log)
        if start is not None
    ]
    assert begun == sorted(begun)


def fits(free: np.ndarray, total: np.ndarray, ask: tuple[int, int, int], whole: bool) -> bool:
    """Whether a gang fits, by counting tasks node by node."""
    tasks, cores, mb = ask
    for node in range(free.shape[1]):
        if whole and free[0, node] < total[0, node]:
            continue
        here = 0
        while tasks and (here + 1) * cores <= free[0, node] and (here + 1) * mb <= free[1, node]:
            here += 1
            tasks -= 1
    return tasks == 0


def reservation(core: Core, job: int, now: int, whole: bool) -> int:
    """The earliest time at which a job fits, by the booked ends of what runs; brute force over the leases."""
    view = core.view
    ask = tuple(int(x) for x in view.asks[:3, job])
    free = np.array(view.free)
    booked = sorted(tuple(pair) for pair in view.running[:, : view.running_count].T.tolist())
    time = now
    for end in sorted({max(end, now) for end, _ in booked} | {now}):
        for booked_end, running in booked:
            if max(booked_end, now) == end:
                for first, count, _, cores, mb in view.lease(running).rows.tolist():
                    free[0, first : first + count] += cores
                    free[1, first : first + count] += mb
        time = end
        if fits(free, view.total, ask, whole):
            return time
    raise AssertionError("a job that is not impossible fits when all others have ended")


@draws(300)
@given(
    cluster=clusters(), jobs=job_lists(honest=True), ties=st.sampled_from(TIES), whole=st.booleans(),
    place=st.sampled_from(PLACES),
)  # fmt: skip
def test_easy_never_delays_the_reservation_of_the_head_when_requests_are_honest(
    cluster: Cluster, jobs: list[J], ties: str, whole: bool, place: str
) -> None:
    policy = parse_policy(f"easy(place={place}, nodes={'whole' if whole else 'shared'})")
    core = Core(cluster, table(jobs), policy)
    promised: dict[int, int] = {}

    def after_round(now: int) -> None:
        if core.view.waiting:
            head = int(core.view.queue[0])
            ask = tuple(int(x) for x in core.view.asks[:3, head])
            assert not fits(core.view.free, core.view.total, ask, whole), "the head fits and was not started"
            time = reservation(core, head, now, whole)
            assert time <= promised.get(head, time)
            promised[head] = time

    log = Kernel(core, World(ties=ties)).run(after_round=after_round)
    begun = starts(log)
    for job, time in promised.items():
        assert begun[job] * S <= time


@draws(300)
@given(
    cluster=clusters(), jobs=job_lists(honest=True), ties=st.sampled_from(TIES), whole=st.booleans(),
    place=st.sampled_from(PLACES), order=st.sampled_from(["fcfs", "fcfs", "sjf", "largest"]), single=st.booleans(),
)  # fmt: skip
def test_conservative_never_starts_a_job_after_its_first_reservation_when_requests_are_honest(
    cluster: Cluster, jobs: list[J], ties: str, whole: bool, place: str, order: str, single: bool
) -> None:
    if single:
        jobs = [job._replace(cores=1, mb=0) for job in jobs]
    policy = parse_policy(f"conservative(place={place}, order={order}, nodes={'whole' if whole else 'shared'})")
    core = Core(cluster, table(jobs), policy)
    promised: dict[int, int] = {}

    def after_round(now: int) -> None:
        for job in core.view.queue.tolist():
            time = int(core.memory.columns.start[job])
            assert time >= now, "a waiting job has no reservation"
            assert time <= promised.setdefault(job, time), "a reservation moved back"

    log = Kernel(core, World(ties=ties)).run(after_round=after_round)
    begun = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    for job, time in promised.items():
        assert begun[job] <= time


@pytest.mark.parametrize("ties", TIES)
def test_conservative_keeps_reservations_while_jobs_that_end_together_end_one_by_one(ties: str) -> None:
    jobs = work(J(0, 1), J(0, 1), J(0, 5, 2), J(0, 3, 2), J(0, 4, 1))
    assert starts(simulate(Cluster.homogeneous(2, 1), jobs, "conservative", world=World(ties=ties)).log) == [
        0,
        0,
        1,
        6,
        9,
    ]
    wide = [job._replace(mb=1) for job in (J(0, 1), J(0, 1), J(0, 5, 2), J(0, 3, 2), J(0, 4, 1))]
    for nodes in ("shared", "whole"):
        log = simulate(
            Cluster.homogeneous(2, 1, 1), work(*wide), f"conservative(nodes={nodes})", world=World(ties=ties)
        ).log
        assert starts(log) == [0, 0, 1, 6, 9]


def test_conservative_reserves_in_the_plan_of_nodes_cores_or_whole_nodes_as_the_jobs_so_far_need() -> None:
    cluster = Cluster.from_dict({"nodes": [{"count": 2, "cores": 2}, {"count": 1, "cores": 2, "memory": 8}]})
    single, wide = table([J(0, 1)]), table([J(0, 1, cores=2)])
    grains = []
    for jobs, nodes in ((single, "shared"), (wide, "shared"), (wide, "whole")):
        core = Core(cluster, jobs, parse_policy(f"conservative(nodes={nodes})"))
        core.handle(Submitted(0), 0)
        core.handle(Round(), 0)
        grains.append(core.memory.grain)
    assert grains == [Grain.CORES, Grain.NODES, Grain.WHOLE]


@draws(30)
@given(jobs=job_lists(honest=False), cluster=clusters())
def test_conservative_and_easy_start_an_only_job_at_once(jobs: list[J], cluster: Cluster) -> None:
    for name in ("easy", "conservative", "conservative(nodes=whole)", "slurm(nodes=whole)"):
        result = simulate(cluster, workload_of(table(jobs[:1])), name)
        assert starts(result.log)[0] in (0, jobs[0].submit, None)
        audit(result.log, is_whole(name))
