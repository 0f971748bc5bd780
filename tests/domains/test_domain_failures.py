"""Whole domains fail: who is down when, whom it hits, and what is recorded; against plain counting."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from failing_worlds import Ask, S, asks, contents, domains_of, fault, faults_of, table, work
from hypothesis import given
from hypothesis import strategies as st
from tries import draws

from unrack.cluster.spec import Cluster
from unrack.core import Core
from unrack.core.answers import struck
from unrack.errors import ClusterError
from unrack.ledger.state import ClusterState
from unrack.policy.table import parse_policy
from unrack.sim.faults import Fault, failures_frame, random_faults
from unrack.sim.kernel import Kernel
from unrack.sim.log import RunLog
from unrack.sim.recorder import Outcome
from unrack.sim.simulate import simulate
from unrack.sim.world import World

POLICIES = ("easy", "conservative", "slurm", "disaggregated", "contention-aware", "local")
LENDING = Cluster.from_dict({
    "nodes": [{"count": 4, "cores": 2, "memory": 8}],
    "memory_pools": [{"name": "shelf", "count": 1, "memory": 64}],
    "failure_domains": {"chassis": {"nodes_each": 2}, "feed": {"feed A": ["chassis0"], "feed B": ["3", "shelf"]}},
})  # fmt: skip


# --- by hand ----------------------------------------------------------------------------------------------------------


def jobs_on(state: ClusterState, node: int) -> list[int]:
    """The running jobs that hold something of a node or of a device that sits in it, in order of id."""
    found = []
    for job in sorted(state.running[1, : state.running_count].tolist()):
        lease = state.lease(job)
        nodes = {first + i for first, count, *_ in lease.rows.tolist() for i in range(count)}
        nodes |= {lender for _, lender, _ in lease.borrowed.tolist()}
        if lease.shares:
            nodes |= {int(state.cluster.devices.home[device]) for share in lease.shares for device in share.devices}
        if node in nodes:
            found.append(job)
    return found


def test_a_job_that_borrows_memory_of_a_failed_pool_is_stopped_though_its_own_node_is_up() -> None:
    jobs = work(Ask(0, 10, tasks=1, cores=1, mb=20), Ask(0, 10, mb=1))
    result = simulate(LENDING, jobs, "disaggregated", world=World(faults=[fault("shelf", 4, 2)]))
    assert result.table("loans").row(0, named=True)["lender"] == 4
    (failure,) = result.table("failures").rows(named=True)
    assert failure == {
        "time_s": 4, "repaired_s": 6, "level": "rack", "domain": "shelf", "nodes": 1, "nodes_down": 1, "cores_down": 0,
        "memory_mb_down": 64, "jobs_hit": 1, "jobs_hit_elsewhere": 1, "core_s_lost": 8, "jobs": [1],
    }  # fmt: skip
    assert result.jobs["restarts"].to_list() == [1, 0]


def test_a_feed_with_nodes_and_a_pool_stops_those_on_it_and_those_that_borrow_from_it() -> None:
    jobs = work(Ask(0, 10, mb=20), Ask(0, 10, tasks=6, cores=1, mb=1))
    result = simulate(LENDING, jobs, "disaggregated", world=World(faults=[fault("feed B", 4, 2)]))
    (failure,) = result.table("failures").rows(named=True)
    assert (failure["level"], failure["nodes"], failure["cores_down"], failure["memory_mb_down"]) == ("feed", 2, 2, 72)
    assert (sorted(failure["jobs"]), failure["jobs_hit_elsewhere"]) == ([1, 2], 1)
    # job 1 held a whole node of 2 cores, job 2 three of them, each for 4 s
    assert failure["core_s_lost"] == 4 * (2 + 6)
    assert result.metrics["jobs_hit_max"] == result.metrics["jobs_hit_mean"] == 2
    assert result.metrics["core_h_lost"] == pytest.approx(32 / 3600)


def test_a_chassis_takes_its_drives_down_and_with_them_the_jobs_that_use_them_from_elsewhere() -> None:
    cluster = Cluster.from_dict({
        "nodes": [{"count": 4, "cores": 2}],
        "failure_domains": {"chassis": {"nodes_each": 2}},
        "pools": [{"kind": "nvme", "count": 2, "quantities": {"capacity_mb": 100}, "home": ["chassis1"]}],
    })  # fmt: skip
    jobs = table([Ask(0, 10), Ask(0, 10)])
    with_drive = jobs.devices | {("nvme", "capacity_mb"): np.array([50, 0])}
    jobs = type(jobs)(**{**vars(jobs), "devices": with_drive})
    log = Kernel(Core(cluster, jobs, parse_policy("first-fit")), World(faults=[fault("chassis1", 4, 2)])).run()
    assert [(f.domain, f.nodes_down) for f in log.failures] == [("chassis1", 2)]
    assert log.attempt_job[log.attempt_failure == 0].tolist() == [0]
    assert log.rows[log.attempt_rows[0], 0] < 2  # it ran in the other chassis


def test_a_domain_whose_nodes_are_down_already_hits_nobody_and_keeps_them_down() -> None:
    faults = [fault("chassis0", 1, 4), fault("feed A", 2, 8), fault("node0", 3, 1)]
    result = simulate(LENDING, work(Ask(0, 3, tasks=8), Ask(0, 1)), "fcfs", world=World(faults=faults))
    found = result.table("failures").select("domain", "nodes", "nodes_down", "jobs_hit").rows()
    assert found == [("chassis0", 2, 2, 1), ("feed A", 2, 0, 0), ("node0", 1, 0, 0)]
    assert result.jobs["end_s"].to_list() == [13, 14]


def test_memory_that_is_not_counted_is_not_lost_and_a_run_without_faults_has_no_metrics_of_them() -> None:
    plain = Cluster.homogeneous(2, 1)
    assert simulate(plain, work(Ask(0, 5)), world=World(faults=[fault("node1", 1, 1)])).table("failures")[
        "memory_mb_down"
    ].to_list() == [None]
    calm = simulate(plain, work(Ask(0, 5)))
    assert "failures" not in calm.metrics
    assert calm.table("failures").height == 0
    spared = simulate(plain, work(Ask(0, 5)), world=World(faults=[fault("node1", 9, 1)]))
    assert (spared.metrics["failures"], spared.metrics["jobs_hit_mean"], spared.metrics["core_h_lost"]) == (0, None, 0)


def test_failures_outside_the_window_are_not_measured() -> None:
    faults = [fault("node0", 1, 1), fault("node1", 5, 1), fault("node0", 9, 1)]
    result = simulate(LENDING, work(*[Ask(0, 20)] * 8), world=World(faults=faults), window_us=(2 * S, 5 * S))
    assert result.table("failures").height == 3
    assert result.metrics["failures"] == 1


def test_failures_strike_an_idle_cluster_whose_jobs_were_all_refused() -> None:
    result = simulate(LENDING, work(Ask(1, 5, tasks=99)), world=World(faults=[fault("node0", 1, 1)]))
    assert result.usage.select("cores_held", "cores_online").rows() == [(0, 6)]
    assert result.metrics["jobs_rejected"] == result.metrics["failures"] == 1


# --- random failures of a level ---------------------------------------------------------------------------------------


def test_random_failures_of_nodes_are_what_they_were_and_do_not_change_when_others_are_drawn() -> None:
    drawn = random_faults(LENDING, 50 * S, 5 * S, 300 * S, seed=7)
    first = [(f.domain, f.at_us, f.repair_us) for f in drawn[:2]]
    assert first == [("node1", 11_103_563, 15_723_366), ("node2", 31_736_518, 6_982_889)]
    assert drawn == random_faults(LENDING, 50 * S, 5 * S, 300 * S, seed=7, level="node")


@pytest.mark.parametrize("level", ["rack", "chassis", "feed"])
def test_every_domain_of_a_level_fails_by_itself_at_the_rate_asked_for(level: str) -> None:
    drawn = random_faults(LENDING, 90 * S, 10 * S, 100_000 * S, seed=3, level=level)
    assert drawn == random_faults(LENDING, 90 * S, 10 * S, 100_000 * S, seed=3, level=level)
    assert {f.domain for f in drawn} == set(LENDING.domain_names(level))
    assert list(drawn) == sorted(drawn, key=lambda f: (f.at_us, f.domain))
    for domain in LENDING.domain_names(level):
        own = [f for f in drawn if f.domain == domain]
        assert all(a.at_us + a.repair_us < b.at_us for a, b in pairwise(own))
        assert 900 < len(own) < 1100  # one in 100 s
        assert 9 < sum(f.repair_us for f in own) / len(own) / S < 11


def test_levels_draw_different_times_and_one_that_is_not_there_is_refused() -> None:
    times = [[f.at_us for f in random_faults(LENDING, 90 * S, 10 * S, 1000 * S, 3, level)] for level in LENDING.levels]
    assert len({at for own in times for at in own}) == sum(map(len, times))
    with pytest.raises(ClusterError, match="'row', wanted one of node, rack, chassis, feed"):
        random_faults(LENDING, S, S, S, 0, "row")


# --- against plain counting -------------------------------------------------------------------------------------------


def touched(log: RunLog, attempt: int) -> tuple[set[int], set[int]]:
    """The nodes that an attempt ran on, and those that it borrowed from."""
    rows = log.rows[log.attempt_rows[attempt] : log.attempt_rows[attempt + 1]].tolist()
    loans = log.loans[log.attempt_loans[attempt] : log.attempt_loans[attempt + 1]].tolist()
    return {node for first, count, *_ in rows for node in range(first, first + count)}, {loan[1] for loan in loans}


def expected(log: RunLog, faults: Sequence[Fault]) -> list[tuple[str, int, int, list[int], int, int]]:
    """Domain, time, nodes down, jobs hit, how many of them elsewhere, core-µs lost: of every fault up to the end."""
    cluster, taken = log.cluster, set[int]()
    down = [0] * len(cluster)
    events = [(f.at_us, 0, i) for i, f in enumerate(faults)]
    events += [(f.at_us + f.repair_us, 1, i) for i, f in enumerate(faults)]
    found = []
    for at, kind, i in sorted(events):
        nodes = cluster.domain(faults[i].domain)
        falling = {node for node in nodes if down[node] == 0}
        for node in nodes:
            down[node] += 1 - 2 * kind
        if kind == 1 or at > log.end_us:
            continue
        hit, away, lost = [], 0, 0
        for a in range(len(log.attempt_job)):
            on, from_others = touched(log, a)
            failed = log.attempt_outcome[a] == Outcome.NODE_FAILED and log.attempt_end_us[a] == at
            if failed and a not in taken and (on | from_others) & falling:
                taken.add(a)
                hit.append(int(log.attempt_job[a]) + 1)
                away += not on & falling
                lost += int(log.amounts[1][a] * (at - log.attempt_start_us[a]))
        found.append((faults[i].domain, at, len(falling), sorted(hit), away, lost))
    assert taken == set(np.flatnonzero(log.attempt_outcome == Outcome.NODE_FAILED).tolist()), "stopped without a cause"
    return found


@pytest.mark.parametrize("policy", POLICIES)
@draws(150)
@given(drawn=st.data(), content=contents(), jobs=asks())
def test_a_node_is_down_while_any_of_its_domains_is_and_every_job_hit_is_recorded(
    policy: str, drawn: st.DataObject, content: dict[str, object], jobs: list[Ask]
) -> None:
    cluster = Cluster.from_dict(content)
    faults = drawn.draw(faults_of(cluster))
    core = Core(cluster, table(jobs), parse_policy(policy))
    nodes_of = [(set(cluster.domain(f.domain)), f) for f in faults]

    def check(now: int) -> None:
        down = {node for nodes, f in nodes_of for node in nodes if f.at_us <= now < f.at_us + f.repair_us}
        assert set(np.flatnonzero(~core.state.online).tolist()) == down
        assert (core.state.free[:, ~core.state.online] == 0).all()
        for name in domains_of(cluster)[:6]:
            nodes = cluster.domain(name)
            firsts: dict[int, int] = {}
            for node in nodes:
                for job in jobs_on(core.state, node):
                    firsts.setdefault(job, node)
            plain = {node: [job for job in sorted(firsts) if firsts[job] == node] for node in firsts.values()}
            assert struck(core.state, nodes) == plain

    log = Kernel(core, World(faults=faults)).run(after_round=check)
    if len(log.failures) < len([f for f in faults if f.at_us <= log.end_us]):
        faults = [f for f in faults if f.at_us < log.end_us]  # all jobs had ended before those of the last moment
    wanted = expected(log, faults)
    found = [
        (f.domain, f.at_us, f.nodes_down, sorted((log.attempt_job[log.attempt_failure == i] + 1).tolist()))
        for i, f in enumerate(log.failures)
    ]
    assert found == [row[:4] for row in wanted]
    frame = failures_frame(log)
    assert frame["jobs_hit_elsewhere"].to_list() == [row[4] for row in wanted]
    assert (frame["core_s_lost"] * S).round().to_list() == [row[5] for row in wanted]
    assert [sorted(own) for own in frame["jobs"].to_list()] == [row[3] for row in wanted]
    for a in range(len(log.attempt_job)):
        on, from_others = touched(log, a)
        start, end = int(log.attempt_start_us[a]), int(log.attempt_end_us[a])
        for nodes, f in nodes_of:
            overlap = start < f.at_us + f.repair_us and f.at_us < end
            assert not (overlap and (on | from_others) & nodes), "held something of a node that was down"
