"""Nodes that fail and come back: jobs on them are killed, queued again and started again, and all of it is logged."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_worlds import J, S, audit, clusters, is_lending, is_whole, job_lists, suited, suited_jobs, table, work
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.errors import ClusterError
from unrack.policy.table import POLICIES, parse_policy
from unrack.sim.explained.job import explain
from unrack.sim.faults import Fault, random_faults
from unrack.sim.kernel import Kernel
from unrack.sim.result import Result
from unrack.sim.simulate import simulate
from unrack.sim.world import Ties, World

PAIR = Cluster.homogeneous(nodes=2, cores=1)
RACKS = Cluster.from_dict({"nodes": [{"count": 4, "cores": 1}], "nodes_per_rack": 2, "domains": {"power": ["1-2"]}})


def fault(domain: str, at: int, repair: int) -> Fault:
    return Fault(domain, at * S, repair * S)


def ends(result: Result) -> list[float]:
    return result.jobs["end_s"].to_list()


def test_a_job_on_a_failed_node_starts_again_elsewhere_from_nothing() -> None:
    result = simulate(PAIR, work(J(0, 10)), "fcfs", world=World(faults=[fault("node0", 4, 100)]))
    assert ends(result) == [14]
    assert result.jobs["start_s"].to_list() == [4]
    assert result.jobs["restarts"].to_list() == [1]
    assert result.metrics["restarts"] == 1
    rows = result.placements.select("attempt", "start_s", "end_s", "first_node", "outcome").rows()
    assert rows == [(1, 0, 4, 0, "node-failed"), (2, 4, 14, 1, "finished")]


def test_a_job_waits_for_the_repair_where_no_other_node_can_hold_it() -> None:
    result = simulate(PAIR, work(J(0, 10, tasks=2)), "easy", world=World(faults=[fault("node1", 4, 6)]))
    assert ends(result) == [20]
    assert result.jobs["wait_s"].to_list() == [10]


def test_a_job_is_passed_by_those_that_start_while_it_waits_not_while_it_runs() -> None:
    jobs, world = work(J(0, 10), J(2, 5), J(4, 3)).jobs, World(faults=[fault("node0", 4, 1)])
    told = explain(PAIR, jobs, parse_policy("sjf"), 0, world=world)
    assert [(attempt.start_us // S, attempt.end_us // S) for attempt in told.attempts] == [(0, 4), (7, 17)]
    assert [(one.job.id, one.start_us // S) for one in told.passed] == [(3, 5)]


def test_all_nodes_of_a_rack_and_of_a_domain_fail_together() -> None:
    jobs = work(*[J(0, 10)] * 4)
    assert ends(simulate(RACKS, jobs, "fcfs", world=World(faults=[fault("rack0", 4, 1)]))) == [15, 15, 10, 10]
    assert ends(simulate(RACKS, jobs, "fcfs", world=World(faults=[fault("power", 4, 1)]))) == [10, 15, 15, 10]


def test_a_gang_that_loses_one_node_is_killed_on_all_of_them_once() -> None:
    result = simulate(RACKS, work(J(0, 10, tasks=4)), "fcfs", world=World(faults=[fault("rack1", 4, 1)]))
    assert ends(result) == [15]
    assert result.jobs["restarts"].to_list() == [1]


def test_a_node_under_two_faults_is_back_when_the_second_is_repaired() -> None:
    faults = [fault("rack0", 2, 10), fault("node0", 5, 20), fault("power", 6, 1)]
    result = simulate(RACKS, work(J(0, 1), J(3, 1, tasks=4)), "fcfs", world=World(faults=faults))
    assert ends(result) == [1, 26]
    online = result.usage.select("time_s", "cores_online").rows()
    assert [row for row in online if row[0] in (2, 5, 6, 7, 12, 25)] == [
        (2, 2),
        (5, 2),
        (6, 1),
        (7, 2),
        (12, 3),
        (25, 4),
    ]


def test_a_fault_on_an_idle_node_kills_nobody_and_shows_in_the_usage() -> None:
    result = simulate(PAIR, work(J(0, 10)), "fcfs", world=World(faults=[fault("node1", 2, 3)]))
    assert ends(result) == [10]
    assert result.usage.select("time_s", "cores_online", "cores_held").rows() == [
        (0, 2, 1),
        (2, 1, 1),
        (5, 2, 1),
        (10, 2, 0),
    ]
    assert result.metrics["utilisation_cores"] == pytest.approx(10 / (20 - 3))


def test_a_killed_job_counts_as_waiting_and_keeps_its_old_place_in_the_queue() -> None:
    one = Cluster.homogeneous(1, 1)
    result = simulate(one, work(J(0, 10), J(1, 5)), "fcfs", world=World(faults=[fault("node0", 4, 2)]))
    assert ends(result) == [16, 21]
    queued = result.usage.select("time_s", "queued_jobs", "queued_cores", "running_jobs").rows()
    assert queued == [(0, 0, 0, 1), (1, 1, 1, 1), (4, 2, 2, 0), (6, 1, 1, 1), (16, 0, 0, 1), (21, 0, 0, 0)]


def test_a_job_that_ends_when_its_node_fails_has_ended() -> None:
    for ties, restarts in (("together", 0), ("finish-first", 0)):
        result = simulate(PAIR, work(J(0, 4)), "fcfs", world=World(ties=ties, faults=[fault("node0", 4, 1)]))
        assert (ends(result), result.jobs["restarts"].to_list()) == ([4], [restarts])


def test_a_job_is_not_impossible_because_nodes_are_down_when_it_comes() -> None:
    result = simulate(PAIR, work(J(1, 3, tasks=2)), "conservative", world=World(faults=[fault("rack0", 0, 50)]))
    assert ends(result) == [53]


def test_a_job_killed_in_the_moment_it_started_starts_again_when_the_node_is_back() -> None:
    # ties make rounds of their own at 0 s: the job starts, another round passes, then the node fails
    jobs = [J(0, 5), J(0, 5, tasks=2), J(0, 0, tasks=1), J(0, 5, tasks=2)]
    for name in ("conservative", "conservative(nodes=whole)", "slurm", "easy"):
        for ties in Ties:
            faults = [fault("node0", 0, 0), fault("node0", 5, 2), fault("node1", 5, 0)]
            result = simulate(PAIR, work(*jobs), name, world=World(ties=ties, faults=faults))
            audit(result.log, is_whole(name), faults)


def test_a_fault_of_a_domain_that_is_not_there_is_refused() -> None:
    with pytest.raises(ClusterError, match="node9"):
        simulate(PAIR, work(J(0, 1)), "fcfs", world=World(faults=[fault("node9", 1, 1)]))


@pytest.mark.parametrize("name", [*POLICIES, "conservative(nodes=whole)", "slurm(interval=2 s, nodes=whole)"])
@draws(30)
@given(
    cluster=clusters(), jobs=st.booleans().flatmap(job_lists), ties=st.sampled_from(list(Ties)),
    times=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 30), st.integers(0, 9)), max_size=6),
    single=st.booleans(),
)  # fmt: skip
def test_every_policy_survives_random_faults(
    name: str, cluster: Cluster, jobs: list[J], ties: Ties, times: list[tuple[int, int, int]], single: bool
) -> None:
    if single:
        jobs = [job._replace(cores=1, mb=0) for job in jobs]
    faults = [fault(f"node{node % len(cluster)}", at, repair) for node, at, repair in times]
    core = Core(suited(name, cluster), table(suited_jobs(name, jobs)), parse_policy(name))
    log = Kernel(core, World(faults=faults, ties=ties)).run()
    audit(log, is_whole(name), faults, lends=is_lending(name))
    assert (core.state.free[:, core.state.online] == core.state.total[:, core.state.online]).all()
    assert (core.state.free[:, ~core.state.online] == 0).all()


def test_random_faults_are_the_same_for_the_same_seed_and_do_not_overlap_on_a_node() -> None:
    drawn = random_faults(RACKS, mtbf_us=100 * S, mttr_us=10 * S, until_us=10_000 * S, seed=3)
    assert drawn == random_faults(RACKS, mtbf_us=100 * S, mttr_us=10 * S, until_us=10_000 * S, seed=3)
    assert drawn != random_faults(RACKS, mtbf_us=100 * S, mttr_us=10 * S, until_us=10_000 * S, seed=4)
    assert list(drawn) == sorted(drawn, key=lambda f: (f.at_us, f.domain))
    assert 300 < len(drawn) < 430  # 4 nodes, 10 000 s, one failure in 110 s each
    for node in range(4):
        mine = [f for f in drawn if f.domain == f"node{node}"]
        assert all(a.at_us + a.repair_us < b.at_us for a, b in pairwise(mine))
