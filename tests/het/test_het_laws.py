"""Laws of heterogeneous jobs: beside every resource, under every discipline, and what they change for nobody else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from het_worlds import PARTED, S, physics, run, starts, table, together, with_components, workload
from mixed_worlds import DISCIPLINES, MIXES, with_rules
from preempting import mixed_site
from test_mixes import world_of

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError, RefusedError
from unrack.ledger.lease import Lease
from unrack.ledger.lease import together as whole
from unrack.ledger.state import ClusterState
from unrack.policy.priority.standing import Rules
from unrack.policy.table import parse_policy
from unrack.sim.faults import Fault
from unrack.sim.simulate import prepared
from unrack.sim.world import World
from unrack.workload.job import JobTable, job_table
from unrack.workload.site.sessions import components_of

TOGETHER = [one for one in DISCIPLINES if not one.startswith("flow")]
ALL = ("fcfs", "sjf", "list(backfill=any)", "easy", "conservative", "slurm(interval=10 s)", "easy(nodes=whole)")


@pytest.mark.parametrize("discipline", TOGETHER)
@pytest.mark.parametrize("mix", list(MIXES))
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_beside_every_resource_components_start_and_end_together(mix: str, discipline: str, seed: int) -> None:
    world = world_of(mix, seed)
    jobs = with_components(world.jobs, seed)
    result = unrack.simulate(
        world.cluster, workload(jobs), with_rules(discipline, **MIXES[mix][1]), world=physics(world), seed=5
    )
    assert together(result, jobs) > 0


@pytest.mark.long
@pytest.mark.parametrize("policy", [*ALL[:6], "conservative(memory=disaggregated)"])
def test_who_is_preempted_is_preempted_with_all_components(policy: str) -> None:
    stopped = 0
    for seed in range(5):
        cluster, jobs = mixed_site(seed)
        made = with_components(jobs.jobs, seed)
        result = unrack.simulate(cluster, workload(made), policy)
        assert together(result, made) > 0
        stopped += int(result.metrics["preemptions"] or 0)
    assert stopped > 0


TIERS = {
    "nodes": [{"count": 3, "cores": 2}],
    "site": {
        "partitions": [
            {"name": "low", "tier": 1, "nodes": ["0"], "preempt_mode": "cancel"},
            {"name": "mid", "tier": 2, "nodes": ["0-1"]},
            {"name": "high", "tier": 3, "nodes": ["1-2"], "preempt_mode": "checkpoint"},
            {"name": "top", "tier": 4, "nodes": ["0-2"]},
            {"name": "upper", "tier": 4, "nodes": ["1-2"]},
        ],
        "preempt": {"by": "partition", "mode": "requeue"},
    },
}


@pytest.mark.parametrize("policy", ALL[:6])
@pytest.mark.parametrize("parts", [("low", "high"), ("high", "low")])
def test_components_of_several_tiers_are_preempted_as_all_of_them_may_be(parts: tuple[str, str], policy: str) -> None:
    """By jobs that may preempt each of them, in the gentlest of their modes, whichever is the first."""
    both = [{"id": f"a{i}", "work": 50, "het": "a", "tasks": 2, "partition": name} for i, name in enumerate(parts)]
    mid = {"id": "m", "submit": 10, "work": 5, "tasks": 4, "partition": "mid"}
    top = {"id": "t", "submit": 20, "work": 5, "tasks": 6, "partition": "top"}
    result = run(TIERS, [*both, mid, top], policy)
    ran = result.placements.select("job", "start_s", "end_s", "outcome").unique().sort("job", "start_s").rows()
    last = starts(result)["a0"]
    assert last is not None
    once = [(0.0, 20.0, "preempted"), (last, last + 30, "finished")]  # 20 s were done
    assert [(*row,) for row in ran if row[0][0] == "a"] == [(job, *own) for job in ("a0", "a1") for own in once]
    assert starts(result)["t"] == 20.0
    assert result.jobs["preemptions"].to_list() == [1, 1, 0, 0]


@pytest.mark.parametrize("policy", ALL[:6])
@pytest.mark.parametrize("parts", [("low", "upper"), ("upper", "low")])
def test_components_of_several_tiers_preempt_what_all_of_them_may(parts: tuple[str, str], policy: str) -> None:
    running = [{"id": f"{name}{node}", "work": 50, "tasks": 2, "partition": name} for name, node in
               (("low", 0), ("high", 1))]  # fmt: skip
    both = [{"id": f"a{i}", "submit": 10, "work": 5, "het": "a", "tasks": 2, "partition": name}
            for i, name in enumerate(parts)]  # fmt: skip
    filler = {"id": "f", "work": 50, "tasks": 2, "partition": "high"}
    result = run(TIERS, [*running, filler, *both], policy)
    assert starts(result) == {"low0": 0.0, "high1": 0.0, "f": 0.0, "a0": 50.0, "a1": 50.0}


def jobs_of(seed: int, count: int = 40) -> JobTable:
    draw = np.random.default_rng(seed)
    work = draw.integers(1, 20, count) * S
    return job_table(
        submit_us=np.sort(draw.integers(0, 60, count)) * S, work_us=work,
        request_us=work + draw.integers(0, 20, count) * S * draw.integers(0, 2, count),
        tasks=draw.integers(1, 4, count), cores=draw.integers(1, 3, count), memory_mb=draw.integers(0, 3, count),
        user=pl.Series([f"u{u}" for u in draw.integers(0, 3, count)]),
    )  # fmt: skip


NODES = {"nodes": [{"count": 4, "cores": 4, "memory": 8}]}
ANY = (*ALL, "flow(interval=0)", "first-fit", "lookahead", "easy++", "disaggregated(scheduler=slurm)")


@pytest.mark.parametrize("policy", ANY)
def test_a_component_that_is_alone_and_a_column_that_says_nothing_change_nothing(policy: str) -> None:
    cluster = Cluster.from_dict(NODES)
    for seed in range(3):
        jobs = jobs_of(seed)
        plain = unrack.simulate(cluster, workload(jobs), policy).jobs
        for het in ([""] * len(jobs), list(map(str, range(1, 1 + len(jobs))))):
            said = replace(jobs, extra=pl.DataFrame({"het": het}))
            found = unrack.simulate(cluster, workload(said), policy).jobs
            assert found.select("start_s", "end_s").equals(plain.select("start_s", "end_s"))


@pytest.mark.parametrize("policy", ALL[:6])
def test_components_that_are_alike_are_one_job_of_all_their_tasks(policy: str) -> None:
    cluster = Cluster.from_dict(NODES)
    for seed in range(4):
        jobs, draw = jobs_of(seed), np.random.default_rng(seed)
        parts = draw.integers(1, 4, len(jobs))
        rows = np.repeat(np.arange(len(jobs)), parts)
        apart = jobs.take(rows)
        ids = [f"{row}+{i}" for row, count in enumerate(parts.tolist()) for i in range(count)]
        apart = replace(apart, ids=pl.Series("job", ids), extra=pl.DataFrame({"het": [str(1 + row) for row in rows]}))
        asks = jobs.asks.copy()
        asks[0] *= parts
        one = unrack.simulate(cluster, workload(replace(jobs, asks=asks)), policy).jobs
        many = unrack.simulate(cluster, workload(apart), policy).jobs
        firsts = np.cumsum(parts) - parts
        assert many["start_s"].gather(firsts).to_list() == one["start_s"].to_list()
        assert (one["wait_s"] > 0).any()


def test_who_comes_later_changes_nothing_earlier() -> None:
    cluster = Cluster.from_dict(NODES)
    for policy in ALL:
        jobs = with_components(jobs_of(7), 7)
        middle = int(jobs.submit_us[len(jobs) // 2])
        early = jobs.submit_us < middle
        before = unrack.simulate(cluster, workload(jobs.take(early)), policy).jobs["start_s"].to_list()
        after = unrack.simulate(cluster, workload(jobs), policy).jobs["start_s"].to_list()[: int(early.sum())]
        assert [at for at in after if at is not None and at * S < middle] == [
            at for at in before if at is not None and at * S < middle
        ]


ROWS = [
    {"id": "1", "work": 10, "cores": 4, "partition": "cpu"},
    {"id": "2+0", "het": "2", "submit": 1, "work": 10, "tasks": 2, "cores": 4, "partition": "cpu"},
    {"id": "2+1", "het": "2", "submit": 1, "work": 8, "cores": 8, "gpus": 2, "partition": "gpu"},
    {"id": "3", "submit": 2, "work": 20, "tasks": 2, "cores": 8, "partition": "gpu"},
    {"id": "4", "submit": 3, "work": 5, "cores": 8, "gpus": 2, "partition": "gpu"},
]


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        # job 3 waits for GPU nodes behind a head that waits for CPU nodes; 4 ends before that is to start
        ("fcfs", [0, 10, 10, 20, 40]), ("easy", [0, 10, 10, 20, 3]), ("conservative", [0, 10, 10, 20, 3]),
        ("list(backfill=any)", [0, 22, 22, 2, 22]),
    ],
)  # fmt: skip
def test_components_in_two_partitions_wait_for_both(policy: str, wanted: list[float]) -> None:
    result = run(PARTED, ROWS, policy)
    assert list(starts(result).values()) == wanted
    found = result.jobs.filter(pl.col("het") == "2")
    assert found["end_s"].n_unique() == 1
    assert found["run_s"].to_list() == [10, 10]  # as long as the longest component
    assert found["nodes"].to_list() == [2, 1]
    assert found["cores"].to_list() == [8, 8]


def test_a_failed_node_of_one_component_stops_all() -> None:
    rows = [{**row, "submit": 0} for row in ROWS[1:3]]
    result = run(PARTED, rows, "easy", world=World(faults=(Fault("node2", 4 * S, 100 * S),)))
    placements = result.placements.select("job", "start_s", "end_s", "outcome").unique()
    found = {(job, start, end, outcome) for job, start, end, outcome in placements.iter_rows()}
    assert found == {
        (job, start, end, outcome)
        for job in ("2+0", "2+1")
        for start, end, outcome in ((0, 4, "node-failed"), (4, 14, "finished"))
    }
    assert result.jobs["restarts"].to_list() == [1, 1]


def test_others_wait_for_all_of_a_heterogeneous_job_and_it_waits_for_what_any_component_waits_for() -> None:
    rows = [
        {"id": "1", "work": 7, "partition": "cpu"},
        {"id": "2+0", "het": "2", "work": 10, "partition": "cpu"},
        {"id": "2+1", "het": "2", "work": 10, "partition": "gpu", "dependency": "afterok:1"},
        {"id": "3", "work": 1, "partition": "cpu", "dependency": "afterok:2+1"},
    ]
    result = run(PARTED, rows, "easy")
    assert starts(result) == {"1": 0, "2+0": 7, "2+1": 7, "3": 17}
    assert result.jobs["eligible_s"].to_list() == [0, 7, 7, 17]
    rows[2]["dependency"] = "afterok:2+0"
    with pytest.raises(InputError, match="no component of its own job"):
        run(PARTED, rows)


@pytest.mark.parametrize("policy", ALL)
def test_a_component_that_can_never_run_refuses_the_whole_job_and_is_named(policy: str) -> None:
    rows = [{**ROWS[1]}, {**ROWS[2], "gpus": 3}, {"id": "5", "submit": 1, "work": 5, "cores": 4, "partition": "cpu"}]
    result = run(PARTED, rows, policy)
    assert result.jobs["state"].to_list() == ["rejected", "rejected", "finished"]
    assert result.jobs["reason"].str.contains("component 2+1", literal=True).to_list() == [True, True, False]


@pytest.mark.parametrize("policy", ALL)
def test_components_that_fit_each_but_not_together_are_refused(policy: str) -> None:
    rows = [{**ROWS[1]}, {**ROWS[1], "id": "2+1"}, {"id": "5", "submit": 1, "work": 5, "cores": 4, "partition": "cpu"}]
    result = run(PARTED, rows, policy)
    assert result.jobs["state"].to_list() == ["rejected", "rejected", "finished"]
    assert result.jobs["reason"][0] == "too-big: an empty cluster for all of its components at once"
    assert result.jobs["reason"][1] == result.jobs["reason"][0]


def test_components_count_for_limits_together() -> None:
    limits = [{"per": "user", "amounts": {"cores": 6}}]
    cluster = {"nodes": [{"count": 4, "cores": 8}], "site": {"limits": limits}}
    rows = [
        {"id": "1", "work": 10, "cores": 3},
        {"id": "2+0", "het": "2", "submit": 1, "work": 10, "cores": 2},
        {"id": "2+1", "het": "2", "submit": 1, "work": 10, "cores": 2},
        {"id": "3", "submit": 2, "work": 5, "cores": 3},
        {"id": "4", "submit": 2, "work": 5, "cores": 3, "user": "v"},
    ]
    for policy in ("fcfs", "easy"):
        assert list(starts(run(cluster, rows, policy)).values()) == [0, 10, 10, 2, 2]
    assert list(starts(run(cluster, rows, "conservative")).values()) == [0, 10, 10, 2, 2]


def test_an_order_by_size_counts_all_components() -> None:
    rows = [
        {"id": "0", "work": 10, "cores": 8}, {"id": "1", "submit": 1, "work": 5, "cores": 6},
        {"id": "2+0", "het": "2", "submit": 1, "work": 5, "cores": 4},
        {"id": "2+1", "het": "2", "submit": 1, "work": 5, "cores": 4},
    ]  # fmt: skip
    cluster = {"nodes": [{"count": 1, "cores": 8}]}
    assert list(starts(run(cluster, rows, "list(order=smallest)")).values()) == [0, 10, 15, 15]
    assert list(starts(run(cluster, rows, "list(order=largest)")).values()) == [0, 15, 10, 10]


def test_a_policy_that_places_jobs_one_by_one_says_that_it_cannot() -> None:
    with pytest.raises(PolicyError, match="heterogeneous jobs"):
        run(PARTED, ROWS, "flow")


def test_components_of_two_users_are_refused_with_their_place_and_others_are_other_jobs() -> None:
    rows = [{**row} for row in ROWS]
    rows[2]["user"] = "v"
    with pytest.raises(InputError, match=r"job 2\+0, het: got components of u and v, wanted components of one user"):
        run(PARTED, rows)
    rows[2]["user"], rows[2]["submit"] = "u", 2
    assert components_of(table(rows)) == {}  # of one number at two times: two jobs
    assert components_of(table(ROWS)) == {1: (1, 2)}


def test_the_ledger_refuses_what_is_not_the_lease_of_all_components() -> None:
    asks = np.array([[1, 2], [2, 1], [0, 3], [10, 10]], np.int64)
    state = ClusterState(
        Cluster.from_dict({"nodes": [{"count": 2, "cores": 4, "memory": 8}]}), asks, components={0: (0, 1)}
    )
    state.submit(0)
    parts = Lease.on(0, [0], [1], [2], [0]), Lease.on(1, [0, 1], [1, 1], [1, 1], [3, 3])
    good = whole(0, parts)
    short = whole(0, (parts[0], Lease.on(1, [0, 1], [1, 1], [1, 1], [3, 2])))
    few = whole(0, (parts[0], Lease.on(1, [0], [1], [1], [3])))
    bare = good._replace(parts=())
    other = good._replace(rows=good.rows[::-1].copy())
    for lease in (short, few, bare, other, whole(0, parts[:1]), Lease.on(0, [0], [3], [6], [6])):
        before = state.free.copy()
        with pytest.raises(RefusedError):
            state.start(lease, 10, 0)
        assert (state.free == before).all()
    state.start(good, 10, 0)
    assert state.free.tolist() == [[1, 3], [5, 5]]
    assert state.lease(0).parts[1].rows.tolist() == parts[1].rows.tolist()
    state.release(0, 10)
    assert state.free.tolist() == [[4, 4], [8, 8]]


def test_without_backfill_what_any_component_claims_is_kept_for_it() -> None:
    cluster = {
        "nodes": [{"count": 3, "cores": 4}], "counted": [{"name": "lic", "amount": 1}],
        "site": {"partitions": [{"name": name, "nodes": [str(node)]} for node, name in enumerate("abc")]},
    }  # fmt: skip
    rows = [
        {"id": "1", "work": 10, "cores": 4, "partition": "a"},
        {"id": "2+0", "het": "2", "submit": 1, "work": 5, "partition": "a"},
        {"id": "2+1", "het": "2", "submit": 1, "work": 5, "partition": "b"},
        {"id": "3", "submit": 2, "work": 5, "partition": "c"},
        {"id": "4", "submit": 2, "work": 5, "partition": "c"},
    ]
    jobs = table(rows)
    jobs = replace(jobs, devices={("counted", "lic"): np.array([0, 0, 1, 1, 0])})
    found = unrack.simulate(Cluster.from_dict(cluster), workload(jobs), "fcfs").jobs
    assert found["start_s"].to_list() == [0, 10, 10, 15, 15]  # 3 waits for the licence, and 4 behind it
    found = unrack.simulate(Cluster.from_dict(cluster), workload(jobs), "easy").jobs
    assert found["start_s"].to_list() == [0, 10, 10, 2, 2]  # 3 ends before the licence is needed


def test_fair_share_and_preemption_count_the_cores_of_all_components() -> None:
    cluster = PARTED | {"site": PARTED["site"] | {"accounts": [{"name": "lab"}], "priority": {}}}
    kernel = prepared(Cluster.from_dict(cluster), table(ROWS), parse_policy("easy(order=multifactor)"))
    view, jobs = kernel.core.view, np.array([0, 1, 3])
    rules = Rules.of(view)
    assert rules.asked(view, "cores", jobs).tolist() == [4, 16, 16]
    assert rules.asked(view, "nodes", jobs).tolist() == [1, 2, 2]  # the fewest: of two tasks of 4 cores one of 8 cores
    assert rules.asked(view, "gpus.count", jobs).tolist() == [0, 2, 0]
    assert [view.cores_asked(job) for job in jobs.tolist()] == [4, 16, 16]
