"""Laws of jobs with sizes: one size is no choice, work is conserved, and nobody's start is put off for growth."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from size_worlds import S, run, spans, workload, world

import unrack
from unrack.cluster.spec import Cluster
from unrack.errors import InputError, PolicyError, UnrackError
from unrack.ledger.changes import reshape
from unrack.ledger.lease import Sizes
from unrack.ledger.state import ClusterState
from unrack.policy.table import parse_policy
from unrack.sim.faults import Fault
from unrack.sim.simulate import prepared
from unrack.workload.formats.rules import Intake
from unrack.workload.job import Workload, job_table

SEEDS = range(2)
MOLDED = (
    "fcfs({})",
    "sjf({})", "list(backfill=any, {})", "easy({})", "easy(backfill_order=sjf, {})", "easy(nodes=whole, {})",
    "conservative({})", "slurm(interval=10 s, {})", "first-fit({})", "lookahead({})",
    "easy(memory=disaggregated, {})", "topo-aware({})",
)  # fmt: skip
RESIZED = tuple(
    policy for policy in MOLDED if not any(word in policy for word in ("conservative", "slurm", "disaggregated"))
)
CASES = [
    *((policy, f"molding={rule}") for policy in MOLDED for rule in ("earliest-end", "working-set")),
    *((policy, f"resizing={rule}") for policy in RESIZED for rule in ("fpsma", "egs")),
]
CLUSTER = {
    "nodes": [{"count": 3, "cores": 2, "memory": 8}, {"count": 2, "cores": 4, "memory": 8}],
    "counted": [{"name": "licence", "amount": 6, "asked_by": "task"}],
}


def jobs_of(seed: int, count: int = 25) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    work = draw.integers(1, 20, count) * S
    return {
        "submit_us": np.sort(draw.integers(0, 60, count)) * S, "work_us": work,
        "request_us": work + draw.integers(0, 20, count) * S * draw.integers(0, 2, count),
        "tasks": draw.integers(1, 5, count), "cores": draw.integers(1, 3, count),
        "memory_mb": draw.integers(0, 3, count),
        "devices": {("counted", "licence"): draw.integers(0, 2, count) * draw.integers(0, 2, count)},
    }  # fmt: skip


def played(policy: str, jobs: dict[str, Any], **columns: Any) -> Any:
    extra = pl.DataFrame(columns) if columns else None
    work = Workload("law", job_table(**jobs, extra=extra), Intake("", "", 0, 0))
    return unrack.simulate(Cluster.from_dict(CLUSTER), work, policy)


def starts(result: Any) -> list[float | None]:
    return result.jobs.sort("job")["start_s"].to_list()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("policy", "rule"), CASES)
def test_who_has_one_size_is_rigid(policy: str, rule: str, seed: int) -> None:
    jobs = jobs_of(seed)
    rigid = played(policy.format("").replace("()", "").replace(", )", ")"), jobs)
    kinds = {"flexibility": ["malleable"] * 25, "change_s": [3.0] * 25}
    one = {"sizes": [f"{n}:60" for n in jobs["tasks"]]} | kinds
    ends = {"min_tasks": jobs["tasks"], "max_tasks": jobs["tasks"], "speedup": ["amdahl 0.1"] * 25} | kinds
    for columns in ({}, one, ends):
        assert starts(played(policy.format(rule), jobs, **columns)) == starts(rigid), columns


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("policy", "rule"), CASES)
def test_all_jobs_end_and_the_audit_finds_nothing(policy: str, rule: str, seed: int) -> None:
    jobs = jobs_of(seed)
    result = played(
        policy.format(rule), jobs, min_tasks=[1] * 25, max_tasks=[5] * 25, speedup=["downey 4 0.5"] * 25,
        flexibility=["malleable"] * 25, change_s=[2] * 25,
    )  # fmt: skip
    again = played(
        policy.format(rule), jobs, min_tasks=[1] * 25, max_tasks=[5] * 25, speedup=["downey 4 0.5"] * 25,
        flexibility=["malleable"] * 25, change_s=[2] * 25,
    )  # fmt: skip
    assert result.jobs["state"].to_list() == ["finished"] * 25
    assert result.placements.equals(again.placements)
    assert result.jobs["least_tasks"].to_list() == [1] * 25


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "policy", ["fcfs(resizing=fpsma)", "easy(resizing=egs)", "easy(molding=working-set, resizing=egs)"]
)
def test_speed_times_time_is_the_work_and_what_changes_cost(policy: str, seed: int) -> None:
    cores, jobs = world(seed, "malleable", 20)
    result = run(cores, jobs, policy)
    end_us = [round(end * S) for end in result.jobs["end_s"].to_list()]
    for number, own in spans(result).items():
        job, done, still = jobs[number], 0.0, 0
        for i, (start, size) in enumerate(own):
            still += job["change"] if i else 0
            length = (own[i + 1][0] if i + 1 < len(own) else end_us[number]) - start
            stands = min(still, length)
            still -= stands
            done += (length - stands) * job["times"][job["tasks"]] / job["times"][size]
        assert done == pytest.approx(job["work"], abs=10 * (1 + len(own)))
    assert result.jobs["size_changes"].to_list() == [len(spans(result)[n]) - 1 for n in range(len(jobs))]


@pytest.mark.parametrize("seed", range(6))
def test_nobody_grows_while_somebody_waits(seed: int) -> None:
    cores, jobs = world(seed, "malleable", 20)
    result = run(cores, jobs, "easy(resizing=fpsma)")
    waits = [(job["submit"], round(start * S)) for job, start in zip(jobs, result.jobs["start_s"], strict=True)]
    for own in spans(result).values():
        for (_, before), (at, size) in itertools.pairwise(own):
            assert size < before or not any(begin <= at < end for begin, end in waits)


def test_the_rules_are_told_apart() -> None:
    """Three jobs of up to 4 tasks on 7 cores: the oldest grows to its most, or all grow alike."""
    job = {"submit": 0, "work": 100 * S, "request": 100 * S, "tasks": 1, "times": {1: 100, 2: 50, 4: 25},
           "malleable": True, "change": 0}  # fmt: skip
    sizes = {}
    for rule in ("fpsma", "egs"):
        found = spans(run(7, [job] * 3, f"fcfs(resizing={rule})"))
        sizes[rule] = [found[number][0][1] for number in range(3)]
    assert sizes == {"fpsma": [4, 2, 1], "egs": [2, 2, 2]}


def test_a_change_that_costs_more_than_it_saves_is_not_made() -> None:
    job = {"submit": 0, "work": 100 * S, "request": 100 * S, "tasks": 1, "times": {1: 100, 2: 50}, "malleable": True}
    other = {
        "submit": 0,
        "work": 10 * S,
        "request": 10 * S,
        "tasks": 1,
        "times": {1: 1},
        "malleable": False,
        "change": 0,
    }
    for change, end in ((46, 100.0), (45, 100.0), (44, 99.0)):
        assert run(2, [job | {"change": change * S}, other], "fcfs(resizing=fpsma)").jobs["end_s"][0] == end
    assert run(2, [job | {"change": 46 * S}], "fcfs(resizing=fpsma)").jobs["end_s"][0] == 50.0  # it starts so


def test_what_is_asked_of_other_things_scales_with_the_tasks() -> None:
    """Six licences, one a task: a job cannot grow beyond them."""
    one = np.ones(1, np.int64)
    jobs = {"submit_us": 0 * one, "work_us": 60 * S * one, "tasks": 2 * one, "devices": {("counted", "licence"): one}}
    result = played(
        "fcfs(resizing=fpsma)", jobs, min_tasks=[1], max_tasks=[8], speedup=["linear"], flexibility=["malleable"]
    )
    assert result.jobs["mean_tasks"].to_list() == [6.0]
    assert result.table("claims")["amount"].to_list() == [6]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"sizes": ["2:10;4"]}, "sizes"),
        ({"sizes": ["3:10;4:9"]}, "its own size"),
        ({"sizes": ["2:10;2:9"]}, "sizes"),
        ({"min_tasks": [1], "max_tasks": [4]}, "speedup"),
        ({"min_tasks": [3], "max_tasks": [4], "speedup": ["linear"]}, "range"),
        ({"min_tasks": [1], "speedup": ["downey 0.5 1"]}, "downey"),
        ({"min_tasks": [1], "speedup": ["amdahl 2"]}, "amdahl"),
        ({"sizes": ["2:10"], "flexibility": ["elastic"]}, "malleable"),
        ({"sizes": ["2:10"], "change_s": [-1.0]}, "seconds"),
        ({"sizes": ["2:10;4:5"], "flexibility": ["evolving"], "evolves": ["0.5:3"]}, "parts of its work"),
        ({"sizes": ["2:10;4:5"], "flexibility": ["moldable"], "evolves": ["0.5:4"]}, "evolving"),
        ({"sizes": ["2:10;99999999999999999999:5"]}, "sizes"),
        ({"sizes": ["2:10;²:5"]}, "sizes"),
        ({"max_tasks": [10.0**20], "speedup": ["linear"]}, "max_tasks"),
        ({"sizes": ["2:10"], "evolves": ["0.5:²"]}, "parts of its work"),
        ({"evolves": ["0.5:4"]}, "parts of its work"),
        ({"speedup": ["linear"], "evolves": ["0.5:4"]}, "parts of its work"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(columns: dict[str, Any], words: str) -> None:
    one = np.ones(1, np.int64)
    with pytest.raises(InputError, match=words) as error:
        played("easy", {"submit_us": 0 * one, "work_us": S * one, "tasks": 2 * one}, **columns)
    assert "job 1" in str(error.value)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("conservative(resizing=egs)", "promises"),
        ("slurm(resizing=egs)", "promises"),
        ("easy(memory=disaggregated, resizing=egs)", "lends"),
        ("flow(molding=earliest-end)", "classes jobs"),
        ("easy++(molding=earliest-end)", "learns"),
        ("slo(molding=earliest-end)", "tiers"),
        ("easy(molding=largest)", "earliest-end"),
    ],
)
def test_what_does_not_go_with_a_policy_is_refused(policy: str, words: str) -> None:
    cores, jobs = world(0, "malleable")
    with pytest.raises((PolicyError, UnrackError), match=words):
        run(cores, jobs, policy)


def test_limits_that_count_by_a_jobs_own_size_are_refused() -> None:
    cores, jobs = world(0, "moldable")
    site = {"qos": [{"name": "normal", "limits": [{"per": "user", "amounts": {"cores": 4}}]}]}
    cluster = Cluster.from_dict({"nodes": [{"count": cores, "cores": 1, "memory": 4}], "site": site})
    made = workload(jobs, user=pl.Series(["u"] * len(jobs)))
    made.jobs.extra.insert_column(0, pl.Series("qos", ["normal"] * len(jobs)))
    with pytest.raises(InputError, match="limits"):
        unrack.simulate(cluster, made, "easy(molding=earliest-end)")


def test_sizes_that_nobody_chooses_are_told() -> None:
    cores, jobs = world(0, "moldable")
    assert any("sizes of jobs" in note for note in run(cores, jobs, "easy").notes)
    assert any("resizing=egs" in note for note in run(cores, jobs, "easy(resizing=egs)").notes)
    assert run(cores, jobs, "easy(molding=earliest-end)").notes == ()


def evolving(count: int, **columns: Any) -> Any:
    one = np.ones(count, np.int64)
    return {"submit_us": 0 * one, "work_us": 100 * S * one, "tasks": 2 * one}, {
        "sizes": ["1:200;2:100;4:50"] * count, "flexibility": ["evolving"] * count, **columns,
    }  # fmt: skip


def test_an_evolving_job_has_what_it_asks_for_at_its_points_where_there_is_room() -> None:
    jobs, columns = evolving(1, evolves=["0.3:4;0.7:1"], change_s=[2.0])
    result = played("easy(resizing=fpsma)", jobs, **columns)
    assert spans(result)[0] == [(0, 2), (30 * S, 4), (52 * S, 1)]  # 30 + 2 + 40 / 2
    assert result.jobs["end_s"].to_list() == [52.0 + 2.0 + 60.0]
    assert result.jobs["size_changes"].to_list() == [2]


def test_an_evolving_job_goes_on_as_it_is_until_nobody_waits_and_there_is_room() -> None:
    jobs, columns = evolving(2, evolves=["0.3:4", None])
    jobs = jobs | {"tasks": np.array([2, 12]), "cores": np.ones(2, np.int64), "work_us": np.array([100, 60]) * S}
    columns["sizes"], columns["flexibility"] = ["2:100;4:50", None], ["evolving", None]
    result = played("fcfs(resizing=fpsma)", jobs, **columns)
    assert spans(result)[0] == [(0, 2), (60 * S, 4)]
    assert result.jobs["end_s"].to_list() == [80.0, 60.0]


@pytest.mark.parametrize(("more", "fails"), [({"asks": [(0.5, 4)]}, 70), ({"malleable": True}, 40)])
def test_a_job_that_begins_again_does_so_with_its_own_size(more: dict[str, Any], fails: int) -> None:
    """Job 1 has four nodes when two of them fail, and job 2 comes: each has one then."""
    cluster = Cluster.from_dict({"nodes": [{"count": 4, "cores": 1}]})
    job = {"submit": 0, "work": 100 * S, "request": 100 * S, "tasks": 1, "times": {1: 100, 2: 80, 4: 60},
           "malleable": False, "change": 0}  # fmt: skip
    jobs = workload([job | more, job | {"submit": fails * S, "times": {1: 100}}])
    faults = tuple(Fault(f"node{node}", fails * S, 1000 * S) for node in (2, 3))
    result = unrack.simulate(cluster, jobs, "fcfs(resizing=fpsma)", world=unrack.World(faults=faults))
    began = result.placements.filter(pl.col("start_s") == fails).select("job", "attempt", "nodes").rows()
    assert began == [(1, 2, 1), (2, 1, 1)]


def test_what_an_evolving_job_asks_for_is_told_to_be_ignored_without_a_rule() -> None:
    jobs, columns = evolving(1, evolves=["0.5:4"])
    result = played("easy", jobs, **columns)
    assert len(spans(result)[0]) == 1
    assert any("sizes" in note for note in result.notes)


@pytest.mark.parametrize("policy", ["fcfs({})", "easy({})", "conservative({})", "slurm(interval=10 s, {})"])
def test_a_job_that_fits_at_its_smallest_size_alone_is_not_turned_away(policy: str) -> None:
    job = {"submit": 0, "work": 60 * S, "request": 60 * S, "tasks": 8, "times": {2: 40, 4: 20, 8: 10},
           "malleable": False, "change": 0}  # fmt: skip
    for rule in ("earliest-end", "working-set"):
        found = run(4, [job, job | {"times": {6: 20, 8: 10}}], policy.format(f"molding={rule}"))
        assert found.jobs["state"].to_list() == ["finished", "rejected"]
        assert found.jobs["mean_tasks"][0] in (2.0, 4.0)
    assert run(4, [job | {"malleable": True}], "easy(resizing=egs)").jobs["state"][0] == "rejected"


@pytest.mark.parametrize("policy", ["easy(molding=earliest-end)", "easy(molding=working-set)", "fcfs(resizing=fpsma)"])
def test_a_size_that_the_empty_cluster_could_not_hold_is_never_chosen(policy: str) -> None:
    """Six licences, one a task."""
    one = np.ones(1, np.int64)
    jobs = {
        "submit_us": 0 * one, "work_us": 60 * S * one, "tasks": 2 * one, "devices": {("counted", "licence"): one},
    }  # fmt: skip
    result = played(policy, jobs, sizes=["2:60;6:30;8:1"], flexibility=["malleable"])
    assert result.jobs["mean_tasks"].to_list() == [6.0]


@pytest.mark.parametrize("seed", range(8))
def test_nobody_whom_conservative_promised_a_start_is_put_off(seed: int) -> None:
    """With honest requests and sizes, the first start promised is kept or improved on."""
    cores, jobs = world(seed, "moldable", 20)
    jobs = [job | {"request": job["work"]} for job in jobs]
    first: dict[int, int] = {}

    def look(_: int) -> None:
        for job, promise in kernel.core.state.promises.by_job().items():
            first.setdefault(job, promise.start_us)

    cluster = Cluster.from_dict({"nodes": [{"count": cores, "cores": 1, "memory": 4}]})
    chosen = parse_policy("conservative(molding=earliest-end)")
    kernel = prepared(cluster, workload(jobs).jobs, chosen)
    log = kernel.run(after_round=look)
    start = dict(zip(log.attempt_job.tolist(), log.attempt_start_us.tolist(), strict=True))
    assert first
    assert all(start[job] <= promised for job, promised in first.items())


@pytest.mark.parametrize("policy", ["easy(molding=working-set)", "conservative(molding=earliest-end)"])
def test_a_job_of_which_the_cluster_holds_one_size_alone_has_that(policy: str) -> None:
    job = {"submit": 0, "work": 10 * S, "request": 10 * S, "tasks": 2, "times": {1: 20, 2: 10}, "malleable": False,
           "change": 0}  # fmt: skip
    result = run(1, [job, job | {"tasks": 1, "times": {1: 1}}], policy)
    assert result.jobs["state"].to_list() == ["finished", "finished"]
    assert result.jobs["mean_tasks"].to_list() == [1.0, 1.0]


def test_a_node_that_is_out_of_service_is_in_no_share() -> None:
    job = {"submit": 0, "work": 10 * S, "request": 10 * S, "tasks": 4, "times": {1: 40, 2: 20, 4: 10},
           "malleable": False, "change": 0}  # fmt: skip
    sizes = []
    for more in ({}, {"drained": "4-7"}):
        cluster = Cluster.from_dict({"nodes": [{"count": 8 if more else 4, "cores": 1}], **more})
        result = unrack.simulate(cluster, workload([job] * 2), "easy(molding=working-set)")
        sizes.append(result.jobs["mean_tasks"].to_list())
    assert sizes == [[2.0, 2.0]] * 2


def test_what_is_left_of_a_stopped_job_scales_with_its_size_and_so_does_all_of_it() -> None:
    jobs = job_table(submit_us=[0], work_us=[100 * S], tasks=[1])
    state = ClusterState(Cluster.homogeneous(nodes=4, cores=1), jobs.asks)
    state.sizes = {0: Sizes((1, 2, 4), (1.0, 1.25, 2.5))}
    state.submit(0)
    state.carry_on(0, 30 * S)
    reshape(state, 0, 4)
    assert state.expected_us[0] == 12 * S
    state.correct(0, 20 * S)  # of the hundred that it was to run when it last started
    assert state.expected_us[0] == 32 * S
    reshape(state, 0, 2)
    assert state.expected_us[0] == 64 * S
    state.start_over(0)
    assert state.expected_us[0] == 80 * S
